"""A signal with the properties of its file, and the scale between numbers in a file and values of a signal."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.media.files import StrPath, mismatch

Kind = Literal["image", "video", "audio", "table", "array"]


@dataclass(frozen=True)
class Media:
    """A signal on a lattice, with the properties that are needed to write it back as it was read.

    Attributes
    ----------
    signal
        Shape `(*grid, channels)`, float32. Integer images, videos and arrays are scaled by the largest value
        of their type, so that images are in [0, 1]; sound is scaled to [-1, 1); floats keep their values.
    kind
        An image `(height, width, channels)`, a video `(frames, height, width, channels)`, audio
        `(samples, channels)`, a table `(rows, columns)` or an array of any other shape.
    name
        The file's stem, or the name of the built-in sample.
    depth
        The type of the numbers in the file: the name of a NumPy dtype, or "int24" for sound.
    rate
        Frames or samples a second; None for signals without a time axis.
    suffix
        The file's suffix in lower case, with its dot.
    columns
        The names of a table's columns; empty if the file has none.
    channel_axis
        False if the array in the file has no axis of channels, so that one of length 1 was added.
    """

    signal: Float[Tensor, "*grid channels"]
    kind: Kind
    name: str
    depth: str
    rate: float | int | None = None
    suffix: str = ""
    columns: tuple[str, ...] = ()
    channel_axis: bool = True

    @property
    def grid(self) -> tuple[int, ...]:
        """The lengths of the axes, without the channels."""
        return tuple(self.signal.shape[:-1])

    @property
    def alpha(self) -> bool:
        """Whether the last channel is opacity: true for images of 2 channels (gray) or 4 (RGB)."""
        return self.kind == "image" and self.signal.shape[-1] in (2, 4)

    @property
    def lossless_suffix(self) -> str:
        """The suffix of a format that holds this signal at its depth; video is compressed at high quality."""
        if self.kind == "image":
            small = self.signal.shape[-1] <= 4 and self.depth in ("uint8", "uint16")
            return ".png" if small else ".tiff"
        return {"video": ".mp4", "audio": ".wav", "table": ".csv", "array": ".npy"}[self.kind]


def as_numpy(signal: Tensor) -> np.ndarray:
    """Return a tensor's values on the host as float32 or float64, detached from its graph."""
    wide = signal.detach().to(torch.float64 if signal.dtype == torch.float64 else torch.float32)
    return wide.cpu().numpy()


def from_depth(values: np.ndarray, path: StrPath) -> np.ndarray:
    """Convert the numbers of a file, in any shape, to float32; integers are divided by their type's largest value.

    Booleans become 0 and 1, and NaN is kept. Numbers that are complex, infinite or beyond float32, objects, text
    and records raise a `MediaError`.
    """
    if values.dtype.kind == "b":
        return values.astype(np.float32)
    if values.dtype.kind in "iu":
        wide = np.float32 if values.dtype.itemsize <= 2 else np.float64
        peak = np.iinfo(values.dtype).max
        return np.divide(values, wide(peak), dtype=wide).astype(np.float32, copy=False)
    if values.dtype.kind != "f":
        raise mismatch(path, "real numbers", f"values of type {values.dtype.name}")
    if np.isinf(values).any():
        raise mismatch(path, "finite numbers (NaN marks missing ones)", "an infinite one")
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32, copy=False)
    if np.isinf(narrow).any():
        raise mismatch(path, "numbers within float32", f"{np.nanmax(np.abs(values)):.3g}")
    return narrow


def to_depth(values: np.ndarray, depth: str, path: StrPath) -> np.ndarray:
    """Invert `from_depth`: scale to an integer type, round to the nearest and clip, or cast to a float type.

    An unsigned type holds the range [0, 1], a signed one [-1, 1]; NaN raises a `MediaError` for both.
    """
    dtype = real_dtype(depth, path)
    if dtype.kind == "f":
        return values.astype(dtype, copy=False)
    refuse_nan(values, depth, path)
    if dtype.kind == "b":
        return values >= 0.5
    bounds = np.iinfo(dtype)
    wide = np.float32 if dtype.itemsize <= 2 else np.float64
    top = wide(bounds.max) if dtype.itemsize < 8 else np.nextafter(wide(bounds.max), wide(0))
    scaled = np.multiply(values, wide(bounds.max), dtype=wide, casting="same_kind")
    return np.clip(np.rint(scaled, out=scaled), wide(bounds.min), top).astype(dtype)


def refuse_nan(values: np.ndarray, depth: str, path: StrPath) -> None:
    """Raise a `MediaError` if a value is NaN, which no integer type holds."""
    if np.isnan(values).any():
        raise mismatch(path, f"numbers to write as {depth}", "NaN (float types keep it)")


def real_dtype(depth: str, path: StrPath) -> np.dtype:
    """Return the dtype of this name, which must be of booleans, integers or floats."""
    try:
        dtype = np.dtype(depth)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf":
        raise mismatch(path, "a depth such as uint8, uint16 or float32", repr(depth))
    return dtype
