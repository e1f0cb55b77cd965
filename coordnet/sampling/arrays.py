"""The gate for arrays: users' arrays become floating-point signals, and results get back the kind that was given."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coordnet import _checks

PEAKS = {torch.uint8: 255, torch.uint16: 65535, torch.bool: 1}  # the largest number of types that become [0, 1]
FLOATS = (torch.float32, torch.float64)
MOST_CHANNELS = 4  # columns of an array of two axes that are taken for the channels of a row

Array = np.ndarray | Tensor


@dataclass(frozen=True)
class ArrayKind:
    """The kind of array that a signal was given as."""

    is_numpy: bool
    dtype: torch.dtype
    has_channels: bool  # whether the last axis was that of the channels

    def restore(self, signal: Tensor) -> Any:
        """Return a signal as an array of this kind; integers are rounded, and clipped to their range."""
        if peak := PEAKS.get(self.dtype):
            signal = (signal.clamp(0, 1) * peak).round()
        signal = signal.detach().to(self.dtype)
        if not self.has_channels and signal.shape[-1] == 1:
            signal = signal[..., 0]
        return signal.cpu().numpy() if self.is_numpy else signal


def as_signal(array: Any, name: str = "signal", *, dimensions: int | None = None) -> tuple[Tensor, ArrayKind]:
    """Return a NumPy array or tensor as a signal (*grid, channels) of floating point, and its kind.

    Numbers of 1, 8 or 16 bits without a sign are scaled to [0, 1]. ``dimensions`` is the number of axes without that of
    the channels; an array with just as many gets an axis of one channel. If not given, one axis is a row, and two axes
    are a gray picture unless the second is at most ``MOST_CHANNELS`` long. A ``ValueError``, with the argument's
    ``name``, is raised if it is no array, is empty, or has numbers of another type or another number of axes.
    """
    signal = as_tensor(array, name)
    dimensions = None if dimensions is None else _checks.integer("dimensions", dimensions, 1)
    kind = (isinstance(array, np.ndarray), signal.dtype)
    if signal.dtype not in (*PEAKS, *FLOATS):
        raise _checks.wrong(name, "numbers of uint8, uint16, bool, float32 or float64", _type(signal))
    has_channels = signal.ndim > count_axes(tuple(signal.shape), dimensions, name)
    signal = scaled(signal)
    return signal if has_channels else signal.unsqueeze(-1), ArrayKind(*kind, has_channels)


def count_axes(shape: tuple[int, ...], dimensions: int | None = None, name: str = "signal") -> int:
    """Return the number of axes of a signal's grid by the shape of its array; see ``as_signal`` for the arguments."""
    if dimensions is None:
        is_plain = len(shape) == 1 or (len(shape) == 2 and shape[1] > MOST_CHANNELS)
        dimensions = len(shape) if is_plain else max(1, len(shape) - 1)
    if len(shape) not in (dimensions, dimensions + 1) or 0 in shape:
        raise _checks.wrong(name, f"{dimensions} axes, and channels in the last, nowhere empty", f"shape {shape}")
    return dimensions


def is_divided(signal: Any) -> bool:
    """Return whether a signal is a Dask array, which is divided into blocks."""
    return hasattr(signal, "dask")


def scaled(array: Tensor) -> Tensor:
    """Return numbers of 1, 8 and 16 bits without a sign as float32 in [0, 1], and others as they are."""
    peak = PEAKS.get(array.dtype)
    return array.float() / peak if peak else array


def as_mask(array: Any) -> Tensor:
    """Return a mask as weights of float32 or float64: 1 where a sample is known, 0 elsewhere, or as given.

    A mask is a NumPy array or tensor of bool, of integers with at most one value beside 0, or of floating-point
    weights; others raise a ``ValueError``.
    """
    mask = as_tensor(array, "mask")
    if mask.dtype in FLOATS:
        return mask
    if mask.dtype.is_complex or mask.dtype.is_floating_point:
        raise _checks.wrong("mask", "bool, integers, float32 or float64", _type(mask))
    values = mask.unique()
    if len(values) - int((values == 0).any()) > 1:
        raise _checks.wrong("mask", "0 where nothing is known, and one other number", f"{len(values)} numbers")
    return (mask != 0).float()


def as_numbers(name: str, given: Any) -> np.ndarray:
    """Return an array of float64; dates, durations, complex numbers and what is no number are refused."""
    try:
        array = np.asarray(given)
        if array.dtype.kind not in "cmM":
            return array.astype(np.float64, copy=False)
        found = str(array.dtype)
    except (TypeError, ValueError):
        found = type(given).__name__
    dated = found.startswith(("datetime", "timedelta"))
    raise _checks.wrong(name, "numbers, such as days since a date" if dated else "numbers", found)


def as_tensor(array: Any, name: str) -> Tensor:
    """Return a NumPy array or a tensor as a tensor, without a copy where that is possible.

    An array that is not writable, such as ``numpy.asarray`` of a Pillow picture, is copied, as PyTorch has no tensors
    that cannot be written.

    A ``ValueError`` is raised if it is neither, has no numbers, no dense memory, or a mask that hides numbers.
    """
    if isinstance(array, Tensor):
        return check_dense(name, array)
    if not isinstance(array, np.ndarray):
        raise _checks.wrong(name, "a NumPy array or a tensor", type(array).__name__)
    if np.ma.is_masked(array):
        expected = "an array without a mask, such as array.filled(numpy.nan), where NaN is unknown"
        raise _checks.wrong(name, expected, f"one with {np.ma.count_masked(array)} masked numbers")
    try:
        native = array.astype(array.dtype.newbyteorder("="), copy=not array.flags.writeable)
        return torch.from_numpy(np.ascontiguousarray(native))
    except TypeError:
        raise _checks.wrong(name, "an array of numbers", f"one of {array.dtype}") from None


def check_dense(name: str, tensor: Tensor) -> Tensor:
    """Return a tensor that has its numbers in memory; sparse and meta tensors raise a ``ValueError``."""
    if tensor.layout != torch.strided or tensor.is_meta:
        found = "a tensor on the device 'meta'" if tensor.is_meta else f"a tensor of {tensor.layout}"
        raise _checks.wrong(name, "a dense tensor with values (`tensor.to_dense()`)", found)
    return tensor


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
