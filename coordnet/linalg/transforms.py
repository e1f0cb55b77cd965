"""The orthonormal cosine basis of lattice signals (DCT-II), by FFTs where they are faster than matrix products."""

import copy
import math
from collections.abc import Callable
from functools import cached_property

import scipy.fft
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.linalg.kronecker import mode_product, outer_product
from coordnet.linalg.machine import is_tracked
from coordnet.linalg.operators import Device, LinearOperator, Shape

THREADED = 2**22  # elements from which SciPy's threads pay off; below, PyTorch's idle threads still occupy the cores
LONG = 512  # length from which an axis takes FFTs on a CPU even if it has large prime factors
LONG_ON_GPU = 1024  # length from which FFTs should be faster on a GPU: estimated, not measured
SMALLEST_DIVISOR = 1e-150  # lower bound of what roughness and sines divide by; its square is above zero


class CosineBasis(LinearOperator):
    """The orthonormal DCT-II basis: z ↦ B z maps the coefficients of the frequencies to a lattice signal."""

    def __init__(self, lattice: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> None:
        self.domain = self.codomain = tuple(lattice)
        self.dtype, self.device = dtype, torch.device(device)
        on_cpu = self.device.type == "cpu"
        if on_cpu:
            self.fast = all(n >= LONG or scipy.fft.next_fast_len(n) == n for n in lattice)
        else:
            self.fast = max(lattice) >= LONG_ON_GPU
        self.in_place = self.fast and on_cpu

    def _write(self, x: Tensor, out: Tensor | None) -> Tensor:
        return self._transform(inverse_cosines, self._matrices, x, out)

    def _write_adjoint(self, y: Tensor, out: Tensor | None) -> Tensor:
        return self._transform(cosines, self._transposed, y, out)

    def _transform(
        self, transform: Callable[..., Tensor], matrices: list[Tensor], x: Tensor, out: Tensor | None
    ) -> Tensor:
        if not self.fast or is_tracked(x):
            return mode_product(x, matrices, out)
        result = transform(x, len(self.domain), overwrite=out is not None)
        return result if out is None or result.data_ptr() == out.data_ptr() else out.copy_(result)

    def to(self, device: Device | None = None, dtype: torch.dtype | None = None) -> "CosineBasis":
        return CosineBasis(self.domain, dtype or self.dtype, device or self.device)

    @cached_property
    def _matrices(self) -> list[Tensor]:
        by_length = {n: cosine_matrix(n, self.device).to(self.dtype) for n in set(self.domain)}
        return [by_length[n] for n in self.domain]

    @cached_property
    def _transposed(self) -> list[Tensor]:
        return [matrix.T.contiguous() for matrix in self._matrices]


def cosines(x: Float[Tensor, "..."], dims: int, overwrite: bool = False) -> Float[Tensor, "..."]:
    """Orthonormal DCT-II over the last ``dims`` axes; ``overwrite`` allows the result to use the memory of ``x``."""
    return _over_axes(scipy.fft.dctn, forward, x, dims, overwrite)


def inverse_cosines(z: Float[Tensor, "..."], dims: int, overwrite: bool = False) -> Float[Tensor, "..."]:
    """Inverse of ``cosines``, which is its transpose."""
    return _over_axes(scipy.fft.idctn, backward, z, dims, overwrite)


def _over_axes(
    by_scipy: Callable[..., object], one_axis: Callable[[Tensor], Tensor], x: Tensor, dims: int, overwrite: bool
) -> Tensor:
    """Transform the last axes: by SciPy on a CPU, otherwise one after another."""
    if x.device.type == "cpu":
        axes = tuple(range(-dims, 0))
        workers = torch.get_num_threads() if x.numel() >= THREADED else 1
        result = by_scipy(x.detach().numpy(), type=2, norm="ortho", axes=axes, overwrite_x=overwrite, workers=workers)
        return torch.from_numpy(result)
    for axis in range(-dims, 0):
        x = one_axis(x.movedim(axis, -1)).movedim(-1, axis)
    return x


def cosine_matrix(n: int, device: Device = "cpu") -> Float[Tensor, "n n"]:
    """Return the orthonormal DCT-II basis in float64, one column per frequency."""
    i = torch.arange(n, dtype=torch.float64, device=device)
    basis = torch.cos(math.pi / n * (i.unsqueeze(1) + 0.5) * i) * math.sqrt(2 / n)
    basis[:, 0] /= math.sqrt(2)
    return basis


def forward(x: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
    """Orthonormal DCT-II over the last axis: the DFT of the signal and its mirror image, made real by phase factors."""
    n = x.shape[-1]
    spectrum = torch.fft.rfft(torch.cat([x, x.flip(-1)], dim=-1))[..., :n]
    return (spectrum * _phase_factors(n, spectrum)).real


def backward(z: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
    """Inverse of ``forward``."""
    n = z.shape[-1]
    return torch.fft.irfft(z / _phase_factors(n, z), n=2 * n)[..., :n]


def _phase_factors(n: int, like: Tensor) -> Tensor:
    """Return exp(-iπk/2N) / √(2N) for k = 0 … N - 1, divided by √2 at k = 0."""
    k = torch.arange(n, dtype=torch.float64, device=like.device)
    factors = torch.polar(torch.full_like(k, 1 / math.sqrt(2 * n)), -0.5 * math.pi / n * k)
    factors[0] /= math.sqrt(2)
    return factors.to(torch.promote_types(like.dtype, torch.complex64))


class Folding(LinearOperator):
    """The solution z of min Σ |Y_l - Σ_{k → l} d_k z_k|² + λ Σ r_k z_k² for the cosine modes z of pixels.

    Y are the cosine modes of the means over cells of s pixels, M = N / s along an axis. The mode k = 2Mj ± l of the
    pixels folds onto l with d_k = (-1)^j g_k n_k / n_l, where g_k = sin(πks / 2N) / (s sin(πk / 2N)), g_0 = 1, and n
    are the scales of the orthonormal transforms; l = M is invisible. In several axes d is the product over them. The
    systems of different l do not meet, and each has rank one:
    z_k = (d_k / r_k) Y_l / (λ + Σ_{k' → l} d²_{k'} / r_{k'}).
    """

    def __init__(self, cells: tuple[int, ...], roughness: Float[Tensor, "*pixels"], strength: float) -> None:
        self.codomain = tuple(roughness.shape)
        self.domain = tuple(n // cell for n, cell in zip(self.codomain, cells, strict=True))
        folds = [_fold(n, m) for n, m in zip(self.codomain, self.domain, strict=True)]
        self.index = [index.to(roughness.device) for index, _ in folds]
        d = outer_product([factor.to(roughness.device) for _, factor in folds])
        numerator = d / roughness.double().clamp(min=SMALLEST_DIVISOR)
        self.gain = numerator / self._unfolded(strength + self._folded(d * numerator))

    def _write(self, x: Tensor, out: Tensor | None) -> Float[Tensor, "*signals_pixels"]:
        return torch.mul(self._unfolded(x), self.gain, out=out)

    def _apply_adjoint(self, y: Tensor) -> Float[Tensor, "*signals_cells"]:
        return self._folded(self.gain * y)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Folding":
        other = copy.copy(self)
        other.index = [index.to(device) for index in self.index]
        other.gain = self.gain.to(device=device, dtype=dtype)
        return other

    def _unfolded(self, x: Tensor) -> Tensor:
        for axis, index in enumerate(self.index, -len(self.index)):
            x = x.index_select(axis, index)
        return x

    def _folded(self, y: Tensor) -> Tensor:
        for axis, (index, length) in enumerate(zip(self.index, self.domain, strict=True), -len(self.index)):
            shape = list(y.shape)
            shape[axis] = length
            y = y.new_zeros(shape).index_add_(y.ndim + axis, index, y)
        return y


def _fold(pixels: int, cells: int) -> tuple[Tensor, Float[Tensor, " n"]]:
    """Return the mode l of the means onto which each mode of the pixels folds along one axis, and d."""
    k, size = torch.arange(pixels, dtype=torch.float64), pixels // cells
    turn = torch.div(k + cells, 2 * cells, rounding_mode="floor")
    index = (k - 2 * cells * turn).abs().long()
    half = math.pi / 2 * k / pixels
    means = torch.where(k == 0, 1.0, (size * half).sin() / (size * half.sin()).clamp(min=SMALLEST_DIVISOR))
    scale = torch.where((index == 0) & (k > 0), math.sqrt(2 / size), math.sqrt(1 / size))
    visible = index < cells
    return torch.where(visible, index, 0), torch.where(visible, (1 - 2 * (turn % 2)) * means * scale, 0.0)
