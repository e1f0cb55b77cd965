"""Which frames of a clip, at which size, and which part of them."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from skimage.transform import resize as skimage_resize

from coordnet.media.errors import MediaError

_PAIR = re.compile(r"(\d+)[x×](\d+)")
_CROP = re.compile(r"(\d+)[x×](\d+)(?:\+(\d+)\+(\d+))?")
_SLICE = re.compile(r"(-?\d+)?:(-?\d+)?(?::(\d+)?)?")


def parse_frames(text: str) -> slice:
    """Return the slice that `start:stop` or `start:stop:step` means, read as Python reads it.

    Raises
    ------
    MediaError
        If the text is no slice, or its step is not positive.
    """
    match = _SLICE.fullmatch(text.strip())
    start, stop, step = (
        (None if part is None else int(part) for part in match.groups()) if match else (0, 0, 0)
    )
    if step == 0:
        raise MediaError(f"frames: expected START:STOP such as 0:120, -30: or ::2, found {text!r}")
    return slice(start, stop, step)


def parse_size(text: str) -> tuple[int, int]:
    """Return the (height, width) that `HxW` means; both must be positive."""
    match = _PAIR.fullmatch(text.strip())
    height, width = (int(part) for part in match.groups()) if match else (0, 0)
    if height < 1 or width < 1:
        raise MediaError(f"size: expected HEIGHTxWIDTH such as 256x256, found {text!r}")
    return height, width


def parse_crop(text: str, height: int, width: int) -> tuple[slice, slice]:
    """Return the rows and columns that `HxW` (from the centre) or `HxW+top+left` cuts from a frame.

    Where the margins of a central crop are odd, the smaller one is at the top or left.

    Raises
    ------
    MediaError
        If the text is neither form, or the crop leaves the frame of (height, width).
    """
    match = _CROP.fullmatch(text.strip())
    rows, columns = (int(part) for part in match.groups()[:2]) if match else (0, 0)
    if match is None or rows < 1 or columns < 1:
        raise MediaError(f"crop: expected HEIGHTxWIDTH or HEIGHTxWIDTH+TOP+LEFT, found {text!r}")
    central = match[3] is None
    top, left = ((height - rows) // 2, (width - columns) // 2) if central else (int(match[3]), int(match[4]))
    if top < 0 or left < 0 or top + rows > height or left + columns > width:
        raise MediaError(f"crop: expected a part of {height}x{width} (height x width), found {text!r}")
    return slice(top, top + rows), slice(left, left + columns)


def frame_image(image: np.ndarray, size: str | None, crop: str | None) -> np.ndarray:
    """Resize an image with anti-aliasing, then crop it.

    Parameters
    ----------
    image
        Shape (height, width, channels), float32.
    size, crop
        As `parse_size` and `parse_crop` read them; None leaves the image as it is.
    """
    if size is not None and (shape := parse_size(size)) != image.shape[:2]:
        image = np.asarray(skimage_resize(image, shape, order=1, anti_aliasing=True, preserve_range=True))
    if crop is not None:
        image = image[parse_crop(crop, *image.shape[:2])]
    return np.ascontiguousarray(image, dtype=np.float32)


def select_frames(clip: Iterable[np.ndarray], wanted: slice, count: int | None) -> Iterator[np.ndarray]:
    """Yield the frames of a clip that a slice selects, decoding none after the last of them.

    Parameters
    ----------
    clip
        The frames in order.
    wanted
        A slice with a positive step.
    count
        How many frames there are; needed only where `wanted` counts from the end.
    """
    start, stop, step = wanted.start or 0, wanted.stop, wanted.step or 1
    if count is not None:
        start, stop, step = wanted.indices(count)
    return islice(clip, start, stop, step)


def counts_from_end(wanted: slice) -> bool:
    """Return whether the number of frames must be known to resolve a slice."""
    return (wanted.start or 0) < 0 or (wanted.stop or 0) < 0
