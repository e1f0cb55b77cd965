"""Filling the missing values of labeled arrays: fields in time with clouds and land, tables, maps."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from coordnet import _checks
from coordnet.fitting.choice import choose_prior
from coordnet.fitting.fit import fit
from coordnet.priors.base import Prior
from coordnet.priors.registry import REQUIRED, as_prior
from coordnet.restore.labeled import Labeled
from coordnet.restore.restored import fit_large
from coordnet.sampling.grids import Lattice
from coordnet.sampling.rectilinear import RectilinearLattice

WRAPPED = 8, 8, 64  # share of a periodic axis by which it is continued on either side, the fewest and the most nodes

Signal = Float[np.ndarray, "*grid channels"]
Mask = Bool[np.ndarray, "*grid channels"]


class Filled(NamedTuple):
    """A labeled array without the gaps that were asked for, the deviations of errors there, and the fit's report."""

    array: Any
    std: Any | None
    report: dict[str, Any]


def fill(
    array: Any,
    dim: str | Sequence[str] | None = None,
    *,
    max_gap: Any = None,
    valid: Any = None,
    uncertainty: bool = False,
    period: Mapping[str, float] | None = None,
    prior: Prior | Literal["auto"] = "auto",
    seed: int | None = None,
    progress: bool = False,
) -> Filled:
    """Fill the missing values of an ``xarray.DataArray``; the others stay as they are, to the bit.

    Parameters
    ----------
    array : xarray.DataArray
        Real numbers; those that are NaN are missing. Coordinates increase or decrease, at equal or unequal distances.
    dim : str or sequence of str, optional
        The dimensions of the signal, by default those with numbers or times as coordinates. The others hold channels.
        A dimension of time, by its coordinates, their units or its name, may be anywhere.
    max_gap : number or duration, optional
        The longest gap that is filled, along time or the only dimension: the distance of the values before and after
        it, in units of the coordinates, or a duration such as "5D" for times. A gap at an end reaches to that end.
    valid : DataArray or array of bool, optional
        Where values are wanted; others stay missing. By default these are, in a field in time, the points that at least
        one frame knows, so that land stays NaN; elsewhere all.
    uncertainty : bool
        Whether to find the deviations too, by six more fits (see ``Reconstruction.interval``).
    period : mapping, optional
        The period of the coordinates of dimensions, such as {"lon": 360}. By default longitudes that go around are
        periodic; with an empty mapping nothing is.
    prior : Prior or "auto"
        The assumption about the values; see ``cn.fit``.
    seed : int, optional
        The seed of the hidden samples that decide the prior.
    progress : bool
        Whether to show bars.

    Returns
    -------
    Filled
        ``array`` has the name, dimensions, coordinates, attributes, encoding and type of the one that was given;
        integers and float16 become float64. ``std`` is the standard deviation of the errors, 0 where values are known
        and NaN where they are missing still, None if it was not asked for. ``report`` is that of the fit, empty if
        there was nothing to fill.

    Raises
    ------
    ValueError
        If there is no known value, coordinates are not monotonic, or a mask, a dimension or a gap does not fit.
    """
    labeled = Labeled.of(array, dim)
    signal = labeled.signal()
    known = ~np.isnan(signal)
    if not known.any():
        raise _checks.wrong("array", "a value that is not NaN", "NaN alone")
    wanted = ~known & (_wanted(known, labeled) if valid is None else labeled.mask(valid))
    if max_gap is not None:
        wanted &= _short(known, labeled, max_gap)
    if not wanted.any():
        return Filled(
            labeled.labeled(signal), labeled.labeled(np.where(known, 0.0, np.nan)) if uncertainty else None, {}
        )
    values, deviations, report = _estimated(labeled, signal, period, prior, seed, uncertainty, progress)
    made = labeled.labeled(np.where(wanted, values, signal))
    if deviations is None:
        return Filled(made, None, report)
    std = labeled.labeled(np.where(wanted, deviations, np.where(known, 0.0, np.nan)))
    std.attrs = {k: v for k, v in array.attrs.items() if k == "units"}
    return Filled(made, std.rename(f"{array.name or 'filled'}_std"), report)


