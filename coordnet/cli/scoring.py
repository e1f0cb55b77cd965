"""How near an estimate is to a signal, over what was held out, what was fitted, and all."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from coordnet.media import Media
from coordnet.metrics import psnr, snr, ssim
from coordnet.samples import Samples, ScatteredPoints


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
    def bounded(self) -> bool:
        """Whether the signal is in [0, 1], as images and videos are."""
        finite = self.media.signal[self.present]
        return bool(((finite >= 0) & (finite <= 1)).all())

    @cached_property
    def known(self) -> Tensor:
        """Where the signal's own grid was sampled; nowhere by scattered points."""
        geometry = self.samples.geometry
        if isinstance(geometry, ScatteredPoints):
            return torch.zeros(self.media.signal.shape, dtype=torch.bool)
        return geometry.known(self.media.signal.shape[-1])

    @cached_property
    def held_out(self) -> Tensor:
        """What the samples do not tell."""
        return ~self.known & self.present

    def psnr(self, estimate: Tensor) -> dict[str, float | None]:
        """PSNR over held-out, fitted and all entries; of the signal's own span where that is not [0, 1]."""
        present = self.media.signal[self.present]
        span = 1.0 if self.bounded else float(present.max() - present.min())
        masks = {"held_out": self.held_out, "fitted": self.known & self.present, "all": self.present}
        return {
            name: _finite(psnr(estimate, self.truth, mask, data_range=span, clip=self.bounded))
            for name, mask in masks.items()
        }

    def snr(self, estimate: Tensor) -> float | None:
        """Signal-to-noise ratio over held-out entries."""
        return _finite(snr(estimate, self.truth, self.held_out))

    def ssim(self, estimate: Tensor) -> float | None:
        """Structural similarity, of pictures in [0, 1]."""
        return ssim(estimate, self.truth) if self.bounded and len(self.media.grid) == 2 else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
