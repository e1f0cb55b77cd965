"""The outcome of restoring a signal."""

from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor

from coordnet.networks.reconstruction import Reconstruction


@dataclass(frozen=True)
class Restored:
    """A restored signal.

    Attributes
    ----------
    signal : (*grid, channels)
        The signal.
    fit : Reconstruction
        The model behind it, which renders at any resolution.
    expected_psnr : float or None
        How sure the result is: the PSNR at samples that were hidden from the fit, or an estimate of it without them,
        in dB. None where there was nothing to tell it by.
    chosen : dict
        The numbers that the samples decided.
    """

    signal: Float[Tensor, "*grid channels"]
    fit: Reconstruction
    expected_psnr: float | None
    chosen: dict[str, Any] = field(default_factory=dict)
