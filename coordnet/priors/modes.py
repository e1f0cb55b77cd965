"""Modes: an orthonormal basis of the lattice signals that an encoding reaches, in which roughness is diagonal.

Signals here are ``(signals, channels, *lattice)`` and their modes ``(signals, channels, *modes)``.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import Encoding
from coordnet.encodings.designs import separable_inverse
from coordnet.linalg.conjugate_gradients import dot
from coordnet.linalg.kronecker import (
    Kronecker,
    Matrix,
    default_rcond,
    factorize,
    for_each_distinct,
    mode_product,
    outer_product,
    outer_sum,
    product_along,
)
from coordnet.linalg.operators import Diagonal, LinearOperator
from coordnet.linalg.transforms import CosineBasis, cosine_matrix
from coordnet.sampling.axes import Axes

MAX_SUBSAMPLE = 2**16  # modes whose mean stands for the mean of all


class Modes(LinearOperator):
    """Orthonormal modes B = B₁ ⊗ … ⊗ B_d of a lattice: z ↦ B z, with the roughness μ_j of each mode on its axis.

    Attributes
    ----------
    spans_grid : bool
        Whether every lattice signal is a combination of modes.
    ranks : tuple of int
        The number of modes along each axis.
    """

    spans_grid: bool
    ranks: tuple[int, ...]

    @property
    def lattice(self) -> tuple[int, ...]:
        """The lengths of the lattice."""
        return self.codomain

    @property
    def axes(self) -> tuple[int, ...]:
        """The trailing dimensions of a tensor that run along the modes or the lattice."""
        return tuple(range(-len(self.lattice), 0))

    def on_padded_grid(self) -> "Modes":
        """Return the same modes with their padding, if there is one, as a part of the lattice."""
        return self

    @abstractmethod
    def roughness(self, anisotropy: tuple[float, ...]) -> Float[Tensor, "*modes"]:
        """Return a₁μ₁ ⊕ … ⊕ a_dμ_d, the energy of first differences of each mode."""

    @abstractmethod
    def coefficients(self, z: Tensor) -> Float[Tensor, "signals channels *features"]:
        """Return the encoding's coefficients for some modes."""

    def filter_trace(self, symbol: Float[Tensor, "*modes"]) -> float:
        """Return the trace of B diag(symbol) Bᵀ."""
        return float(symbol.sum())

    def subsample(self, x: Float[Tensor, "signals channels *modes"]) -> Float[Tensor, "signals channels m"]:
        """Return evenly spread modes, at most ``MAX_SUBSAMPLE`` of them, whose mean stands for that of all."""
        flat = x.flatten(2)
        return flat[..., :: max(1, flat.shape[-1] // MAX_SUBSAMPLE) | 1]

    @abstractmethod
    def smooth(self, x: Float[Tensor, "*signals_modes"], width: float) -> Float[Tensor, "*signals_modes"]:
        """Return a Gaussian mean over neighboring modes, with a standard deviation of ``width`` modes."""

    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ⟨a, b⟩ of every signal and channel, shaped to broadcast against them."""
        product = dot(a.flatten(2), b.flatten(2))
        return product.reshape(*product.shape, *(1,) * (a.ndim - 2))

    def filter(
        self, f: Float[Tensor, "signals channels *lattice"], symbol: Tensor, overwrite: bool = False
    ) -> Float[Tensor, "signals channels *lattice"]:
        """Return B diag(symbol) Bᵀ f, computed in the memory of f if ``overwrite`` is true and that is possible."""
        z = self.adjoint(f, f if overwrite and self.in_place else None).mul_(symbol)
        return self(z, z if self.in_place else None)


class EncodingModes(Modes):
    """The modes of a complex encoding's span on a lattice.

    With the thin SVD A_j = U_j S_j V_jᵀ of an axis's design and the first differences D, the eigenvectors of
    (D U_j)ᵀ(D U_j) = Q_j diag(μ_j) Q_jᵀ give B_j = U_j Q_j. This is the generalized eigenproblem of ∫ψ'ψ'ᵀ against the
    Gram matrix by lattice quadrature, without forming a Gram matrix. If an axis reaches every lattice signal (a basis
    with a node per sample does), its modes are the cosines of the DCT, whatever the encoder.

    A mode of unit norm takes coefficients of norm ‖C e‖, the product over the axes. If that times the norm of the
    designs is above 1/``rcond``, rounding would hide the mode, and it is left out: axes that are well conditioned one
    by one need not be so together.

    Parameters
    ----------
    encoding : ComplexEncoding
        The encoding.
    axes : tuple of Axis
        The lattice.
    rcond : float, optional
        The relative cutoff of singular values; by default that of ``LeastSquares``.
    dtype, device
        Those of the signals.

    Attributes
    ----------
    basis : LinearOperator
        B.
    to_coefficients : LinearOperator
        The map from modes to the encoding's coefficients, with its matrices in float64.
    ranks : tuple of int
        The number of modes along each axis.
    """

    def __init__(
        self,
        encoding: Encoding,
        axes: Axes,
        *,
        rcond: float | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.codomain = tuple(axis.count for axis in axes)
        inverse = separable_inverse(encoding, axes, rcond=rcond, dtype=dtype, device=device)
        kept: Tensor | None = None
        if inverse is not None and all(a.shape[0] >= a.shape[1] for a in inverse):
            per_axis = for_each_distinct(inverse, lambda a: _spanning_axis(a, device), _equal)
        else:
            designs = encoding.matrices(axes, device=device)
            cut = default_rcond([n for a in designs for n in a.shape], dtype) if rcond is None else rcond
            per_axis = for_each_distinct(designs, lambda a: _axis_modes(a, cut), _equal)
            accurate = cut * outer_product([axis.growth() for axis in per_axis]) <= 1
            kept = None if bool(accurate.all()) else accurate.to(dtype)
            inverse = None
        self.ranks = self.domain = tuple(len(axis.roughness) for axis in per_axis)
        self.spans_grid = self.ranks == self.codomain and kept is None
        self._roughness = [axis.roughness.to(dtype) for axis in per_axis]
        self.basis = self._basis(per_axis, kept, dtype, device)
        self.in_place = self.basis.in_place
        coefficients = Kronecker([a.coefficients() for a in per_axis]) if inverse is None else None
        self.to_coefficients = coefficients or Kronecker(inverse or []) @ self.basis
        self._to_coefficients = self.to_coefficients.to(dtype=dtype)
        self._kept = kept

    def _basis(
        self, per_axis: "list[_AxisModes]", kept: Tensor | None, dtype: torch.dtype, device: torch.device | str
    ) -> LinearOperator:
        if self.spans_grid:
            return CosineBasis(self.codomain, dtype, device)
        basis = Kronecker([axis.basis().to(dtype) for axis in per_axis])
        return basis if kept is None else basis @ Diagonal(kept)

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Float[Tensor, "signals channels *lattice"]:
        """Return the lattice signal B x."""
        return self.basis(x, out)

    def adjoint(self, y: Float[Tensor, "signals channels *lattice"], out: Tensor | None = None) -> Tensor:
        """Return the modes Bᵀ y."""
        return self.basis.adjoint(y, out)

    def coefficients(self, z: Tensor) -> Float[Tensor, "signals channels *features"]:
        """Return the encoding's coefficients for some modes."""
        return self._to_coefficients(z)

    def filter_trace(self, symbol: Float[Tensor, "*modes"]) -> float:
        """Return the trace of B diag(symbol) Bᵀ, without the modes that are left out."""
        return super().filter_trace(symbol if self._kept is None else symbol * self._kept)

    def roughness(self, anisotropy: tuple[float, ...]) -> Float[Tensor, "*modes"]:
        """Return a₁μ₁ ⊕ … ⊕ a_dμ_d."""
        return outer_sum([a * mu for a, mu in zip(anisotropy, self._roughness, strict=True)])

    def smooth(self, x: Float[Tensor, "*signals_modes"], width: float) -> Float[Tensor, "*signals_modes"]:
        """Return a Gaussian mean over neighboring modes, of which there are fewer at the ends."""
        kernels = []
        for n in self.ranks:
            k = torch.arange(n, device=x.device)
            kernel = torch.exp(-0.5 * ((k.unsqueeze(1) - k) / width) ** 2).to(x)
            kernels.append(kernel / kernel.sum(1, keepdim=True))
        return mode_product(x, kernels)


@dataclass(frozen=True)
class _AxisModes:
    """The modes of one axis; the matrices are computed on demand."""

    basis: Callable[[], Tensor]  # B (N, r)
    coefficients: Callable[[], Tensor]  # C (K, r), with A C = B
    roughness: Tensor  # μ (r,)
    norm: float = math.nan  # ‖A‖₂, or NaN where it is not needed

    def growth(self) -> Tensor:
        """Return ‖A‖ ‖C e‖ of every mode e."""
        return self.norm * self.coefficients().norm(dim=0)


def _equal(a: Matrix, b: Matrix) -> bool:
    return a is b or (isinstance(a, Tensor) and isinstance(b, Tensor) and torch.equal(a, b))


def _spanning_axis(inverse: Matrix, device: torch.device | str, norm: float = math.nan) -> _AxisModes:
    """Return the cosines of an axis that reaches every lattice signal, given its design's pseudo-inverse."""
    n = inverse.shape[1]
    mu = 2 - 2 * torch.cos(math.pi / n * torch.arange(n, dtype=torch.float64, device=device))

    def basis() -> Tensor:
        return cosine_matrix(n).to(device)

    return _AxisModes(basis, lambda: product_along(basis(), inverse, 0), mu, norm)


def _axis_modes(design: Tensor, rcond: float) -> _AxisModes:
    """Return the modes of one axis from the SVD of its design."""
    factor = factorize(design, rcond)
    norm = float(factor.s[0])
    if factor.rank == len(design):
        return _spanning_axis(factor.pseudo_inverse, design.device, norm)
    differences = factor.u.diff(dim=0)
    mu, q = torch.linalg.eigh(differences.mH @ differences)
    return _AxisModes(lambda: factor.u @ q, lambda: (factor.v / factor.s) @ q, mu.clamp(min=0), norm)
