"""Tables and figures of an experiment's records: methods are compared on the signals that both have.

Every number is a record's. Figures have decibels against seconds, noise, the sampled fraction, or stable rank.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from coordnet.bench.experiment import Experiment
from coordnet.bench.records import Record, failed

Frame = Any  # a DataFrame or a Series, whose own types are too narrow for pyright
EXACT_DECIBELS = 100.0  # dB: an error of 1e-5, where the rounding of float32 begins
CLOSE = 0.005  # dB: a difference that two decimals do not show
NUMBER = re.compile(r"[-+]?\d[\d.e+-]*")
HEADS = {"held_out": "PSNR held out", "clean": "PSNR against the clean signal"}
SECTION, DEPTH = ["cell.task", "cell.signal.size"], "cell.method.head.depth"
MACHINE = ["machine.gpu", "machine.threads", "machine.commit"]
PARTS, LINE = ["encode", "fit", "render"], ["method", "epochs", "device"]
CSV = (  # columns of the comma-separated values, with their names here where these differ
    "task=cell.task size=cell.signal.size method=name group=cell.method.group encoder=cell.method.layout.encoder "
    f"scale=cell.method.layout.scale depth={DEPTH} epochs=cell.epochs device=cell.device gpu=machine.gpu "
    "threads=machine.threads signals seeds failed reason held_out held_out_spread draws_spread=held_out_draws fitted "
    "clean clean_spread ssim gain_over_our_best=gain encode_s=encode fit_s=fit render_s=render parameters stable_rank "
    "peak_mib=notes.peak_mib printed_psnr printed_seconds printed_parameters commit=machine.commit"
).split()
USED = (
    "scores.held_out scores.fitted scores.clean scores.ssim seconds.encode seconds.fit seconds.render notes.parameters "
    f"notes.stable_rank notes.peak_mib reason warnings cell.method.layout.encoder {DEPTH}"
).split()
PREFACE = (
    "PSNR in dB, data range 1, estimates clipped to [0, 1]; mean ± standard deviation over the signals of a row; "
    "`exact` from 100 dB on, where float32's rounding begins. Rows are sorted by their gain over the closed form with "
    "the highest mean (our best), on the signals that both have. Seconds are medians after a run to warm up; gradient "
    "fits, and other libraries' methods with a time limit, are timed once. `fit` includes encoding and factorizing, "
    "and rendering if that column is empty; `× its seconds` is the ratio of fit and render to our best's on the same "
    "device. Every row but those of other libraries fits the mean of each channel separately. The papers' scales are "
    "kept in pixels: a width σ given for 512 pixels is 512 σ / N for N."
)
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


def flat(records: Sequence[Record]) -> Frame:
    """Return a row for each record, its nested keys joined by dots, with its ``signal`` and its ``line`` of tables."""
    frame: Frame = pd.json_normalize(list(records))
    frame = frame.reindex(columns=frame.columns.union(USED, sort=False))
    frame["signal"] = [json.dumps(r["cell"].get("signal"), sort_keys=True) for r in records]
    frame["line"] = [json.dumps([r["cell"][key] for key in LINE], sort_keys=True) for r in records]
    numbers = frame.columns[frame.columns.str.startswith(("scores.", "seconds."))]
    frame[numbers] = frame[numbers].astype(float)
    frame["total"] = frame[["seconds.fit", "seconds.render"]].sum(axis=1).where(frame["status"] == "done")
    return frame


def by_signal(frame: Frame, values: str) -> Frame:
    """Return the mean over the seeds, a row for each signal and a column for each line."""
    return frame.pivot_table(values, "signal", "line", sort=False).reindex(columns=frame["line"].unique())


@dataclass(frozen=True)
class Section:
    """The lines of one task at one size, the best first."""

    task: str
    size: int
    lines: Frame
    best: str | None  # the line of the closed form with the highest mean, among those on the most signals


def sections(experiment: Experiment, records: Sequence[Record]) -> list[Section]:
    """Return a section for each task and size, large sizes first."""
    groups = flat(records).groupby(SECTION, sort=False)
    parts = [_section(experiment, str(task), int(size), part) for (task, size), part in groups]
    return sorted(parts, key=lambda section: -section.size)


def _section(experiment: Experiment, task: str, size: int, frame: Frame) -> Section:
    lines = _lines(experiment, frame)
    scores, totals = by_signal(frame, f"scores.{experiment.measure}"), by_signal(frame, "total")
    lines["mean"], lines["spread"], lines["scored"] = scores.mean(), scores.std(), scores.count()
    ours = lines[(lines["cell.method.group"] == "closed form") & lines["mean"].notna()]
    best = str(ours.loc[ours["scored"] == ours["scored"].max(), "mean"].idxmax()) if len(ours) else None
    ahead = scores.sub(scores[best], axis=0) if best else scores * float("nan")
    lines["gain"], lines["common"], lines["total"] = ahead.mean(), ahead.count(), totals.median()
    lines["times"] = _times(lines, totals, best)
    # the mean that a line would have on all signals of the best, by its gain on those that it has
    lines["placed"] = (lines["mean"].get(best, float("nan")) + lines["gain"]).fillna(lines["mean"])
    lines = lines.sort_values(["gain", "mean"], ascending=False, kind="stable", na_position="last")
    return Section(task, size, lines, best)


def _times(lines: Frame, totals: Frame, best: str | None) -> list[float]:
    """Return the ratio of each line's seconds to those of the best closed form on the same device."""
    same = lines.index[lines["name"] == lines["name"].get(best)]
    of_device = {lines["cell.device"][line]: line for line in same}
    pairs = ((line, of_device.get(device)) for line, device in lines["cell.device"].items())
    return [float("nan") if ours is None else (totals[line] / totals[ours]).median() for line, ours in pairs]


