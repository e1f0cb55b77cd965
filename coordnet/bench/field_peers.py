"""The peers of ``coordnet bench kinds``: SciPy's interpolations and smoothers at parameters that truth chooses."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.interpolate import RBFInterpolator, SmoothBivariateSpline, griddata, make_interp_spline
from scipy.interpolate import make_smoothing_spline as smoothing_spline
from scipy.ndimage import gaussian_filter
from skimage.restoration import denoise_nl_means, denoise_tv_chambolle, denoise_wavelet

from coordnet.bench.field_samplings import Given, Known, Values
from coordnet.bench.points_study import KERNELS

NEIGHBORS = 40  # nearest samples from which RBFInterpolator finds a value
SMOOTHINGS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # smoothing of RBFInterpolator, for samples at a distance of 1
SMOOTHING_NODES = 2000  # nodes at which the smoothing of a kernel is chosen with hindsight
FILTER_WIDTHS = tuple(0.5 * 1.25**k for k in range(12))  # deviations of Gaussian filters, in samples
TV_OVER_NOISE = tuple(0.5 * 1.5**k for k in range(8))  # weights of total variation over the noise's deviation
PEER_DEGREES = (1, 3, 5)  # degrees of splines on lattices


def spline(given: Given, degree: int) -> Values:
    """Interpolate every second node by splines along one axis after another, constant beyond the last node."""
    assert given.lattice is not None
    made = given.lattice
    for axis, n in enumerate(given.truth.shape):
        x = np.arange(0, n, 2)
        made = make_interp_spline(x, made, degree, axis=axis)(np.minimum(np.arange(n), x[-1]))
    return made


def triangulated(given: Given, method: str) -> Values:
    """Interpolate by ``griddata``, and by the nearest sample beyond the hull."""
    nodes = np.indices(given.truth.shape).reshape(given.truth.ndim, -1).T
    made, near = (griddata(given.points, given.values, nodes, method=kind) for kind in (method, "nearest"))
    return np.where(np.isnan(made.ravel()), near.ravel(), made.ravel()).reshape(given.truth.shape)


def radial(given: Given, kernel: str, smoothing: float, where: Known) -> Values:
    """Interpolate or smooth the nodes that are looked for by ``RBFInterpolator``; others have the true value."""
    options: Any = {"kernel": kernel, "smoothing": smoothing, "neighbors": min(NEIGHBORS, len(given.points))}
    made = given.truth.copy()
    made[where] = RBFInterpolator(given.points, given.values, **options)(np.stack(np.nonzero(where), 1).astype(float))
    return made


def smoothed(given: Given, kernel: str) -> Values:
    """Smooth by the parameter that is best with hindsight at some of the nodes."""
    places = np.random.default_rng(9).permutation(given.truth.size)[:SMOOTHING_NODES]
    some = np.isin(np.arange(given.truth.size), places).reshape(given.truth.shape)
    best = max(SMOOTHINGS, key=lambda s: decibels(radial(given, kernel, s, some), given.truth, some))
    return radial(given, kernel, best, given.scored)


def bivariate(given: Given) -> Values:
    """Smooth by ``SmoothBivariateSpline``, to the sum of squares that the true noise expects."""
    s: Any = len(given.values) * given.noise**2
    made: Any = SmoothBivariateSpline(given.points[:, 0], given.points[:, 1], given.values, s=s)
    return made(*map(np.arange, given.truth.shape))


def line(given: Given) -> Values:
    """Smooth a row by ``make_smoothing_spline``, whose parameter is found by generalized cross-validation."""
    return smoothing_spline(given.points[:, 0], given.values)(np.arange(len(given.truth)))


def filtered(given: Given) -> Values:
    """Smooth every node by the Gaussian filter whose width is best with hindsight."""
    return _best(given, (gaussian_filter(_noisy(given), width) for width in FILTER_WIDTHS))


def total_variation(given: Given) -> Values:
    """Denoise every node by total variation, whose weight is best with hindsight."""
    weights = (given.noise * factor for factor in TV_OVER_NOISE)
    return _best(given, (denoise_tv_chambolle(_noisy(given), weight) for weight in weights))


def wavelets(given: Given) -> Values:
    """Denoise every node by wavelets with BayesShrink, told the noise."""
    options: Any = {"sigma": given.noise, "wavelet": "sym4", "method": "BayesShrink", "rescale_sigma": True}
    return denoise_wavelet(_noisy(given), **options)


def non_local_means(given: Given) -> Values:
    """Denoise every node by non-local means, told the noise, with the parameters of scikit-image's example."""
    options: Any = {"h": 0.6 * given.noise, "sigma": given.noise, "patch_size": 5, "patch_distance": 6}
    return denoise_nl_means(_noisy(given), fast_mode=True, **options)


def _noisy(given: Given) -> Values:
    assert given.noisy is not None
    return given.noisy


def _best(given: Given, estimates: Iterable[Values]) -> Values:
    return max(estimates, key=lambda estimate: decibels(estimate, given.truth, given.scored))


def _denoisers(given: Given) -> dict[str, Callable[[], Values]]:
    dims = given.truth.ndim
    named = {"Gaussian filter": filtered, "total variation": total_variation, "wavelets, true σ": wavelets}
    named |= {"smoothing spline, GCV": line} if dims == 1 else {"non-local means, true σ": non_local_means}
    return {name: partial(work, given) for name, work in named.items()}


def peers(given: Given) -> dict[str, Callable[[], Values]]:
    """Return the peers that suit what is given of a field, by their names."""
    if given.lattice is not None:
        return {f"spline {k}": partial(spline, given, k) for k in PEER_DEGREES}
    if given.noisy is not None:
        return _denoisers(given)
    dims, radials = given.truth.ndim, product(KERNELS, ["" if given.noise == 0 else ", smoothing"])
    suitable: dict[str, Callable[[], Values]] = {}
    for kernel, suffix in radials:
        work = partial(smoothed, given, kernel) if suffix else partial(radial, given, kernel, 0.0, given.scored)
        suitable[f"RBF {kernel.replace('_', ' ')}{suffix}"] = work
    suitable["griddata linear"] = partial(triangulated, given, "linear")
    if dims < 3:
        suitable["griddata cubic"] = partial(triangulated, given, "cubic")
    if given.noise:
        more = {1: {"smoothing spline, GCV": line}, 2: {"bivariate spline, true σ": bivariate}}
        suitable |= {name: partial(work, given) for name, work in more.get(dims, {}).items()}
    return suitable


def decibels(estimate: Values, truth: Values, where: Known) -> float:
    """Return the PSNR over some nodes, with data range 1 and without clipping."""
    return float(-10 * np.log10(((estimate - truth)[where] ** 2).mean()))
