"""The naive twins of the fast paths, and small signals to try them on."""

import subprocess
import sys
from contextlib import contextmanager
from functools import reduce

import torch

SMALL_ENCODERS = {  # options that keep encoders small enough for gradient checks, by the encoders' names
    "learnable-fourier": {"fourier": 6, "hidden": 4, "features": 8},
    "hash-grid": {"levels": 3, "table": 64, "features": 6, "coarsest": 4},
    "joint-rff": {"features": 32},
    "md-sine": {"features": 32},
}


def seeded(seed=0):
    """A generator of random numbers with a seed."""
    return torch.Generator().manual_seed(seed)


def kron(matrices):
    """The Kronecker product, formed."""
    return reduce(torch.kron, matrices)


def khatri_rao(factors):
    """Kronecker products of corresponding rows: (points, features of the first · features of the second …)."""
    return torch.stack([kron([row.unsqueeze(0) for row in rows]).squeeze(0) for rows in zip(*factors, strict=True)])


def dense_point_fit(encoding, samples, roughness, strength):
    """Fit scattered points with the exact features of every point; return the function of points.

    Minimizes Σ w (r·c - (y - mean))² + λ (A c)ᵀ R (A c): r holds the features of a point, A those of the lattice,
    c the coefficients, and R is the roughness of the lattice signal.
    """
    geometry = samples.geometry
    weights = torch.ones(len(geometry.points), 1) if geometry.weights is None else geometry.weights
    weights = weights.to(samples.values)
    mean = (weights * samples.values).sum(0) / weights.sum()
    lattice = kron(encoding.matrices(geometry.axes))
    rows = khatri_rao(encoding.factors(geometry.points))
    normal = rows.T @ (weights * rows) + strength * lattice.T @ roughness @ lattice
    coefficients = torch.linalg.solve(normal, rows.T @ (weights * (samples.values - mean)))
    return lambda points: khatri_rao(encoding.factors(points)) @ coefficients + mean


def dense_least_squares(matrices, values, ridge=0.0, rcond=1e-13):
    """Minimum-norm least squares, or ridge, on the Kronecker matrix; values (*batch, *axes)."""
    a = kron(matrices)
    d = len(matrices)
    y = values.flatten(-d).reshape(-1, a.shape[0]).T
    if ridge:
        w = torch.linalg.solve(a.T @ a + ridge * torch.eye(a.shape[1], dtype=a.dtype), a.T @ y)
    else:
        w = torch.linalg.lstsq(a, y, rcond=rcond, driver="gelsd").solution
    return w.T.reshape(*values.shape[:-d], *(m.shape[1] for m in matrices))


def synthetic_photograph(height, width, channels=3, seed=0):
    """Edges, gradients and texture in [0, 1]: (height, width, channels), float32."""
    y, x = torch.meshgrid(torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
    texture = torch.sin(40 * x * y) * 0.2
    disc = ((x - 0.4) ** 2 + (y - 0.6) ** 2 < 0.06).float() * 0.4
    g = torch.Generator().manual_seed(seed)
    tint = torch.rand(3, channels, generator=g)
    layers = torch.stack([x * 0.4 + 0.1, disc, texture], dim=-1)
    return (layers @ tint).clamp(0, 1) * 0.9 + 0.05


def measured_once(work, **_):
    """The timing of one run, for ``coordnet.comparison.stopwatch.measure``."""
    from coordnet.comparison.stopwatch import Timing, once

    return Timing(*[once(work)[1]] * 3, 1)


def refused(outcome, folder, present=("in",)):
    """The one line with which the command line refused, having written nothing beside what was there."""
    status, out, err = outcome
    assert status == 2
    assert out == ""
    assert err.startswith("coordnet: ")
    assert err.count("\n") == 1
    assert {p.name for p in folder.iterdir()} == set(present)
    return err


@contextmanager
def python(*arguments, **options):
    """Start Python with these arguments; kill the process and wait for it when the block ends."""
    with subprocess.Popen([sys.executable, *map(str, arguments)], **options) as process:
        try:
            yield process
        finally:
            process.kill()
