"""Figures of several reconstructions of one signal: details where they differ, and maps of their errors."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, UInt8
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle
from torch import Tensor

from coordnet.metrics.scores import value_range
from coordnet.plots import panels
from coordnet.plots.panels import Figure
from coordnet.sampling.samples import Samples

COLUMNS = 5  # panels side by side
TRUTH, SAMPLES = "truth", "samples"


@dataclass(frozen=True)
class Shown:
    """A signal, its samples, and estimates of it by name, the best first."""

    truth: Tensor  # (*grid, channels)
    samples: Samples  # the samples that were fitted
    estimates: dict[str, Tensor]
    rate: float | None = None  # samples of a row in a second, where its axis is time

    @cached_property
    def scale(self) -> tuple[float, float, bool]:
        """The value drawn black and the span to white, those of the PSNR's range, and whether values are clipped to it.

        A signal in [0, 1] is drawn from 0 to 1, another from its least to its largest value.
        """
        present = self.truth[~self.truth.isnan()]
        span, bounded = value_range(present)
        return 0.0 if bounded else float(present.min()), span, bounded

    @cached_property
    def whole(self) -> dict[str, Float[Tensor, "*grid channels"]]:
        """Truth, samples and estimates in the signal's own units, clipped as for the PSNR; NaN where unknown."""
        sampled = panels.sampled_picture(self.samples, self.truth.shape[-1], torch.nan)
        signals = {TRUTH: self.truth, SAMPLES: sampled, **self.estimates}
        signals = {name: s.detach().cpu().float() for name, s in signals.items()}
        return {name: s.clamp(0, 1) for name, s in signals.items()} if self.scale[2] else signals

    @cached_property
    def best(self) -> Float[Tensor, "half *grid"]:
        """Absolute errors of the better half of the estimates, which determine the figure's scale and place."""
        names = list(self.estimates)[: (len(self.estimates) + 1) // 2]
        return torch.stack([self._error(self.whole, n) for n in names] or [torch.zeros(self.truth.shape[:-1])])

    @cached_property
    def frame(self) -> tuple[int, ...]:
        """The frame of a clip where errors differ most, as an index for each axis before the last two."""
        return self._found[0]

    @cached_property
    def place(self) -> tuple[slice, ...]:
        """The part of the row, the picture or the clip's frame where errors differ most."""
        return panels.most(self._found[1])

    @cached_property
    def _found(self) -> tuple[tuple[int, ...], Tensor]:
        """The frame, and how much errors differ there: the variance of the better half's, or the only errors."""
        differing, frame = self.best.var(0) if len(self.best) > 1 else self.best[0], ()
        while differing.ndim > 2:
            frame += (int(differing.flatten(1).sum(1).argmax()),)
            differing = differing[frame[-1]]
        return frame, differing

    @cached_property
    def signals(self) -> dict[str, Float[Tensor, "*shown channels"]]:
        """Truth, samples and estimates that are drawn, in the signal's own units: rows, pictures, a frame of clips."""
        return {name: signal[self.frame] for name, signal in self.whole.items()}

    @cached_property
    def pictures(self) -> dict[str, Float[Tensor, "height width _"]]:
        """The pictures that are drawn, of at most four channels in [0, 1], gray where nothing is known."""
        low, span, _ = self.scale
        kept = slice(None) if self.truth.shape[-1] <= 4 else slice(3)
        return {k: ((s[..., kept] - low) / span).clamp(0, 1).nan_to_num(0.5) for k, s in self.signals.items()}

    @cached_property
    def errors(self) -> dict[str, Float[Tensor, "*shown"]]:
        """Absolute errors of the drawn estimates, averaged over channels, in the signal's own units."""
        return {name: self._error(self.signals, name) for name in self.estimates}

    @staticmethod
    def _error(signals: dict[str, Tensor], name: str) -> Tensor:
        return (signals[name] - signals[TRUTH]).abs().nanmean(-1).nan_to_num()

    @cached_property
    def top(self) -> float:
        """The end of the errors' common scale: the 99th percentile of the better half's."""
        return max(float(np.quantile(self.best.numpy(), 0.99)), 1e-6 * self.scale[1])


def comparison_figure(shown: Shown, *, titles: dict[str, str], name: str) -> Figure:
    """Every estimate's detail at one place under its name and title, and its errors; of a clip, one frame."""
    frame = f", frame {', '.join(map(str, shown.frame))}" if shown.frame else ""
    low, span, bounded = shown.scale
    drawn = "" if bounded else f"\n{low:.4g} … {low + span:.4g}"
    labels = {TRUTH: name + frame + drawn, SAMPLES: shown.samples.geometry.caption(shown.samples.channels)}
    labels |= {key: "\n".join([*key.split(" · ", 1), titles[key]]) for key in shown.estimates}
    return (_rows if len(shown.samples.grid) == 1 else _pictures)(shown, labels)


def _pictures(shown: Shown, labels: dict[str, str]) -> Figure:
    height, width, _ = shown.signals[TRUTH].shape
    columns = min(COLUMNS, len(labels))
    lines = -(-len(labels) // columns)
    tall = 2.9 * min(max(height / width, 0.25), 3)
    figure = Figure(3 * columns + 0.6, lines * (2 * tall + 0.8))
    axes = figure.subplots(2 * lines, columns, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for i, (key, label) in enumerate(labels.items()):
        line, column = divmod(i, columns)
        detail, whole = axes[2 * line, column], axes[2 * line + 1, column]
        panels.show_image(detail, shown.pictures[key][shown.place], "").set_title(label, fontsize=9.5)
        if key in shown.errors:
            panels.show_error(whole, shown.errors[key], "", top=shown.top)
        else:
            panels.show_image(whole, shown.pictures[key], "")
        (top, bottom), (left, right) = ((part.start - 0.5, part.stop - 0.5) for part in shown.place)
        whole.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, ec="cyan", lw=1.2))
    errors = ScalarMappable(Normalize(0, shown.top), "magma")
    figure.colorbar(errors, ax=list(axes.flat), label="absolute error", extend="max", fraction=0.02, pad=0.01)
    return figure


def _rows(shown: Shown, labels: dict[str, str]) -> Figure:
    """A line for each estimate: the part where estimates differ most, and the errors of all of the row."""
    count = max(1, len(shown.estimates))
    figure = Figure(13, 2.3 * count + 0.3)
    axes = figure.subplots(count, 2, squeeze=False, sharex="col")
    known = panels.known_samples(shown.samples)
    (part,) = shown.place
    truth = shown.signals[TRUTH]
    at = panels.places(len(truth), shown.rate)
    for (near, whole), key in zip(axes, shown.estimates, strict=False):
        options = {"start": part.start, "rate": shown.rate}
        panels.show_row(near, truth[part, 0], shown.signals[key][part, 0], known[part, 0], "", **options)
        near.set_title(labels[key].replace("\n", ", "), fontsize=9)
        whole.plot(at, shown.errors[key], lw=0.6, color="C3")
        whole.axvspan(at[part.start], at[part.stop - 1], color="0.85", zorder=0)
        whole.set_ylim(0, 1.5 * shown.top)
        whole.set_title("absolute error; the part on the left in gray", fontsize=9)
    for ax in axes[-1]:
        ax.set_xlabel(panels.unit(shown.rate))
    return figure


def page_pictures(shown: Shown) -> dict[str, UInt8[np.ndarray, "height width channels"]]:
    """Truth, samples and every estimate as pixels of one size: a picture, a frame of a clip, the plot of a row."""
    if len(shown.samples.grid) == 1:
        return {key: _plotted(shown, key) for key in shown.signals}
    pixels = {}
    for key, picture in shown.pictures.items():
        if picture.shape[-1] <= 2:  # files of pictures need three channels; alpha stays
            picture = torch.cat([picture[..., :1].expand(-1, -1, 3), picture[..., 1:]], dim=-1)
        pixels[key] = (panels.shrunk(picture).clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    return pixels


def _plotted(shown: Shown, key: str) -> UInt8[np.ndarray, "h w _"]:
    """The part of a row where estimates differ most, on the truth's scale; samples as marks."""
    (part,) = shown.place
    truth, values = shown.truth[~shown.truth.isnan()], shown.signals[key][part, 0]
    low, high = float(truth.min()), float(truth.max())
    margin = 0.15 * ((high - low) or shown.scale[1])
    figure = Figure(9, 3.4)
    ax = figure.subplots()
    at = panels.places(part.stop - part.start, shown.rate, part.start)
    if key == SAMPLES:
        held = panels.known_samples(shown.samples)[part, 0].numpy()
        ax.plot(at[held], values.numpy()[held], "o", color="C3", ms=4)
    else:
        ax.plot(at, values, color="0.3" if key == TRUTH else "C0", lw=1.5)
    end = max(part.start + 1, part.stop - 1) / (shown.rate or 1)
    ax.set(xlim=(at[0], end), ylim=(low - margin, high + margin), xlabel=panels.unit(shown.rate))
    pixels, (width, height) = FigureCanvasAgg(figure).print_to_buffer()
    return np.frombuffer(pixels, np.uint8).reshape(height, width, 4)[..., :3]
