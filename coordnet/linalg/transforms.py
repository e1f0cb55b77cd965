"""The orthonormal cosine basis of lattice signals (DCT-II), by fast transforms where they are fast."""

import math
from collections.abc import Callable
from functools import cached_property

import scipy.fft
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.linalg.buffers import is_tracked
from coordnet.linalg.kronecker import mode_product
from coordnet.linalg.operators import LinearOperator, Shape

THREADED = 2**22  # elements from which SciPy's threads pay; below, PyTorch's threads still spin on their cores
# On a CPU, axes of this length on are transformed even if the length is prime; shorter ones are multiplied then.
LONG = 512
# On a GPU, FFTs move less memory than matrix products compute from this length on; by arithmetic, not measured.
LONG_ON_GPU = 1024


class CosineBasis(LinearOperator):
    """The orthonormal DCT-II basis: z ↦ B z maps the coefficients of the frequencies to a lattice signal."""

    def __init__(self, lattice: Shape, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> None:
        self.domain = self.codomain = tuple(lattice)
        self.dtype, self.device = dtype, torch.device(device)
        on_cpu = self.device.type == "cpu"
        if on_cpu:
            self.fast = all(n >= LONG or scipy.fft.next_fast_len(n) == n for n in lattice)
        else:
            self.fast = max(lattice) >= LONG_ON_GPU
        self.in_place = self.fast and on_cpu

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """Return B x, the inverse transform."""
        return self._apply(inverse_cosines, self._matrices, x, out)

    def adjoint(self, y: Tensor, out: Tensor | None = None) -> Tensor:
        """Return Bᵀ y, the transform."""
        return self._apply(cosines, self._transposed, y, out)

    def _apply(self, transform: Callable[..., Tensor], matrices: list[Tensor], x: Tensor, out: Tensor | None) -> Tensor:
        if not self.fast or is_tracked(x):
            return mode_product(x, matrices, out)
        result = transform(x, len(self.domain), overwrite=out is not None)
        return result if out is None or result.data_ptr() == out.data_ptr() else out.copy_(result)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "CosineBasis":
        """Return the basis on another device, or for signals of another dtype."""
        return CosineBasis(self.domain, dtype or self.dtype, device or self.device)

    @cached_property
    def _matrices(self) -> list[Tensor]:
        made = {n: cosine_matrix(n).to(self.device, self.dtype) for n in set(self.domain)}
        return [made[n] for n in self.domain]

    @cached_property
    def _transposed(self) -> list[Tensor]:
        return [matrix.T.contiguous() for matrix in self._matrices]


def cosines(x: Float[Tensor, "..."], dims: int, overwrite: bool = False) -> Float[Tensor, "..."]:
    """Orthonormal DCT-II over the last ``dims`` axes: by SciPy on a CPU, otherwise by real FFTs.

    With ``overwrite`` the result may use the memory of ``x``.
    """
    if x.device.type == "cpu":
        return _scipy(scipy.fft.dctn, x, dims, overwrite)
    return _each_axis(forward, x, dims)


def inverse_cosines(z: Float[Tensor, "..."], dims: int, overwrite: bool = False) -> Float[Tensor, "..."]:
    """Inverse of ``cosines``, which is its transpose."""
    if z.device.type == "cpu":
        return _scipy(scipy.fft.idctn, z, dims, overwrite)
    return _each_axis(backward, z, dims)


def cosine_matrix(n: int) -> Float[Tensor, "n n"]:
    """Return the orthonormal DCT-II basis in float64, one column per frequency."""
    i = torch.arange(n, dtype=torch.float64)
    basis = torch.cos(math.pi / n * (i.unsqueeze(1) + 0.5) * i) * math.sqrt(2 / n)
    basis[:, 0] /= math.sqrt(2)
    return basis


def forward(x: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
    """Orthonormal DCT-II over the last axis by one real FFT of the same length.

    Let v be the even samples followed by the odd ones in reverse, and V its DFT. The transform is
    Re(exp(-iπk/2N) V_k), up to the factor √(2/N), or √(1/N) at k = 0.

    Notes
    -----
    Makhoul, "A fast cosine transform in one and two dimensions" (IEEE TASSP 1980).
    """
    n = x.shape[-1]
    spectrum = torch.fft.rfft(torch.cat([x[..., ::2], x[..., 1::2].flip(-1)], dim=-1))
    turned = spectrum * _phases(n, spectrum)
    mirrored = -turned.imag[..., 1 : (n + 1) // 2].flip(-1)  # k > N/2, by V_{N-k} = conj V_k
    return torch.cat([turned.real, mirrored], dim=-1) * _scale(n, x)


def backward(z: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
    """Inverse of ``forward``."""
    n = z.shape[-1]
    z = z / _scale(n, z)
    half = n // 2 + 1
    mirrored = torch.cat([torch.zeros_like(z[..., :1]), z.flip(-1)], dim=-1)[..., :half]
    turned = torch.complex(z[..., :half], -mirrored)
    v = torch.fft.irfft(turned / _phases(n, turned), n=n)
    out = torch.empty_like(v)
    out[..., ::2] = v[..., : (n + 1) // 2]
    out[..., 1::2] = v[..., (n + 1) // 2 :].flip(-1)
    return out


def _phases(n: int, like: Tensor) -> Tensor:
    """Return exp(-iπk/2N) for k = 0 … N/2."""
    phase = -0.5 * math.pi / n * torch.arange(n // 2 + 1, dtype=torch.float64, device=like.device)
    return torch.polar(torch.ones_like(phase), phase).to(like.dtype)


def _scale(n: int, like: Tensor) -> Tensor:
    scale = torch.full((n,), math.sqrt(2 / n), dtype=like.dtype, device=like.device)
    scale[0] = math.sqrt(1 / n)
    return scale


def _each_axis(transform: Callable[[Tensor], Tensor], x: Tensor, dims: int) -> Tensor:
    for axis in range(-dims, 0):
        x = transform(x.movedim(axis, -1)).movedim(-1, axis)
    return x


def _scipy(transform: Callable[..., object], x: Tensor, dims: int, overwrite: bool) -> Tensor:
    axes = tuple(range(-dims, 0))
    workers = torch.get_num_threads() if x.numel() >= THREADED else 1
    result = transform(x.detach().numpy(), type=2, norm="ortho", axes=axes, overwrite_x=overwrite, workers=workers)
    return torch.from_numpy(result)
