"""The command ``coordnet inpaint``."""

from pathlib import Path

import torch

from coordnet.cli.restoring import Common, Restored, fill, restore
from coordnet.media import Media, read_mask
from coordnet.sampling.patterns import sample


def run(signal: str, mask: Path, options: Common) -> None:
    """Fill the samples that a mask calls unknown, and those that are NaN."""

    def work(media: Media, device: torch.device) -> Restored:
        samples = sample(media.signal.to(device), read_mask(mask, media.grid).to(device))
        return fill(samples, media.signal, options)

    restore("inpaint", signal, options, work)
