"""Records put together, through pandas: a row for each method of a task, compared on the signals that both have."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from coordnet.bench.records import Record
from coordnet.bench.study import Experiment

EXACT = 100.0  # dB: an error of 1e-5, where the rounding of float32 begins
EXPECTED = (
    *("scores.held_out", "scores.fitted", "scores.clean", "scores.ssim", "notes.parameters"),
    *("seconds.encode", "seconds.fit", "seconds.render", "notes.stable_rank", "reason", "warnings"),
    *(
        "cell.method.layout.encoder",
        "cell.method.layout.scale",
        "cell.method.head.depth",
        "cell.pattern",
        "cell.noise",
    ),
)
SECTION = ["cell.task", "cell.signal.size"]
MACHINE = ["machine.gpu", "machine.threads", "machine.commit"]


def flat(records: Sequence[Record]) -> pd.DataFrame:
    """Return a row for each record, with the nested keys joined by dots.

    ``signal`` identifies a signal and ``line`` the method with its epochs and device.
    """
    frame = pd.json_normalize(list(records))
    frame = frame.reindex(columns=[*frame.columns, *(c for c in EXPECTED if c not in frame.columns)])
    cells = [r["cell"] for r in records]
    frame["signal"] = [json.dumps(cell.get("signal"), sort_keys=True) for cell in cells]
    lines = [[cell["method"], cell["epochs"], cell["device"]] for cell in cells]
    frame["line"] = [json.dumps(line, sort_keys=True) for line in lines]
    numbers = [c for c in frame.columns if c.startswith(("scores.", "seconds."))]
    frame[numbers] = frame[numbers].astype(float)
    return frame


def by_signal(frame: pd.DataFrame, values: str) -> pd.DataFrame:
    """Return the mean over the seeds, a row for each signal and a column for each line."""
    table = frame.pivot_table(values, "signal", "line", aggfunc="mean", sort=False)
    return table.reindex(columns=frame["line"].unique())


@dataclass(frozen=True)
class Section:
    """The lines of one task at one size, the best first.

    Attributes
    ----------
    task : str
        The task.
    size : int
        The largest number of samples along an axis.
    lines : DataFrame
        A row for each line, see ``CSV`` for the columns.
    scores, totals : DataFrame
        Decibels, and seconds of fit and render together, a row for each signal and a column for each line.
    best : str or None
        The line of the closed form with the highest mean, among those on the most signals.
    """

    task: str
    size: int
    lines: pd.DataFrame
    scores: pd.DataFrame
    totals: pd.DataFrame
    best: str | None

    @property
    def times(self) -> pd.Series:
        """Each line's seconds in units of the best line's, the median over the signals that both have."""
        return self.totals.div(self.totals[self.best], axis=0).median()

    @property
    def placed(self) -> pd.Series:
        """The mean that each line would have on all signals of the best, by its gain on those that it has."""
        if self.best is None:
            return self.lines["mean"]
        return (self.lines["mean"][self.best] + self.lines["gain"]).fillna(self.lines["mean"])


def sections(experiment: Experiment, records: Sequence[Record]) -> list[Section]:
    """Return a section for each task and size, large sizes first."""
    frame = flat(records)
    found = [
        _section(experiment, str(task), int(size), part)
        for (task, size), part in frame.groupby(SECTION, sort=False)
    ]
    return sorted(found, key=lambda section: -section.size)


def _section(experiment: Experiment, task: str, size: int, frame: pd.DataFrame) -> Section:
    done = frame[frame["status"] == "done"]
    lines, measure = _lines(experiment, frame), experiment.measure
    scores = by_signal(done, f"scores.{measure}").reindex(columns=lines.index)
    seconds = done.assign(total=done[["seconds.fit", "seconds.render"]].sum(axis=1))
    totals = by_signal(seconds, "total").reindex(columns=lines.index)
    lines["mean"], lines["spread"], lines["scored"] = scores.mean(), scores.std(), scores.count()
    ours = lines[(lines["cell.method.group"] == "closed form") & lines["mean"].notna()]
    best = None
    if len(ours):
        best = str(ours.loc[ours["scored"] == ours["scored"].max(), "mean"].idxmax())
    differences = scores.sub(scores[best], axis=0) if best else scores * float("nan")
    lines["gain"], lines["common"] = differences.mean(), differences.count()
    order = lines.sort_values(["gain", "mean"], ascending=False, kind="stable", na_position="last").index
    return Section(task, size, lines.loc[order], scores, totals, best)


def _lines(experiment: Experiment, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the means and medians of each line, beside what its records have in common."""
    grouped, done = frame.groupby("line", sort=False), frame[frame["status"] == "done"]
    each = done.groupby("line", sort=False)
    lines = grouped.first()
    lines["name"] = lines["cell.method.name"]
    lines["signals"], lines["done"] = grouped["signal"].nunique(), each["signal"].nunique()
    lines["seeds"], lines["failed"] = each["cell.seed"].nunique(), grouped["reason"].count()
    lines[["done", "seeds"]] = lines[["done", "seeds"]].fillna(0).astype(int)
    lines["reason"] = grouped["reason"].agg(lambda reasons: "; ".join(reasons.dropna().unique()))
    for score in ("held_out", "fitted", "clean"):
        table = by_signal(done, f"scores.{score}")
        draws = done.groupby(["signal", "line"])[f"scores.{score}"].std()
        lines[score], lines[f"{score}_spread"] = table.mean(), table.std()
        lines[f"{score}_draws"] = draws.groupby("line").mean()
    lines["exact"] = ~(each["scores.fitted"].min() < EXACT)  # a missing number is an error of zero
    lines["ssim"], lines["stable_rank"] = each["scores.ssim"].mean(), each["notes.stable_rank"].mean()
    lines[["encode", "fit", "render"]] = each[["seconds.encode", "seconds.fit", "seconds.render"]].median()
    lines["parameters"] = each["notes.parameters"].quantile(interpolation="lower").astype("Int64")
    lines[MACHINE] = each[MACHINE].last()
    kinds = lines[["cell.method.group", "cell.method.head.depth"]].itertuples(index=False, name=None)
    lines["kind"] = [_kind(group, depth) for group, depth in kinds]
    return lines.join(_printed(experiment), on=["cell.task", "name"])


def _printed(experiment: Experiment) -> pd.DataFrame:
    """Return the papers' results by task and name of the method."""
    rows = [(task.name, m.name, *m.printed) for task, methods in experiment.blocks for m in methods]
    columns = ["task", "method", "printed_psnr", "printed_seconds"]
    return pd.DataFrame(rows, columns=columns).set_index(columns[:2])


def _kind(group: str, depth: float) -> str:
    if group != "gradient":
        return group
    return "MLP by gradient" if depth > 0 else "linear head by gradient"
