"""Figures of records: PSNR against seconds, noise, the sampled fraction, or an encoder's scale."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from coordnet.bench.protocols.records import Record
from coordnet.bench.protocols.summary import EXACT, Line, Section, lines, our_best, placed, sections
from coordnet.bench.protocols.tables import EXPERIMENTS

COLOURS = {"baseline": "0.45", "closed form": "C3", "gradient": "C0"}
MARKERS = {"baseline": "s", "closed form": "o", "gradient": "^"}
FEWER = "what ran on fewer signals stands where it would by what it gains on them over the best closed form"


def draw(name: str, records: list[Record]) -> Figure:
    """The figure of an experiment."""
    experiment = EXPERIMENTS[name]
    if experiment.abscissa == "seconds":
        return _against_seconds(sections(records, experiment.score), experiment.score)
    size = max(record["cell"]["signal"]["size"] for record in records)
    records = [record for record in records if record["cell"]["signal"]["size"] == size]
    found = sections(records, experiment.score)
    if experiment.abscissa == "noise":
        return _against(
            found, lambda cell: cell["noise"], "standard deviation of the noise", experiment.score
        )
    if experiment.abscissa == "fraction":
        return _against(found, _fraction, "fraction of pixels known", experiment.score)
    return _against_scale(lines(records))


def _against_seconds(found: list[Section], measure: str) -> Figure:
    """A point for each method, numbered from the best on; a panel for each task."""
    rows = max(len(members) for _, _, members in found)
    figure = Figure(figsize=(12, max(5, 0.18 * rows) * len(found)), layout="constrained")
    panels = figure.subplots(len(found), squeeze=False)[:, 0]
    for ax, (task, size, members) in zip(panels, found, strict=True):
        best = our_best(members, measure)
        shown = [line for line in members if line.mean(measure) is not None]
        numbers = []
        for number, line in enumerate(shown, 1):
            epochs = f", {line.cell['epochs']} epochs" if line.cell["epochs"] else ""
            label = f"{number}  {line.name}{epochs} ({len(line.scores(measure))})"
            x, y = max(line.total_seconds, 1e-5), placed(line, best, measure)
            ax.plot(
                x, y, MARKERS[line.group], color=COLOURS[line.group], mfc=_fill(line, best), ms=6, label=label
            )
            numbers.append(ax.annotate(str(number), (x, y), (5, 3), textcoords="offset points", fontsize=7))
        ax.set(
            xscale="log", xlabel="seconds", ylabel=_label(measure), title=f"{task}, {size} samples an axis"
        )
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7, title="method (signals)")
        ax.grid(alpha=0.3)
        _spread_out(figure, ax, numbers)
    figure.supxlabel(FEWER, fontsize=8)
    return figure


def _fill(line: Line, best: Line | None) -> str:
    """A marker's filling: none where the line has fewer signals than our best."""
    fewer = best is not None and line.signals < best.signals
    return "none" if fewer else COLOURS[line.group]


def _spread_out(figure: Figure, ax: Axes, numbers: list[Annotation]) -> None:
    """Move numbers up that would stand on others."""
    figure.draw_without_rendering()
    taken: list[tuple[float, float]] = []
    for number in sorted(numbers, key=lambda n: n.xy[1]):
        x, y = ax.transData.transform(number.xy)
        height = y
        while any(abs(x - a) < 14 and abs(height - b) < 10 for a, b in taken):
            height += 2
        taken.append((x, height))
        number.set_position((5, 3 + (height - y) * 72 / figure.dpi))


