"""Forward models: how samples depend on the lattice signal, y = S f, with a weight for each squared error."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from coordnet.linalg.conjugate_gradients import Places, subset
from coordnet.linalg.machine import is_tracked, is_transformed
from coordnet.linalg.operators import Identity, LinearOperator, Shape, followed
from coordnet.sampling.gap_copies import (
    MOST_COPIES,
    are_areas,
    are_clustered,
    beside,
    copies_of_gaps,
    hide_under_gaps,
    moving_gaps,
    outside,
)

MIN_LEFT = 20  # samples that must be left when some are hidden
TRIES = 16  # random draws

Outside = Literal["error", "clamp"]


@dataclass(frozen=True, eq=False)
class ForwardModel:
    """Samples y = S f + noise of a lattice signal f, with weights W of the squared errors, 0 where nothing is known.

    S maps signals (signals, channels, *lattice) to samples (signals, channels, *samples); ``row_energy`` is the squared
    norm of every row of S, where S is an entry or a blend of the lattice's.
    """

    operator: LinearOperator
    weights: Float[Tensor, "signals channels *samples"]
    row_energy: float | Float[Tensor, "*samples"] = 1.0
    is_general: bool = False  # whether S is any operator, whose rows are no entries or blends of the lattice's

    @cached_property
    def density(self) -> float:
        """The trace of SᵀWS divided by the size of the lattice: the fraction of known points, for a mask."""
        traces = (self.weights * self.row_energy).flatten(2).sum(-1)
        return float(traces.mean()) / math.prod(self.operator.domain)

    @classmethod
    def mask(cls, weights: Float[Tensor, "signals channels *lattice"]) -> "ForwardModel":
        """Return the measurement of the lattice's own entries, unknown where the weight is 0."""
        return cls(Identity(tuple(weights.shape[2:])), weights)

    @property
    def is_mask(self) -> bool:
        """Whether the samples are entries of the lattice itself."""
        return isinstance(self.operator, Identity)

    @property
    def is_plain_mask(self) -> bool:
        """Whether the samples are entries of the lattice, with weights of 0 and 1 alone."""
        return self.is_mask and bool(((self.weights == 0) | (self.weights == 1)).all())

    @property
    def is_structured_mask(self) -> bool:
        """Whether the samples are entries of the lattice, and the unknown ones are clustered (``are_clustered``)."""
        return self.is_mask and are_clustered((self.weights == 0).flatten(0, 1))

    def __call__(self, f: Float[Tensor, "signals channels *lattice"]) -> Float[Tensor, "signals channels *samples"]:
        """Return S f."""
        return self.operator(f)

    def backproject(self, y: Float[Tensor, "signals channels *samples"]) -> Float[Tensor, "signals channels *lattice"]:
        """Return SᵀW y; gradients flow to y."""
        return followed(self.operator.T, self.weights * y)

    def normal(self, f: Float[Tensor, "signals channels *lattice"]) -> Float[Tensor, "signals channels *lattice"]:
        """Return SᵀWS f."""
        return self.backproject(self(f))

    def hide(
        self,
        share: float,
        generator: torch.Generator,
        values: Float[Tensor, "signals channels *samples"],
        copies: int = MOST_COPIES,
    ) -> Float[Tensor, "1 masks *samples"] | None:
        """Draw samples to hide of these values: 1 where a known sample is hidden, 0 elsewhere, (1, 1 or channels, …).

        A random ``share`` of the samples is hidden. A draw that hides more than twice as many is repeated: the mask was
        drawn from the same seed. If the unknown points of a mask are clustered, the hidden points have their shape
        instead: the unknown pattern is shifted, or mirrored along an axis with a gap at one end, to ``copies`` places
        at most where much of it is known and the values vary as they do around the gaps. If most are outside the known
        ones, those beside them are hidden instead. Of three axes or more the first is time: where its frames have gaps
        that others have not, the gaps of some frames are laid over others.
        The result is None if ``share`` is 0 or too few samples are known.
        """
        known = (self.weights > 0).any(0, keepdim=True)
        under = hide_under_gaps(known[0], generator) if self.has_moving_areas else None
        if under is not None:
            hidden = under.unsqueeze(0)
        elif self._outside is not None:
            hidden = beside(self._outside, known[0], generator).unsqueeze(0)
        elif self._has_holes:
            hidden = copies_of_gaps(known, values.detach(), generator, copies)
        else:
            draws = (torch.rand(known.shape, generator=generator, dtype=torch.float32) < share for _ in range(TRIES))
            drawn = (draw.to(known.device) & known for draw in draws)
            most = max(2 * share * int(known.sum()), MIN_LEFT)
            hidden = next((draw for draw in drawn if int(draw.sum()) <= most), known)
        left = int((known & ~hidden).sum())
        if share == 0 or int(hidden.sum()) < 2 or left < MIN_LEFT:
            return None
        return hidden.to(self.weights)

    @property
    def hides_in_shape(self) -> bool:
        """Whether samples that ``hide`` hides have the shape of what is unknown."""
        return self.has_moving_areas or self._has_holes or self._outside is not None

    @property
    def _moving(self) -> Bool[Tensor, "channels frames *space"] | None:
        """Where the samples of a mask of three axes or more are known, if frames have gaps beside what none knows."""
        known = (self.weights > 0).any(0)
        return known if self.is_mask and known.ndim > 3 and bool(moving_gaps(known).any()) else None

    @property
    def has_moving_areas(self) -> bool:
        """Whether the first axis is time, and areas are unknown in some of its frames and known in others."""
        return self._moving is not None and are_areas(self._moving)

    @cached_property
    def _outside(self) -> Bool[Tensor, "masks *lattice"] | None:
        """The points outside the known ones, if most unknown ones are; None where frames have gaps of their own."""
        return outside((self.weights > 0).any(0)) if self.is_mask and self._moving is None else None

    @property
    def _has_holes(self) -> bool:
        moving = self._moving
        return self.is_structured_mask and (moving is None or are_clustered(moving_gaps(moving).flatten(0, 1)))

    def reweighted(self, factor: Float[Tensor, "signals channels *samples"]) -> "ForwardModel":
        """Return the same samples with each weight multiplied by a factor."""
        return replace(self, weights=self.weights * factor)

    def select(self, kept: Places) -> "ForwardModel":
        """Return the measurement of some signals' channels, for an operator that does not mix channels."""
        return replace(self, weights=subset(self.weights, kept))


