"""Numbers of an encoding: its matrix's ranks, how similarity falls with distance, and how it tells positions apart."""

import math
from functools import reduce

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.encodings.encoders import Encoder, JointEncoder
from coordnet.linalg.kronecker import default_rcond
from coordnet.networks.reconstruction import Reconstruction
from coordnet.sampling.arrays import check_values
from coordnet.sampling.axes import Axes, Axis

KERNEL_WIDTH = 4.0  # the kernel's σ in DFT bins: the paper's σ = 4·2π/d
MAX_DIFFERENCE = 1e-6  # largest difference of two equal encodings, relative to the norm: ten times the rounding
POINTS_AT_ONCE = 256  # points compared with all others at a time


def singular_values(matrix: Float[Tensor, "n k"]) -> Float[Tensor, " r"]:
    """The singular values of a finite encoding matrix (N, K) in decreasing order, in float64."""
    return torch.linalg.svdvals(check_values("matrix", matrix.detach().double()))


def stable_rank(matrix: Float[Tensor, "n k"]) -> float:
    """The stable rank ‖A‖_F² / ‖A‖₂², at most the rank, from the Gram matrix of the shorter side in float64.

    A ``ValueError`` is raised if the matrix is zero, or an entry is not finite. Source: Zheng et al., "Rethinking
    Positional Encoding" (2021), section 3.
    """
    a = check_values("matrix", matrix.detach().double())
    total = float(a.square().sum())
    if total == 0:
        raise _checks.wrong("matrix", "an entry that is not zero", "zeros alone")
    gram = a @ a.T if a.shape[0] <= a.shape[1] else a.T @ a
    return total / float(torch.linalg.eigvalsh(gram)[-1])


def condition_number(matrix: Float[Tensor, "n k"]) -> float:
    """The largest of the min(N, K) singular values over the smallest one; infinite if that is zero."""
    s = singular_values(matrix)
    return float(s[0] / s[-1]) if float(s[-1]) > 0 else math.inf


def matched_scale(sigma: float) -> float:
    """The σ of random Fourier features with a Gaussian's stable rank, and vice versa: σ_g σ_f = 1/(2√2 π).

    The product, 0.1125, follows from 1/(2√π σ_g) = √(2π) σ_f, with lengths in units of the unit interval and
    frequencies in cycles over it. A ``ValueError`` is raised if σ is not positive. Source: Zheng et al. (2021).
    """
    return 1 / (2 * math.sqrt(2) * math.pi) / _checks.positive("sigma", sigma)


def linear_fit_rank(fit: Reconstruction, rcond: float | None = None) -> tuple[int, ...]:
    """The numerical rank of each channel of a rendered image.

    A linear head on a simple encoding gives a(x) + b(y), whose rank is at most 2. On a complex encoding the rank is
    that of the coefficients, at most the smaller of K₁ and K₂. Singular values below ``rcond`` times the largest count
    as zero; the default is ε max(N₁, N₂), with ε of the fit's dtype. A ``ValueError`` is raised if the fit does not
    have two dimensions, or a value is not finite. Source: Zheng et al. (ECCV 2022), section 5.
    """
    if len(fit.lengths) != 2:
        raise _checks.wrong("fit", "one of an image, with two axes", f"{len(fit.lengths)} axes")
    image = check_values("fit", fit.render(alignment="sample").detach())
    rcond = default_rcond(fit.lengths, image.dtype) if rcond is None else _checks.nonnegative("rcond", rcond)
    spectra = torch.linalg.svdvals(image.double().movedim(-1, 0))
    return tuple(int((s > rcond * s[0]).sum()) for s in spectra)


@torch.no_grad()
def distance_preservation(
    encoder: Encoder | JointEncoder,
    delta: Float[Tensor, " m"] | Float[Tensor, "m d"],
    center: float | tuple[float, ...] = 0.5,
) -> Float[Tensor, " m"]:
    """ψ(c)·ψ(c + δ) / ψ(c)·ψ(c), the measured twin of ``encoder.similarity(delta)``.

    The displacements δ are in units of the unit interval, (m, d) for a joint encoder. The position c is ``center``: one
    number for all axes, or one for each. The two agree if the encoder's nodes are dense around c. Source: Zheng et al.
    (ECCV 2022), section 3.
    """
    c = torch.as_tensor(center).to(delta).expand(delta.shape[1:])
    base = encoder(c)
    return encoder(c + delta) @ base / (base @ base)


@torch.no_grad()
def similarity_map(
    encoding: Encoding, axes: Axes, nodes: Int[Tensor, "m d"], dtype: torch.dtype = torch.float64
) -> Float[Tensor, "..."]:
    """The cosine Ψ(p)·Ψ(q) / (|Ψ(p)| |Ψ(q)|) between chosen nodes p of a lattice and all its points q.

    ``nodes`` holds the indices of p. The result is (m, *lattice), and 1 at q = p; for a complex encoding it is the
    product of the cosines of the axes. A ``ValueError`` is raised if the nodes do not have d indices. Source: figure 3
    of Li et al. (NeurIPS 2021).
    """
    if nodes.shape[1] != len(axes):
        raise _checks.wrong("nodes", f"{len(axes)} indices for each node", nodes.shape[1])
    factors = [torch.nn.functional.normalize(a, dim=-1) for a in encoding.matrices(axes, dtype)]
    lattice = tuple(axis.count for axis in axes)
    flat = torch.from_numpy(np.ravel_multi_index(tuple(nodes.T.numpy()), lattice))
    return _inner(factors, flat).reshape(len(nodes), *lattice)


def _inner(factors: list[Tensor], rows: Int[Tensor, " m"]) -> Float[Tensor, "m n"]:
    """Return the inner products of some rows of a Kronecker product, which is not formed, with all its rows."""
    inner = torch.ones(len(rows), 1, dtype=factors[0].dtype)
    for a, index in zip(factors, torch.unravel_index(rows, [len(a) for a in factors]), strict=True):
        inner = torch.einsum("ma,mb->mab", inner, a[index] @ a.T).flatten(1)
    return inner


def frequency_density(
    frequencies: Float[Tensor, " m"], length: int, width: float = KERNEL_WIDTH
) -> Float[Tensor, " bins"]:
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

    The squares are sums of inner products in float64, so that results below 1e-7 are rounding. A ``ValueError`` is
    raised if the lattice has a single point.
    """
    factors = encoding.matrices(axes)
    squares = reduce(torch.kron, [a.square().sum(-1) for a in factors])
    if len(squares) < 2:
        raise _checks.wrong("axes", "at least two points", len(squares))
    least = math.inf
    for rows in torch.arange(len(squares)).split(POINTS_AT_ONCE):
        distances = squares[rows].unsqueeze(-1) + squares - 2 * _inner(factors, rows)
        distances[torch.arange(len(rows)), rows] = math.inf
        least = min(least, float(distances.min()))
    return math.sqrt(max(least, 0.0) / float(squares.mean()))
