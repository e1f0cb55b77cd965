"""Figures of several reconstructions of one signal: details where they differ, and maps of their errors."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, UInt8
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from coordnet.plots.reconstruction import (
    displayable,
    known_samples,
    most,
    sampled_picture,
    samples_title,
    show_error,
    show_image,
    show_row,
    shrunk,
    span_of,
)
from coordnet.sampling.samples import Samples

COLUMNS = 5  # panels side by side
TRUTH, SAMPLES = "truth", "samples"


@dataclass(frozen=True)
class Shown:
    """A signal, its samples, and estimates of it by name, the best first."""

    truth: Tensor  # (*grid, channels)
    samples: Samples  # the samples that were fitted
    estimates: dict[str, Tensor]

    @cached_property
    def whole(self) -> dict[str, Float[Tensor, "*grid _"]]:
        """Truth, samples and estimates with the values that are drawn."""
        sampled = sampled_picture(self.samples, self.truth.shape[-1], torch.nan)
        signals = {TRUTH: self.truth, SAMPLES: sampled, **self.estimates}
        low, high = min(0.0, float(self.truth.min())), max(1.0, float(self.truth.max()))
        signals = {name: s.detach().cpu().float().clamp(low, high) for name, s in signals.items()}
        if len(self.samples.grid) == 1:
            return signals
        return {name: displayable(s, span_of(self.truth)) for name, s in signals.items()}

    @cached_property
    def best(self) -> Float[Tensor, "half *grid"]:
        """Absolute errors of the better half of the estimates, which determine the figure's scale and place."""
        truth, _, *estimates = self.whole.values()
        errors = [(s - truth).abs().mean(-1) for s in estimates[: (len(estimates) + 1) // 2]]
        return torch.stack(errors or [torch.zeros(truth.shape[:-1])])

    @cached_property
    def differing(self) -> Float[Tensor, "*grid"]:
        """How much the better half's errors differ; a single estimate's errors themselves."""
        return self.best.var(0) if len(self.best) > 1 else self.best[0]

    @cached_property
    def frame(self) -> tuple[int, ...]:
        """The frame of a clip where errors differ most, as an index for each axis before the last two."""
        differing, frame = self.differing, ()
        while differing.ndim > 2:
            frame += (int(differing.flatten(1).sum(1).argmax()),)
            differing = differing[frame[-1]]
        return frame

    @cached_property
    def place(self) -> tuple[slice, ...]:
        """The part of the row, the picture or the clip's frame where errors differ most."""
        return most(self.differing[self.frame])

    @cached_property
    def signals(self) -> dict[str, Float[Tensor, "*shown _"]]:
        """Truth, samples and estimates that are drawn: rows, pictures, or one frame of clips."""
        return {name: signal[self.frame] for name, signal in self.whole.items()}

    @cached_property
    def errors(self) -> dict[str, Float[Tensor, "*shown"]]:
        """Absolute errors of what is drawn of the estimates, means over channels."""
        return {name: (self.signals[name] - self.signals[TRUTH]).abs().mean(-1) for name in self.estimates}

    @cached_property
    def top(self) -> float:
        """The end of the errors' common scale: the 99th percentile of the better half's."""
        return max(float(np.quantile(self.best.numpy(), 0.99)), 1e-6)


def comparison_figure(shown: Shown, *, titles: dict[str, str], name: str) -> Figure:
    """Every estimate's detail at one place, and its errors on one scale; a clip is compared by one of its frames.

    ``titles`` are the scores of the estimates, by their names, and ``name`` is the name of the signal.
    """
    frame = f", frame {', '.join(map(str, shown.frame))}" if shown.frame else ""
    labels = {TRUTH: name + frame, SAMPLES: samples_title(shown.samples)}
    labels |= {key: "\n".join([*key.split(" · ", 1), titles[key]]) for key in shown.estimates}
    return (_rows if len(shown.samples.grid) == 1 else _pictures)(shown, labels)


def _pictures(shown: Shown, labels: dict[str, str]) -> Figure:
    height, width, _ = shown.signals[TRUTH].shape
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
        show_image(detail, shown.signals[key][shown.place], "").set_title(label, fontsize=8)
        if key in shown.errors:
            show_error(whole, shown.errors[key], "", top=shown.top)
        else:
            show_image(whole, shown.signals[key], "")
        (top, bottom), (left, right) = ((part.start - 0.5, part.stop - 0.5) for part in shown.place)
        whole.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, ec="cyan", lw=1.2))
    errors = ScalarMappable(Normalize(0, shown.top), "magma")
    figure.colorbar(errors, ax=list(axes.flat), label="absolute error", extend="max", fraction=0.02, pad=0.01)
    return figure


def _rows(shown: Shown, labels: dict[str, str]) -> Figure:
    """A line for each estimate: the part where estimates differ most, and the errors of all of the row."""
    count = max(1, len(shown.estimates))
    figure = Figure(figsize=(13, 2.3 * count + 0.3), layout="constrained")
    axes = figure.subplots(count, 2, squeeze=False, sharex="col")
    known = known_samples(shown.samples)
    (part,) = shown.place
    truth = shown.signals[TRUTH]
    for (near, whole), key in zip(axes, shown.estimates, strict=False):
        show_row(near, truth[part, 0], shown.signals[key][part, 0], known[part, 0], "", start=part.start)
        near.set_title(labels[key].replace("\n", ", "), fontsize=9)
        whole.plot(shown.errors[key], lw=0.6, color="C3")
        whole.axvspan(part.start, part.stop - 1, color="0.85", zorder=0)
        whole.set_ylim(0, 1.5 * shown.top)
        whole.set_title("absolute error; the part on the left in gray", fontsize=9)
    return figure


def page_pictures(shown: Shown) -> dict[str, UInt8[np.ndarray, "height width channels"]]:
    """Truth, samples and every estimate as pixels of one size: a picture, a frame of a clip, the plot of a row."""
    if len(shown.samples.grid) == 1:
        return {key: _plotted(shown, key) for key in shown.signals}
    pictures = {key: shrunk(picture).clamp(0, 1) * 255 for key, picture in shown.signals.items()}
    return {key: picture.round().to(torch.uint8).numpy() for key, picture in pictures.items()}


def _plotted(shown: Shown, key: str) -> UInt8[np.ndarray, "h w _"]:
    """The part of a row where estimates differ most, on the truth's scale; samples as marks."""
    (part,) = shown.place
    truth, values = shown.signals[TRUTH][part, 0], shown.signals[key][part, 0]
    low, high = float(truth.min()), float(truth.max())
    margin = 0.15 * max(high - low, 1e-6)
    figure = Figure(figsize=(9, 3.4), dpi=100, layout="constrained")
    ax = figure.subplots()
    at = np.arange(part.start, part.stop)
    if key == SAMPLES:
        held = known_samples(shown.samples)[part, 0].numpy()
        ax.plot(at[held], values.numpy()[held], "o", color="C3", ms=4)
    else:
        ax.plot(at, values, color="0.3" if key == TRUTH else "C0", lw=1.5)
    ax.set(xlim=(part.start, max(part.start + 1, part.stop - 1)), ylim=(low - margin, high + margin))
    pixels, (width, height) = FigureCanvasAgg(figure).print_to_buffer()
    return np.frombuffer(pixels, np.uint8).reshape(height, width, 4)[..., :3]