class Interpolation(LinearOperator):
    """The sparse matrix S that maps a lattice signal to values at scattered points.

    ``index`` holds the flat indices of the m nodes that each point depends on, ``weights`` their weights.
    """

    is_portable = True

    def __init__(self, lattice: Shape, index: Int[Tensor, "n m"], weights: Float[Tensor, "n m"]) -> None:
        self.domain, self.codomain = tuple(lattice), (len(index),)
        self.index, self.weights = index, weights

    def _apply(self, x: Float[Tensor, "*signals_lattice"]) -> Float[Tensor, "*signals n"]:
        batch = self.batch_of(x)
        rows = x.reshape(-1, math.prod(self.domain)).T.contiguous()
        if is_tracked(self.weights) or is_transformed(rows):  # embedding_bag has one derivative, and none forward
            values = (rows[self.index] * self.weights.unsqueeze(-1)).sum(1).T
        else:
            values = embedding_bag(self.index, rows, per_sample_weights=self.weights, mode="sum").T
        return values.reshape(*batch, *self.codomain)

    def _apply_adjoint(self, y: Float[Tensor, "*signals n"]) -> Float[Tensor, "*signals_lattice"]:
        parts = (y.unsqueeze(-2) * self.weights.T).flatten(-2)
        result = y.new_zeros(*y.shape[:-1], math.prod(self.domain)).index_add_(-1, self._nodes, parts)
        return result.reshape(*y.shape[:-1], *self.domain)

    @cached_property
    def _nodes(self) -> Int[Tensor, " nm"]:
        """The first node of every point, then the second of every point, and so on."""
        return self.index.T.flatten()
