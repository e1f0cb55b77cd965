"""The tables and figures of the source papers, and our own that extend them, each as one declaration."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from coordnet.bench import peers
from coordnet.bench.data import CLIPS, Finder
from coordnet.bench.estimation import Method, Task
from coordnet.bench.layouts import Layout, complex_, directional, simple
from coordnet.bench.methods import ADAPTIVE as ADAPTIVE_FORM
from coordnet.bench.methods import SMOOTH, VIDEO, ClosedForm, Denoised, Trained, Tuned
from coordnet.bench.peers import Peer
from coordnet.bench.printed import SCATTERED_CLIP, Column, column
from coordnet.bench.study import Experiment
from coordnet.encodings.encoders import (
    Encoder,
    Gaussian,
    HashGrid,
    Impulse,
    JointEmbedding,
    LearnableFourier,
    LearnedEmbedding,
    RandomFourier,
    Triangle,
)
from coordnet.encodings.registry import ENCODERS
from coordnet.networks.heads import MLP, Head
from coordnet.priors.smoothness import Smoothness

PICTURE, CLIP = 512, 128  # samples along an axis of the papers' signals, for which their scales are given
CHEAP, SLOW, TRAINED, LONG = range(4)  # costs: the order in which methods run
LIMIT = 120.0  # seconds after which a slow peer is stopped
RATE = 5e-3  # the learning rate of MLPs
MLP_2D, MLP_3D = (512, MLP(4, 256)), (192, MLP(5, 512))  # features and head
DIRECTIONS = {Triangle: directional, Gaussian: directional}


def networks(
    encoders: Column, of: int, head: tuple[int, Head], builds: Mapping[Any, Any], suffix: str = ""
) -> Iterator[Method]:
    """Yield an MLP on a simple encoding for each encoder of a column."""
    for encoder, (scale, *results) in encoders.items():
        layout = Layout(builds.get(encoder, simple), encoder, scale, of, head[0])
        estimator = Trained(layout, head=head[1], lr=RATE)
        name = f"MLP, simple {encoder.name}{suffix}"
        yield Method(name, "gradient", estimator, (results[0], results[1]), LONG, True)


def descended(encoders: Column, of: int, virtual: int | None = None) -> Iterator[Method]:
    """Yield a linear head on a complex encoding, trained by gradient, for each encoder of a column."""
    for encoder, (scale, *results) in encoders.items():
        estimator = Trained(Layout(complex_, encoder, scale, of), virtual)
        name = f"gradient, complex {encoder.name}"
        yield Method(name, "gradient", estimator, (results[0], results[1]), TRAINED, True)


def solved(encoders: Column, of: int, virtual: int | None = None, prior: Smoothness | None = None) -> Iterator[Method]:
    """Yield a linear head on a complex encoding in closed form, with or without a prior, for each encoder."""
    for encoder, (scale, *results) in encoders.items():
        estimator = ClosedForm(Layout(complex_, encoder, scale, of), virtual, prior)
        name = f"closed form, complex {encoder.name}" + (", smooth prior" if prior else "")
        shown = ("", "") if virtual else (results[0], results[1])
        yield Method(name, "closed form", estimator, shown, CHEAP, encoder.random)


def smooth(prior: Smoothness, masked: bool = False) -> Method:
    """Return the closed form of an impulse at every sample of the signal's own grid, with a smoothness prior."""
    estimator = ClosedForm(Layout(complex_, Impulse), prior=prior, masked=masked)
    return Method("closed form, smooth prior", "closed form", estimator)


def baseline(name: str, function: Callable[..., Any], limit: float | None = None, **options: Any) -> Method:
    """Return another library's method; one with a time limit runs late."""
    peer = Peer(partial(function, **options) if options else function, limit)
    return Method(name, "baseline", peer, cost=CHEAP if limit is None else SLOW)


ADAPTIVE = Method("closed form, adaptive prior", "closed form", ADAPTIVE_FORM, cost=SLOW)
SPLINES = (
    baseline("nearest sample", peers.spline, kind="nearest"),
    baseline("linear spline (SciPy)", peers.spline, kind="linear"),
    baseline("cubic spline (SciPy)", peers.spline, kind="cubic"),
)
BICUBIC = baseline("bicubic (PyTorch interpolate)", peers.torch_interpolate)
GRIDDATA = tuple(
    baseline(f"griddata {kind} (SciPy)", peers.spline, kind=kind) for kind in ("nearest", "linear", "cubic")
)
PATIENT = baseline("griddata linear (SciPy)", peers.spline, 10 * LIMIT, kind="linear", patient=True)
SLOW_PEERS = (
    baseline("RBFInterpolator, thin plate, 20 neighbours (SciPy)", peers.thin_plate, LIMIT),
    baseline("biharmonic inpainting (scikit-image)", peers.biharmonic, LIMIT),
)

