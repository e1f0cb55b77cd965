"""``coordnet bench``: the experiments, each a command with some of the same options."""

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from coordnet import _checks
from coordnet.bench.catalogue import PAPERS, QUALITY
from coordnet.cli.common import Device, Many, Output, Quiet
from coordnet.cli.declaring import Helped, grouped
from coordnet.cli.folders import results

bench = typer.Typer(help="Measure coordnet against its peers.", rich_markup_mode=None)

Quick = Annotated[bool, Option("--quick", help="Run a small part: minutes.")]
Only = Annotated[str | None, Option(help="The parts to run, separated by commas.")]
LIMITS = {"clip": "cubes of 128×128×128 at most", "sound": "131,072 samples at most"}
EXTRAS = ("test", "bench", "notebooks")  # extras of pyproject.toml that some part of ``bench gpu`` needs
MAX_SIDE = 2**15  # samples along a side of the largest signal that is timed


@dataclass(frozen=True)
class Records:
    """The options of every experiment."""

    out: Annotated[Path | None, Option(help="Folder of the records; results/NAME if not given.")] = None
    report: Annotated[bool, Option("--report", help="Only write tables and figures of the records.")] = False
    quiet: Quiet = False


@dataclass(frozen=True)
class Training:
    """The options of experiments that train."""

    epochs: Annotated[
        int | None, Option(min=1, max=10**9, help="Epochs of trained methods instead of the experiment's.")
    ] = None
    seeds: Annotated[int | None, Option(min=1, max=10_000, help="Seeds 0 … SEEDS - 1 of whatever is drawn.")] = None


@dataclass(frozen=True)
class Workers(Many):
    """The options that spread cells over processes."""

    retry: Annotated[bool, Option("--retry", help="Run cells again that are recorded as failed.")] = False
    device: Device = "auto"


@dataclass(frozen=True)
class Signals(Workers):
    """The options of experiments on signals."""

    data: Annotated[Path | None, Option(help="Folder with kodak/ (or images/, or pictures), video/ and audio/.")] = None
    quick: Quick = False
    images: Annotated[
        int | None, Option(min=1, max=10**6, help="Run this number of files only, from the first on.")
    ] = None
    methods: Annotated[
        list[str] | None, Option(help="baseline, 'closed form', gradient, or a name with * and ?; may be repeated.")
    ] = None


@bench.command(cls=Helped)
@grouped
def speed(
    records: Records,
    only: Only = None,
    sizes: Annotated[
        str | None, Option(help="Samples along a side, such as 128,256; 128 to 4096 if not given.")
    ] = None,
    quick: Quick = False,
    device: Device = "auto",
) -> int:
    """Time closed-form fits beside SciPy, PyTorch and bare matrix products, and say which targets hold.

    --only takes some of grid, video, batch, random, memory; all but memory if not given.
    """
    return _run("speed", records, only=only, sizes=sizes, quick=quick, device=device)


@bench.command(
    cls=Helped,
    help="Measure reconstructions against their signals, beside SciPy, scikit-image and demosaicing filters.\n\n"
    f"--only takes some of {', '.join(QUALITY)}; all but the last, which is slow, if not given.",
)
@grouped
def quality(signals: Signals, records: Records, only: Only = None) -> int:
    """Run the parts that are named."""
    return _run("quality", records, signals, only=only)


@bench.command(cls=Helped)
@grouped
def attention(training: Training, workers: Workers, records: Records) -> int:
    """Compare encodings of position in a small Transformer on scikit-learn's digits and on synthetic boxes."""
    return _run("attention", records, training, workers)


@bench.command(cls=Helped)
@grouped
def series(training: Training, workers: Workers, records: Records) -> int:
    """Compare sinusoidal and DFT positions in a small Transformer on synthetic sensor windows: Idé et al. (2024)."""
    return _run("series", records, training, workers)


@bench.command(cls=Helped)
@grouped
def kinds(workers: Workers, records: Records, only: Only = None, quick: Quick = False) -> int:
    """Measure the default on fields of every kind that packages ship, beside the best peer with hindsight.

    --only takes the names of fields, such as dem,ecg; all whose packages are installed if not given.
    """
    return _run("kinds", records, workers, only=only, quick=quick)


@bench.command(cls=Helped)
@grouped
def points(workers: Workers, records: Records, only: Only = None, quick: Quick = False) -> int:
    """Measure the default on points anywhere, beside SciPy, PyKrige, GSTools and verde.

    --only takes the names of clouds, such as 'waves 500,terrain 2000'; all whose packages are installed if not given.
    """
    return _run("points", records, workers, only=only, quick=quick)


@bench.command(cls=Helped)
@grouped
def large(workers: Workers, records: Records, only: Only = None, quick: Quick = False) -> int:
    """Measure the default above a megapixel and on a clip of 64 frames, beside SciPy, scikit-image and OpenCV.

    --only takes some of large-pictures, large-clips, large-fields; all if not given.
    """
    return _run("large", records, workers, only=only, quick=quick)


