"""Intervals of 90 % under clouds: ``python results/cubes/coverage.py`` fits crops of three cubes by default.

Printed is the share of the hidden values that are in their intervals, for three draws of clouds on each crop.
"""

import sys
from pathlib import Path

import numpy as np
import torch

import coordnet as cn
from coordnet.bench.cube_fields import Given, clouds, cube

CROPS = {"ocean": np.s_[:20, :18, 100:164], "air": np.s_[60:84, :37, :49], "clip": np.s_[:20, 8:48, 8:48]}
DRAWS = 3


def covered(name, draw, data):
    """Return the share of the hidden values of a crop that the intervals of the default fit cover."""
    truth, times = cube(name, data)
    crop = CROPS[name]
    case = Given.of(truth[crop], times[crop[0]], clouds(truth[crop], f"{name} {draw}"))
    fit = cn.fit(cn.Lattice(case.known.shape).sample(torch.from_numpy(case.known).float().unsqueeze(-1)))
    lower, upper = (end[..., 0].numpy() for end in fit.interval(0.9))
    hidden = case.hidden & np.isfinite(case.truth)
    return float(((lower <= case.truth) & (case.truth <= upper))[hidden].mean())


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    shares = {name: [covered(name, draw, folder) for draw in range(DRAWS)] for name in CROPS}
    for name, found in shares.items():
        print(name, *(f"{share:.1%}" for share in found))
    print(f"mean {np.mean(list(shares.values())):.1%}")
