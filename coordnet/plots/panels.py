"""Figures of one reconstruction: each function draws what it is given, and none fits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.gridspec import GridSpec
from torch import Tensor

from coordnet.plots.figure import Figure
from coordnet.sampling.axes import Bounds
from coordnet.sampling.samples import Samples

Row = Float[Tensor, " n"]
Span = tuple[float, float]  # the least and the greatest value of a scale

UNIT = (0.0, 1.0)  # the scale of pictures
STRIP = 6  # frames that stand for a video
MAX_PIXELS = 1600  # along a side of a panel
MAX_MARKS = 1000  # known samples of a row that are marked one by one
BUSY = 200  # samples in the detail of a row
DETAIL, MIN_DETAIL = 5, 16  # the ratio of a picture's sides to those of its detail, and the least side in pixels


def span_of(signal: Float[Tensor, "..."]) -> Span:
    """Return the least and the greatest value to draw a signal with: 0 and 1 if it stays between them, else its own."""
    known = signal[~torch.isnan(signal)]
    low, high = (float(known.min()), float(known.max())) if known.numel() else (0.0, 1.0)
    if low >= 0 and high <= 1:
        return UNIT
    return low, high if high > low else low + 1


def show_image(ax: Axes, image: Float[Tensor, "height width channels"], title: str, *, span: Span = UNIT) -> Axes:
    """Draw a picture of 1 to 4 channels, or the first three of more, with values in a span.

    In [0, 1] alpha is laid on white. One channel with another span is drawn in color, and NaN is gray.
    """
    values = image.detach().cpu().float()
    if span != UNIT and values.shape[-1] == 1:
        return _show(ax, values, title, cmap=colormaps["viridis"].with_extremes(bad="0.5"), vmin=span[0], vmax=span[1])
    pixels = displayable(values, span).clamp(0, 1)
    if span == UNIT and pixels.shape[-1] in (2, 4):
        pixels = pixels[..., :-1] * pixels[..., -1:] + 1 - pixels[..., -1:]
    pixels = pixels[..., : 1 if pixels.shape[-1] == 2 else 3]
    return _show(ax, pixels.expand(*pixels.shape[:2], 3), title)


def displayable(signal: Tensor, span: Span) -> Tensor:
    """At most four channels of a signal, with a span moved to [0, 1] and gray for NaN."""
    signal = signal if signal.shape[-1] <= 4 else signal[..., :3]
    return torch.where(signal.isnan(), 0.5, (signal - span[0]) / (span[1] - span[0]))


def show_error(ax: Axes, error: Float[Tensor, "height width"], title: str, *, top: float | None = None) -> Axes:
    """Draw a map of absolute errors up to ``top``; if that is not given, to the 99th percentile, with a bar."""
    values = error.detach().cpu().float()
    end = top or max(float(np.nanquantile(values.numpy(), 0.99)), 1e-6)
    _show(ax, values.unsqueeze(-1), title, cmap="magma", vmin=0, vmax=end)
    if top is None:
        ax.figure.colorbar(ax.images[0], ax=ax, fraction=0.046, pad=0.02)
    return ax


def _show(ax: Axes, pixels: Float[Tensor, "height width channels"], title: str, **options: Any) -> Axes:
    """Draw pixels, fewer where there are more than a panel can show, at their coordinates in the picture."""
    height, width = pixels.shape[:2]
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    ax.imshow(shrunk(pixels).squeeze(-1).numpy(), extent=extent, interpolation="nearest", **options)
    ax.set_title(title)
    ax.set_axis_off()
    return ax


def shrunk(image: Float[Tensor, "height width channels"]) -> Float[Tensor, "h w channels"]:
    """Return the picture, averaged over blocks of pixels if it is larger than a panel can show."""
    block = -(-max(image.shape[:2]) // MAX_PIXELS)
    if block == 1:
        return image
    stack = image.movedim(-1, 0).unsqueeze(0).float()
    return torch.nn.functional.avg_pool2d(stack, block, ceil_mode=True)[0].movedim(0, -1)


def show_row(
    ax: Axes,
    truth: Row,
    estimate: Row,
    known: Bool[Tensor, " n"],
    title: str,
    *,
    start: float = 0,
    rate: float | None = None,
    xlabel: str | None = None,
) -> Axes:
    """Draw a row of samples from the number ``start`` on: the truth, the reconstruction, and the known samples.

    The axis counts samples, or seconds if their ``rate`` is given, unless an ``xlabel`` says what one over the rate is.
    A truth that is NaN wherever no sample is known is not drawn.
    """
    at = (start + np.arange(len(truth))) / (rate or 1)
    held, values = known.cpu().numpy().astype(bool), truth.cpu().numpy()
    if held.all() or not np.isnan(values[~held]).all():
        ax.plot(at, values, color="0.7", lw=2.5, label="signal")
    ax.plot(at, estimate.detach().cpu(), color="C0", lw=1, label="reconstruction")
    if held.sum() <= MAX_MARKS:
        ax.plot(at[held], values[held], "o", color="C3", ms=3, label="known")
    ax.set(title=title, xlabel=xlabel or ("sample" if rate is None else "seconds"))
    ax.legend(loc="upper right", fontsize=8)
    return ax


def sampled_picture(samples: Samples, channels: int, unknown: float = 0.5) -> Float[Tensor, "*grid channels"]:
    """Return the samples on the signal's grid, with ``unknown`` elsewhere; scattered points are at the nearest node."""
    picture = torch.full((*samples.grid, channels), unknown)
    samples.geometry.put(samples.values.cpu().float(), picture)
    return picture


