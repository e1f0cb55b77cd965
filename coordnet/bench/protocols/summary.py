"""What records say, put together: a line for each method of a task."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from coordnet.bench.protocols.records import Record
from coordnet.bench.protocols.tables import EXPERIMENTS

Scores = dict[str, float]
EXACT = 100.0  # dB: an error of 1e-5, where float32's rounding begins


@dataclass(frozen=True)
class Line:
    """The records of one method with the same settings, on signals of one size.

    Attributes
    ----------
    cell : dict
        The configuration of one of them.
    records : tuple
        Those that are done.
    reasons : tuple of str
        Of those that failed.
    signals : int
        How many signals were asked for.
    """

    cell: dict[str, Any]
    records: tuple[Record, ...]
    reasons: tuple[str, ...]
    signals: int

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the done ones were warned of."""
        return tuple(text for record in self.records for text in record.get("warnings", ()))

    @property
    def name(self) -> str:
        """Of the method."""
        return self.cell["method"]["name"]

    @property
    def group(self) -> str:
        """Of the method."""
        return self.cell["method"]["group"]

    @property
    def printed(self) -> tuple[str, str]:
        """PSNR and seconds as the paper prints them."""
        blocks = EXPERIMENTS[self.cell["experiment"]].blocks
        found = [
            m.printed
            for task, ms in blocks
            for m in ms
            if (task.name, m.name) == (self.cell["task"], self.name)
        ]
        return found[0] if found else ("", "")

    def scores(self, measure: str) -> Scores:
        """PSNR by signal, the mean over its seeds."""
        each: dict[str, list[float]] = defaultdict(list)
        for record in self.records:
            if record["psnr"][measure] is not None:
                each[_signal(record)].append(record["psnr"][measure])
        return {signal: statistics.fmean(values) for signal, values in each.items()}

    def mean(self, measure: str, among: Iterable[str] | None = None) -> float | None:
        """The mean over the signals, or over those of them that are ``among`` some."""
        scores = self.scores(measure)
        return _mean(scores.get(signal) for signal in (scores if among is None else among))

    @property
    def exact(self) -> bool:
        """Whether the samples are met on every signal, up to float32's rounding."""
        fitted = [record["psnr"]["fitted"] for record in self.records]
        return bool(fitted) and all(value is None or value >= EXACT for value in fitted)

    @property
    def trained(self) -> bool:
        """Whether by gradient descent."""
        return self.group == "gradient"

    @property
    def kind(self) -> str:
        """The group, of trained networks with the head."""
        if not self.trained:
            return self.group
        return "MLP by gradient" if self.cell["method"].get("depth") else "linear head by gradient"

    def spread(self, measure: str) -> float | None:
        """The standard deviation over the signals."""
        values = list(self.scores(measure).values())
        return statistics.stdev(values) if len(values) > 1 else None

    def spread_of_draws(self, measure: str) -> float | None:
        """The standard deviation over the seeds of one signal, the mean over the signals."""
        each: dict[str, list[float]] = defaultdict(list)
        for record in self.records:
            if record["psnr"][measure] is not None:
                each[_signal(record)].append(record["psnr"][measure])
        deviations = [statistics.stdev(values) for values in each.values() if len(values) > 1]
        return statistics.fmean(deviations) if deviations else None

    @property
    def ssim(self) -> float | None:
        """The mean."""
        return _mean(record["ssim"] for record in self.records)

    def seconds(self, part: str) -> float | None:
        """The median of ``encode``, ``fit`` or ``render``."""
        values = [r["seconds"][part] for r in self.records if r["seconds"][part] is not None]
        return statistics.median(values) if values else None

    def totals(self) -> Scores:
        """The seconds of fit and render by signal, the mean over its seeds; the fit encodes its samples itself."""
        each: dict[str, list[float]] = defaultdict(list)
        for record in self.records:
            seconds = record["seconds"]
            each[_signal(record)].append((seconds["fit"] or 0.0) + (seconds["render"] or 0.0))
        return {signal: statistics.fmean(values) for signal, values in each.items()}

    @property
    def total_seconds(self) -> float:
        """The median of ``totals``."""
        return statistics.median(self.totals().values()) if self.records else 0.0

    @property
    def parameters(self) -> int | None:
        """The median, the lower one of two."""
        values = [r["parameters"] for r in self.records if r["parameters"] is not None]
        return statistics.median_low(values) if values else None

    def note(self, name: str) -> float | None:
        """The mean of a number among the notes."""
        return _mean(record["notes"].get(name) for record in self.records)

    @property
    def seeds(self) -> int:
        """How many."""
        return len({record["cell"]["seed"] for record in self.records})


Section = tuple[str, int, list[Line]]


def lines(records: Sequence[Record]) -> list[Line]:
    """A line for each task, size, method, number of epochs and device, as they came."""
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        cell = record["cell"]
        method = tuple(sorted((k, repr(v)) for k, v in cell["method"].items()))
        key = (cell["task"], cell["signal"]["size"], method, cell["epochs"], cell["device"])
        groups[key].append(record)
    return [
        Line(
            group[0]["cell"],
            tuple(r for r in group if r["status"] == "done"),
            tuple(r["reason"] for r in group if r["status"] == "failed"),
            len({_signal(r) for r in group}),
        )
        for group in groups.values()
    ]


def sections(records: Sequence[Record], measure: str) -> list[Section]:
    """The lines of each task and size, the best first by what they gain over our best on the same signals."""
    each: dict[tuple[str, int], list[Line]] = defaultdict(list)
    for line in lines(records):
        each[line.cell["task"], line.cell["signal"]["size"]].append(line)
    found = []
    for (task, size), members in sorted(each.items(), key=lambda item: -item[0][1]):
        best = our_best(members, measure)
        found.append((task, size, sorted(members, key=lambda line: _rank(line, best, measure))))
    return found


def our_best(members: Sequence[Line], measure: str) -> Line | None:
    """The closed form of the highest mean, among those on the most signals."""
    ours = [line for line in members if line.group == "closed form" and line.mean(measure) is not None]
    most = max((len(line.scores(measure)) for line in ours), default=0)
    whole = [line for line in ours if len(line.scores(measure)) == most]
    return max(whole, key=lambda line: line.mean(measure) or 0.0, default=None)


def gain(line: Line, other: Line | None, measure: str) -> tuple[float, int] | None:
    """What a line has over another, the mean over the signals that both have, and how many those are."""
    if other is None:
        return None
    ours, theirs = line.scores(measure), other.scores(measure)
    common = [ours[signal] - theirs[signal] for signal in ours if signal in theirs]
    return (statistics.fmean(common), len(common)) if common else None


def times(line: Line, other: Line) -> float:
    """How many times another's seconds a line takes: the median over the signals that both have."""
    ours, theirs = line.totals(), other.totals()
    return statistics.median(ours[signal] / theirs[signal] for signal in ours if signal in theirs)


def placed(line: Line, best: Line | None, measure: str) -> float | None:
    """The mean a line would have on all signals of our best, by what it gains on those it was run on."""
    found, mean = gain(line, best, measure), best.mean(measure) if best else None
    return line.mean(measure) if found is None or mean is None else mean + found[0]


def _rank(line: Line, best: Line | None, measure: str) -> tuple[int, float]:
    found = gain(line, best, measure)
    if found is not None:
        return 0, -found[0]
    mean = line.mean(measure)
    return (1, -mean) if mean is not None else (2, 0.0)


def _signal(record: Record) -> str:
    signal = record["cell"]["signal"]
    return f"{signal['kind']} {signal['name']} {signal['digest']} {signal['size']}"


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.fmean(found) if found else None
