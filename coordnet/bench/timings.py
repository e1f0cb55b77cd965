"""The tasks that ``coordnet bench speed`` times: one cell a task, with every method and its peers in the same run."""

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import ndimage
from scipy.interpolate import RectBivariateSpline
from torch import Tensor
from torch.nn.functional import interpolate

from coordnet.bench import peers
from coordnet.bench.experiment import Case
from coordnet.bench.jobs import limited
from coordnet.bench.records import Cell, Result
from coordnet.bench.signals import reflected
from coordnet.comparison.stopwatch import Timing, measure, once, peak_gib, with_peak
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.designs import designs
from coordnet.encodings.encoders import Gaussian, Triangle
from coordnet.fitting.closed_form import plan
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.linalg.kronecker import mode_product
from coordnet.media import load
from coordnet.media.row_blocks import open_rows, write_rows
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.least_squares import LeastSquares
from coordnet.priors.local import Local
from coordnet.priors.smoothness import Smoothness
from coordnet.restore.rows import stream_render
from coordnet.sampling import Axis, Lattice, Samples, sample

DENSE_LIMIT = 1024  # samples along an axis up to which dense factorizations are timed
LIMIT, BESIDE_GPU = 120.0, 10.0  # seconds after which a peer is stopped, and on the processor of a machine with a GPU
LEAST_SECONDS = 0.5  # seconds for which short work is repeated: threads are slow in their first 30 ms
FIT_RESIDUAL = 1e-3  # the relative residual of the fits to random samples
RBF_NEIGHBORS = 25  # samples that RBFInterpolator takes for a point; with all, its work grows with their cube
CLIP_SIDES = (64, 128)  # samples along a side of clips; a quick run takes the first
BATCH_SIDE, BATCHES = 256, (1, 16, 256)  # samples along a side of batched pictures, and their numbers
PICTURE = "astronaut"  # 512² pixels, sampled at random
ROWS_MEMORY = 2**31  # bytes: the limit of an enlargement in rows

BARE_PRODUCTS = "bare matrix products"
SPLINE = "RectBivariateSpline cubic, fit + render"
ZOOM = "ndimage.zoom order 3"
BICUBIC = "interpolate bicubic"
LINEAR_GRIDDATA = "griddata linear"
REUSED = "fit + render, plan reused"
THEN = "fit, then render, plan reused"
COLD = "fit + render, cold"
DENSE = "dense, fit + render, plan reused"
FIT = "fit, plan reused"
GRAPH = "CUDA graph"
SMOOTH, ADAPTIVE, LOCAL = (f"{name} prior, to {FIT_RESIDUAL:g}" for name in ("smooth", "adaptive", "local"))
IN_MEMORY, IN_ROWS = "in memory", "in rows, --memory 2GiB"


def over(limit: float) -> str:
    """Say why a method that was stopped has no timing."""
    return f"over {limit:g} s"


@dataclass
class Rows:
    """The timings of a task by method, and notes on them: the peer, the points, the spread, why there is no timing."""

    seconds: dict[str, float | None] = field(default_factory=dict)
    scores: dict[str, float | None] = field(default_factory=dict)
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)
    limit: float = LIMIT

    def time(self, name: str, work: Callable[[], Any], points: int, peer: str | None = None, **options: Any) -> None:
        """Time the work of a method that renders, or only fits, some points.

        Work with many ``expected`` seconds runs only once, in a process that is stopped at ``limit``.
        """
        notes: dict[str, Any] = {"outputs": points, "peer": peer}
        try:
            if options.pop("expected", 0.0) < self.limit / 4:
                timing = measure(work, least=LEAST_SECONDS, **options)
            else:
                seconds = limited(work, self.limit)[1]
                timing = Timing(seconds, seconds, seconds, 1)
        except (TimeoutError, RuntimeError) as error:
            stopped = over(self.limit) if isinstance(error, TimeoutError) else f"RuntimeError: {error}"
            self.seconds[name], self.notes[name] = None, {**notes, "stopped": stopped}
            return
        self.seconds[name] = timing.median
        self.notes[name] = {**notes, "low": timing.low, "high": timing.high, "repeats": timing.repeats}


def _random(*shape: int) -> Tensor:
    return torch.rand(*shape, 3, generator=torch.Generator().manual_seed(0))


