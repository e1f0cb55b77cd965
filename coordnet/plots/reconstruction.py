"""Figures of one reconstruction: each function draws what it is given, and none fits."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from coordnet.sampling.samples import Samples

STRIP = 6  # frames that stand for a video
MAX_PIXELS = 1600  # along a side of a panel
MAX_MARKS = 1000  # known samples of a row that are marked one by one
BUSY = 200  # samples in the detail of a row
DETAIL, MIN_DETAIL = 5, 16  # the ratio of a picture's sides to those of its detail, and the least side in pixels


def show_image(ax: Axes, image: Float[Tensor, "height width channels"], title: str) -> Axes:
    """Draw a picture of 1 to 4 channels in [0, 1]; alpha is laid on white."""
    pixels = shrunk(image.detach()).clamp(0, 1).cpu().float()
    if pixels.shape[-1] in (2, 4):
        pixels = pixels[..., :-1] * pixels[..., -1:] + 1 - pixels[..., -1:]
    gray = pixels.shape[-1] != 3
    shown = pixels[..., 0] if gray else pixels
    ax.imshow(shown.numpy(), cmap="gray" if gray else None, vmin=0, vmax=1, interpolation="nearest")
    ax.set_title(title)
    ax.set_axis_off()
    return ax


def shrunk(image: Float[Tensor, "height width channels"]) -> Float[Tensor, "h w channels"]:
    """The picture averaged over blocks of pixels where it is larger than a panel can show."""
    block = -(-max(image.shape[:2]) // MAX_PIXELS)
    if block == 1:
        return image
    stack = image.movedim(-1, 0).unsqueeze(0).float()
    return torch.nn.functional.avg_pool2d(stack, block, ceil_mode=True)[0].movedim(0, -1)


def show_error(ax: Axes, error: Float[Tensor, "height width"], title: str, *, top: float | None = None) -> Axes:
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
    ax: Axes, truth: Float[Tensor, " n"], estimate: Float[Tensor, " n"], known: Bool[Tensor, " n"], title: str
) -> Axes:
    """Draw a row of samples: the truth, the reconstruction, and the known samples marked."""
    at = np.arange(len(truth))
    held = np.flatnonzero(known.cpu().numpy())
    ax.plot(at, truth.cpu(), color="0.7", lw=2.5, label="signal")
    ax.plot(at, estimate.detach().cpu(), color="C0", lw=1, label="reconstruction")
    if len(held) <= MAX_MARKS:
        ax.plot(at[held], truth.cpu().numpy()[held], "o", color="C3", ms=3, label="known")
    ax.set_title(title)
    ax.legend(loc="upper right", fontsize=8)
    return ax


def show_part(ax: Axes, part: slice) -> Axes:
    """Number the ticks of a part of a row as in the whole row."""
    ax.set_xticks(ax.get_xticks(), [f"{t + part.start:.0f}" for t in ax.get_xticks()])
    ax.set_xlim(0, max(1, part.stop - part.start - 1))
    return ax


def show_strip(axes: list[Axes], clip: Float[Tensor, "frames *grid channels"], title: str) -> None:
    """Draw frames of a clip side by side, the first below the title; further axes are cut in their middle."""
    clip = drawable(clip)
    for ax, frame in zip(axes, frames_of(clip, len(axes)), strict=True):
        show_image(ax, clip[frame], f"{title}\nframe {frame}" if ax is axes[0] else f"frame {frame}")


def drawable(signal: Float[Tensor, "*grid channels"]) -> Float[Tensor, "*shown channels"]:
    """The signal with at most three axes: those between the first and the last two are cut in their middle."""
    return signal[(slice(None), *(n // 2 for n in signal.shape[1:-3]))]


def frames_of(clip: Float[Tensor, "frames *rest"], count: int = STRIP) -> list[int]:
    """The indices of at most ``count`` evenly spaced frames, with the first and the last."""
    return np.unique(np.linspace(0, len(clip) - 1, count).round().astype(int)).tolist()


def sampled_picture(samples: Samples, channels: int) -> Float[Tensor, "*grid channels"]:
    """The samples on the signal's grid, gray (0.5) where nothing is known."""
    picture = torch.full((*samples.grid, channels), 0.5)
    samples.geometry.put(samples.values.cpu().float(), picture)
    return picture


