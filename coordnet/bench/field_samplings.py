"""What ``coordnet bench kinds`` gives of a field: samples for coordnet, points and values for the peers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float

from coordnet.sampling import Samples, ScatteredPoints, sample

NOISE_SIGMA = 0.05  # standard deviation of the noise, for fields in [0, 1]
UNKNOWN = 0.2  # share of a field in gaps

Values = Float[np.ndarray, "*grid"]
Known = Bool[np.ndarray, "*grid"]


@dataclass(frozen=True)
class Given:
    """The known part of a field: samples for coordnet, and for peers points (n, d) in steps of the grid, and values."""

    truth: Values
    scored: Known  # the nodes at which estimates are scored
    samples: Samples
    points: Float[np.ndarray, "n d"]
    values: Float[np.ndarray, " n"]
    mask: Known | None = None  # the known nodes around gaps, which ``inpaint`` takes
    noise: float = 0.0

    @property
    def is_full(self) -> bool:
        """Whether every node is given, so that ``denoise`` takes them."""
        return len(self.values) == self.truth.size


def _at_nodes(truth: Values, known: Known, noise: float = 0.0, **more: Any) -> Given:
    """Give a field at its known nodes, with white noise of this deviation, for which all nodes are scored."""
    observed = truth + noise * np.random.default_rng(1).standard_normal(truth.shape)
    samples = sample(torch.from_numpy(observed).unsqueeze(-1), torch.from_numpy(known))
    points = np.stack(np.nonzero(known), 1).astype(float)
    return Given(truth, ~known | (noise > 0), samples, points, observed[known], noise=noise, **more)


def every_second(truth: Values) -> Given:
    """Give every second node along every axis."""
    known = np.zeros(truth.shape, bool)
    known[(slice(None, None, 2),) * truth.ndim] = True
    return replace(_at_nodes(truth, known), samples=sample(torch.from_numpy(truth).unsqueeze(-1), "every:2"))


def at_random(truth: Values, share: float, noise: float = 0.0) -> Given:
    """Give a random share of the nodes, with noise if a deviation is named."""
    return _at_nodes(truth, np.random.default_rng(7).random(truth.shape) < share, noise)


def gaps(truth: Values) -> Given:
    """Give all but boxes, from scratches to holes: lengths are uniform in their logarithm, from 2 to a quarter."""
    generator, known = np.random.default_rng(3), np.ones(truth.shape, bool)
    while known.mean() > 1 - UNKNOWN:
        lengths = [round(2 * (max(2, n / 4) / 2) ** generator.random()) for n in truth.shape]
        firsts = [generator.integers(0, n - m + 1) for n, m in zip(truth.shape, lengths, strict=True)]
        known[tuple(slice(a, a + m) for a, m in zip(firsts, lengths, strict=True))] = False
    return _at_nodes(truth, known, mask=known)


def scattered(truth: Values) -> Given:
    """Give points between the nodes: the field's nodes are every second one, and points are drawn from the others."""
    part = (slice(None, None, 2),) * truth.ndim
    between = np.ones(truth.shape, bool)
    between[part] = False
    nodes = truth[part]
    places = np.stack(np.nonzero(between), 1)
    chosen = np.random.default_rng(5).permutation(len(places))[: round(0.3 * nodes.size)]
    points, values = places[np.sort(chosen)] / 2, truth[tuple(places[np.sort(chosen)].T)]
    geometry = ScatteredPoints(nodes.shape, torch.from_numpy(points / nodes.shape))
    samples = Samples(geometry, torch.from_numpy(values).unsqueeze(-1))
    return Given(nodes, np.ones(nodes.shape, bool), samples, points, values)


SAMPLINGS: Mapping[str, Callable[[Values], Given]] = {
    "every second": every_second,
    "a tenth": partial(at_random, share=0.1),
    "three tenths": partial(at_random, share=0.3),
    "gaps": gaps,
    "points between": scattered,
    f"three tenths, σ = {NOISE_SIGMA}": partial(at_random, share=0.3, noise=NOISE_SIGMA),
    f"every node, σ = {NOISE_SIGMA}": partial(at_random, share=1.0, noise=NOISE_SIGMA),
}
