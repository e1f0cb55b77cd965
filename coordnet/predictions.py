"""What a network predicts at its samples, epoch after epoch: points one by one, or a lattice by mode products."""

from dataclasses import dataclass

import torch
from torch import Tensor

from coordnet.blending import Blending, Kind
from coordnet.coordinates import Axes, lattice_points
from coordnet.encodings import ComplexEncoding
from coordnet.networks import CoordinateNetwork
from coordnet.samples import Samples, ScatteredPoints


@dataclass
class Points:
    """At points one by one; a dense encoding that does not learn is evaluated once."""

    network: CoordinateNetwork
    inputs: Tensor
    encoded: bool
    target: Tensor
    weights: Tensor | None

    def __len__(self) -> int:
        return len(self.target)

    def __call__(self, index: Tensor | slice) -> tuple[Tensor, Tensor, Tensor | None]:
        """Estimates, targets and weights of a batch."""
        rest, inputs = self.network.rest, self.inputs[index]
        estimate = rest(self.network.first(inputs)) if self.encoded else self.network(inputs)
        return estimate, self.target[index], None if self.weights is None else self.weights[index]

    def fitting(self, memory: int) -> int:
        """The largest batch whose activations are so many bytes."""
        activations = self.network.scratch() + 2 * sum(self.network.head.widths)
        return max(1, memory // (activations * self.target.element_size()))


@dataclass
class Rows:
    """On a lattice by mode products; a batch is some rows of the first axis.

    The designs are evaluated once, or at each step where the encoders learn: O(N_j K_j) an axis.
    """

    network: CoordinateNetwork
    axes: Axes
    designs: list[Tensor] | None
    target: Tensor
    weights: Tensor | None

    def __len__(self) -> int:
        return len(self.target)

    def __call__(self, index: Tensor | slice) -> tuple[Tensor, Tensor, Tensor | None]:
        """Estimates, targets and weights of a batch."""
        first, *others = self.designs or _designs(self.network, self.axes, self.target)
        designs = [first[index], *others]
        estimate = self.network.rest(self.network.first.on_lattice(designs))  # type: ignore[operator]
        return estimate, self.target[index], None if self.weights is None else self.weights[index]

    def fitting(self, memory: int) -> int:
        """The largest batch whose activations are so many bytes."""
        row = self.target[0].numel() + self.target[0, ..., 0].numel() * 2 * sum(self.network.head.widths)
        return max(1, memory // (row * self.target.element_size()))


@dataclass
class Blended:
    """At scattered points as combinations of lattice nodes; every step evaluates the whole lattice."""

    rows: Rows
    blending: Blending

    def __len__(self) -> int:
        return self.blending.count

    def __call__(self, index: Tensor | slice) -> tuple[Tensor, Tensor, Tensor | None]:
        """Estimates, targets and weights of a batch."""
        rows = self.rows
        designs = rows.designs or _designs(rows.network, rows.axes, rows.target)
        nodes = rows.network.first.on_lattice(designs)  # type: ignore[operator]
        estimate = rows.network.rest(self.blending.forward(nodes.movedim(-1, 0)).T[index])
        return estimate, rows.target[index], None if rows.weights is None else rows.weights[index]

    def fitting(self, memory: int) -> int:
        """The largest batch whose activations are so many bytes."""
        return len(self)


def _designs(network: CoordinateNetwork, axes: Axes, like: Tensor) -> list[Tensor]:
    assert isinstance(network.encoding, ComplexEncoding)
    return network.encoding.designs(axes, like.dtype, like.device)


Predictions = Points | Rows | Blended


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
    values, weights = samples.values - offset, samples.weights
    dtype, device = values.dtype, values.device
    learns = any(p.requires_grad for p in network.encoding.parameters())
    scattered = isinstance(samples.geometry, ScatteredPoints)
    if isinstance(network.encoding, ComplexEncoding) and (blending or not scattered):
        axes = samples.geometry.axes
        rows = Rows(network, axes, None if learns else _designs(network, axes, values), values, weights)
        if not isinstance(samples.geometry, ScatteredPoints):
            return rows
        encoders = network.encoding.axis_encoders
        points = samples.geometry.points
        return Blended(
            rows, Blending(axes, points, encoders=encoders, kind=blending or "linear", dtype=dtype)
        )
    if isinstance(samples.geometry, ScatteredPoints):
        points = samples.geometry.points.to(values)
    else:
        points = lattice_points(samples.geometry.axes, dtype, device).flatten(0, -2)
        values = values.flatten(0, -2)
        if weights is not None:
            weights = weights.flatten(0, -2).to(values)
            known = (weights > 0).any(-1)
            points, values, weights = points[known], values[known], weights[known]
    small = len(points) * network.encoding.shape[0] * values.element_size() <= memory
    if learns or isinstance(network.encoding, ComplexEncoding) or not small:
        return Points(network, points, False, values, weights)
    with torch.no_grad():
        return Points(network, network.encoding(points), True, values, weights)
