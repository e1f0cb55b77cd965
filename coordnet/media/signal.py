"""A signal with the properties of its file, and the scale between numbers in a file and values of a signal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.media.files import StrPath, mismatch
from coordnet.media.tags import Tags

Kind = Literal["image", "stack", "video", "audio", "table", "array"]


@dataclass(frozen=True)
class Exact:
    """Numbers of a file that are written again as they were read, although float32 rounds them."""

    numbers: np.ndarray  # (*grid, channels), in the type of the file
    where: np.ndarray  # bool, broadcast with the numbers: where they are written again

    def over(self, values: np.ndarray) -> np.ndarray:
        """Return values with these numbers in their places."""
        return np.where(self.where, self.numbers, values)


@dataclass(frozen=True)
class Media:
    """A signal on a lattice in float32, with the properties that are needed to write it back as it was read.

    See ``from_depth`` for the scale of integers; sound is scaled to [-1, 1). Images have the shape
    (height, width, channels), stacks and videos (frames, height, width, channels), audio (samples, channels) and tables
    (rows, columns).
    """

    signal: Float[Tensor, "*grid channels"]
    kind: Kind
    name: str  # the file's stem, or the name of the built-in picture
    depth: str  # the NumPy dtype of the numbers in the file
    rate: float | int | None = None  # frames or samples per second, of signals with a time axis
    columns: tuple[str, ...] = ()  # the names of a table's columns of numbers
    texts: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # its other columns, see ``Table.texts``
    suffix: str = ""  # suffix of the file, for formats that a signal is written in as it was read
    axes: str = ""  # tifffile's letters for the axes of a stack
    channel_axis: bool = True  # false if the file's array has no axis of channels, and one of length 1 was added
    alpha: bool = False  # whether the last channel is opacity: of two, beside gray, or of four, beside three colors
    stored: np.ndarray | None = None  # the numbers of the file, shaped as the signal, where writing might change them
    known: Bool[Tensor, "*grid channels"] | None = None  # where the stored numbers are written again
    tags: Tags = Tags()  # metadata of a picture's file

    def __post_init__(self) -> None:
        """Replace the bytes of a name that are not UTF-8, which neither figures nor JSON hold."""
        printable = self.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        object.__setattr__(self, "name", printable)

    @property
    def grid(self) -> tuple[int, ...]:
        """The lengths of the axes, without the channels."""
        return tuple(self.signal.shape[:-1])

    @property
    def exact(self) -> Exact | None:
        """The stored numbers that are written again, if there are any."""
        if self.stored is None or self.known is None:
            return None
        return Exact(self.stored, self.known.cpu().numpy())

    def numbers(self, path: StrPath) -> np.ndarray:
        """Return the numbers to write, (*grid, channels): those of the signal (``to_depth``), or the exact ones."""
        values = to_depth(as_numpy(self.signal), self.depth, path)
        return values if self.exact is None else self.exact.over(values)

    @property
    def lossless_suffix(self) -> str:
        """The suffix of a format that holds this signal at its depth; video is compressed at high quality.

        A TIFF file gives a TIFF file, and a GIF without opacity a GIF, of 256 colors a frame.
        """
        if self.suffix in (".tif", ".tiff") or (self.suffix == ".gif" and self.signal.shape[-1] in (1, 3)):
            return self.suffix
        channels = self.signal.shape[-1]
        small = self.depth in ("uint8", "uint16") or (self.depth == "bool" and channels == 1)
        if self.kind == "image" and (channels > 4 or not small):
            return ".tiff"
        return {"image": ".png", "stack": ".tiff", "video": ".mp4", "audio": ".wav", "table": ".csv", "array": ".npy"}[
            self.kind
        ]


def rounded_by_float32(values: np.ndarray) -> np.ndarray | None:
    """Return numbers of a type of which float32 holds not every one, and None for others."""
    return None if np.can_cast(values.dtype, np.float32) else values


def as_numpy(signal: Tensor) -> np.ndarray:
    """Return a tensor's values as a NumPy array of float32 or float64, detached from its graph."""
    dtype = torch.float64 if signal.dtype == torch.float64 else torch.float32
    return signal.detach().to(dtype).cpu().numpy()


def from_depth(values: np.ndarray, path: StrPath) -> np.ndarray:
    """Convert the numbers of a file, in any shape, to float32; integers are divided by their type's largest value.

    Booleans become 0 and 1, and NaN is kept. Numbers that are complex, infinite or beyond float32, objects, text
    and records raise a ``MediaError``.
    """
    if values.dtype.kind in "iu":
        wide = np.float32 if values.dtype.itemsize <= 2 else np.float64
        peak = np.iinfo(values.dtype).max
        return np.divide(values, wide(peak), dtype=wide).astype(np.float32, copy=False)
    if values.dtype.kind not in "bf":
        raise mismatch(path, "real numbers", f"values of type {values.dtype.name}")
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32, copy=False)
    if np.isinf(narrow).any():
        found = f"{np.nanmax(np.abs(values)):.3g}"
        raise mismatch(path, "finite numbers within float32 (NaN marks missing ones)", found)
    return narrow


def to_depth(values: np.ndarray, depth: str, path: StrPath) -> np.ndarray:
    """Invert ``from_depth``: scale to an integer type, round to the nearest and clip, or cast to a float type.

    An unsigned type holds the range [0, 1], a signed one [-1, 1]; NaN raises a ``MediaError`` for both.
    """
    dtype = np.dtype(depth)
    if dtype.kind == "f":
        return values.astype(dtype, copy=False)
    refuse_nan(values, depth, path)
    if dtype.kind == "b":
        return values >= 0.5
    bounds = np.iinfo(dtype)
    wide = np.float32 if dtype.itemsize <= 2 else np.float64
    top = wide(bounds.max) if dtype.itemsize < 8 else np.nextafter(wide(bounds.max), wide(0))
    scaled = np.multiply(values, wide(bounds.max), dtype=wide, casting="same_kind")
    return np.clip(np.rint(scaled, out=scaled), wide(bounds.min), top, out=scaled).astype(dtype)


def refuse_nan(values: np.ndarray, depth: str, path: StrPath) -> None:
    """Raise a ``MediaError`` if a value is NaN, which no integer type holds."""
    if np.isnan(values).any():
        raise mismatch(path, f"numbers to write as {depth}", "NaN (float types keep it)")