def _against(
    found: list[Section], abscissa: Callable[[dict[str, Any]], float], label: str, measure: str
) -> Figure:
    """A curve for each method, with open markers that get smaller, so that those of equal curves show."""
    curves: dict[tuple[str, Any, str], list[tuple[float, float]]] = defaultdict(list)
    groups = {}
    for _, _, members in found:
        best = our_best(members, measure)
        for line in members:
            height = placed(line, best, measure)
            if height is not None:
                key = (line.name, line.cell["epochs"], line.cell["device"])
                curves[key].append((abscissa(line.cell), height))
                groups[key] = line.group
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    ax = figure.subplots()
    for i, (key, points) in enumerate(sorted(curves.items(), key=lambda item: groups[item[0]])):
        style = {"baseline": ":", "closed form": "-", "gradient": "--"}[groups[key]]
        name = key[0] + (f", {key[1]} epochs" if key[1] else "")
        ax.plot(
            *zip(*sorted(points), strict=True),
            style,
            marker=MARKERS[groups[key]],
            ms=max(3, 8 - i / 2),
            mfc="none",
            label=name,
        )
    places = sorted({x for points in curves.values() for x, _ in points})
    ax.set(xscale="log", xlabel=label, ylabel=_label(measure))
    ax.set_xticks(places, [f"{x:g}" for x in places])
    ax.minorticks_off()
    ax.legend(fontsize=7)
    ax.grid(alpha=0.3)
    figure.supxlabel(FEWER, fontsize=8)
    return figure


def _against_scale(found: list[Line]) -> Figure:
    """Held-out and fitted PSNR against the measured stable rank, a column for each head; splines as levels."""
    mine = [line for line in found if "encoder" in line.cell["method"]]
    heads = _by_head(mine)
    columns = max(1, len(heads))
    figure = Figure(figsize=(4.6 * columns, 8), layout="constrained")
    panels = figure.subplots(2, columns, squeeze=False, sharex=True, sharey="row")
    encoders = sorted({line.cell["method"]["encoder"] for line in mine})
    for (held, fitted), (head, members) in zip(panels.T, heads.items(), strict=False):
        signals = {signal for line in members for signal in line.scores("held_out")}
        for i, encoder in enumerate(encoders):
            own = [line for line in members if line.cell["method"]["encoder"] == encoder]
            _scale_curve(held, own, "held_out", encoder, f"C{i}")
            _scale_curve(fitted, own, "fitted", encoder, f"C{i}")
        rivals = [line for line in found if line.group == "baseline"]
        for style, line in zip((":", "--", "-."), rivals, strict=False):
            level = line.mean("held_out", signals)
            if level is not None:
                held.axhline(level, ls=style, color="0.5", lw=1, label=line.name)
        held.set(title=f"{head}, {len(signals)} signals")
        fitted.set(xscale="log", xlabel="stable rank, measured")
        for ax in (held, fitted):
            ax.legend(fontsize=7)
            ax.grid(alpha=0.3)
    panels[0, 0].set_ylabel(_label("held_out"))
    panels[1, 0].set_ylabel(f"PSNR, fitted (dB; {EXACT:.0f}: exact)")
    return figure


def _by_head(members: Iterable[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = defaultdict(list)
    for line in members:
        depth, epochs = line.cell["method"].get("depth"), line.cell["epochs"]
        name = "closed form" if depth is None else f"depth {depth}, {epochs} epochs"
        found[name].append(line)
    return found


def _scale_curve(ax: Axes, members: list[Line], measure: str, name: str, colour: str) -> None:
    """A curve in the order of the encoder's scale."""
    points = [
        (line.cell["method"]["matched"], rank, min(score, EXACT), line.spread_of_draws(measure) or 0.0)
        for line in members
        if (rank := line.note("stable_rank")) is not None and (score := line.mean(measure)) is not None
    ]
    if points:
        _, rank, score, spread = zip(*sorted(points), strict=True)
        ax.errorbar(rank, score, spread, color=colour, marker="o", ms=4, capsize=2, label=name)


def _fraction(cell: dict[str, Any]) -> float:
    return float(cell["pattern"].partition(":")[2])


def _label(measure: str) -> str:
    return "PSNR, held out (dB)" if measure == "held_out" else "PSNR against the clean signal (dB)"
