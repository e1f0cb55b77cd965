"""Figures of encodings: each ``show_…`` draws into an ``ax``; ``encoder_figure`` draws a page for each encoder."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

import torch
from jaxtyping import Float
from matplotlib.axes import Axes as Plot
from matplotlib.figure import SubFigure
from torch import Tensor

from coordnet import _checks
from coordnet.analysis import EncoderSummary, Sweep, similarity_map, summarize
from coordnet.analysis.summary import describe
from coordnet.encodings import ComplexEncoding, Encoding, JointEncoding, SimpleEncoding
from coordnet.encodings.encoders import Encoder, JointEncoder
from coordnet.plots.panels import Figure
from coordnet.sampling.axes import Axes, Axis

Curve = Sequence[float] | Sequence[int]
HEAT_MAP_SIDE = 64  # neighboring samples along each axis of a heat map
THEORY: dict[str, Any] = {"ls": "--", "color": "black", "lw": 1.0, "alpha": 0.7}


def show_stable_rank(
    ax: Plot, at: Curve, measured: Curve, theory: Curve | None = None, *, label: str, color: str
) -> Plot:
    """Draw measured stable ranks as a line, and the theory dashed, against a scale or a number of samples."""
    ax.set_ylabel("stable rank")
    return _show_curve(ax, at, measured, theory, label, color)


def show_distance(
    ax: Plot, delta: Curve, measured: Curve, theory: Curve | None = None, *, label: str, color: str
) -> Plot:
    """Draw the inner product of ψ(x) and ψ(x + δ) against δ: measured as a line, in closed form dashed."""
    ax.set(xlabel="distance δ", ylabel="similarity D(δ)")
    return _show_curve(ax, delta, measured, theory, label, color)


def _show_curve(ax: Plot, x: Curve, measured: Curve, theory: Curve | None, label: str, color: str) -> Plot:
    ax.plot(x, measured, color=color, lw=1.8, label=label)
    if theory is not None:
        ax.plot(x, theory, **THEORY)
    return ax


def show_theory_in_legend(ax: Plot) -> Plot:
    """Draw a legend with the curves' labels and one entry for the dashed lines."""
    ax.plot([], [], label="theory", **THEORY)
    ax.legend(fontsize=8)
    return ax


def show_similarity(ax: Plot, similarity: Float[Tensor, "height width"], title: str) -> Plot:
    """Draw a heat map of the similarity of one point of a grid to all others."""
    ax.imshow(similarity.cpu().numpy(), vmin=-1, vmax=1, cmap="RdBu_r", interpolation="nearest")
    ax.set_title(title, fontsize=9)
    ax.set(xticks=[], yticks=[])
    return ax


def show_similarities(
    panels: Iterable[Plot], encoding: Encoding, axes: Axes, nodes: Sequence[Sequence[int]], title: str = ""
) -> dict[str, float]:
    """Draw a heat map for each of the (row, column) ``nodes`` of a grid; return the lowest and the mean similarity."""
    maps = similarity_map(encoding, axes, torch.tensor(nodes), torch.float32)
    for ax, values, (row, column) in zip(panels, maps, nodes, strict=True):
        show_similarity(ax, values, f"{title}at ({row}, {column})")
    return {"lowest": float(maps.min()), "mean": float(maps.mean())}


def show_singular_values(ax: Plot, values: Curve) -> Plot:
    """Draw singular values in decreasing order, relative to the largest, on a logarithmic axis."""
    relative = [max(v / values[0], 1e-18) for v in values]
    ax.semilogy(range(1, len(values) + 1), relative, color="C0")
    ax.set(xlabel="index", ylabel="singular value / largest", ylim=(min(relative[-1] / 3, 0.03), 3))
    return ax


def show_spectrum(ax: Plot, frequencies: Curve, density: Curve, *, label: str, color: str, below: float) -> Plot:
    """Draw the density of an encoder's frequencies over DFT bins k, and the frequencies as ticks ``below`` zero."""
    ax.plot(range(len(density)), density, color=color, lw=1.8, label=label)
    ax.plot(frequencies, [-below] * len(frequencies), "|", color=color, ms=7, alpha=0.6)
    ax.set(xlabel="DFT bin k", ylabel="density of frequencies")
    return ax


def show_shares(ax: Plot, shares: Curve) -> Plot:
    """Draw the share of each DFT bin k in an encoder's spectrum."""
    ax.plot(range(len(shares)), shares, color="C0", lw=1.5)
    ax.set(xlabel="DFT bin k", ylabel="share of the spectrum", ylim=(0, 1.1 * max(shares)))
    return ax


