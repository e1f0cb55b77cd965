"""The complex encoding: the Kronecker product of one encoding per axis, stored as its factors."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.base import EncodingByAxis
from coordnet.encodings.designs import LatestDesigns, designs
from coordnet.encodings.encoders import Encoder, JointEncoder
from coordnet.sampling.axes import Axes
from coordnet.sampling.samples import Geometry, Samples


class ComplexEncoding(EncodingByAxis):
    """Ψ(x) = ψ₁(x₁) ⊗ … ⊗ ψ_d(x_d), one encoder for each axis, stored as its factors."""

    kind = "complex"
    is_factored = True

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__(encoders)
        self.shape = tuple(e.columns for e in encoders)
        self.designs = LatestDesigns()

    def forward(self, points: Float[Tensor, "*points d"]) -> list[Float[Tensor, "*points _"]]:
        """Return the factors ψ_j(x_j) of every point, (…, K_j) for each axis; their product is never formed."""
        return [encoder(x) for encoder, x in zip(self.encoders, points.unbind(-1), strict=True)]

    def matrices(
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> list[Float[Tensor, "_ _"]]:
        """The matrices A_j = ψ_j(positions of axis j), (N_j, K_j), of a lattice."""
        return designs(self, axes, dtype, device, dense=True)

    @classmethod
    def like(
        cls, encoder: type[Encoder] | type[JointEncoder], samples: Samples | Geometry, **options: Any
    ) -> "ComplexEncoding":
        """Return the complex encoding that suits some samples; see ``Encoder.like`` for the options and errors."""
        if encoder.joint:
            raise _checks.wrong("encoder", "one of a single axis, for a complex encoding", encoder.name)
        return cls([cast(type[Encoder], encoder).like(axis, **options) for axis in samples.axes])
