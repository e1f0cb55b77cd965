"""How much a second reconstruction is trusted against the first, by the distance to what is known."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from coordnet.metrics.scores import decibels

FARTHEST = 8  # steps to a known point beyond which the weight is 0 unless hidden samples were as far
EDGES = (1, 2, 4, FARTHEST)  # the largest distances of the regions
MIN_HIDDEN = 50  # hidden samples that a region needs for a weight of its own
MIN_IMPROVEMENT = 0.005  # relative fall of the squared error at hidden samples that gives any weight
MAX_WEIGHT = 1.2
HOPE = 10**0.6  # 6 dB: of squared hidden error, by which others may be better than what patches improve on
CELL = 16  # lattice points along an axis within which hidden samples say the same: twice a patch


@dataclass(frozen=True)
class Weights:
    """The weight of a second reconstruction against a first, by the distance to the nearest known entry.

    Attributes
    ----------
    edges : tuple of int
        The largest distance of each region, in steps along axes and diagonals.
    alphas : tuple of float
        The weight in each region; it is 0 beyond the last.
    errors : (float, float)
        The mean squared errors at hidden samples, of the first reconstruction and of the weighted mean.
    clustered : bool
        Whether the weight is 0 in holes that are wider than a patch.
    """

    edges: tuple[int, ...]
    alphas: tuple[float, ...]
    errors: tuple[float, float] | None = None
    clustered: bool = False

    @classmethod
    def none(cls) -> "Weights":
        """Return weights of 0."""
        return cls((), ())

    @property
    def are_zero(self) -> bool:
        """Whether only the first reconstruction counts."""
        return not any(self.alphas)

    def on(self, known: Bool[Tensor, "#channels *lattice"]) -> Float[Tensor, "#channels *lattice"]:
        """Return the weight at every lattice point."""
        alphas = torch.tensor([*self.alphas, 0.0], device=known.device)
        edges = torch.tensor(self.edges, device=known.device)
        return alphas[torch.bucketize(distances(known, clustered=self.clustered), edges)]

    def record(self, span: float, known: Bool[Tensor, "#channels *lattice"], against: str) -> dict[str, Any]:
        """Return the weights as JSON holds them, and the PSNR at hidden samples of a signal with a range.

        Beside the weight by distance there are its mean and its range over the unknown points.
        """
        record: dict[str, Any] = {"alpha": dict(zip(map(str, self.edges), self.alphas, strict=True))}
        at = self.on(known)[~known]
        if len(at):
            low, high = at.aminmax()
            record |= {"alpha_mean": float(at.mean()), "alpha_range": [float(low), float(high)], "against": against}
        if self.errors is not None:
            psnr = [decibels(e, 1 / span) for e in self.errors]
            record["hold_out_psnr"] = {"pilot": psnr[0], "local": psnr[1]}
        return record


def choose_weights(
    known: Bool[Tensor, "#channels *lattice"],
    hidden: Bool[Tensor, "channels *lattice"],
    values: Float[Tensor, "channels *lattice"],
    first: Float[Tensor, "channels *lattice"],
    second: Float[Tensor, "channels *lattice"],
    *,
    clustered: bool = False,
) -> Weights:
    """Return the weights α of least squared error Σ (first + α (second - first) - values)² at hidden samples.

    Regions are those of ``EDGES`` that have hidden samples enough; a region without them takes the weight of the one
    before, up to the last that has any. If the hidden samples are ``clustered``, which are few values, all distances
    have one weight, and a weight α with the variance v is shrunk to α - 2v/α, or to 0; holes wider than a patch keep
    the first reconstruction. All weights are 0 if the error falls by less than ``MIN_IMPROVEMENT``.
    """
    regions = EDGES[-1:] if clustered else EDGES
    at = distances(known, clustered=clustered).expand_as(values)[hidden]
    cells = _cells(known).expand_as(values)[hidden] if clustered else None
    error, step = (first - values)[hidden], (second - first)[hidden]
    edges, alphas, alpha = [], [], 0.0
    blended = error.clone()
    for near, far in zip((0, *regions), regions, strict=False):
        inside = (at > near) & (at <= far)
        enough = int(inside.sum()) >= MIN_HIDDEN
        if not enough and not bool(inside.any()):
            break
        if enough or not alphas:
            alpha = best_weight(error[inside], step[inside], None if cells is None else cells[inside])
        edges.append(far)
        alphas.append(alpha)
        blended[inside] += alpha * step[inside]
    before, after = float(error.square().mean()), float(blended.square().mean())
    if after > (1 - MIN_IMPROVEMENT) * before:
        return Weights((), (), (before, before))
    return Weights(tuple(edges), tuple(alphas), (before, after), clustered)


def best_weight(error: Tensor, step: Tensor, cells: Int[Tensor, " n"] | None = None) -> float:
    """Return the α of least Σ (error + α step)², shrunk as its variance asks if cells are given.

    It is then 0 where Akaike's criterion does without it. The variance is that of errors which depend on one another
    within a cell (Liang and Zeger, "Longitudinal data analysis using generalized linear models", 1986).
    """
    energy = float(step.square().sum())
    alpha = -float((error * step).sum()) / energy if energy > 0 else 0.0
    if alpha <= 0 or cells is None:
        return min(max(alpha, 0.0), MAX_WEIGHT)
    distinct, which = cells.unique(return_inverse=True)
    scores = step.new_zeros(len(distinct)).index_add_(0, which, step * (error + alpha * step))
    variance = float(scores.square().sum()) / energy**2
    return min(max(alpha - 2 * variance / alpha, 0.0), MAX_WEIGHT)


def _cells(known: Bool[Tensor, "#channels *lattice"]) -> Int[Tensor, " *lattice"]:
    """Return the number of the cell in which each lattice point is."""
    cells = torch.zeros((), dtype=torch.long, device=known.device)
    for length in known.shape[1:]:
        along = torch.arange(length, device=known.device) // CELL
        cells = cells.unsqueeze(-1) * (length // CELL + 1) + along
    return cells


def distances(
    known: Bool[Tensor, "#channels *lattice"], *, clustered: bool = False
) -> Int[Tensor, "#channels *lattice"]:
    """Return the distance to the nearest known point, in steps along axes and diagonals, at most ``FARTHEST + 1``.

    If the unknown points are ``clustered``, holes wider than a patch have ``FARTHEST + 1`` everywhere: all points of
    squares (or cubes) of unknown points whose sides are that long.
    """
    distance = torch.full(known.shape, FARTHEST + 1, dtype=torch.int16, device=known.device)
    reached = known
    for _ in range(FARTHEST + 1):  # each step reaches one farther, and is one less to go for what is reached
        distance -= reached.to(distance)
        reached = _dilated(reached)
    if clustered:
        holes = distance > FARTHEST // 2  # the centers of squares of FARTHEST + 1 unknown points
        for _ in range(FARTHEST // 2):
            holes = _dilated(holes)
        distance.masked_fill_(holes, FARTHEST + 1)
    return distance.long()


def _dilated(mask: Bool[Tensor, "c *lattice"]) -> Bool[Tensor, "c *lattice"]:
    """Return whether a point of the mask is among each point's neighbors along axes and diagonals, or is the point."""
    for axis in range(1, mask.ndim):
        rest, wider = mask.shape[axis] - 1, mask.clone()
        wider.narrow(axis, 1, rest).logical_or_(mask.narrow(axis, 0, rest))
        wider.narrow(axis, 0, rest).logical_or_(mask.narrow(axis, 1, rest))
        mask = wider
    return mask
