"""Tables of records in Markdown and CSV; everything comes from the records."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from coordnet.bench.protocols import charts
from coordnet.bench.protocols.records import NAME, Record, read
from coordnet.bench.protocols.summary import EXACT, Line, Section, gain, our_best, sections, times
from coordnet.bench.protocols.tables import EXPERIMENTS
from coordnet.media import atomic_path

NUMBER = re.compile(r"[-+]?\d[\d.e+-]*")
CLOSE = 0.005  # dB: what a table of two decimals does not show
MEASURE = {"held_out": "PSNR held out", "clean": "PSNR against the clean signal"}
CSV_COLUMNS = (
    *("task", "size", "method", "group", "encoder", "scale", "depth", "epochs", "device", "gpu", "threads"),
    *(
        "signals",
        "seeds",
        "failed",
        "reason",
        "held_out",
        "held_out_spread",
        "draws_spread",
        "fitted",
        "clean",
    ),
    *(
        "clean_spread",
        "ssim",
        "gain_over_our_best",
        "encode_s",
        "fit_s",
        "render_s",
        "parameters",
        "stable_rank",
    ),
    *("printed_psnr", "printed_seconds", "commit"),
)


def write(name: str, folder: Path) -> list[Path]:
    """Write ``NAME.md``, ``NAME.csv`` and ``NAME.png`` beside the records; their paths.

    Raises
    ------
    ValueError
        If there are no records.
    """
    records = _records(name, folder)
    figure = charts.draw(name, records)
    paths = [folder / f"{name}{suffix}" for suffix in (".md", ".csv", ".png")]
    with atomic_path(paths[0], force=True) as path:
        path.write_text(text(name, folder), encoding="utf-8")
    with atomic_path(paths[1], force=True) as path:
        path.write_text(table(name, records), encoding="utf-8")
    with atomic_path(paths[2], force=True) as path:
        figure.savefig(path, dpi=110)
    return paths


def text(name: str, folder: Path) -> str:
    """The report in Markdown."""
    records = _records(name, folder)
    experiment = EXPERIMENTS[name]
    found = sections(records, experiment.score)
    parts = [f"# {experiment.title}", _preface(records)]
    if len(found) > 2:
        parts.append(_pivot(found, experiment.score))
    for section in found:
        parts += [
            f"## {_heading(section)}",
            _markdown(section, experiment.score),
            _verdict(section, experiment.score),
        ]
    parts += [f"![{experiment.title}]({name}.png)", _failures(found)]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(name: str, records: list[Record]) -> str:
    """A line for each method as comma-separated values, numbers in full."""
    measure = EXPERIMENTS[name].score
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for _, _, lines in sections(records, measure):
        best = our_best(lines, measure)
        for line in lines:
            writer.writerow(_values(line, gain(line, best, measure)))
    return out.getvalue()


def _values(line: Line, gained: tuple[float, int] | None) -> dict[str, object]:
    cell, method = line.cell, line.cell["method"]
    machine = (line.records[-1:] or ({"machine": {}},))[0]["machine"]
    return {
        "task": cell["task"],
        "size": cell["signal"]["size"],
        **{key: method.get(key) for key in ("group", "encoder", "scale", "depth")},
        "method": line.name,
        "epochs": cell["epochs"],
        "device": cell["device"],
        **{key: machine.get(key) for key in ("gpu", "threads", "commit")},
        "signals": line.signals,
        "seeds": line.seeds,
        "failed": len(line.reasons),
        "reason": "; ".join(dict.fromkeys(line.reasons)),
        **{key: line.mean(key) for key in ("held_out", "fitted", "clean")},
        "held_out_spread": line.spread("held_out"),
        "clean_spread": line.spread("clean"),
        "draws_spread": line.spread_of_draws("held_out"),
        "ssim": line.ssim,
        "gain_over_our_best": None if gained is None else gained[0],
        **{f"{part}_s": line.seconds(part) for part in ("encode", "fit", "render")},
        "parameters": line.parameters,
        "stable_rank": line.note("stable_rank"),
        "printed_psnr": line.printed[0],
        "printed_seconds": line.printed[1],
    }


def _records(name: str, folder: Path) -> list[Record]:
    records = [r for r in read(folder) if r["cell"]["experiment"] == name]
    if not records:
        raise ValueError(
            f"{folder / NAME}: expected records of {name}, found none; run coordnet bench {name} first"
        )
    return records


def _preface(records: list[Record]) -> str:
    commits = sorted({r["machine"]["commit"] or "no checkout" for r in records})
    machines = {
        (r["machine"]["gpu"] or "processor", r["machine"]["threads"], r["machine"]["torch"]) for r in records
    }
    where = "; ".join(
        f"{device}, {threads} threads, PyTorch {torch}" for device, threads, torch in sorted(machines)
    )
    return (
        "PSNR in dB, data range 1, estimates clipped to [0, 1]; mean ± standard deviation over the signals of a row; "
        f"`exact` from {EXACT:.0f} dB on, where float32's rounding begins. "
        "Rows are sorted by what they gain over the closed form of the highest mean, on the signals that both have. "
        "Seconds are medians, warmed up; gradient fits, and other libraries' methods that have a time limit, are timed "
        "once. `fit` encodes and factorises, and renders too where that column is empty. Every row fits each "
        "channel's mean apart, but those of other libraries. Scales that are the papers' are kept in pixels: a width σ "
        "given for 512 pixels is 512 σ / N for N.\n\n"
        f"Measured on: {where}. Fits and renders of all cells together: {_hours(records)}. "
        f"Commits: {', '.join(commits)}."
    )


def _hours(records: list[Record]) -> str:
    parts = [r["seconds"].values() for r in records if r["status"] == "done"]
    seconds = sum(value or 0.0 for part in parts for value in part)
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.1f} minutes"


def _heading(section: Section) -> str:
    task, size, lines = section
    kinds = sorted({f"{r['cell']['signal']['kind']}s" for line in lines for r in line.records})
    return f"{task}: {' and '.join(kinds)} of at most {size} samples an axis"


def _markdown(section: Section, measure: str) -> str:
    lines = section[2]
    best = our_best(lines, measure)
    shown = any(any(line.printed) for line in lines)
    noisy = any(line.mean("clean") is not None for line in lines)
    ranked = any(line.note("stable_rank") is not None for line in lines)
    head = ["method", MEASURE[measure], "on our best", *([] if noisy else ["fitted"]), "SSIM"]
    head += ["stable rank"] if ranked else []
    head += ["encode s", "fit s", "render s", "parameters", "signals", "seeds", "epochs", "device"]
    head += ["printed PSNR (other data)", "printed s (other GPU)"] if shown else []
    rows = [_row(line, best, measure, noisy, ranked, shown) for line in lines]
    caption = _caption(lines)
    return "\n".join([_join(head), _join(["---"] * len(head)), *map(_join, rows)]) + f"\n\n{caption}"


def _row(line: Line, best: Line | None, measure: str, noisy: bool, ranked: bool, shown: bool) -> list[str]:
    gained, mean, spread = gain(line, best, measure), line.mean(measure), line.spread(measure)
    score = "failed" if not line.records else _number(mean) + ("" if spread is None else f" ± {spread:.2f}")
    seconds = [_seconds(line.seconds(part)) for part in ("encode", "fit", "render")]
    parameters = "" if line.parameters is None else f"{line.parameters:,}"
    done = len({r["cell"]["signal"]["name"] + r["cell"]["signal"]["kind"] for r in line.records})
    signals = str(done) if done == line.signals else f"{done} of {line.signals}"
    row = [line.name, score, "" if gained is None else f"{gained[0]:+.2f}"]
    fitted = "exact" if line.exact else _number(line.mean("fitted"))
    row += [*([] if noisy else [fitted]), _number(line.ssim, 3)]
    row += [_number(line.note("stable_rank"), 1)] if ranked else []
    row += [*seconds, parameters]
    row += [signals, str(line.seeds), str(line.cell["epochs"] or ""), line.cell["device"]]
    return row + (list(line.printed) if shown else [])


def _caption(lines: list[Line]) -> str:
    """How many signals and epochs the rows had."""
    counts: dict[str, list[Line]] = {}
    for line in lines:
        counts.setdefault(line.kind, []).append(line)
    most = max(line.signals for line in lines)
    parts = []
    for kind, members in counts.items():
        signals = sorted({line.signals for line in members})
        epochs = sorted({line.cell["epochs"] for line in members if line.cell["epochs"]})
        of = "" if signals == [most] else f" of {most}"
        parts.append(
            f"{kind}: {_span(signals)}{of} signals" + (f", {_span(epochs)} epochs" if epochs else "")
        )
    usual = EXPERIMENTS[lines[0].cell["experiment"]].epochs
    fewer = any(line.cell["epochs"] not in (None, usual) for line in lines)
    note = f" The protocol has {usual} epochs; rows with fewer are not the protocol's." if fewer else ""
    return f"*{'; '.join(parts)}.{note}*"


def _span(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _verdict(section: Section, measure: str) -> str:
    """Where our best row wins and where it loses, and what it was not held against."""
    lines = section[2]
    best = our_best(lines, measure)
    if best is None:
        return f"No closed form has a score here. {_missing(lines)}".strip()
    others = [
        (line, found)
        for line in lines
        if line.group != "closed form" and (found := gain(line, best, measure))
    ]
    lost = [f"{line.name} by {g:.2f} dB (on {n})" for line, (g, n) in others if g > CLOSE]
    level = [line.name for line, (g, _) in others if abs(g) <= CLOSE]
    count = sum(line.group == "closed form" for line in lines)
    said = [
        f"The best of {count} closed forms, by this score, is **{best.name}**, {_number(best.mean(measure))} dB."
    ]
    said.append(f"**It loses to** {'; '.join(lost)}." if lost else "No other row is above it.")
    if level:
        said.append(f"Level with it: {', '.join(level)}.")
    said += _against_trained([(line, found) for line, found in others if line.trained], best)
    return " ".join([*said, _missing(lines)]).strip()


def _against_trained(trained: list[tuple[Line, tuple[float, int]]], best: Line) -> list[str]:
    """The best of the trained rows, of them the best MLP, and the quickest of them."""
    if not trained:
        return []
    first = max(trained, key=lambda item: item[1][0])
    networks = [item for item in trained if item[0].kind.startswith("MLP")]
    shown = [("trained row", first)]
    if networks and first not in networks:
        shown.append(("MLP among them", max(networks, key=lambda item: item[1][0])))
    said = [
        f"The best {what}, *{line.name}* ({line.cell['epochs']} epochs, on {n}), is {g:+.2f} dB from it there "
        f"in {times(line, best):,.0f} times its seconds{_across(line, best)}."
        for what, (line, (g, n)) in shown
    ]
    least = min(times(line, best) for line, _ in trained)
    return [*said, f"Every trained row takes {least:,.0f} times its seconds or more."]


def _missing(lines: list[Line]) -> str:
    """The methods of the protocol that have no record here."""
    cell = lines[0].cell
    blocks = EXPERIMENTS[cell["experiment"]].blocks
    asked = [m.name for task, methods in blocks if task.name == cell["task"] for m in methods]
    there = {line.name for line in lines}
    missing = [name for name in asked if name not in there]
    return f"Not run: {', '.join(missing)}." if missing else ""


def _across(line: Line, other: Line) -> str:
    devices = (line.cell["device"], other.cell["device"])
    return "" if devices[0] == devices[1] else f" ({devices[0]} against {devices[1]})"


def _pivot(found: list[Section], measure: str) -> str:
    """Methods by tasks, where there are many tasks; how many signals stands where there are fewer than at best."""
    tasks = [(task, size) for task, size, _ in found]
    cells: dict[tuple[str, object, str], dict[tuple[str, int], Line]] = {}
    for task, size, lines in found:
        for line in lines:
            key = (line.name, line.cell["epochs"], line.cell["device"])
            cells.setdefault(key, {})[task, size] = line
    most = max(len(line.scores(measure)) for row in cells.values() for line in row.values())

    def cell(line: Line | None) -> str:
        if line is None:
            return ""
        count = len(line.scores(measure))
        return _number(line.mean(measure)) + (f" ({count})" if 0 < count < most else "")

    sizes = len({size for _, size in tasks}) > 1
    head = ["method", "epochs", *(f"{task}, {size}²" if sizes else task for task, size in tasks)]
    rows = [[k[0], str(k[1] or ""), *(cell(row.get(t)) for t in tasks)] for k, row in cells.items()]
    title = f"{MEASURE[measure]}, over {most} signals, or as many as stand in brackets:\n"
    return "\n".join([title, _join(head), _join(["---"] * len(head)), *map(_join, rows)])


def _failures(found: list[Section]) -> str:
    failed = [(line, task, reason) for task, _, lines in found for line in lines for reason in line.reasons]
    warned = [(line, task, text) for task, _, lines in found for line in lines for text in line.warnings]
    parts = [("## What failed", failed), ("## What was warned of", warned)]
    return "\n\n".join(f"{head}\n\n" + "\n".join(_counted(told)) for head, told in parts if told)


def _counted(told: list[tuple[Line, str, str]]) -> Iterator[str]:
    """A line for each method, task and text, numbers in the text aside, with how many cells it was said of."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for line, task, text in told:
        groups.setdefault((line.name, task, NUMBER.sub("#", text)), []).append(text)
    for (name, task, _), texts in groups.items():
        yield f"- {name} ({task}), {len(texts)} cells: {texts[0]}"


def _join(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value >= 1e-3 else f"{value:.1e}"
