"""Predictions of a network at its samples, epoch after epoch: point by point, or on a lattice by mode products."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from coordnet.fitting.blending import interpolation
from coordnet.linalg.operators import LinearOperator
from coordnet.networks.network import CoordinateNetwork
from coordnet.sampling.axes import Axes, lattice_points
from coordnet.sampling.samples import Samples

# Points per step on a CPU: MLPs of width 256 and 512 take 0.6 and 0.8 of the time of 57,600 points at once.
POINTS_IN_CACHE = 2**11


@dataclass
class Predictions(ABC):
    """The targets of a network in training, and its estimates of them."""

    network: CoordinateNetwork
    target: Tensor  # the values minus the offset
    weights: Tensor | None  # of the squared errors; broadcasts against the target

    def __len__(self) -> int:
        return len(self.target)

    @abstractmethod
    def estimate(self, index: Tensor | slice) -> Tensor:
        """Return the network's estimates of some targets."""

    @abstractmethod
    def max_targets(self, memory: int) -> int:
        """Return the number of targets whose activations fit into some bytes of memory."""

    def loss(self, index: Tensor | slice) -> Tensor:
        """Return the weighted sum of squared errors over some targets."""
        error = (self.estimate(index) - self.target[index]).square()
        return (error if self.weights is None else error * self.weights[index]).sum()

    def total_weight(self, index: Tensor | slice) -> float:
        """Return the sum of the weights of some targets."""
        target = self.target[index]
        return float(target.numel() if self.weights is None else self.weights[index].expand_as(target).sum())


@dataclass
class PointPredictions(Predictions):
    """Predictions point by point; a dense encoding without trainable numbers is evaluated once."""

    inputs: Tensor  # the points (n, d), or their encodings (n, K)
    encoded: bool

    def estimate(self, index: Tensor | slice) -> Tensor:
        """Return the network's values at some points."""
        network, inputs = self.network, self.inputs[index]
        return network.rest(network.first(inputs)) if self.encoded else network(inputs)

    def max_targets(self, memory: int) -> int:
        """Return the number of points whose activations fit into memory and, on a CPU, into its cache."""
        activations = self.network.floats_per_point + 2 * sum(self.network.head.widths)
        count = max(1, memory // (activations * self.target.element_size()))
        return min(count, POINTS_IN_CACHE) if self.target.device.type == "cpu" else count


@dataclass
class LatticePredictions(Predictions):
    """Predictions on a lattice by mode products; a target is a row along the first axis.

    The designs are given if the encoders have no trainable numbers; otherwise they are evaluated at every step.
    """

    axes: Axes
    designs: list[Tensor] | None

    def estimate(self, index: Tensor | slice) -> Tensor:
        """Return the network's values on some rows."""
        first, *others = self.designs or _designs(self.network, self.axes, self.target)
        nodes = self.network.first.on_lattice([first[index], *others])  # type: ignore[operator]
        return self.network.rest(nodes)

    def max_targets(self, memory: int) -> int:
        """Return the number of rows whose activations fit into memory."""
        row = self.target[0].numel() + self.target[0, ..., 0].numel() * 2 * sum(self.network.head.widths)
        return max(1, memory // (row * self.target.element_size()))


@dataclass
class BlendedPredictions(Predictions):
    """Predictions at scattered points, interpolated from the lattice; every step evaluates the whole lattice."""

    axes: Axes
    designs: list[Tensor] | None
    operator: LinearOperator  # from lattice signals to values at the points

    def estimate(self, index: Tensor | slice) -> Tensor:
        """Return the network's values at some points."""
        designs = self.designs or _designs(self.network, self.axes, self.target)
        nodes = self.network.first.on_lattice(designs)  # type: ignore[operator]
        return self.network.rest(self.operator(nodes.movedim(-1, 0)).T[index])

    def max_targets(self, memory: int) -> int:
        """Return the number of points: all are evaluated together."""
        return len(self)


def _designs(network: CoordinateNetwork, axes: Axes, like: Tensor) -> list[Tensor]:
    return network.encoding.matrices(axes, like.dtype, like.device)


def predictions(network: CoordinateNetwork, samples: Samples, offset: Tensor, memory: int) -> Predictions:
    """Return the predictions that suit a network and its samples, from whose values the offset is subtracted.

    Scattered points are tied to their lattice if their ``blending`` is named. Encoded samples take at most ``memory``
    bytes.
    """
    values = samples.values - offset
    weights = None if samples.weights is None else samples.weights.to(values)
    learns = any(p.requires_grad for p in network.encoding.parameters())
    encoding = network.encoding
    geometry = samples.geometry
    if encoding.is_factored and (geometry.blending or not geometry.is_scattered):
        designs = None if learns else _designs(network, samples.axes, values)
        if geometry.blending is None:
            return LatticePredictions(network, values, weights, samples.axes, designs)
        operator = interpolation(geometry, geometry.blending, encoding.axis_encoders, values.dtype)
        return BlendedPredictions(network, values, weights, samples.axes, designs, operator)
    points, values, weights = _known_points(samples, values, weights)
    small = len(points) * network.encoding.shape[0] * values.element_size() <= memory
    if learns or encoding.is_factored or not small:
        return PointPredictions(network, values, weights, points, False)
    with torch.no_grad():
        return PointPredictions(network, values, weights, network.encoding(points), True)


def _known_points(samples: Samples, values: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the points (n, d) at which something is known, and the values and weights there."""
    if samples.geometry.is_scattered:
        return samples.geometry.points.to(values), values, weights
    points = lattice_points(samples.axes, values.dtype, values.device).flatten(0, -2)
    values = values.flatten(0, -2)
    if weights is None:
        return points, values, None
    weights = weights.flatten(0, -2)
    known = (weights > 0).any(-1)
    return points[known], values[known], weights[known]