def _problem(device: str, *shape: int) -> Samples:
    """Return random samples of ``shape`` × 3 channels, every second along each axis of a lattice."""
    return Samples(Lattice(tuple(2 * n for n in shape), (2,) * len(shape)), _random(*shape).to(device))


def picture(rows: Rows, device: str, size: int) -> None:
    """Fit random numbers on a square × 3 channels by least squares, and render them at twice the resolution."""
    points, seconds = 4 * size**2, (size / 256) ** 2
    samples = _problem(device, size, size)
    values, geometry = samples.values, samples.geometry
    host, fine = Samples(geometry, values.cpu()), Lattice(samples.grid)
    encoding = ComplexEncoding.like(Gaussian, geometry)
    factorize = partial(plan, encoding, geometry, LeastSquares(), device=device)
    if size <= 2 * DENSE_LIMIT or device != "cpu":
        rows.time(BARE_PRODUCTS, bare_products(values, fine.grid), points)
    for mode in ("bilinear", "bicubic"):
        rows.time(f"interpolate {mode}", interpolation(samples, mode), points)
    rows.time(SPLINE, partial(rect_bivariate_spline, host), points, expected=0.1 * seconds)
    rows.time(ZOOM, partial(zoom, host), points, expected=0.2 * seconds)
    if size <= DENSE_LIMIT:
        procedure = partial(papers_procedure, encoding, samples)
        rows.time("papers' procedure, dense pseudo-inverses", procedure, points)
        rows.time("dense, factorize", partial(dense, encoding, samples), points)
        rows.time(DENSE, products(values, dense(encoding, samples)), points, BARE_PRODUCTS)
    rows.time("encode", lambda: designs(encoding, fine.axes, device=device), points, SPLINE)
    rows.time("factorize", factorize, points, SPLINE)
    reused = factorize()
    rows.time("render", reused.fit(values).render, points, BARE_PRODUCTS)
    _reused(rows, reused, values, size**2, points)
    rows.time(COLD, lambda: factorize().renderer()(values), points, SPLINE)


def rect_bivariate_spline(samples: Samples) -> None:
    """Enlarge each channel by SciPy's cubic spline."""
    x, y = (axis.points().numpy() for axis in samples.geometry.axes)
    u, v = (Axis(n).points().numpy() for n in samples.grid)
    for channel in samples.values.movedim(-1, 0).double().numpy():
        RectBivariateSpline(x, y, channel)(u, v)


def zoom(samples: Samples) -> None:
    """Enlarge each channel by ``scipy.ndimage.zoom`` of order 3."""
    factors = [n / k for n, k in zip(samples.grid, samples.values.shape, strict=False)]
    for channel in samples.values.movedim(-1, 0).contiguous().numpy():
        ndimage.zoom(channel, factors, order=3)


def interpolation(samples: Samples, mode: str) -> Callable[[], Tensor]:
    """Return the call of ``torch.nn.functional.interpolate`` on the values, with their channels in front."""
    x = samples.values.movedim(-1, 0).unsqueeze(0).contiguous()
    return partial(interpolate, x, size=samples.grid, mode=mode)


def papers_procedure(encoding: ComplexEncoding, samples: Samples) -> Tensor:
    """Compute W = Ψ₁⁺ Y (Ψ₂⁺)ᵀ by dense pseudo-inverses, then Ψ W Ψᵀ (Zheng et al., ECCV 2022)."""
    values = samples.values
    first, second = encoding.matrices(samples.geometry.axes, values.dtype, values.device)
    fine = encoding.matrices(Lattice(samples.grid).axes, values.dtype, values.device)
    w = torch.linalg.pinv(first) @ values.movedim(-1, 0) @ torch.linalg.pinv(second).T
    return fine[0] @ w @ fine[1].T


def bare_products(values: Tensor, shape: Sequence[int]) -> Callable[[], Tensor]:
    """Return a product of the shapes of a dense fit and render in one; nothing dense can be faster."""
    sides = zip(shape, values.shape[-len(shape) - 1 : -1], strict=True)
    return products(values, [torch.rand(m, n, dtype=values.dtype, device=values.device) for m, n in sides])


def products(values: Tensor, matrices: Sequence[Tensor]) -> Callable[[], Tensor]:
    """Return the product of a matrix along every axis of values (*batch, *lattice, channels), by BLAS alone."""
    x = values.movedim(-1, -len(matrices) - 1).contiguous()
    return partial(mode_product, x, matrices)


