"""Masks: a picture, an animation or an array says which samples of a signal are known."""

import warnings
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from coordnet._checks import CoordnetWarning
from coordnet.media.array_files import ARRAY_SUFFIXES, load_array
from coordnet.media.files import StrPath, declared_pictures, decoding, mismatch, readable_file, split_member
from coordnet.media.picture_files import IMAGE_SUFFIXES, is_animated, is_stack, read_pixels
from coordnet.media.stacks import read_pages
from coordnet.media.video import open_clip

UNCLEAR = 0.1  # share of values in the middle half of a mask's range from which on no threshold parts two kinds


def read_mask(
    path: StrPath,
    shape: tuple[int, ...],
    *,
    threshold: float | int | None = None,
    invert: bool = False,
    memory: int | None = None,
) -> Bool[Tensor, "*mask"]:
    """Read which samples of a grid of this shape are known: those whose value in the mask is not zero.

    The value of a pixel is that of its greatest color, or its opacity if the colors are all the same. A mask of more
    than two values, such as one with smooth edges, is known above half of its range, and a ``CoordnetWarning`` says so;
    one without two clear kinds of values needs a ``threshold``, in the numbers of the file, above which it is known.
    ``invert`` is for masks that are not zero where the signal is unknown.

    A mask of one frame holds for a whole video. An array may have one more axis than the grid, for channels, and the
    returned mask then has it too. A mask of another size, one that knows nothing, and one that needs more than
    ``memory`` bytes (see ``refuse_large``) raise a ``MediaError``.
    """
    file = split_member(path)[0]
    is_array = file.suffix.lower() in ARRAY_SUFFIXES
    values = _values(Path(path), file.suffix.lower(), shape, memory)
    if is_array and values.ndim == len(shape) + 1 and values.shape[-1] == 1:
        values = values[..., 0]
    by_channel = is_array and values.ndim == len(shape) + 1
    is_frame = len(shape) == 3 and values.shape == shape[1:]
    if not is_frame and (values.shape[:-1] if by_channel else values.shape) != shape:
        found, expected = ("x".join(map(str, size)) for size in (values.shape, shape))
        raise mismatch(path, f"a mask of the signal's size {expected}", found)
    known = _above(values, threshold, path) & ~np.isnan(values)
    known = ~known if invert else known
    known = np.broadcast_to(known, shape) if is_frame else known
    if not known.any():
        raise mismatch(path, f"a mask that is {'zero' if invert else 'not zero'} at known samples", "nothing known")
    return torch.from_numpy(known.copy())  # a broadcast frame is read-only


def _values(path: Path, suffix: str, shape: tuple[int, ...], memory: int | None) -> np.ndarray:
    """Return the numbers of a mask, one for each pixel of a picture; of an animation for a grid of this shape."""
    if suffix in ARRAY_SUFFIXES:
        values = load_array(path, memory=memory)
        if values.dtype.kind not in "biuf":
            raise mismatch(path, "a mask of numbers", f"values of type {values.dtype.name}")
        return values
    readable_file(path, "a mask")
    if suffix not in IMAGE_SUFFIXES:
        raise mismatch(path, "a mask as a picture, stack, GIF or array", f"the suffix {suffix!r}")
    if is_stack(path):
        return read_pages(path, memory)[0].max(-1)
    if is_animated(path):
        frames = declared_pictures(path, memory)
        if len(shape) != 3 or frames != shape[0]:
            raise mismatch(path, f"a mask of the signal's size {'x'.join(map(str, shape))}", f"{frames} pictures")
        with decoding(path, "an animation"):
            return np.stack([image.max(axis=-1) for image in open_clip(path, memory)[0]])
    pixels, has_alpha = read_pixels(path, memory)
    if not has_alpha:
        return pixels.max(axis=-1)
    colors, alpha = pixels[..., :-1], pixels[..., -1]
    varies = (colors != colors[:1, :1]).any() or (alpha == alpha[0, 0]).all()
    return colors.max(axis=-1) if varies else alpha


def _above(values: np.ndarray, threshold: float | int | None, path: StrPath) -> np.ndarray:
    """Return where values are above a threshold, by default zero, or half of their range if they are not two."""
    if threshold is not None:
        return values > threshold
    present = values[~np.isnan(values)].astype(np.float64)
    low, high = (float(present.min()), float(present.max())) if present.size else (0.0, 0.0)
    kinds = np.count_nonzero((present != low) & (present != high))
    if low == high or (kinds == 0 and low == 0):
        return values != 0
    half = (low + high) / 2
    middle = float(np.mean(np.abs(present - half) < (high - low) / 4))
    if middle > UNCLEAR or low > high / 10:
        found = f"values from {low:g} to {high:g}, {100 * middle:.0f} % of them near the middle"
        raise mismatch(path, "a mask of two values, or a threshold (--threshold)", found)
    text = f"{path}: the mask is not two-valued; it is taken as known above {half:g}, half of its range (--threshold)"
    warnings.warn(text, CoordnetWarning, stacklevel=3)
    return values > half
