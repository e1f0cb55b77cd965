"""The tasks that ``coordnet bench speed`` times: one cell a task, with every method and its peers in the same run."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from coordnet.bench import memory, peers
from coordnet.bench.cells import Cell, Result, describe
from coordnet.bench.data import reflected
from coordnet.bench.estimation import Case
from coordnet.bench.limits import LimitExceeded, limited
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.designs import designs
from coordnet.encodings.encoders import Gaussian, Triangle
from coordnet.fitting.closed_form import plan
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.media import load
from coordnet.metrics.stopwatch import Timing, measure
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import Lattice, Samples

DENSE_LIMIT = 1024  # samples along an axis up to which dense factorizations are timed
LIMIT = 120.0  # seconds after which a peer is stopped
TOLERANCE = 1e-3  # the relative residual of the fits to random samples
NEIGHBORS = 25  # of RBFInterpolator at each point: with all samples it takes their number cubed
PICTURE = "astronaut"  # 512², of which random samples are taken

FLOOR = "bare matrix products"
SPLINE = "RectBivariateSpline cubic, fit + render"
ZOOM = "ndimage.zoom order 3"
BICUBIC = "interpolate bicubic"
GRIDDATA = "griddata linear"
REUSED = "fit + render, plan reused"
COLD = "fit + render, cold"
DENSE = "dense, fit + render, plan reused"
FIT = "fit, plan reused"
GRAPH = "CUDA graph"
SMOOTH, ADAPTIVE = (f"{name} prior, to {TOLERANCE:g}" for name in ("smooth", "adaptive"))
IN_MEMORY, IN_ROWS = "in memory", "in rows, --memory 2GiB"
STOPPED = f"over {LIMIT:g} s"


@dataclass
class Rows:
    """The timings of a task by method, and notes on them: the peer, the points, the spread, why there is no timing."""

    seconds: dict[str, float | None] = field(default_factory=dict)
    scores: dict[str, float | None] = field(default_factory=dict)
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def time(self, name: str, work: Callable[[], Any], points: int, peer: str | None = None, **options: Any) -> None:
        """Time the work of a method that renders, or only fits, some points."""
        self._keep(name, measure(work, **options), {"outputs": points, "peer": peer})

    def stop(self, name: str, work: Callable[[], Any], points: int, expected: float) -> None:
        """Time a peer; if it may take long, once, in a process that is stopped at ``LIMIT``."""
        notes: dict[str, Any] = {"outputs": points, "peer": None}
        if expected < LIMIT / 4:
            return self._keep(name, measure(work), notes)
        try:
            seconds = limited(work, LIMIT)[1]
        except (LimitExceeded, RuntimeError) as error:
            stopped = STOPPED if isinstance(error, LimitExceeded) else describe(error)
            self.seconds[name], self.notes[name] = None, {**notes, "stopped": stopped}
            return None
        return self._keep(name, Timing(seconds, seconds, seconds, 1), notes)

    def _keep(self, name: str, timing: Timing, notes: dict[str, Any]) -> None:
        self.seconds[name] = timing.median
        self.notes[name] = {**notes, "low": timing.low, "high": timing.high, "repeats": timing.repeats}


@dataclass(frozen=True, kw_only=True)
class Timed(Cell):
    """A task: a function that fills in the rows, the samples along each axis, and further arguments."""

    task: Callable[..., None]
    shape: tuple[int, ...]
    more: tuple[Any, ...] = ()

    def subject(self) -> dict[str, Any]:
        """Describe the task; its methods are in the result."""
        return {"task": NAMES[self.task](self.shape, *self.more), "method": {"name": self.task.__name__}}

    def check(self) -> None:
        """Read nothing."""

    def measure(self) -> Result:
        """Time every method."""
        rows = Rows()
        self.task(rows, self.shape, self.device, *self.more)
        return Result(rows.scores, rows.seconds, rows.notes)


def _size(shape: tuple[int, ...], factor: int = 1) -> str:
    return f"{factor * shape[0]}{'²' if len(shape) == 2 else '³'}"


def _random(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))


def _doubled(shape: tuple[int, ...]) -> Lattice:
    return Lattice(tuple(2 * n for n in shape), (2,) * len(shape))


def picture(rows: Rows, shape: tuple[int, ...], device: str) -> None:
    """Fit random numbers on a square × 3 channels, and render them at twice the resolution."""
    size, points, seconds = shape[0], 4 * math.prod(shape), (shape[0] / 256) ** 2
    samples = Samples(_doubled(shape), _random(*shape, 3).to(device))
    values, geometry = samples.values, samples.geometry
    host, fine = Samples(geometry, values.cpu()), Lattice(samples.grid)
    encoding = ComplexEncoding.like(Gaussian, geometry)
    factorize = partial(plan, encoding, geometry, device=device)
    if size <= 2 * DENSE_LIMIT or device != "cpu":
        rows.time(FLOOR, peers.bare_products(values, fine.grid), points)
    for mode in ("bilinear", "bicubic"):
        rows.time(f"interpolate {mode}", peers.interpolation(samples, mode), points)
    rows.stop(SPLINE, partial(peers.rect_bivariate_spline, host), points, 0.1 * seconds)
    rows.stop(ZOOM, partial(peers.zoom, host), points, 0.2 * seconds)
    if size <= DENSE_LIMIT:
        procedure = partial(peers.papers_procedure, encoding, samples)
        rows.time("papers' procedure, dense pseudo-inverses", procedure, points)
        rows.time("dense, factorize", partial(dense, encoding, samples), points)
        rows.time(DENSE, peers.products(values, dense(encoding, samples)), points, FLOOR)
    rows.time("encode", lambda: designs(encoding, fine.axes, device=device), points, SPLINE)
    rows.time("factorize", factorize, points, SPLINE)
    reused = factorize()
    rows.time("render", reused.fit(values).render, points, FLOOR)
    rows.time("fit, then render, plan reused", lambda: reused.fit(values).render(), points, FLOOR)
    _reused(rows, reused, values, math.prod(shape), points)
    rows.time(COLD, lambda: factorize().renderer()(values), points, SPLINE)


def dense(encoding: ComplexEncoding, samples: Samples) -> list[Tensor]:
    """Return a dense matrix for each axis that fits and renders."""
    device = samples.values.device
    known = encoding.matrices(samples.geometry.axes, torch.float64, device)
    fine = encoding.matrices(Lattice(samples.grid).axes, torch.float64, device)
    return [(f @ torch.linalg.pinv(design)).float() for f, design in zip(fine, known, strict=True)]


def _reused(rows: Rows, reused: Any, values: Tensor, fitted: int, rendered: int) -> None:
    """Time fits and renders with a plan, on a GPU as CUDA graphs too."""
    render = reused.renderer()
    rows.time(FIT, lambda: reused.fit(values), fitted, FLOOR)
    rows.time(REUSED, lambda: render(values), rendered, FLOOR)
    if values.device.type == "cuda":
        fit_graph, render_graph = reused.capture(values), render.capture(values)
        rows.time(f"{FIT}, {GRAPH}", lambda: fit_graph(values), fitted, FLOOR)
        rows.time(f"{REUSED}, {GRAPH}", lambda: render_graph(values), rendered, FLOOR)


def clip(rows: Rows, shape: tuple[int, ...], device: str) -> None:
    """Fit random numbers in a cube × 3 channels, and render them at twice the resolution."""
    points, samples = 8 * math.prod(shape), Samples(_doubled(shape), _random(*shape, 3).to(device))
    values, geometry = samples.values, samples.geometry
    encoding = ComplexEncoding.like(Triangle, geometry)
    rows.time(FLOOR, peers.bare_products(values, samples.grid), points)
    rows.time("interpolate trilinear", peers.interpolation(samples, "trilinear"), points)
    host = Samples(geometry, values.cpu())
    rows.stop(ZOOM, partial(peers.zoom, host), points, 3 * (shape[0] / 64) ** 3)
    _reused(rows, plan(encoding, geometry, device=device), values, math.prod(shape), points)
    rows.time(COLD, lambda: plan(encoding, geometry, device=device).renderer()(values), points)


def batch(rows: Rows, shape: tuple[int, ...], device: str, signals: int) -> None:
    """Fit several pictures together, and render them at twice the resolution."""
    geometry, fitted = _doubled(shape), signals * math.prod(shape)
    values = _random(signals, *shape, 3).to(device)
    rows.time(FLOOR, peers.bare_products(values, geometry.grid), 4 * fitted)
    reused = plan(ComplexEncoding.like(Gaussian, geometry), geometry, device=device)
    _reused(rows, reused, values, fitted, 4 * fitted)


def scattered(rows: Rows, shape: tuple[int, ...], device: str, density: float) -> None:
    """Fit random samples of a picture or a clip to ``TOLERANCE``."""
    flat, points = len(shape) == 2, math.prod(shape)
    signal = reflected(load(PICTURE), shape[0]) if flat else moving(shape[0])
    samples = sample(signal, f"random:{density}", generator=torch.Generator().manual_seed(0))
    values, case = samples.values.to(device), Case(samples)
    rows.time(FLOOR, peers.bare_products(values, shape), points)
    seconds = (1.0 if flat else 30.0) * points / 512**2
    rows.stop(GRIDDATA, partial(peers.spline, case, "linear", patient=True), points, seconds)
    thin_plate = partial(peers.thin_plate, case, neighbors=NEIGHBORS)
    rows.stop(f"RBFInterpolator, {NEIGHBORS} neighbours", thin_plate, points, 60 * seconds)
    power = Smoothness(1.5 if flat else 2.0, 0.01)
    for name, encoding, prior in (
        (SMOOTH, ComplexEncoding.like(Triangle, samples), power),
        (ADAPTIVE, FourierEncoding.like(samples), Adaptive()),
    ):
        factorize = partial(
            plan, encoding, samples.geometry, prior, solver=ConjugateGradients(TOLERANCE), device=device
        )
        rows.time(name, lambda f=factorize: f().fit(values), points, GRIDDATA, repeats=5)
        rows.notes[name]["iterations"] = factorize().fit(values).report["iterations"]


def moving(length: int) -> Tensor:
    """Return a clip (length, length, length, 3): rolling hills that move by a column every frame."""
    hills = memory.rolling_hills(length)
    return torch.stack([hills.roll(t, 1) for t in range(length)])


def large(rows: Rows, shape: tuple[int, ...], device: str, kind: str) -> None:
    """Enlarge one large picture in a process of its own, and measure its peak memory."""
    name, found = {"whole": IN_MEMORY, "rows": IN_ROWS}[kind], memory.enlarged(kind, shape[0])
    rows.seconds[name] = found.pop("seconds")
    rows.scores.update(found)
    rows.notes[name] = {"outputs": 4 * math.prod(shape), "peer": None}


NAMES: dict[Callable[..., None], Callable[..., str]] = {
    picture: lambda shape: f"{_size(shape)}×3 → {_size(shape, 2)}",
    clip: lambda shape: f"{_size(shape)}×3 → {_size(shape, 2)}",
    batch: lambda shape, signals: f"{signals} of {_size(shape)}×3 → {_size(shape, 2)}",
    scattered: lambda shape, d: f"random {'quarter' if d == 0.25 else 'eighth'} of {_size(shape)}×3",
    large: lambda shape, kind: f"memory, {_size(shape)}×{3 if kind == 'whole' else 1} → {_size(shape, 2)}",
}


def tasks(group: str, sizes: tuple[int, ...], quick: bool) -> Iterator[dict[str, Any]]:
    """Yield the arguments of the cells of a group: grid, video, batch, random or memory."""
    if group == "grid":
        yield from ({"task": picture, "shape": (n, n)} for n in sizes)
    elif group == "video":
        yield from ({"task": clip, "shape": (n, n, n)} for n in ((64,) if quick else (64, 128)))
    elif group == "batch":
        counts = (1, 16) if quick else (1, 16, 256)
        yield from ({"task": batch, "shape": (256, 256), "more": (n,)} for n in counts)
    elif group == "random":  # beyond 2048 a fit with the adaptive prior takes minutes
        yield from ({"task": scattered, "shape": (n, n), "more": (0.25,)} for n in sizes if n <= 2048)
        if not quick:
            yield {"task": scattered, "shape": (128, 128, 128), "more": (0.125,)}
    elif group == "memory":
        for kind, n in (("whole", 512 if quick else 4096), ("rows", 1024 if quick else 16384)):
            yield {"task": large, "shape": (n, n), "more": (kind,)}
