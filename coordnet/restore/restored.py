"""The outcome of restoring a signal."""

from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor

from coordnet.networks.reconstruction import Reconstruction


@dataclass(frozen=True)
class Restored:
    """A restored signal, the model that renders it at any resolution, and the PSNR to expect of it.

    The PSNR, in dB, is that at samples that were hidden from the fit, or an estimate without them; None where neither
    is possible.
    """

    signal: Float[Tensor, "*grid channels"]
    fit: Reconstruction | None  # None for a signal that was restored in tiles
    expected_psnr: float | None
    chosen: dict[str, Any] = field(default_factory=dict)  # numbers that the samples decided
