"""Peers for points anywhere: SciPy, PyKrige, GSTools and verde, with their free numbers at their defaults or best.

Where a peer has a smoothing parameter and the values have noise, the truth at the hidden points chooses it, which no
user could do.
"""

import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.interpolate import RBFInterpolator, griddata

from coordnet.bench.point_clouds import Given, Values

KERNELS = ("linear", "thin_plate_spline", "cubic", "quintic")
NEIGHBORS = 50  # nearest points from which RBFInterpolator finds a value, where there are more than DENSE
DENSE = 3000  # points up to which a dense matrix is factorized
SMOOTHINGS = tuple(10.0**power for power in range(-8, 4))
DAMPINGS = (None, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)  # those that verde's cross-validation chooses from
KRIGED = 2000  # points up to which kriging is tried

Estimate = Callable[[], Values]


def radial(given: Given, kernel: str, smoothing: float = 0.0) -> Values:
    """Interpolate or smooth by ``RBFInterpolator``, from ``NEIGHBORS`` points where there are more than ``DENSE``."""
    options: Any = {"kernel": kernel, "smoothing": smoothing}
    if len(given.places) > DENSE:
        options["neighbors"] = NEIGHBORS
    scale = np.ptp(given.places, axis=0)
    return RBFInterpolator(given.places / scale, given.values, **options)(given.hidden / scale)


def smoothed(given: Given, kernel: str) -> Values:
    """Smooth by the parameter that is best with hindsight."""
    return min((radial(given, kernel, s) for s in SMOOTHINGS), key=lambda made: rms(made - given.truth))


def triangulated(given: Given, method: str) -> Values:
    """Interpolate by ``griddata``, and by the nearest point beyond the hull."""
    made, near = (griddata(given.places, given.values, given.hidden, method=kind) for kind in (method, "nearest"))
    return np.where(np.isnan(made), near, made)


def kriged_by_pykrige(given: Given) -> Values:
    """Krige by PyKrige's ``OrdinaryKriging`` with a spherical variogram."""
    from pykrige.ok import OrdinaryKriging  # pyright: ignore[reportMissingImports]

    y, x = given.places.T
    made = OrdinaryKriging(x, y, given.values, variogram_model="spherical")
    return np.asarray(made.execute("points", given.hidden[:, 1], given.hidden[:, 0])[0])


def kriged_by_gstools(given: Given) -> Values:
    """Krige by GSTools' ``Ordinary`` with a spherical variogram that is fitted to the estimated one."""
    import gstools  # pyright: ignore[reportMissingImports]

    bins, gamma = gstools.vario_estimate(given.places.T, given.values)
    model = gstools.Spherical(dim=2)
    model.fit_variogram(bins, gamma, nugget=given.noise > 0)
    krige = gstools.krige.Ordinary(model, given.places.T, given.values, exact=given.noise == 0)
    return np.asarray(krige(given.hidden.T, return_var=False))


def splined_by_verde(given: Given) -> Values:
    """Fit verde's ``SplineCV``, whose damping is chosen by cross-validation."""
    import verde  # pyright: ignore[reportMissingImports]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = verde.SplineCV(dampings=DAMPINGS).fit(tuple(given.places.T), given.values)
        return np.asarray(made.predict(tuple(given.hidden.T)))


def peers(given: Given, kind: str) -> dict[str, Estimate]:
    """Return the peers that suit a cloud of a kind, by their names."""
    work = smoothed if given.noise else radial
    suffix = ", best smoothing" if given.noise else ""
    suitable: dict[str, Estimate] = {
        f"RBF {kernel.replace('_', ' ')}{suffix}": partial(work, given, kernel) for kernel in KERNELS
    }
    dims = given.places.shape[1]
    if dims > 1:
        suitable["griddata linear"] = partial(triangulated, given, "linear")
    if dims == 2:
        suitable["griddata cubic"] = partial(triangulated, given, "cubic")
    if kind == "terrain" and len(given.places) <= KRIGED:
        packages = {"pykrige": kriged_by_pykrige, "gstools": kriged_by_gstools, "verde": splined_by_verde}
        names = {"pykrige": "PyKrige", "gstools": "GSTools", "verde": "verde SplineCV"}
        suitable |= {names[key]: partial(made, given) for key, made in packages.items() if find_spec(key) is not None}
    return suitable


def rms(errors: Values) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))
