"""The complex encoding: the Kronecker product of one encoding an axis, kept as its factors."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.base import Encoding, at_least_one, axes_of, describe
from coordnet.encodings.encoders import Encoder, JointEncoder
from coordnet.sampling.axes import Axes
from coordnet.sampling.samples import Geometry, Samples


class ComplexEncoding(Encoding):
    """Ψ(x) = ψ₁(x₁) ⊗ … ⊗ ψ_d(x_d), kept as its factors.

    Parameters
    ----------
    encoders : sequence of Encoder
        One an axis; they may differ.
    """

    is_factored = True

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(at_least_one(encoders))
        self.dimensions = len(encoders)
        self.shape = tuple(e.columns for e in encoders)

    def forward(self, points: Float[Tensor, "*points d"]) -> list[Float[Tensor, "*points _"]]:
        """Return the factors ψ_j(x_j) of every point, (…, K_j) an axis; their product is never formed."""
        return [encoder(x) for encoder, x in zip(self.encoders, points.unbind(-1), strict=True)]

    @property
    def axis_encoders(self) -> list[Encoder]:
        """The encoders, one an axis."""
        return [encoder for encoder in self.encoders if isinstance(encoder, Encoder)]

    def designs(
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> list[Float[Tensor, "_ _"]]:
        """Return the matrices A_j = ψ_j(positions of axis j), (N_j, K_j), of a lattice."""
        if len(axes) != self.dimensions:
            raise _checks.wrong("axes", f"{self.dimensions}, one an encoder", len(axes))
        return [e(a.points(dtype, device)) for e, a in zip(self.encoders, axes, strict=True)]

    @classmethod
    def like(
        cls, encoder: type[Encoder] | type[JointEncoder], samples: Samples | Geometry, **options: Any
    ) -> "ComplexEncoding":
        """Return the complex encoding that suits some samples; see ``Encoder.like`` for the options.

        Raises
        ------
        ValueError
            If the encoder is not of one axis.
        """
        if issubclass(encoder, JointEncoder):
            raise _checks.wrong("encoder", "one of a single axis, for a complex encoding", encoder.name)
        return cls([encoder.like(axis, **options) for axis in axes_of(samples)])

    def configuration(self) -> dict[str, Any]:
        """What ``encoding_from`` needs to construct it again."""
        return {"kind": "complex", "encoders": [describe(e) for e in self.encoders]}
