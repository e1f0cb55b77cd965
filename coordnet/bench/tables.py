"""Tables of an experiment in Markdown and CSV; every number comes from the records."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from coordnet.bench.records import Record
from coordnet.bench.study import Experiment
from coordnet.bench.summary import EXACT, SECTION, Section, flat, sections

CLOSE = 0.005  # dB: a difference that two decimals do not show
NUMBER = re.compile(r"[-+]?\d[\d.e+-]*")
HEADS = {"held_out": "PSNR held out", "clean": "PSNR against the clean signal"}
CSV = {
    **{"task": "cell.task", "size": "cell.signal.size", "method": "name", "group": "cell.method.group"},
    **{"encoder": "cell.method.layout.encoder", "scale": "cell.method.layout.scale"},
    "depth": "cell.method.head.depth",
    **{"epochs": "cell.epochs", "device": "cell.device", "gpu": "machine.gpu", "threads": "machine.threads"},
    **{key: key for key in ("signals", "seeds", "failed", "reason", "held_out", "held_out_spread")},
    "draws_spread": "held_out_draws",
    **{key: key for key in ("fitted", "clean", "clean_spread", "ssim")},
    **{"gain_over_our_best": "gain", "encode_s": "encode", "fit_s": "fit", "render_s": "render"},
    **{key: key for key in ("parameters", "stable_rank", "printed_psnr", "printed_seconds")},
    "commit": "machine.commit",
}


def values(experiment: Experiment, records: Sequence[Record]) -> str:
    """Return a line for each method as comma-separated values, with numbers in full."""
    lines = pd.concat([section.lines for section in sections(experiment, records)])
    for name in ("cell.method.head.depth", "cell.epochs", "machine.threads"):
        lines[name] = lines[name].astype("Int64")
    table = lines.reindex(columns=list(CSV.values()))
    return table.set_axis(list(CSV), axis=1).to_csv(index=False, lineterminator="\n")


def markdown(table: pd.DataFrame) -> str:
    """Return a table of texts in Markdown."""
    rows = [list(table.columns), ["---"] * len(table.columns), *table.values.tolist()]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def number(value: Any, digits: int = 2) -> str:
    """Return a number as text; nothing if it is missing."""
    return "" if pd.isna(value) else f"{value:.{digits}f}"


def duration(value: Any) -> str:
    """Return seconds as text with three significant digits; nothing if they are missing."""
    return "" if pd.isna(value) else f"{value:.3g}" if value >= 1e-3 else f"{value:.1e}"


def report(experiment: Experiment, records: Sequence[Record]) -> str:
    """Return the report of an experiment in Markdown."""
    found = sections(experiment, records)
    parts = [f"# {experiment.title}", _preface(records)]
    if len(found) > 2:
        parts.append(_overview(experiment, found))
    for section in found:
        kinds = " and ".join(sorted(f"{kind}s" for kind in section.lines["cell.signal.kind"].unique()))
        parts.append(f"## {section.task}: {kinds} of at most {section.size} samples an axis")
        parts += [markdown(_shown(experiment, section)), _caption(experiment, section)]
        parts.append(" ".join(_verdict(experiment, section)))
    parts += [f"![{experiment.title}]({experiment.name}.png)", *_complaints(records, found)]
    return "\n\n".join(parts) + "\n"


def _preface(records: Sequence[Record]) -> str:
    commits = sorted({r["machine"]["commit"] or "no checkout" for r in records})
    machines = sorted(
        {
            f"{m['gpu'] or 'processor'}, {m['threads']} threads, PyTorch {m['torch']}"
            for m in (r["machine"] for r in records)
        }
    )
    return (
        "PSNR in dB, data range 1, estimates clipped to [0, 1]; mean ± standard deviation over the signals of a row; "
        f"`exact` from {EXACT:.0f} dB on, where float32's rounding begins. "
        "Rows are sorted by their gain over the closed form with the highest mean, on the signals that both have. "
        "Seconds are medians after a run to warm up; gradient fits, and other libraries' methods with a time limit, "
        "are timed once. `fit` includes encoding and factorizing, and rendering if that column is empty. Every row "
        "but those of other libraries fits the mean of each channel separately. The papers' scales are kept in "
        "pixels: a width σ given for 512 pixels is 512 σ / N for N.\n\n"
        f"Measured on: {'; '.join(machines)}. Fits and renders of all cells together: {_hours(records)}. "
        f"Commits: {', '.join(commits)}."
    )


def _hours(records: Sequence[Record]) -> str:
    seconds = sum(value or 0.0 for r in records if r["status"] == "done" for value in r["seconds"].values())
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.1f} minutes"


def _shown(experiment: Experiment, section: Section) -> pd.DataFrame:
    """Return the texts of a section's table."""
    lines = section.lines
    noisy, ranked = lines["clean"].notna().any(), lines["stable_rank"].notna().any()
    table = pd.DataFrame({"method": lines["name"]})
    table[HEADS[experiment.measure]] = [
        "failed"
        if not line.done
        else number(line.mean) + (f" ± {line.spread:.2f}" if line.spread >= 0 else "")
        for line in lines[["done", "mean", "spread"]].itertuples()
    ]
    table["on our best"] = ["" if pd.isna(gain) else f"{gain:+.2f}" for gain in lines["gain"]]
    if not noisy:
        fitted = lines["fitted"].map(number)
        table["fitted"] = fitted.mask(lines["exact"].fillna(False).astype(bool), "exact")
    table["SSIM"] = [number(value, 3) for value in lines["ssim"]]
    if ranked:
        table["stable rank"] = [number(value, 1) for value in lines["stable_rank"]]
    for part in ("encode", "fit", "render"):
        table[f"{part} s"] = lines[part].map(duration)
    table["parameters"] = ["" if pd.isna(count) else f"{count:,}" for count in lines["parameters"]]
    table["signals"] = [
        str(line.signals) if line.done == line.signals else f"{line.done} of {line.signals}"
        for line in lines[["done", "signals"]].itertuples()
    ]
    table["seeds"] = lines["seeds"]
    table["epochs"] = ["" if pd.isna(epochs) else f"{epochs:.0f}" for epochs in lines["cell.epochs"]]
    table["device"] = lines["cell.device"]
    if lines["printed_psnr"].fillna("").any():
        table["printed PSNR (other data)"] = lines["printed_psnr"].fillna("")
        table["printed s (other GPU)"] = lines["printed_seconds"].fillna("")
    return table