@bench.command(cls=Helped)
@grouped
def cubes(
    workers: Workers,
    records: Records,
    only: Only = None,
    data: Annotated[
        Path | None, Option(help="Folder with sst/alboranSST_small.nc and video/carphone_pristine.mp4.")
    ] = None,
    quick: Quick = False,
) -> int:
    """Fill fields in time under clouds, beside interpolation in space and time and DINEOF.

    --only takes some of alboran, ocean, air, clip; those that are there if not given.
    """
    return _run("cubes", records, workers, only=only, data=data, quick=quick)


@bench.command(cls=Helped)
@grouped
def gpu(
    out: Annotated[Path, Option(help="Folder of the folders of records.")] = Path("results"),
    data: Annotated[Path | None, Option(help="Folder with kodak/ (or images/, or pictures), and video/.")] = None,
    only: Only = None,
    minutes: Annotated[
        float, Option(min=0, help="Begin nothing after this time; what is begun may take five more.")
    ] = 4,
    dry: Annotated[bool, Option("--dry", help="Only begin each part, at a small size, and write nothing.")] = False,
    retry: Annotated[bool, Option("--retry", help="Run again what is recorded as failed.")] = False,
    device: Device = "cuda",
) -> int:
    """Gather what a GPU can show, from a checkout: the same command goes on from the records until all is there.

    --only takes some of tests, grid, video, batch, random, memory, notebooks, table1, table2, table3, figure7,
    rethinking, sampling, noise. What is not installed is named first; nothing is downloaded.
    """
    from coordnet.bench.needed import missing

    if needed := missing():
        raise _checks.wrong("bench", "the dependencies of pyproject.toml", f"no {', '.join(needed)}")
    from coordnet.bench import gpu as evidence

    options = evidence.Options(data=data, only=_names(only) if only else (), retry=retry, device=_device(device))
    evidence.parts(options)
    if absent := missing(EXTRAS):
        print(f"not installed: {', '.join(absent)}", flush=True)
    lines = evidence.rehearse(options) if dry else evidence.gather(options, out, minutes)
    broken = 0
    for line, failed in lines:
        broken += failed
        print(line, flush=True)
    return min(broken, 1)


def _experiment(name: str) -> Callable[..., int]:
    def command(signals: Signals, training: Training, records: Records) -> int:
        return _run(name, records, signals, training)

    return grouped(command)


for _name, _title in PAPERS.items():
    bench.command(_name, cls=Helped, help=f"{_title}.")(_experiment(_name))


def _run(name: str, records: Records, *groups: Any, **more: Any) -> int:
    """Run an experiment and print its report; return the exit status, 1 if cells failed."""
    try:
        from coordnet.bench import runner
    except ModuleNotFoundError as error:
        raise _checks.wrong("bench", "the packages of coordnet[bench]", f"no package {error.name}") from None
    options = None
    if not records.report:
        given = {key: value for group in groups for key, value in asdict(group).items()} | more
        given = {key: CONVERSIONS.get(key, lambda v: v)(value) for key, value in given.items() if value is not None}
        options = runner.Options(**given)
    text, failed = runner.report(name, options, records.out or Path("results") / name, progress=not records.quiet)
    if not records.quiet:
        print(text)
    if failed:
        print(f"coordnet: {failed} cells failed (--retry runs them again)", file=sys.stderr)
    return min(failed, 1)


def prepare_data(source: Path, out: Path, crop: int, output: Output) -> None:
    """Carry out ``coordnet data``: prepare a folder for the experiments, and print its contents."""
    from coordnet.bench import signals
    from coordnet.cli.report import show

    kinds = signals.sources(source, out)
    with results(output, "data", source.name) as (staging, final):
        places = signals.prepare(source, kinds, staging, side=crop)
    limits = {"picture": f"{crop}×{crop} pixels at most", **LIMITS}
    counts = {kind: list(kinds.values()).count(kind) for kind in limits}
    files, others = [place.as_posix() for place in places], [place.as_posix() for place in kinds if not kinds[place]]
    lines = [f"{kind + 's:':10}{counts[kind]:>4}, {text}" for kind, text in limits.items() if counts[kind]]
    lines += [f"left out: {', '.join(others)}"] if others else []
    lines.append(f"written to {final}, with {signals.MANIFEST}")
    record = {"from": str(source), "out": str(out), "crop": crop, **counts, "files": files, "left_out": others}
    show(record, lines, output)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(name) for name in _names(text))
    except ValueError:
        sizes = (0,)
    if not all(1 <= size <= MAX_SIDE for size in sizes):
        raise _checks.wrong("sizes", f"numbers from 1 to {MAX_SIDE} separated by commas", repr(text))
    return sizes


def _device(text: str) -> str:
    from coordnet.cli.specs import choose_device

    return str(choose_device(text))


CONVERSIONS: dict[str, Callable[[Any], Any]] = {"only": _names, "sizes": _sizes, "device": _device, "methods": tuple}
