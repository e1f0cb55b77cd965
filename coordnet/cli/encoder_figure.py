"""Encoders measured against their theory: a page of curves and heat maps each, and the numbers."""

import math
from typing import Any

import torch
from matplotlib.figure import Figure, SubFigure

from coordnet import _checks
from coordnet.analysis import EncoderSummary, similarity_map, summarise
from coordnet.cli.specs import describe_encoder, parse_encoder
from coordnet.encodings import ComplexEncoding, Encoding, FourierEncoding, JointEncoding, SimpleEncoding
from coordnet.encodings.encoders import Encoder, JointEncoder
from coordnet.plots.encodings import (
    show_distance,
    show_reconstruction,
    show_shares,
    show_similarity,
    show_singular_values,
    show_stable_rank,
    show_theory_in_legend,
)
from coordnet.sampling.axes import Axes, Axis

SAMPLES, LATTICE = 256, 32  # along an axis, of encoders of one axis and of joint ones
WINDOW = 64  # neighbouring samples along each axis of a heat map
Node = tuple[int, int]


def encoder_figure(
    texts: list[str], samples: int | None, nodes: list[Node], seed: int
) -> tuple[Figure, dict[str, Any]]:
    """A page for each encoder: similarity, singular values, stable ranks, spectrum, position given back, heat maps.

    Parameters
    ----------
    texts : list of str
        Encoders, as in ``gaussian:sigma=0.64px``.
    samples : int, optional
        Along an axis; ``SAMPLES``, or ``LATTICE`` on both axes of a joint encoder, if not given.
    nodes : list of (row, column)
        The positions whose heat maps are drawn; a quarter into the window and its middle if there are none.
    seed : int
        Of encoders that draw.

    Raises
    ------
    ValueError
        If an encoder, a number or a position is out of range.
    """
    figure = Figure(figsize=(15, 6.4 * len(texts)), layout="constrained")
    numbers: dict[str, Any] = {}
    for page, text in zip(figure.subfigures(len(texts), 1, squeeze=False)[:, 0], texts, strict=True):
        encoder, axes = _made(text, samples, seed)
        found = summarise(encoder, axes)
        label = describe_encoder(text, _encodings(encoder, axes)[0][1])
        curves, maps = page.subfigures(1, 2, width_ratios=(2.4, 1))
        _draw_curves(curves, found, axes[0])
        heat = _draw_maps(maps, encoder, axes, nodes)
        page.suptitle(f"{label}\n{told(found.record())}", fontsize=11)
        numbers[label] = {"samples": [a.count for a in axes], **found.record(), "heat maps": heat}
    return figure, numbers


def told(found: dict[str, Any]) -> str:
    """Ranks and condition in words."""
    theory = "" if found["theory"] is None else f" (theory {found['theory']:.4g})"
    condition = math.inf if found["condition"] is None else found["condition"]
    matched = found["matched_sigma"]
    partner = "" if matched is None else f", matched σ {matched:.4g}"
    return f"stable rank {found['stable_rank']:.4g}{theory}, rank {found['rank']}, condition {condition:.2g}{partner}"


def _made(text: str, samples: int | None, seed: int) -> tuple[Encoder | JointEncoder, Axes]:
    choice = parse_encoder(text)
    family, options = choice.family, choice.options
    if issubclass(family, FourierEncoding):
        raise _checks.wrong("encoder", "another than fourier, which has no matrix and no scale", repr(text))
    generator = torch.Generator().manual_seed(seed)
    joint = issubclass(family, JointEncoder)
    axis = Axis(_checks.integer("samples", samples or (LATTICE if joint else SAMPLES), 2))
    if issubclass(family, JointEncoder):
        return family.like((axis, axis), generator=generator, **options), (axis, axis)
    return family.like(axis, generator=generator, **options), (axis,)


def _encodings(encoder: Encoder | JointEncoder, axes: Axes) -> list[tuple[str, Encoding]]:
    if isinstance(encoder, JointEncoder):
        return [("joint", JointEncoding(encoder))]
    return [("simple", SimpleEncoding([encoder] * 2)), ("complex", ComplexEncoding([encoder] * 2))]


def _draw_curves(part: SubFigure, found: EncoderSummary, axis: Axis) -> None:
    joint = found.spectrum is None
    panels = part.subplots(2, 2 if joint else 3)
    spacings = [d / axis.spacing for d in found.distances]
    panel = show_distance(
        panels[0, 0], spacings, found.measured, found.similarity, label="measured", colour="C0"
    )
    panel.set_xlabel("distance δ in sample spacings")
    show_theory_in_legend(panel)
    show_singular_values(panels[0, 1], found.singular_values)
    for panel, sweep in zip(panels[1], (found.over_samples, found.over_scale), strict=False):
        if sweep is None:
            panel.set_axis_off()
            continue
        dashed = [math.nan if t is None else t for t in sweep.theory]
        theory = None if all(map(math.isnan, dashed)) else dashed
        show_stable_rank(panel, sweep.at, sweep.measured, theory, label="measured", colour="C0")
        panel.set(xlabel="number of samples N" if sweep.name == "N" else sweep.name)
        if sweep.name != "N":
            panel.set_xscale("log")
        if max(sweep.measured) > 3 * min(sweep.measured):
            panel.set_yscale("log")
        else:
            panel.ticklabel_format(axis="y", useOffset=False)
        panel.legend(fontsize=8) if theory is None else show_theory_in_legend(panel)
    if found.spectrum is not None and found.reconstruction is not None:
        show_shares(panels[0, 2], found.spectrum)
        middle = len(found.reconstruction) // 2
        show_reconstruction(panels[1, 2], found.reconstruction, middle, label="given back", colour="C0")


def _draw_maps(
    part: SubFigure, encoder: Encoder | JointEncoder, axes: Axes, nodes: list[Node]
) -> dict[str, Any]:
    side = min(axes[0].count, WINDOW)
    window = (Axis(side, axes[0].start, axes[0].spacing),) * 2
    nodes = nodes or [(side // 4, side // 4), (side // 2, side // 2)]
    for node in nodes:
        if not all(0 <= i < side for i in node):
            raise _checks.wrong("at", f"a row and a column below {side}", f"{node[0]},{node[1]}")
    rows = _encodings(encoder, axes)
    panels = part.subplots(len(nodes), len(rows), squeeze=False)
    numbers: dict[str, Any] = {"nodes": [list(node) for node in nodes], "side": side}
    for column, (kind, encoding) in zip(panels.T, rows, strict=True):
        maps = similarity_map(encoding, window, torch.tensor(nodes), torch.float32)
        numbers[kind] = {"lowest": float(maps.min()), "mean": float(maps.mean())}
        for ax, values, node in zip(column, maps, nodes, strict=True):
            show_similarity(ax, values, f"{kind}, at ({node[0]}, {node[1]})")
    part.colorbar(panels[0, 0].images[0], ax=panels, shrink=0.7, label="cosine similarity")
    return numbers