def _overview(experiment: Experiment, found: Sequence[Section]) -> str:
    """Return methods by tasks, with the number of signals where it is smaller than elsewhere."""
    most = max(int(section.lines["scored"].max()) for section in found)
    several = len({section.size for section in found}) > 1
    columns = {}
    for section in found:
        name = f"{section.task}, {section.size}²" if several else section.task
        lines = section.lines.set_index(["name", "cell.epochs", "cell.device"])[["mean", "scored"]]
        columns[name] = pd.Series(
            [number(mean) + (f" ({n:.0f})" if 0 < n < most else "") for mean, n in lines.values],
            index=lines.index.map(lambda key: (key[0], "" if pd.isna(key[1]) else f"{key[1]:.0f}", key[2])),
        )
    table = pd.concat(columns, axis=1).fillna("")
    table.insert(0, "epochs", [key[1] for key in table.index])
    table.insert(0, "method", [key[0] for key in table.index])
    head = f"{HEADS[experiment.measure]}, over {most} signals, or as many as stand in brackets:"
    return f"{head}\n\n{markdown(table)}"


def _caption(experiment: Experiment, section: Section) -> str:
    """Return the numbers of signals and epochs of each kind of method."""
    lines, parts = section.lines, []
    most = lines["signals"].max()
    for kind, members in lines.groupby("kind", sort=False):
        epochs = members["cell.epochs"].dropna()
        of = "" if (members["signals"] == most).all() else f" of {most}"
        part = f"{kind}: {_span(members['signals'])}{of} signals"
        parts.append(part + (f", {_span(epochs)} epochs" if len(epochs) else ""))
    fewer = (lines["cell.epochs"].dropna() != experiment.epochs).any()
    note = f" The protocol has {experiment.epochs} epochs; rows with fewer are not the protocol's."
    return f"*{'; '.join(parts)}.{note if fewer else ''}*"


