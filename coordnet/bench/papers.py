"""The tables and figures of the source papers, and our own that extend them, each as one declaration."""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from coordnet.bench import peers
from coordnet.bench.data import CLIPS, Finder
from coordnet.bench.estimation import Method, Task
from coordnet.bench.layouts import Layout, complex_, directional, simple
from coordnet.bench.methods import ADAPTIVE, SMOOTH, VIDEO, ClosedForm, Denoised, Trained, Tuned
from coordnet.bench.peers import Peer
from coordnet.bench.study import Experiment
from coordnet.encodings import ENCODERS
from coordnet.encodings import encoders as e
from coordnet.networks.heads import MLP, Head
from coordnet.priors.smoothness import Smoothness

PICTURE, CLIP = 512, 128  # samples along an axis of the papers' signals, for which their scales are given
LIMIT = 120.0  # seconds after which a slow peer is stopped
RATE = 5e-3  # the learning rate of MLPs
MLP_2D, MLP_3D = (512, MLP(4, 256)), (192, MLP(5, 512))  # features and head
DIRECTIONS = {e.Triangle: directional, e.Gaussian: directional}
Column = dict[Any, tuple[float, tuple[str, str]]]  # scale, and PSNR and seconds, by the class of the encoder


def column(table: str, kind: str) -> Column:
    """Return the settings and the printed results of a paper's table: simple, gradient or closed form.

    ``printed.csv`` holds tables 1 to 3 of Zheng et al., "Trading Positional Complexity vs Deepness in Coordinate
    Networks" (ECCV 2022): the scale of each encoder (σ, half-width, or highest frequency), PSNR on test points in dB
    and seconds, on the authors' data. "clip" is what the authors' notebook prints for one clip of table 3.
    """
    with (Path(__file__).parent / "printed.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (row["table"], row["kind"]) == (table, kind)]
    return {ENCODERS[row["encoder"]]: (float(row["scale"]), (row["psnr"], row["seconds"])) for row in rows}


def networks(
    encoders: Column, of: int, head: tuple[int, Head], builds: Mapping[Any, Any] = DIRECTIONS, suffix: str = ""
) -> Iterator[Method]:
    """Yield an MLP on a simple encoding for each encoder of a column."""
    for encoder, (scale, printed) in encoders.items():
        layout = Layout(builds.get(encoder, simple), encoder, scale, of, head[0])
        yield Method(f"MLP, simple {encoder.name}{suffix}", Trained(layout, head=head[1], lr=RATE), printed)


def descended(encoders: Column, of: int, virtual: int | None = None) -> Iterator[Method]:
    """Yield a linear head on a complex encoding, trained by gradient, for each encoder of a column."""
    for encoder, (scale, printed) in encoders.items():
        estimator = Trained(Layout(complex_, encoder, scale, of), virtual)
        yield Method(f"gradient, complex {encoder.name}", estimator, printed)


def solved(encoders: Column, of: int, virtual: int | None = None, prior: Smoothness | None = None) -> Iterator[Method]:
    """Yield a linear head on a complex encoding in closed form, with or without a prior, for each encoder."""
    for encoder, (scale, printed) in encoders.items():
        estimator = ClosedForm(Layout(complex_, encoder, scale, of), virtual, prior=prior)
        name = f"closed form, complex {encoder.name}" + (", smooth prior" if prior else "")
        yield Method(name, estimator, ("", "") if virtual else printed)


def smooth(prior: Smoothness, masked: bool = False) -> Method:
    """Return the closed form of an impulse at every sample of the signal's own grid, with a smoothness prior."""
    return Method("closed form, smooth prior", ClosedForm(Layout(complex_, e.Impulse), prior=prior, masked=masked))


def baseline(name: str, function: Callable[..., Any], limit: float | None = None, **options: Any) -> Method:
    """Return another library's method, which is stopped at a limit in seconds if one is given."""
    return Method(name, Peer(partial(function, **options) if options else function, limit))


BY_SPECTRUM = Method("closed form, adaptive prior", ADAPTIVE)
KINDS = ("nearest", "linear", "cubic")
SPLINES = tuple(
    baseline("nearest sample" if kind == "nearest" else f"{kind} spline (SciPy)", peers.spline, kind=kind)
    for kind in KINDS
)
GRIDDATA = tuple(baseline(f"griddata {kind} (SciPy)", peers.spline, kind=kind) for kind in KINDS)
BICUBIC = baseline("bicubic (PyTorch interpolate)", peers.torch_interpolate)
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
            *networks(column("table1", "simple"), PICTURE, MLP_2D),
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
            BY_SPECTRUM,
            *solved(column("table2", "gradient"), PICTURE, 2),
            *solved(column("table2", "gradient"), PICTURE, 2, SMOOTH),
            *descended(column("table2", "gradient"), PICTURE, 2),
            *networks(column("table2", "simple"), PICTURE, MLP_2D),
        )
    },
)


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
            baseline("griddata linear (SciPy)", peers.spline, 10 * LIMIT, kind="linear", patient=True),
            GRIDDATA[2],
            *SLOW_PEERS,
            smooth(VIDEO),
            BY_SPECTRUM,
            *solved(column("table3", "gradient"), CLIP, 2, VIDEO),
            *descended(column("clip", "gradient"), CLIP, 2),
            *networks(column("clip", "simple"), CLIP, MLP_3D, {}),
        ),
    },
    Finder(("clip",), CLIPS, sizes=(CLIP,)),
    epochs=500,
)

