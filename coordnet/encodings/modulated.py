"""The modulated encoding: a small network that follows the features of another encoding."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.base import DenseEncoding, Encoding
from coordnet.encodings.encoders.modulator import Modulator, cast_to_input
from coordnet.linalg.randomness import as_generator


class ModulatedEncoding(DenseEncoding):
    """GeLU(Ψ(x) W₁ + B₁) W₂ + B₂, a trained ``Modulator`` on the features of any dense encoding Ψ.

    The result has ``features`` columns, and W₁ has ``hidden``; see ``Modulator`` for the other arguments and for what
    is raised; a ``ValueError`` too if Ψ is a Kronecker product. The weights are drawn with seed 0 unless a generator is
    given.

    Li et al. (NeurIPS 2021) compare their encoding with sinusoids and with the coordinates under the same modulator.
    """

    def __init__(
        self,
        encoding: Encoding,
        features: int,
        hidden: int = 32,
        *,
        layer_norm: bool = False,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if len(encoding.shape) != 1:
            raise _checks.wrong("encoding", "one whose features are a row", f"features of shape {encoding.shape}")
        self.encoding = encoding
        self.dimensions, self.shape = encoding.dimensions, (features,)
        self.options: dict[str, Any] = {"hidden": hidden, "layer_norm": layer_norm, "dropout": dropout}
        (inputs,), generator = encoding.shape, as_generator(generator)
        self.modulator = Modulator(inputs, hidden, features, generator, layer_norm=layer_norm, dropout=dropout)

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Return the features of points in units of the unit interval."""
        return cast_to_input(self.modulator, self.encoding(points))

    def configuration(self) -> dict[str, Any]:
        """The arguments as JSON values, from which ``encoding_from`` constructs the encoding again."""
        (features,) = self.shape
        inner = self.encoding.configuration()
        return {"kind": "modulated", "encoding": inner, "features": features, **self.options}
