"""N-dimensional arrays in and out: NPY."""

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.media.atomic import atomic_path
from coordnet.media.depths import from_depth, to_depth
from coordnet.media.errors import MediaError, StrPath, decoding, encoding, readable_file
from coordnet.media.signal import Media, as_numpy

ARRAY_SUFFIXES = (".npy",)
_MOST_CHANNELS = 4

Channels = Literal["auto", "last", "none"]


def read_array(path: StrPath, channels: Channels = "auto") -> Media:
    """Read an array of any number of axes into a signal of shape (*grid, channels).

    Integers are scaled by the largest value of their type, booleans become 0 and 1, floats stay as they are,
    NaN included.

    Parameters
    ----------
    path
        An .npy file. Pickled objects are never loaded.
    channels
        "last": the last axis holds channels. "none": every axis is of the grid, and a channel axis of length 1
        is added. "auto": the last axis holds channels if there are at least two axes and it is 4 or shorter.

    Raises
    ------
    MediaError
        If the file is missing, damaged or no NPY file, or its array is empty, of no axis, complex, of objects,
        or has an infinite value.
    """
    path = readable_file(path, "an NPY array")
    values = load_array(path)
    given = channels == "last" or (
        channels == "auto" and values.ndim > 1 and values.shape[-1] <= _MOST_CHANNELS
    )
    if given and values.ndim < 2:
        raise MediaError(f"{path}: expected an axis of channels after the grid, found shape {values.shape}")
    scaled = np.ascontiguousarray(from_depth(values, path))
    signal = torch.from_numpy(scaled if given else scaled[..., None])
    return Media(
        signal, "array", path.stem, values.dtype.name, suffix=path.suffix.lower(), channel_axis=given
    )


def load_array(path: Path) -> np.ndarray:
    """Return the array in an NPY file, in this machine's byte order, without ever unpickling."""
    with decoding(path, "an NPY array"):
        values = np.load(path, allow_pickle=False)
        if not isinstance(values, np.ndarray):
            raise ValueError("an archive of arrays")
    if values.size == 0 or values.ndim == 0:
        raise MediaError(
            f"{path}: expected an array with at least one axis and value, found shape {values.shape}"
        )
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def write_array(
    signal: Float[Tensor, "*grid channels"],
    path: StrPath,
    *,
    depth: str = "float32",
    channel_axis: bool = True,
    force: bool = False,
) -> None:
    """Write an array; integers are the signal times their largest value, rounded and clipped.

    Parameters
    ----------
    signal
        Shape (*grid, channels).
    path
        With suffix .npy.
    depth
        NumPy dtype name of booleans, integers or floats.
    channel_axis
        False to leave out a channel axis of length 1.
    force
        Whether to replace a file that is already there.

    Raises
    ------
    MediaError
        If the suffix or depth is not one of these, a NaN would have to become an integer, or the file exists or
        cannot be written.
    """
    if Path(path).suffix.lower() not in ARRAY_SUFFIXES:
        raise MediaError(f"{path}: expected the suffix .npy for an array, found {Path(path).suffix!r}")
    values = to_depth(as_numpy(signal), depth, path)
    values = values if channel_axis or values.shape[-1] != 1 else values[..., 0]
    with (
        atomic_path(path, force=force) as temporary,
        encoding(path, "an array"),
        temporary.open("wb") as file,
    ):
        np.save(file, values, allow_pickle=False)
