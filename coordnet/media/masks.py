"""Which samples of a signal are known, read from a picture or an array."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from coordnet.media.animation import animation_frames
from coordnet.media.arrays import ARRAY_SUFFIXES, load_array
from coordnet.media.errors import MediaError, StrPath, readable_file
from coordnet.media.images import IMAGE_SUFFIXES, TIFF_SUFFIXES
from coordnet.media.raster import read_raster
from coordnet.media.tiff import read_tiff
from coordnet.media.video import is_video

_LOSSY_SUFFIXES = (".jpg", ".jpeg", ".jfif")


def read_mask(path: StrPath, shape: tuple[int, ...]) -> Bool[Tensor, "*mask"]:
    """Read which samples are known: those where the mask is not zero.

    In a picture a pixel is known where any colour is not zero; alpha is ignored. In a JPEG, whose zeros are
    only nearly so, it is known where a colour is at least half. For a video a mask of one frame holds for all.

    Parameters
    ----------
    path
        A picture, a GIF or other animation (a clip's mask), or an .npy array.
    shape
        The signal's grid: (height, width), (frames, height, width), (samples,) …

    Returns
    -------
    Tensor
        Shape `shape`, or `(*shape, channels)` where an .npy array has a further axis. True where known.

    Raises
    ------
    MediaError
        If the file cannot be read, the mask has another size than the signal, or nothing is known.
    """
    path = readable_file(path, "a mask")
    suffix = path.suffix.lower()
    if suffix in ARRAY_SUFFIXES:
        known = _array_mask(path)
    elif suffix in IMAGE_SUFFIXES:
        known = _picture_mask(path)
    else:
        raise MediaError(f"{path}: expected a mask as a picture, GIF or .npy, found the suffix {suffix!r}")
    fitted = _fitted(known, shape, path, suffix in ARRAY_SUFFIXES)
    if not fitted.any():
        raise MediaError(
            f"{path}: expected a mask that is not zero where the signal is known, found nothing known"
        )
    return torch.from_numpy(fitted.copy())  # a frame that stands for all is read-only


def _array_mask(path: Path) -> np.ndarray:
    values = load_array(path)
    if values.dtype.kind not in "biuf":
        raise MediaError(f"{path}: expected a mask of numbers, found values of type {values.dtype.name}")
    return np.asarray((values != 0) & ~np.isnan(values))


def _picture_mask(path: Path) -> np.ndarray:
    suffix = path.suffix.lower()
    if is_video(path):
        return np.stack([image.any(axis=-1) for image in animation_frames(path)])
    pixels = read_tiff(path) if suffix in TIFF_SUFFIXES else read_raster(path)
    colours = pixels[..., :-1] if pixels.shape[-1] in (2, 4) else pixels
    return np.any(colours >= 128 if suffix in _LOSSY_SUFFIXES else colours != 0, axis=-1)


def _fitted(known: np.ndarray, shape: tuple[int, ...], path: Path, array: bool) -> np.ndarray:
    """Return a mask of the signal's shape, possibly with channels, or raise naming both sizes."""
    if known.shape == shape:
        return known
    if array and known.ndim == len(shape) + 1 and known.shape[:-1] == shape:
        return known[..., 0] if known.shape[-1] == 1 else known
    if len(shape) == 3 and known.shape == shape[1:]:
        return np.broadcast_to(known, shape)
    found, expected = ("x".join(map(str, size)) for size in (known.shape, shape))
    raise MediaError(f"{path}: expected a mask of the signal's size {expected}, found {found}")
