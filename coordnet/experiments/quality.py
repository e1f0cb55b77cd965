"""``coordnet bench quality``: how near reconstructions come to their signals, beside a named peer in the same run."""

import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks, metrics
from coordnet.experiments import cubes, memory, peers
from coordnet.experiments.damage import DAMAGE, Damage
from coordnet.experiments.timing import machine
from coordnet.priors import Adaptive, Smoothness
from coordnet.samples import ScatteredPoints
from coordnet.sampling import sample

SMOOTH = Smoothness(1.5, 0.01)
SMOOTH_VIDEO = Smoothness(2.0, 0.01)
SMOOTH_SOUND = Smoothness(1.0, 0.01)
STEADY_VIDEO = Smoothness(2.0, 0.01, (0.3, 1.0, 1.0))
BORDER = 8  # pixels of a mosaic's border that do not count
PAIR = ("kodim05", "kodim10")


@dataclass(frozen=True)
class Settings:
    """What is measured: the data folder, how many photographs of it, and the slow methods that are asked for."""

    data: Path
    images: int | None = None
    hindsight: bool = False
    rbf: bool = False


@dataclass(frozen=True)
class Row:
    """One method on one signal.

    Attributes
    ----------
    score : float
        Decibels of ``measure``, "psnr" or "snr"; GiB for "peak".
    """

    task: str
    signal: str
    method: str
    measure: str
    score: float
    seconds: float
    chosen: str = ""

    def as_json(self) -> dict[str, Any]:
        """The row as a record; a score that is not finite as null."""
        record = {"task": self.task, "signal": self.signal, "method": self.method}
        if self.chosen:
            record["chosen"] = self.chosen
        score = self.score if math.isfinite(self.score) else None
        return {**record, self.measure: score, "seconds": self.seconds}


@dataclass(frozen=True)
class Case:
    """A signal, how it is sampled, and the methods that reconstruct it; the first of them is the others' peer.

    Attributes
    ----------
    load : callable
        Gives the signal (*grid, channels).
    pattern : str or callable
        As ``sample`` takes it, or what makes a mask of the signal's grid.
    measure : "psnr" or "snr"
        Over held-out entries, or over all but a border of ``border`` pixels.
    """

    task: str
    signal: str
    load: Callable[[], Tensor]
    pattern: str | Callable[[tuple[int, ...]], Tensor]
    methods: dict[str, peers.Method]
    measure: str = "psnr"
    border: int = 0
    hindsight: bool = False

    def run(self) -> Iterator[Row]:
        """Apply every method, timed with all that it needs from the samples on."""
        signal = self.load()
        pattern = self.pattern if isinstance(self.pattern, str) else self.pattern(tuple(signal.shape[:-1]))
        samples = sample(signal, pattern)
        assert not isinstance(samples.geometry, ScatteredPoints)
        score = partial(self.score, truth=signal, known=samples.geometry.known(signal.shape[-1]))
        methods = dict(self.methods)
        if self.hindsight:
            methods["adaptive, best with hindsight"] = peers.with_hindsight(score)
        for name, method in methods.items():
            start = time.perf_counter()
            made = method(samples)
            seconds = time.perf_counter() - start
            yield Row(self.task, self.signal, name, self.measure, score(made.signal), seconds, made.chosen)

    def score(self, estimate: Tensor, *, truth: Tensor, known: Tensor) -> float:
        """Decibels of an estimate."""
        counted = ~known
        if self.border:
            counted = torch.zeros_like(known)
            counted[self.border : -self.border, self.border : -self.border] = True
        return (metrics.psnr if self.measure == "psnr" else metrics.snr)(estimate, truth, counted)


def random_quarter(settings: Settings) -> Iterator[Case]:
    """A random quarter of every photograph's crop."""
    methods = {**peers.GRIDDATA, "smooth": peers.smooth(SMOOTH), "adaptive": peers.adaptive()}
    if settings.rbf:
        methods["RBF thin plate, 20 neighbours"] = peers.thin_plate
    for path in cubes.photographs(settings.data, settings.images):
        yield Case(
            "random 25 %",
            path.stem,
            partial(cubes.crop, path),
            "random:0.25",
            methods,
            hindsight=settings.hindsight,
        )


def density(settings: Settings) -> Iterator[Case]:
    """Fewer and more random samples of two photographs' crops."""
    methods = {**peers.GRIDDATA, "smooth": peers.smooth(SMOOTH), "adaptive": peers.adaptive()}
    for percent in (3, 10, 50, 80):
        for name in PAIR[: settings.images]:
            load = partial(cubes.crop, cubes.photograph(settings.data, name))
            yield Case(f"random {percent} %", name, load, f"random:{percent / 100}", methods)


def video(settings: Settings) -> Iterator[Case]:
    """A random eighth of the cubes of two clips, whose samples are too many to triangulate."""
    for name, title in {"carphone_pristine": "carphone", "bikes": "bikes"}.items():
        methods = {**peers.NEAREST, "smooth": peers.smooth(SMOOTH_VIDEO)}
        methods["smooth, time × 0.3"] = peers.smooth(STEADY_VIDEO)
        methods["adaptive"] = peers.adaptive()
        load = partial(cubes.cube, settings.data / "video" / f"{name}.mp4")
        yield Case("video, random eighth", title, load, "random:0.125", methods)


