"""Figures of a restored signal: before and after, with a detail."""

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from coordnet.plots.reconstruction import STRIP, show_image

DETAIL = 5  # the detail is this much smaller than the picture


def restoration_figure(
    before: Float[Tensor, "*grid channels"],
    after: Float[Tensor, "*grid channels"],
    titles: tuple[str, str],
) -> Figure:
    """Two panels side by side and their busiest detail below them; rows of samples as lines, clips as frames.

    Parameters
    ----------
    before, after : (*grid, channels)
        Of the same grid; NaN is drawn grey.
    titles : two str
        Of the two.
    """
    match after.ndim - 1:
        case 1:
            return _rows(before, after, titles)
        case 2:
            return _pictures(displayable(before, after), displayable(after, after), titles)
        case _:
            return _frames(displayable(before, after), displayable(after, after), titles)


def displayable(signal: Tensor, scale: Tensor) -> Tensor:
    """At most four channels, on a scale of 0 to 1."""
    signal = signal if signal.shape[-1] <= 4 else signal[..., :3]
    low, high = float(scale.nan_to_num().min()), float(scale.nan_to_num().max())
    if low < -0.5 or high > 1.5:
        signal = (signal - low) / (high - low)
    return torch.where(signal.isnan(), 0.5, signal)


def _rows(before: Tensor, after: Tensor, titles: tuple[str, str]) -> Figure:
    figure = Figure(figsize=(11, 5), layout="constrained")
    for ax, signal, title in zip(figure.subplots(2, 1, sharex=True), (before, after), titles, strict=True):
        ax.plot(signal.numpy(), lw=0.8)
        ax.set_title(title)
    return figure


def _pictures(before: Tensor, after: Tensor, titles: tuple[str, str]) -> Figure:
    height, width = after.shape[:2]
    detail = telling(before, after)
    tall = 4.5 * min(max(height / width, 0.2), 3)
    figure = Figure(figsize=(9.4, 2 * tall + 1.2), layout="constrained")
    axes = figure.subplots(2, 2)
    for column, image, title in zip((0, 1), (before, after), titles, strict=True):
        show_image(axes[0, column], image, title)
        show_image(axes[1, column], image[detail], "detail")
    return figure


def telling(
    before: Float[Tensor, "height width channels"], after: Float[Tensor, "height width channels"]
) -> tuple[slice, slice]:
    """The part of a picture, a fifth of its sides, that varies and differs most."""
    picture = after.mean(-1)[None, None]
    sizes = [max(min(n, 16), n // DETAIL) for n in picture.shape[2:]]
    steps = [max(1, s // 4) for s in sizes]

    def mean(values: Tensor) -> Tensor:
        return torch.nn.functional.avg_pool2d(values, sizes, steps)

    spread = (mean(picture.square()) - mean(picture).square()).clamp(min=0)
    differing = mean((after - before).square().mean(-1)[None, None])
    at = divmod(int((spread * differing).argmax()), spread.shape[-1])
    top, left = (k * step for k, step in zip(at, steps, strict=True))
    return slice(top, top + sizes[0]), slice(left, left + sizes[1])


def _frames(before: Tensor, after: Tensor, titles: tuple[str, str]) -> Figure:
    chosen = np.unique(np.linspace(0, len(after) - 1, STRIP).round().astype(int))
    middle = tuple(n // 2 for n in after.shape[1:-3])  # a slice through axes that a strip cannot show
    figure = Figure(figsize=(2.2 * len(chosen), 5.4), layout="constrained")
    for line, signal, title in zip(
        figure.subplots(2, len(chosen), squeeze=False), (before, after), titles, strict=True
    ):
        for i, (ax, frame) in enumerate(zip(line, chosen, strict=True)):
            label = f"{title}\nframe {frame}" if i == 0 else f"frame {frame}"
            show_image(ax, signal[(int(frame), *middle)], label)
    return figure
