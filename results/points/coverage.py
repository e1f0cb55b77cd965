"""What intervals of 90 % cover in hidden blocks of points: python results/points/coverage.py EDGE [SEEDS].

Ten fields at 700 random points of the unit square; a fifth of all blocks of an EDGE is left out, and so are some other
points, at which the default's intervals are scored. With EDGE 0 no block is left out.
"""

import sys
from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import cdist

import coordnet as cn

POINTS, OTHERS, SHARE = 700, 400, 0.2
KERNELS: dict[float, Callable] = {
    0.5: lambda d: np.exp(-d),
    1.5: lambda d: (1 + 3**0.5 * d) * np.exp(-(3**0.5) * d),
    2.5: lambda d: (1 + 5**0.5 * d + 5 * d * d / 3) * np.exp(-(5**0.5) * d),
    9.0: lambda d: np.exp(-d * d / 2),
}


def gaussian(smoothness, length):
    """Return a draw of a Gaussian field, of Matérn's covariance or for 9 the squared exponential one."""

    def drawn(generator, x):
        scaled = x / np.asarray(length)
        sizes, axes = np.linalg.eigh(KERNELS[smoothness](cdist(scaled, scaled)) + 1e-10 * np.eye(len(x)))
        return axes @ (np.sqrt(sizes.clip(0)) * generator.standard_normal(len(x)))

    return drawn


def wave(generator, x):
    """Return a damped wave."""
    return np.cos(5 * x[:, 0] + 3 * x[:, 1] + generator.random()) * np.exp(-x[:, 1])


def bumps(generator, x):
    """Return twelve hills and hollows."""
    centers, widths, heights = generator.random((12, 2)), generator.uniform(0.06, 0.2, 12), generator.normal(size=12)
    return np.exp(-(cdist(x, centers) ** 2) / (2 * widths**2)) @ heights


FIELDS = {
    "wave": (wave, 0.0),
    "bumps": (bumps, 0.0),
    "rough": (gaussian(0.5, 0.3), 0.0),
    "once smooth": (gaussian(1.5, 0.15), 0.0),
    "twice smooth": (gaussian(2.5, 0.2), 0.0),
    "smooth": (gaussian(9.0, 0.12), 0.0),
    "stretched": (gaussian(1.5, (0.12, 0.4)), 0.0),
    "bumps, noise": (bumps, 0.05),
    "once smooth, noise": (gaussian(1.5, 0.25), 0.2),
    "uneven": (lambda g, x: gaussian(1.5, 0.2)(g, x) * np.exp(2 * x[:, 0] - 1), 0.0),
}


def covered(name, edge, seed):
    """Return the shares, in percent, of values in hidden blocks and of others that intervals cover."""
    field, noise = FIELDS[name]
    generator = np.random.default_rng([seed, list(FIELDS).index(name)])
    x = generator.random((POINTS + OTHERS, 2))
    y = field(generator, x)
    y = y + noise * y.std() * generator.standard_normal(len(y))
    hidden = np.zeros(len(x), dtype=bool)
    if edge:
        cells = np.floor((x + generator.random(2) * edge) / edge)
        block = np.unique(cells, axis=0, return_inverse=True)[1].ravel()
        hidden = np.isin(block, generator.permutation(block.max() + 1)[: round(SHARE * (block.max() + 1))])
    others = ~hidden & (np.arange(len(x)) >= POINTS)
    known = ~hidden & ~others
    fit = cn.fit(cn.points(x[known], y[known]))
    shares = []
    for asked in (hidden, others):
        low, high = (end[:, 0] for end in fit.interval(0.9, x[asked]))
        shares.append(100 * np.mean((low <= y[asked]) & (y[asked] <= high)) if asked.any() else np.nan)
    return shares


if __name__ == "__main__":
    edge, seeds = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    shares = {name: np.array([covered(name, edge, seed) for seed in range(seeds)]) for name in FIELDS}
    for name, found in shares.items():
        print(f"{name:20s} hidden blocks {found[:, 0].mean():5.1f} %, others {found[:, 1].mean():5.1f} %")
    every = np.concatenate(list(shares.values()))
    print(f"in all               hidden blocks {every[:, 0].mean():5.1f} %, others {every[:, 1].mean():5.1f} %")
    print(f"single draws         hidden blocks {every[:, 0].min():.0f} to {every[:, 0].max():.0f} %")
