"""What ``coordnet bench speed`` is measured against: SciPy, PyTorch, the papers' procedure, bare matrix products."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from coordnet.encodings import ComplexEncoding
from coordnet.metrics.stopwatch import Timing, measure
from coordnet.sampling.axes import Axis
from coordnet.sampling.samples import Lattice, Samples

NEIGHBOURS = 25  # of RBFInterpolator at each point: with all samples it takes their number cubed


def rect_bivariate_spline(values: Tensor, geometry: Lattice) -> None:
    """Interpolate each channel by SciPy's cubic spline, and evaluate it on the whole grid."""
    from scipy.interpolate import RectBivariateSpline

    x, y = (axis.points().numpy() for axis in geometry.axes)
    u, v = (Axis(n).points().numpy() for n in geometry.grid)
    for channel in values.movedim(-1, 0).double().numpy():
        RectBivariateSpline(x, y, channel)(u, v)


def zoom(values: Tensor, geometry: Lattice) -> None:
    """Enlarge each channel by ``scipy.ndimage.zoom`` of order 3."""
    from scipy.ndimage import zoom as scipy_zoom

    factors = [n / k for n, k in zip(geometry.grid, values.shape, strict=False)]
    for channel in values.movedim(-1, 0).contiguous().numpy():
        scipy_zoom(channel, factors, order=3)


def interpolation(values: Tensor, geometry: Lattice, mode: str) -> Callable[[], Tensor]:
    """``torch.nn.functional.interpolate`` of the values, channels first as it wants them."""
    x = values.movedim(-1, 0).unsqueeze(0).contiguous()
    return lambda: interpolate(x, size=geometry.grid, mode=mode)


def papers_procedure(encoding: ComplexEncoding, values: Tensor, geometry: Lattice) -> Tensor:
    """W = Ψ₁⁺ Y (Ψ₂⁺)ᵀ by dense pseudo-inverses, then Ψ W Ψᵀ: Zheng et al. (ECCV 2022)."""
    designs = encoding.matrices(geometry.axes, values.dtype, values.device)
    fine = encoding.matrices(Lattice(geometry.grid).axes, values.dtype, values.device)
    w = values.movedim(-1, 0)
    first, second = (torch.linalg.pinv(a) for a in designs)
    return fine[0] @ (first @ w @ second.T) @ fine[1].T


def bare_products(values: Tensor, shape: Sequence[int]) -> Callable[[], Tensor]:
    """``torch.matmul`` alone along every axis, of the shapes of a dense fit and render in one: the floor.

    Values are (*batch, *lattice, channels); batch and channels are folded together before.
    """
    dims = len(shape)
    x = values.movedim(-1, -dims - 1).flatten(0, -dims - 1).contiguous()
    kind = {"dtype": x.dtype, "device": x.device}
    matrices = [torch.rand(m, n, **kind) for m, n in zip(shape, x.shape[1:], strict=True)]

    def work() -> Tensor:
        y = x
        for j in reversed(range(dims)):
            before, after = y.shape[: j + 1], y.shape[j + 2 :]
            rest = y.reshape(*before, y.shape[j + 1], -1) if after else y
            y = torch.matmul(matrices[j], rest) if after else torch.matmul(rest, matrices[j].T)
            y = y.reshape(*before, -1, *after) if after else y
        return y

    return work


def scattered(samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The known points of a masked lattice, their values, and all points, as SciPy wants them."""
    weights = samples.weights
    assert weights is not None
    known = weights[..., 0].cpu().numpy() > 0
    everywhere = np.indices(samples.grid).reshape(len(samples.grid), -1).T.astype(np.float64)
    return np.argwhere(known).astype(np.float64), samples.values.cpu().numpy()[known], everywhere


def griddata(samples: Samples) -> None:
    """``scipy.interpolate.griddata``, linear, all channels at once."""
    from scipy.interpolate import griddata as scipy_griddata

    points, values, everywhere = scattered(samples)
    scipy_griddata(points, values, everywhere, method="linear")


def rbf(samples: Samples) -> None:
    """``RBFInterpolator``, thin plate over the nearest samples."""
    from scipy.interpolate import RBFInterpolator

    points, values, everywhere = scattered(samples)
    RBFInterpolator(points, values, neighbors=NEIGHBOURS)(everywhere)


def limited(work: Callable[[], object], limit: float, expected: float) -> Timing | str:
    """The seconds of a peer's work, or why there are none: that it was stopped at the limit, or that it failed.

    What is expected to take long is run once, in a process of its own that is stopped at the limit; the rest is
    measured as everything is.
    """
    if expected < limit / 4:
        return measure(work)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_timed, args=(work, there))
    process.start()
    there.close()
    process.join(limit)
    if process.is_alive():
        process.kill()
        process.join()
        return f"over {limit:g} s"
    if process.exitcode:
        return f"failed with status {process.exitcode}"
    seconds = here.recv()
    return Timing(seconds, seconds, seconds, 1)


def _timed(work: Callable[[], object], to: Connection) -> None:
    start = time.perf_counter()
    work()
    to.send(time.perf_counter() - start)
