"""Figures of one fit: a reconstruction, a restoration, and how large the errors are expected to be; none fits."""

from collections.abc import Sequence
from textwrap import fill

import numpy as np
import torch
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from torch import Tensor

from coordnet.plots import panels
from coordnet.plots.panels import UNIT, Figure, Span
from coordnet.sampling.axes import Bounds
from coordnet.sampling.noise_model import NoiseModel
from coordnet.sampling.samples import Samples

BLACK_BELOW = -40.0  # dB: power relative to the mean below which the figure is black
MOST_FRAMES = 4  # frames that stand for all
PANEL_WIDTH, PANEL_HEIGHT = 3.2, 2.6  # inches of a panel
TITLE_WIDTH = 44  # letters of a line above a picture of a restoration

Frames = Float[np.ndarray, "frames height width"]


def reconstruction_figure(
    truth: Float[Tensor, "*grid channels"] | None,
    samples: Samples,
    estimate: Float[Tensor, "*grid channels"],
    *,
    title: str,
    score: str,
    rate: float | None = None,
    bounds: Bounds | None = None,
) -> Figure:
    """The signal, its samples, the reconstruction and its errors, as fits the number of axes, on the signal's scale.

    Without the truth the panels that need it are left out. ``title`` and ``score`` are the titles of the signal's panel
    and of the reconstruction's. A row's axis has seconds if the ``rate`` of its samples is given. Rows and pictures
    have the axes of their ``bounds``.
    """
    span = panels.span_of(samples.values.detach().cpu().float() if truth is None else truth)
    unknown = 0.5 if span == UNIT else torch.nan
    shown_panels = [
        (panels.sampled_picture(samples, estimate.shape[-1], unknown), samples.geometry.caption(samples.channels))
    ]
    shown_panels += [(estimate, f"reconstruction\n{score}")]
    if len(samples.grid) == 1:
        shown = panels.sampled_picture(samples, estimate.shape[-1], torch.nan) if truth is None else truth
        return _row_figure(shown, samples, estimate, f"{title}: {score}", rate, bounds)
    if truth is not None:
        shown_panels.insert(0, (truth, title))
    shown = estimate.clamp(0, 1) if span == UNIT else estimate
    if len(samples.grid) == 2:
        error = None if truth is None else (shown - truth).abs().mean(-1)
        return _image_figure(shown_panels, error, span, bounds)
    figure, grid = panels.strips(shown_panels, int(truth is not None), span=span)
    if truth is not None:
        error = ((shown - truth) / (span[1] - span[0])).square().flatten(1).nanmean(1).clamp(min=1e-12)
        ax = figure.add_subplot(grid[-1, :])
        ax.plot(-10 * error.log10().detach().cpu(), lw=1.2)
        ax.set(xlabel="frame", ylabel="PSNR of the frame (dB)")
    return figure


def _image_figure(images: list[tuple[Tensor, str]], error: Tensor | None, span: Span, bounds: Bounds | None) -> Figure:
    count = len(images) + (error is not None)
    height, width, channels = images[0][0].shape
    size = (4.2 * count, min(4.2 * max(height / width, 0.25), 12) + 0.7)
    figure = Figure(*size)
    axes = figure.subplots(1, count, squeeze=False)[0]
    for ax, (image, text) in zip(axes, images, strict=False):
        panels.show_image(ax, image, text, span=span)
        if bounds is not None:
            _label_axes(ax, bounds, (height, width))
    if channels == 1 and (span != UNIT or bounds is not None):
        drawn = axes[0].images[0] if span != UNIT else ScalarMappable(Normalize(0, 1), "gray")
        figure.colorbar(drawn, ax=list(axes[: len(images)]), fraction=0.046, pad=0.02)
    if error is not None:
        panels.show_error(axes[-1], error, "absolute error")
    return figure


def _label_axes(ax: Axes, bounds: Bounds, shape: tuple[int, int]) -> None:
    """Give a picture the axes x, to the right, and y, downwards, whose bounds are the centers of its border pixels."""
    (left, right), (top, bottom) = bounds.tolist()
    dy, dx = ((b - a) / max(n - 1, 1) / 2 for (a, b), n in zip(((top, bottom), (left, right)), shape, strict=True))
    ax.images[0].set_extent((left - dx, right + dx, bottom + dy, top - dy))
    ax.set(xlabel="x", ylabel="y", aspect=dx / dy)
    ax.set_axis_on()


