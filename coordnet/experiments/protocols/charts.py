"""Figures of records: PSNR against seconds, noise, the sampled fraction, or an encoder's scale."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coordnet.experiments.protocols.records import Record
from coordnet.experiments.protocols.summary import Line, Section, lines, sections
from coordnet.experiments.protocols.tables import EXPERIMENTS

COLOURS = {"baseline": "0.45", "closed form": "C3", "gradient": "C0"}
MARKERS = {"baseline": "s", "closed form": "o", "gradient": "^"}


def draw(name: str, records: list[Record]) -> Figure:
    """The figure of an experiment."""
    experiment = EXPERIMENTS[name]
    if experiment.abscissa == "seconds":
        return _against_seconds(sections(records, experiment.score), experiment.score)
    size = max(record["cell"]["signal"]["size"] for record in records)
    found = [line for line in lines(records) if line.cell["signal"]["size"] == size]
    if experiment.abscissa == "noise":
        return _against(
            found, lambda cell: cell["noise"], "standard deviation of the noise", experiment.score
        )
    if experiment.abscissa == "fraction":
        return _against(found, _fraction, "fraction of pixels known", experiment.score)
    return _against_scale(found)


def _against_seconds(found: list[Section], measure: str) -> Figure:
    """A point for each method, numbered from the best on; a panel for each task."""
    rows = max(len(members) for _, _, members in found)
    figure = Figure(figsize=(12, max(5, 0.18 * rows) * len(found)), layout="constrained")
    for ax, (task, size, members) in zip(
        figure.subplots(len(found), squeeze=False)[:, 0], found, strict=True
    ):
        shown = [line for line in members if line.mean(measure) is not None]
        for number, line in enumerate(shown, 1):
            epochs = f", {line.cell['epochs']} epochs" if line.cell["epochs"] else ""
            label = f"{number}  {line.name}{epochs} ({len(line.scores(measure))})"
            x, y = max(line.total_seconds, 1e-5), line.mean(measure)
            ax.plot(x, y, MARKERS[line.group], color=COLOURS[line.group], ms=6, label=label)
            ax.annotate(str(number), (x, y), textcoords="offset points", xytext=(5, 3), fontsize=7)
        ax.set(
            xscale="log", xlabel="seconds", ylabel=_label(measure), title=f"{task}, {size} samples an axis"
        )
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7, title="method (signals)")
        ax.grid(alpha=0.3)
    return figure


def _against(
    found: list[Line], abscissa: Callable[[dict[str, Any]], float], label: str, measure: str
) -> Figure:
    """A curve for each method."""
    curves: dict[tuple[str, Any, str], list[tuple[float, float]]] = defaultdict(list)
    groups = {}
    for line in found:
        mean = line.mean(measure)
        if mean is not None:
            key = (line.name, line.cell["epochs"], line.cell["device"])
            curves[key].append((abscissa(line.cell), mean))
            groups[key] = line.group
    figure = Figure(figsize=(9, 5), layout="constrained")
    ax = figure.subplots()
    for key, points in curves.items():
        style = {"baseline": ":", "closed form": "-", "gradient": "--"}[groups[key]]
        name = key[0] + (f", {key[1]} epochs" if key[1] else "")
        ax.plot(*zip(*sorted(points), strict=True), style, marker=MARKERS[groups[key]], ms=4, label=name)
    ax.set(xscale="log", xlabel=label, ylabel=_label(measure))
    ax.legend(fontsize=7)
    ax.grid(alpha=0.3)
    return figure


def _against_scale(found: list[Line]) -> Figure:
    """Held-out and fitted PSNR against the measured stable rank, a panel for each head; splines as levels."""
    mine = [line for line in found if "encoder" in line.cell["method"]]
    heads = _by_head(mine)
    figure = Figure(figsize=(5.5 * max(1, len(heads)), 5), layout="constrained")
    panels = figure.subplots(1, max(1, len(heads)), squeeze=False, sharey=True, sharex=True)[0]
    levels = [(line.name, line.mean("held_out")) for line in found if line.group == "baseline"]
    encoders = sorted({line.cell["method"]["encoder"] for line in mine})
    for ax, (head, members) in zip(panels, heads.items(), strict=False):
        for i, encoder in enumerate(encoders):
            own = [line for line in members if line.cell["method"]["encoder"] == encoder]
            _scale_curve(ax, own, encoder, f"C{i}")
        for style, (name, level) in zip((":", "--", "-."), levels, strict=False):
            if level is not None:
                ax.axhline(level, ls=style, color="0.6", lw=1, label=name)
        ax.set(xscale="log", xlabel="stable rank, measured", ylabel="PSNR (dB)", title=head, ylim=(10, 60))
        ax.legend(fontsize=7)
        ax.grid(alpha=0.3)
    return figure


def _by_head(members: Iterable[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = defaultdict(list)
    for line in members:
        depth, epochs = line.cell["method"].get("depth"), line.cell["epochs"]
        name = "closed form" if depth is None else f"depth {depth}, {epochs} epochs"
        found[name].append(line)
    return found


def _scale_curve(ax: Axes, members: list[Line], name: str, colour: str) -> None:
    points = [
        (rank, held, fitted, line.spread_of_draws("held_out") or 0.0)
        for line in members
        if (rank := line.note("stable_rank")) is not None
        and (held := line.mean("held_out")) is not None
        and (fitted := line.mean("fitted")) is not None
    ]
    if not points:
        return
    rank, held, fitted, spread = zip(*sorted(points), strict=True)
    ax.errorbar(rank, held, spread, color=colour, marker="o", ms=4, capsize=2, label=f"{name}, held out")
    ax.plot(rank, fitted, "--", color=colour, lw=1, alpha=0.7, label=f"{name}, fitted")


def _fraction(cell: dict[str, Any]) -> float:
    return float(cell["pattern"].partition(":")[2])


def _label(measure: str) -> str:
    return "PSNR, held out (dB)" if measure == "held_out" else "PSNR against the clean signal (dB)"
