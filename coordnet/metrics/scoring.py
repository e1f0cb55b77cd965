"""Scores of an estimate over the held-out, the fitted and all entries of a signal."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.metrics.scores import psnr, snr, ssim, value_range
from coordnet.sampling.samples import Samples


class Scoring:
    """The scores of estimates of a signal, whose NaN entries are unknown: PSNR and SNR exclude them, SSIM takes zeros.

    Estimates are fitted to the ``samples``; scattered points sample no entry of the signal's own grid.
    """

    def __init__(self, signal: Float[Tensor, "*grid channels"], samples: Samples) -> None:
        self.signal, self.present = signal, ~torch.isnan(signal)
        self.truth = signal if bool(self.present.all()) else signal.nan_to_num()  # a large one is not copied
        present = signal if self.truth is signal else signal[self.present]
        self.span, self.bounded = value_range(present)  # the range for the PSNR; see ``value_range``
        self.known = samples.geometry.known(signal.shape[-1])
        self.held_out = ~self.known & self.present
        self.ranked_by = "held_out" if bool(self.held_out.any()) else "fitted"  # the PSNR that ranks estimates

    def scores(self, estimate: Float[Tensor, "*grid channels"]) -> dict[str, Any]:
        """Return the PSNR over held-out, fitted and all entries, the SNR and the SSIM, for a record.

        A score that is infinite or has no entries is None. The SNR is over held-out entries. Only pictures in [0, 1]
        have an SSIM; see ``value_range`` for the data range.
        """
        masks = {"held_out": self.held_out, "fitted": self.known & self.present, "all": self.present}
        ratios = {
            k: psnr(estimate, self.truth, mask, data_range=self.span, clip=self.bounded) for k, mask in masks.items()
        }
        picture = self.bounded and self.signal.ndim == 3
        return {
            "psnr": {name: ratio if math.isfinite(ratio) else None for name, ratio in ratios.items()},
            "snr": ratio if math.isfinite(ratio := snr(estimate, self.truth, self.held_out)) else None,
            "ssim": ssim(estimate, self.truth) if picture else None,
        }
