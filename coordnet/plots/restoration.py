"""Figures of a restored signal: before and after, with a detail."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.plots.figure import Figure
from coordnet.plots.panels import UNIT, displayable, most, show_image, span_of, strips


def restoration_figure(
    before: Float[Tensor, "*grid channels"],
    after: Float[Tensor, "*grid channels"],
    titles: tuple[str, str],
    *,
    rate: float | None = None,
) -> Figure:
    """Draw two pictures side by side, and below them a detail from the place where the change and texture are largest.

    Rows of samples are drawn as lines, clips as strips of frames. Both signals are on the same grid and drawn on the
    scale of the first; NaN is gray. A row's axis is in seconds if the ``rate`` of its samples is given.
    """
    if after.ndim == 2:
        figure = Figure(figsize=(11, 5), layout="constrained")
        axes = figure.subplots(2, 1, sharex=True)
        for ax, signal, title in zip(axes, (before, after), titles, strict=True):
            ax.plot(np.arange(len(signal)) / (rate or 1), signal.numpy(), lw=0.8)
            ax.set_title(title)
        axes[-1].set_xlabel("sample" if rate is None else "seconds")
        return figure
    span = span_of(before)
    if after.ndim > 3:
        return strips(list(zip((before, after), titles, strict=True)), span=span)[0]
    detail = most(_busy(displayable(before, span), displayable(after, span)))
    tall = 4.5 * min(max(after.shape[0] / after.shape[1], 0.2), 3)
    figure = Figure(figsize=(9.4, 2 * tall + 1.2), layout="constrained")
    axes = figure.subplots(2, 2)
    for column, image, title in zip(axes.T, (before, after), titles, strict=True):
        show_image(column[0], image, title, span=span)
        show_image(column[1], image[detail], "detail", span=span)
    if span != UNIT and after.shape[-1] == 1:
        figure.colorbar(axes[0, 0].images[0], ax=list(axes.flat), fraction=0.046, pad=0.02)
    return figure


def _busy(before: Tensor, after: Tensor) -> Float[Tensor, "height width"]:
    """Return the change of every pixel times the texture around it."""
    steps = [torch.diff(after, dim=axis, prepend=after.narrow(axis, 0, 1)) for axis in (0, 1)]
    return torch.stack(steps).square().sum((0, -1)) * (after - before).square().sum(-1)
