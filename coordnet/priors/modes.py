"""Modes: an orthonormal basis of the lattice signals that an encoding reaches, in which roughness is diagonal.

Signals here are ``(signals, channels, *lattice)`` and their modes ``(signals, channels, *modes)``.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import scipy.fft
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import ComplexEncoding
from coordnet.encodings.designs import separable_inverse
from coordnet.linalg.conjugate_gradients import dot
from coordnet.linalg.kronecker import (
    Operator,
    default_rcond,
    factorise,
    mode_product,
    outer_product,
    outer_sum,
    product_along,
)
from coordnet.linalg.scratch import scratch
from coordnet.linalg.separable import Stages
from coordnet.linalg.tracking import tracked
from coordnet.linalg.transforms import cosine_matrix, cosines, inverse_cosines
from coordnet.sampling.axes import Axes

THINNED = 2**16
# Samples of an axis from which even a prime number of them is sooner transformed than multiplied, on a CPU.
LONG = 512
FAST_ON_CUDA = (
    1024  # an axis from which FFTs move less memory than matrix products compute; by arithmetic, not measured
)


class Modes(ABC):
    """Orthonormal modes B = B₁ ⊗ … ⊗ B_d of a lattice, with the roughness μ_j of each on its axis.

    Attributes
    ----------
    lattice : tuple of int
        Lengths of the lattice.
    complete : bool
        Whether every lattice signal is a combination of them.
    ranks : tuple of int
        The number of modes along each axis.
    """

    lattice: tuple[int, ...]
    complete: bool
    ranks: tuple[int, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """The last dimensions of a tensor, which the modes or the lattice run along."""
        return tuple(range(-len(self.lattice), 0))

    def whole(self) -> "Modes":
        """The same modes, whatever they have of padding counted as lattice."""
        return self

    @abstractmethod
    def synthesis(self, z: Tensor) -> Float[Tensor, "signals channels *lattice"]:
        """B z: the lattice signal of some modes."""

    @abstractmethod
    def analysis(self, f: Float[Tensor, "signals channels *lattice"]) -> Tensor:
        """Bᵀ f: the modes of a lattice signal; the inverse of ``synthesis`` on its range."""

    @abstractmethod
    def roughness(self, anisotropy: tuple[float, ...]) -> Float[Tensor, "*modes"]:
        """a₁μ₁ ⊕ … ⊕ a_dμ_d, the energy of first differences of each mode."""

    @abstractmethod
    def weights(self, z: Tensor) -> Float[Tensor, "signals channels *features"]:
        """The encoding's coefficients of some modes."""

    def trace(self, symbol: Float[Tensor, "*modes"]) -> float:
        """Of B diag(symbol) Bᵀ."""
        return float(symbol.sum())

    def thinned(self, x: Float[Tensor, "signals channels *modes"]) -> Float[Tensor, "signals channels m"]:
        """Evenly spread modes, at most ``THINNED`` of them, whose mean stands for that of all."""
        flat = x.flatten(2)
        return flat[..., :: max(1, flat.shape[-1] // THINNED) | 1]

    @abstractmethod
    def smooth(self, x: Float[Tensor, "*signals_modes"], width: float) -> Float[Tensor, "*signals_modes"]:
        """A Gaussian mean over neighbouring modes, ``width`` of them wide."""

    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        """⟨a, b⟩ of every signal and channel, shaped to broadcast against them."""
        product = dot(a.flatten(2), b.flatten(2))
        return product.reshape(*product.shape, *(1,) * (a.ndim - 2))

    def filter(
        self, f: Float[Tensor, "signals channels *lattice"], symbol: Tensor, overwrite: bool = False
    ) -> Float[Tensor, "signals channels *lattice"]:
        """B diag(symbol) Bᵀ f, in the memory of f where that may be overwritten and it is of use."""
        return self.synthesis(self.analysis(f).mul_(symbol))


class EncodingModes(Modes):
    """The modes of a complex encoding's span on a lattice.

    With the thin SVD A_j = U_j S_j V_jᵀ of an axis's design and its first differences D, the eigenvectors of
    (D U_j)ᵀ(D U_j) = Q_j diag(μ_j) Q_jᵀ give B_j = U_j Q_j: the generalised eigenproblem of ∫ψ'ψ'ᵀ against the Gram
    matrix, by lattice quadrature, without forming a Gram matrix. Where an axis reaches every lattice signal (as a
    basis with a node a sample does) its modes are the cosines of the DCT, whatever the encoder.

    A mode of unit norm takes coefficients of norm ‖C e‖, the product of its axes'. Where that times the norm of the
    designs is above 1/``rcond``, rounding would drown the mode in what it is made of, and it is left out: axes that
    are each well enough conditioned may not be so together.

    With ``overwrite`` a method may write over what it is given, and leaves its result there or in scratch memory.

    Parameters
    ----------
    encoding : ComplexEncoding
        The encoding.
    axes : tuple of Axis
        The lattice.
    rcond : float, optional
        Relative cut of singular values; see ``KroneckerLeastSquares``.
    dtype, device
        Of the values to come.
    """

    def __init__(
        self,
        encoding: ComplexEncoding,
        axes: Axes,
        *,
        rcond: float | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.lattice = tuple(axis.count for axis in axes)
        self._inverse = None
        self._kept: Tensor | None = None
        inverse = separable_inverse(encoding, axes, rcond=rcond, warn=False, dtype=dtype, device=device)
        if inverse is not None and all(a.shape[0] >= a.shape[1] for a in inverse):
            self._inverse = Stages(inverse)
            self._to_weights = self._inverse.ready("float32", dtype)
            made = _each_axis(inverse, lambda a: _complete_axis(a, device))
        else:
            designs = encoding.matrices(axes, device=device)
            cut = default_rcond([n for a in designs for n in a.shape], dtype) if rcond is None else rcond
            made = _each_axis(designs, lambda a: _axis_modes(a, cut))
            kept = cut * outer_product([axis.growth() for axis in made]) <= 1
            self._kept = None if bool(kept.all()) else kept.to(dtype)
        self.ranks = tuple(len(axis.roughness) for axis in made)
        self.complete = self.ranks == self.lattice and self._kept is None
        self._axes, self._dtype = made, dtype
        self._roughness = [axis.roughness.to(dtype) for axis in made]

    @cached_property
    def _basis(self) -> list[Tensor]:
        return [axis.basis().to(self._dtype) for axis in self._axes]

    @cached_property
    def _adjoint(self) -> list[Tensor]:
        return [b.T.contiguous() for b in self._basis]

    @cached_property
    def axis_coefficients(self) -> list[Float[Tensor, "_ _"]]:
        """C_j of every axis, (K_j, r_j), with A_j C_j = B_j."""
        return [axis.coefficients().to(self._dtype) for axis in self._axes]

    def synthesis(self, z: Tensor, overwrite: bool = False) -> Float[Tensor, "signals channels *lattice"]:
        """B z: by a fast cosine transform where that is what it is."""
        if self._fast(z):
            return inverse_cosines(z, len(self.axes), overwrite)
        out = scratch(z, (*z.shape[:2], *self.lattice), z) if overwrite else None
        return mode_product(z if self._kept is None else z * self._kept, self._basis, out)

    def analysis(self, f: Float[Tensor, "signals channels *lattice"], overwrite: bool = False) -> Tensor:
        """Bᵀ f."""
        if self._fast(f):
            return cosines(f, len(self.axes), overwrite)
        out = scratch(f, (*f.shape[:2], *self.ranks), f) if overwrite else None
        z = mode_product(f, self._adjoint, out)
        return z if self._kept is None else z.mul_(self._kept)

    def filter(
        self, f: Float[Tensor, "signals channels *lattice"], symbol: Tensor, overwrite: bool = False
    ) -> Float[Tensor, "signals channels *lattice"]:
        """B diag(symbol) Bᵀ f, by cosine transforms in place where they are fast."""
        if not self._fast(f):
            return super().filter(f, symbol)
        dims = len(self.axes)
        return inverse_cosines(cosines(f, dims, overwrite).mul_(symbol), dims, overwrite=True)

    def trace(self, symbol: Float[Tensor, "*modes"]) -> float:
        """Of B diag(symbol) Bᵀ, without the modes that are left out."""
        return super().trace(symbol if self._kept is None else symbol * self._kept)

    def roughness(self, anisotropy: tuple[float, ...]) -> Float[Tensor, "*modes"]:
        """a₁μ₁ ⊕ … ⊕ a_dμ_d."""
        return outer_sum([a * mu for a, mu in zip(anisotropy, self._roughness, strict=True)])

    def weights(
        self, z: Tensor, out: Float[Tensor, "signals channels *features"] | None = None
    ) -> Float[Tensor, "signals channels *features"]:
        """The encoding's coefficients of some modes: A⁺ B z where A⁺ is narrow, else C z.

        In ``out`` if given, which gives it ``z`` to write over.
        """
        if self._inverse is not None:
            return self._to_weights(self.synthesis(z, overwrite=out is not None), out)
        return mode_product(z, self.axis_coefficients, out)

    def fused(self, designs: Sequence[Operator]) -> Callable[[Tensor, Tensor | None], Tensor]:
        """What renders modes by the designs of a lattice, without the coefficients between; see ``weights``."""
        if self._inverse is not None:
            onto = self._inverse.then(designs).ready("float32", self._dtype)
            return lambda z, out: onto(self.synthesis(z, overwrite=out is not None), out)
        stages = Stages([axis.coefficients() for axis in self._axes])
        return stages.then(designs).ready("float32", self._dtype)

    def smooth(self, x: Float[Tensor, "*signals_modes"], width: float) -> Float[Tensor, "*signals_modes"]:
        """A Gaussian mean over neighbouring modes, less of them at the ends."""
        kernels = []
        for n in self.ranks:
            k = torch.arange(n, device=x.device)
            kernel = torch.exp(-0.5 * ((k.unsqueeze(1) - k) / width) ** 2).to(x)
            kernels.append(kernel / kernel.sum(1, keepdim=True))
        return mode_product(x, kernels)

    def _fast(self, x: Tensor) -> bool:
        if not self.complete or tracked(x):
            return False
        if x.device.type != "cpu":
            return max(self.lattice) >= FAST_ON_CUDA
        return all(n >= LONG or scipy.fft.next_fast_len(n) == n for n in self.lattice)


@dataclass(frozen=True)
class _AxisModes:
    """What the modes of one axis are made of, B (N, r) and C (K, r) when they are wanted.

    Attributes
    ----------
    basis, coefficients : function
        B, and C with A C = B.
    roughness : (r,)
        μ.
    norm : float
        ‖A‖₂, or NaN where nobody asks.
    """

    basis: Callable[[], Tensor]
    coefficients: Callable[[], Tensor]
    roughness: Tensor
    norm: float = math.nan

    def growth(self) -> Tensor:
        """‖A‖ ‖C e‖ of every mode e."""
        return self.norm * self.coefficients().norm(dim=0)


def _each_axis(matrices: Sequence[Operator], make: Callable[[Any], _AxisModes]) -> list[_AxisModes]:
    """The modes of every axis, of equal ones once."""
    made: list[_AxisModes] = []
    for j, a in enumerate(matrices):
        same = next((i for i in range(j) if _equal(matrices[i], a)), None)
        made.append(make(a) if same is None else made[same])
    return made


def _equal(a: Operator, b: Operator) -> bool:
    return a is b or (isinstance(a, Tensor) and isinstance(b, Tensor) and torch.equal(a, b))


def _complete_axis(inverse: Operator, device: torch.device | str, norm: float = math.nan) -> _AxisModes:
    """The cosines of an axis that reaches every lattice signal, of whose design the pseudo-inverse is known."""
    n = inverse.shape[1]
    mu = 2 - 2 * torch.cos(math.pi / n * torch.arange(n, dtype=torch.float64, device=device))

    def basis() -> Tensor:
        return cosine_matrix(n).to(device)

    return _AxisModes(basis, lambda: product_along(basis(), inverse, 0), mu, norm)


def _axis_modes(design: Tensor, rcond: float) -> _AxisModes:
    """The modes of one axis by the SVD of its design."""
    factor = factorise(design, rcond)
    norm = float(factor.s[0])
    if factor.rank == len(design):
        return _complete_axis((factor.v / factor.s) @ factor.u.mH, design.device, norm)
    stiffness = factor.u.diff(dim=0)
    mu, q = torch.linalg.eigh(stiffness.mH @ stiffness)
    return _AxisModes(lambda: factor.u @ q, lambda: (factor.v / factor.s) @ q, mu.clamp(min=0), norm)
