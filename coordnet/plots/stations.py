"""The figure of a fit of points: the points, the field and its deviation, with axes in the user's units."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib import colormaps
from matplotlib.axes import Axes

from coordnet.plots.panels import MAX_PIXELS, Figure, Span

PANEL_WIDTH, LARGEST_RATIO = 4.8, 2.5  # inches of a panel, and the largest ratio of its sides
SLICES = 3  # slices of a field of more than two axes that are drawn
QUANTILES = (0.003, 0.997)  # those of the points' values between which colors change
MARKED = 20000  # points of a panel from which on they are drawn as single pixels
ANGLES = ("lon", "lat", "longitude", "latitude")
NORMAL_90 = 1.645  # standard deviations on each side that 90 % of normal errors are within


@dataclass(frozen=True)
class GriddedPoints:
    """The values of points and of their fit on a grid."""

    places: Float[np.ndarray, "n d"]  # the coordinates of the points, in the order of the axes
    values: Float[np.ndarray, " n"]  # their values; NaN where they are unknown
    axes: Mapping[str, np.ndarray]  # the coordinates of the grid along each axis, by its name
    # The fit, and the standard deviation of its errors if it is known.
    field: Float[np.ndarray, "*grid"]
    deviation: Float[np.ndarray, "*grid"] | None
    beyond: Bool[np.ndarray, "*grid"]  # where the fit extrapolates
    units: Mapping[str, str]  # the units of axes, and that of the values, by their names
    # The name of the values, and what is said of their errors.
    name: str
    score: str = ""

    @property
    def label(self) -> str:
        """The name of the values, with their unit."""
        return _label(self.name, self.units)

    @property
    def known(self) -> Float[np.ndarray, " m"]:
        """The values that are known; those of the field in a slice without points, and 0 where it has none either."""
        finite = (values[np.isfinite(values)] for values in (self.values, self.field))
        return next((values for values in finite if len(values)), np.zeros(1))

    @property
    def span(self) -> Span:
        """The values between which colors change."""
        low, high = np.quantile(self.known, QUANTILES)
        return float(low), float(high) if high > low else float(low) + 1


def stations_figure(shown: Sequence[GriddedPoints]) -> Figure:
    """Draw the points, the field and its deviation, a line of panels for each of several values.

    A field along one axis is a line with its points and a band of 90 %; a field along more than two axes is drawn in
    slices, each with the points nearest to it. Hatched is where the field is extrapolated.
    """
    dims = len(shown[0].axes)
    if dims == 1:
        figure = Figure(10, 3.6 * len(shown))
        for ax, part in zip(figure.subplots(len(shown), 1, squeeze=False)[:, 0], shown, strict=True):
            _draw_row(ax, part)
        return figure
    lines = [_slices(part) if dims > 2 else [part] for part in shown]
    width, height = _size(shown[0])
    has_deviation = shown[0].deviation is not None
    columns = 2 + has_deviation
    count = sum(map(len, lines))
    figure = Figure(columns * width, count * height)
    grid = figure.subplots(count, columns, squeeze=False, sharex=True, sharey=True)
    for axes, part in zip(grid, [part for line in lines for part in line], strict=True):
        _draw_line(axes, part)
    return figure


def _draw_line(axes: Sequence[Axes], part: GriddedPoints) -> None:
    """Draw one picture of a field, with its points before it and its deviation after it."""
    low, high = part.span
    y, x = (part.places[:, j] for j in (-2, -1))
    order = np.argsort(np.abs(part.values - np.median(part.known)))  # unusual values are drawn on top
    size = float(np.clip(8000 / max(len(x), 1), 1, 30))
    options: Any = {"c": part.values[order], "s": size, "vmin": low, "vmax": high, "cmap": "viridis", "linewidths": 0}
    axes[0].scatter(x[order], y[order], rasterized=True, **options)
    axes[0].set_title(f"{len(x):,} points")
    drawn = _draw_map(axes[1], part, part.field, "viridis", (low, high))
    axes[1].set_title(f"{part.name}{': ' * bool(part.score)}{part.score}")
    axes[0].figure.colorbar(drawn, ax=list(axes[:2]), fraction=0.046, pad=0.02, label=part.label)
    if part.deviation is not None:
        top = float(np.nanquantile(part.deviation, 0.99)) if np.isfinite(part.deviation).any() else 1.0
        drawn = _draw_map(axes[2], part, part.deviation, "magma", (0.0, top or 1.0))
        axes[2].plot(x, y, "," if len(x) > MARKED else ".", color="white", ms=1.5, alpha=0.5, rasterized=True)
        axes[2].set_title("standard deviation of the errors")
        axes[2].figure.colorbar(drawn, ax=axes[2], fraction=0.046, pad=0.02)
    limits: Any = {"xlim": _ends(list(part.axes.values())[-1]), "ylim": _ends(list(part.axes.values())[-2])}
    for ax in axes:
        ax.set(aspect=_aspect(part), **limits)
        ax.set_xlabel(_label(list(part.axes)[-1], part.units))
    axes[0].set_ylabel(_label(list(part.axes)[-2], part.units))


def _draw_map(ax: Axes, part: GriddedPoints, values: Float[np.ndarray, "h w"], colors: str, span: Span) -> Any:
    """Draw values on the grid, with hatches where they are extrapolated."""
    y, x = list(part.axes.values())[-2:]
    step = tuple(slice(None, None, max(1, n // MAX_PIXELS)) for n in values.shape)
    left, right, bottom, top = *_ends(x), *_ends(y)
    options: Any = {"vmin": span[0], "vmax": span[1], "cmap": colormaps[colors].with_extremes(bad="0.85")}
    options |= {"origin": "lower", "extent": (left, right, bottom, top), "interpolation": "nearest"}
    drawn = ax.imshow(values[step], **options)
    beyond = part.beyond[step]
    if beyond.any() and min(beyond.shape) > 1:
        ax.contourf(x[step[1]], y[step[0]], beyond, [0.5, 1.5], colors="none", hatches=["///"])
    return drawn


def _draw_row(ax: Axes, part: GriddedPoints) -> None:
    ((name, x),) = part.axes.items()
    if part.deviation is not None:
        band = NORMAL_90 * part.deviation
        ax.fill_between(x, part.field - band, part.field + band, color="C0", alpha=0.25, lw=0, label="90 %")
    ax.plot(x, part.field, color="C0", lw=1, label=part.name)
    ax.plot(part.places[:, 0], part.values, ".", color="C3", ms=3, label=f"{len(part.values):,} points")
    if part.beyond.any():
        options: Any = {"color": "0.9", "lw": 0, "zorder": 0, "label": "extrapolated"}
        ax.fill_between(x, 0, 1, part.beyond, transform=ax.get_xaxis_transform(), **options)
    ax.set(xlabel=_label(name, part.units), ylabel=part.label, title=part.score)
    ax.legend(loc="upper right" if len(part.values) > MARKED else "best", fontsize=8)


def _slices(part: GriddedPoints) -> list[GriddedPoints]:
    """Return a few slices of the last two axes, each with the points that are nearer to it than to the others."""
    names, axes = list(part.axes), list(part.axes.values())
    middle = tuple(len(x) // 2 for x in axes[1:-2])
    count = min(SLICES, len(axes[0]))
    at = np.unique(np.linspace(0, len(axes[0]) - 1, 2 * count + 1).round().astype(int)[1::2])
    nearest = np.abs(part.places[:, :1] - axes[0][at]).argmin(1)
    lines = []
    for k, i in enumerate(at):
        where = (int(i), *middle)
        near = nearest == k
        unit = part.units.get(names[0], "")
        score = f"{names[0]} = {axes[0][i]:.6g} {unit}".strip()
        deviation = None if part.deviation is None else part.deviation[where]
        named = dict(zip(names[-2:], axes[-2:], strict=True))
        taken = (part.places[near], part.values[near], named, part.field[where], deviation, part.beyond[where])
        lines.append(GriddedPoints(*taken, part.units, part.name, score))
    return lines


def _size(part: GriddedPoints) -> tuple[float, float]:
    """Return the width and the height of a panel in inches."""
    y, x = (np.ptp(_ends(axis)) for axis in list(part.axes.values())[-2:])
    aspect = _aspect(part)
    ratio = y / x * aspect if isinstance(aspect, float) else 0.8
    ratio = float(np.clip(ratio, 1 / LARGEST_RATIO, LARGEST_RATIO))
    return PANEL_WIDTH, PANEL_WIDTH * ratio * 0.85 + 0.9


def _aspect(part: GriddedPoints) -> float | str:
    """Return the ratio of a unit of y to one of x: that of lengths on the ground for degrees, 1 for equal units."""
    y, x = list(part.axes)[-2:]
    if all(name.lower() in ANGLES or part.units.get(name, "").startswith("degree") for name in (x, y)):
        middle = min(abs(float(np.mean(part.axes[y]))), 75.0)
        return 1 / math.cos(math.radians(middle))
    if part.units.get(x) != part.units.get(y):
        return "auto"
    height, width = (np.ptp(_ends(part.axes[name])) for name in (y, x))
    return 1.0 if 1 / LARGEST_RATIO <= height / width <= LARGEST_RATIO else "auto"


def _ends(x: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """Return the borders of the outermost cells along an axis."""
    half = (x[-1] - x[0]) / (len(x) - 1) / 2 if len(x) > 1 else 0.5
    return float(x[0] - half), float(x[-1] + half)


def _label(name: str, units: Mapping[str, str]) -> str:
    return f"{name} ({units[name]})" if units.get(name) else name
