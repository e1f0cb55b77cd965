"""What every encoding is: a map of points to features, with its factors where the features are a Kronecker product."""

from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders import Encoder
from coordnet.linalg.operators import Device
from coordnet.sampling.axes import Axes, lattice_points


class Encoding(nn.Module):
    """A map of points in [0, 1)^d to features."""

    kind: ClassVar[str]  # the name in configurations
    is_factored: ClassVar[bool] = False  # whether the features are the Kronecker product of one factor per axis
    signed: ClassVar[bool] = False  # whether the modes of the features are signed frequencies
    dimensions: int  # d
    shape: tuple[int, ...]  # (K,) where the features are one row, (K₁, …, K_d) where they are a Kronecker product

    @property
    def axis_encoders(self) -> list[Encoder]:
        """The encoders, one for each axis or direction; empty if the encoding is not composed of them."""
        return []

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


class DenseEncoding(Encoding):
    """An encoding whose features at a point are one row: ``encoding(points)`` is (…, K)."""

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Return the features of points in units of the unit interval."""
        return self._features(points)

    def _features(self, points: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} defines neither _features nor forward")

    def matrices(
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: Device = "cpu"
    ) -> list[Float[Tensor, "n k"]]:
        """A list of one matrix: the encoding matrix (N, K) on a lattice."""
        return [self(lattice_points(axes, dtype, device).flatten(0, -2))]
