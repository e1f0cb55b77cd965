"""``coordnet bench quality``: the distance of reconstructions from their signals, beside a named peer in one run."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from coordnet.bench import intervals
from coordnet.bench.catalogue import QUALITY
from coordnet.bench.experiment import Experiment
from coordnet.bench.quality import EXPERIMENTS
from coordnet.bench.record_tables import Frame, by_signal, failures, flat, markdown, text
from coordnet.bench.records import Cell, Options, Record, Study

SLOW = "hindsight"  # run only if it is named
PREFACE = (
    "Each row is compared with the first of its task on the same signals: the mean gain, the least gain, and the "
    "number of signals on which the row is below. Seconds are means over the signals, their ratio is to the first's."
)


class Quality(Study):
    """The command ``coordnet bench quality``: in each part, methods beside the first of their task."""

    name = "quality"
    experiments = tuple(QUALITY)
    parts: Sequence[Experiment] = EXPERIMENTS
    head = ("# Reconstructions beside their peers", PREFACE)

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        named = options.named(self.experiments)
        for part in self.parts:
            if part.name in named or (not named and part.name != SLOW):
                yield part.cells(options)

    def contents(self, records: list[Record]) -> dict[str, str | Figure]:
        """Return the mean score of each method over the signals, beside the first method of its task."""
        sections = list(self.head)
        for part in self.parts:
            own = [r for r in records if r["cell"]["experiment"] == part.name]
            sections += [f"## {part.title}", markdown(self.table(part, flat(own)))] if own else []
        sections += failures(records, lambda cell: f"{cell['method']['name']} ({cell['task']})")
        return {".md": "\n\n".join(sections) + "\n"}

    def table(self, part: Experiment, frame: Frame) -> Frame:
        """Return the table of a part from the rows of its records."""
        if part.name.startswith("intervals"):
            return intervals.table(frame)
        score = f"scores.{part.measure}", "dB"
        return compared(frame, *(("notes.iterations", "steps") if part.name == "iterations" else score))


def compared(frame: Frame, column: str, unit: str) -> Frame:
    """Compare each line of a task at a size with its first."""
    tables = []
    for (task, size), part in frame.groupby(["cell.task", "cell.signal.size"], sort=False):
        names = part.groupby("line", sort=False)["cell.method.name"].first()
        scores, seconds = by_signal(part, column), by_signal(part, "total").mean()
        gains = scores.sub(scores[names.index[0]], axis=0)
        table: Frame = pd.DataFrame({"task": task, "size": size, "method": names, "signals": scores.count()})
        table[unit] = scores.mean().map(text)
        table["to the first"] = gains.mean().map("{:+.2f}".format)
        table["least"], table["below"] = gains.min().map("{:+.2f}".format), (gains < 0).sum().astype(str)
        table["seconds"], table["ratio"] = (seconds.map(text), (seconds / seconds.iloc[0]).map("{:.1f}".format))
        table.loc[names.index[0], ["to the first", "least", "below", "ratio"]] = ""
        tables.append(table)
    return pd.concat(tables)