def _row_figure(
    shown: Tensor, samples: Samples, estimate: Tensor, title: str, rate: float | None, bounds: Bounds | None
) -> Figure:
    """The whole row, and its busiest part, on the axis x of its bounds if it has any."""
    first, xlabel = 0.0, None
    if bounds is not None:
        ((low, high),) = bounds.tolist()
        rate = max(len(shown) - 1, 1) / (high - low)
        first, xlabel = low * rate, "x"
    known = panels.known_samples(samples)
    figure = Figure(11, 6)
    whole, near = figure.subplots(2, 1)
    (window,) = panels.most(torch.diff(shown[:, 0].nan_to_num(), prepend=shown[:1, 0].nan_to_num()).square())
    for ax, part, text in ((whole, slice(0, None), title), (near, window, "its busiest part")):
        options = {"start": first + (part.start or 0), "rate": rate, "xlabel": xlabel}
        panels.show_row(ax, shown[part, 0], estimate[part, 0], known[part, 0], text, **options)
    return figure


def restoration_figure(
    before: Float[Tensor, "*grid channels"],
    after: Float[Tensor, "*grid channels"],
    titles: tuple[str, str],
    *,
    rate: float | None = None,
) -> Figure:
    """Draw two pictures side by side, and below them a detail from the place where the change and texture are largest.

    Rows of samples are drawn as lines, clips as strips of frames. Both signals are on one grid and drawn on the scale
    of the first; NaN is gray. A row's axis is in seconds if the ``rate`` of its samples is given.
    """
    if after.ndim == 2:
        figure = Figure(11, 5)
        axes = figure.subplots(2, 1, sharex=True)
        for ax, signal, title in zip(axes, (before, after), titles, strict=True):
            ax.plot(panels.places(len(signal), rate), signal.numpy(), lw=0.8)
            ax.set_title(title)
        axes[-1].set_xlabel(panels.unit(rate))
        return figure
    span = panels.span_of(before)
    if after.ndim > 3:
        return panels.strips(list(zip((before, after), titles, strict=True)), span=span)[0]
    first, last = panels.displayable(before, span), panels.displayable(after, span)
    steps = [torch.diff(last, dim=axis, prepend=last.narrow(axis, 0, 1)) for axis in (0, 1)]
    detail = panels.most(
        torch.stack(steps).square().sum((0, -1)) * (last - first).square().sum(-1)
    )  # texture times change
    tall = 4.5 * min(max(after.shape[0] / after.shape[1], 0.2), 3)
    figure = Figure(9.4, 2 * tall + 1.2)
    axes = figure.subplots(2, 2)
    for column, image, title in zip(axes.T, (before, after), titles, strict=True):
        lines = [fill(line, TITLE_WIDTH) for line in title.split("\n")]
        panels.show_image(column[0], image, "\n".join(lines), span=span)
        panels.show_image(column[1], image[detail], "detail", span=span)
    if span != UNIT and after.shape[-1] == 1:
        figure.colorbar(axes[0, 0].images[0], ax=list(axes.flat), fraction=0.046, pad=0.02)
    return figure


def uncertainty_figure(std: Float[Tensor, "*grid channels"], title: str, *, rate: float | None = None) -> Figure:
    """Draw the standard deviation of the errors to expect, in the mean over channels.

    A picture is a map with a bar, a row a line, and a clip a strip of frames with a common scale. A row's axis is in
    seconds if the ``rate`` of its samples is given.
    """
    mean = std.detach().cpu().float().mean(-1)
    if mean.ndim == 2:
        figure = Figure(5.6, 5)
        panels.show_error(figure.subplots(), mean, title)
        return figure
    if mean.ndim > 2:
        top = max(float(np.nanquantile(mean.numpy(), 0.99)), 1e-6)
        return panels.strips([(mean.unsqueeze(-1), title)], span=(0.0, top))[0]
    figure = Figure(11, 3)
    ax = figure.subplots()
    ax.plot(panels.places(len(mean), rate), mean, lw=0.8)
    ax.set(title=title, xlabel=panels.unit(rate))
    return figure


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
    axes[-1].set(xlabel="value", ylabel="standard deviation of the noise", title=fill(str(model), 60))
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

    - before, after, std: the values, NaN where they are missing, and the standard deviations of the errors, if there
      are any
    - labels: the title of every frame
    - name: the quantity that the colors show, with its unit
    - upward: whether the first row is at the bottom, as where latitudes increase
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
