"""The joint encoding: one encoder of the whole point."""

from typing import Any

from jaxtyping import Float
from torch import Tensor

from coordnet.encodings.base import DenseEncoding
from coordnet.encodings.encoders import JointEncoder


class JointEncoding(DenseEncoding):
    """Ψ(x) = ψ(x) of a joint encoder."""

    def __init__(self, encoder: JointEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.dimensions = encoder.dimensions
        self.shape = (encoder.columns,)

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Return the features of points in units of the unit interval."""
        return self.encoder(points)

    def configuration(self) -> dict[str, Any]:
        """The arguments as JSON values, from which ``encoding_from`` constructs the encoding again."""
        return {"kind": "joint", "encoder": {"name": self.encoder.name, **self.encoder.configuration()}}
