"""Fourier modes: the signed frequencies of a slightly padded lattice, through real FFTs."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import FourierEncoding
from coordnet.linalg.conjugate_gradients import dot
from coordnet.linalg.kronecker import outer_sum
from coordnet.priors.modes import Modes
from coordnet.sampling.axes import Axis


class FourierModes(Modes):
    """The modes exp(2πi k·x) of a padded lattice; z holds the half of them that a real signal needs.

    Norms and means are over all signed frequencies: a frequency whose mirror image is not stored counts twice. The
    lattice is a part of the padded one, so that what leaves it at one border does not enter at the other.

    Parameters
    ----------
    encoding : FourierEncoding
        The padded lattice.
    dtype, device
        Of the values to come.
    """

    complete = True

    def __init__(
        self,
        encoding: FourierEncoding,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.lattice = tuple(axis.count for axis in encoding.axes)
        self.padded: tuple[int, ...] = encoding.shape
        self.ranks = encoding.shape
        self._dims = tuple(range(-len(self.padded), 0))
        self._dtype, self._device = dtype, torch.device(device)
        self._kind: dict[str, Any] = {"dtype": dtype, "device": device}
        self._last = int(encoding.shape[-1])

    def whole(self) -> "FourierModes":
        """The same modes, the padding counted as lattice."""
        return FourierModes(FourierEncoding(tuple(Axis(n) for n in self.padded), self.padded), **self._kind)

    def synthesis(self, z: Tensor) -> Float[Tensor, "signals channels *lattice"]:
        """The lattice signal of some modes: an inverse FFT, cropped."""
        return self.crop(self.padded_signal(z))

    def padded_signal(self, z: Tensor) -> Float[Tensor, "signals channels *padded"]:
        """The signal of some modes on the whole padded lattice."""
        if len(self.padded) > 1:
            z = torch.fft.ifftn(z, dim=self._dims[:-1], norm="ortho")
        return torch.fft.irfft(z, n=self._last, dim=-1, norm="ortho")

    def crop(
        self, f: Float[Tensor, "signals channels *padded"]
    ) -> Float[Tensor, "signals channels *lattice"]:
        """The lattice's part of a padded signal."""
        return f[(..., *(slice(0, n) for n in self.lattice))]

    def analysis(self, f: Float[Tensor, "signals channels *lattice"]) -> Tensor:
        """The modes of a lattice signal, zero in the padding: a real FFT."""
        return torch.fft.rfftn(f, s=self.padded, dim=self._dims, norm="ortho")

    def roughness(self, anisotropy: tuple[float, ...]) -> Float[Tensor, "*modes"]:
        """Σ a_j (2 - 2 cos 2πk_j/P_j)."""
        parts = []
        for j, (n, a) in enumerate(zip(self.padded, anisotropy, strict=True)):
            count = n // 2 + 1 if j == len(self.padded) - 1 else n
            k = torch.arange(count, dtype=torch.float64, device=self._device)
            parts.append((a * (2 - 2 * torch.cos(2 * math.pi * k / n))).to(self._dtype))
        return outer_sum(parts)

    def weights(self, z: Tensor) -> Float[Tensor, "signals channels *padded"]:
        """The encoding's coefficients: the signal on the padded lattice."""
        return self.padded_signal(z)

    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        """⟨a, b⟩ over all signed frequencies, of every signal and channel."""
        once = _products(a[..., 0], b[..., 0])
        if self._last % 2 == 0:
            once = once + _products(a[..., -1], b[..., -1])
        return (2 * _products(a, b) - once).reshape(*a.shape[:2], *(1,) * len(self.padded))

    def smooth(self, x: Float[Tensor, "*signals_modes"], width: float) -> Float[Tensor, "*signals_modes"]:
        """A circular Gaussian mean over neighbouring signed frequencies, ``width`` bins wide."""
        spectrum = torch.fft.rfftn(self._all(x), dim=self._dims)
        for j, n in zip(self._dims, self.padded, strict=True):
            k = torch.arange(n, device=x.device)
            kernel = torch.exp(-0.5 * (torch.minimum(k, n - k) / width) ** 2).to(x)
            symbol = (
                torch.fft.rfft(kernel / kernel.sum()) if j == -1 else torch.fft.fft(kernel / kernel.sum())
            )
            spectrum = spectrum * symbol.real.reshape(-1, *(1,) * (-j - 1))
        smoothed = torch.fft.irfftn(spectrum, s=self.padded, dim=self._dims)
        return smoothed[..., : self._last // 2 + 1]

    def _all(self, x: Tensor) -> Tensor:
        """The half spectrum of something even, x(-k) = x(k), with its mirror image beside it."""
        mirrored = x[..., 1 : (self._last + 1) // 2].flip(self._dims)
        others = self._dims[:-1]
        if others:
            mirrored = mirrored.roll((1,) * len(others), others)
        return torch.cat([x, mirrored], dim=-1)


def _products(a: Tensor, b: Tensor) -> Float[Tensor, "signals channels"]:
    """Re Σ conj(a) b of every signal and channel, one pass over memory each."""
    a, b = torch.view_as_real(a.contiguous()).flatten(2), torch.view_as_real(b.contiguous()).flatten(2)
    return dot(a, b)