def dense(encoding: ComplexEncoding, samples: Samples) -> list[Tensor]:
    """Return a dense matrix for each axis that fits and renders."""
    device = samples.values.device
    known = encoding.matrices(samples.geometry.axes, torch.float64, device)
    fine = encoding.matrices(Lattice(samples.grid).axes, torch.float64, device)
    return [(f @ torch.linalg.pinv(design)).float() for f, design in zip(fine, known, strict=True)]


def _reused(rows: Rows, reused: Any, values: Tensor, fitted: int, rendered: int) -> None:
    """Time fits and renders with a plan, on a GPU as CUDA graphs too."""
    render = reused.renderer()
    rows.time(FIT, lambda: reused.fit(values), fitted, BARE_PRODUCTS)
    rows.time(REUSED, lambda: render(values), rendered, BARE_PRODUCTS)
    rows.time(THEN, lambda: reused.fit(values).render(), rendered, REUSED)
    if values.device.type == "cuda":
        fit_graph, render_graph = reused.capture(values), render.capture(values)
        rows.time(f"{FIT}, {GRAPH}", lambda: fit_graph(values), fitted, BARE_PRODUCTS)
        rows.time(f"{REUSED}, {GRAPH}", lambda: render_graph(values), rendered, BARE_PRODUCTS)


def clip(rows: Rows, device: str, size: int) -> None:
    """Fit random numbers in a cube × 3 channels by least squares, and render them at twice the resolution."""
    points, samples = 8 * size**3, _problem(device, size, size, size)
    values, geometry = samples.values, samples.geometry
    factorize = partial(plan, ComplexEncoding.like(Triangle, geometry), geometry, LeastSquares(), device=device)
    rows.time(BARE_PRODUCTS, bare_products(values, samples.grid), points)
    rows.time("interpolate trilinear", interpolation(samples, "trilinear"), points)
    rows.time(ZOOM, partial(zoom, Samples(geometry, values.cpu())), points, expected=3 * (size / 64) ** 3)
    _reused(rows, factorize(), values, size**3, points)
    rows.time(COLD, lambda: factorize().renderer()(values), points)


def batch(rows: Rows, device: str, size: int, signals: int) -> None:
    """Fit several pictures together, and render them at twice the resolution."""
    geometry, values = _problem(device, size, size).geometry, _random(signals, size, size).to(device)
    fitted = signals * size**2
    rows.time(BARE_PRODUCTS, bare_products(values, geometry.grid), 4 * fitted)
    reused = plan(ComplexEncoding.like(Gaussian, geometry), geometry, LeastSquares(), device=device)
    _reused(rows, reused, values, fitted, 4 * fitted)


def scattered(rows: Rows, device: str, shape: tuple[int, ...], density: float) -> None:
    """Fit random samples to ``FIT_RESIDUAL``: of a picture, or of a clip of hills that move by a column every frame."""
    flat, points = len(shape) == 2, math.prod(shape)
    if flat:
        signal = reflected(load(PICTURE), shape[0])
    else:
        x = torch.linspace(0, 1, shape[0])
        waves = [torch.sin(40 * (x.unsqueeze(1) * x) + c) for c in range(3)]
        hills = torch.stack([(wave + (wave > 0.5)) / 4 + 0.25 for wave in waves], dim=-1)
        signal = torch.stack([hills.roll(t, 1) for t in range(shape[0])])
    samples = sample(signal, f"random:{density}", generator=torch.Generator().manual_seed(0))
    values, case = samples.values.to(device), Case(samples)
    rows.time(BARE_PRODUCTS, bare_products(values, shape), points)
    seconds = (1.0 if flat else 30.0) * points / 512**2
    rows.time(LINEAR_GRIDDATA, partial(peers.spline, case, "linear", patient=True), points, expected=seconds)
    thin_plate = partial(peers.thin_plate, case, neighbors=RBF_NEIGHBORS)
    rows.time(f"RBFInterpolator, {RBF_NEIGHBORS} neighbours", thin_plate, points, expected=60 * seconds)
    power = Smoothness(1.5 if flat else 2.0, 0.01)
    for name, encoding, prior in (
        (SMOOTH, ComplexEncoding.like(Triangle, samples), power),
        (ADAPTIVE, FourierEncoding.like(samples), Adaptive()),
        (LOCAL, FourierEncoding.like(samples), Local()),
    ):
        solver = ConjugateGradients(FIT_RESIDUAL)
        factorize = partial(plan, encoding, samples.geometry, prior, solver=solver, device=device)
        rows.time(name, lambda f=factorize: f().fit(values), points, LINEAR_GRIDDATA, repeats=5)
        rows.notes[name]["iterations"] = factorize().fit(values).report.iterations


