"""Points in the user's own units: stations, soundings and surveys, with the lattice of nodes that suits them."""

__docformat__ = "numpy"

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from coordnet import _checks
from coordnet.sampling.arrays import as_numbers, as_tensor, doubt_nines
from coordnet.sampling.drift import Drift, drift_names
from coordnet.sampling.gap_blocks import cells_like_gaps, within_hull
from coordnet.sampling.node_spacing import nodes_on_sphere, nodes_reaching, scales_of
from coordnet.sampling.point_lattice import PointLattice
from coordnet.sampling.samples import Samples
from coordnet.sampling.scattered import ScatteredPoints
from coordnet.sampling.sphere import doubt_seams

NAMES = ("x", "y", "z", "t")


@dataclass(frozen=True)
class Points(ScatteredPoints):
    """Scattered points in the user's units, tied to nodes that follow from them; made by ``points``.

    Parameters
    ----------
    lattice : PointLattice
        The nodes.
    places : (n, d)
        The coordinates of the points in the user's units; ``points`` has them in units of the unit interval.
    left_out, merged : int
        The number of given points that were left out because a coordinate or all values are NaN, or for being far from
        all others, and of those that were averaged with another one at the same place.
    drift : Drift, optional
        Columns on which the values depend linearly.
    """

    lattice: PointLattice | None = None
    places: Float[Tensor, "n d"] | None = None
    left_out: int = 0
    merged: int = 0
    drift: Drift | None = None
    is_laid = True

    def __repr__(self) -> str:
        """Return the nodes and the number of points."""
        notes = [f"left_out={self.left_out}"] * (self.left_out > 0) + [f"merged={self.merged}"] * (self.merged > 0)
        return ", ".join([f"Points({len(self.points)} on {self.grid} nodes", *notes]) + ")"

    @property
    def latitude(self) -> int | None:  # type: ignore[override]
        """The axis of latitudes on a sphere."""
        return self.lattice and self.lattice.latitude

    @property
    def within_hull(self) -> Bool[np.ndarray, " nodes"] | None:  # type: ignore[override]
        """Whether each node is within the convex hull of the points; None if an axis wraps around."""
        if any(self.periodic):
            return None
        return within_hull(self.positions().numpy() * np.array(self.grid), self.grid)

    @property
    def cells_like_gaps(self) -> Int[np.ndarray, "n d"] | None:  # type: ignore[override]
        """The block of each point along each axis, as wide as the gaps; None if there are none, or an axis wraps."""
        if any(self.periodic):
            return None
        return cells_like_gaps(self.positions().numpy() * np.array(self.grid), self.grid)

    def _selected(self, inside: Bool[Tensor, " n"], window: tuple[slice, ...]) -> dict[str, Any]:
        lattice, places = cast(PointLattice, self.lattice).part(window), cast(Tensor, self.places)[inside]
        return super()._selected(inside, window) | {"lattice": lattice, "places": places}

    def at_samples(self, fit: Any) -> Float[Tensor, "n channels"]:
        return fit(self.places) if self.drift is None else fit(self.places, drift=self.drift.columns)

    def check_trainable(self, *, integrates: bool) -> None:
        """Refuse points with a drift, which networks do not fit."""
        if self.drift is not None:
            raise _checks.wrong("solver", "closed-form, for points with a drift", "gradient")