def _lines(experiment: Experiment, frame: Frame) -> Frame:
    """Return the means and medians of each line, beside what its records have in common."""
    grouped, done = frame.groupby("line", sort=False), frame[frame["status"] == "done"]
    each, lines = done.groupby("line", sort=False), grouped.first()
    lines["name"] = lines["cell.method.name"]
    lines["signals"], lines["failed"] = grouped["signal"].nunique(), grouped["reason"].count()
    counts = each[["signal", "cell.seed"]].nunique().reindex(lines.index, fill_value=0)
    lines["done"], lines["seeds"] = counts["signal"], counts["cell.seed"]
    lines["reason"] = grouped["reason"].agg(lambda reasons: "; ".join(reasons.dropna().unique()))
    for score in ("held_out", "fitted", "clean"):
        table = by_signal(done, f"scores.{score}")
        draws = done.groupby(["signal", "line"])[f"scores.{score}"].std()
        lines[score], lines[f"{score}_spread"] = table.mean(), table.std()
        lines[f"{score}_draws"] = draws.groupby("line").mean()
    least = each["scores.fitted"].min().reindex(lines.index)
    lines["exact"] = ~(least < EXACT_DECIBELS) & (lines["done"] > 0)  # a missing number is an error of zero
    lines["ssim"], lines["stable_rank"] = each["scores.ssim"].mean(), each["notes.stable_rank"].mean()
    lines[PARTS] = each[[f"seconds.{part}" for part in PARTS]].median()
    lines["parameters"] = each["notes.parameters"].quantile(interpolation="lower").astype("Int64")
    lines[MACHINE] = each[MACHINE].last()
    trained = lines["cell.method.group"] == "gradient"
    lines.loc[trained, DEPTH] = lines.loc[trained, DEPTH].fillna(0)  # a linear head
    printed = {(task.name, m.name): m.printed for task, methods in experiment.blocks.items() for m in methods}
    as_printed = [printed.get(key, ("", "", "")) for key in zip(lines["cell.task"], lines["name"], strict=True)]
    lines[["printed_psnr", "printed_seconds", "printed_parameters"]] = as_printed
    lines["notes.peak_mib"] = each["notes.peak_mib"].median()
    return lines


def values(found: Sequence[Section]) -> str:
    """Return a line for each method of some sections as comma-separated values, with numbers in full."""
    lines: Frame = pd.concat([section.lines for section in found])
    lines = lines.astype(dict.fromkeys((DEPTH, "cell.epochs", "machine.threads"), "Int64"))
    table = lines.reindex(columns=[column.split("=")[-1] for column in CSV])
    return table.set_axis([column.split("=")[0] for column in CSV], axis=1).to_csv(index=False, lineterminator="\n")


