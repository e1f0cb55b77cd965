"""Encodings: maps of d-dimensional points to features."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders import Encoder
from coordnet.sampling.axes import Axes, lattice_points


class Encoding(nn.Module, ABC):
    """A map of points in [0, 1)^d to features."""

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
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> list[Float[Tensor, "_ _"]]:
        """The factors of the encoding matrix on a lattice: (N_j, K_j) for each axis, or one (N, K).

        A Fourier encoding, which computes FFTs instead, raises a ``ValueError``.
        """
        received = "a Fourier encoding without a spectrum, which computes FFTs"
        raise _checks.wrong("encoding", "one with matrices, or a learned spectrum", received)

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """The arguments as JSON values, from which ``encoding_from`` constructs the encoding again."""


class DenseEncoding(Encoding):
    """An encoding whose features at a point are one row: ``encoding(points)`` is (…, K)."""

    @abstractmethod
    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Return the features of points in units of the unit interval."""

    def matrices(
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> list[Float[Tensor, "n k"]]:
        """A list of one matrix: the encoding matrix (N, K) on a lattice."""
        return [self(lattice_points(axes, dtype, device).flatten(0, -2))]


class EncodingByAxis(Encoding):
    """An encoding with one encoder for each axis or direction; a ``ValueError`` is raised if there is none."""

    kind: ClassVar[str]

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__()
        if not encoders:
            raise _checks.wrong("encoders", "at least one", "none")
        self.encoders = nn.ModuleList(encoders)
        self.dimensions = len(encoders)
        self.shape = (sum(e.columns for e in encoders),)

    @property
    def axis_encoders(self) -> list[Encoder]:
        """The encoders, one for each axis or direction."""
        return cast(list[Encoder], list(self.encoders))

    def configuration(self) -> dict[str, Any]:
        """The arguments as JSON values, from which ``encoding_from`` constructs the encoding again."""
        encoders = [{"name": e.name, **e.configuration()} for e in self.axis_encoders]
        return {"kind": self.kind, "encoders": encoders}
