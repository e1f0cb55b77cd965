"""Scores of an estimate over the held-out, the fitted and all entries of a signal."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.metrics.scores import psnr, snr, ssim, value_range
from coordnet.sampling.samples import Samples


@dataclass(frozen=True)
class Scoring:
    """The scores of estimates of a signal."""

    signal: Float[Tensor, "*grid channels"]  # NaN where it is unknown; no score includes those entries
    samples: Samples  # the samples that estimates are fitted to

    @cached_property
    def present(self) -> Bool[Tensor, "*grid channels"]:
        """Where the signal is a number."""
        return ~torch.isnan(self.signal)

    @cached_property
    def truth(self) -> Float[Tensor, "*grid channels"]:
        """The signal, 0 where it is unknown."""
        return self.signal.nan_to_num()

    @cached_property
    def known(self) -> Bool[Tensor, "*grid channels"]:
        """Where the signal's own grid was sampled; nowhere by scattered points."""
        return self.samples.geometry.known(self.signal.shape[-1])

    @cached_property
    def held_out(self) -> Bool[Tensor, "*grid channels"]:
        """Where the signal is known and was not sampled."""
        return ~self.known & self.present

    @property
    def ranked_by(self) -> str:
        """The PSNR that ranks estimates: over held-out entries, or over fitted ones where none was held out."""
        return "held_out" if bool(self.held_out.any()) else "fitted"

    def scores(self, estimate: Float[Tensor, "*grid channels"]) -> dict[str, Any]:
        """Return the PSNR over held-out, fitted and all entries, the SNR and the SSIM, for a record.

        A score that is infinite or has no entries is None. The SNR is over held-out entries. The SSIM is of pictures
        in [0, 1] alone; see ``value_range`` for the range of other signals.
        """
        span, bounded = value_range(self.signal[self.present])
        masks = {"held_out": self.held_out, "fitted": self.known & self.present, "all": self.present}
        ratios = {k: psnr(estimate, self.truth, mask, data_range=span, clip=bounded) for k, mask in masks.items()}
        picture = bounded and self.signal.ndim == 3
        return {
            "psnr": {name: _finite(ratio) for name, ratio in ratios.items()},
            "snr": _finite(snr(estimate, self.truth, self.held_out)),
            "ssim": ssim(estimate, self.truth) if picture else None,
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
