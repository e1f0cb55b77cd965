"""What every encoding is: a map of d-dimensional points to features."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders import Encoder, FeatureMap
from coordnet.sampling.axes import Axes
from coordnet.sampling.samples import Geometry, Samples


class Encoding(nn.Module, ABC):
    """A map of points in [0, 1)^d to features.

    Attributes
    ----------
    dimensions : int
        d.
    shape : tuple of int
        The number of features: (K,) where they are one row, (K₁, …, K_d) where they are a Kronecker product.
    is_factored : bool
        Whether the features are a Kronecker product, given by its factors.
    """

    dimensions: int
    shape: tuple[int, ...]
    is_factored: bool = False

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """What ``encoding_from`` needs to construct it again, as JSON holds it."""


class DenseEncoding(Encoding):
    """An encoding whose features at a point are one row: ``encoding(points)`` is (…, K)."""

    @abstractmethod
    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Features of points in units of the unit interval."""


def axes_of(samples: Samples | Geometry) -> Axes:
    """The axes of some samples' lattice."""
    return samples.geometry.axes if isinstance(samples, Samples) else samples.axes


def at_least_one(encoders: Sequence[Encoder]) -> list[Encoder]:
    """The encoders as a list.

    Raises
    ------
    ValueError
        If there are none.
    """
    if not encoders:
        raise _checks.wrong("encoders", "at least one", "none")
    return list(encoders)


def describe(encoder: nn.Module) -> dict[str, Any]:
    """What ``encoding_from`` needs to construct an encoder again: its name and its arguments."""
    assert isinstance(encoder, FeatureMap)
    return {"name": encoder.name, **encoder.configuration()}
