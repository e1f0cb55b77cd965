"""The tasks that ``coordnet bench speed`` times, each with its peers in the same run."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from coordnet.bench import speed_peers as peers
from coordnet.bench.cubes import reflected
from coordnet.bench.memory import rolling_hills as hills
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.designs import designs
from coordnet.encodings.encoders import Gaussian, Triangle
from coordnet.fit.closed_form import plan
from coordnet.linalg.buffers import clear_scratch
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.linalg.kronecker import Kronecker, KroneckerLeastSquares, Matrix
from coordnet.linalg.operators import LinearOperator
from coordnet.media import load
from coordnet.metrics.stopwatch import Timing, measure
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.axes import Axes
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import Lattice, Samples

FLOOR = "bare matrix products"
SPLINE = "RectBivariateSpline cubic, fit + render"
BICUBIC = "interpolate bicubic"
GRIDDATA = "griddata linear"
REUSED = "fit + render, plan reused"
COLD = "fit + render, cold"
FIT = "fit, plan reused"
LIMIT = 120.0  # seconds after which a peer is stopped
DENSE_LIMIT = 1024  # samples an axis up to which dense factorisations are timed
PICTURE = "astronaut"  # 512², of which random samples are taken
TOLERANCE = 1e-3  # of the fits to random samples


@dataclass(frozen=True)
class Row:
    """One method at one size.

    Attributes
    ----------
    task, method : str
        What is done, and how.
    outputs : int
        Points that are rendered, or fitted where nothing is rendered.
    timing : Timing or str
        Or why there is none: that it was stopped at ``LIMIT``, or failed.
    peer : str, optional
        The method of the same task that the row is set against.
    measured : dict
        What else was measured: PSNR in dB, iterations, peak memory in bytes.
    """

    task: str
    method: str
    outputs: int
    timing: Timing | str
    peer: str | None = None
    measured: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """The row as a record."""
        row = {"task": self.task, "method": self.method, "outputs": self.outputs, "peer": self.peer}
        if isinstance(self.timing, str):
            seconds: dict[str, Any] = {"median": None, "stopped": self.timing}
        else:
            seconds = self.timing.as_json()
        return {**row, **seconds, **(self.measured or {})}


def grid(size: int, device: torch.device) -> Iterator[Row]:
    """Fit size² × 3 samples, and render them at twice the resolution."""
    task, outputs = f"{size}²×3 → {2 * size}²", 4 * size**2
    row = partial(Row, task)
    values = _random(size, size, 3).to(device)
    host, geometry = values.cpu(), Lattice((2 * size, 2 * size), (2, 2))
    encoding = ComplexEncoding.like(Gaussian, geometry)
    axes, made = Lattice(geometry.grid).axes, plan(encoding, geometry, device=device)
    fit, render = made.fit(values), made.renderer()

    if size <= 2 * DENSE_LIMIT or device.type != "cpu":
        yield row(FLOOR, outputs, measure(peers.bare_products(values, geometry.grid)))
    for mode in ("bilinear", "bicubic"):
        yield row(f"interpolate {mode}", outputs, measure(peers.interpolation(values, geometry, mode)))
    seconds = (size / 256) ** 2
    spline = peers.limited(lambda: peers.rect_bivariate_spline(host, geometry), LIMIT, 0.1 * seconds)
    yield row(SPLINE, outputs, spline)
    zoomed = peers.limited(lambda: peers.zoom(host, geometry), LIMIT, 0.2 * seconds)
    yield row("ndimage.zoom order 3", outputs, zoomed)
    if size <= DENSE_LIMIT:
        papers = measure(lambda: peers.papers_procedure(encoding, values, geometry))
        yield row("papers' procedure, dense pseudo-inverses", outputs, papers)
        yield row("dense, factorise", outputs, measure(lambda: _dense(encoding, geometry, device)))
        dense = _dense(encoding, geometry, device)
        centred = made.centered(values).subtracted()
        yield row("dense, fit + render, plan reused", outputs, measure(lambda: dense(centred)), FLOOR)
    yield row("encode", outputs, measure(lambda: _encoded(encoding, axes, device)), SPLINE)
    yield row("factorise", outputs, measure(lambda: plan(encoding, geometry, device=device)), SPLINE)
    yield row(FIT, size**2, measure(lambda: made.fit(values)), FLOOR)
    yield row("render", outputs, measure(fit.render), FLOOR)
    yield row("fit, then render, plan reused", outputs, measure(lambda: made.fit(values).render()), FLOOR)
    yield row(REUSED, outputs, measure(lambda: render(values)), FLOOR)
    yield row(COLD, outputs, measure(lambda: _cold(encoding, geometry, values)), SPLINE)
    if device.type == "cuda":
        yield from _graphs(row, made, render, values, size**2, outputs)


def _graphs(
    row: Callable[..., Row], made: Any, render: Any, values: Tensor, fitted: int, rendered: int
) -> Iterator[Row]:
    fit, whole = made.capture(values), render.capture(values)
    yield row(f"{FIT}, CUDA graph", fitted, measure(lambda: fit(values)), FLOOR)
    yield row(f"{REUSED}, CUDA graph", rendered, measure(lambda: whole(values)), FLOOR)


def _cold(encoding: ComplexEncoding, geometry: Lattice, values: Tensor) -> Tensor:
    """Fit and render with nothing kept from before."""
    clear_scratch()
    return plan(encoding, geometry, device=values.device).renderer()(values)


def _encoded(encoding: ComplexEncoding, axes: Axes, device: torch.device) -> list[Matrix]:
    """The designs of a lattice, none kept from before."""
    clear_scratch()
    return designs(encoding, axes, device=device)


def _dense(encoding: ComplexEncoding, geometry: Lattice, device: torch.device) -> LinearOperator:
    """Fit and render without bands, by one SVD an axis."""
    system = KroneckerLeastSquares(encoding.matrices(geometry.axes, device=device), dtype=torch.float32)
    fine = encoding.matrices(Lattice(geometry.grid).axes, device=device)
    return (Kronecker(fine) @ system.inverse).to(dtype=torch.float32)


def video(size: int, device: torch.device) -> Iterator[Row]:
    """Fit size³ × 3 samples, and render them at twice the resolution."""
    task, outputs = f"{size}³×3 → {2 * size}³", 8 * size**3
    row = partial(Row, task)
    values = _random(size, size, size, 3).to(device)
    geometry = Lattice((2 * size,) * 3, (2, 2, 2))
    encoding = ComplexEncoding.like(Triangle, geometry)
    made = plan(encoding, geometry, device=device)
    render = made.renderer()
    yield row(FLOOR, outputs, measure(peers.bare_products(values, geometry.grid)))
    yield row("interpolate trilinear", outputs, measure(peers.interpolation(values, geometry, "trilinear")))
    host, expected = values.cpu(), 3 * (size / 64) ** 3
    zoomed = peers.limited(lambda: peers.zoom(host, geometry), LIMIT, expected)
    yield row("ndimage.zoom order 3", outputs, zoomed)
    yield row(FIT, size**3, measure(lambda: made.fit(values)), FLOOR)
    yield row(REUSED, outputs, measure(lambda: render(values)), FLOOR)
    yield row(COLD, outputs, measure(lambda: _cold(encoding, geometry, values)))
    if device.type == "cuda":
        yield from _graphs(row, made, render, values, size**3, outputs)


def batch(signals: int, device: torch.device, size: int = 256) -> Iterator[Row]:
    """Fit so many signals of size² × 3 together, and render them."""
    row = partial(Row, f"{signals} of {size}²×3 → {2 * size}²")
    values = _random(signals, size, size, 3).to(device)
    geometry = Lattice((2 * size, 2 * size), (2, 2))
    made = plan(ComplexEncoding.like(Gaussian, geometry), geometry, device=device)
    render, fitted = made.renderer(), signals * size**2
    yield row(FLOOR, 4 * fitted, measure(peers.bare_products(values, geometry.grid)))
    yield row(FIT, fitted, measure(lambda: made.fit(values)), FLOOR)
    yield row(REUSED, 4 * fitted, measure(lambda: render(values)), FLOOR)
    if device.type == "cuda":
        yield from _graphs(row, made, render, values, fitted, 4 * fitted)


def random_samples(shape: tuple[int, ...], density: float, device: torch.device) -> Iterator[Row]:
    """Fit random samples of a picture or a clip to ``TOLERANCE``."""
    samples = _sampled(shape, density, device)
    points = samples.values[..., 0].numel()
    size = f"{shape[0]}²×3" if len(shape) == 2 else f"{shape[0]}³×3"
    row = partial(Row, f"random {'quarter' if density == 0.25 else 'eighth'} of {size}")
    floor = peers.bare_products(samples.values, shape)
    yield row(FLOOR, points, measure(floor))
    slow = 1.0 if len(shape) == 2 else 30.0
    expected = slow * points / 512**2
    here = Samples(samples.geometry, samples.values.cpu())  # a forked peer cannot use CUDA
    linear = peers.limited(lambda: peers.griddata(here), LIMIT, expected)
    yield row(GRIDDATA, points, linear)
    thin = peers.limited(lambda: peers.rbf(here), LIMIT, 60 * expected)
    yield row(f"RBFInterpolator, {peers.NEIGHBOURS} neighbours", points, thin)
    power = Smoothness(1.5 if len(shape) == 2 else 2.0, 0.01)
    for name, encoding, prior in (
        ("smooth prior", ComplexEncoding.like(Triangle, samples), power),
        ("adaptive prior", FourierEncoding.like(samples), Adaptive()),
    ):
        work = _random_fit(encoding, samples, prior, device)
        found = {"iterations": work().report["iterations"]}
        yield row(f"{name}, to {TOLERANCE:g}", points, measure(work, repeats=5), GRIDDATA, found)


def _random_fit(encoding: Any, samples: Samples, prior: Any, device: torch.device) -> Callable[[], Any]:
    def work() -> Any:
        made = plan(
            encoding, samples.geometry, prior=prior, solver=ConjugateGradients(TOLERANCE), device=device
        )
        return made.fit(samples.values)

    return work


def _sampled(shape: tuple[int, ...], density: float, device: torch.device) -> Samples:
    signal = reflected(load(PICTURE), shape[0]) if len(shape) == 2 else _moving(shape[0])
    found = sample(signal, f"random:{density}", generator=torch.Generator().manual_seed(0))
    return Samples(found.geometry, found.values.to(device))


def _moving(size: int) -> Tensor:
    """A clip (size, size, size, 3): the picture of ``hills``, a column further every frame."""
    picture = hills(size)
    return torch.stack([picture.roll(t, 1) for t in range(size)])


def enlarging(whole: int, rows: int) -> Iterator[Row]:
    """Peak memory of a cold fit and render of ``whole``² × 3, and in rows of ``rows``² × 1, each in its own process."""
    for kind, method, size in (("whole", "in memory", whole), ("rows", "in rows, --memory 2GiB", rows)):
        command = [sys.executable, "-m", "coordnet.bench.enlarging", kind, str(size)]
        outcome = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        seconds, channels = outcome.pop("seconds"), outcome.pop("channels")
        timing = Timing(seconds, seconds, seconds, 1)
        yield Row(f"memory, {size}²×{channels} → {2 * size}²", method, 4 * size**2, timing, None, outcome)


def _random(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))
