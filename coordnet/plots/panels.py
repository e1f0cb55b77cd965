"""Panels that figures share: pictures, maps of errors, rows and strips of frames, in a figure that shows itself."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib import colormaps, figure
from matplotlib.axes import Axes
from matplotlib.gridspec import GridSpec
from torch import Tensor

from coordnet.sampling.samples import Samples

Row = Float[Tensor, " n"]
Span = tuple[float, float]  # the least and the greatest value of a scale

UNIT = (0.0, 1.0)  # the scale of pictures
STRIP = 6  # frames that stand for a video
MAX_PIXELS = 1600  # along a side of a panel
MAX_MARKS = 1000  # known samples of a row that are marked one by one
BUSY = 200  # samples in the detail of a row
DETAIL, MIN_DETAIL = 5, 16  # the ratio of a picture's sides to those of its detail, and the least side in pixels


class Figure(figure.Figure):
    """A figure that a notebook shows, whether or not matplotlib's inline backend is active there."""

    def __init__(self, width: float | int, height: float | int) -> None:
        super().__init__(figsize=(width, height), layout="constrained")

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


Drawn = tuple[Figure, dict[str, Any]]  # a figure and its numbers


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
    """Draw a row of samples, at ``places``: the truth, the reconstruction, and the known samples.

    An ``xlabel`` says what one over the rate is, if not seconds. A truth that is NaN wherever no sample is known is not
    drawn.
    """
    at = places(len(truth), rate, start)
    held, values = known.cpu().numpy().astype(bool), truth.cpu().numpy()
    if held.all() or not np.isnan(values[~held]).all():
        ax.plot(at, values, color="0.7", lw=2.5, label="signal")
    ax.plot(at, estimate.detach().cpu(), color="C0", lw=1, label="reconstruction")
    if held.sum() <= MAX_MARKS:
        ax.plot(at[held], values[held], "o", color="C3", ms=3, label="known")
    ax.set(title=title, xlabel=xlabel or unit(rate))
    ax.legend(loc="upper right", fontsize=8)
    return ax


def places(count: int, rate: float | None, start: float = 0) -> np.ndarray:
    """Return the places of samples on their axis, from the number ``start`` on: numbers, or seconds with a rate."""
    return (start + np.arange(count)) / (rate or 1)


def unit(rate: float | None) -> str:
    """Return the label of the axis of ``places``."""
    return "sample" if rate is None else "seconds"


def sampled_picture(samples: Samples, channels: int, unknown: float = 0.5) -> Float[Tensor, "*grid channels"]:
    """Return the samples on the signal's grid, with ``unknown`` elsewhere; scattered points are at the nearest node."""
    picture = torch.full((*samples.grid, channels), unknown)
    samples.geometry.put(samples.values.cpu().float(), picture)
    return picture


def known_samples(samples: Samples) -> Bool[Tensor, "*grid channels"]:
    """Return the mask of the grid's entries at which a sample is known; scattered points count at the nearest node."""
    return ~sampled_picture(samples, samples.channels, torch.nan).isnan()


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
    """A figure with a line of evenly spaced frames for each clip and its title, and room for some plots below them."""
    count, lines = len(clips[0][0]), len(clips) + plots
    frames = np.unique(np.linspace(0, count - 1, STRIP).round().astype(int)).tolist()
    figure = Figure(2.2 * len(frames), 2.4 * lines + 0.5)
    grid = figure.add_gridspec(lines, len(frames))
    for line, (clip, title) in enumerate(clips):
        pictures = clip[(slice(None), *(n // 2 for n in clip.shape[1:-3]))]
        for column, frame in enumerate(frames):
            text = f"frame {frame}" if column else f"{title}\nframe {frame}"
            show_image(figure.add_subplot(grid[line, column]), pictures[frame], text, span=span)
    return figure, grid
