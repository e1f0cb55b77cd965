"""Figures of what restoring functions find: the noise of a signal, and fields in time with their gaps filled."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from coordnet.plots.panels import Figure
from coordnet.sampling.noise_model import NoiseModel

BLACK_BELOW = -40.0  # dB: power relative to the mean below which the figure is black
MOST_FRAMES = 4  # frames that stand for all
PANEL_WIDTH, PANEL_HEIGHT = 3.2, 2.6  # inches of a panel

Frames = Float[np.ndarray, "frames height width"]


def noise_figure(model: NoiseModel) -> Figure:
    """Draw the spectrum of noise, in the mean over channels and the middle of other axes, and its deviation.

    The power is relative to the mean over all frequencies; white noise has no panel of it. The standard deviation is
    drawn for values from 0 to 1, without clipping.
    """
    count = 1 + (model.spectrum is not None)
    figure = Figure(4.6 * count, 4.0)
    axes = figure.subplots(1, count, squeeze=False)[0]
    brightness = torch.linspace(0, 1, 101)
    axes[-1].plot(brightness.numpy(), model.variance(brightness).sqrt().numpy())
    axes[-1].set(xlabel="value", ylabel="standard deviation of the noise", title=str(model).replace(", ", ",\n"))
    axes[-1].set_ylim(bottom=0)
    axes[-1].title.set_fontsize(9)
    if model.spectrum is None:
        return figure
    power = model.spectrum.diagonal(dim1=0, dim2=1).mean(-1)
    while power.ndim > 2:
        power = power[0]
    shifted = 10 * torch.log10(torch.fft.fftshift(power).clamp(min=1e-12))
    axes[0].set_title("power, relative to the mean (dB)", fontsize=9)
    if power.ndim == 1:
        axes[0].plot(torch.linspace(-0.5, 0.5, len(power) + 1)[:-1].numpy(), shifted.numpy())
        axes[0].set_xlabel("cycles per sample")
        return figure
    shown = axes[0].imshow(shifted.clamp(min=BLACK_BELOW).numpy(), extent=(-0.5, 0.5, 0.5, -0.5), cmap="magma")
    axes[0].set(xlabel="cycles per column", ylabel="cycles per row")
    figure.colorbar(shown, ax=axes[0], shrink=0.8)
    return figure


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
    figure = Figure(PANEL_WIDTH * len(chosen) + 1, PANEL_HEIGHT * len(rows))
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
