"""Stable rank, measured and theoretical, against the scale of an encoder and against the number of samples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.analysis.matrices import stable_rank
from coordnet.encodings.encoders import FeatureMap, JointEncoder
from coordnet.sampling.axes import Axes, Axis, lattice_points


@dataclass(frozen=True)
class Sweep:
    """A curve of stable ranks.

    Attributes
    ----------
    name : str
        What is swept: a scale parameter (of the first axis, where it has one an axis), or N.
    at : list of float
        Its values.
    measured : list of float
        ‖A‖_F² / ‖A‖₂².
    theory : list of float or None
        As the papers derive it, None where they do not.
    """

    name: str
    at: list[float]
    measured: list[float]
    theory: list[float | None]


def positions_on(encoder: FeatureMap, axes: Axes) -> Float[Tensor, "..."]:
    """What an encoder is evaluated at: the points (N,) of the first axis, or those (N, d) of the lattice of all."""
    return lattice_points(axes).flatten(0, -2) if isinstance(encoder, JointEncoder) else axes[0].points()


@torch.no_grad()
def rank_over_scale(encoder: FeatureMap, axes: Axes, factors: Sequence[float]) -> Sweep | None:
    """Stable rank of an encoder and of its copies at some factors of its scale; None where it has no scale."""
    if not encoder.scales:
        return None
    name, x = encoder.scales[0].name, positions_on(encoder, axes)
    copies = [encoder.rescaled(factor) for factor in factors]
    scales = [copy.scale(name) for copy in copies]
    return Sweep(
        name,
        [s[0] if isinstance(s, tuple) else s for s in scales],
        [stable_rank(copy(x)) for copy in copies],
        [known(copy.stable_rank(len(x))) for copy in copies],
    )


@torch.no_grad()
def rank_over_samples(encoder: FeatureMap, axes: Axes, counts: Sequence[int]) -> Sweep:
    """Stable rank of an encoder on ever more samples of the same interval, ``counts`` along each axis."""
    made = [tuple(Axis(n, a.start, (a.stop - a.start) / n) for a in axes) for n in counts]
    rows = [positions_on(encoder, some) for some in made]
    return Sweep(
        "N",
        [float(len(x)) for x in rows],
        [stable_rank(encoder(x)) for x in rows],
        [known(encoder.stable_rank(len(x))) for x in rows],
    )


def known(value: float) -> float | None:
    """A number, or None for NaN and infinity, as JSON has it."""
    return value if math.isfinite(value) else None