TABLE_1 = Experiment(
    "table1",
    "Pictures, every second pixel of every second row known (Zheng et al. 2022, table 1)",
    {
        Task("separable", "every:2"): (
            *SPLINES,
            BICUBIC,
            *solved(column("table1", "closed form"), PICTURE),
            smooth(SMOOTH, masked=True),
            *descended(column("table1", "gradient"), PICTURE),
            *networks(column("table1", "simple"), PICTURE, MLP_2D, DIRECTIONS),
        )
    },
)

TABLE_2 = Experiment(
    "table2",
    "Pictures, a random quarter of the pixels known (Zheng et al. 2022, table 2)",
    {
        Task("scattered", "random:0.25"): (
            *GRIDDATA,
            *SLOW_PEERS,
            smooth(SMOOTH),
            ADAPTIVE,
            *solved(column("table2", "gradient"), PICTURE, 2),
            *solved(column("table2", "gradient"), PICTURE, 2, SMOOTH),
            *descended(column("table2", "gradient"), PICTURE, 2),
            *networks(column("table2", "simple"), PICTURE, MLP_2D, DIRECTIONS),
        )
    },
    quick_size=96,
)


def _of_one_clip(*methods: Method) -> Iterator[Method]:
    """Replace the printed results of the separable table by those of the authors' notebook for one clip."""
    return (replace(m, printed=SCATTERED_CLIP.get(m.name, ("", ""))) for m in methods)


TABLE_3 = Experiment(
    "table3",
    "Video cubes of 128³ (Zheng et al. 2022, table 3)",
    {
        Task("separable", "every:2"): (
            *SPLINES,
            baseline("trilinear (PyTorch interpolate)", peers.torch_interpolate),
            *solved(column("table3", "closed form"), CLIP),
            smooth(VIDEO, masked=True),
            *descended(column("table3", "gradient"), CLIP),
            *networks(column("table3", "simple"), CLIP, MLP_3D, {}),
        ),
        Task("scattered", "random:0.125"): (
            GRIDDATA[0],
            PATIENT,
            GRIDDATA[2],
            *SLOW_PEERS,
            smooth(VIDEO),
            ADAPTIVE,
            *solved(column("table3", "gradient"), CLIP, 2, VIDEO),
            *_of_one_clip(*descended(column("table3", "gradient"), CLIP, 2)),
            *_of_one_clip(*networks(column("table3", "simple"), CLIP, MLP_3D, {})),
        ),
    },
    Finder(("clip",), CLIPS),
    size=128,
    quick_size=24,
    epochs=500,
    quick_epochs=2,
)

SIGMAS = (0.003, 0.005, 0.01, 0.02, 0.04, 0.07)
WIDTHS = (0.0005, 0.001, 0.0015, 0.002, *SIGMAS)
MATCHED = 1 / (2 * math.sqrt(2) * math.pi)  # σ_g σ_f of Gaussian and random Fourier features of equal rank
LINES = Finder(("row", "column"))


def _matched(build: Any, sigmas: tuple[float, ...]) -> Iterator[tuple[str, Layout]]:
    """Yield layouts whose stable rank is, in theory, that of a Gaussian of width σ, with their names."""
    for encoder in (Gaussian, RandomFourier):
        for sigma in sigmas:
            scale = sigma if encoder is Gaussian else MATCHED / sigma
            yield f"{encoder.name} σ = {sigma:g}", Layout(build, encoder, scale, PICTURE)


def _solved_matched(sigmas: tuple[float, ...]) -> Iterator[Method]:
    """Yield the linear head in closed form, which separates the gain of depth from unfinished descent."""
    for name, layout in _matched(complex_, sigmas):
        estimator = ClosedForm(layout)
        yield Method(f"closed form, {name}", "closed form", estimator, draws=layout.encoder.random)