def markdown(table: Frame) -> str:
    """Return a table of texts in Markdown."""
    rows = [list(table.columns), ["---"] * len(table.columns), *table.values.tolist()]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def failures(records: Sequence[Record], name: Callable[[Record], str]) -> list[str]:
    """Return the parts of a report that say why cells failed, each reason with a name of its cell; none without."""
    rows = dict.fromkeys(f"- {name(r['cell'])}: {r['reason']}" for r in records if failed(r))
    return ["## What failed", "\n".join(rows)] if rows else []


def text(value: Any, form: str = ".2f") -> str:
    """Return a number as text; nothing if it is missing."""
    return "" if pd.isna(value) else format(value, form)


def report(experiment: Experiment, records: Sequence[Record], found: Sequence[Section]) -> str:
    """Return the report of an experiment in Markdown, from its records and their sections."""
    parts = [f"# {experiment.title}", PREFACE, _origin(experiment, records)]
    if len(found) > 2:
        parts.append(_overview(experiment, found))
    for section in found:
        kinds = " and ".join(sorted(f"{kind}s" for kind in section.lines["cell.signal.kind"].unique()))
        parts.append(f"## {section.task}: {kinds} of at most {section.size} samples an axis")
        parts += [markdown(_shown(experiment, section)), " ".join(_verdict(experiment, section))]
    parts += [f"![{experiment.title}]({experiment.name}.png)", *_complaints(records, found)]
    return "\n\n".join(parts) + "\n"


def _origin(experiment: Experiment, records: Sequence[Record]) -> str:
    machines = [r["machine"] for r in records]
    places = {f"{m['gpu'] or 'processor'}, {m['threads']} threads, PyTorch {m['torch']}" for m in machines}
    commits = sorted({m["commit"] or "no checkout" for m in machines})
    seconds = sum(value or 0.0 for r in records if not failed(r) for value in r["seconds"].values())
    took = f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.1f} minutes"
    return (
        f"The protocol trains networks for {experiment.epochs} epochs. Measured on: {'; '.join(sorted(places))}. "
        f"Fits and renders of all cells together: {took}. Commits: {', '.join(commits)}."
    )


def _shown(experiment: Experiment, section: Section) -> Frame:
    """Return the texts of a section's table."""
    lines = section.lines
    table: Frame = pd.DataFrame({"method": lines["name"]})
    means = lines["mean"].map(text) + ["" if pd.isna(value) else f" ± {value:.2f}" for value in lines["spread"]]
    table[HEADS[experiment.measure]] = means.where(lines["done"] > 0, "failed")
    table["on our best"] = [text(value, "+.2f") for value in lines["gain"]]
    if lines["clean"].isna().all():
        table["fitted"] = lines["fitted"].map(text).mask(lines["exact"], "exact")
    table["SSIM"] = [text(value, ".3f") for value in lines["ssim"]]
    if lines["stable_rank"].notna().any():
        table["stable rank"] = [text(value, ".1f") for value in lines["stable_rank"]]
    for part in PARTS:
        table[f"{part} s"] = [text(s, ".1e" if s < 1e-3 else ".3g") for s in lines[part]]
    table["× its seconds"] = [text(ratio, ",.0f" if ratio >= 10 else ".2g") for ratio in lines["times"]]
    table["parameters"] = [text(count, ",") for count in lines["parameters"]]
    fewer = lines["done"].astype(str) + " of " + lines["signals"].astype(str)
    if lines["notes.peak_mib"].notna().any():
        table["peak MiB"] = [text(peak, ",.0f") for peak in lines["notes.peak_mib"]]
    table["signals"] = lines["signals"].astype(str).where(lines["done"] == lines["signals"], fewer)
    table["seeds"] = lines["seeds"]
    table["epochs"] = [text(epochs, ".0f") for epochs in lines["cell.epochs"]]
    table["device"] = lines["cell.device"]
    if lines["printed_psnr"].any():
        table["printed PSNR (other data)"] = lines["printed_psnr"]
        table["printed s (other GPU)"] = lines["printed_seconds"]
        table["printed parameters"] = lines["printed_parameters"]
    return table


