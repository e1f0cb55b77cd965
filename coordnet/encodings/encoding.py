"""What every encoding is: a layer from points to features, with its factors where these are a Kronecker product."""

import math
from collections.abc import Mapping
from functools import reduce
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders import Encoder
from coordnet.linalg.operators import Device
from coordnet.sampling.axes import Axes, lattice_points

M = TypeVar("M", bound=nn.Module)


class Encoding(nn.Module):
    """A layer that maps points in [0, 1)^d, (…, d), to features, (…, K), as ``nn.Linear(encoding.features, …)`` takes.

    The features of a factored encoding are the Kronecker product of one factor per axis, K = K₁ ⋯ K_d, the first axis
    slowest. ``CoordinateNetwork`` works with the ``factors`` alone: 512 features for each of two axes are 262,144.
    """

    kind: ClassVar[str]  # the name in configurations
    is_factored: ClassVar[bool] = False  # whether the features are the Kronecker product of one factor per axis
    signed: ClassVar[bool] = False  # whether the modes of the features are signed frequencies
    dimensions: int  # d
    shape: tuple[int, ...]  # (K,) where the features are one row, (K₁, …, K_d) where they are a Kronecker product

    @property
    def features(self) -> int:
        """K, the number of features of a point."""
        return math.prod(self.shape)

    @property
    def out_features(self) -> int:
        """K by the name that ``nn.Linear`` has for it."""
        return self.features

    @property
    def axis_encoders(self) -> list[Encoder]:
        """The encoders, one for each axis or direction; empty if the encoding is not composed of them."""
        return []

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Return the features of points in units of the unit interval.

        A ``ValueError`` is raised if the last axis of the points does not hold d coordinates.
        """
        return reduce(rows_of_products, self.factors(points))

    def factors(self, points: Float[Tensor, "*points d"]) -> list[Shaped[Tensor, "*points _"]]:
        """Return the factors whose Kronecker product the features are, (…, K_j) for each axis, or one (…, K)."""
        _checks.coordinates("points", points.shape, self.dimensions)
        return self._factors(points)

    def _factors(self, points: Tensor) -> list[Tensor]:
        raise NotImplementedError(f"{type(self).__name__} defines neither _factors nor forward")

    def for_lattice(self, axes: Axes) -> "Encoding":
        """Return the same kind of encoding for another lattice; the object itself if it does not depend on one."""
        return self

    def matrices(
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: Device = "cpu"
    ) -> list[Float[Tensor, "_ _"]]:
        """The factors of the encoding matrix on a lattice: (N_j, K_j) for each axis, or one (N, K).

        A Fourier encoding, which computes FFTs instead, raises a ``ValueError``.
        """
        received = "a Fourier encoding without a spectrum, which computes FFTs"
        raise _checks.wrong("encoding", "one with matrices, or a learned spectrum", received)

    def configuration(self) -> dict[str, Any]:
        """The kind and the arguments as JSON values, from which ``encoding_from`` constructs the encoding again."""
        return {"kind": self.kind, **self._arguments()}

    def _arguments(self) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__} defines neither _arguments nor configuration")


def rows_of_products(left: Shaped[Tensor, "*points a"], right: Shaped[Tensor, "*points b"]) -> Tensor:
    """The Kronecker products of corresponding rows, (…, a b)."""
    return (left.unsqueeze(-1) * right.unsqueeze(-2)).flatten(-2)


class DenseEncoding(Encoding):
    """An encoding whose features at a point are one row, without factors."""

    def _factors(self, points: Tensor) -> list[Tensor]:
        return [self._features(points)]

    def _features(self, points: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} defines neither _features nor forward")

    def matrices(
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: Device = "cpu"
    ) -> list[Float[Tensor, "n k"]]:
        """A list of one matrix: the encoding matrix (N, K) on a lattice."""
        return [self(lattice_points(axes, dtype, device).flatten(0, -2))]


def duplicate(module: M) -> M:
    """Return a copy of a module with tensors of its own, to which no gradient flows, and the same other attributes.

    A plan gives one to each of its fits. A module that is in two places has a copy in each.
    """
    copied = type(module).__new__(type(module))
    parts = {name: None if part is None else duplicate(part) for name, part in module._modules.items()}
    own = {"_modules": parts, "_parameters": _copies(module._parameters), "_buffers": _copies(module._buffers)}
    copied.__dict__.update(module.__dict__ | own)
    return copied


def _copies(tensors: Mapping[str, Tensor | None]) -> dict[str, Tensor | None]:
    copies = {name: None if tensor is None else tensor.detach().clone() for name, tensor in tensors.items()}
    fixed = {"requires_grad": False}
    return {k: nn.Parameter(c, **fixed) if isinstance(tensors[k], nn.Parameter) else c for k, c in copies.items()}  # type: ignore[arg-type]
