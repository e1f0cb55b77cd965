"""The command ``coordnet demosaic``."""

import torch

from coordnet.cli.restoring import Common, Restored, fill, restore
from coordnet.media import Media, MediaError
from coordnet.sampling.patterns import Bayer, sample


def run(raw: str, pattern: str, options: Common) -> None:
    """Fill the two colours that each pixel of a mosaic did not measure."""
    bayer = Bayer(pattern.upper())

    def work(media: Media, device: torch.device) -> Restored:
        height, width, channels = media.signal.shape
        if channels != 1:
            raise MediaError(f"{raw}: expected a grey picture of one channel, found {channels}")
        if height < 2 or width < 2:
            raise MediaError(
                f"{raw}: expected at least 2 by 2 pixels, all colours, found {height} by {width}"
            )
        colours = media.signal.expand(height, width, 3)
        samples = sample(colours.to(device), bayer)
        made = fill(samples, colours, options)
        made.settings["pattern"] = bayer.pattern
        return made

    restore("demosaic", raw, options, work, kinds=("image",))
