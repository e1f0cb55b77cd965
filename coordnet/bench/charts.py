"""Figures of an experiment's records: decibels against seconds, noise, the sampled fraction, or stable rank."""

from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.figure import Figure

from coordnet.bench.experiment import Experiment
from coordnet.bench.record_tables import DEPTH, HEADS, Frame, Section

COLORS = {"baseline": "0.45", "closed form": "C3", "gradient": "C0"}
MARKERS = {"baseline": "s", "closed form": "o", "gradient": "^"}
STYLES = {"baseline": ":", "closed form": "-", "gradient": "--"}
DEPTHS = {0: ":", 1: "--", 2: "-."}  # styles of networks by their hidden layers, where colors are those of encoders
BY_ENCODER = ("rank", "features")  # abscissas of curves along which the scale or the size of an encoder varies
FEWER = "a method on fewer signals is drawn where it would be by its gain on them over the best closed form"
ABSCISSAS: dict[str, tuple[str, Callable[[Frame], Frame]]] = {
    "noise": ("standard deviation of the noise", lambda lines: lines["cell.noise"]),
    "fraction": ("fraction of pixels known", lambda lines: lines["cell.pattern"].str.split(":").str[1].astype(float)),
    "features": ("features K", lambda lines: lines["cell.method.layout.features"]),
    "epochs": ("epochs", lambda lines: lines["cell.epochs"]),
    "rank": ("stable rank, measured", lambda lines: lines["stable_rank"]),
}


def draw(experiment: Experiment, found: Sequence[Section]) -> Figure:
    """Draw the sections of an experiment: a panel for each task against seconds, or curves of the largest signals.

    The hollow markers of the curves get smaller so that equal curves show; methods without an x are levels.
    """
    label = f"{HEADS[experiment.measure]} (dB)"
    if experiment.abscissa == "seconds":
        return _against_seconds(found, label)
    lines: Frame = pd.concat([section.lines for section in found if section.size == found[0].size])
    lines = lines[lines["placed"].notna()]
    title, place = ABSCISSAS[experiment.abscissa]
    lines["x"] = place(lines)
    by_encoder, by_name = experiment.abscissa in BY_ENCODER, experiment.abscissa == "epochs"
    lines["curve"] = lines["name"] if by_name else lines.apply(_encoder_and_head if by_encoder else _name, axis=1)
    encoders = list(lines["cell.method.layout.encoder"].dropna().unique()) if by_encoder else []
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    ax = figure.subplots()
    curves = [curve.sort_values("x") for _, curve in lines.groupby("curve", sort=False)]
    for i, curve in enumerate(sorted(curves, key=lambda curve: curve["cell.method.group"].iloc[0])):
        first = curve.iloc[0]
        if pd.isna(first["x"]):
            ax.axhline(first["placed"], ls=(0, (i + 1, 2)), color=COLORS["baseline"], label=first["curve"])
            continue
        group = first["cell.method.group"]
        style = {"marker": MARKERS[group], "ms": max(3, 8 - i / 2), "mfc": "none", "label": first["curve"]}
        style["linestyle"] = STYLES[group]
        if by_encoder:
            style["color"] = f"C{encoders.index(first['cell.method.layout.encoder'])}"
            style["linestyle"] = DEPTHS.get(first[DEPTH], STYLES[group])
        ax.plot(curve["x"], curve["placed"], **style)
    ax.set(xscale="log", xlabel=title, ylabel=label)
    places = sorted(lines["x"].dropna().unique())
    if len(places) < 10:
        ax.set_xticks(places, [f"{x:g}" for x in places])
        ax.minorticks_off()
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7)
    ax.grid(alpha=0.3)
    figure.supxlabel(FEWER, fontsize=8)
    return figure


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


def _encoder_and_head(line: Frame) -> str:
    """Return the label of a curve, whose methods differ only in the scale of their encoder."""
    if line["cell.method.group"] == "baseline":
        return line["name"]
    depth = "closed form" if pd.isna(line[DEPTH]) else f"depth {line[DEPTH]:.0f}, {line['cell.epochs']:.0f} epochs"
    return f"{line['cell.method.layout.encoder']}, {depth}"