def enlarge_whole(size: int, device: str = "cpu") -> dict[str, float]:
    """Enlarge a picture of size² × 3 by 2 in memory; return its seconds, the peak memory and the output in GiB."""
    values, geometry = torch.rand(size, size, 3).to(device), Lattice((size, size))
    start = time.perf_counter()
    render = plan(ComplexEncoding.like(Gaussian, geometry), geometry, device=device).renderer((2 * size, 2 * size))
    return _measured(start, render(values).numel() * 4)


def enlarge_rows(size: int) -> dict[str, float]:
    """Enlarge one channel of size² by 2 from file to file within ``ROWS_MEMORY``, and return the same numbers."""
    geometry, shape = Lattice((size, size)), (2 * size, 2 * size)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source.npy"), Path(folder, "result.npy")
        mapped = np.lib.format.open_memmap(source, mode="w+", dtype="float32", shape=(size, size))
        for a in range(0, size, 256):
            mapped[a : a + 256] = np.random.default_rng(a).random((min(256, size - a), size), dtype="float32")
        del mapped
        start = time.perf_counter()
        fit = plan(ComplexEncoding.like(Gaussian, geometry), geometry, None)
        with open_rows(source) as file:
            blocks = stream_render(fit, file, shape, memory=ROWS_MEMORY)
            write_rows(target, (*shape, 1), "float32", blocks, channel_axis=False)
        return _measured(start, 4 * shape[0] * shape[1])


def _measured(start: float, output: int) -> dict[str, float]:
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_gib": peak_gib(), "output_gib": output / 2**30}


def large(rows: Rows, device: str, name: str, size: int) -> None:
    """Enlarge one large picture, and measure its peak memory: that of a GPU, or of a process of its own."""
    if device == "cpu":
        scores = limited(partial(enlarge_whole if name == IN_MEMORY else enlarge_rows, size))[0]
    else:
        (scores, seconds), peak = with_peak(lambda: once(lambda: enlarge_whole(size, device)), device)
        scores |= {"seconds": seconds, "peak_gib": (peak or 0.0) / 1024}
    rows.seconds[name] = scores.pop("seconds")
    rows.scores.update(scores)
    rows.notes[name] = {"outputs": 4 * size**2, "peer": None}


def timed(task: Callable[..., None], arguments: tuple[Any, ...], cell: Cell) -> Result:
    """Time every method of a task."""
    rows = Rows(limit=LIMIT if cell.device == "cpu" else BESIDE_GPU)
    task(rows, cell.device, *arguments)
    return Result(rows.scores, rows.seconds, rows.notes)


def tasks(group: str, sizes: Sequence[int], quick: bool, device: str = "cpu") -> Iterator[Cell]:
    """Yield the cells of a group: grid, video, batch, random or memory."""

    def cell(name: str, task: Callable[..., None], *arguments: Any) -> Cell:
        subject = {"task": name, "method": {"name": task.__name__}}
        return Cell(experiment="speed", subject=subject, work=partial(timed, task, arguments), device=device)

    if group == "grid":
        yield from (cell(f"{n}²×3 → {2 * n}²", picture, n) for n in sizes)
    elif group == "video":
        yield from (cell(f"{n}³×3 → {2 * n}³", clip, n) for n in (CLIP_SIDES[:1] if quick else CLIP_SIDES))
    elif group == "batch":
        side, counts = BATCH_SIDE, BATCHES[:2] if quick else BATCHES
        yield from (cell(f"{k} of {side}²×3 → {2 * side}²", batch, side, k) for k in counts)
    elif group == "random":  # beyond 2048 a fit with the adaptive prior takes minutes
        yield from (cell(f"random quarter of {n}²×3", scattered, (n, n), 0.25) for n in sizes if n <= 2048)
        if not quick:
            yield cell("random eighth of 128³×3", scattered, (128, 128, 128), 0.125)
    else:
        yield cell(f"memory, {(n := 512 if quick else 4096)}²×3 → {2 * n}²", large, IN_MEMORY, n)
        if device == "cpu":
            yield cell(f"memory, {(n := 1024 if quick else 16384)}²×1 → {2 * n}²", large, IN_ROWS, n)