def _trained_matched(sigmas: tuple[float, ...], depth: int, title: str) -> Iterator[Method]:
    """Yield networks of a depth."""
    for name, layout in _matched(simple, sigmas):
        estimator = Trained(layout, head=MLP(depth, 256), lr=RATE)
        yield Method(title.format(name), "gradient", estimator, cost=TRAINED, draws=True)


FIGURE_7 = Experiment(
    "figure7",
    "Rows and columns of pictures: rank of the encoding against depth (Zheng et al. 2022, figure 7; rate 0.005)",
    {
        Task("row", "every:2"): (
            *SPLINES,
            *_solved_matched(SIGMAS),
            *(m for depth in range(3) for m in _trained_matched(SIGMAS, depth, f"{{}}, depth {depth}")),
        )
    },
    LINES,
    abscissa="scale",
)

RETHINKING = Experiment(
    "rethinking",
    "Rows and columns of pictures: Gaussian and random Fourier features, of equal stable rank by theory "
    "(Zheng et al. 2021)",
    {Task("row", "every:2"): (*SPLINES, *_solved_matched(WIDTHS), *_trained_matched(WIDTHS, 2, "MLP of depth 2, {}"))},
    LINES,
    quick_size=480,
    seeds=5,
    abscissa="scale",
)


def _every_encoder() -> Iterator[Method]:
    """Yield each encoder at its defaults: simple, and complex if it has one axis; linear and MLP."""
    trains = (LearnedEmbedding, JointEmbedding, HashGrid, LearnableFourier)
    for name, encoder in ENCODERS.items():
        builds = {"simple": simple} | ({"complex": complex_} if issubclass(encoder, Encoder) else {})
        for kind, build in builds.items():
            layout = Layout(build, encoder)
            if kind == "complex" and encoder not in trains:
                yield Method(f"{name}, {kind}, linear", "closed form", ClosedForm(layout), draws=True)
            else:
                yield Method(f"{name}, {kind}, linear", "gradient", Trained(layout), cost=TRAINED, draws=True)
            mlp = Trained(layout, head=MLP(4, 256), lr=RATE)
            yield Method(f"{name}, {kind}, MLP", "gradient", mlp, cost=LONG, draws=True)


EVERY_ENCODER = Experiment(
    "encoders",
    "Pictures, every second pixel of every second row known: every encoder, simple and complex, linear and MLP",
    {Task("separable", "every:2"): (*SPLINES, BICUBIC, *_every_encoder())},
    quick_size=64,
    quick_epochs=3,
)

RFF = {RandomFourier: (column("table2", "simple")[RandomFourier][0], "", "")}
RFF_MLP = tuple(networks(RFF, PICTURE, MLP_2D, {}, ", σ of table 2"))
DENOISERS = (
    baseline("the noisy picture", peers.unchanged),
    baseline("wavelets sym4, BayesShrink (scikit-image)", peers.wavelet),
    baseline("non-local means (scikit-image)", peers.non_local_means),
    baseline("total variation, best of six weights by hindsight (scikit-image)", peers.best_total_variation),
    Method("closed form, adaptive filter, noise given", "closed form", Denoised(given=True), cost=SLOW),
    Method("closed form, adaptive filter", "closed form", Denoised(), cost=SLOW),
    Method(
        "closed form, smooth prior chosen by cross-validation",
        "closed form",
        Tuned(Layout(complex_, Impulse), criterion="gcv"),
    ),
    *RFF_MLP,
)

NOISE = Experiment(
    "noise",
    "Pictures known everywhere, with white Gaussian noise",
    {Task(f"noise {s:g}", "full", s, "clean"): DENOISERS for s in (0.02, 0.05, 0.1, 0.2)},
    quick_size=96,
    abscissa="noise",
)

INPAINTERS = (*GRIDDATA, *SLOW_PEERS, smooth(SMOOTH), ADAPTIVE, *RFF_MLP)
SAMPLING = Experiment(
    "sampling",
    "Pictures, PSNR against the fraction of pixels known",
    {Task(f"{100 * f:g} %", f"random:{f:g}"): INPAINTERS for f in (0.02, 0.05, 0.1, 0.25, 0.5, 0.8, 1.0)},
    quick_size=96,
    abscissa="fraction",
)

STUDIES = (TABLE_1, TABLE_2, TABLE_3, FIGURE_7, RETHINKING, EVERY_ENCODER, NOISE, SAMPLING)
