"""Faithfulness: whether an encoding tells positions from each other, its spectrum, and the position reconstructed."""

import math
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.encodings.encoders import Encoder
from coordnet.sampling.axes import Axes, Axis

WIDTH = 4.0  # the kernel's σ in DFT bins: the paper's σ = 4·2π/d
MAX_DIFFERENCE = 1e-6  # largest difference of two equal encodings, relative to the norm: ten times the rounding
POINTS_AT_ONCE = 256  # points compared with all others at a time


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


def printed_weights(length: int) -> Float[Tensor, " bins"]:
    """The weights of the DFT encoding as Eq. 22 of Idé et al. (2024) prints them, with Σ g_k = 1.

    They are flat but for the constant and the Nyquist term, which are halved. Reconstruction is exact with flat weights
    only: with these, a multiple of ½ (1 + (-1)^(t - s)) / d is missing for even d, and of ½ / d for odd d. A
    ``ValueError`` is raised if d, the ``length``, is below 2.
    """
    weights = torch.ones(_checks.integer("length", length, 2) // 2 + 1, dtype=torch.float64)
    weights[0] /= 2
    weights[length // 2] /= 2 - length % 2
    return weights / weights.sum()


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


def is_faithful(encoding: Encoding, axes: Axes, tolerance: float = MAX_DIFFERENCE) -> bool:
    """Whether no two points of a lattice have the same encoding: whether ``least_distance`` is above the tolerance.

    This is definition 1 of Idé et al. (2024), by which an encoding is faithful if it is injective. Their reconstruction
    of a position says more: sinusoids are injective on whole positions, and still low-pass filters.
    """
    return least_distance(encoding, axes) > _checks.nonnegative("tolerance", tolerance)


@torch.no_grad()
def least_distance(encoding: Encoding, axes: Axes) -> float:
    """The least distance |Ψ(p) - Ψ(q)| of two points of a lattice, over the root mean square norm of Ψ there.

    The squares are sums of inner products in float64, so that results below 1e-7 are rounding. Kronecker products are
    not formed. A ``ValueError`` is raised if the lattice has a single point.
    """
    factors = encoding.matrices(axes)
    squares = reduce(torch.kron, [a.square().sum(-1) for a in factors])
    if len(squares) < 2:
        raise _checks.wrong("axes", "at least two points", len(squares))
    least = math.inf
    for rows in torch.arange(len(squares)).split(POINTS_AT_ONCE):
        inner = torch.ones(len(rows), 1, dtype=torch.float64)
        for a, index in zip(factors, torch.unravel_index(rows, [len(a) for a in factors]), strict=True):
            inner = torch.einsum("ma,mb->mab", inner, a[index] @ a.T).flatten(1)
        distances = squares[rows].unsqueeze(-1) + squares - 2 * inner
        distances[torch.arange(len(rows)), rows] = math.inf
        least = min(least, float(distances.min()))
    return math.sqrt(max(least, 0.0) / float(squares.mean()))