def known_samples(samples: Samples) -> Bool[Tensor, "*grid channels"]:
    """Return the mask of the grid's entries at which a sample is known; scattered points count at the nearest node."""
    return ~sampled_picture(samples, samples.channels, torch.nan).isnan()


def samples_title(samples: Samples) -> str:
    """A title with the number of scattered points, or the known share of a lattice."""
    return samples.geometry.caption(samples.channels)


def most(values: Float[Tensor, "*grid"]) -> tuple[slice, ...]:
    """The window of a row or a picture whose sum is largest: 200 samples, or a fifth of each side."""
    row = values.ndim == 1
    sizes = [min(n, BUSY) if row else max(min(n, MIN_DETAIL), n // DETAIL) for n in values.shape]
    steps = [max(1, n // 4) for n in sizes]
    pool = torch.nn.functional.avg_pool1d if row else torch.nn.functional.avg_pool2d
    means = pool(values[None, None], sizes, steps)[0, 0]
    at = np.unravel_index(int(means.argmax()), means.shape)
    return tuple(slice(int(k) * step, int(k) * step + n) for k, step, n in zip(at, steps, sizes, strict=True))


def strips(
    clips: Sequence[tuple[Float[Tensor, "frames *grid channels"], str]], plots: int = 0, *, span: Span = UNIT
) -> tuple[Figure, GridSpec]:
    """A figure with a line of evenly spaced frames for each clip and its title, and room for some plots below them.

    Axes between the first and the last two are cut in their middle.
    """
    count, lines = len(clips[0][0]), len(clips) + plots
    frames = np.unique(np.linspace(0, count - 1, STRIP).round().astype(int)).tolist()
    figure = Figure(figsize=(2.2 * len(frames), 2.4 * lines + 0.5), layout="constrained")
    grid = figure.add_gridspec(lines, len(frames))
    for line, (clip, title) in enumerate(clips):
        pictures = clip[(slice(None), *(n // 2 for n in clip.shape[1:-3]))]
        for column, frame in enumerate(frames):
            text = f"frame {frame}" if column else f"{title}\nframe {frame}"
            show_image(figure.add_subplot(grid[line, column]), pictures[frame], text, span=span)
    return figure, grid


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
    span = span_of(samples.values.detach().cpu().float() if truth is None else truth)
    unknown = 0.5 if span == UNIT else torch.nan
    panels = [(sampled_picture(samples, estimate.shape[-1], unknown), samples_title(samples))]
    panels += [(estimate, f"reconstruction\n{score}")]
    if len(samples.grid) == 1:
        shown = sampled_picture(samples, estimate.shape[-1], torch.nan) if truth is None else truth
        return _row_figure(shown, samples, estimate, f"{title}: {score}", rate, bounds)
    if truth is not None:
        panels.insert(0, (truth, title))
    shown = estimate.clamp(0, 1) if span == UNIT else estimate
    if len(samples.grid) == 2:
        error = None if truth is None else (shown - truth).abs().mean(-1)
        return _image_figure(panels, error, span, bounds)
    figure, grid = strips(panels, int(truth is not None), span=span)
    if truth is not None:
        error = ((shown - truth) / (span[1] - span[0])).square().flatten(1).nanmean(1).clamp(min=1e-12)
        ax = figure.add_subplot(grid[-1, :])
        ax.plot(-10 * error.log10().detach().cpu(), lw=1.2)
        ax.set(xlabel="frame", ylabel="PSNR of the frame (dB)")
    return figure


def _image_figure(panels: list[tuple[Tensor, str]], error: Tensor | None, span: Span, bounds: Bounds | None) -> Figure:
    count = len(panels) + (error is not None)
    height, width, channels = panels[0][0].shape
    size = (4.2 * count, min(4.2 * max(height / width, 0.25), 12) + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, count, squeeze=False)[0]
    for ax, (image, text) in zip(axes, panels, strict=False):
        show_image(ax, image, text, span=span)
        if bounds is not None:
            _label_axes(ax, bounds, (height, width))
    if channels == 1 and (span != UNIT or bounds is not None):
        drawn = axes[0].images[0] if span != UNIT else ScalarMappable(Normalize(0, 1), "gray")
        figure.colorbar(drawn, ax=list(axes[: len(panels)]), fraction=0.046, pad=0.02)
    if error is not None:
        show_error(axes[-1], error, "absolute error")
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
    known = known_samples(samples)
    figure = Figure(figsize=(11, 6), layout="constrained")
    whole, near = figure.subplots(2, 1)
    (window,) = most(torch.diff(shown[:, 0].nan_to_num(), prepend=shown[:1, 0].nan_to_num()).square())
    for ax, part, text in ((whole, slice(0, None), title), (near, window, "its busiest part")):
        options = {"start": first + (part.start or 0), "rate": rate, "xlabel": xlabel}
        show_row(ax, shown[part, 0], estimate[part, 0], known[part, 0], text, **options)
    return figure
