"""Forward models: how samples depend on the lattice signal, y = S f, with a weight for each squared error."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from coordnet.linalg.conjugate_gradients import subset
from coordnet.linalg.operators import Identity, LinearOperator, Shape, followed

Outside = Literal["error", "clamp"]
CLUSTERING = 0.25  # in a structured mask a neighbor of an unknown point is unknown this much more often than at random


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

    @property
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
        """Whether the samples are entries of the lattice, and the unknown ones are clustered.

        They are if an unknown point's neighbor is unknown by ``CLUSTERING`` more often than at random.
        """
        if not self.is_mask:
            return False
        unknown = self.weights == 0
        pairs, both = 0, 0
        for axis in range(2, unknown.ndim):
            length = unknown.shape[axis]
            left, right = unknown.narrow(axis, 0, length - 1), unknown.narrow(axis, 1, length - 1)
            pairs += int(left.sum())
            both += int((left & right).sum())
        return pairs > 0 and both / pairs > float(unknown.float().mean()) + CLUSTERING

    def __call__(self, f: Float[Tensor, "signals channels *lattice"]) -> Float[Tensor, "signals channels *samples"]:
        """Return S f."""
        return self.operator(f)

    def backproject(self, y: Float[Tensor, "signals channels *samples"]) -> Float[Tensor, "signals channels *lattice"]:
        """Return SᵀW y; gradients flow to y."""
        return followed(self.operator.T, self.weights * y)

    def normal(self, f: Float[Tensor, "signals channels *lattice"]) -> Float[Tensor, "signals channels *lattice"]:
        """Return SᵀWS f."""
        return self.backproject(self(f))

    def reweighted(self, factor: Float[Tensor, "signals channels *samples"]) -> "ForwardModel":
        """Return the same samples with each weight multiplied by a factor."""
        return replace(self, weights=self.weights * factor)

    def select(self, kept: Bool[Tensor, "signals channels"]) -> "ForwardModel":
        """Return the measurement of some signals' channels, for an operator that does not mix channels."""
        return replace(self, weights=subset(self.weights, kept))


class Interpolation(LinearOperator):
    """The sparse matrix S that maps a lattice signal to values at scattered points.

    ``index`` holds the flat indices of the m nodes that each point depends on, ``weights`` their weights.
    """

    def __init__(self, lattice: Shape, index: Int[Tensor, "n m"], weights: Float[Tensor, "n m"]) -> None:
        self.domain, self.codomain = tuple(lattice), (len(index),)
        self.index, self.weights = index, weights

    def _apply(self, x: Float[Tensor, "*signals_lattice"]) -> Float[Tensor, "*signals n"]:
        batch = self.batch_of(x)
        rows = x.reshape(-1, math.prod(self.domain)).T.contiguous()
        values = embedding_bag(self.index, rows, per_sample_weights=self.weights, mode="sum").T
        return values.reshape(*batch, *self.codomain)

    def _apply_adjoint(self, y: Float[Tensor, "*signals n"]) -> Float[Tensor, "*signals_lattice"]:
        result = y.new_zeros(*y.shape[:-1], math.prod(self.domain))
        for index, weight in zip(self.index.unbind(1), self.weights.unbind(1), strict=True):
            result.index_add_(-1, index, y * weight)
        return result.reshape(*y.shape[:-1], *self.domain)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Interpolation":
        """Return the operator on another device, or for tensors of another dtype."""
        return Interpolation(self.domain, self.index.to(device), self.weights.to(device=device, dtype=dtype))
