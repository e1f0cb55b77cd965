"""Users' arrays: they become floating-point signals, and results become arrays of the kind that was given."""

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks

PEAKS = {torch.uint8: 255, torch.uint16: 65535, torch.bool: 1}  # the number that becomes 1, by the type of integers
FLOATS = (torch.float32, torch.float64)
CHANNELS_FIRST = (
    "`{}`: an array of shape {} is taken for a volume or a clip, as the channels of a picture are its last axis; "
    "`dimensions=3` says that it is one"
)
DAYS = "days, (dates - dates.min()) / numpy.timedelta64(1, 'D')"

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

    Unsigned integers of 8 or 16 bits, and Booleans, are scaled to [0, 1]. ``dimensions`` is the number of axes of the
    grid; an array with just as many axes gets another one, for its one channel. If ``dimensions`` is not given, the
    last axis is that of the channels where it is short (``_checks.ends_in_channels``), and belongs to the grid
    elsewhere: (64, 64, 6) is a picture of six channels, and (64, 64, 64) a volume. A ``ValueError`` that names the
    argument ``name`` is raised if it is no array, is empty, or has numbers of another type or another number of axes.
    """
    signal = as_tensor(array, name)
    dimensions = None if dimensions is None else _checks.integer("dimensions", dimensions, 1)
    kind = (isinstance(array, np.ndarray), signal.dtype)
    if signal.dtype not in (*PEAKS, *FLOATS):
        expected = "numbers of uint8, uint16, bool, float32 or float64 (`array.astype('float32')`, `tensor.float()`)"
        raise _checks.wrong(name, expected, _type(signal))
    has_channels = signal.ndim > count_axes(tuple(signal.shape), dimensions, name)
    signal = scaled(signal)
    return signal if has_channels else signal.unsqueeze(-1), ArrayKind(*kind, has_channels)


def count_axes(shape: tuple[int, ...], dimensions: int | None = None, name: str = "signal") -> int:
    """Return the number of axes of a signal's grid, as the shape of its array tells it; see ``as_signal``.

    A ``CoordnetWarning`` is given where that is a volume and the array could be a picture with its channels first.
    """
    if dimensions is None:
        dimensions = max(1, len(shape) - _checks.ends_in_channels(shape))
        if dimensions == len(shape) == 3 and shape[0] <= _checks.MOST_CHANNELS and shape[1] > _checks.MOST_BANDS:
            warnings.warn(CHANNELS_FIRST.format(name, shape), _checks.CoordnetWarning, stacklevel=4)
    if len(shape) not in (dimensions, dimensions + 1) or 0 in shape:
        raise _checks.wrong(name, f"{dimensions} axes, and channels in the last, nowhere empty", f"shape {shape}")
    return dimensions


def count_axes_by_mask(signal: Any, known: Any) -> int | None:
    """Return the number of axes of a signal, or of a batch, if the shape of its mask tells it, else None.

    A mask (*grid,) or (*grid, 1) leaves out the axis of channels, or the axes of a batch of signals without channels.
    """
    shape: tuple[int, ...] = tuple(getattr(signal, "shape", ()))
    mask: tuple[int, ...] = tuple(getattr(known, "shape", ()))
    n = len(mask)
    if 0 < n < len(shape) and mask == shape[-n - 1 : -1] or n > 1 and mask == (*shape[:-1], 1):
        return len(shape) - 1
    is_batch = 0 < n < len(shape) and mask == shape[-n:] and mask != shape[:n] and mask[-1:] > (_checks.MOST_CHANNELS,)
    return len(shape) if is_batch else None


def is_divided(signal: Any) -> bool:
    """Return whether a signal is a Dask array, and so divided into blocks."""
    return hasattr(signal, "dask")


def scaled(array: Tensor) -> Tensor:
    """Return unsigned integers of 8 or 16 bits and Booleans as float32 in [0, 1], and other numbers as they are."""
    peak = PEAKS.get(array.dtype)
    return array.float() / peak if peak else array


def as_mask(array: Any) -> Tensor:
    """Return a mask as weights of float32 or float64: 1 where a sample is known, and 0 elsewhere.

    A mask is a NumPy array or tensor of bool, or of integers with at most one value beside 0. Floating-point numbers
    are the weights themselves. Others raise a ``ValueError``.
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
    """Return an array of float64, of a frame column by column; a missing number is NaN.

    A ``ValueError`` is raised for dates, durations, complex numbers and no numbers.
    """
    if hasattr(given, "iloc") and np.ndim(given) == 2 and np.size(given):
        return np.column_stack([as_numbers(name, given.iloc[:, j]) for j in range(given.shape[1])])
    try:
        array = np.asarray(given)
        if array.dtype.kind not in "cmM":
            return array.astype(np.float64, order="C", copy=False)  # PyTorch has no negative strides
        found = str(array.dtype)
    except (TypeError, ValueError):
        found = str(getattr(given, "dtype", type(given).__name__))
    dated = found.startswith(("datetime", "timedelta", "period"))
    raise _checks.wrong(name, f"numbers, such as {DAYS}" if dated else "numbers", found)


