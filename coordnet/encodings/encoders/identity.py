"""The coordinate itself."""

from typing import Any

from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders.base import Encoder
from coordnet.sampling.axes import Axis


class Identity(Encoder):
    """ψ(x) = x: no encoding, for networks whose first layer does the work (SIREN).

    Parameters
    ----------
    features : int
        1.
    gain : float
        See ``FeatureMap``.

    Raises
    ------
    ValueError
        If another number of features is asked for.
    """

    name = "identity"
    summary = "the coordinate itself, one feature"

    def __init__(self, features: int = 1, gain: float = 1.0) -> None:
        super().__init__(features, gain)
        if features != 1:
            raise _checks.wrong("features", "1, the coordinate itself", features)

    def encode(self, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points columns"]:
        """ψ at positions x, before the gain."""
        return x.unsqueeze(-1)

    def similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The mean of x (x + |δ|) over pairs in [0, 1), scaled: (1 - |δ|)(2 + |δ|) / 2, for |δ| ≤ 1."""
        return (1 - delta.abs()) * (2 + delta.abs()) / 2

    def stable_rank(self, samples: int) -> float:
        """1: one column."""
        return 1.0

    @classmethod
    def for_axis(
        cls, axis: Axis, features: int | None, scales: dict[str, float], **options: Any
    ) -> "Identity":
        """One feature, whatever the axis."""
        return cls(features or 1, **options)
