"""What a network predicts at its samples, epoch after epoch: points one by one, or a lattice by mode products."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from coordnet.encodings import ComplexEncoding
from coordnet.encodings.designs import designs
from coordnet.fit.blending import Blending, Kind
from coordnet.networks.network import CoordinateNetwork
from coordnet.sampling.axes import Axes, lattice_points
from coordnet.sampling.samples import Samples, ScatteredPoints

CACHED = (
    2**11
)  # points at once on a processor: MLPs 256 and 512 wide take 0.6 and 0.8 of the time of 57,600 at once


@dataclass
class Predictions(ABC):
    """The targets of a network, and what it estimates of them.

    Attributes
    ----------
    network : CoordinateNetwork
        The one that is trained.
    target, weights : tensor, and the same or one of a channel
        Values less what is fitted apart, and their weights.
    """

    network: CoordinateNetwork
    target: Tensor
    weights: Tensor | None

    def __len__(self) -> int:
        return len(self.target)

    @abstractmethod
    def estimate(self, index: Tensor | slice) -> Tensor:
        """Of some of the targets."""

    @abstractmethod
    def fitting(self, memory: int) -> int:
        """How many targets' activations are so many bytes."""

    def loss(self, index: Tensor | slice) -> Tensor:
        """The weighted sum of squared errors."""
        error = (self.estimate(index) - self.target[index]).square()
        return (error if self.weights is None else error * self.weights[index]).sum()

    def amount(self, index: Tensor | slice) -> float:
        """The sum of weights."""
        target = self.target[index]
        return float(target.numel() if self.weights is None else self.weights[index].expand_as(target).sum())


@dataclass
class Points(Predictions):
    """At points one by one; a dense encoding that does not learn is evaluated once."""

    inputs: Tensor
    encoded: bool

    def estimate(self, index: Tensor | slice) -> Tensor:
        """Of some of the points."""
        network, inputs = self.network, self.inputs[index]
        return network.rest(network.first(inputs)) if self.encoded else network(inputs)

    def fitting(self, memory: int) -> int:
        """How many points' activations are so many bytes, or stay in a processor's cache."""
        activations = self.network.scratch() + 2 * sum(self.network.head.widths)
        fitting = max(1, memory // (activations * self.target.element_size()))
        return min(fitting, CACHED) if self.target.device.type == "cpu" else fitting


@dataclass
class Rows(Predictions):
    """On a lattice by mode products; a target is a row, of the first axis.

    The designs are evaluated once, or at each step where the encoders learn: O(N_j K_j) an axis.
    """

    axes: Axes
    designs: list[Tensor] | None

    def estimate(self, index: Tensor | slice) -> Tensor:
        """Of some of the rows."""
        first, *others = self.designs or _designs(self.network, self.axes, self.target)
        nodes = self.network.first.on_lattice([first[index], *others])  # type: ignore[operator]
        return self.network.rest(nodes)

    def fitting(self, memory: int) -> int:
        """How many rows' activations are so many bytes."""
        row = self.target[0].numel() + self.target[0, ..., 0].numel() * 2 * sum(self.network.head.widths)
        return max(1, memory // (row * self.target.element_size()))


@dataclass
class Blended(Predictions):
    """At scattered points as combinations of lattice nodes; every step evaluates the whole lattice."""

    axes: Axes
    designs: list[Tensor] | None
    blending: Blending

    def estimate(self, index: Tensor | slice) -> Tensor:
        """Of some of the points."""
        matrices = self.designs or _designs(self.network, self.axes, self.target)
        nodes = self.network.first.on_lattice(matrices)  # type: ignore[operator]
        return self.network.rest(self.blending.forward(nodes.movedim(-1, 0)).T[index])

    def fitting(self, memory: int) -> int:
        """All of them."""
        return len(self)


def _designs(network: CoordinateNetwork, axes: Axes, like: Tensor) -> list[Tensor]:
    assert isinstance(network.encoding, ComplexEncoding)
    return designs(network.encoding, axes, like.dtype, like.device, dense=True)


def predictions(
    network: CoordinateNetwork, samples: Samples, offset: Tensor, memory: int, blending: Kind | None
) -> Predictions:
    """What suits a network and its samples.

    Parameters
    ----------
    network : CoordinateNetwork
        The one that is trained.
    samples : Samples
        Their values are the targets.
    offset : (channels,)
        What is fitted apart.
    memory : int
        Bytes for the encoded samples.
    blending : str, optional
        See ``fit_gradient``.
    """
    values = samples.values - offset
    weights = None if samples.weights is None else samples.weights.to(values)
    dtype, device = values.dtype, values.device
    learns = any(p.requires_grad for p in network.encoding.parameters())
    scattered = isinstance(samples.geometry, ScatteredPoints)
    if isinstance(network.encoding, ComplexEncoding) and (blending or not scattered):
        axes = samples.geometry.axes
        fixed = None if learns else _designs(network, axes, values)
        if not isinstance(samples.geometry, ScatteredPoints):
            return Rows(network, values, weights, axes, fixed)
        encoders = network.encoding.axis_encoders
        points = samples.geometry.points
        tied = Blending(axes, points, encoders=encoders, kind=blending or "linear", dtype=dtype)
        return Blended(network, values, weights, axes, fixed, tied)
    if isinstance(samples.geometry, ScatteredPoints):
        points = samples.geometry.points.to(values)
    else:
        points = lattice_points(samples.geometry.axes, dtype, device).flatten(0, -2)
        values = values.flatten(0, -2)
        if weights is not None:
            weights = weights.flatten(0, -2)
            known = (weights > 0).any(-1)
            points, values, weights = points[known], values[known], weights[known]
    small = len(points) * network.encoding.shape[0] * values.element_size() <= memory
    if learns or isinstance(network.encoding, ComplexEncoding) or not small:
        return Points(network, values, weights, points, False)
    with torch.no_grad():
        return Points(network, values, weights, network.encoding(points), True)
