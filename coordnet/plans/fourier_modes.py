"""Fourier modes: the signed frequencies of a padded lattice, by real FFTs."""

import itertools
import math

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import FourierEncoding
from coordnet.linalg.conjugate_gradients import dot
from coordnet.linalg.kronecker import outer_sum
from coordnet.linalg.machine import empty, is_tracked
from coordnet.plans.modes import Modes
from coordnet.sampling.axes import Axis

CACHED_MODES = 2**13  # most modes whose products by their counts stay in a CPU's cache: 66 instead of 102 µs for 7,320
LARGE_LATTICE = 2**18  # nodes from which three channels at once leave a CPU's cache: 25 instead of 18 ms for 1080×960


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
            found = dot((torch.view_as_real(a) * self._counts).flatten(2), torch.view_as_real(b).flatten(2))
            return found.reshape(*a.shape[:2], *(1,) * len(self.padded))
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
        for j, n in zip(self._dims, self.padded, strict=True):
            k = torch.arange(n, device=x.device)
            kernel = torch.exp(-0.5 * (torch.minimum(k, n - k) / width) ** 2).to(x)
            transform = torch.fft.rfft if j == -1 else torch.fft.fft
            symbol = transform(kernel / kernel.sum())
            spectrum = spectrum * symbol.real.reshape(-1, *(1,) * (-j - 1))
        smoothed = torch.fft.irfftn(spectrum, s=self.padded, dim=self._dims)
        return smoothed[..., : self._last // 2 + 1]


def _inner(a: Tensor, b: Tensor) -> Float[Tensor, "signals channels"]:
    """Return Re Σ conj(a) b of every signal and channel in one pass over memory."""
    a, b = torch.view_as_real(a.contiguous()).flatten(2), torch.view_as_real(b.contiguous()).flatten(2)
    return dot(a, b)