def _span(numbers: pd.Series) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return str(low) if low == high else f"{low} to {high}"


def _verdict(experiment: Experiment, section: Section) -> Iterator[str]:
    """Yield where the best closed form wins and where it loses, and the methods that it was not compared with."""
    lines, best = section.lines, section.best
    if best is None:
        yield "No closed form has a score here."
    else:
        first = lines.loc[best]
        others = lines[(lines["cell.method.group"] != "closed form") & lines["gain"].notna()]
        lost, level = others[others["gain"] > CLOSE], others[others["gain"].abs() <= CLOSE]
        count = (lines["cell.method.group"] == "closed form").sum()
        yield f"The best of {count} closed forms, by this score, is **{first['name']}**, {number(first['mean'])} dB."
        texts = [
            f"{line['name']} by {line['gain']:.2f} dB (on {line['common']})" for _, line in lost.iterrows()
        ]
        yield f"**It loses to** {'; '.join(texts)}." if texts else "No other row is above it."
        if len(level):
            yield f"Level with it: {', '.join(level['name'])}."
        yield from _against_trained(section, others[others["cell.method.group"] == "gradient"])
    asked = [m.name for task, methods in experiment.blocks if task.name == section.task for m in methods]
    missing = [name for name in asked if name not in set(lines["name"])]
    if missing:
        yield f"Not run: {', '.join(missing)}."


def _against_trained(section: Section, trained: pd.DataFrame) -> Iterator[str]:
    """Yield the best of the trained rows, the best MLP among them, and the quickest of them."""
    if trained.empty:
        return
    times, device = section.times, section.lines.loc[section.best]["cell.device"]
    chosen = {"trained row": trained["gain"].idxmax()}
    networks = trained[trained["kind"] == "MLP by gradient"]
    if len(networks) and chosen["trained row"] not in networks.index:
        chosen["MLP among them"] = networks["gain"].idxmax()
    for title, index in chosen.items():
        line = trained.loc[index]
        other = line["cell.device"]
        across = "" if other == device else f" ({other} against {device})"
        yield (
            f"The best {title}, *{line['name']}* ({line['cell.epochs']:.0f} epochs, on {line['common']}), is "
            f"{line['gain']:+.2f} dB from it there in {times[index]:,.0f} times its seconds{across}."
        )
    yield f"Every trained row takes {times[trained.index].min():,.0f} times its seconds or more."


def _complaints(records: Sequence[Record], found: Sequence[Section]) -> Iterator[str]:
    """Yield the failures and the warnings, each text once for a method and task with its number of cells."""
    places = {
        (s.task, s.size, line): (i, j) for i, s in enumerate(found) for j, line in enumerate(s.lines.index)
    }
    frame = flat(records).explode("warnings")
    frame["place"] = [places[key] for key in frame[[*SECTION, "line"]].itertuples(index=False, name=None)]
    for head, column in (("What failed", "reason"), ("Warnings", "warnings")):
        told = frame.dropna(subset=column).sort_values("place", kind="stable")
        pattern = told[column].map(lambda text: NUMBER.sub("#", text))
        rows = [
            f"- {part['cell.method.name'].iloc[0]} ({part['cell.task'].iloc[0]}), {len(part)} cells: "
            f"{part[column].iloc[0]}"
            for _, part in told.groupby(["place", pattern], sort=False)
        ]
        if rows:
            yield f"## {head}\n\n" + "\n".join(rows)
