"""The energy of a discrete thin plate, as a sparse matrix."""

import itertools
import math
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse

Sparse = Any  # a sparse array of SciPy, the operators of which its stubs do not describe


def plate_energy(
    lattice: tuple[int, ...],
    order: int | float,
    frequency: float = math.pi,
    periodic: tuple[bool, ...] = (),
    corner: float = 0.0,
    anisotropy: tuple[float, ...] = (),
) -> Sparse:
    """Return K = Σ p!/α! a^α (D^α)ᵀ D^α over |α| = p, with D^α = D₁^α₁ ⊗ … ⊗ D_d^α_d and first differences D_j.

    The ``anisotropy`` has the weights a_j of the squared frequencies along each axis, a^α = a₁^α₁ … a_d^α_d; all are 1
    if it is empty. The differences are those of the open lattice: each stays within it, so that polynomials of degree
    below p have no energy; those of a periodic axis go around it. K is (size, size) in float64, with the first axis of
    the lattice slowest. Below |ω|² is Σ a_j ω_j².

    The energy of order p + 1/2 is |ω|^(2p+1) in frequencies, which no differences have. In its place is its tangent,
    (ω₀ |ω|^2p + |ω|^(2p+2) / ω₀) / 2, at a ``frequency`` ω₀ in radians a node; it is nowhere below.

    With a ``corner`` κ in radians a node the energy of a whole order is Σ p!/q!(p-q)! κ^(2p-2q) K_q over q ≤ p, which
    is (κ² + |ω|²)^p in frequencies: its inverse is the covariance of Whittle and Matérn, of smoothness p - d/2.
    Lindgren, Rue and Lindström, "An explicit link between Gaussian fields and Gaussian Markov random fields" (2011).
    """
    if order % 1:
        lower = int(order)
        below, above = (plate_energy(lattice, p, periodic=periodic, anisotropy=anisotropy) for p in (lower, lower + 1))
        return sparse.csr_array(0.5 * (frequency * below + above / frequency))
    size, order, periodic = math.prod(lattice), int(order), periodic or (False,) * len(lattice)
    described = zip(lattice, periodic, anisotropy or (1.0,) * len(lattice), strict=True)
    axes = [[weight**a * _axis_energy(n, a, wraps) for a in range(order + 1)] for n, wraps, weight in described]
    total: Sparse = sparse.csr_array((size, size))
    for alpha in itertools.product(range(order + 1), repeat=len(lattice) - 1):
        if (left := order - sum(alpha)) >= 0:
            powers = range(0 if corner else left, left + 1)  # the last axis, of which all terms have the others alike
            weights = [_multinomial(order, *alpha, a) * corner ** (2 * (left - a)) for a in powers]
            last = sum(weight * axes[-1][a] for weight, a in zip(weights, powers, strict=True))
            parts = [*(energies[a] for energies, a in zip(axes, alpha, strict=False)), last]
            total = total + reduce(lambda a, b: sparse.kron(a, b, "csr"), parts)
    return sparse.csr_array(total)


def _multinomial(order: int, *alpha: int) -> float:
    """Return p!/α!(p - |α|)!."""
    return math.factorial(order) / math.prod(map(math.factorial, (*alpha, order - sum(alpha))))


def polynomials(order: int | float, dims: int) -> int:
    """Return the number of monomials of a degree below the order, rounded down, which have no energy."""
    return math.comb(int(order) - 1 + dims, dims)


def _axis_energy(count: int, power: int, periodic: bool) -> Sparse:
    """Return (D^a)ᵀ D^a on an axis; zero where it is too short for the difference."""
    if power >= count:
        return sparse.csr_array((count, count))
    rows = count if periodic else count - power
    columns = (np.arange(rows)[:, None] + np.arange(power + 1)) % count
    binomial = np.tile([(-1.0) ** (power - k) * math.comb(power, k) for k in range(power + 1)], rows)
    starts = np.arange(0, rows * (power + 1) + 1, power + 1)
    difference: Sparse = sparse.csr_array((binomial, columns.ravel(), starts), shape=(rows, count))
    return sparse.csr_array(difference.T @ difference)
