"""Scores of an estimate over the held-out, the fitted and all entries of a signal."""

import math
import warnings
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.metrics.baselines import biharmonic, cubic, expected_seconds, linear
from coordnet.metrics.scores import psnr, snr, ssim, value_range
from coordnet.sampling.samples import Samples

PEERS = {"linear": linear, "cubic": cubic, "biharmonic": biharmonic}
AFFORDED = 2.0  # seconds that a peer may always take


class Scoring:
    """The scores of estimates of a signal, whose NaN entries are unknown: PSNR and SNR exclude them, SSIM takes zeros.

    Estimates are fitted to the ``samples``; scattered points sample no entry of the signal's own grid.
    """

    def __init__(self, signal: Float[Tensor, "*grid channels"], samples: Samples) -> None:
        self.signal, self.samples, self.present = signal, samples, ~torch.isnan(signal)
        self.truth = signal if bool(self.present.all()) else signal.nan_to_num()  # a large one is not copied
        present = signal if self.truth is signal else signal[self.present]
        self.span, self.bounded = value_range(present)  # the range for the PSNR; see ``value_range``
        self.known = samples.geometry.known(signal.shape[-1])
        self.held_out = ~self.known & self.present
        self.ranked_by = "held_out" if bool(self.held_out.any()) else "fitted"  # the PSNR that ranks estimates

    def peers(self, seconds: float) -> tuple[dict[str, float | None], dict[str, float]]:
        """Return the held-out PSNR of the ``PEERS``, and the expected seconds of those that are left out.

        A peer is left out if it is expected to take longer than ``seconds`` and ``AFFORDED``. The PSNR is None for it,
        and where there is no such interpolation or nothing was held out.
        """
        found: dict[str, float | None] = dict.fromkeys(PEERS)
        left_out: dict[str, float] = {}
        for name, interpolate in PEERS.items() if self.ranked_by == "held_out" else ():
            needed = expected_seconds(self.samples, name)
            if needed > max(seconds, AFFORDED):
                left_out[name] = needed
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                estimate = interpolate(self.samples)
            if estimate is not None:
                found[name] = self.scores(estimate.cpu())["psnr"]["held_out"]
        return found, left_out

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

    def coverage(self, lower: Float[Tensor, "*grid channels"], upper: Float[Tensor, "*grid channels"]) -> float | None:
        """Return the share of the held-out entries that are within intervals; None if nothing was held out."""
        covered = ((self.truth >= lower) & (self.truth <= upper))[self.held_out]
        return float(covered.double().mean()) if len(covered) else None