def show_reconstruction(ax: Plot, values: Curve, position: int, *, label: str, color: str) -> Plot:
    """Draw the position reconstructed from an encoding as a line, and the true one as a dotted line."""
    ax.plot(range(len(values)), values, color=color, lw=1.5, label=label)
    ax.axvline(position, color="0.6", ls=":", lw=1)
    ax.set(xlabel="position t", ylabel="reconstructed δ")
    return ax


def encoder_figure(
    encoders: Mapping[str, tuple[Encoder | JointEncoder, Axes]], nodes: Sequence[tuple[int, int]] = ()
) -> tuple[Figure, dict[str, Any]]:
    """Draw a page for each encoder with its similarity, ranks, spectrum and heat maps; return the numbers too.

    ``encoders`` maps the label of each page to the encoder and the axes of its samples. ``nodes`` are the (row, column)
    positions whose heat maps are drawn, by default a quarter and half of the window. A position out of range raises a
    ``ValueError``.
    """
    figure = Figure(15, 6.4 * len(encoders))
    numbers: dict[str, Any] = {}
    pages = figure.subfigures(len(encoders), 1, squeeze=False)[:, 0]
    for page, (label, (encoder, axes)) in zip(pages, encoders.items(), strict=True):
        summary = summarize(encoder, axes)
        curves, maps = page.subfigures(1, 2, width_ratios=(2.4, 1))
        _draw_curves(curves, summary, axes[0])
        numbers[label] = {"samples": [a.count for a in axes], **asdict(summary)}
        page.suptitle(f"{label}\n{describe(numbers[label])}", fontsize=11)
        numbers[label]["heat maps"] = _draw_maps(maps, encoder, axes[0], nodes)
    return figure, numbers


def _draw_curves(part: SubFigure, found: EncoderSummary, axis: Axis) -> None:
    panels = part.subplots(2, 2 if found.spectrum is None else 3)
    spacings = [d / axis.spacing for d in found.distances]
    ax = show_distance(panels[0, 0], spacings, found.measured, found.similarity, label="measured", color="C0")
    show_theory_in_legend(ax).set_xlabel("distance δ in sample spacings")
    show_singular_values(panels[0, 1], found.singular_values)
    for ax, sweep in zip(panels[1], (found.over_samples, found.over_scale), strict=False):
        _draw_sweep(ax, sweep)
    if found.spectrum is not None and found.reconstruction is not None:
        show_shares(panels[0, 2], found.spectrum)
        middle = len(found.reconstruction) // 2
        show_reconstruction(panels[1, 2], found.reconstruction, middle, label="reconstructed", color="C0")


def _draw_sweep(ax: Plot, sweep: Sweep | None) -> None:
    if sweep is None:
        ax.set_axis_off()
        return
    theory = [math.nan if value is None else value for value in sweep.theory]
    show_stable_rank(ax, sweep.at, sweep.measured, theory, label="measured", color="C0")
    ax.set_xlabel("number of samples N" if sweep.name == "N" else sweep.name)
    if sweep.name != "N":
        ax.set_xscale("log")
    if max(sweep.measured) > 3 * min(sweep.measured):
        ax.set_yscale("log")
    else:
        ax.ticklabel_format(axis="y", useOffset=False)
    show_theory_in_legend(ax) if any(sweep.theory) else ax.legend(fontsize=8)


def _draw_maps(
    part: SubFigure, encoder: Encoder | JointEncoder, axis: Axis, nodes: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    side = min(axis.count, HEAT_MAP_SIDE)
    window = (Axis(side, axis.start, axis.spacing),) * 2
    nodes = nodes or [(side // 4, side // 4), (side // 2, side // 2)]
    for node in nodes:
        if not all(0 <= i < side for i in node):
            raise _checks.wrong("at", f"a row and a column below {side}", f"{node[0]},{node[1]}")
    encodings = encodings_of(encoder)
    panels = part.subplots(len(nodes), len(encodings), squeeze=False)
    numbers: dict[str, Any] = {"nodes": [list(node) for node in nodes], "side": side}
    for column, (kind, encoding) in zip(panels.T, encodings.items(), strict=True):
        numbers[kind] = show_similarities(column, encoding, window, nodes, f"{kind}, ")
    part.colorbar(panels[0, 0].images[0], ax=panels, shrink=0.7, label="cosine similarity")
    return numbers


def encodings_of(encoder: Encoder | JointEncoder) -> dict[str, Encoding]:
    """The encodings of the plane with this encoder, by their kind."""
    if encoder.joint:
        return {"joint": JointEncoding(cast(JointEncoder, encoder))}
    pair = [cast(Encoder, encoder)] * 2
    return {"simple": SimpleEncoding(pair), "complex": ComplexEncoding(pair)}