def wrapped(
    labeled: Labeled, signal: Signal, period: Mapping[str, float] | None
) -> tuple[Float[np.ndarray, "*longer channels"], list[np.ndarray], tuple[slice, ...]]:
    """Continue a signal along periodic axes; return it, the numbers of its coordinates, and where the array is in it.

    ``period`` is that of ``fill``.
    """
    numbers, inside = [labeled.numbers(d) for d in labeled.axes], []
    for j, (axis, x) in enumerate(zip(labeled.axes, numbers, strict=True)):
        around, n = labeled.period(axis, period), len(x)
        count = 0 if around is None else min(max(n // WRAPPED[0], WRAPPED[1]), WRAPPED[2], n)
        inside.append(slice(count, count + n))
        if around is not None:
            numbers[j] = np.concatenate([x[n - count :] - around, x, x[:count] + around])
            signal = np.take(signal, np.arange(-count, n + count) % n, j)
    return np.ascontiguousarray(signal), numbers, tuple(inside)


def _estimated(
    labeled: Labeled, signal: Signal, period: Any, prior: Any, seed: int | None, uncertainty: bool, progress: bool
) -> tuple[Signal, Signal | None, dict[str, Any]]:
    """Return the values of a fit at the nodes of a signal, their deviations if asked for, and the report.

    Fields in time are fitted on the lattice of their frames and nodes, whose times the prior knows; others in their
    coordinates.
    """
    values, numbers, inside = wrapped(labeled, signal, period)
    lattice = Lattice(tuple(map(len, numbers))) if labeled.has_time else RectilinearLattice(*numbers)
    samples = lattice.sample(torch.from_numpy(values))
    chosen = choose_prior(samples, learned=True) if prior == "auto" else as_prior(prior, REQUIRED)
    assert chosen is not None, "a prior that learns"
    chosen = chosen.in_time(tuple(numbers[0].tolist())) if labeled.has_time else chosen
    chosen = chosen if seed is None else chosen.seeded(seed)
    made, report = fit_large(samples, lambda part: fit(part, prior=chosen, progress=progress), progress=progress)
    found = report.as_dict() | {"used": report.used(chosen.name)}
    if isinstance(made, torch.Tensor):
        if uncertainty:
            raise _checks.wrong("uncertainty", "an array that is fitted as a whole", f"{samples.grid}, in tiles")
        return made.numpy()[inside], None, found
    estimate = made.render(alignment="sample").detach().numpy()[inside]
    return estimate, made.std().numpy()[inside] if uncertainty else None, found


def _wanted(known: Mask, labeled: Labeled) -> Mask:
    """Return where values are wanted if nothing else is said: everywhere but at points that no frame knows."""
    return np.broadcast_to(known.any(0, keepdims=True), known.shape) if labeled.has_time else np.ones_like(known)


def _short(known: Mask, labeled: Labeled, max_gap: Any) -> Mask:
    """Return where gaps are at most as long as allowed, along time or the only axis."""
    first, *others = labeled.axes
    if others and not labeled.has_time:
        raise _checks.wrong("max_gap", "None, for an array without a dimension of time or with several others", max_gap)
    x, limit = labeled.numbers(first), _duration(labeled, max_gap)
    count = len(x)
    number = np.arange(count).reshape((-1,) + (1,) * (known.ndim - 1))
    before = np.maximum.accumulate(np.where(known, number, 0), 0)
    after = np.minimum.accumulate(np.where(known, number, count - 1)[::-1], 0)[::-1]
    return x[after] - x[before] <= limit


def _duration(labeled: Labeled, max_gap: Any) -> float:
    """Return a gap in the numbers of the first axis: days for times."""
    if labeled.own(labeled.axes[0]).dtype.kind not in "MO":
        return _checks.positive("max_gap", max_gap)
    from pandas import Timedelta

    try:
        found: Any = Timedelta(max_gap if not isinstance(max_gap, int | float) else f"{max_gap}D")
    except (ValueError, TypeError):
        raise _checks.wrong("max_gap", "a duration such as '5D' or '12h'", repr(max_gap)) from None
    return _checks.positive("max_gap", found / Timedelta("1D"))
