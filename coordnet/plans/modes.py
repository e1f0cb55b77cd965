"""Modes: an orthonormal basis of the lattice signals that an encoding reaches, in which roughness is diagonal.

Signals here are ``(signals, channels, *lattice)``. The modes z of a signal, ``(signals, channels, *modes)``, are its
coordinates in this basis; its coefficients are those of the encoding.
"""

import itertools
import math
from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import Encoding, FourierEncoding
from coordnet.encodings.designs import separable_inverse
from coordnet.linalg.conjugate_gradients import dot
from coordnet.linalg.kronecker import (
    Kronecker,
    default_rcond,
    factorize,
    for_each_distinct,
    mode_product,
    outer_product,
    outer_sum,
)
from coordnet.linalg.machine import empty, is_tracked, without_tails
from coordnet.linalg.operators import Diagonal, LinearOperator
from coordnet.linalg.transforms import CosineBasis, cosine_matrix
from coordnet.sampling.axes import Axes, Axis

SUBSAMPLE = 2**16  # half of the number of modes below which a mean is computed from all
CACHED_MODES = 2**13  # most modes whose products by their counts stay in a CPU's cache: 66 instead of 102 µs for 7,320
LARGE_LATTICE = 2**18  # nodes from which three channels at once leave a CPU's cache: 25 instead of 18 ms for 1080×960


