"""Figures of a restored signal: before and after, with a detail."""

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from coordnet.plots.reconstruction import most, show_image, strips


def restoration_figure(
    before: Float[Tensor, "*grid channels"], after: Float[Tensor, "*grid channels"], titles: tuple[str, str]
) -> Figure:
    """Draw two pictures side by side, and below them a detail from the place where the change and texture are largest.

    Rows of samples are drawn as lines, clips as strips of frames. Both signals are on the same grid; NaN is gray.
    """
    if after.ndim == 2:
        figure = Figure(figsize=(11, 5), layout="constrained")
        for ax, signal, title in zip(figure.subplots(2, 1, sharex=True), (before, after), titles, strict=True):
            ax.plot(signal.numpy(), lw=0.8)
            ax.set_title(title)
        return figure
    pictures = [displayable(before, after), displayable(after, after)]
    if after.ndim > 3:
        return strips(list(zip(pictures, titles, strict=True)))[0]
    detail = most(_busy(*pictures))
    tall = 4.5 * min(max(after.shape[0] / after.shape[1], 0.2), 3)
    figure = Figure(figsize=(9.4, 2 * tall + 1.2), layout="constrained")
    for column, image, title in zip(figure.subplots(2, 2).T, pictures, titles, strict=True):
        show_image(column[0], image, title)
        show_image(column[1], image[detail], "detail")
    return figure


def displayable(signal: Tensor, scale: Tensor) -> Tensor:
    """Return at most four channels of a signal; if ``scale`` is far outside [0, 1], its range is mapped to [0, 1]."""
    signal = signal if signal.shape[-1] <= 4 else signal[..., :3]
    low, high = float(scale.nan_to_num().min()), float(scale.nan_to_num().max())
    if low < -0.5 or high > 1.5:
        signal = (signal - low) / (high - low)
    return torch.where(signal.isnan(), 0.5, signal)


def _busy(before: Tensor, after: Tensor) -> Float[Tensor, "height width"]:
    """Return the change of every pixel times the texture around it."""
    steps = [torch.diff(after, dim=axis, prepend=after.narrow(axis, 0, 1)) for axis in (0, 1)]
    return torch.stack(steps).square().sum((0, -1)) * (after - before).square().sum(-1)
