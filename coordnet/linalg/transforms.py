"""Orthonormal cosine transforms (DCT-II and its inverse) over the last axes of a tensor."""

import math
from collections.abc import Callable

import scipy.fft
import torch
from jaxtyping import Float
from torch import Tensor

SHARED = 2**22  # numbers from which SciPy's threads pay: below, PyTorch's are still spinning on their cores


def cosines(x: Float[Tensor, "..."], dims: int, overwrite: bool = False) -> Float[Tensor, "..."]:
    """The orthonormal DCT-II over the last ``dims`` axes: by SciPy on a CPU, else by real FFTs.

    With ``overwrite`` the result may take the memory of ``x``.
    """
    if x.device.type == "cpu":
        return _scipy(scipy.fft.dctn, x, dims, overwrite)
    return _each_axis(forward, x, dims)


def inverse_cosines(z: Float[Tensor, "..."], dims: int, overwrite: bool = False) -> Float[Tensor, "..."]:
    """The inverse of ``cosines``, its transpose."""
    if z.device.type == "cpu":
        return _scipy(scipy.fft.idctn, z, dims, overwrite)
    return _each_axis(backward, z, dims)


def cosine_matrix(n: int) -> Float[Tensor, "n n"]:
    """The orthonormal DCT-II basis, a column a frequency."""
    i = torch.arange(n, dtype=torch.float64)
    basis = torch.cos(math.pi / n * (i.unsqueeze(1) + 0.5) * i) * math.sqrt(2 / n)
    basis[:, 0] /= math.sqrt(2)
    return basis


def forward(x: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
    """The orthonormal DCT-II over the last axis by one real FFT of the same length.

    With v the even samples followed by the odd ones backwards and V its DFT, the transform is
    Re(exp(-iπk/2N) V_k), up to the scale √(2/N) and √(1/N) at k = 0.

    Notes
    -----
    Makhoul, "A fast cosine transform in one and two dimensions" (IEEE TASSP 1980).
    """
    n = x.shape[-1]
    spectrum = torch.fft.rfft(torch.cat([x[..., ::2], x[..., 1::2].flip(-1)], dim=-1))
    turned = spectrum * _turns(n, spectrum)
    mirrored = -turned.imag[..., 1 : (n + 1) // 2].flip(-1)  # k > N/2, by V_{N-k} = conj V_k
    return torch.cat([turned.real, mirrored], dim=-1) * _scale(n, x)


def backward(z: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
    """The inverse of ``forward``."""
    n = z.shape[-1]
    z = z / _scale(n, z)
    half = n // 2 + 1
    mirrored = torch.cat([torch.zeros_like(z[..., :1]), z.flip(-1)], dim=-1)[..., :half]
    turned = torch.complex(z[..., :half], -mirrored)
    v = torch.fft.irfft(turned / _turns(n, turned), n=n)
    out = torch.empty_like(v)
    out[..., ::2] = v[..., : (n + 1) // 2]
    out[..., 1::2] = v[..., (n + 1) // 2 :].flip(-1)
    return out


def _turns(n: int, like: Tensor) -> Tensor:
    """exp(-iπk/2N), k = 0 … N/2."""
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
    workers = torch.get_num_threads() if x.numel() >= SHARED else 1
    made = transform(
        x.detach().numpy(), type=2, norm="ortho", axes=axes, overwrite_x=overwrite, workers=workers
    )
    return torch.from_numpy(made)