def _overview(experiment: Experiment, found: Sequence[Section]) -> str:
    """Return methods by tasks, with the number of signals where it is smaller than elsewhere."""
    most = max(int(section.lines["scored"].max()) for section in found)
    several, columns = len({section.size for section in found}) > 1, {}
    for section in found:
        lines = section.lines.assign(epochs=section.lines["cell.epochs"].map(lambda n: text(n, ".0f")))
        lines["text"] = [text(m) + (f" ({n:.0f})" if 0 < n < most else "") for m, n in lines[["mean", "scored"]].values]
        name = f"{section.task}, {section.size}²" if several else section.task
        columns[name] = lines.set_index(["name", "epochs", "cell.device"])["text"]
    table: Frame = pd.concat(columns, axis=1).fillna("").reset_index(["name", "epochs"])
    head = f"{HEADS[experiment.measure]}, over {most} signals, or as many as stand in brackets:"
    return f"{head}\n\n{markdown(table.rename(columns={'name': 'method'}))}"


def _verdict(experiment: Experiment, section: Section) -> Iterator[str]:
    """Yield where the best closed form wins and where it loses, and the methods that it was not compared with."""
    lines, best = section.lines, section.best
    closed = lines["cell.method.group"] == "closed form"
    if best is None:
        yield "No closed form has a score here."
    else:
        first = f"**{lines['name'][best]}**, {text(lines['mean'][best])} dB"
        yield f"The best of {closed.sum()} closed forms, by this score, is {first}."
        lost = lines.loc[~closed & (lines["gain"] > CLOSE), ["name", "gain", "common"]]
        texts = [f"{name} by {gain:.2f} dB (on {n})" for name, gain, n in lost.values]
        yield f"**It loses to** {'; '.join(texts)}." if texts else "No other row is above it."
    asked = (methods for task, methods in experiment.blocks.items() if task.name == section.task)
    missing = [method.name for method in next(asked, ()) if method.name not in set(lines["name"])]
    if missing:
        yield f"Not run: {'; '.join(missing)}."


def _complaints(records: Sequence[Record], found: Sequence[Section]) -> Iterator[str]:
    """Yield the failures and the warnings, each text once for a method and task with its number of cells."""
    places = {(s.task, s.size, line): (i, j) for i, s in enumerate(found) for j, line in enumerate(s.lines.index)}
    frame = flat(records).explode("warnings")
    frame["place"] = [places[key] for key in frame[[*SECTION, "line"]].itertuples(index=False, name=None)]
    for head, column in (("What failed", "reason"), ("Warnings", "warnings")):
        texts = frame.dropna(subset=column).sort_values("place", kind="stable")
        groups = texts.groupby(["place", texts[column].astype(str).str.replace(NUMBER, "#", regex=True)], sort=False)
        firsts = groups[["cell.method.name", "cell.task", column]].first().assign(n=groups.size())
        rows = [f"- {name} ({task}), {n} cells: {message}" for name, task, message, n in firsts.values]
        if rows:
            yield f"## {head}\n\n" + "\n".join(rows)


def draw(experiment: Experiment, found: Sequence[Section]) -> Figure:
    """Draw the sections of an experiment: a panel for each task against seconds, or curves of the largest signals."""
    label = f"{HEADS[experiment.measure]} (dB)"
    if experiment.abscissa == "seconds":
        return _against_seconds(found, label)
    lines: Frame = pd.concat([section.lines for section in found if section.size == found[0].size])
    lines = lines[lines["placed"].notna()]
    title, place = ABSCISSAS[experiment.abscissa]
    lines["x"] = place(lines)
    by_encoder, by_name = experiment.abscissa in BY_ENCODER, experiment.abscissa == "epochs"
    lines["curve"] = lines["name"] if by_name else lines.apply(_encoder_and_head if by_encoder else _name, axis=1)
    # A method may have run on several devices, whose scores differ by rounding: the one with most signals is drawn.
    most = lines.groupby(["cell.task", "name", "cell.epochs", "x"], dropna=False)["scored"].transform("max")
    lines = lines[lines["scored"] == most]
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
            device = "" if line["cell.device"] == "cpu" else f", {line['cell.device']}"
            style |= {"alpha": 0.5 if line["signals"] < most else 1.0}
            style |= {"label": f"{_name(line)}{device} ({line['scored']})"}
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
