"""Figures of a restored signal: before and after, with a detail."""

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from coordnet.plots.reconstruction import DETAIL, MIN_DETAIL, frames_of, show_image, show_strip


def restoration_figure(
    before: Float[Tensor, "*grid channels"], after: Float[Tensor, "*grid channels"], titles: tuple[str, str]
) -> Figure:
    """Two panels side by side and their busiest detail below them; rows of samples as lines, clips as frames.

    Both signals are on the same grid; NaN is drawn gray.
    """
    if after.ndim == 2:
        return _rows(before, after, titles)
    draw = _pictures if after.ndim == 3 else _frames
    return draw(displayable(before, after), displayable(after, after), titles)


def displayable(signal: Tensor, scale: Tensor) -> Tensor:
    """At most four channels of a signal, on a scale from 0 to 1 that is taken from another signal."""
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
    detail = busiest_detail(before, after)
    tall = 4.5 * min(max(height / width, 0.2), 3)
    figure = Figure(figsize=(9.4, 2 * tall + 1.2), layout="constrained")
    for column, image, title in zip(figure.subplots(2, 2).T, (before, after), titles, strict=True):
        show_image(column[0], image, title)
        show_image(column[1], image[detail], "detail")
    return figure


def busiest_detail(
    before: Float[Tensor, "height width channels"], after: Float[Tensor, "height width channels"]
) -> tuple[slice, slice]:
    """The part of a picture, a fifth of its sides, with the largest product of its variance and its change."""
    picture = after.mean(-1)[None, None]
    sizes = [max(min(n, MIN_DETAIL), n // DETAIL) for n in picture.shape[2:]]
    steps = [max(1, s // 4) for s in sizes]

    def mean(values: Tensor) -> Tensor:
        return torch.nn.functional.avg_pool2d(values, sizes, steps)

    variance = (mean(picture.square()) - mean(picture).square()).clamp(min=0)
    change = mean((after - before).square().mean(-1)[None, None])
    at = divmod(int((variance * change).argmax()), variance.shape[-1])
    top, left = (k * step for k, step in zip(at, steps, strict=True))
    return slice(top, top + sizes[0]), slice(left, left + sizes[1])


def _frames(before: Tensor, after: Tensor, titles: tuple[str, str]) -> Figure:
    columns = len(frames_of(after))
    figure = Figure(figsize=(2.2 * columns, 5.4), layout="constrained")
    lines = figure.subplots(2, columns, squeeze=False)
    for line, signal, title in zip(lines, (before, after), titles, strict=True):
        show_strip(list(line), signal, title)
    return figure