def known_samples(samples: Samples) -> Bool[Tensor, "*grid channels"]:
    """Where a sample stands on the signal's grid; scattered points stand at the nearest node."""
    values = torch.full((*samples.grid, samples.channels), torch.nan)
    samples.geometry.put(samples.values.cpu().float(), values)
    return ~values.isnan()


def known_share(samples: Samples) -> str:
    """The amount of samples in words: the number of scattered points, or the known share of a lattice."""
    if samples.geometry.is_scattered:
        return f"{len(samples.values)} points"
    return f"{100 * float(known_samples(samples).double().mean()):.3g} %"


def score_by_frame(ax: Axes, errors: dict[str, Float[Tensor, " frames"]]) -> Axes:
    """Draw the PSNR of every frame from mean squared errors, by the name of the estimate."""
    for name, error in errors.items():
        ax.plot(-10 * np.log10(error.detach().cpu().numpy().clip(1e-12)), lw=1.2, label=name)
    last = max((len(error) for error in errors.values()), default=0) - 1
    ax.set(xlabel="frame", ylabel="PSNR of the frame (dB)", xlim=(0, max(1, last)))
    return ax


def most(values: Float[Tensor, "*grid"]) -> tuple[slice, ...]:
    """The window of a row or a picture whose sum is largest: 200 samples, or a fifth of each side."""
    row = values.ndim == 1
    sizes = [min(n, BUSY) if row else max(min(n, MIN_DETAIL), n // DETAIL) for n in values.shape]
    steps = [max(1, s // 8) for s in sizes]
    pool = torch.nn.functional.avg_pool1d if row else torch.nn.functional.avg_pool2d
    means = pool(values[None, None], sizes, steps)[0, 0]
    at = np.unravel_index(int(means.argmax()), means.shape)
    return tuple(slice(int(k) * step, int(k) * step + n) for k, step, n in zip(at, steps, sizes, strict=True))


def reconstruction_figure(
    truth: Float[Tensor, "*grid channels"] | None,
    samples: Samples,
    estimate: Float[Tensor, "*grid channels"],
    *,
    title: str,
    score: str,
) -> Figure:
    """The signal, the samples, the reconstruction and its errors, as fits the number of axes.

    Without the truth the panels that need it are left out. ``title`` and ``score`` are the titles of the signal's panel
    and of the reconstruction's.
    """
    dims = len(samples.grid)
    draw = _row_figure if dims == 1 else _image_figure if dims == 2 else _strip_figure
    return draw(truth, samples, estimate, title, score)


def _image_figure(truth: Tensor | None, samples: Samples, estimate: Tensor, title: str, score: str) -> Figure:
    panels = [] if truth is None else [(truth, title)]
    panels += [(sampled_picture(samples, estimate.shape[-1]), f"samples ({known_share(samples)})")]
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
    (window,) = most(torch.diff(shown[:, 0].nan_to_num(), prepend=shown[:1, 0].nan_to_num()).square())
    for ax, part, text in ((whole, slice(None), f"{title}: {score}"), (near, window, "its busiest part")):
        show_row(ax, shown[part, 0], estimate[part, 0], known[part, 0], text)
    show_part(near, window)
    return figure


def _strip_figure(truth: Tensor | None, samples: Samples, estimate: Tensor, title: str, score: str) -> Figure:
    columns = len(frames_of(estimate))
    rows = [] if truth is None else [(truth, title)]
    rows += [(sampled_picture(samples, estimate.shape[-1]), f"samples ({known_share(samples)})")]
    rows += [(estimate, "reconstruction")]
    figure = Figure(figsize=(2.2 * columns, 2.4 * len(rows) + 2.2), layout="constrained")
    grid = figure.add_gridspec(len(rows) + (truth is not None), columns)
    for i, (signal, text) in enumerate(rows):
        show_strip([figure.add_subplot(grid[i, j]) for j in range(columns)], signal, text)
    figure.suptitle(score)
    if truth is not None:
        error = (estimate - truth).square().flatten(1).nanmean(1)
        score_by_frame(figure.add_subplot(grid[-1, :]), {"": error})
    return figure
