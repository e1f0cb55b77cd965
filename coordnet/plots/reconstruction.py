"""Figures: each function draws what it is given and returns it; none fits anything."""

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from coordnet.sampling.samples import Samples, ScatteredPoints

STRIP = 6  # frames that stand for a video
MOST_PIXELS = 1600  # along a side of a panel
MOST_MARKS = 1000  # known samples of a row that are marked one by one


def show_image(ax: Axes, image: Float[Tensor, "height width channels"], title: str) -> Axes:
    """Draw a picture of 1 to 4 channels in [0, 1]; alpha is laid on white."""
    pixels = shrunk(image.detach()).clamp(0, 1).cpu().float()
    if pixels.shape[-1] in (2, 4):
        pixels = pixels[..., :-1] * pixels[..., -1:] + 1 - pixels[..., -1:]
    grey = pixels.shape[-1] != 3
    shown = pixels[..., 0] if grey else pixels
    ax.imshow(shown.numpy(), cmap="gray" if grey else None, vmin=0, vmax=1, interpolation="nearest")
    ax.set_title(title)
    ax.set_axis_off()
    return ax


def shrunk(image: Float[Tensor, "height width channels"]) -> Float[Tensor, "h w channels"]:
    """The picture averaged over blocks of pixels where it is larger than a panel can show."""
    block = -(-max(image.shape[:2]) // MOST_PIXELS)
    if block == 1:
        return image
    stack = image.movedim(-1, 0).unsqueeze(0).float()
    return torch.nn.functional.avg_pool2d(stack, block, ceil_mode=True)[0].movedim(0, -1)


def show_error(
    ax: Axes, error: Float[Tensor, "height width"], title: str, *, top: float | None = None
) -> Axes:
    """Draw a map of absolute errors up to ``top``; if that is not given, to the 99th percentile, with a bar."""
    values = shrunk(error.detach().unsqueeze(-1))[..., 0].cpu().float().numpy()
    end = top or max(float(np.nanquantile(values, 0.99)), 1e-6)
    drawn = ax.imshow(values, cmap="magma", vmin=0, vmax=end, interpolation="nearest")
    ax.set_title(title)
    ax.set_axis_off()
    if top is None:
        ax.figure.colorbar(drawn, ax=ax, fraction=0.046, pad=0.02)
    return ax


def show_row(
    ax: Axes,
    truth: Float[Tensor, " n"],
    estimate: Float[Tensor, " n"],
    known: Float[Tensor, " n"],
    title: str,
) -> Axes:
    """Draw a row of samples: the truth, the reconstruction, and the known samples marked."""
    at = np.arange(len(truth))
    held = np.flatnonzero(known.cpu().numpy() > 0)
    ax.plot(at, truth.cpu(), color="0.7", lw=2.5, label="signal")
    ax.plot(at, estimate.detach().cpu(), color="C0", lw=1, label="reconstruction")
    if len(held) <= MOST_MARKS:
        ax.plot(at[held], truth.cpu().numpy()[held], "o", color="C3", ms=3, label="known")
    ax.set_title(title)
    ax.legend(loc="upper right", fontsize=8)
    return ax


def sampled_picture(samples: Samples, channels: int) -> Float[Tensor, "*grid channels"]:
    """The samples in place on the signal's grid, grey (0.5) where nothing is known."""
    picture = torch.full((*samples.grid, channels), 0.5)
    samples.geometry.put(samples.values.cpu().float(), picture)
    return picture


def reconstruction_figure(
    truth: Float[Tensor, "*grid channels"] | None,
    samples: Samples,
    estimate: Float[Tensor, "*grid channels"],
    *,
    title: str,
    score: str,
) -> Figure:
    """What was there, what was sampled, what came back, and where it errs, as fits the number of axes.

    Parameters
    ----------
    truth : (*grid, channels), optional
        The signal; without it the panels that need it are left out.
    samples : Samples
        What was fitted.
    estimate : (*grid, channels)
        The reconstruction.
    title, score : str
        Of the signal's panel and of the reconstruction's.
    """
    match len(samples.grid):
        case 1:
            return _row_figure(truth, samples, estimate, title, score)
        case 2:
            return _image_figure(truth, samples, estimate, title, score)
        case _:
            return _strip_figure(truth, samples, estimate, title, score)


def _image_figure(truth: Tensor | None, samples: Samples, estimate: Tensor, title: str, score: str) -> Figure:
    known = known_share(samples)
    panels = [] if truth is None else [(truth, title)]
    panels += [(sampled_picture(samples, estimate.shape[-1]), f"samples ({known})")]
    panels += [(estimate, f"reconstruction\n{score}")]
    count = len(panels) + (truth is not None)
    height, width = estimate.shape[:2]
    size = (4.2 * count, min(4.2 * max(height / width, 0.25), 12) + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, count, squeeze=False)[0]
    for ax, (image, text) in zip(axes, panels, strict=False):
        show_image(ax, image, text)
    if truth is not None:
        show_error(axes[-1], (estimate.clamp(0, 1) - truth).abs().mean(-1), "absolute error")
    return figure


def _row_figure(truth: Tensor | None, samples: Samples, estimate: Tensor, title: str, score: str) -> Figure:
    shown = sampled_picture(samples, estimate.shape[-1]) if truth is None else truth
    known = known_samples(samples)
    figure = Figure(figsize=(11, 6), layout="constrained")
    whole, near = figure.subplots(2, 1)
    window = _busiest(shown[:, 0], 200)
    for ax, part, text in ((whole, slice(None), f"{title}: {score}"), (near, window, "its busiest part")):
        show_row(ax, shown[part, 0], estimate[part, 0], known[part, 0], text)
    near.set_xticks(near.get_xticks(), [f"{t + window.start:.0f}" for t in near.get_xticks()])
    near.set_xlim(0, window.stop - window.start)
    return figure


def _strip_figure(truth: Tensor | None, samples: Samples, estimate: Tensor, title: str, score: str) -> Figure:
    chosen = np.unique(np.linspace(0, len(estimate) - 1, STRIP).round().astype(int))
    middle = tuple(n // 2 for n in estimate.shape[1:-3])  # a slice through axes that a strip cannot show
    sampled = sampled_picture(samples, estimate.shape[-1])
    rows = [] if truth is None else [(truth, title)]
    rows += [(sampled, f"samples ({known_share(samples)})"), (estimate, "reconstruction")]
    figure = Figure(figsize=(2.2 * len(chosen), 2.4 * len(rows) + 2.2), layout="constrained")
    grid = figure.add_gridspec(len(rows) + (truth is not None), len(chosen))
    for i, (signal, text) in enumerate(rows):
        for j, frame in enumerate(chosen):
            label = f"{text}\nframe {frame}" if j == 0 else f"frame {frame}"
            show_image(figure.add_subplot(grid[i, j]), signal[(int(frame), *middle)], label)
    figure.suptitle(score)
    if truth is not None:
        error = (estimate - truth).square().flatten(1).nanmean(1)
        ax = figure.add_subplot(grid[-1, :])
        ax.plot(-10 * np.log10(error.detach().cpu().numpy().clip(1e-12)))
        ax.set(xlabel="frame", ylabel="PSNR of the frame (dB)", xlim=(0, max(1, len(error) - 1)))
    return figure


def known_samples(samples: Samples) -> Float[Tensor, "*grid channels"]:
    """1 where a sample stands on the signal's grid, 0 elsewhere."""
    if isinstance(samples.geometry, ScatteredPoints):
        return (sampled_picture(samples, samples.channels) != 0.5).float()
    return samples.geometry.known(samples.channels).float()


def known_share(samples: Samples) -> str:
    """How much is known, in words."""
    if isinstance(samples.geometry, ScatteredPoints):
        return f"{len(samples.geometry.points)} points"
    return f"{100 * float(known_samples(samples).mean()):.3g} %"


def _busiest(row: Tensor, length: int) -> slice:
    """The window of a row in which it moves most."""
    if len(row) <= length:
        return slice(0, len(row))
    moves = row.nan_to_num().diff().square().cumsum(0)
    start = int((moves[length - 1 :] - moves[: -length + 1]).argmax())
    return slice(start, start + length)
