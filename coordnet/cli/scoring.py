"""How near an estimate is to a signal, over what was held out, what was fitted, and all."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from coordnet.media import Media
from coordnet.metrics.scores import psnr, snr, ssim, value_range
from coordnet.sampling.samples import Samples, ScatteredPoints


@dataclass(frozen=True)
class Scoring:
    """A signal and what was sampled of it."""

    media: Media
    samples: Samples

    @cached_property
    def present(self) -> Tensor:
        """Where the signal is a number."""
        return ~torch.isnan(self.media.signal)

    @cached_property
    def truth(self) -> Tensor:
        """The signal, 0 where it is none."""
        return self.media.signal.nan_to_num()

    @cached_property
    def values(self) -> tuple[float, bool]:
        """The range of the signal's values, and whether it is [0, 1], as of images and videos."""
        return value_range(self.media.signal[self.present])

    @cached_property
    def known(self) -> Tensor:
        """Where the signal's own grid was sampled; nowhere by scattered points."""
        geometry = self.samples.geometry
        if isinstance(geometry, ScatteredPoints):
            return torch.zeros(self.media.signal.shape, dtype=torch.bool)
        return geometry.known(self.media.signal.shape[-1])

    @property
    def ranked_by(self) -> str:
        """Which PSNR estimates are ranked by: over held-out entries, or fitted ones where there are none."""
        return "held_out" if bool(self.held_out.any()) else "fitted"

    @cached_property
    def held_out(self) -> Tensor:
        """What the samples do not tell."""
        return ~self.known & self.present

    def psnr(self, estimate: Tensor) -> dict[str, float | None]:
        """PSNR over held-out, fitted and all entries; see ``value_range``."""
        span, bounded = self.values
        masks = {"held_out": self.held_out, "fitted": self.known & self.present, "all": self.present}
        return {
            name: _finite(psnr(estimate, self.truth, mask, data_range=span, clip=bounded))
            for name, mask in masks.items()
        }

    def snr(self, estimate: Tensor) -> float | None:
        """Signal-to-noise ratio over held-out entries."""
        return _finite(snr(estimate, self.truth, self.held_out))

    def ssim(self, estimate: Tensor) -> float | None:
        """Structural similarity, of pictures in [0, 1]."""
        return ssim(estimate, self.truth) if self.values[1] and len(self.media.grid) == 2 else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
