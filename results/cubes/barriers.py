"""Frames under clouds, filled with barriers at coasts and without: ``python results/cubes/barriers.py DATA``.

A Gaussian field of the precision Qₜ ⊗ (κ² - Δ)², as DIVAnd has in space, is fitted to the known values of each cube.
With barriers its Laplacian joins neighbors of the sea alone, and without them all nodes of the lattice, so that nothing
else differs. The scales, in space and in time, are the best of each with hindsight.
"""

import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.ndimage import distance_transform_edt, gaussian_filter
from scipy.sparse.linalg import LinearOperator, cg, splu
from xarray import DataArray

import coordnet as cn
from coordnet.bench.cube_fields import Given, clouds, given

SCALES = (24.0, 6.0), (60.0, 6.0), (60.0, 30.0), (120.0, 30.0)  # in space, in nodes, and in time, in frames
NOISE = 0.05  # standard deviation of the noise, in units of that of the samples
STEP = 3  # nodes of the Alborán sea from one that is taken to the next
NEAR = 4  # largest distance in nodes from land up to which hidden values count as near the coast


def laplacian(free):
    """Return -Δ with reflecting borders on the nodes of a plane that are free, by their numbers."""
    number = np.full(free.shape, -1)
    number[free] = np.arange(free.sum())
    pairs = [(number[1:], number[:-1]), (number[:, 1:], number[:, :-1])]
    i, j = np.concatenate([np.stack([a.ravel(), b.ravel()]) for a, b in pairs], 1)
    both = (i >= 0) & (j >= 0)
    i, j = i[both], j[both]
    joined = sp.coo_matrix((np.ones(len(i)), (i, j)), (free.sum(),) * 2).tocsc()
    joined = joined + joined.T
    return (sp.diags(np.asarray(joined.sum(1)).ravel()) - joined).tocsc()


def filled(case, free, scale, persistence):
    """Return the posterior mean of frames, by conjugate gradients that the known share in place of M preconditions."""
    n, frames = int(free.sum()), len(case.times)
    root = 8 / scale**2 * sp.eye(n) + laplacian(free)
    space = (root @ root).tocsc() * scale**2 / (32 * np.pi)  # the variance is 1
    apart = np.abs(np.subtract.outer(case.times, case.times)) / np.median(np.diff(case.times))
    rates, basis = np.linalg.eigh(0.5 + 0.5 * np.exp(-apart / persistence))
    y = case.known[:, free]
    known, mean = np.isfinite(y), np.nanmean(y)
    spread = np.nanstd(y)
    y = np.where(known, (y - mean) / spread, 0.0)
    share = known.mean() / NOISE**2
    factors = [splu((space / rate + share * sp.eye(n)).tocsc()) for rate in rates]

    def system(u):
        f = u.reshape(frames, n)
        modes = basis.T @ f
        prior = basis @ ((space @ modes.T).T / rates[:, None])
        return (prior + known * f / NOISE**2).ravel()

    def preconditioned(u):
        modes = basis.T @ u.reshape(frames, n)
        return (basis @ np.stack([lu.solve(m) for lu, m in zip(factors, modes, strict=True)])).ravel()

    shape = (frames * n,) * 2
    matrix, inverse = LinearOperator(shape, system), LinearOperator(shape, preconditioned)
    u, _ = cg(matrix, y.ravel() / NOISE**2, rtol=1e-4, maxiter=300, M=inverse)
    made = np.full(case.known.shape, np.nan)
    made[:, free] = mean + spread * u.reshape(frames, n)
    return made


def sea(seed, shape):
    """Return smooth frames that change with time, large scales slowly and small ones fast."""
    generator, total = np.random.default_rng(seed), np.zeros(shape)
    for weight, frames, nodes in ((0.5, 3, 12), (0.2, 1, 4)):
        part = gaussian_filter(generator.standard_normal(shape), (frames, nodes, nodes), mode="wrap")
        total += weight * part / part.std()
    return total


def coast():
    """Return two seas, one 3 degrees warmer, that meet around the tip of a spit of three nodes, under clouds."""
    shape = (10, 64, 96)
    free = np.full(shape[1:], True)
    free[31:34, :72] = False
    warm, fixed = np.zeros(shape[1:]), free.copy()
    warm[:31, :40], fixed[:, 40:] = 1.0, False
    share, held, operator = warm[free], fixed[free], laplacian(free)
    share[~held] = splu(operator[~held][:, ~held].tocsc()).solve(-operator[~held][:, held] @ share[held])
    warm[free] = share
    truth = np.where(free, 15 + warm * (3 + sea(1, shape)) + (1 - warm) * sea(2, shape), np.nan)
    return Given.of(truth, np.arange(10.0), clouds(truth, "coast"))


def errors(made, case):
    """Return the root mean square of the errors at hidden values, and at those near land."""
    land = ~case.wanted
    near = distance_transform_edt(~land) <= NEAR
    squares = np.square(made - case.truth)
    return [float(np.sqrt(squares[case.hidden & part].mean())) for part in (np.ones_like(land), near)]


def main():
    """Print the errors of each cube."""
    data = Path(sys.argv[1])
    cubes = {"coast": coast()}
    for draw in (1, 2):
        whole = given("alboran", f"clouds of other days {draw}", data)
        part = (slice(None), slice(None, None, STEP), slice(None, None, STEP))
        cubes[f"alboran {draw}"] = Given(whole.truth[part], whole.known[part], whole.times, whole.hidden[part])
    for name, case in cubes.items():
        array = DataArray(case.known, {"time": case.times}, ("time", "y", "x"))
        made = cn.fill(array, ("time", "y", "x"), valid=case.wanted).array.values
        print(f"{name:12s} cn.fill      " + " ".join(f"{e:.3f}" for e in errors(made, case)), flush=True)
        for label, free in (("barriers", case.wanted), ("no barriers", np.ones_like(case.wanted))):
            tried = {o: errors(filled(case, free, *o), case) for o in SCALES}
            best = min(tried, key=lambda o: tried[o][0])
            print(f"{name:12s} {label:12s} " + " ".join(f"{e:.3f}" for e in tried[best]) + f"  {best}", flush=True)


if __name__ == "__main__":
    main()
