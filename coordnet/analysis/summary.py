"""The measures of one encoder on its samples, and stable ranks against its scale and the number of samples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from coordnet.analysis import measures
from coordnet.analysis.measures import stable_rank
from coordnet.encodings.encoders import Encoder, FeatureMap, Gaussian, JointEncoder, RandomFourier
from coordnet.sampling.axes import Axes, Axis

FACTORS = [2.0 ** (k / 2) for k in range(-6, 11)]  # the scales of a sweep, relative to the encoder's own
MATCHED = (Gaussian.name, RandomFourier.name)  # encoders whose σ has a partner of equal stable rank
SPACINGS = 6.0  # the largest distance at which the similarity is evaluated, in spacings of the first axis


@dataclass(frozen=True)
class Sweep:
    """A curve of stable ranks."""

    name: str  # the quantity that is varied: a scale parameter (its value on the first axis), or N
    at: list[float]  # its values
    measured: list[float]  # ‖A‖_F² / ‖A‖₂² of the encoding matrix
    theory: list[float | None]  # the stable rank that the papers derive; None if they derive none


@torch.no_grad()
def rank_over_scale(encoder: FeatureMap, axes: Axes, factors: Sequence[float]) -> Sweep | None:
    """Stable ranks of copies of an encoder with its scales multiplied by each factor; None if it has no scale."""
    if not encoder.scales:
        return None
    name, x = encoder.scales[0].name, encoder.positions(axes)
    copies = [encoder.rescaled(factor) for factor in factors]
    scales = [copy.scale(name) for copy in copies]
    at = [s[0] if isinstance(s, tuple) else s for s in scales]
    return Sweep(name, at, [stable_rank(c(x)) for c in copies], [finite(c.stable_rank(len(x))) for c in copies])


@torch.no_grad()
def rank_over_samples(encoder: FeatureMap, axes: Axes, counts: Sequence[int]) -> Sweep:
    """Stable ranks of an encoder on the same interval, for each number of samples along every axis in ``counts``."""
    grids = [tuple(Axis(n, a.start, (a.stop - a.start) / n) for a in axes) for n in counts]
    each = [encoder.positions(grid) for grid in grids]
    theory = [finite(encoder.stable_rank(len(x))) for x in each]
    return Sweep("N", [float(len(x)) for x in each], [stable_rank(encoder(x)) for x in each], theory)


def finite(value: float) -> float | None:
    """The number, or None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class EncoderSummary:
    """The analysis of an encoding matrix; None stands for infinity and NaN, which JSON does not have."""

    stable_rank: float  # as measured
    theory: float | None  # the stable rank that the papers derive, if they derive one
    rank: int  # the number of singular values above ε max(N, K) times the largest
    condition: float | None
    distances: list[float]  # δ along the first axis in units of the unit interval
    similarity: list[float]  # D(δ)
    measured: list[float]  # the inner product of encodings at distance δ
    singular_values: list[float]  # in decreasing order
    over_scale: Sweep | None  # None for encoders without a scale
    over_samples: Sweep
    matched_sigma: float | None  # ``matched_scale`` of σ; None for encoders other than ``MATCHED``
    spectrum: list[float] | None  # the share of each DFT bin; None for joint encoders
    reconstruction: list[float] | None  # the position N // 2 reconstructed with these shares


@torch.no_grad()
def summarize(encoder: Encoder | JointEncoder, where: Axis | Axes) -> EncoderSummary:
    """Measure an encoder on the samples of one axis, or a joint encoder on the lattice of several axes."""
    axes = (where,) if isinstance(where, Axis) else tuple(where)
    matrix = encoder(encoder.positions(axes))
    s = measures.singular_values(matrix)
    delta, similarity, measured = _distances(encoder, axes)
    shares = None if encoder.joint else measures.encoder_spectrum(cast(Encoder, encoder), axes[0])
    count = axes[0].count
    back = None if shares is None else measures.position_reconstruction(shares, count // 2, count)
    return EncoderSummary(
        stable_rank=stable_rank(matrix),
        theory=finite(encoder.stable_rank(len(matrix))),
        rank=int((s > torch.finfo(s.dtype).eps * max(matrix.shape) * s[0]).sum()),
        condition=finite(measures.condition_number(matrix)),
        distances=delta.tolist(),
        similarity=similarity.tolist(),
        measured=measured.tolist(),
        singular_values=s.tolist(),
        over_scale=rank_over_scale(encoder, axes, FACTORS),
        over_samples=rank_over_samples(encoder, axes, sorted({max(2, round(count * k / 8)) for k in range(1, 9)})),
        matched_sigma=measures.matched_scale(encoder.scale("sigma")) if encoder.name in MATCHED else None,
        spectrum=None if shares is None else shares.tolist(),
        reconstruction=None if back is None else back.tolist(),
    )


def describe(record: dict[str, Any]) -> str:
    """The ranks and the condition of a summary's record as a line of text."""
    theory = "" if record["theory"] is None else f" (theory {record['theory']:.4g})"
    condition = math.inf if record["condition"] is None else record["condition"]
    matched = "" if record["matched_sigma"] is None else f", matched σ {record['matched_sigma']:.4g}"
    ranks = f"stable rank {record['stable_rank']:.4g}{theory}, rank {record['rank']}"
    return f"{ranks}, condition {condition:.2g}{matched}"


def _distances(encoder: Encoder | JointEncoder, axes: Axes) -> tuple[Tensor, Tensor, Tensor]:
    """δ along the first axis, D(δ), which is even, and the inner products at the middle sample."""
    first = axes[0]
    limit = min(SPACINGS * first.spacing, first.spacing * (first.count // 2), 1.0)
    half = torch.linspace(0, limit, 9 if encoder.joint else 49, dtype=torch.float64)
    delta = torch.cat([-half[1:].flip(0), half])
    offsets = torch.nn.functional.pad(delta.unsqueeze(-1), (0, len(axes) - 1)) if encoder.joint else delta
    similarity = encoder.similarity(offsets[len(half) - 1 :])
    center = tuple(a.start + a.spacing * (a.count // 2) for a in axes)
    measured = measures.distance_preservation(encoder, offsets, center if encoder.joint else center[0])
    return delta, torch.cat([similarity[1:].flip(0), similarity]), measured
