"""Concatenations: the simple encoding, one encoder for each axis, and the directional one, for four directions."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.base import DenseEncoding, EncodingByAxis
from coordnet.encodings.encoders import Encoder, JointEncoder, JointRandomFourier, RandomFourier
from coordnet.encodings.joint import JointEncoding
from coordnet.sampling.samples import Geometry, Samples


class SimpleEncoding(EncodingByAxis, DenseEncoding):
    """Ψ(x) = [ψ₁(x₁) … ψ_d(x_d)], the concatenation of one encoder for each axis.

    A linear head on it gives images of rank at most 2 (Zheng et al., ECCV 2022, section 5).
    """

    kind = "simple"

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Features of points in units of the unit interval."""
        parts = zip(self.encoders, points.unbind(-1), strict=True)
        return torch.cat([encoder(x) for encoder, x in parts], dim=-1)

    @classmethod
    def like(
        cls, encoder: type[Encoder] | type[JointEncoder], samples: Samples | Geometry, **options: Any
    ) -> DenseEncoding:
        """Return the simple encoding that suits some samples; see ``Encoder.like`` for the options.

        Random Fourier features are drawn jointly in d dimensions. Other encoders of one axis are concatenated, with
        ``features`` for each axis; a joint encoder is used as it is.
        """
        if encoder is RandomFourier:
            encoder = JointRandomFourier
        if encoder.joint:
            return JointEncoding(cast(type[JointEncoder], encoder).like(samples.axes, **options))
        return cls([cast(type[Encoder], encoder).like(axis, **options) for axis in samples.axes])


class DirectionalEncoding(EncodingByAxis, DenseEncoding):
    """ψ of x, y, (x + y) / 2 and (x - y + 1) / 2: four directions of the plane, with four encoders.

    Zheng et al. (ECCV 2022) give a quarter of the features to each direction.
    """

    kind = "directional"

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        if len(encoders) != 4:
            raise _checks.wrong("encoders", "four, one for each direction", len(encoders))
        super().__init__(encoders)
        self.dimensions = 2

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Features of points in units of the unit interval."""
        x, y = points.unbind(-1)
        directions = (x, y, (x + y) / 2, (x - y + 1) / 2)
        return torch.cat([e(t) for e, t in zip(self.encoders, directions, strict=True)], dim=-1)
