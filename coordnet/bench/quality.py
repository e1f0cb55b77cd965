"""``coordnet bench quality``: the distance of reconstructions from their signals, beside a named peer in one run."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from coordnet import _checks
from coordnet.bench import intervals, unequal, upscaling
from coordnet.bench.catalogue import QUALITY
from coordnet.bench.cells import Cell
from coordnet.bench.damage import DAMAGE
from coordnet.bench.estimation import Method, Task
from coordnet.bench.estimators import ADAPTIVE, LOCAL, ClosedForm, Denoised, Hindsight, Tuned
from coordnet.bench.experiment import Experiment
from coordnet.bench.fields import FieldFinder
from coordnet.bench.layouts import Layout, complex_, fourier
from coordnet.bench.measurement_tasks import MeasuredTask, projections, quarter, radon
from coordnet.bench.peers import demosaicing, denoising, interpolating, inverting
from coordnet.bench.peers.base import baseline
from coordnet.bench.records import Record, failed
from coordnet.bench.reports import Frame, by_signal, flat, markdown, text
from coordnet.bench.signals import CLIPS, CUBE, SOUNDS, Finder
from coordnet.bench.study import Options, Study
from coordnet.bench.upscaling import Reduction
from coordnet.encodings.encoders import Gaussian, Triangle
from coordnet.fitting.methods import EncoderChoice
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.plates import ThinPlate
from coordnet.priors.smoothness import Smoothness

SIGMA = 0.1  # standard deviation of noise; signals are in [0, 1]
COUNTED_RESIDUAL = 1e-4  # relative residual to which iterations are counted
PAIR = ("kodim05", "kodim10")
GAUSSIAN, FOURIER = Layout(complex_, Gaussian), Layout(fourier)


def _smooth(name: str, prior: Smoothness, layout: Layout = GAUSSIAN, **options: Any) -> Method:
    return Method(name, ClosedForm(layout, prior=prior, **options))


SMOOTH, TUNED = _smooth("smooth", Smoothness(1.5, 0.01)), Method("smooth, tuned", Tuned(GAUSSIAN))
GRIDDATA, ADAPTED = baseline("griddata linear", interpolating.spline, kind="linear"), Method("adaptive", ADAPTIVE)
PATCHES = Method("local", LOCAL)
GRIDDATA_CUBIC = baseline("griddata cubic", interpolating.spline, kind="cubic")
SPLINES = (
    baseline("cubic spline", interpolating.spline, kind="cubic"),
    baseline("linear interpolation", interpolating.spline, kind="linear"),
)
TELEA = baseline("OpenCV, Telea", interpolating.telea, package="cv2")
DENOISERS = (
    baseline("wavelets, BayesShrink", denoising.wavelet, blind=True),
    baseline("non-local means", denoising.non_local_means, blind=True),
    Method("adaptive", Denoised()),
    baseline("CBM3D, true σ", denoising.block_matching, package="bm3d"),
    Method("local", Denoised(prior="local")),
)
UNCLIPPED = {Task(f"full, σ = {s}", "full", s, "clean"): DENOISERS for s in (0.05, SIGMA, 0.2)}
CLIPPED = {Task(f"clipped, σ = {s}", "full", s, "clean", clipped=True): DENOISERS for s in (0.05, SIGMA, 0.2)}
EVERY_START = tuple(
    ClosedForm(FOURIER, prior=Adaptive((start,), rounds, hold_out=0.0))
    for start in Adaptive().candidates(2)
    for rounds in range(9)
)
EVERY_SMOOTH = tuple(
    ClosedForm(GAUSSIAN, prior=Smoothness(power, strength))
    for power in (1.0, 1.25, 1.5, 1.75, 2.0)
    for strength in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
)
PLATES = Method("plates", ClosedForm(FOURIER, prior=ThinPlate()))
RADIAL = tuple(
    baseline(f"RBF {name}, 60 neighbours", interpolating.radial_basis, kernel=kernel)
    for name, kernel in interpolating.KERNELS.items()
)
BEST_RADIAL = baseline("RBF, best kernel and smoothing", interpolating.best_radial_basis)
DRAWN = tuple(Task(f"random {p} %", f"random:{p / 100}") for p in (30, 10))
NOISY = Task("random 30 %, σ = 0.001", "random:0.3", 1e-3)
WIDE = EncoderChoice(Gaussian, {"features": 32, "sigma": "3px"})  # for gaps of up to 2.4 mean ones
UNEQUAL = (
    baseline("RectBivariateSpline, cubic", interpolating.bivariate, degree=3),
    baseline("RectBivariateSpline, quintic", interpolating.bivariate, degree=5),
    baseline("RegularGridInterpolator, cubic", interpolating.regular),
    Method("coordnet fit", unequal.AtMidpoints()),
    Method("adaptive", unequal.AtMidpoints(Adaptive())),
    Method("plates", unequal.AtMidpoints(ThinPlate())),
    Method("Gaussian, least squares", unequal.AtMidpoints(None, EncoderChoice(Gaussian))),
    Method("32 Gaussians of 3 spacings, least squares", unequal.AtMidpoints(None, WIDE)),
)
ENLARGED = (
    baseline("Lanczos", interpolating.pillow, kind="Lanczos"),
    baseline("bicubic", interpolating.pillow, kind="bicubic"),
    Method("upscale", upscaling.Enlarged()),
    Method("upscale, no prior", upscaling.Enlarged(prior="none")),
    Method("upscale, pixels as points", upscaling.Enlarged("point")),
)
REDUCED = [Reduction(f"reduced by {f:g}", "", factor=f) for f in (2.0, 3.0, 4.0, 1.5, 2.5)]
REDUCED.append(Reduction("reduced by 2, σ = 0.02", "", 0.02, factor=2.0))
SURE = (
    Method("constant width", intervals.Intervals(intervals.constant)),
    Method("adaptive, posterior of 8 draws", intervals.Intervals(intervals.posterior, Adaptive())),
    Method("cross-conformal, local scale", intervals.Intervals(intervals.cross_conformal)),
)
DAMAGED = [Task(name, name, mask=mask) for name, mask in DAMAGE.items()]
DENSITIES = [Task(f"random {p} %", f"random:{p / 100}") for p in (10, 25, 50)]
QUARTER = (GRIDDATA, SMOOTH, TUNED, ADAPTED, PATCHES)
BY_POWER = tuple(
    _smooth(f"p = {power:g}", Smoothness(power, 0.01), Layout(complex_, Triangle), tolerance=COUNTED_RESIDUAL)
    for power in (1.0, 1.5)
)


def _part(name: str, blocks: Mapping[Task, Sequence[Method]], *finder: Any) -> Experiment:
    return Experiment(name, QUALITY[name], blocks, *finder)


def part(name: str, tasks: Sequence[Task], methods: Sequence[Method], *finder: Any) -> Experiment:
    """Return an experiment with the same methods for every task."""
    return _part(name, dict.fromkeys(tasks, methods), *finder)


EXPERIMENTS = (
    part("random", [Task("random 25 %", "random:0.25")], QUARTER),
    part(
        "density",
        [Task(f"random {p} %", f"random:{p / 100}") for p in (3, 10, 50, 80)],
        (GRIDDATA, SMOOTH, ADAPTED, PATCHES),
        Finder(names=PAIR),
    ),
    part(
        "video",
        [Task("video, random eighth", "random:0.125")],
        (
            baseline("griddata linear", interpolating.spline, kind="linear", patient=True),
            baseline("nearest", interpolating.spline, kind="nearest"),
            _smooth("smooth", Smoothness(2.0, 0.01)),
            _smooth("smooth, time × 0.3", Smoothness(2.0, 0.01, (0.3, 1.0, 1.0))),
            TUNED,
            ADAPTED,
            PATCHES,
        ),
        Finder(("clip",), CLIPS, ("bikes", "carphone_pristine"), (CUBE,)),
    ),
    _part(
        "audio",
        {
            Task("sound, random quarter", "random:0.25", measure="snr"): (
                *SPLINES,
                _smooth("smooth", Smoothness(1.0, 0.01), FOURIER),
                ADAPTED,
                PATCHES,
            ),
            Task("sound, every second", "every:2", measure="snr"): (
                *SPLINES,
                _smooth("smooth", Smoothness(2.5, 0.01), FOURIER),
                Method("plates that interpolate", ClosedForm(FOURIER, prior=ThinPlate(cutoff=math.inf))),
            ),
        },
        Finder(("sound",), SOUNDS, ("bach",)),
    ),
    part(
        "entries",
        [Task("entries 30 %", "entries:0.3")],
        (
            Method("adaptive, not rotated", ClosedForm(FOURIER, prior=Adaptive(rotated=False))),
            GRIDDATA,
            ADAPTED,
            PATCHES,
        ),
        Finder(names=PAIR[:1]),
    ),
    part(
        "bayer",
        [Task("mosaic RGGB", "bayer:RGGB", measure="inside")],
        (
            baseline("bilinear", demosaicing.demosaiced, kind="bilinear"),
            baseline("Malvar 5×5", demosaicing.demosaiced, kind="malvar"),
            baseline("Menon 2007", demosaicing.menon, package="colour_demosaicing"),
            ADAPTED,
            PATCHES,
        ),
    ),
    part("structured", DAMAGED, (baseline("biharmonic", interpolating.biharmonic), TELEA, SMOOTH, ADAPTED, PATCHES)),
    part(
        "every",
        [Task("every second", "every:2")],
        (
            *SPLINES,
            baseline("Lanczos (Pillow)", interpolating.lanczos_between),
            _smooth("smooth", Smoothness(1.5, 0.03)),
            PATCHES,
        ),
    ),
    part(
        "noise",
        [Task(f"every second, σ = {SIGMA}", "every:2", SIGMA)],
        (
            *SPLINES,
            Method("smooth, tuned by hold-out", Tuned(GAUSSIAN)),
            Method("smooth, tuned by GCV", Tuned(GAUSSIAN, criterion="gcv")),
        ),
    ),
    _part("denoise", {**UNCLIPPED, **CLIPPED}),
    part("upscale", REDUCED, ENLARGED),
    part(
        "iterations",
        [Task(f"random {100 * d:g} %", f"random:{d}") for d in (0.5, 0.25, 0.1, 0.05, 0.02)],
        BY_POWER,
        Finder(("reflection",), names=PAIR[:1], sizes=(128, 256, 512, 1024)),
    ),
    _part(
        "fields",
        {
            **dict.fromkeys(
                DRAWN, (*RADIAL, baseline("griddata cubic", interpolating.spline, kind="cubic"), ADAPTED, PLATES)
            ),
            NOISY: (BEST_RADIAL, ADAPTED, PLATES),
        },
        FieldFinder(names=("sines", "franke", "peaks"), sizes=(64,)),
    ),
    part(
        "volume",
        DRAWN[:1],
        (*RADIAL, baseline("griddata linear", interpolating.spline, kind="linear", patient=True), ADAPTED, PLATES),
        FieldFinder(names=("waves",), sizes=(32,)),
    ),
    part(
        "tone",
        [Task("every second sample", "every:2")],
        (*SPLINES, _smooth("smooth", Smoothness(2.5, 0.01), FOURIER), PLATES),
        FieldFinder(names=("tone",), sizes=(512,)),
    ),
    part(
        "rectilinear",
        [unequal.UnequalTask("unequal coordinates", ""), unequal.UnequalTask("unequal, σ = 0.001", "", 1e-3, "clean")],
        UNEQUAL,
        unequal.UnequalFinder(names=("sines", "franke", "peaks"), sizes=(64,)),
    ),
    _part(
        "measurements",
        {
            MeasuredTask("blur", "blur", 0.01, "clean"): (
                baseline("unsupervised Wiener", inverting.unsupervised_wiener),
                baseline("blurred", inverting.blurred),
                baseline("Richardson-Lucy", inverting.richardson_lucy),
                ADAPTED,
            ),
            MeasuredTask("30 projections", "projections", 0.1, "clean", operator=projections, simulate=radon): (
                baseline("filtered back-projection", inverting.filtered_back_projection),
                baseline("SART", inverting.sart),
                ADAPTED,
            ),
            MeasuredTask("Fourier quarter", "fourier", 0.01, "clean", operator=quarter): (
                baseline("total variation", inverting.total_variation),
                baseline("zero filling", inverting.zero_filled),
                ADAPTED,
            ),
        },
        Finder(sizes=(64,)),
    ),
    part("intervals", DENSITIES, SURE),
    part("intervals-clips", DENSITIES, SURE, Finder(("clip",), CLIPS, ("bikes", "carphone_pristine"), (64,))),
    part("intervals-damage", DAMAGED, SURE, Finder(sizes=(240,))),
    part(
        "hindsight",
        [Task("random 25 %", "random:0.25")],
        (
            *QUARTER,
            baseline("RBF thin plate, 20 neighbours", interpolating.thin_plate),
            Method("adaptive, best with hindsight", Hindsight(EVERY_START)),
            Method("smooth, best of a grid with hindsight", Hindsight(EVERY_SMOOTH)),
        ),
    ),
)
SLOW = "hindsight"  # run only if it is named
PREFACE = (
    "Each row is compared with the first of its task on the same signals: the mean gain, the least gain, and the "
    "number of signals on which the row is below. Seconds are means over the signals, their ratio is to the first's."
)


class Quality(Study):
    """The command ``coordnet bench quality``."""

    name = "quality"
    experiments = tuple(QUALITY)

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield the cells of one experiment after another."""
        for name in options.only:
            _checks.choice("only", name, tuple(QUALITY))
        for experiment in EXPERIMENTS:
            if experiment.name in options.only or (not options.only and experiment.name != SLOW):
                yield experiment.cells(options)

    def contents(self, records: list[Record]) -> dict[str, str | Figure]:
        """Return the mean score of each method over the signals, beside the first method of its task."""
        parts = ["# Reconstructions beside their peers", PREFACE]
        for experiment in EXPERIMENTS:
            found = [r for r in records if r["cell"]["experiment"] == experiment.name]
            score = f"scores.{experiment.measure}", "dB"
            column, unit = ("notes.iterations", "steps") if experiment.name == "iterations" else score
            if found:
                frame = flat(found)
                sure = experiment.name.startswith("intervals")
                lines = intervals.table(frame) if sure else _comparison(frame, column, unit)
                parts += [f"## {experiment.title}", markdown(lines)]
        rows = [f"- {r['cell']['method']['name']} ({r['cell']['task']}): {r['reason']}" for r in records if failed(r)]
        parts += ["## What failed", "\n".join(dict.fromkeys(rows))] if rows else []
        return {".md": "\n\n".join(parts) + "\n"}


def _comparison(frame: Frame, column: str, unit: str) -> Frame:
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
