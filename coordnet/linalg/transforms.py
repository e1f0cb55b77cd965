"""The orthonormal cosine basis of lattice signals (DCT-II), by FFTs where they are faster than matrix products."""

import math
from collections.abc import Callable
from functools import cached_property

import scipy.fft
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.linalg.kronecker import mode_product
from coordnet.linalg.machine import is_tracked
from coordnet.linalg.operators import Device, LinearOperator, Shape

THREADED = 2**22  # elements from which SciPy's threads pay off; below, PyTorch's idle threads still occupy the cores
LONG = 512  # length from which an axis takes FFTs on a CPU even if it has large prime factors
LONG_ON_GPU = 1024  # length from which FFTs should be faster on a GPU: estimated, not measured


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