def points(
    coordinates: Any,
    values: Any,
    sigma: Any = None,
    *,
    names: Sequence[str] | None = None,
    units: Mapping[str, str] | Sequence[str] | None = None,
    period: Mapping[Any, int | float] | None = None,
    scales: Sequence[float] | None = None,
    sphere: Sequence[str | int] | None = None,
    drift: Any = None,
) -> Samples:
    """Return values at points anywhere as samples, with nodes for a fit: ``cn.fit(cn.points(coordinates, values))``.

    The nodes are half the points' mean distance apart and extend beyond them, whatever the result is evaluated at.
    Points are left out where a coordinate, a drift or σ is NaN, or all values are; a channel that is NaN is unknown.
    One of few that are far from all others is left out too, with a warning, if nodes that reach it were too coarse.
    Points at the same place are averaged by their σ. Columns of values may have other units and other smoothness: they
    share the nodes, and each is fitted as if it were alone.

    Parameters
    ----------
    coordinates : (n, d) or (n,)
        An array, a tensor, or columns of a ``pandas.DataFrame``, whose names the axes take; in any range.
    values : (n,) or (n, channels)
        An array, a tensor, or columns.
    sigma : number or (n,), optional
        The standard deviation of the noise, of all values or of each point's; a point is left out where it is NaN.
    names : sequence of str, optional
        The names of the axes; those of a frame's columns, or x, y, z and t, if they are not given.
    units : mapping or sequence of str, optional
        The unit of each axis, by its name or in order.
    period : mapping, optional
        The period of an axis by its name or number: {"lon": 360}.
    scales : sequence of float, optional
        The length along each axis, in its units, over which the signal changes as much as along the others. Powers of
        two are chosen by their likelihood, for all columns of values together, if they are not given.
    sphere : (longitude, latitude), optional
        The two axes, by their names or numbers, that are longitudes and latitudes in degrees on the whole sphere:
        ("lon", "lat"). Distances are those on the sphere, and nothing is seen at the poles and the date line. A sphere
        has no other period and no scales.
    drift : (n, k), mapping or columns, optional
        Columns on which the values depend linearly, such as an elevation, beside the smooth field. Plates find their
        coefficients by generalized least squares. They are needed wherever the fit is evaluated:
        ``fit(places, drift=…)``, ``fit.grid(…, drift=…)``.

    Raises
    ------
    ValueError
        If there is no point left, the shapes differ, a number is not finite or not positive where it must be, or the
        labels of pandas's rows differ.
    """
    x, y, deviation = _columns(coordinates, values, sigma)
    names = _names(names if names is not None else getattr(coordinates, "columns", None), x.shape[1])
    latitude = None if sphere is None else _latitude(sphere, names, x, period, scales)
    periods = _by_axis("period", {1 - latitude: 360.0} if latitude is not None else period or {}, names)
    periods = {name: float(_checks.positive(f"period[{name!r}]", length)) for name, length in periods.items()}
    columns = np.empty((len(x), 0)) if drift is None else _drift(drift, len(x))
    _check_rows(coordinates, values=values, sigma=sigma, drift=drift)
    kept = np.isfinite(np.hstack([x, columns, deviation])).all(1) & np.isfinite(y).any(1)
    left_out = len(x) - int(kept.sum())
    if not (known := np.isfinite(y[kept]).any(0)).all():
        found = f"none in column {int(known.argmin())}" if known.any() else "none"
        raise _checks.wrong("values", "at least one point with finite coordinates and a value", found)
    doubt_seams({name: x[kept, i] for i, name in enumerate(names) if name not in periods})
    x, both, weight = _merged(x[kept], np.hstack([y, columns])[kept], deviation[kept] ** -2.0, periods, names)
    y, columns, weight = both[:, : y.shape[1]], both[:, y.shape[1] :], weight[:, : y.shape[1]]
    merged = int(kept.sum()) - len(x)
    told = _by_axis("units", units if isinstance(units, Mapping) else dict(enumerate(units or ())), names)
    if latitude is not None:
        lattice = nodes_on_sphere(x, names, latitude, told)
    else:
        near, lattice = nodes_reaching(x, names, periods, told, _scales(scales, x, y))
        x, y, columns, weight = x[near], y[near], columns[near], weight[near]
        left_out += int((~near).sum())
    places, like = torch.from_numpy(x), _like(values)
    geometry = Points(
        lattice.grid,
        lattice.to_unit(places),
        _weights(weight, like),
        outside="clamp",
        periodic=tuple(length is not None for length in lattice.periods),
        lattice=lattice,
        places=places,
        left_out=left_out,
        merged=merged,
        drift=None if drift is None else Drift(drift_names(drift, columns.shape[1]), columns),
    )
    return Samples(geometry, torch.from_numpy(np.nan_to_num(y)).to(like))


def _scales(
    given: Sequence[float] | None, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n channels"]
) -> Float[np.ndarray, " d"]:
    """Return the scale of each axis, which follows from the points if none are given."""
    if given is None:
        return scales_of(x, y)
    if len(given) != x.shape[1]:
        raise _checks.wrong("scales", f"{x.shape[1]} numbers, one for each axis", len(given))
    return np.array([_checks.positive("scales", s) for s in given])


def _weights(weight: Float[np.ndarray, "n channels"], like: Tensor) -> Float[Tensor, "n _"] | None:
    """Return weights of the mean 1 where they are not 0, one for all channels if these agree; None if all are 1."""
    weight = np.nan_to_num(weight / np.nanmean(np.where(weight > 0, weight, np.nan)))
    if (weight == 1).all():
        return None
    shared = bool((weight == weight[:, :1]).all())
    return torch.from_numpy(weight[:, :1] if shared else weight).to(like)


def _names(given: Any, dims: int) -> tuple[str, ...]:
    """Return the names of the axes, x, y, z and t if none are given."""
    if given is None and dims > len(NAMES):
        raise _checks.wrong("coordinates", f"at most {len(NAMES)} columns, or `names`", dims)
    names = NAMES[:dims] if given is None else tuple(str(name) for name in given)
    if len(names) != dims or len(set(names)) < dims:
        raise _checks.wrong("names", f"{dims} different ones, one for each axis", ", ".join(names))
    return names