def audio(settings: Settings) -> Iterator[Case]:
    """A random quarter of a recording."""
    methods = {
        **peers.SPLINES,
        "smooth": peers.smooth(SMOOTH_SOUND, fourier=True),
        "adaptive": peers.adaptive(),
    }
    load = partial(cubes.sound, settings.data / "audio" / "bach.wav")
    yield Case("sound, random quarter", "bach", load, "random:0.25", methods, measure="snr")


def entries(settings: Settings) -> Iterator[Case]:
    """30 % of the entries of a photograph's crop, each channel with a mask of its own."""
    methods = {
        "adaptive, not rotated": peers.adaptive(Adaptive(rotated=False)),
        **peers.GRIDDATA,
        "adaptive": peers.adaptive(),
    }
    load = partial(cubes.crop, cubes.photograph(settings.data, PAIR[0]))
    yield Case("entries 30 %", PAIR[0], load, "entries:0.3", methods)


def bayer(settings: Settings) -> Iterator[Case]:
    """The RGGB mosaic of every photograph's crop, all entries within the border."""
    methods = {**peers.DEMOSAICING, "adaptive": peers.adaptive()}
    for path in cubes.photographs(settings.data, settings.images):
        yield Case("mosaic RGGB", path.stem, partial(cubes.crop, path), "bayer:RGGB", methods, border=BORDER)


def structured(settings: Settings) -> Iterator[Case]:
    """Holes, scratches and text over every photograph's crop, drawn anew for each."""
    methods = {
        "biharmonic": peers.biharmonic,
        "smooth": peers.smooth(SMOOTH),
        "adaptive": peers.adaptive(),
    }
    for kind, damage in DAMAGE.items():
        for seed, path in enumerate(cubes.photographs(settings.data, settings.images)):
            mask = partial(_damaged, damage, seed)
            yield Case(kind, path.stem, partial(cubes.crop, path), mask, methods)


def _damaged(damage: Damage, seed: int, shape: tuple[int, ...]) -> Tensor:
    return damage((shape[0], shape[1]), seed)


EXPERIMENTS: dict[str, Callable[[Settings], Iterator[Case]]] = {
    "random": random_quarter,
    "density": density,
    "video": video,
    "audio": audio,
    "entries": entries,
    "bayer": bayer,
    "structured": structured,
}
NAMES = (*EXPERIMENTS, "memory")  # the last only when it is named: it takes minutes


def parse_names(text: str | None) -> tuple[str, ...]:
    """The experiments that a text names, separated by commas; all but the last if it is None.

    Raises
    ------
    ValueError
        If one is unknown.
    """
    if text is None:
        return tuple(EXPERIMENTS)
    return tuple(_checks.choice("only", name.strip(), NAMES) for name in text.split(","))


def run(name: str, settings: Settings, *, progress: bool = True) -> list[Row]:
    """The rows of one experiment, with a bar over its signals."""
    if name == "memory":
        return large_picture()
    rows: list[Row] = []
    with tqdm(list(EXPERIMENTS[name](settings)), desc=name, disable=not progress, dynamic_ncols=True) as bar:
        for case in bar:
            bar.set_postfix_str(f"{case.task}, {case.signal}")
            rows.extend(case.run())
    return rows


def large_picture(size: int = memory.LARGE) -> list[Row]:
    """Peak memory of a masked picture of 4096² × 3; its peer is the promise of 6 GiB."""
    made = memory.footprint(size)
    task, signal = "masked fit, float32", f"{size}²×3"
    return [Row(task, signal, "smooth", "peak", made.peak, made.seconds, f"{made.iterations} iterations")]


def report(rows: list[Row]) -> str:
    """A table of means over the signals, each method against its task's first, in the same run."""
    lines = [
        f"{'task':22}{'method':32}{'signals':>8}{'mean':>10}{'to peer':>10}{'least':>9}{'below':>7}"
        f"{'seconds':>10}{'ratio':>7}"
    ]
    for task in dict.fromkeys(row.task for row in rows):
        methods = dict.fromkeys(row.method for row in rows if row.task == task)
        peer = [row for row in rows if row.task == task and row.method == next(iter(methods))]
        lines += [
            _line([r for r in rows if r.task == task and r.method == method], peer) for method in methods
        ]
    return "\n".join(lines)


def _line(rows: list[Row], peer: list[Row]) -> str:
    unit = "GiB" if rows[0].measure == "peak" else "dB"
    mean, seconds = statistics.fmean(r.score for r in rows), statistics.fmean(r.seconds for r in rows)
    head = f"{rows[0].task:22}{rows[0].method:32}{len(rows):>8}{mean:>7.2f} {unit}"
    if rows[0].method == peer[0].method:
        return f"{head:72}{'':26}{seconds:>8.2f} s"
    gains = [r.score - p.score for r, p in zip(rows, peer, strict=True)]
    below = sum(gain < 0 for gain in gains)
    ratio = seconds / statistics.fmean(p.seconds for p in peer)
    against = f"{statistics.fmean(gains):>+10.2f}{min(gains):>+9.2f}{below:>7}"
    return f"{head:72}{against}{seconds:>8.2f} s{ratio:>6.1f}×"


def write(name: str, rows: list[Row], settings: Settings, folder: Path) -> Path:
    """Write the rows, what was asked for and the machine to ``folder``/NAME.json."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    content = {
        "machine": machine(torch.device("cpu")),
        "images": settings.images,
        "rows": [row.as_json() for row in rows],
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path
