"""The linear layer on a Fourier encoding: a Fourier series, evaluated on lattices and at points."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet.encodings import Encoding, FourierEncoding
from coordnet.networks.layers import contract
from coordnet.sampling.axes import Axes, Axis


class FourierLinear(nn.Module):
    """f_c(x) = Σ_k F_c[k] exp(2πi k·u(x)), F the discrete Fourier transform of lattice values.

    Parameters
    ----------
    encoding : FourierEncoding
        The padded lattice.
    weight : (channels, P₁, …, P_d)
        The lattice values.
    """

    weight: Tensor

    def __init__(self, encoding: FourierEncoding, weight: Float[Tensor, "channels *padded"]) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self._axes, self._shape = encoding.axes, encoding.shape

    def forward(self, factors: list[Tensor]) -> Float[Tensor, "*points channels"]:
        """Evaluate at points given by the complex factors of their features, (…, P_j) per axis."""
        return contract(factors, self._series()).real

    def on_axes(self, encoding: Encoding, axes: Axes) -> Float[Tensor, "*lattice channels"]:
        """Evaluate on the lattice of some axes: its own nodes are copied, others take a chirp transform."""
        out = self.weight
        for j, axis in enumerate(axes):
            own, dim = self._axes[j], j + 1
            if axis == own:
                out = out.narrow(dim, 0, own.count)
            else:
                out = resample(out.movedim(dim, -1), own, axis).movedim(-1, dim)
        resampled = any(axis != own for axis, own in zip(axes, self._axes, strict=True))
        return (out if resampled else out.clone()).movedim(0, -1)

    def _series(self) -> Tensor:
        dims = tuple(range(1, self.weight.ndim))
        return torch.fft.fftn(self.weight, dim=dims) / math.prod(self._shape)


def resample(values: Float[Tensor, "*rows p"], own: Axis, onto: Axis) -> Float[Tensor, "*rows m"]:
    """Evaluate the Fourier series through the P nodes own.start + i own.spacing at the positions of ``onto``.

    The positions are u₀ + m δ in periods, so that Σ_k F[k] exp(2πi k (u₀ + m δ)) is a chirp-z transform: with
    k m = (k² + m² - (m - k)²) / 2 it is a convolution, which takes three FFTs whatever the number of positions.

    Notes
    -----
    Bluestein, "A linear filtering approach to the computation of the discrete Fourier transform" (1970). Phases are
    reduced in float64.
    """
    length, count = values.shape[-1], onto.count
    start = (onto.start - own.start) / (own.spacing * length)
    step = onto.spacing / (own.spacing * length)
    series = torch.fft.rfft(values) / length
    half = series.shape[-1]
    series = series.clone()
    series[..., 1:] *= 2
    nyquist = series[..., -1:].clone() if length % 2 == 0 else None
    if nyquist is not None:
        series[..., -1:] = 0
    k = torch.arange(max(half, count), dtype=torch.float64, device=values.device)
    chirp = _turn(k * k / 2 * step, series.dtype)
    shifted = series * _turn(k[:half] * start, series.dtype) * chirp[:half]
    size = 1 << (half + count - 2).bit_length() if half + count > 2 else 1
    kernel = torch.zeros(size, dtype=series.dtype, device=values.device)
    kernel[:count] = chirp[:count].conj()
    kernel[size - half + 1 :] = chirp[1:half].conj().flip(0)
    product = torch.fft.ifft(torch.fft.fft(shifted, size) * torch.fft.fft(kernel))[..., :count]
    out = (product * chirp[:count]).real
    if nyquist is not None:
        wave = _turn((length // 2) * (start + step * k[:count]), series.dtype).real
        out = out + nyquist.real / 2 * wave
    return out


def _turn(cycles: Float[Tensor, " n"], dtype: torch.dtype) -> Tensor:
    """Return exp(2πi cycles)."""
    return torch.polar(torch.ones_like(cycles), 2 * math.pi * (cycles - cycles.round())).to(dtype)
