"""The tables and figures of the source papers, and our own that extend them, each as one declaration."""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from coordnet.bench import estimators, peers, record_tables
from coordnet.bench.catalogue import PAPERS
from coordnet.bench.estimators import SMOOTH, VIDEO, ClosedForm, Layout, Trained, complex_, directional, simple
from coordnet.bench.experiment import Experiment, Method, Task, baseline
from coordnet.bench.records import Cell, Options, Record, Study
from coordnet.bench.signals import CLIPS, Finder
from coordnet.encodings import ENCODERS
from coordnet.encodings import encoders as e
from coordnet.networks.heads import MLP, Head, Linear
from coordnet.priors.smoothness import Smoothness

PICTURE, CLIP = 512, 128  # samples along an axis of the papers' signals, for which their scales are given
LIMIT = 120.0  # seconds after which a slow peer is stopped
NETWORKS: dict[int, tuple[int, Head]] = {PICTURE: (512, MLP(4, 256)), CLIP: (192, MLP(5, 512))}  # features and head
RATE = 5e-3  # the learning rate of MLPs
SOLVED, DESCENDED, NETWORK = "closed form, complex {}", "gradient, complex {}", "MLP, simple {}"
TIED = partial(ClosedForm, blended=2)  # scattered samples are tied to a grid of half the resolution


def _paper(name: str, *declaration: Any, **options: Any) -> Experiment:
    return Experiment(name, PAPERS[name], *declaration, **options)


def mlp(layout: Layout) -> Trained:
    """Return the papers' network on a simple encoding."""
    return Trained(layout, head=NETWORKS[layout.of or PICTURE][1], lr=RATE)


