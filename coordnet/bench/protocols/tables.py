"""The experiments: one declarative table each."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from coordnet.bench.protocols import printed, signals
from coordnet.bench.protocols.cells import Method, Task
from coordnet.bench.protocols.rows import (
    ADAPTIVE,
    DIRECTIONS,
    GRIDDATA,
    GRIDDATA_3D,
    MLP_2D,
    MLP_3D,
    SLOW,
    SLOW_RIVALS,
    SPLINES,
    TRAINED,
    descended,
    every_encoder,
    rival,
    simple,
    smooth,
    solved,
)
from coordnet.bench.protocols.signals import Signal

PICTURE, CLIP = 512, 128  # samples along an axis of the papers' signals: the unit of their settings
Block = tuple[Task, tuple[Method, ...]]


@dataclass(frozen=True)
class Experiment:
    """What is run, and how its records are shown.

    Attributes
    ----------
    title : str
        Of its table.
    find : function
        The signals of a data folder, by size and how many files.
    size, quick_size : int
        Samples along an axis, at most.
    blocks : tuple of (Task, methods)
        What is known of the signals, and the methods that are applied to it.
    epochs, quick_epochs : int
        Of gradient fits.
    seeds : int
        Of what draws.
    abscissa : str
        What the figure shows PSNR against: "seconds", "noise", "fraction" or "scale".
    score : str
        What tables are sorted by: "held_out" or "clean".
    """

    title: str
    find: Callable[[Path, int, int | None], Iterator[Signal]]
    size: int
    quick_size: int
    blocks: tuple[Block, ...]
    epochs: int = 2000
    quick_epochs: int = 5
    seeds: int = 1
    abscissa: str = "seconds"
    score: str = "held_out"


PHOTOGRAPHS, VIDEO = {"power": 1.5, "strength": 0.01}, {"power": 2.0, "strength": 0.01}

TABLE_1 = Experiment(
    "Pictures, every second pixel of every second row known (Zheng et al. 2022, table 1)",
    signals.pictures,
    480,
    128,
    (
        (
            Task("separable", "every:2"),
            (
                *SPLINES,
                rival("bicubic (PyTorch interpolate)", "torch"),
                *solved(printed.TABLE_1["closed form"], PICTURE),
                smooth(PHOTOGRAPHS, masked=True),
                *descended(printed.TABLE_1["gradient"], PICTURE),
                *simple(printed.TABLE_1["simple"], PICTURE, DIRECTIONS, **MLP_2D),
            ),
        ),
    ),
)

SCATTERED_2D, SCATTERED_3D = (printed.unprinted(t["gradient"]) for t in (printed.TABLE_2, printed.TABLE_3))

TABLE_2 = Experiment(
    "Pictures, a random quarter of the pixels known (Zheng et al. 2022, table 2)",
    signals.pictures,
    480,
    96,
    (
        (
            Task("scattered", "random:0.25"),
            (
                *GRIDDATA,
                *SLOW_RIVALS,
                smooth(PHOTOGRAPHS),
                ADAPTIVE,
                *solved(SCATTERED_2D, PICTURE, virtual=2),
                *solved(SCATTERED_2D, PICTURE, virtual=2, prior=PHOTOGRAPHS),
                *descended(printed.TABLE_2["gradient"], PICTURE, virtual=2),
                *simple(printed.TABLE_2["simple"], PICTURE, DIRECTIONS, **MLP_2D),
            ),
        ),
    ),
)


def _of_one_clip(methods: tuple[Method, ...], kind: str) -> tuple[Method, ...]:
    """Methods with what the authors' notebook printed for one clip, in place of the separable table's figures."""
    found = printed.SCATTERED_CLIP
    return tuple(replace(m, printed=found.get((kind, str(m.settings["encoder"])), ("", ""))) for m in methods)


TABLE_3 = Experiment(
    "Video cubes of 128³ (Zheng et al. 2022, table 3)",
    signals.clips,
    128,
    24,
    (
        (
            Task("separable", "every:2"),
            (
                *SPLINES,
                rival("trilinear (PyTorch interpolate)", "torch"),
                *solved(printed.TABLE_3["closed form"], CLIP),
                smooth(VIDEO, masked=True),
                *descended(printed.TABLE_3["gradient"], CLIP),
                *simple(printed.TABLE_3["simple"], CLIP, {}, **MLP_3D),
            ),
        ),
        (
            Task("scattered", "random:0.125"),
            (
                *GRIDDATA_3D,
                *SLOW_RIVALS,
                smooth(VIDEO),
                ADAPTIVE,
                *solved(SCATTERED_3D, CLIP, virtual=2, prior=VIDEO),
                *_of_one_clip(descended(printed.TABLE_3["gradient"], CLIP, virtual=2), "gradient"),
                *_of_one_clip(simple(printed.TABLE_3["simple"], CLIP, {}, **MLP_3D), "simple"),
            ),
        ),
    ),
    epochs=500,
    quick_epochs=2,
)

SIGMAS = (0.003, 0.005, 0.01, 0.02, 0.04, 0.07)
MATCHED = 1 / (
    2 * math.sqrt(2) * math.pi
)  # σ_g σ_f of Gaussian and random Fourier features of equal stable rank
WIDTHS = (0.0005, 0.001, 0.0015, 0.002, *SIGMAS)
DEPTHS = (0, 1, 2)


def _matched(encoder: str, sigma: float) -> dict[str, object]:
    scale = sigma if encoder == "gaussian" else MATCHED / sigma
    return {"encoding": "simple", "encoder": encoder, "scale": scale, "of": PICTURE, "matched": sigma}


def _solved_matched(sigmas: tuple[float, ...]) -> Iterator[Method]:
    """The linear head in closed form, to tell what depth gains from what descent has not reached."""
    for encoder in ("gaussian", "rff"):
        for sigma in sigmas:
            settings = {**_matched(encoder, sigma), "encoding": "complex"}
            name = f"closed form, {encoder} σ = {sigma:g}"
            yield Method(name, "closed form", "closed form", settings, draws=encoder == "rff")


FIGURE_7 = Experiment(
    "Rows and columns of pictures: rank of the encoding against depth (Zheng et al. 2022, figure 7; rate 0.005)",
    signals.lines,
    480,
    128,
    (
        (
            Task("row", "every:2"),
            (
                *SPLINES,
                *_solved_matched(SIGMAS),
                *(
                    Method(
                        f"{encoder} σ = {sigma:g}, depth {depth}",
                        "gradient",
                        "gradient",
                        {**_matched(encoder, sigma), "depth": depth, "width": 256, "lr": 5e-3},
                        cost=TRAINED,
                        draws=True,
                    )
                    for depth in DEPTHS
                    for encoder in ("gaussian", "rff")
                    for sigma in SIGMAS
                ),
            ),
        ),
    ),
    abscissa="scale",
)

RETHINKING = Experiment(
    "Rows and columns of pictures: Gaussian and random Fourier features, of equal stable rank by theory "
    "(Zheng et al. 2021)",
    signals.lines,
    480,
    480,
    (
        (
            Task("row", "every:2"),
            (
                *SPLINES,
                *_solved_matched(WIDTHS),
                *(
                    Method(
                        f"MLP of depth 2, {encoder} σ = {sigma:g}",
                        "gradient",
                        "gradient",
                        {**_matched(encoder, sigma), "depth": 2, "width": 256, "lr": 5e-3},
                        cost=TRAINED,
                        draws=True,
                    )
                    for encoder in ("gaussian", "rff")
                    for sigma in WIDTHS
                ),
            ),
        ),
    ),
    seeds=5,
    abscissa="scale",
)


ENCODER_TABLE = Experiment(
    "Pictures, every second pixel of every second row known: every encoder, simple and complex, linear and MLP",
    signals.pictures,
    480,
    64,
    (
        (
            Task("separable", "every:2"),
            (*SPLINES, rival("bicubic (PyTorch interpolate)", "torch"), *every_encoder()),
        ),
    ),
    quick_epochs=3,
)

RFF_MLP = tuple(
    replace(method, name=f"{method.name}, σ of table 2")
    for method in simple(
        printed.unprinted({"rff": printed.TABLE_2["simple"]["rff"]}), PICTURE, DIRECTIONS, **MLP_2D
    )
)

DENOISERS = (
    rival("the noisy picture", "unchanged"),
    rival("wavelets sym4, BayesShrink (scikit-image)", "wavelet"),
    rival("non-local means (scikit-image)", "non-local means"),
    rival(
        "total variation, best of six weights by hindsight (scikit-image)", "total variation", hindsight=True
    ),
    Method(
        "closed form, adaptive filter, noise given", "closed form", "denoise", {"noise": "given"}, cost=SLOW
    ),
    Method("closed form, adaptive filter", "closed form", "denoise", {"noise": "estimated"}, cost=SLOW),
    Method(
        "closed form, smooth prior chosen by cross-validation",
        "closed form",
        "closed form",
        {"encoding": "complex", "encoder": "impulse", "prior": "tuned", "criterion": "gcv"},
    ),
    *RFF_MLP,
)

NOISE = Experiment(
    "Pictures known everywhere, with white Gaussian noise",
    signals.pictures,
    480,
    96,
    tuple((Task(f"noise {sigma:g}", "full", sigma), DENOISERS) for sigma in (0.02, 0.05, 0.1, 0.2)),
    abscissa="noise",
    score="clean",
)

FRACTIONS = (0.02, 0.05, 0.1, 0.25, 0.5, 0.8, 1.0)

SAMPLING = Experiment(
    "Pictures, PSNR against the fraction of pixels known",
    signals.pictures,
    480,
    96,
    tuple(
        (
            Task(f"{100 * f:g} %", f"random:{f:g}"),
            (*GRIDDATA, *SLOW_RIVALS, smooth(PHOTOGRAPHS), ADAPTIVE, *RFF_MLP),
        )
        for f in FRACTIONS
    ),
    abscissa="fraction",
)

EXPERIMENTS: dict[str, Experiment] = {
    "table1": TABLE_1,
    "table2": TABLE_2,
    "table3": TABLE_3,
    "figure7": FIGURE_7,
    "rethinking": RETHINKING,
    "encoders": ENCODER_TABLE,
    "noise": NOISE,
    "sampling": SAMPLING,
}
