"""Labeled arrays: the signal that an ``xarray.DataArray`` holds, with numbers for its coordinates, and the way back."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from coordnet import _checks
from coordnet.sampling.rectilinear import evened
from coordnet.sampling.sphere import LONGITUDES

DAY = np.timedelta64(1, "D")
WRAPPED = 8, 8, 64  # share of a periodic axis by which it is continued on either side, the fewest and the most nodes
TIME_KINDS = "mM"  # kinds of NumPy's types of durations and dates
TIME_NAMES = ("time", "t")  # names of dimensions that are times, whatever their coordinates are
CIRCLE = 360.0  # degrees of longitude
BELOW = 1e-9  # part of the circle by which a longitude may be below the first one
CLOSED = 1e-2  # part of a spacing by which coordinates may fail to close their circle


@dataclass(frozen=True)
class Labeled:
    """The signal of a labeled array: the axes first, beginning with time, then the channels."""

    array: Any
    # The dimensions of the signal, and the others.
    axes: tuple[str, ...]
    channels: tuple[str, ...]
    has_time: bool  # whether the first axis is time

    @classmethod
    def of(cls, array: Any, dims: str | Sequence[str] | None = None, *, counts: bool = True) -> "Labeled":
        """Return the signal of an array along some dimensions, by default those with numbers or times as coordinates.

        If no dimension has coordinates, all are taken, unless ``counts`` is false. A ``ValueError`` is raised if it is
        no array of real numbers, at least one, or a dimension is unknown or has labels of another kind.
        """
        if not all(hasattr(array, name) for name in ("dims", "coords", "attrs", "transpose", "dtype")):
            raise _checks.wrong("array", "an xarray.DataArray", type(array).__name__)
        if array.dtype.kind not in "biuf" or not array.size:
            raise _checks.wrong("array", "real numbers, at least one", f"shape {array.shape} of {array.dtype}")
        _checks.instance("dims", dims, str | Sequence | None, "a sequence of names of dimensions")
        axes = tuple(d for d in array.dims if _is_measured(array, d))
        axes = axes or (tuple(array.dims) if counts and not array.indexes else ())
        if dims is not None:
            axes = (dims,) if isinstance(dims, str) else tuple(dict.fromkeys(dims))
            for name in axes:
                _checks.choice("dims", name, array.dims)
        if not axes or any(d in array.indexes and not _is_measured(array, d) for d in axes):
            expected = "a DataArray with coordinates along the dimensions that are fitted or changed"
            found = f"dimensions {array.dims} with coordinates along {list(array.indexes)}"
            raise _checks.wrong("array", expected, found)
        time = tuple(d for d in axes if is_time(array, d))[:1]
        ordered = time + tuple(d for d in axes if d not in time)
        return cls(array, ordered, tuple(d for d in array.dims if d not in ordered), bool(time))

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return tuple(self.array.sizes[d] for d in self.axes)

    @property
    def dtype(self) -> np.dtype:
        """The type of results: float32 of any byte order stays so, others become float64."""
        return np.dtype(np.float32 if self.array.dtype.newbyteorder("=") == np.float32 else np.float64)

    def own(self, axis: str) -> np.ndarray:
        """Return the coordinates of an axis as they are; numbers from 0 on where it has none."""
        return self.array[axis].values if axis in self.array.indexes else np.arange(self.array.sizes[axis])

    def numbers(self, axis: str, labels: Any = None) -> Float[np.ndarray, " n"]:
        """Return an axis' coordinates, or others in their units, as increasing numbers; times in days after the first.

        Longitudes that begin anew at 0° or -180° go on beyond 360° or 180° instead, and others in their units are moved
        by whole circles so that the least of them is less than a circle above the array's least.
        A ``ValueError`` is raised if its own coordinates neither increase nor decrease.
        """
        own = self._going_on(axis, self.own(axis))
        numbers = own if labels is None else self._going_on(axis, np.asarray(labels, dtype=_kind(own)))
        if own.dtype.kind in TIME_KINDS:
            numbers = (numbers - own[0]) / DAY
        elif own.dtype.kind == "O":  # cftime's
            numbers = np.array([(time - own[0]).total_seconds() / 86400 for time in numbers])
        numbers = np.asarray(_increasing(numbers), dtype=np.float64)
        if labels is not None and self._is_longitude(axis):
            numbers = numbers - CIRCLE * np.floor((numbers.min() - own.min()) / CIRCLE + BELOW)
        if labels is None and not (np.diff(numbers) > 0).all():
            steps, shown = np.diff(numbers), _increasing(own)
            if np.median(steps) < 0:  # they increase but for a jump
                steps, shown = -steps[::-1], shown[::-1]
            at = int(np.argmin(steps))
            kind = "times that increase" if self.has_time and axis == self.axes[0] else "coordinates in order"
            remedy = "drop_duplicates" if shown[at] == shown[at + 1] else "sortby"
            expected = f"{kind}, each once (array.{remedy}({axis!r}))"
            raise _checks.wrong(axis, expected, f"{shown[at]} before {shown[at + 1]}")
        return numbers if labels is not None else self.evened(axis, numbers)

    def evened(self, axis: str, numbers: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return numbers along an axis, at equal distances if they are so to the rounding of its own coordinates."""
        own = self.own(axis)
        if own.dtype.kind != "f":
            return numbers
        return evened(torch.from_numpy(np.array(numbers)), float(np.finfo(own.dtype).eps)).numpy()

    def positions(self, axis: str) -> Float[np.ndarray, " n"]:
        """Return numbers that increase along an axis of the signal, as far apart as its coordinates; see ``numbers``.

        Along an axis of space of Dask's arrays, which are not turned, decreasing coordinates are negated.
        """
        x = self.numbers(axis)
        is_turned = self.axes.index(axis) in self._flipped(self.array.chunks is None)
        return -x[::-1] if _decreases(self._going_on(axis, self.own(axis))) and not is_turned else x

    def signal(self) -> Any:
        """Return the values (*grid, channels) along increasing coordinates, see ``ordered``.

        A ``ValueError`` is raised if one in memory is infinite.
        """
        values = self.ordered(self.array).astype(self.dtype)
        if isinstance(values, np.ndarray) and bool(np.isinf(values).any()):
            raise _checks.wrong("array", "finite numbers, or NaN where they are missing", "infinity")
        return values

    def ordered(self, array: Any) -> Any:
        """Return the values of an array with the same dimensions in the order of the signal, (*grid, channels).

        Those of Dask stay so; along their axes of space, which chunks divide, the order stays.
        """
        array = array.transpose(*self.axes, *self.channels)
        values = array.values if array.chunks is None else array.data
        values = np.flip(values, self._flipped(self.array.chunks is None))
        return values.reshape(*values.shape[: len(self.axes)], -1)

    def mask(self, valid: Any) -> Any:
        """Return a mask that is labeled, or has the shape of the array's last axes, in the order of the signal.

        A ``ValueError`` is raised if it does not fit.
        """
        try:
            if not hasattr(valid, "dims"):
                valid = type(self.array)(np.asarray(valid), dims=self.array.dims[self.array.ndim - np.ndim(valid) :])
            whole = valid.astype(bool).broadcast_like(self.array)
            if dict(whole.sizes) != dict(self.array.sizes):
                raise ValueError("other lengths")
            return self.ordered(whole).astype(bool)
        except (ValueError, TypeError):
            expected = f"a mask of the lengths {dict(self.array.sizes)}, or of some of these dimensions"
            raise _checks.wrong("valid", expected, getattr(valid, "shape", type(valid).__name__)) from None

    def _flipped(self, in_memory: bool, onto: Mapping[str, np.ndarray] | None = None) -> tuple[int, ...]:
        """Return the axes that are reversed in the order of the signal, by their own or other coordinates."""
        along = {d: self._going_on(d, self.own(d) if onto is None else onto[d]) for d in self.axes}
        turned = (j for j, d in enumerate(self.axes) if _decreases(along[d]))
        return tuple(j for j in turned if in_memory or (j == 0 and self.has_time))

    def _is_longitude(self, axis: str) -> bool:
        """Return whether a name, or the units of its coordinates, are those of longitudes, which are numbers."""
        names = {axis.lower(), str(self.array[axis].attrs.get("units", "")).lower()}
        return bool(names & set(LONGITUDES)) and self.own(axis).dtype.kind in "iuf"

    def _going_on(self, axis: str, x: np.ndarray) -> np.ndarray:
        """Return coordinates as they are, but longitudes such as 350, 355, 0, 5 as 350, 355, 360, 365 in float64.

        So are those whose single step against the others is more than half the circle, if they span no more than it.
        """
        steps = np.diff(x) if self._is_longitude(axis) and x.ndim == 1 and len(x) > 2 else np.zeros(0)
        sense = np.sign(np.median(steps)) if len(steps) else 0.0
        back = np.flatnonzero(sense * steps < -CIRCLE / 2)
        if len(back) != 1 or sense * (x[-1] - x[0]) > 0:
            return x
        return x + CIRCLE * ((np.arange(len(x)) > back[0]) == (sense > 0))

    def labeled(self, values: Any, new: Mapping[str, Any] | None = None) -> Any:
        """Return a signal (*grid, channels) as an array with the dimensions, names and attributes of this one.

        Along axes of ``new`` it has other coordinates; what depends on these dimensions is left out.
        """
        new = new or {}
        onto = {d: np.asarray(new[d], dtype=_kind(self.own(d))) if d in new else self.own(d) for d in self.axes}
        lengths = [len(onto[d]) for d in self.axes] + [self.array.sizes[d] for d in self.channels]
        values = values.reshape(lengths)
        in_memory = isinstance(values, np.ndarray)
        values = np.flip(values, self._flipped(in_memory, onto))
        values = values.transpose([(*self.axes, *self.channels).index(d) for d in self.array.dims])
        values = np.ascontiguousarray(values, dtype=self.dtype) if in_memory else values.astype(self.dtype)
        if not new:
            made = self.array.copy(data=values)
        else:
            kept = {k: c for k, c in self.array.coords.items() if k not in self.axes and not set(c.dims) & set(new)}
            labels = {d: (d, onto[d], self.array[d].attrs) for d in self.axes if d in new or d in self.array.indexes}
            made = type(self.array)(values, {**labels, **kept}, self.array.dims, self.array.name, self.array.attrs)
        made.encoding = {k: v for k, v in self.array.encoding.items() if not new or k not in ("chunksizes", "chunks")}
        return made

    def period(self, axis: str, periods: Mapping[str, float] | None) -> float | None:
        """Return the period of an axis, if it is given by its name, or longitudes go around; None without one.

        A ``ValueError`` is raised if one is given and the coordinates are not equally spaced over it.
        """
        given = None if periods is None else periods.get(axis)
        x = self._going_on(axis, self.own(axis))
        if given is None and (periods is not None or not self._is_longitude(axis)):
            return None
        if x.dtype.kind not in "iuf" or len(x) < 3:
            return None
        period = CIRCLE if given is None else _checks.positive("period", given)
        steps = np.abs(np.diff(np.append(x, x[0] + np.sign(x[1] - x[0]) * period)))
        if float(np.abs(steps - period / len(x)).max()) <= CLOSED * period / len(x):
            return period
        if given is not None:
            raise _checks.wrong("period", f"{axis} equally spaced over {period:g}", f"{len(x)} from {x[0]} to {x[-1]}")
        return None

    def wrapped(
        self, signal: Any, period: Mapping[str, float] | None
    ) -> tuple[Float[np.ndarray, "*longer channels"], list[np.ndarray], tuple[slice, ...]]:
        """Continue a signal along periodic axes; return it, its coordinates as numbers, and where the array is in it.

        ``period`` maps dimensions to the periods of their coordinates; see ``fill``.
        """
        numbers, inside = [self.numbers(d) for d in self.axes], []
        for j, (axis, x) in enumerate(zip(self.axes, numbers, strict=True)):
            around, n = self.period(axis, period), len(x)
            count = 0 if around is None else min(max(n // WRAPPED[0], WRAPPED[1]), WRAPPED[2], n)
            inside.append(slice(count, count + n))
            if around is not None:
                numbers[j] = self.evened(axis, np.concatenate([x[n - count :] - around, x, x[:count] + around]))
                signal = np.take(signal, np.arange(-count, n + count) % n, j)
        return np.ascontiguousarray(signal), numbers, tuple(inside)

    def longest_gap(self, max_gap: Any) -> float:
        """Return the longest gap that is filled along time or the only axis, in the numbers of that: days for times.

        A text of digits, as a command line has it, is a number.
        """
        with contextlib.suppress(ValueError):
            max_gap = float(max_gap) if isinstance(max_gap, str) else max_gap
        first, *others = self.axes
        if others and not self.has_time:
            raise _checks.wrong(
                "max_gap", "None, for an array without a dimension of time or with several others", max_gap
            )
        if self.own(first).dtype.kind not in TIME_KINDS + "O":
            return _checks.positive("max_gap", max_gap)
        from pandas import Timedelta

        try:
            longest: Any = Timedelta(max_gap if not isinstance(max_gap, int | float) else f"{max_gap}D")
        except (ValueError, TypeError):
            raise _checks.wrong("max_gap", "a duration such as '5D' or '12h'", repr(max_gap)) from None
        return _checks.positive("max_gap", longest / Timedelta("1D"))


def is_time(array: Any, name: str) -> bool:
    """Return whether a dimension is time: by its coordinates, their units, or its name."""
    x = array[name]
    if x.dtype.kind in TIME_KINDS or (x.dtype.kind == "O" and _is_measured(array, name)):
        return True
    return name.lower() in TIME_NAMES or " since " in str(x.attrs.get("units", ""))


def _is_measured(array: Any, name: str) -> bool:
    """Return whether a dimension has coordinates that are numbers or times, those of cftime included."""
    if name not in array.indexes:
        return False
    x = array[name]
    return x.dtype.kind in "iuf" + TIME_KINDS or (x.dtype.kind == "O" and hasattr(x.values[0], "calendar"))


def _kind(x: np.ndarray) -> np.dtype | None:
    return x.dtype if x.dtype.kind in TIME_KINDS else None


def _increasing(x: np.ndarray) -> np.ndarray:
    """Return coordinates from the last to the first if they decrease."""
    return x[::-1].copy() if _decreases(x) else x


def _decreases(x: np.ndarray) -> bool:
    return x.ndim == 1 and len(x) > 1 and bool(x[0] > x[-1])
