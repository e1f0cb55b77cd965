"""``coordnet bench quality``: how near reconstructions come to their signals, beside a named peer in the same run."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.bench import cubes, iterations, memory, noise_peers, peers
from coordnet.bench.cases import Case, Row, Settings
from coordnet.bench.damage import DAMAGE, Damage
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.smoothness import Smoothness

SMOOTH = Smoothness(1.5, 0.01)
SMOOTH_VIDEO = Smoothness(2.0, 0.01)
SMOOTH_SOUND = Smoothness(1.0, 0.01)
STEADY_VIDEO = Smoothness(2.0, 0.01, (0.3, 1.0, 1.0))
BORDER = 8  # pixels of a mosaic's border that do not count
PAIR = ("kodim05", "kodim10")
SIGMA = 0.1
HINDSIGHT = {
    "adaptive, best with hindsight": peers.with_hindsight,
    "smooth, best of a grid with hindsight": peers.best_smooth,
}


def random_quarter(settings: Settings) -> Iterator[Case]:
    """A random quarter of every photograph's crop."""
    methods = {
        **peers.GRIDDATA,
        "smooth": peers.smooth(SMOOTH),
        "smooth, tuned": peers.tuned(),
        "adaptive": peers.adaptive(),
    }
    for path in cubes.photographs(settings.data, settings.images):
        yield Case("random 25 %", path.stem, partial(cubes.crop, path), "random:0.25", methods)


def hindsight(settings: Settings) -> Iterator[Case]:
    """The same with a slow peer, and with what the truth would have chosen."""
    slow = {"RBF thin plate, 20 neighbours": peers.thin_plate}
    for case in random_quarter(settings):
        yield replace(case, methods=case.methods | slow, hindsight=HINDSIGHT)


def density(settings: Settings) -> Iterator[Case]:
    """Fewer and more random samples of two photographs' crops."""
    methods = {**peers.GRIDDATA, "smooth": peers.smooth(SMOOTH), "adaptive": peers.adaptive()}
    for percent in (3, 10, 50, 80):
        for name in PAIR[: settings.images]:
            load = partial(cubes.crop, cubes.photograph(settings.data, name))
            yield Case(f"random {percent} %", name, load, f"random:{percent / 100}", methods)


def video(settings: Settings) -> Iterator[Case]:
    """A random eighth of the cubes of two clips, whose samples take minutes to triangulate."""
    for name, title in {"carphone_pristine": "carphone", "bikes": "bikes"}.items():
        methods = {**peers.TRIANGULATED, **peers.NEAREST, "smooth": peers.smooth(SMOOTH_VIDEO)}
        methods["smooth, time × 0.3"] = peers.smooth(STEADY_VIDEO)
        methods["smooth, tuned"] = peers.tuned()
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


def noisy_lattice(settings: Settings) -> Iterator[Case]:
    """Every second pixel of every photograph's crop, with noise."""
    methods = {
        "cubic spline": peers.SPLINES["cubic spline"],
        "linear interpolation": peers.SPLINES["linear interpolation"],
        "smooth, tuned by hold-out": peers.tuned(),
        "smooth, tuned by GCV": peers.tuned("gcv"),
    }
    for path in cubes.photographs(settings.data, settings.images):
        load = partial(cubes.crop, path)
        yield Case(f"every second, σ = {SIGMA}", path.stem, load, "every:2", methods, noise=SIGMA)


def denoising(settings: Settings) -> Iterator[Case]:
    """Every pixel of every photograph's crop, with noise; the score is over all of them."""
    methods = {
        "wavelets, BayesShrink": noise_peers.unaided(noise_peers.wavelet),
        "non-local means": noise_peers.unaided(noise_peers.non_local_means),
        "denoise": noise_peers.denoised,
    }
    best = {"total variation, best weight": noise_peers.best_total_variation(SIGMA)}
    for path in cubes.photographs(settings.data, settings.images):
        load = partial(cubes.crop, path)
        yield Case(f"full, σ = {SIGMA}", path.stem, load, "full", methods, noise=SIGMA, hindsight=best)


EXPERIMENTS: dict[str, Callable[[Settings], Iterator[Case]]] = {
    "random": random_quarter,
    "density": density,
    "video": video,
    "audio": audio,
    "entries": entries,
    "bayer": bayer,
    "structured": structured,
    "noise": noisy_lattice,
    "denoise": denoising,
}
USUAL = (*EXPERIMENTS, "iterations")
SLOW = {"hindsight": hindsight}  # these, and the memory, only when they are named
NAMES = (*USUAL, *SLOW, "memory")


def parse_names(text: str | None) -> tuple[str, ...]:
    """The experiments that a text names, separated by commas; the ``USUAL`` ones if it is None.

    Raises
    ------
    ValueError
        If one is unknown.
    """
    if text is None:
        return USUAL
    return tuple(_checks.choice("only", name.strip(), NAMES) for name in text.split(","))


def run(name: str, settings: Settings, *, progress: bool = True) -> list[Row]:
    """The rows of one experiment, with a bar over its signals."""
    if name == "memory":
        return large_picture()
    if name == "iterations":
        return iterations.table(cubes.photograph(settings.data, PAIR[0]))
    rows: list[Row] = []
    with tqdm(
        list((EXPERIMENTS | SLOW)[name](settings)), desc=name, disable=not progress, dynamic_ncols=True
    ) as bar:
        for case in bar:
            bar.set_postfix_str(f"{case.task}, {case.signal}")
            rows.extend(case.run())
    return rows


def large_picture(size: int = memory.LARGE) -> list[Row]:
    """Peak memory of ``coordnet reconstruct`` on a random quarter of a picture of 4096² × 3, which 6 GiB must hold."""
    rows = []
    for prior in ("smooth", "adaptive"):
        made = memory.footprint(size, prior)
        chosen = f"{made.iterations} iterations"
        rows.append(Row("reconstruct, 25 %", f"{size}²×3", prior, "peak", made.peak, made.seconds, chosen))
    return rows
