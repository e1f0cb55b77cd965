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

    is_factored: ClassVar[bool] = False  # whether the features are a Kronecker product, given by its factors
    signed: ClassVar[bool] = False  # whether the modes of the features are signed frequencies
    dimensions: int  # d
    shape: tuple[int, ...]  # (K,) where the features are one row, (K₁, …, K_d) where they are a Kronecker product

    @property
    def axis_encoders(self) -> list[Encoder]:
        """The encoders, one for each axis; empty where the encoding has none."""
        return []

    def for_lattice(self, axes: Axes) -> "Encoding":
        """Return the same kind of encoding for another lattice, where an encoding belongs to one; else itself."""
        return self

    def matrices(
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> list[Float[Tensor, "_ _"]]:
        """The factors of the encoding matrix on a lattice: (N_j, K_j) for each axis, or one (N, K).

        A ``ValueError`` is raised by a Fourier encoding, which has none.
        """
        received = "a Fourier encoding without a spectrum, whose matrices are FFTs"
        raise _checks.wrong("encoding", "one that has matrices, or an adaptive prior", received)

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """The arguments, as JSON holds them, from which ``encoding_from`` constructs the encoding again."""


class DenseEncoding(Encoding):
    """An encoding whose features at a point are one row: ``encoding(points)`` is (…, K)."""

    @abstractmethod
    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Features of points in units of the unit interval."""

    def matrices(
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> list[Float[Tensor, "n k"]]:
        """The encoding matrix (N, K) on a lattice, alone in a list."""
        return [self(lattice_points(axes, dtype, device).flatten(0, -2))]


class EncodingByAxis(Encoding):
    """An encoding that has an encoder for each axis, or for each direction; at least one."""

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
        """The encoders, one for each axis."""
        return cast(list[Encoder], list(self.encoders))

    def configuration(self) -> dict[str, Any]:
        """The arguments, as JSON holds them, from which ``encoding_from`` constructs the encoding again."""
        encoders = [{"name": e.name, **e.configuration()} for e in self.axis_encoders]
        return {"kind": self.kind, "encoders": encoders}
