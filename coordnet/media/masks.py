"""Masks: a picture, an animation or an array says which samples of a signal are known."""

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from coordnet.media.files import StrPath, decoding, mismatch, readable_file
from coordnet.media.pictures import IMAGE_SUFFIXES, read_pixels
from coordnet.media.tables import ARRAY_SUFFIXES, load_array
from coordnet.media.video import is_video, open_clip

_LOSSY_SUFFIXES = (".jpg", ".jpeg", ".jfif")


def read_mask(path: StrPath, shape: tuple[int, ...]) -> Bool[Tensor, "*mask"]:
    """Read which samples of a grid of this shape are known: those whose value in the mask is not zero.

    A pixel of a picture is known if any of its colors is not zero; alpha is ignored. In a JPEG file, whose
    compression changes zeros, it is known if a color is at least half. A mask of one frame holds for a whole video.
    An .npy array may have one more axis than the grid, for channels, and the returned mask then has it too. A mask of
    another size, or one without a known sample, raises a ``MediaError``.
    """
    path = readable_file(path, "a mask")
    suffix = path.suffix.lower()
    if suffix in ARRAY_SUFFIXES:
        values = load_array(path)
        if values.dtype.kind not in "biuf":
            raise mismatch(path, "a mask of numbers", f"values of type {values.dtype.name}")
        known = np.asarray((values != 0) & ~np.isnan(values))
        if known.ndim == len(shape) + 1 and known.shape[-1] == 1:
            known = known[..., 0]
    elif suffix not in IMAGE_SUFFIXES:
        raise mismatch(path, "a mask as a picture, GIF or .npy", f"the suffix {suffix!r}")
    elif is_video(path):
        with decoding(path, "an animation"):
            known = np.stack([image.any(axis=-1) for image in open_clip(path)[0]])
    else:
        pixels = read_pixels(path)
        colors = pixels[..., :-1] if pixels.shape[-1] in (2, 4) else pixels
        known = np.any(colors >= 128 if suffix in _LOSSY_SUFFIXES else colors != 0, axis=-1)
    if len(shape) == 3 and known.shape == shape[1:]:
        known = np.broadcast_to(known, shape)
    by_channel = suffix in ARRAY_SUFFIXES and known.ndim == len(shape) + 1
    if (known.shape[:-1] if by_channel else known.shape) != shape:
        found, expected = ("x".join(map(str, size)) for size in (known.shape, shape))
        raise mismatch(path, f"a mask of the signal's size {expected}", found)
    if not known.any():
        raise mismatch(path, "a mask that is not zero at known samples", "nothing known")
    return torch.from_numpy(known.copy())  # a broadcast frame is read-only
