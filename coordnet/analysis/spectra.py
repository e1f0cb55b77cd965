"""Stable rank against the scale of an encoder and the number of samples, and scales of equal stable rank."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from coordnet import _checks
from coordnet.analysis.matrices import stable_rank
from coordnet.encodings.encoders import FeatureMap
from coordnet.sampling.axes import Axes, Axis


def matched_scale(sigma: float) -> float:
    """The σ of random Fourier features with a Gaussian's stable rank, and vice versa: σ_g σ_f = 1/(2√2 π).

    The product, 0.1125, follows from 1/(2√π σ_g) = √(2π) σ_f, with lengths in units of the unit interval and
    frequencies in cycles over it. A ``ValueError`` is raised if σ is not positive. Source: Zheng et al., "Rethinking
    Positional Encoding" (2021).
    """
    return 1 / (2 * math.sqrt(2) * math.pi) / _checks.positive("sigma", sigma)


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
    return Sweep(
        name,
        [s[0] if isinstance(s, tuple) else s for s in scales],
        [stable_rank(copy(x)) for copy in copies],
        [finite(copy.stable_rank(len(x))) for copy in copies],
    )


@torch.no_grad()
def rank_over_samples(encoder: FeatureMap, axes: Axes, counts: Sequence[int]) -> Sweep:
    """Stable ranks of an encoder on the same interval, for each number of samples along every axis in ``counts``."""
    grids = [tuple(Axis(n, a.start, (a.stop - a.start) / n) for a in axes) for n in counts]
    positions = [encoder.positions(grid) for grid in grids]
    return Sweep(
        "N",
        [float(len(x)) for x in positions],
        [stable_rank(encoder(x)) for x in positions],
        [finite(encoder.stable_rank(len(x))) for x in positions],
    )


def finite(value: float) -> float | None:
    """The number, or None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None
