"""Faithfulness: the spectrum of an encoding over the DFT frequencies, and the position reconstructed from it."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders import Encoder
from coordnet.sampling.axes import Axis

WIDTH = 4.0  # the kernel's σ in DFT bins: the paper's σ = 4·2π/d


def frequency_density(frequencies: Float[Tensor, " m"], length: int, width: float = WIDTH) -> Float[Tensor, " bins"]:
    """g_k ∝ Σ_l exp(-(ω_k - w_l)² / (2σ²)) at the DFT frequencies ω_k = 2πk/d, k = 0 … ⌊d/2⌋, with Σ g_k = 1.

    The ``frequencies`` w_l are in radians per position, d is the ``length``, and σ the ``width``, in bins of 2π/d. A
    ``ValueError`` is raised if d is below 2, or σ is not positive. Source: Idé et al. (2024), section 3.
    """
    _checks.integer("length", length, 2)
    sigma = _checks.positive("width", width) * 2 * math.pi / length
    bins = 2 * math.pi / length * torch.arange(length // 2 + 1, dtype=torch.float64)
    distance = bins.unsqueeze(-1) - frequencies.double()
    return torch.softmax(torch.logsumexp(-0.5 * (distance / sigma).square(), dim=-1), dim=0)


@torch.no_grad()
def encoder_spectrum(encoder: Encoder, axis: Axis) -> Float[Tensor, " bins"]:
    """The share g_k of each DFT bin k = 0 … ⌊N/2⌋ in an encoder on the N samples of an axis, with Σ g_k = 1.

    For ``FourierFeatures`` it is the kernel density of their frequencies, as in Idé et al. (2024), section 3. For other
    encoders it is the energy of the matrix's columns at the frequencies ±k, averaged over both signs, which is flat for
    the DFT encoding.
    """
    if encoder.frequencies is not None:
        return frequency_density(2 * math.pi * axis.spacing * encoder.frequencies, axis.count)
    energy = torch.fft.rfft(encoder(axis.points()), dim=0).abs().square().sum(-1)
    return energy / energy.sum()


def position_reconstruction(weights: Float[Tensor, " bins"], position: int, length: int) -> Float[Tensor, " length"]:
    """The inverse DFT of the coefficients of the impulse δ_{t,s}, weighted by g_k and scaled to norm 1.

    The ``weights`` are g_k; they are flat for the DFT encoding, whose reconstruction is exact. s is the ``position`` of
    the impulse and d the ``length``. A ``ValueError`` is raised if s is outside 0 … d - 1, or the weights are not one
    for each frequency. Source: algorithm 1 of Idé et al. (2024).
    """
    if not 0 <= position < _checks.integer("length", length, 2):
        raise _checks.wrong("position", f"at least 0 and below {length}", position)
    if len(weights) != length // 2 + 1:
        raise _checks.wrong("weights", f"{length // 2 + 1} numbers, one for each frequency", len(weights))
    delta = torch.zeros(length, dtype=torch.float64)
    delta[position] = 1
    back = torch.fft.irfft(torch.fft.rfft(delta) * weights.double(), length)
    return back / back.norm()
