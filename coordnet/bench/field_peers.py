"""The peers of ``coordnet bench kinds``: SciPy's interpolations and smoothers at parameters that truth chooses."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.interpolate import SmoothBivariateSpline
from scipy.interpolate import make_smoothing_spline as smoothing_spline
from scipy.ndimage import gaussian_filter
from torch import Tensor

from coordnet.bench.best_peer import Estimate, by_kernels, radial, triangulated
from coordnet.bench.experiment import Case
from coordnet.bench.field_samplings import Given, Known, Values
from coordnet.bench.peers import best_total_variation, non_local_means, wavelet
from coordnet.metrics.baselines import interpolated

NEIGHBORS = 40  # nearest samples from which RBFInterpolator finds a value
SMOOTHINGS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # smoothing of RBFInterpolator, for samples at a distance of 1
SMOOTHING_NODES = 2000  # nodes at which the smoothing of a kernel is chosen with hindsight
FILTER_WIDTHS = tuple(0.5 * 1.25**k for k in range(12))  # deviations of Gaussian filters, in samples
TV_OVER_NOISE = tuple(0.5 * 1.5**k for k in range(8))  # weights of total variation over the noise's deviation
PEER_DEGREES = (1, 3, 5)  # degrees of splines on lattices


def spline(given: Given, degree: int) -> Values:
    """Interpolate every second node by splines along one axis after another, constant beyond the last node."""
    made = interpolated(given.samples, degree)
    assert made is not None, "a lattice is not triangulated"
    return made[..., 0].numpy()


def between(given: Given, method: str) -> Values:
    """Interpolate all nodes by ``griddata``."""
    nodes = np.indices(given.truth.shape).reshape(given.truth.ndim, -1).T
    return triangulated(given.points, given.values, nodes, method).reshape(given.truth.shape)


def by_kernel(given: Given, kernel: str, smoothing: float, where: Known) -> Values:
    """Interpolate or smooth the nodes that are looked for by a kernel; others have the true value."""
    made, at = given.truth.copy(), np.stack(np.nonzero(where), 1).astype(float)
    made[where] = radial(given.points, given.values, at, kernel, smoothing, min(NEIGHBORS, len(given.points)))
    return made


def smoothed(given: Given, kernel: str) -> Values:
    """Smooth by the parameter that is best with hindsight at some of the nodes."""
    places = np.random.default_rng(9).permutation(given.truth.size)[:SMOOTHING_NODES]
    some = np.isin(np.arange(given.truth.size), places).reshape(given.truth.shape)
    best = max(SMOOTHINGS, key=lambda s: decibels(by_kernel(given, kernel, s, some), given.truth, some))
    return by_kernel(given, kernel, best, given.scored)


def bivariate(given: Given) -> Values:
    """Smooth by ``SmoothBivariateSpline``, to the sum of squares that the true noise expects."""
    s: Any = len(given.values) * given.noise**2
    made: Any = SmoothBivariateSpline(given.points[:, 0], given.points[:, 1], given.values, s=s)
    return made(*map(np.arange, given.truth.shape))


def line(given: Given) -> Values:
    """Smooth a row by ``make_smoothing_spline``, whose parameter is found by generalized cross-validation."""
    return smoothing_spline(given.points[:, 0], given.values)(np.arange(len(given.truth)))


def filtered(case: Case) -> Tensor:
    """Smooth every node by the Gaussian filter whose width is best with hindsight."""
    values = case.samples.values
    smooth = (gaussian_filter(values[..., 0].numpy(), width) for width in FILTER_WIDTHS)
    return case.best(torch.from_numpy(made).unsqueeze(-1) for made in smooth)


def _denoised(given: Given, method: Callable[[Case], Tensor]) -> Values:
    def score(estimate: Tensor) -> float:
        return decibels(estimate[..., 0].numpy(), given.truth, given.scored)

    return method(Case(given.samples, given.noise, score=score))[..., 0].numpy()


def _denoisers(given: Given) -> dict[str, Estimate]:
    methods = {
        "Gaussian filter": filtered,
        "total variation": partial(best_total_variation, weights=TV_OVER_NOISE),
        "wavelets, true σ": wavelet,
    }
    if given.truth.ndim > 1:
        methods["non-local means, true σ"] = non_local_means
    named = {name: partial(_denoised, given, method) for name, method in methods.items()}
    return named if given.truth.ndim > 1 else named | {"smoothing spline, GCV": partial(line, given)}


def peers(given: Given) -> dict[str, Estimate]:
    """Return the peers that suit what is given of a field, by their names."""
    if given.samples.geometry.filled_axes is not None:
        return {f"spline {k}": partial(spline, given, k) for k in PEER_DEGREES}
    if given.is_full:
        return _denoisers(given)
    exact = partial(by_kernel, given, smoothing=0.0, where=given.scored)
    suitable = by_kernels(partial(smoothed, given), ", smoothing") if given.noise else by_kernels(exact, "")
    dims = given.truth.ndim
    suitable |= {f"griddata {name}": partial(between, given, name) for name in ("linear", "cubic")[: 4 - dims]}
    if given.noise:
        more = {1: {"smoothing spline, GCV": line}, 2: {"bivariate spline, true σ": bivariate}}
        suitable |= {name: partial(work, given) for name, work in more.get(dims, {}).items()}
    return suitable


def decibels(estimate: Values, truth: Values, where: Known) -> float:
    """Return the PSNR over some nodes, with data range 1 and without clipping."""
    return float(-10 * np.log10(((estimate - truth)[where] ** 2).mean()))
