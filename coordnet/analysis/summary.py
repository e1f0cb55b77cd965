"""The numbers of one encoder on the samples of its axis, or of its axes where it is joint."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from coordnet.analysis.distance import distance_preservation
from coordnet.analysis.faithfulness import encoder_spectrum, position_reconstruction
from coordnet.analysis.matching import matched_scale
from coordnet.analysis.matrices import condition_number, singular_values, stable_rank
from coordnet.analysis.sweeps import Sweep, known, positions_on, rank_over_samples, rank_over_scale
from coordnet.encodings.encoders import Encoder, FeatureMap, Gaussian, JointEncoder, RandomFourier
from coordnet.sampling.axes import Axes, Axis

FACTORS = [2.0 ** (k / 2) for k in range(-6, 11)]  # of the scale that is swept


@dataclass(frozen=True)
class EncoderSummary:
    """What an encoding matrix tells.

    Attributes
    ----------
    stable_rank, theory : float
        Measured, and as the papers derive it (None where they do not).
    rank : int
        Singular values above ε max(N, K) of the largest.
    condition : float
        Infinity is None, as JSON has it.
    distances, similarity, measured : list of float
        δ in units of the unit interval, along the first axis; D(δ); and the inner product that it stands for.
    singular_values : list of float
        Falling.
    over_scale, over_samples : Sweep
        Stable rank against the scale (None for encoders without one) and against the number of samples.
    matched_sigma : float
        Of a Gaussian the σ of the RFF of equal stable rank, and the other way round; None for others.
    spectrum, reconstruction : list of float
        The share of each DFT bin of the axis, and the position N // 2 as that weighs it (None for joint encoders).
    """

    stable_rank: float
    theory: float | None
    rank: int
    condition: float | None
    distances: list[float]
    similarity: list[float]
    measured: list[float]
    singular_values: list[float]
    over_scale: Sweep | None
    over_samples: Sweep
    matched_sigma: float | None
    spectrum: list[float] | None
    reconstruction: list[float] | None

    def record(self) -> dict[str, Any]:
        """The summary as JSON holds it."""
        return asdict(self)


@torch.no_grad()
def summarise(encoder: FeatureMap, where: Axis | Axes, reach: float = 6.0) -> EncoderSummary:
    """Measure an encoder.

    Parameters
    ----------
    encoder : Encoder or JointEncoder
        The encoder.
    where : Axis, or tuple of Axis
        Its samples: of one axis, or the lattice that d of them span.
    reach : float
        How far the similarity is followed, in spacings of the first axis.
    """
    axes = (where,) if isinstance(where, Axis) else tuple(where)
    matrix = encoder(positions_on(encoder, axes))
    s = singular_values(matrix)
    delta, similarity, measured = _distances(encoder, axes, reach)
    spectrum = encoder_spectrum(encoder, axes[0]) if isinstance(encoder, Encoder) else None
    back = None if spectrum is None else position_reconstruction(spectrum, axes[0].count // 2, axes[0].count)
    counts = sorted({max(2, round(axes[0].count * k / 8)) for k in range(1, 9)})
    return EncoderSummary(
        stable_rank=stable_rank(matrix),
        theory=known(encoder.stable_rank(len(matrix))),
        rank=int((s > torch.finfo(s.dtype).eps * max(matrix.shape) * s[0]).sum()),
        condition=known(condition_number(matrix)),
        distances=delta.tolist(),
        similarity=similarity.tolist(),
        measured=measured.tolist(),
        singular_values=s.tolist(),
        over_scale=rank_over_scale(encoder, axes, FACTORS),
        over_samples=rank_over_samples(encoder, axes, counts),
        matched_sigma=matched_scale(encoder.scale("sigma"))
        if isinstance(encoder, Gaussian | RandomFourier)
        else None,
        spectrum=None if spectrum is None else spectrum.tolist(),
        reconstruction=None if back is None else back.tolist(),
    )


def _distances(encoder: FeatureMap, axes: Axes, reach: float) -> tuple[Tensor, Tensor, Tensor]:
    """δ on the first axis, D(δ) (evaluated for δ ≥ 0 alone, being even), and the inner products at the middle."""
    first = axes[0]
    limit = min(reach * first.spacing, first.spacing * (first.count // 2), 1.0)
    joint = isinstance(encoder, JointEncoder)
    half = torch.linspace(0, limit, 9 if joint else 49, dtype=torch.float64)
    delta = torch.cat([-half[1:].flip(0), half])
    assert isinstance(encoder, Encoder | JointEncoder)
    similarity = encoder.similarity(_along_first(half, len(axes)) if joint else half)
    centre = [a.start + a.spacing * (a.count // 2) for a in axes]
    offsets = _along_first(delta, len(axes)) if joint else delta
    measured = distance_preservation(encoder, offsets, tuple(centre) if joint else centre[0])
    return delta, torch.cat([similarity[1:].flip(0), similarity]), measured


def _along_first(delta: Tensor, dimensions: int) -> Tensor:
    return torch.nn.functional.pad(delta.unsqueeze(-1), (0, dimensions - 1))