SIGMAS = (0.003, 0.005, 0.01, 0.02, 0.04, 0.07)
WIDTHS = (0.0005, 0.001, 0.0015, 0.002, *SIGMAS)
MATCHED = 1 / (2 * math.sqrt(2) * math.pi)  # σ_g σ_f of e.Gaussian and random Fourier features of equal rank
LINES = Finder(("row", "column"))


def _matched(build: Any, sigmas: tuple[float, ...]) -> Iterator[tuple[str, Layout]]:
    """Yield layouts whose stable rank is, in theory, that of a Gaussian of width σ, with their names."""
    for encoder in (e.Gaussian, e.RandomFourier):
        for sigma in sigmas:
            scale = sigma if encoder is e.Gaussian else MATCHED / sigma
            yield f"{encoder.name} σ = {sigma:g}", Layout(build, encoder, scale, PICTURE)


def _deepened(sigmas: tuple[float, ...], depths: Iterable[int], title: str) -> Iterator[Method]:
    """Yield the linear head in closed form, which separates the gain of depth from unfinished descent, and networks."""
    for name, layout in _matched(complex_, sigmas):
        yield Method(f"closed form, {name}", ClosedForm(layout))
    for depth in depths:
        for name, layout in _matched(simple, sigmas):
            yield Method(title.format(name, depth), Trained(layout, head=MLP(depth, 256), lr=RATE))


FIGURE_7 = Experiment(
    "figure7",
    "Rows and columns of pictures: rank of the encoding against depth (Zheng et al. 2022, figure 7; rate 0.005)",
    {Task("row", "every:2"): (*SPLINES, *_deepened(SIGMAS, range(3), "{}, depth {}"))},
    LINES,
    abscissa="rank",
)

RETHINKING = Experiment(
    "rethinking",
    "Rows and columns of pictures: Gaussian and random Fourier features, of equal stable rank by theory "
    "(Zheng et al. 2021)",
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
            solvable = kind == "complex" and encoder not in trains
            yield Method(f"{name}, {kind}, linear", ClosedForm(layout) if solvable else Trained(layout))
            yield Method(f"{name}, {kind}, MLP", Trained(layout, head=MLP(4, 256), lr=RATE))


EVERY_ENCODER = Experiment(
    "encoders",
    "Pictures, every second pixel of every second row known: every encoder, simple and complex, linear and MLP",
    {Task("separable", "every:2"): (*SPLINES, BICUBIC, *_every_encoder())},
)

RFF = {e.RandomFourier: (column("table2", "simple")[e.RandomFourier][0], ("", ""))}
RFF_MLP = tuple(networks(RFF, PICTURE, MLP_2D, suffix=", σ of table 2"))
DENOISERS = (
    baseline("the noisy picture", peers.unchanged),
    baseline("wavelets sym4, BayesShrink (scikit-image)", peers.wavelet),
    baseline("non-local means (scikit-image)", peers.non_local_means),
    baseline("total variation, best of six weights by hindsight (scikit-image)", peers.best_total_variation),
    Method("closed form, adaptive filter, noise given", Denoised(given=True)),
    Method("closed form, adaptive filter", Denoised()),
    Method("closed form, smooth prior chosen by cross-validation", Tuned(Layout(complex_, e.Impulse), criterion="gcv")),
    *RFF_MLP,
)

NOISE = Experiment(
    "noise",
    "Pictures known everywhere, with white Gaussian noise",
    {Task(f"noise {s:g}", "full", s, "clean"): DENOISERS for s in (0.02, 0.05, 0.1, 0.2)},
    abscissa="noise",
)

INPAINTERS = (*GRIDDATA, *SLOW_PEERS, smooth(SMOOTH), BY_SPECTRUM, *RFF_MLP)
SAMPLING = Experiment(
    "sampling",
    "Pictures, PSNR against the fraction of pixels known",
    {Task(f"{100 * f:g} %", f"random:{f:g}"): INPAINTERS for f in (0.02, 0.05, 0.1, 0.25, 0.5, 0.8, 1.0)},
    abscissa="fraction",
)

STUDIES = (TABLE_1, TABLE_2, TABLE_3, FIGURE_7, RETHINKING, EVERY_ENCODER, NOISE, SAMPLING)
