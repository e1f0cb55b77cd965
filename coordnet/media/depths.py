"""Between the numbers in a file and the float32 of a signal."""

import numpy as np

from coordnet.media.errors import MediaError, StrPath


def from_depth(values: np.ndarray, path: StrPath) -> np.ndarray:
    """Scale integers by the largest value of their type, and take floats as they are.

    Parameters
    ----------
    values
        Any shape; booleans become 0 and 1, NaN is kept.
    path
        The file, for the message.

    Returns
    -------
    ndarray
        The same shape, float32.

    Raises
    ------
    MediaError
        If the values are complex, objects, text or records, if one is infinite, or if one is beyond float32.
    """
    if values.dtype.kind == "b":
        return values.astype(np.float32)
    if values.dtype.kind in "iu":
        wide = np.float32 if values.dtype.itemsize <= 2 else np.float64
        peak = np.iinfo(values.dtype).max
        return np.divide(values, wide(peak), dtype=wide).astype(np.float32, copy=False)
    if values.dtype.kind != "f":
        raise MediaError(f"{path}: expected real numbers, found values of type {values.dtype.name}")
    if np.isinf(values).any():
        raise MediaError(
            f"{path}: expected finite numbers (NaN marks what is missing), found an infinite one"
        )
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32, copy=False)
    if np.isinf(narrow).any():
        raise MediaError(f"{path}: expected numbers within float32, found {np.nanmax(np.abs(values)):.3g}")
    return narrow


def to_depth(values: np.ndarray, depth: str, path: StrPath) -> np.ndarray:
    """Undo `from_depth`: scale to an integer type, round to the nearest and clip, or cast to a float type.

    Parameters
    ----------
    values
        Any shape, float. For unsigned types [0, 1] is the whole range.
    depth
        Name of a NumPy dtype.
    path
        The file, for the message.

    Raises
    ------
    MediaError
        If `depth` names no real type, or a NaN would have to become an integer.
    """
    dtype = real_dtype(depth, path)
    if dtype.kind == "f":
        return values.astype(dtype, copy=False)
    if np.isnan(values).any():
        raise MediaError(f"{path}: expected numbers to write as {depth}, found NaN (float types keep it)")
    if dtype.kind == "b":
        return values >= 0.5
    bounds = np.iinfo(dtype)
    wide = np.float32 if dtype.itemsize <= 2 else np.float64
    top = wide(bounds.max) if dtype.itemsize < 8 else np.nextafter(wide(bounds.max), wide(0))
    scaled = np.multiply(values, wide(bounds.max), dtype=wide, casting="same_kind")
    return np.clip(np.rint(scaled, out=scaled), wide(bounds.min), top).astype(dtype)


def real_dtype(depth: str, path: StrPath) -> np.dtype:
    """Return the dtype of this name, which must be of booleans, integers or floats."""
    try:
        dtype = np.dtype(depth)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf":
        raise MediaError(f"{path}: expected a depth such as uint8, uint16 or float32, found {depth!r}")
    return dtype
