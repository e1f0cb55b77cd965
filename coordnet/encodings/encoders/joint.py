"""Joint encoders: maps of a d-dimensional point to K features that are no product or concatenation of axes."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders.base import FeatureMap
from coordnet.encodings.encoders.similarity import mean_similarity
from coordnet.sampling.axes import Axes, lattice_points

AxisScales = float | tuple[float, ...] | list[float]  # one number for all axes, or one for each


class JointEncoder(FeatureMap):
    """A map ψ: R^d → R^K of points to K features; see ``FeatureMap`` for the other arguments.

    Raises
    ------
    ValueError
        If an argument is out of its range, or a tuple does not have one scale for each axis.
    """

    joint = True

    def __init__(
        self, dimensions: int, features: int, gain: float = 1.0, learnable: bool = False, **scales: AxisScales
    ) -> None:
        checked = _checks.integer("dimensions", dimensions, 1)
        each = {name: _each_axis(name, value, dimensions) for name, value in scales.items()}
        super().__init__(features, gain, learnable, **each)
        self.dimensions = checked

    def similarity(self, delta: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape"]:
        """D(δ): the mean of ψ(x)·ψ(x + δ) over pairs of points in the unit cube, by quadrature; D(0) = 1."""
        return mean_similarity(self.encode, delta, self.kinks)

    def per_axis(self, name: str, like: Tensor) -> Float[Tensor, " d"]:
        """A scale parameter as a vector with one number for each axis, with the dtype and device of a tensor."""
        return torch.as_tensor(getattr(self, name), dtype=torch.float64).to(like)

    def forward(self, x: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """ψ at points in units of the unit interval; device and dtype follow them."""
        if x.shape[-1] != self.dimensions:
            raise _checks.wrong("points", f"last axis of {self.dimensions} coordinates", tuple(x.shape))
        return super().forward(x)

    @classmethod
    def positions(cls, axes: Axes) -> Float[Tensor, "n d"]:
        """The points of the lattice that the axes span, first axis slowest."""
        return lattice_points(axes).flatten(0, -2)

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "JointEncoder":
        """Construct for the samples of d axes, with 512 features by default."""
        return cls(len(axes), features or 512, **arguments)


def _each_axis(name: str, value: AxisScales, dimensions: int) -> tuple[float, ...]:
    values = tuple(value) if isinstance(value, tuple | list) else (value,) * dimensions
    if len(values) != dimensions:
        raise _checks.wrong(name, f"one number, or {dimensions}, one for each axis", value)
    return values