def _columns(coordinates: Any, values: Any, sigma: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return coordinates (n, d), values (n, channels), and σ (n, 1), all in float64."""
    x, y = _numbers("coordinates", coordinates), _numbers("values", values)
    if len(x) != len(y) or not y.size:
        raise _checks.wrong("values", f"a value for each of {len(x)} points", f"shape {y.shape}")
    deviation = np.ones((len(x), 1)) if sigma is None else _numbers("sigma", sigma)
    if len(deviation) not in (1, len(x)) or deviation.shape[1] != 1:
        raise _checks.wrong("sigma", f"one number, or one for each of {len(x)} points", f"shape {deviation.shape}")
    refused = deviation[~(np.isfinite(deviation) & (deviation > 0) | np.isnan(deviation))]
    if len(refused) or np.isnan(deviation).all():
        raise _checks.wrong("sigma", "positive finite numbers, or NaN at some points", f"{[*refused, np.nan][0]:g}")
    if np.isinf(x).any() or np.isinf(y).any():
        raise _checks.wrong("values" if np.isinf(y).any() else "coordinates", "finite numbers or NaN", "infinity")
    doubt_nines(y)
    return x, y, np.broadcast_to(deviation, (len(x), 1))


def _check_rows(coordinates: Any, **given: Any) -> None:
    """Refuse series or frames of pandas whose rows have other labels than those of the coordinates, in their order.

    A ``ValueError`` is raised: pandas would put rows of one label together, which arrays cannot.
    """
    if not hasattr(coordinates, "iloc"):
        return
    for name, columns in given.items():
        for column in columns.values() if isinstance(columns, Mapping) else [columns]:
            if hasattr(column, "iloc") and len(column) > 1 and not coordinates.index.equals(column.index):
                expected = "the labels of the rows of `coordinates` (`.loc[coordinates.index]`, or `.to_numpy()`)"
                raise _checks.wrong(name, expected, "others")


def _plain(name: str, given: Any) -> Any:
    """Return a tensor, or an array with a mask, as a tensor that NumPy takes, and all else as it is."""
    return as_tensor(given, name).detach().cpu() if isinstance(given, Tensor | np.ma.MaskedArray) else given


def _numbers(name: str, given: Any) -> np.ndarray:
    """Return numbers as columns of float64; a ``ValueError`` is raised for what is none, or hidden by a mask."""
    array = as_numbers(name, _plain(name, given))
    array = array.reshape(1, 1) if array.ndim == 0 else array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or not array.size:
        raise _checks.wrong(name, "one row for each point", f"shape {np.shape(given)}")
    return array


def _drift(given: Any, count: int) -> np.ndarray:
    """Return the columns of a drift, (n, k), in float64, one row for each point."""
    if isinstance(given, Mapping):
        given = np.stack([np.asarray(_plain("drift", column)) for column in given.values()], -1)
    columns = _numbers("drift", given)
    if len(columns) != count or np.isinf(columns).any():
        expected = f"finite numbers or NaN for each of {count} points"
        raise _checks.wrong("drift", expected, "infinity" if len(columns) == count else f"shape {columns.shape}")
    return columns


def _like(values: Any) -> Tensor:
    """Return an empty tensor with the dtype and the device of the samples: float64 unless the values are float32."""
    if isinstance(values, Tensor):
        return torch.empty(0, dtype=torch.float32 if values.dtype == torch.float32 else torch.float64).to(values.device)
    return torch.empty(0, dtype=torch.float32 if getattr(values, "dtype", None) == np.float32 else torch.float64)


def _by_axis(argument: str, given: Mapping[Any, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return a mapping by the names of axes, for one by their names or numbers."""
    if not isinstance(given, Mapping):
        raise _checks.wrong(argument, "a mapping by the names of axes", repr(given))
    by_name = {}
    for key, value in given.items():
        name = names[key] if isinstance(key, int) and 0 <= key < len(names) else key
        by_name[_checks.choice(argument, name, names)] = value
    return by_name


def _merged(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray, periods: dict[str, float], names: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return every place once, with the mean of its values by their weights, and the sum of the weights (n, c)."""
    wrapped = x.copy()
    for name, length in periods.items():
        j = names.index(name)
        wrapped[:, j] = wrapped[:, j].min() + np.mod(wrapped[:, j] - wrapped[:, j].min(), length)
    weight = np.where(np.isnan(y), 0.0, weight)
    unique, inverse = np.unique(wrapped, axis=0, return_inverse=True)
    if len(unique) == len(x):
        return x, y, weight
    total, mean = np.zeros((2, len(unique), y.shape[1]))
    np.add.at(total, inverse, weight)
    np.add.at(mean, inverse, weight * np.nan_to_num(y))
    return unique, mean / np.where(total > 0, total, np.nan), total


def _latitude(sphere: Sequence[str | int], names: tuple[str, ...], x: np.ndarray, period: Any, scales: Any) -> int:
    """Return the number of the axis of latitudes; see ``points`` for errors."""
    expected = f"longitude and latitude of two axes, {', '.join(names)}"
    if not isinstance(sphere, Sequence):
        raise _checks.wrong("sphere", expected, repr(sphere))
    axes = [*_by_axis("sphere", dict.fromkeys(sphere), names)]
    if len(axes) != 2 or len(names) != 2:
        raise _checks.wrong("sphere", expected, repr(sphere))
    if period or scales is not None:
        raise _checks.wrong("sphere", "no period and no scales beside it", "one of them")
    latitude = names.index(axes[1])
    if not bool((np.abs(x[np.isfinite(x).all(1), latitude]) <= 90).all()):
        raise _checks.wrong("coordinates", f"latitudes from -90 to 90 in {names[latitude]}", "others")
    return latitude
