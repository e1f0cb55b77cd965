"""Figures of fields in time: frames with gaps, the same frames filled, and the deviations to expect."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from coordnet.plots.panels import Figure

MOST_FRAMES = 4  # frames that stand for all
WIDTH, HEIGHT = 3.2, 2.6  # inches of a panel

Frames = Float[np.ndarray, "frames height width"]


def filled_figure(
    before: Frames, after: Frames, std: Frames | None, labels: Sequence[str], name: str, *, upward: bool = False
) -> Figure:
    """Draw the frames with most gaps before and after these were filled, and the deviations in a third row.

    Parameters
    ----------
    before, after, std : (frames, height, width)
        The values, NaN where they are missing, and the standard deviations of the errors, if there are any.
    labels : sequence of str
        The title of every frame.
    name : str
        The quantity that the colors show, with its unit.
    upward : bool
        Whether the first row is at the bottom, as where latitudes increase.
    """
    gaps = (np.isnan(before) & ~np.isnan(after)).reshape(len(before), -1).sum(1)
    chosen = np.sort(np.argsort(-gaps, kind="stable")[:MOST_FRAMES])
    rows = [("before", before), ("after", after), *([("deviation", std)] if std is not None else [])]
    figure = Figure(WIDTH * len(chosen) + 1, HEIGHT * len(rows))
    axes = figure.subplots(len(rows), len(chosen), squeeze=False)
    inside = after[chosen]
    span = np.nanpercentile(inside, (1, 99)) if np.isfinite(inside).any() else (0.0, 1.0)
    for row, (title, frames) in enumerate(rows):
        is_std = title == "deviation"
        low, high = (0.0, float(np.nanmax(frames[chosen], initial=0)) or 1.0) if is_std else span
        colors = colormaps["magma" if is_std else "viridis"].with_extremes(bad="0.85")
        scale = ScalarMappable(Normalize(low, high), colors)
        for ax, k in zip(axes[row], chosen, strict=True):
            ax.imshow(frames[k], cmap=colors, norm=scale.norm, origin="lower" if upward else "upper")
            ax.set(xticks=[], yticks=[])
            ax.set_title(f"{labels[k]}, {title}" if row else f"{labels[k]}: {gaps[k]:,} filled", fontsize=9)
        figure.colorbar(scale, ax=list(axes[row]), label=f"{name}{' deviation' * is_std}", shrink=0.9)
    return figure
