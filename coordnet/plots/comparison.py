"""Figures of several reconstructions of one signal: details where they differ, and maps of their errors."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from coordnet.plots.reconstruction import (
    STRIP,
    drawable,
    frames_of,
    known_samples,
    known_share,
    most,
    sampled_picture,
    score_by_frame,
    show_error,
    show_image,
    show_part,
    show_row,
    shrunk,
)
from coordnet.plots.restoration import displayable
from coordnet.sampling.samples import Samples

COLUMNS = 5  # panels side by side
FRAMES = 4  # of a clip, side by side
TRUTH, SAMPLES = "truth", "samples"


@dataclass(frozen=True)
class Shown:
    """A signal, its samples, and estimates of it by name, the best first."""

    truth: Tensor  # (*grid, channels)
    samples: Samples  # the samples that were fitted
    estimates: dict[str, Tensor]

    @cached_property
    def signals(self) -> dict[str, Tensor]:
        """Truth, samples and estimates as they are drawn, with at most three axes."""
        sampled = sampled_picture(self.samples, self.truth.shape[-1])
        signals = {TRUTH: self.truth, SAMPLES: sampled, **self.estimates}
        low, high = min(0.0, float(self.truth.min())), max(1.0, float(self.truth.max()))
        signals = {name: s.detach().cpu().float().clamp(low, high) for name, s in signals.items()}
        if len(self.samples.grid) > 1:
            signals = {name: displayable(s, self.truth) for name, s in signals.items()}
        return {name: drawable(s) for name, s in signals.items()}

    @cached_property
    def errors(self) -> dict[str, Float[Tensor, "*grid"]]:
        """Absolute errors of the estimates, means over channels."""
        truth = self.signals[TRUTH]
        return {name: (self.signals[name] - truth).abs().mean(-1) for name in self.estimates}

    @cached_property
    def best(self) -> Float[Tensor, "half *grid"]:
        """Errors of the better half of the estimates, which determine the figure's scale and place."""
        errors = list(self.errors.values()) or [torch.zeros(self.signals[TRUTH].shape[:-1])]
        return torch.stack(errors[: (len(errors) + 1) // 2])

    @cached_property
    def top(self) -> float:
        """The end of the errors' common scale: the 99th percentile of the better half's."""
        return max(float(np.quantile(self.best.numpy(), 0.99)), 1e-6)

    @cached_property
    def place(self) -> tuple[slice, ...]:
        """The part of the signal where the better half's errors differ most; in a clip, of one frame."""
        differing = self.best.var(0) if len(self.best) > 1 else self.best[0]
        if differing.ndim < 3:
            return most(differing)
        frame = int(differing.flatten(1).sum(1).argmax())
        return (slice(frame, frame + 1), *most(differing[frame]))


def comparison_figure(shown: Shown, *, titles: dict[str, str], name: str) -> Figure:
    """Every estimate's detail at one place, and its errors on one scale, as fits the number of axes.

    ``titles`` are the scores of the estimates, by their names, and ``name`` is the name of the signal.
    """
    labels = {TRUTH: name, SAMPLES: f"samples ({known_share(shown.samples)})"}
    labels |= {key: "\n".join([*key.split(" · ", 1), titles[key]]) for key in shown.estimates}
    dims = len(shown.samples.grid)
    draw = _rows if dims == 1 else _pictures if dims == 2 else _strips
    return draw(shown, labels)


def _pictures(shown: Shown, labels: dict[str, str]) -> Figure:
    height, width = shown.truth.shape[:2]
    columns = min(COLUMNS, len(labels))
    lines = -(-len(labels) // columns)
    tall = 2.9 * min(max(height / width, 0.25), 3)
    figure = Figure(figsize=(3 * columns + 0.6, lines * (2 * tall + 0.8)), layout="constrained")
    axes = figure.subplots(2 * lines, columns, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for i, (key, label) in enumerate(labels.items()):
        line, column = divmod(i, columns)
        detail, whole = axes[2 * line, column], axes[2 * line + 1, column]
        show_image(detail, shown.signals[key][shown.place], "")
        detail.set_title(label, fontsize=8)
        if key in shown.errors:
            show_error(whole, shown.errors[key], "", top=shown.top)
        else:
            show_image(whole, shown.signals[key], "")
        _box(whole, shown.place, shown.truth.shape)
    errors = ScalarMappable(Normalize(0, shown.top), "magma")
    figure.colorbar(errors, ax=list(axes.flat), label="absolute error", extend="max", fraction=0.02, pad=0.01)
    return figure


def _box(ax: Axes, place: tuple[slice, ...], shape: tuple[int, ...]) -> None:
    """Mark the detail in a picture, which may be drawn smaller than it is."""
    drawn = ax.get_images()[0].get_size()
    y, x = (size / n for size, n in zip(drawn, shape, strict=False))
    rows, columns = place[-2:]
    width, height = (columns.stop - columns.start) * x, (rows.stop - rows.start) * y
    corner = (columns.start * x, rows.start * y)
    ax.add_patch(Rectangle(corner, width, height, fill=False, ec="cyan", lw=1.2))


def _rows(shown: Shown, labels: dict[str, str]) -> Figure:
    """A line for each estimate: the row where estimates differ most, and the errors of all of it."""
    count = max(1, len(shown.estimates))
    figure = Figure(figsize=(13, 2.3 * count + 0.3), layout="constrained")
    axes = figure.subplots(count, 2, squeeze=False, sharex="col")
    known = known_samples(shown.samples)
    part = shown.place[0]
    truth = shown.signals[TRUTH]
    for (near, whole), key in zip(axes, shown.estimates, strict=False):
        show_row(near, truth[part, 0], shown.signals[key][part, 0], known[part, 0], "")
        near.set_title(labels[key].replace("\n", ", "), fontsize=9)
        whole.plot(shown.errors[key], lw=0.6, color="C3")
        whole.axvspan(part.start, part.stop - 1, color="0.85", zorder=0)
        whole.set_ylim(0, 1.5 * shown.top)
        whole.set_title("absolute error; the part on the left in gray", fontsize=9)
    for ax in axes[:, 0]:
        show_part(ax, part)
    return figure


def _strips(shown: Shown, labels: dict[str, str]) -> Figure:
    """A line for each signal: some frames, the detail and the errors of the frame where estimates differ most."""
    truth, (chosen, *window) = shown.signals[TRUTH], shown.place
    frames = frames_of(truth, FRAMES)
    columns = len(frames) + 2
    figure = Figure(figsize=(2.2 * columns, 2.5 * len(labels) + 2.6), layout="constrained")
    grid = figure.add_gridspec(len(labels) + 1, columns)
    for i, (key, label) in enumerate(labels.items()):
        cells = [figure.add_subplot(grid[i, j]) for j in range(columns)]
        for ax, frame in zip(cells, frames, strict=False):
            show_image(ax, shown.signals[key][frame], "")
            ax.set_title(label if frame == frames[0] else f"frame {frame}", fontsize=8)
        at = shown.signals[key][chosen.start]
        show_image(cells[-2], at[tuple(window)], "")
        cells[-2].set_title(f"frame {chosen.start}, detail", fontsize=8)
        if key in shown.errors:
            show_error(cells[-1], shown.errors[key][chosen.start], "", top=shown.top)
            cells[-1].set_title(f"frame {chosen.start}, error to {shown.top:.2g}", fontsize=8)
        else:
            show_image(cells[-1], at, "")
        _box(cells[-1], shown.place, truth.shape[1:])
    signals = {key: shown.signals[key] for key in shown.estimates}
    errors = {key: (signal - truth).square().flatten(1).mean(1) for key, signal in signals.items()}
    ax = score_by_frame(figure.add_subplot(grid[-1, :]), errors)
    if errors:
        ax.legend(fontsize=7, ncols=2)
    return figure


def page_pictures(shown: Shown) -> dict[str, UInt8[np.ndarray, "height width channels"]]:
    """Truth, samples and every estimate as pixels of one size: a picture, some frames of a clip, the plot of a row."""
    signals = shown.signals
    if len(shown.samples.grid) == 1:
        return {key: _plotted(shown, key) for key in signals}
    if len(shown.samples.grid) > 2:
        signals = {key: _montage(clip) for key, clip in signals.items()}
    return {key: _pixels(picture) for key, picture in signals.items()}


def _pixels(picture: Float[Tensor, "height width channels"]) -> UInt8[np.ndarray, "h w _"]:
    return (shrunk(picture).clamp(0, 1) * 255).round().to(torch.uint8).numpy()


def _montage(clip: Float[Tensor, "frames height width channels"]) -> Float[Tensor, "h w channels"]:
    """Six frames of a clip in two lines."""
    chosen = np.linspace(0, len(clip) - 1, STRIP).round().astype(int)
    frames = clip[torch.from_numpy(chosen)]
    return torch.cat([torch.cat(list(line), dim=1) for line in frames.split(STRIP // 2)], dim=0)


def _plotted(shown: Shown, key: str) -> UInt8[np.ndarray, "h w _"]:
    """The part of a row where estimates differ most, on the truth's scale; samples as marks."""
    part = shown.place[0]
    truth = shown.signals[TRUTH][part, 0]
    low, high = float(truth.min()), float(truth.max())
    margin = 0.15 * max(high - low, 1e-6)
    figure = Figure(figsize=(9, 3.4), dpi=100, layout="constrained")
    ax = figure.subplots()
    at = np.arange(part.start, part.stop)
    values = shown.signals[key][part, 0]
    if key == SAMPLES:
        held = np.flatnonzero(known_samples(shown.samples)[part, 0].numpy())
        ax.plot(at[held], values.numpy()[held], "o", color="C3", ms=4)
    else:
        ax.plot(at, values, color="0.3" if key == TRUTH else "C0", lw=1.5)
    ax.set(xlim=(part.start, max(part.start + 1, part.stop - 1)), ylim=(low - margin, high + margin))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
