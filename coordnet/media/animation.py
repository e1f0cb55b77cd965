"""Pictures that move: GIF, WebP and APNG, decoded by Pillow, which composes their partial frames."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from coordnet.media.errors import MediaError, decoding
from coordnet.media.raster import count_pictures

# Browsers show frames without a duration at 10 a second.
_DEFAULT_RATE = 10.0

ANIMATED_SUFFIXES = (".gif", ".webp", ".apng", ".png", ".avif")


def animation_frames(path: Path) -> Iterator[np.ndarray]:
    """Yield the frames of an animation in order, each of shape (height, width, 3), uint8; alpha is dropped.

    A file that breaks off yields the frames before the break.

    Raises
    ------
    MediaError
        If not even the first frame can be decoded.
    """
    for image in _pictures(path):
        yield np.asarray(image.convert("RGB"))


def animation_rate(path: Path) -> float:
    """Return an animation's mean number of frames a second, or 10 where it states no durations."""
    durations = [float(image.info.get("duration") or 0) for image in _pictures(path)]
    return 1000 * len(durations) / sum(durations) if any(durations) else _DEFAULT_RATE


def _pictures(path: Path) -> Iterator[Image.Image]:
    """Yield the image at each of its frames that can be decoded."""
    with decoding(path, "an animation"):
        image = Image.open(path)
    with image:
        for index in range(count_pictures(path)):
            try:
                with decoding(path, "an animation"):
                    image.seek(index)
                    image.load()
            except MediaError:
                if index == 0:
                    raise
                return
            yield image