def column(table: str, kind: str, name: str, estimator: Callable[[Layout], Any], printed: bool = True) -> list[Method]:
    """Return a method for each encoder of a paper's table, by the settings of a kind: simple, gradient or closed form.

    ``printed.csv`` holds tables 1 to 3 of Zheng et al., "Trading Positional Complexity vs Deepness in Coordinate
    Networks" (ECCV 2022): the scale of each encoder (σ, half-width, or highest frequency), PSNR on test points in dB,
    seconds and parameters, on the authors' data. "clip" is what the authors' notebook prints for one clip of table 3.
    """
    of, methods = PICTURE if table in ("table1", "table2") else CLIP, []
    with (Path(__file__).parent / "printed.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (row["table"], row["kind"]) == (table, kind)]
    for row in rows:
        encoder, build, features = ENCODERS[row["encoder"]], complex_, None
        if kind == "simple":
            turned = of == PICTURE and encoder in (e.Triangle, e.Gaussian)
            build, features = directional if turned else simple, NETWORKS[of][0]
        layout = Layout(build, encoder, float(row["scale"]), of, features)
        results = (row["psnr"], row["seconds"], row["parameters"]) if printed else ("", "", "")
        methods.append(Method(name.format(encoder.name), estimator(layout), results))
    return methods


def smooth(prior: Smoothness, masked: bool = False) -> Method:
    """Return the closed form of an impulse at every sample of the signal's own grid, with a smoothness prior."""
    return Method("closed form, smooth prior", ClosedForm(Layout(complex_, e.Impulse), prior=prior, masked=masked))


BY_SPECTRUM = Method("closed form, adaptive prior", estimators.ADAPTIVE)
BY_PATCHES = Method("closed form, local prior", estimators.LOCAL)
DEGREES = ("nearest", "linear", "cubic")
TITLES = ("nearest sample", "linear spline (SciPy)", "cubic spline (SciPy)")
SPLINES = tuple(baseline(title, peers.spline, kind=kind) for title, kind in zip(TITLES, DEGREES, strict=True))
GRIDDATA = tuple(baseline(f"griddata {kind} (SciPy)", peers.spline, kind=kind) for kind in DEGREES)
BICUBIC = baseline("bicubic (PyTorch interpolate)", peers.torch_interpolate)
SLOW_PEERS = (
    baseline("RBFInterpolator, thin plate, 20 neighbours (SciPy)", peers.thin_plate, LIMIT),
    baseline("biharmonic inpainting (scikit-image)", peers.biharmonic, LIMIT),
)

ONE = MLP(1, 32)
drawn_as_printed = partial(Trained, head=Linear("uniform"))
TRAINED = (
    *column("table1", "gradient", DESCENDED, Trained),
    *column("table1", "gradient", f"{DESCENDED}, drawn within ±1/√3", drawn_as_printed, False),
    *column("table1", "gradient", f"{DESCENDED}, one hidden layer", partial(Trained, head=ONE, lr=RATE), False),
    *column("table1", "simple", "gradient, simple {}, linear head", Trained, False),
    *column("table1", "simple", NETWORK, mlp),
)

TABLE_1 = _paper(
    "table1",
    {
        Task("separable", "every:2"): (
            *SPLINES,
            BICUBIC,
            *column("table1", "closed form", SOLVED, ClosedForm),
            smooth(SMOOTH, masked=True),
            BY_PATCHES,
            *TRAINED,
        )
    },
)

TABLE_2 = _paper(
    "table2",
    {
        Task("scattered", "random:0.25"): (
            *GRIDDATA,
            *SLOW_PEERS,
            smooth(SMOOTH),
            BY_SPECTRUM,
            BY_PATCHES,
            *column("table2", "gradient", SOLVED, TIED, False),
            *column("table2", "gradient", f"{SOLVED}, smooth prior", partial(TIED, prior=SMOOTH), False),
            *column("table2", "gradient", DESCENDED, partial(Trained, blended=2)),
            *column("table2", "simple", NETWORK, mlp),
        )
    },
)


TABLE_3 = _paper(
    "table3",
    {
        Task("separable", "every:2"): (
            *SPLINES,
            baseline("trilinear (PyTorch interpolate)", peers.torch_interpolate),
            *column("table3", "closed form", SOLVED, ClosedForm),
            smooth(VIDEO, masked=True),
            *column("table3", "gradient", DESCENDED, Trained),
            *column("table3", "simple", NETWORK, mlp),
        ),
        Task("scattered", "random:0.125"): (
            GRIDDATA[0],
            baseline("griddata linear (SciPy)", peers.spline, 10 * LIMIT, kind="linear", patient=True),
            GRIDDATA[2],
            *SLOW_PEERS,
            smooth(VIDEO),
            BY_SPECTRUM,
            *column("table3", "gradient", f"{SOLVED}, smooth prior", partial(TIED, prior=VIDEO), False),
            *column("clip", "gradient", DESCENDED, partial(Trained, blended=2)),
            *column("clip", "simple", NETWORK, mlp),
        ),
    },
    Finder(("clip",), CLIPS, sizes=(CLIP,)),
    epochs=500,
)

NOISE_SIGMAS = (0.003, 0.005, 0.01, 0.02, 0.04, 0.07)
WIDTHS = (0.0005, 0.001, 0.0015, 0.002, *NOISE_SIGMAS)
MATCHED = 1 / (2 * math.sqrt(2) * math.pi)  # σ_g σ_f of e.Gaussian and random Fourier features of equal rank
LINES = Finder(("row", "column"))


# The scale of each encoder whose stable rank is, in theory, that of a Gaussian of width 1; frequencies are inverse. The
# rank of evenly spaced frequencies is twice the highest, and logarithmic ones get the same.
TWICE = 1 / (4 * math.sqrt(math.pi))
SCALES = {e.Gaussian: 1.0, e.RandomFourier: MATCHED}
MORE_SCALES = {e.Triangle: 4 * math.sqrt(math.pi) / 3, e.LinearFourier: TWICE, e.LogFourier: TWICE}


def _deepened(
    sigmas: tuple[float, ...], depths: Iterable[int], title: str, scales: Mapping[Any, float] = SCALES
) -> Iterator[Method]:
    """Yield encoders that have, in theory, the stable rank of a Gaussian of width σ: solved, and below networks."""
    matched = [
        (encoder, sigma, factor * sigma if encoder.scales[0].unit == "length" else factor / sigma)
        for encoder, factor in scales.items()
        for sigma in sigmas
    ]
    for encoder, sigma, scale in matched:
        layout = Layout(complex_, encoder, scale, PICTURE)
        yield Method(f"closed form, {encoder.name} σ = {sigma:g}", ClosedForm(layout))
    for depth, (encoder, sigma, scale) in product(depths, matched):
        trained = Trained(Layout(simple, encoder, scale, PICTURE), head=MLP(depth, 256), lr=RATE)
        yield Method(title.format(f"{encoder.name} σ = {sigma:g}", depth), trained)


FIGURE_7 = _paper(
    "figure7",
    {Task("row", "every:2"): (*SPLINES, *_deepened(NOISE_SIGMAS, range(3), "{}, depth {}", SCALES | MORE_SCALES))},
    LINES,
    abscissa="rank",
)

FEATURES = _paper(
    "features",
    {
        Task("row", "every:2"): SPLINES
        + tuple(
            Method(f"{encoder.name}, K = {count}", ClosedForm(Layout(complex_, encoder, scale, PICTURE, count)))
            for encoder, scale in ((e.Gaussian, 0.01), (e.RandomFourier, MATCHED / 0.01))
            for count in (16, 32, 64, 128, 256, 1024, 4096)
        )
    },
    LINES,
    abscissa="features",
)

UNPRINTED = tuple(Method(m.name, m.estimator) for m in TRAINED)  # the paper prints numbers for larger pictures
EPOCHS = _paper(
    "epochs",
    {Task("separable", "every:2"): (*SPLINES, smooth(SMOOTH, masked=True), *UNPRINTED)},
    Finder(sizes=(128,)),
    abscissa="epochs",
)

RETHINKING = _paper(
    "rethinking",
    {Task("row", "every:2"): (*SPLINES, *_deepened(WIDTHS, [2], "MLP of depth {1}, {0}"))},
    LINES,
    seeds=5,
    abscissa="rank",
)


def _every_encoder() -> Iterator[Method]:
    """Yield each encoder at its defaults: simple, and complex if it has one axis; linear and MLP."""
    trains = (e.LearnedEmbedding, e.JointEmbedding, e.HashGrid, e.LearnableFourier)
    for name, encoder in ENCODERS.items():
        builds = {"simple": simple} | ({"complex": complex_} if issubclass(encoder, e.Encoder) else {})
        for kind, build in builds.items():
            layout = Layout(build, encoder)
            trained = Trained(layout, lr=RATE) if encoder in trains else Trained(layout)
            solvable = kind == "complex" and encoder not in trains
            yield Method(f"{name}, {kind}, linear", ClosedForm(layout) if solvable else trained)
            yield Method(f"{name}, {kind}, MLP", Trained(layout, head=MLP(4, 256), lr=RATE))


EVERY_ENCODER = _paper("encoders", {Task("separable", "every:2"): (*SPLINES, BICUBIC, *_every_encoder())})

(RFF_MLP,) = (m for m in column("table2", "simple", "MLP, simple {}, σ of table 2", mlp, False) if "rff" in m.name)
DENOISERS = (
    baseline("the noisy picture", peers.unchanged),
    baseline("wavelets sym4, BayesShrink (scikit-image)", peers.wavelet),
    baseline("non-local means (scikit-image)", peers.non_local_means),
    baseline("total variation, best of six weights by hindsight (scikit-image)", peers.best_total_variation),
    Method("closed form, adaptive filter, noise given", estimators.Denoised(given=True)),
    Method("closed form, adaptive filter", estimators.Denoised()),
    Method(
        "closed form, smooth prior chosen by cross-validation",
        estimators.Tuned(Layout(complex_, e.Impulse), criterion="gcv"),
    ),
    RFF_MLP,
)

NOISE = _paper(
    "noise", {Task(f"noise {s:g}", "full", s, "clean"): DENOISERS for s in (0.02, 0.05, 0.1, 0.2)}, abscissa="noise"
)

INPAINTERS = (*GRIDDATA, *SLOW_PEERS, smooth(SMOOTH), BY_SPECTRUM, BY_PATCHES, RFF_MLP)
SAMPLING = _paper(
    "sampling",
    {Task(f"{100 * f:g} %", f"random:{f:g}"): INPAINTERS for f in (0.02, 0.05, 0.1, 0.25, 0.5, 0.8, 1.0)},
    abscissa="fraction",
)


class Paper(Study):
    """A command that runs one experiment, and writes its table and its figure."""

    def __init__(self, experiment: Experiment) -> None:
        self.name, self.experiment = experiment.name, experiment

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        yield self.experiment.cells(options)

    def contents(self, records: list[Record]) -> dict[str, str | Figure]:
        """Return the report, every number as comma-separated values, and decibels against the abscissa."""
        parts = record_tables.sections(self.experiment, records)
        text, drawn = record_tables.report(self.experiment, records, parts), record_tables.draw(self.experiment, parts)
        return {".md": text, ".csv": record_tables.values(parts), ".png": drawn}


DECLARED = (TABLE_1, TABLE_2, TABLE_3, FIGURE_7, FEATURES, EPOCHS, RETHINKING, EVERY_ENCODER, NOISE, SAMPLING)
STUDIES = tuple(map(Paper, DECLARED))
