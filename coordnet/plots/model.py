"""Figures and numbers of a saved model: the spectrum that it learned, or its encoding."""

from typing import Any

import torch
from jaxtyping import Float
from matplotlib.axes import Axes as Plot
from torch import Tensor

from coordnet.analysis import condition_number, linear_fit_rank, singular_values, stable_rank
from coordnet.analysis.summary import finite
from coordnet.encodings import FourierEncoding
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.encodings import HEAT_MAP_SIDE, show_similarities, show_singular_values
from coordnet.plots.panels import Drawn, Figure
from coordnet.sampling.axes import Axis

RCOND = 1e-5  # singular values of a rendered channel below this fraction of the largest count as zero


def model_figure(model: Reconstruction) -> Drawn:
    """Draw the learned spectrum of an adaptive prior, channel by channel, or the encoding of any other model.

    The numbers of the model are returned too. For a Fourier encoding without a learned spectrum, the spectrum of the
    fitted signal is drawn.
    """
    numbers: dict[str, Any] = {
        "grid": list(model.lengths),
        "channels": model.channels,
        "parameters": model.network.parameter_count,
        "report": model.report.as_dict(),
    }
    if len(model.lengths) == 2:
        numbers["rank of each channel"] = list(linear_fit_rank(model, RCOND))
    if "penalty" in model.learned:
        variance = 10 * torch.log10(1 / model.learned["penalty"][0].clamp(min=1e-6))
        numbers["variance_db"] = {"least": float(variance.min()), "most": float(variance.max())}
        return _channels_figure(variance, model.network.encoding.signed, "rotated channel"), numbers
    if isinstance(model.network.encoding, FourierEncoding):
        signal = model.render().movedim(-1, 0)
        energy = torch.fft.rfftn(signal, dim=tuple(range(1, signal.ndim)), norm="forward").abs().square()
        energy = 10 * torch.log10(energy / signal.square().mean().clamp(min=1e-30) + 1e-12)
        return _channels_figure(energy, True, "channel", label="energy (dB, against the signal's)"), numbers
    figure, more = _encoding_figure(model)
    return figure, {**numbers, **more}


def _channels_figure(spectra: Float[Tensor, "channels *modes"], signed: bool, word: str, **options: Any) -> Figure:
    """Draw the spectrum of each channel side by side."""
    figure = Figure(4.6 * len(spectra), 4.2)
    for c, ax in enumerate(figure.subplots(1, len(spectra), squeeze=False)[0]):
        show_variance(ax, plane(spectra[c], signed), f"{word} {c + 1} of {len(spectra)}", signed=signed, **options)
    return figure


def _encoding_figure(model: Reconstruction) -> Drawn:
    """Draw the singular values of the encoding's matrices, and in two dimensions the similarities of two positions."""
    encoding, window = model.network.encoding, tuple(Axis(min(n, HEAT_MAP_SIDE), 0.0, 1 / n) for n in model.lengths)
    matrices = encoding.matrices(tuple(Axis(n) for n in model.lengths) if encoding.is_factored else window)
    nodes = [tuple(a.count // part for a in window) for part in (4, 2)] if len(window) == 2 else []
    figure = Figure(4.2 * (len(matrices) + len(nodes)), 3.8)
    panels = figure.subplots(1, len(matrices) + len(nodes), squeeze=False)[0]
    for j, (ax, matrix) in enumerate(zip(panels, matrices, strict=False)):
        show_singular_values(ax, singular_values(matrix).tolist()).set_title(f"matrix {j + 1}", fontsize=9)
    if nodes:
        show_similarities(panels[len(matrices) :], encoding, window, nodes, "similarity, ")
        figure.colorbar(panels[-1].images[0], ax=panels[-1], shrink=0.8)
    measured = [{"stable_rank": stable_rank(a), "condition": finite(condition_number(a))} for a in matrices]
    return figure, {"matrices": measured}


def show_variance(
    ax: Plot,
    variance: Float[Tensor, "..."],
    title: str,
    *,
    signed: bool,
    label: str = "variance (dB, against the noise)",
) -> Plot:
    """Draw learned variances, or what the label says, over one or two axes of modes; signed ones around zero."""
    values = variance.cpu().numpy()
    low = -(values.shape[-1] // 2) if signed else 0
    mode = "signed frequency" if signed else "mode"
    if values.ndim == 1:
        ax.plot(range(low, low + len(values)), values, lw=0.6)
        ax.set(xlabel=mode, ylabel=label, title=title)
        return ax
    bottom = -(values.shape[0] // 2) if signed else 0
    span = (low, low + values.shape[1], bottom + values.shape[0], bottom)
    drawn = ax.imshow(values, cmap="magma", extent=span, aspect="auto")
    ax.set(xlabel=f"horizontal {mode}", ylabel=f"vertical {mode}", title=title)
    ax.figure.colorbar(drawn, ax=ax, label=label, fraction=0.046, pad=0.02)
    return ax


def plane(variance: Float[Tensor, "..."], signed: bool) -> Float[Tensor, "..."]:
    """Return the spectrum over its last two axes, or its only one, with all other axes at frequency zero.

    Signed frequencies are ordered with zero in the middle: the stored half spectrum is completed by its mirror image.
    """
    variance = variance[(0,) * (variance.ndim - 2)]
    if not signed:
        return variance
    mirrored = variance[..., 1:].flip(-1)
    if variance.ndim == 2:
        mirrored = mirrored.flip(0).roll(1, 0)
        variance, mirrored = (torch.fft.fftshift(part, dim=0) for part in (variance, mirrored))
    return torch.cat([mirrored, variance], dim=-1)
