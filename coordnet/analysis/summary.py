"""The numbers of one encoder on the samples of one axis."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

from coordnet.analysis.distance import distance_preservation
from coordnet.analysis.matrices import condition_number, singular_values, stable_rank
from coordnet.coordinates import Axis
from coordnet.encoders import Encoder


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
        δ in units of the unit interval, D(δ), and the inner product that it stands for.
    singular_values : list of float
        Falling.
    """

    stable_rank: float
    theory: float | None
    rank: int
    condition: float | None
    distances: list[float]
    similarity: list[float]
    measured: list[float]
    singular_values: list[float]

    def record(self) -> dict[str, Any]:
        """The summary as JSON holds it."""
        return asdict(self)


@torch.no_grad()
def summarise(encoder: Encoder, axis: Axis, reach: float = 6.0) -> EncoderSummary:
    """Measure an encoder on the samples of an axis, its similarity up to ``reach`` spacings away."""
    matrix = encoder(axis.points())
    s = singular_values(matrix)
    theory, condition = encoder.stable_rank(axis.count), condition_number(matrix)
    delta = torch.linspace(-reach, reach, 97, dtype=torch.float64) * axis.spacing
    centre = axis.start + axis.spacing * (axis.count // 2)
    return EncoderSummary(
        stable_rank=stable_rank(matrix),
        theory=None if math.isnan(theory) else theory,
        rank=int((s > torch.finfo(s.dtype).eps * max(matrix.shape) * s[0]).sum()),
        condition=condition if math.isfinite(condition) else None,
        distances=delta.tolist(),
        similarity=encoder.similarity(delta).tolist(),
        measured=distance_preservation(encoder, delta, centre).tolist(),
        singular_values=s.tolist(),
    )
