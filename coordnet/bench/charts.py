"""Figures of an experiment's records: decibels against seconds, noise, the sampled fraction, or an encoder's scale."""

from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coordnet.bench.records import Record
from coordnet.bench.study import Experiment
from coordnet.bench.tables import DEPTH, EXACT, Frame, Section, sections

COLORS = {"baseline": "0.45", "closed form": "C3", "gradient": "C0"}
MARKERS = {"baseline": "s", "closed form": "o", "gradient": "^"}
STYLES = {"baseline": ":", "closed form": "-", "gradient": "--"}
FEWER = "a method on fewer signals is drawn where it would be by its gain on them over the best closed form"
HEADS = {"held_out": "PSNR, held out (dB)", "clean": "PSNR against the clean signal (dB)"}
ABSCISSAS: dict[str, tuple[str, Callable[[Frame], float]]] = {
    "noise": ("standard deviation of the noise", lambda line: float(line["cell.noise"])),
    "fraction": ("fraction of pixels known", lambda line: float(line["cell.pattern"].partition(":")[2])),
}


def draw(experiment: Experiment, records: Sequence[Record]) -> Figure:
    """Draw the figure of an experiment; only records of the largest size if it is not against seconds."""
    found = sections(experiment, records)
    if experiment.abscissa == "seconds":
        return _against_seconds(found, HEADS[experiment.measure])
    largest = [section for section in found if section.size == found[0].size]
    if experiment.abscissa == "scale":
        return _against_rank(largest[0])
    return _against(largest, *ABSCISSAS[experiment.abscissa], HEADS[experiment.measure])


def _against_seconds(found: Sequence[Section], label: str) -> Figure:
    """Draw a number for each method, from the best on, with a panel for each task; pale where signals are fewer."""
    rows = max(len(section.lines) for section in found)
    figure = Figure(figsize=(12, max(5, 0.18 * rows) * len(found)), layout="constrained")
    for ax, section in zip(figure.subplots(len(found), squeeze=False)[:, 0], found, strict=True):
        title = f"{section.task}, {section.size} samples an axis"
        ax.set(xscale="log", xlabel="seconds", ylabel=label, title=title)
        lines = section.lines[section.lines["mean"].notna()]
        most = lines["signals"].max() if section.best is None else lines["signals"][section.best]
        for place, (_, line) in enumerate(lines.iterrows(), 1):
            style = {"marker": f"${place}$", "color": COLORS[line["cell.method.group"]], "linestyle": "none"}
            style |= {"alpha": 0.5 if line["signals"] < most else 1.0, "label": f"{_name(line)} ({line['scored']})"}
            ax.plot(max(line["total"], 1e-5), line["placed"], ms=4 + 4 * len(str(place)), **style)
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7, title="method (signals)")
        ax.grid(alpha=0.3)
    figure.supxlabel(FEWER, fontsize=8)
    return figure


def _name(line: Frame) -> str:
    epochs = line["cell.epochs"]
    return line["name"] + ("" if pd.isna(epochs) else f", {epochs:.0f} epochs")


def _against(found: Sequence[Section], title: str, place: Callable[[Frame], float], label: str) -> Figure:
    """Draw a curve for each method, with hollow markers that get smaller so that equal curves show."""
    lines: Frame = pd.concat([section.lines for section in found])
    lines = lines[lines["placed"].notna()]
    lines["x"] = [place(line) for _, line in lines.iterrows()]
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    ax = figure.subplots()
    curves = [curve.sort_values("x") for _, curve in lines.groupby(level=0, sort=False)]
    for i, curve in enumerate(sorted(curves, key=lambda curve: curve["cell.method.group"].iloc[0])):
        group = curve["cell.method.group"].iloc[0]
        style = {"marker": MARKERS[group], "ms": max(3, 8 - i / 2), "mfc": "none", "label": _name(curve.iloc[0])}
        ax.plot(curve["x"], curve["placed"], STYLES[group], **style)
    places = sorted(lines["x"].unique())
    ax.set(xscale="log", xlabel=title, ylabel=label)
    ax.set_xticks(places, [f"{x:g}" for x in places])
    ax.minorticks_off()
    ax.legend(fontsize=7)
    ax.grid(alpha=0.3)
    figure.supxlabel(FEWER, fontsize=8)
    return figure


def _against_rank(section: Section) -> Figure:
    """Draw held-out and fitted PSNR against the measured stable rank, a column for each head; splines as levels."""
    lines = section.lines
    ours, baselines = (lines[lines["cell.method.group"] != "baseline"], lines[lines["cell.method.group"] == "baseline"])
    heads = dict(list(ours.groupby(ours.apply(_head, axis=1)))) if len(ours) else {}
    figure = Figure(figsize=(4.6 * max(1, len(heads)), 8), layout="constrained")
    panels = figure.subplots(2, max(1, len(heads)), squeeze=False, sharex=True, sharey="row")
    for (held, fitted), (head, members) in zip(panels.T, heads.items(), strict=False):
        signals = section.scores[members.index].dropna(how="all").index
        for i, (encoder, curve) in enumerate(members.groupby("cell.method.layout.encoder")):
            _rank_curve(held, curve, "held_out", str(encoder), f"C{i}")
            _rank_curve(fitted, curve, "fitted", str(encoder), f"C{i}")
        for style, (index, line) in zip((":", "--", "-."), baselines.iterrows(), strict=False):
            level = section.scores.loc[signals, index].mean()
            held.axhline(level, ls=style, color="0.5", lw=1, label=line["name"])
        held.set(title=f"{head}, {len(signals)} signals")
        fitted.set(xscale="log", xlabel="stable rank, measured")
        for ax in (held, fitted):
            ax.legend(fontsize=7)
            ax.grid(alpha=0.3)
    panels[0, 0].set_ylabel(HEADS["held_out"])
    panels[1, 0].set_ylabel(f"PSNR, fitted (dB; {EXACT:.0f}: exact)")
    return figure


def _head(line: Frame) -> str:
    depth = line[DEPTH]
    return "closed form" if pd.isna(depth) else f"depth {depth:.0f}, {line['cell.epochs']:.0f} epochs"


def _rank_curve(ax: Axes, lines: Frame, measure: str, name: str, color: str) -> None:
    """Draw a curve in the order of the encoder's scale, with the spread over seeds."""
    curve = lines[lines["stable_rank"].notna() & lines[measure].notna()].sort_values("cell.method.layout.scale")
    if len(curve):
        score, spread = curve[measure].clip(upper=EXACT), curve[f"{measure}_draws"].fillna(0.0)
        ax.errorbar(curve["stable_rank"], score, spread, color=color, marker="o", ms=4, capsize=2, label=name)
