"""Encodings whose features at a point are one row: simple (concatenated), directional and joint."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.base import DenseEncoding, at_least_one, axes_of, describe
from coordnet.encodings.encoders import Encoder, JointEncoder, JointRandomFourier, RandomFourier, ShiftedBasis
from coordnet.sampling.axes import Axis
from coordnet.sampling.samples import Geometry, Samples


class SimpleEncoding(DenseEncoding):
    """Ψ(x) = [ψ₁(x₁) … ψ_d(x_d)], the concatenation.

    Parameters
    ----------
    encoders : sequence of Encoder
        One an axis.

    Notes
    -----
    A linear head on it gives images of rank at most 2 (Zheng et al., ECCV 2022, section 5).
    """

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(at_least_one(encoders))
        self.dimensions = len(encoders)
        self.shape = (sum(e.columns for e in encoders),)

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Features of points in units of the unit interval."""
        parts = zip(self.encoders, points.unbind(-1), strict=True)
        return torch.cat([encoder(x) for encoder, x in parts], dim=-1)

    @classmethod
    def like(
        cls, encoder: type[Encoder] | type[JointEncoder], samples: Samples | Geometry, **options: Any
    ) -> DenseEncoding:
        """Return the simple encoding that suits some samples; see ``Encoder.like`` for the options.

        Random Fourier features are drawn in d dimensions, as a joint map; other encoders of one axis are
        concatenated, with ``features`` for each axis; joint encoders are taken as they are.
        """
        axes = axes_of(samples)
        if encoder is RandomFourier:
            encoder = JointRandomFourier
        if issubclass(encoder, JointEncoder):
            return JointEncoding(encoder.like(axes, **options))
        return cls([encoder.like(axis, **options) for axis in axes])

    def configuration(self) -> dict[str, Any]:
        """What ``encoding_from`` needs to construct it again."""
        return {"kind": "simple", "encoders": [describe(e) for e in self.encoders]}


class DirectionalEncoding(DenseEncoding):
    """ψ of x, y, (x + y) / 2 and (x - y + 1) / 2: four directions of the plane, for shifted bases.

    Parameters
    ----------
    encoders : sequence of Encoder
        Four, one a direction; Zheng et al. (ECCV 2022) give a quarter of the features to each.

    Raises
    ------
    ValueError
        If there are not four of them.
    """

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__()
        if len(encoders) != 4:
            raise _checks.wrong("encoders", "four, one a direction", len(encoders))
        self.encoders = nn.ModuleList(at_least_one(encoders))
        self.dimensions = 2
        self.shape = (sum(e.columns for e in encoders),)

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Features of points in units of the unit interval."""
        x, y = points.unbind(-1)
        directions = (x, y, (x + y) / 2, (x - y + 1) / 2)
        return torch.cat([e(t) for e, t in zip(self.encoders, directions, strict=True)], dim=-1)

    @classmethod
    def like(
        cls, encoder: type[Encoder], samples: Samples | Geometry, *, features: int, **options: Any
    ) -> "DirectionalEncoding":
        """Return the encoding with ``features`` in all, a quarter a direction.

        Raises
        ------
        ValueError
            If ``features`` is no multiple of four, the samples are not of two dimensions, or the encoder is no
            shifted basis.
        """
        if _checks.integer("features", features, 4) % 4:
            raise _checks.wrong("features", "a multiple of four", features)
        axes = axes_of(samples)
        if len(axes) != 2 or not issubclass(encoder, ShiftedBasis):
            raise _checks.wrong(
                "encoder", "a shifted basis in two dimensions", f"{encoder.name} in {len(axes)}"
            )
        unit = Axis(max(axis.count for axis in axes))
        one = encoder.like(unit, features=features // 4, **options)
        return cls([one, *(encoder.like(unit, features=features // 4, **options) for _ in range(3))])

    def configuration(self) -> dict[str, Any]:
        """What ``encoding_from`` needs to construct it again."""
        return {"kind": "directional", "encoders": [describe(e) for e in self.encoders]}


class JointEncoding(DenseEncoding):
    """Ψ(x) = ψ(x) of a joint encoder.

    Parameters
    ----------
    encoder : JointEncoder
        The encoder.
    """

    def __init__(self, encoder: JointEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.dimensions = encoder.dimensions
        self.shape = (encoder.columns,)

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Features of points in units of the unit interval."""
        return self.encoder(points)

    def configuration(self) -> dict[str, Any]:
        """What ``encoding_from`` needs to construct it again."""
        return {"kind": "joint", "encoder": describe(self.encoder)}