def doubt_nines(values: Float[np.ndarray, "n channels"]) -> None:
    """Warn of numbers such as -9999 that are further from all others than these from each other."""
    for column in values.T:
        numbers, counts = np.unique(column[np.isfinite(column)], return_counts=True)
        for end, others in ((0, numbers[1:]), (-1, numbers[:-1])):
            if not others.size or not re.fullmatch(r"-?9{2,}(\.9+)?", f"{numbers[end]:g}"):
                continue
            if np.abs(numbers[end] - others).min() > max(np.ptp(others), 1.0):
                found = f"{counts[end]} of {counts.sum()} values are {numbers[end]:g}, far from all others"
                advice = "is it a missing one (NaN in Python, --missing for the command)?"
                warnings.warn(f"{found}: {advice}", _checks.CoordnetWarning, stacklevel=4)  # the caller of ``points``


def as_tensor(array: Any, name: str) -> Tensor:
    """Return a NumPy array or a tensor as a tensor, which shares its memory where that is possible.

    A read-only array, such as ``numpy.asarray`` of a Pillow picture, is copied, since PyTorch has no read-only tensors.

    A ``ValueError`` is raised for anything else, and for arrays of other things than numbers, sparse tensors, tensors
    without memory, and masked arrays that hide numbers.
    """
    if isinstance(array, Tensor):
        return check_dense(name, array)
    if not isinstance(array, np.ndarray):
        how = " (`to_numpy()` makes one)" if hasattr(array, "to_numpy") else ""
        raise _checks.wrong(name, f"a NumPy array or a tensor{how}", type(array).__name__)
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


def check_values(name: str, values: object) -> Tensor:
    """Return a dense tensor of finite float32 or float64 numbers, at least one; others raise a ``ValueError``."""
    if not isinstance(values, Tensor) or values.dtype not in FLOATS:
        found = values.dtype if isinstance(values, Tensor) else type(values).__name__
        raise _checks.wrong(name, "a tensor of torch.float32 or torch.float64", found)
    if values.numel() == 0:
        raise _checks.wrong(name, "at least one number", f"shape {tuple(values.shape)}")
    if not bool(torch.isfinite(check_dense(name, values)).all()):
        raise _checks.wrong(name, "finite values", "NaN or infinity")
    return values


def known_entries(values: Float[Tensor, "*samples channels"]) -> Float[Tensor, "*samples _"] | None:
    """Return 1 where values are known and 0 where they are NaN, one for all channels if they agree; None if all are."""
    missing = torch.isnan(values)
    if not bool(missing.any()):
        return None
    shared = bool((missing == missing[..., :1]).all())
    return (~missing[..., :1] if shared else ~missing).to(values)


def check_weights(weights: Float[Tensor, "..."], shape: tuple[int, ...] | None = None, name: str = "weights") -> None:
    """Refuse weights that are negative, not finite, or zero everywhere with a ``ValueError``.

    So are those that are not one number, or one for each channel, for each of the samples of a ``shape``.
    """
    if shape is not None and tuple(weights.shape[:-1]) != shape:
        raise _checks.wrong(name, f"shape {(*shape, 1)}", tuple(weights.shape))
    if not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        raise _checks.wrong(name, "finite numbers of at least 0", "NaN, infinity or a negative number")
    if not bool((weights > 0).any()):
        raise _checks.wrong(name, "at least one known sample", "none: the mask is empty")
