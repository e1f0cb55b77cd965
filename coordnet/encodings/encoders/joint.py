"""Joint encoders: maps of a d-dimensional point to K features that are no product or concatenation of axes."""

from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders.base import FeatureMap, scales_for
from coordnet.encodings.encoders.quadrature import averaged_similarity
from coordnet.sampling.axes import Axes, lattice_points

J = TypeVar("J", bound="JointEncoder")


class JointEncoder(FeatureMap):
    """A map ψ: R^d → R^K of points to K features.

    Parameters
    ----------
    dimensions : int
        d, at least 1.
    features : int
        K.
    gain, learnable, **scales
        See ``FeatureMap``; a scale is a number for all axes, or a tuple of one an axis.

    Raises
    ------
    ValueError
        If an argument is out of its range, or a tuple has not one scale an axis.
    """

    def __init__(
        self,
        dimensions: int,
        features: int,
        gain: float = 1.0,
        learnable: bool = False,
        **scales: float | tuple[float, ...] | list[float],
    ) -> None:
        self_dimensions = _checks.integer("dimensions", dimensions, 1)
        each = {name: _each_axis(name, value, dimensions) for name, value in scales.items()}
        super().__init__(features, gain, learnable, **each)
        self.dimensions = self_dimensions

    def similarity(self, delta: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape"]:
        """D(δ): the mean of ψ(x)·ψ(x + δ) over pairs of points in the unit cube, by quadrature; D(0) = 1."""
        return averaged_similarity(self.encode, delta)

    def per_axis(self, name: str, like: Tensor) -> Float[Tensor, " d"]:
        """A scale parameter as a vector, of one number an axis, of the dtype and device of another tensor."""
        value = getattr(self, name)
        return (value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)).to(like)

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """ψ at points in units of the unit interval; device and dtype follow them."""
        if points.shape[-1] != self.dimensions:
            raise _checks.wrong("points", f"last axis of {self.dimensions} coordinates", tuple(points.shape))
        return self._amplified(self.encode(points))

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON holds them."""
        return {"dimensions": self.dimensions, **super().configuration()}

    @classmethod
    def for_axes(
        cls: type[J], axes: Axes, features: int | None, scales: dict[str, tuple[float, ...]], **options: Any
    ) -> J:
        """Construct for the samples of d axes, the scale parameters being numbers already; 512 features."""
        return cls(len(axes), features or 512, **scales, **options)

    @classmethod
    def like(
        cls: type[J],
        axes: Axes,
        *,
        features: int | None = None,
        normalize: bool = False,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> J:
        """Return the encoder that suits the samples of d axes; see ``Encoder.like`` for the options.

        Raises
        ------
        ValueError
            If a parameter is unknown or out of its range.
        """
        each = [scales_for(cls.scales, dict(options), axis) for axis in axes]
        scales = {p.name: tuple(one[p.name] for one in each) for p in cls.scales}
        others = {name: value for name, value in options.items() if name not in scales}

        def make(features: int | None, **others: Any) -> J:
            return cls.for_axes(axes, features, scales, **others)

        return cls._made(make, lattice_points(axes), features, normalize, generator, others)


def _each_axis(
    name: str, value: float | tuple[float, ...] | list[float], dimensions: int
) -> tuple[float, ...]:
    values = tuple(value) if isinstance(value, tuple | list) else (value,) * dimensions
    if len(values) != dimensions:
        raise _checks.wrong(name, f"one number, or {dimensions}, one an axis", value)
    return values
