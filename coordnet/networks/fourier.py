"""The linear layer on a Fourier encoding: a Fourier series, evaluated on lattices and at points."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet.encodings import FourierEncoding
from coordnet.networks.layers import contract, hold
from coordnet.sampling.axes import Axes, Axis


class FourierLinear(nn.Module):
    """f_c(x) = Σ_k F_c[k] exp(2πi k·u(x)), where F is the DFT of values on the padded lattice."""

    weight: Tensor

    def __init__(self, weight: Float[Tensor, "channels *padded"]) -> None:
        super().__init__()
        hold(self, weight)

    def extra_repr(self) -> str:
        """Return the shape of the weight, for ``repr``."""
        return f"weight={tuple(self.weight.shape)}"

    def forward(self, factors: list[Tensor]) -> Float[Tensor, "*points channels"]:
        """Evaluate at points given by the complex factors of their features, (…, P_j) per axis."""
        dims = tuple(range(1, self.weight.ndim))
        return contract(factors, torch.fft.fftn(self.weight, dim=dims, norm="forward")).real

    def on_axes(self, encoding: FourierEncoding, axes: Axes) -> Float[Tensor, "*lattice channels"]:
        """Evaluate on the lattice of some axes: values at its own nodes are copied, others take a chirp transform."""
        out = self.weight
        for dim, (axis, own) in enumerate(zip(axes, encoding.axes, strict=True), 1):
            if axis == own:
                out = out.narrow(dim, 0, own.count)
            elif not axis.is_even:
                factor = encoding.factor(dim - 1, axis.points(device=out.device))
                spectrum = torch.fft.fft(out.movedim(dim, -1), norm="forward")
                out = (spectrum @ factor.T.to(spectrum)).real.movedim(-1, dim)
            else:
                out = resample(out.movedim(dim, -1), own, axis).movedim(-1, dim)
        return (out.clone() if axes == encoding.axes else out).movedim(0, -1)


def resample(values: Float[Tensor, "*rows p"], own: Axis, onto: Axis) -> Float[Tensor, "*rows m"]:
    """Evaluate the Fourier series through the P nodes own.start + i own.spacing at the positions of ``onto``.

    The positions are u₀ + m δ in periods, so that Σ_k F[k] exp(2πi k (u₀ + m δ)) is a chirp-z transform: with
    k m = (k² + m² - (m - k)²) / 2 it is a convolution, which takes three FFTs for any number of positions. Means over
    the cells of ``own``, and of ``onto``, multiply the frequency f of the series by sinc(f width).

    Source: Bluestein, "A linear filtering approach to the computation of the discrete Fourier transform" (1970). Phases
    are reduced in float64.
    """
    length, count = values.shape[-1], onto.count
    start = (onto.start - own.start) / (own.spacing * length)
    step = onto.spacing / (own.spacing * length)
    series = torch.fft.rfft(values) / length
    series[..., 1 : (length + 1) // 2] *= 2  # frequencies with a mirror image: neither 0 nor the highest of an even P
    half = series.shape[-1]
    f = torch.arange(half, dtype=torch.float64, device=values.device) / (own.spacing * length)
    series = series * (torch.sinc(f * onto.width) / torch.sinc(f * own.width)).to(values)
    k = torch.arange(max(half, count), dtype=torch.float64, device=values.device)
    chirp = _phase_factor(k * k / 2 * step, series.dtype)
    shifted = series * _phase_factor(k[:half] * start, series.dtype) * chirp[:half]
    size = 1 << (half + count - 2).bit_length() if half + count > 2 else 1
    kernel = torch.zeros(size, dtype=series.dtype, device=values.device)
    kernel[:count] = chirp[:count].conj()
    kernel[size - half + 1 :] = chirp[1:half].conj().flip(0)
    product = torch.fft.ifft(torch.fft.fft(shifted, size) * torch.fft.fft(kernel))[..., :count]
    return (product * chirp[:count]).real


def _phase_factor(cycles: Float[Tensor, " n"], dtype: torch.dtype) -> Tensor:
    """exp(2πi cycles)."""
    return torch.polar(torch.ones_like(cycles), 2 * math.pi * (cycles - cycles.round())).to(dtype)
