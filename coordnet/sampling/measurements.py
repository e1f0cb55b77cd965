"""Measurements: how samples depend on the lattice signal, y = S f, with a weight for each squared error."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from coordnet.linalg.conjugate_gradients import subset
from coordnet.linalg.operators import ChannelRotation, Identity, LinearOperator, Shape

Outside = Literal["error", "clamp"]
CLUSTERING = 0.25  # in a structured mask a neighbor of an unknown point is unknown this much more often than at random


@dataclass(frozen=True, eq=False)
class Measurement:
    """Samples y = S f + noise of a lattice signal f, with weights W of the squared errors, 0 where nothing is known.

    S maps signals (signals, channels, *lattice) to samples (signals, channels, *samples); ``row_energy`` is the squared
    norm of every row of S.
    """

    operator: LinearOperator
    weights: Float[Tensor, "signals channels *samples"]
    row_energy: float | Float[Tensor, "*samples"] = 1.0

    @property
    def lattice(self) -> Shape:
        """The lengths of the lattice."""
        return self.operator.domain

    @property
    def density(self) -> float:
        """The trace of SᵀWS divided by the size of the lattice: the fraction of known points, for a mask."""
        traces = (self.weights * self.row_energy).flatten(2).sum(-1)
        return float(traces.mean()) / math.prod(self.lattice)

    @classmethod
    def mask(cls, weights: Float[Tensor, "signals channels *lattice"]) -> "Measurement":
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
        """Whether the samples are entries of the lattice, and the unknown ones are clustered."""
        return self.is_mask and is_structured(self.weights)

    def __call__(self, f: Float[Tensor, "signals channels *lattice"]) -> Float[Tensor, "signals channels *samples"]:
        """Return S f."""
        return self.operator(f)

    def backproject(self, y: Float[Tensor, "signals channels *samples"]) -> Float[Tensor, "signals channels *lattice"]:
        """Return SᵀW y."""
        return self.operator.adjoint(self.weights * y)

    def normal(self, f: Float[Tensor, "signals channels *lattice"]) -> Float[Tensor, "signals channels *lattice"]:
        """Return SᵀWS f."""
        return self.backproject(self(f))

    def lumped_diagonal(self) -> Float[Tensor, "signals channels *lattice"]:
        """Return the row sums of SᵀWS for an S whose rows sum to 1: its diagonal, for a mask."""
        return self.operator.adjoint(self.weights).clamp(min=0)

    def reweighted(self, factor: Float[Tensor, "signals channels *samples"]) -> "Measurement":
        """Return the same samples with each weight multiplied by a factor."""
        return replace(self, weights=self.weights * factor)

    def without(self, hidden: Float[Tensor, "signals channels *samples"]) -> "Measurement":
        """Return the samples that are not hidden (0 in ``hidden``, which is 1 elsewhere)."""
        return self.reweighted(1 - hidden)

    def rotated(self, rotation: Float[Tensor, "signals c c"]) -> "Measurement":
        """Return the same samples as a measurement y = S (R f) of channels f in another orthonormal basis."""
        return replace(self, operator=self.operator @ ChannelRotation(rotation, self.lattice))

    def select(self, kept: Bool[Tensor, "signals channels"]) -> "Measurement":
        """Return the measurement of some signals' channels, for an operator that does not mix channels."""
        return replace(self, weights=subset(self.weights, kept))


def is_structured(weights: Float[Tensor, "signals channels *lattice"]) -> bool:
    """Whether an unknown point's neighbor is unknown by ``CLUSTERING`` more often than at random."""
    unknown = weights == 0
    pairs, both = 0, 0
    for axis in range(2, unknown.ndim):
        length = unknown.shape[axis]
        left, right = unknown.narrow(axis, 0, length - 1), unknown.narrow(axis, 1, length - 1)
        pairs += int(left.sum())
        both += int((left & right).sum())
    return pairs > 0 and both / pairs > float(unknown.float().mean()) + CLUSTERING


class Interpolation(LinearOperator):
    """The sparse matrix S that maps a lattice signal to values at scattered points.

    ``index`` holds the flat indices of the m nodes that each point depends on, ``weights`` their weights.
    """

    def __init__(self, lattice: Shape, index: Int[Tensor, "n m"], weights: Float[Tensor, "n m"]) -> None:
        self.domain, self.codomain = tuple(lattice), (len(index),)
        self.index, self.weights = index, weights

    @classmethod
    def tensor_product(
        cls, lattice: Shape, axes: Sequence[tuple[Tensor, Tensor]], dtype: torch.dtype
    ) -> "Interpolation":
        """Combine node indices (n, m_j) and weights (n, m_j) per axis into those of the lattice's nodes."""
        strides = [math.prod(lattice[j + 1 :]) for j in range(len(lattice))]
        indices, weights = [], []
        for corner in itertools.product(*(range(weight.shape[1]) for _, weight in axes)):
            chosen = [(index[:, k], weight[:, k]) for (index, weight), k in zip(axes, corner, strict=True)]
            indices.append(sum(i * stride for (i, _), stride in zip(chosen, strides, strict=True)))
            weights.append(math.prod(weight for _, weight in chosen).to(dtype))  # type: ignore[arg-type]
        return cls(lattice, torch.stack(indices, 1), torch.stack(weights, 1))

    def __call__(self, x: Float[Tensor, "*signals_lattice"], out: Tensor | None = None) -> Float[Tensor, "*signals n"]:
        """Return S x."""
        batch = self.batch_of(x)
        rows = x.reshape(-1, math.prod(self.domain)).T.contiguous()
        values = embedding_bag(self.index, rows, per_sample_weights=self.weights, mode="sum").T
        result = values.reshape(*batch, *self.codomain)
        return result if out is None else out.copy_(result)

    def adjoint(self, y: Float[Tensor, "*signals n"], out: Tensor | None = None) -> Float[Tensor, "*signals_lattice"]:
        """Return Sᵀ y."""
        result = y.new_zeros(*y.shape[:-1], math.prod(self.domain))
        for index, weight in zip(self.index.unbind(1), self.weights.unbind(1), strict=True):
            result.index_add_(-1, index, y * weight)
        result = result.reshape(*y.shape[:-1], *self.domain)
        return result if out is None else out.copy_(result)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Interpolation":
        """Return the operator on another device, or for tensors of another dtype."""
        return Interpolation(self.domain, self.index.to(device), self.weights.to(device=device, dtype=dtype))

    def row_energy(self) -> Float[Tensor, " n"]:
        """Return the squared norm of every row."""
        return self.weights.square().sum(1)