class Modes(LinearOperator):
    """Orthonormal modes B = B₁ ⊗ … ⊗ B_d of a lattice: z ↦ B z, with the roughness μ_j of each mode on its axis."""

    spans_grid: bool  # whether every lattice signal is a combination of modes
    ranks: tuple[int, ...]  # the number of modes along each axis

    @property
    def lattice(self) -> tuple[int, ...]:
        """The lengths of the lattice."""
        return self.codomain

    def on_padded_grid(self) -> "Modes":
        """Return the same modes on the padded lattice; the object itself if it has no padding."""
        return self

    @abstractmethod
    def roughness(self, anisotropy: tuple[float, ...]) -> Float[Tensor, "*modes"]:
        """Return a₁μ₁ ⊕ … ⊕ a_dμ_d, the energy of first differences of each mode."""

    @abstractmethod
    def coefficients(self, z: Tensor) -> Float[Tensor, "signals channels *features"]:
        """Return the encoding's coefficients of the signal with the modes z."""

    def filter_trace(self, symbol: Float[Tensor, "*modes"]) -> float:
        """Return the trace of B diag(symbol) Bᵀ."""
        return float(symbol.sum())

    def subsample(self, x: Float[Tensor, "signals channels *modes"]) -> Float[Tensor, "signals channels m"]:
        """Return evenly spaced modes, fewer than 2 ``SUBSAMPLE``, from which a mean over all modes is estimated."""
        flat = x.flatten(2)
        return flat[..., :: max(1, flat.shape[-1] // SUBSAMPLE) | 1]

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
        in_place = self.in_place and not is_tracked(f)
        z = self.adjoint(f, f if overwrite and in_place else None).mul_(symbol)
        return self(z, z if in_place else None)


class EncodingModes(Modes):
    """The modes of a complex encoding's span on a lattice.

    With the thin SVD A_j = U_j S_j V_jᵀ of an axis's design and the first differences D, the eigenvectors of
    (D U_j)ᵀ(D U_j) = Q_j diag(μ_j) Q_jᵀ give B_j = U_j Q_j. This is the generalized eigenproblem of ∫ψ'ψ'ᵀ against the
    Gram matrix by lattice quadrature, without forming a Gram matrix. If an axis reaches every lattice signal (a basis
    with a node per sample does), its modes are the cosines of the DCT for any encoder. Where samples are not equally
    spaced, each squared difference is divided by its gap, in units of the mean gap, and modes are no cosines.

    A mode e of unit norm has coefficients C e, whose norm is a product over the axes. If that times the norm of the
    designs is above 1/``rcond``, rounding would hide the mode, and it is left out: a product of well-conditioned axes
    can be ill-conditioned.

    The dtype and device are those of the signals; ``rcond`` is that of ``LeastSquares``. The ``basis`` is B, and
    ``to_coefficients`` maps modes to the encoding's coefficients, with its matrices in float64.
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
        self._kept: Tensor | None = None
        self.basis: LinearOperator = CosineBasis(self.codomain, dtype, device)
        even = all(axis.even is axis for axis in axes)
        if even and inverse is not None and all(a.shape[0] >= a.shape[1] for a in inverse):
            roughness = [_cosine_roughness(n, device) for n in self.codomain]
            self.to_coefficients = Kronecker(inverse) @ self.basis
        else:
            designs = encoding.matrices(axes, device=device)
            cut = default_rcond([n for a in designs for n in a.shape], dtype) if rcond is None else rcond
            pairs = list(zip(designs, axes, strict=True))
            per_axis = for_each_distinct(
                pairs, lambda pair: _axis_modes(*pair, cut), lambda a, b: a[1] == b[1] and torch.equal(a[0], b[0])
            )
            bases, coefficients, roughness, growth = map(list, zip(*per_axis, strict=True))
            accurate = cut * outer_product(growth) <= 1
            self.to_coefficients = Kronecker(coefficients)
            if not bool(accurate.all()):
                self._kept = accurate.to(dtype)
                self.basis = Kronecker(bases).to(dtype=dtype) @ Diagonal(self._kept)
            elif accurate.shape != self.codomain or not even:
                self.basis = Kronecker(bases).to(dtype=dtype)
        self.ranks = self.domain = tuple(len(mu) for mu in roughness)
        self.spans_grid = self.ranks == self.codomain and self._kept is None
        self._roughness = [mu.to(dtype) for mu in roughness]
        self.in_place = self.basis.in_place
        self._to_coefficients = self.to_coefficients.to(dtype=dtype)

    def _write(self, x: Tensor, out: Tensor | None) -> Float[Tensor, "signals channels *lattice"]:
        return self.basis(x, out)

    def _write_adjoint(self, y: Float[Tensor, "signals channels *lattice"], out: Tensor | None) -> Tensor:
        return self.basis.adjoint(y, out)

    def coefficients(self, z: Tensor) -> Float[Tensor, "signals channels *features"]:
        return self._to_coefficients(z)

    def filter_trace(self, symbol: Float[Tensor, "*modes"]) -> float:
        """Return the trace of B diag(symbol) Bᵀ, without the modes that are left out."""
        return super().filter_trace(symbol if self._kept is None else symbol * self._kept)

    def roughness(self, anisotropy: tuple[float, ...]) -> Float[Tensor, "*modes"]:
        """Return a₁μ₁ ⊕ … ⊕ a_dμ_d."""
        return outer_sum([a * mu for a, mu in zip(anisotropy, self._roughness, strict=True)])

    def smooth(self, x: Float[Tensor, "*signals_modes"], width: float) -> Float[Tensor, "*signals_modes"]:
        """Return a Gaussian mean over neighboring modes, whose weights are normalized anew at the ends."""
        kernels = []
        for n in self.ranks:
            k = torch.arange(n, device=x.device)
            kernel = without_tails(torch.exp(-0.5 * ((k.unsqueeze(1) - k) / width) ** 2)).to(x)
            kernels.append(kernel / kernel.sum(1, keepdim=True))
        return mode_product(x, kernels)


def _cosine_roughness(n: int, device: torch.device | str) -> Tensor:
    return 2 - 2 * torch.cos(math.pi / n * torch.arange(n, dtype=torch.float64, device=device))


def _axis_modes(design: Tensor, axis: Axis, rcond: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return B, C with A C = B, μ, and ‖A‖ ‖C e‖ of every mode e, for the design A of one axis."""
    factor = factorize(design, rcond)
    is_even = axis.even is axis
    if factor.rank == len(design) and is_even:
        mu, basis = _cosine_roughness(len(design), design.device), cosine_matrix(len(design), design.device)
        coefficients = factor.pseudo_inverse @ basis
    else:
        differences = factor.u.diff(dim=0)
        if not is_even:
            gaps = axis.points(device=design.device).diff()
            differences = differences * (gaps.mean() / gaps).sqrt().unsqueeze(1)
        mu, q = torch.linalg.eigh(differences.mH @ differences)
        basis, coefficients = factor.u @ q, (factor.v / factor.s) @ q
    return basis, coefficients, mu.clamp(min=0), factor.s[0] * coefficients.norm(dim=0)


class FourierModes(Modes):
    """The modes exp(2πi k·x) of a padded lattice; a tensor of modes holds the half of them that a real signal needs.

    ``inner`` and ``smooth`` run over all signed frequencies: one whose mirror image is not stored counts twice. The
    padding separates the two borders, which the periodic modes would join. The dtype and device are those of the
    signals.
    """

    spans_grid = True

    def __init__(
        self, encoding: FourierEncoding, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> None:
        self.padded: tuple[int, ...] = encoding.shape
        self.codomain = tuple(axis.count for axis in encoding.axes)
        self.domain = (*self.padded[:-1], self.padded[-1] // 2 + 1)
        self.ranks = encoding.shape
        self._dims = tuple(range(-len(self.padded), 0))
        self._dtype, self._device = dtype, torch.device(device)
        self._last = self.padded[-1]
        self._symbols: dict[tuple[float, torch.dtype, torch.device], list[Tensor]] = {}
        self._counts = torch.full((self.domain[-1], 1), 2.0, dtype=dtype, device=device)
        self._counts[:: self._last // 2 if self._last % 2 == 0 else self._last] = 1

    def on_padded_grid(self) -> "FourierModes":
        """Return the same modes with the padding as a part of the lattice."""
        encoding = FourierEncoding(tuple(Axis(n) for n in self.padded), self.padded)
        return FourierModes(encoding, dtype=self._dtype, device=self._device)

    def _apply(self, x: Tensor) -> Float[Tensor, "signals channels *lattice"]:
        return self.coefficients(x)[(..., *(slice(0, n) for n in self.lattice))]

    def _apply_adjoint(self, y: Float[Tensor, "signals channels *lattice"]) -> Tensor:
        """Return the real FFT of a lattice signal, padded by zeros.

        It is the adjoint for ``inner``, the inner product over all signed frequencies.
        """
        return torch.fft.rfftn(y, s=self.padded, dim=self._dims, norm="ortho")

    def coefficients(self, z: Tensor) -> Float[Tensor, "signals channels *padded"]:
        """Return the encoding's coefficients: the signal on the padded lattice."""
        if len(self.padded) > 1:
            z = torch.fft.ifftn(z, dim=self._dims[:-1], norm="ortho")
        return torch.fft.irfft(z, n=self._last, dim=-1, norm="ortho")

    def filter(
        self, f: Float[Tensor, "signals channels *lattice"], symbol: Tensor, overwrite: bool = False
    ) -> Float[Tensor, "signals channels *lattice"]:
        """Return B diag(symbol) Bᵀ f, of large lattices for one channel after another."""
        if f.is_cuda or math.prod(self.padded) < LARGE_LATTICE or is_tracked(f):
            return super().filter(f, symbol, overwrite)
        symbol, out = symbol.expand(*f.shape[:2], *symbol.shape[2:]), empty(f, tuple(f.shape))
        for i, c in itertools.product(range(f.shape[0]), range(f.shape[1])):
            out[i, c] = super().filter(f[i : i + 1, c : c + 1], symbol[i, c])[0, 0]
        return out

    def roughness(self, anisotropy: tuple[float, ...]) -> Float[Tensor, "*modes"]:
        """Return Σ a_j (2 - 2 cos 2πk_j/P_j), with the padded lengths P_j."""
        parts = []
        for n, count, a in zip(self.padded, self.domain, anisotropy, strict=True):
            k = torch.arange(count, dtype=torch.float64, device=self._device)
            parts.append((a * (2 - 2 * torch.cos(2 * math.pi * k / n))).to(self._dtype))
        return outer_sum(parts)

    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ⟨a, b⟩ over all signed frequencies, of every signal and channel."""
        if a.is_cuda or a[0, 0].numel() <= CACHED_MODES:  # fewer calls, but another pass over memory
            product = dot((torch.view_as_real(a) * self._counts).flatten(2), torch.view_as_real(b).flatten(2))
            return product.reshape(*a.shape[:2], *(1,) * len(self.padded))
        once = _inner(a[..., 0], b[..., 0])
        if self._last % 2 == 0:
            once = once + _inner(a[..., -1], b[..., -1])
        return (2 * _inner(a, b) - once).reshape(*a.shape[:2], *(1,) * len(self.padded))

    def smooth(self, x: Float[Tensor, "*signals_modes"], width: float) -> Float[Tensor, "*signals_modes"]:
        """Return a circular Gaussian mean over neighboring signed frequencies, with a deviation of ``width`` bins."""
        mirrored = x[..., 1 : (self._last + 1) // 2].flip(self._dims)  # x(-k) = x(k)
        if len(self._dims) > 1:
            mirrored = mirrored.roll((1,) * (len(self._dims) - 1), self._dims[:-1])
        spectrum = torch.fft.rfftn(torch.cat([x, mirrored], dim=-1), dim=self._dims)
        for symbol in self._mean_symbols(width, x):
            spectrum = spectrum * symbol
        smoothed = torch.fft.irfftn(spectrum, s=self.padded, dim=self._dims)
        return smoothed[..., : self._last // 2 + 1]

    def _mean_symbols(self, width: float, like: Tensor) -> list[Tensor]:
        """Return the transform of a circular Gaussian mean along each axis, which later calls have at once."""
        key = width, like.dtype, like.device
        if key not in self._symbols:
            symbols = []
            for j, n in zip(self._dims, self.padded, strict=True):
                k = torch.arange(n, device=like.device)
                kernel = torch.exp(-0.5 * (torch.minimum(k, n - k) / width) ** 2).to(like)
                transform = torch.fft.rfft if j == -1 else torch.fft.fft
                symbols.append(transform(kernel / kernel.sum()).real.reshape(-1, *(1,) * (-j - 1)))
            self._symbols[key] = symbols
        return self._symbols[key]


def _inner(a: Tensor, b: Tensor) -> Float[Tensor, "signals channels"]:
    """Return Re Σ conj(a) b of every signal and channel in one pass over memory."""
    a, b = torch.view_as_real(a.contiguous()).flatten(2), torch.view_as_real(b.contiguous()).flatten(2)
    return dot(a, b)
