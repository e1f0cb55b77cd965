"""What SciPy, scikit-image and PyTorch make of the same samples, and how long they may take."""

import math
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from coordnet.bench import noise_peers, peers
from coordnet.metrics import baselines
from coordnet.metrics import scores as metrics
from coordnet.sampling.samples import Lattice, Samples


@dataclass(frozen=True)
class Given:
    """What a rival is given.

    Attributes
    ----------
    samples : Samples
        On the signal's own grid.
    noise : float
        Standard deviation of the noise on them.
    truth : (*grid, channels), optional
        For choices with hindsight.
    """

    samples: Samples
    noise: float = 0.0
    truth: Tensor | None = None


class LimitExceeded(Exception):
    """A rival took longer than it may."""


Rival = Callable[[Given], Tensor]


def by_scipy(name: str) -> Rival:
    """One of ``coordnet.baselines``: splines on lattices, ``griddata`` elsewhere."""

    def apply(given: Given) -> Tensor:
        made = baselines.BASELINES[name](given.samples)
        if made is None:
            raise ValueError("SciPy's griddata has no such method here, or too many points for it")
        return made

    return apply


def _whole(made: Tensor | None) -> Tensor:
    assert made is not None
    return made


def by_torch(given: Given) -> Tensor:
    """``torch.nn.functional.interpolate`` at the grid's positions: bicubic in 2-D, trilinear in 3-D.

    With ``align_corners`` output j of k (n - 1) + 1 sits at j / k of the input's samples, which is where the grid has
    it; one more sample at the end, the last one again, gives the outputs beyond it.

    Raises
    ------
    ValueError
        If the samples are no whole lattice from offset 0 on.
    """
    geometry = given.samples.geometry
    if type(geometry) is not Lattice or any(geometry.offsets):
        raise ValueError("expected a whole lattice")
    values = given.samples.values.movedim(-1, 0).unsqueeze(0)
    dims = len(geometry.grid)
    padded = torch.nn.functional.pad(values, (0, 1) * dims, mode="replicate")
    size = [n * k + 1 for n, k in zip(geometry.shape, geometry.steps, strict=True)]
    mode = {1: "linear", 2: "bicubic", 3: "trilinear"}[dims]
    made = torch.nn.functional.interpolate(padded, size=size, mode=mode, align_corners=True)
    return made[(0, slice(None), *(slice(n) for n in geometry.grid))].movedim(0, -1)


def thin_plate(given: Given) -> Tensor:
    """``RBFInterpolator``, thin plate, of the 20 nearest samples."""
    return peers.thin_plate(given.samples).signal


def biharmonic(given: Given) -> Tensor:
    """``inpaint_biharmonic``."""
    return peers.biharmonic(given.samples).signal


def unchanged(given: Given) -> Tensor:
    """The noisy samples themselves."""
    return given.samples.values


def wavelet(given: Given) -> Tensor:
    """``denoise_wavelet``, BayesShrink in YCbCr, told the noise."""
    return noise_peers.wavelet(given.samples.values, given.noise)


def non_local_means(given: Given) -> Tensor:
    """``denoise_nl_means``, told the noise."""
    return noise_peers.non_local_means(given.samples.values, given.noise)


def total_variation(given: Given) -> Tensor:
    """``denoise_tv_chambolle``, the best of six weights by the truth: no choice among them without it is better."""
    truth = given.truth
    assert truth is not None
    return noise_peers.total_variation(given.samples.values, given.noise, lambda t: metrics.psnr(t, truth))[0]


RIVALS: dict[str, Rival] = {
    **{name: by_scipy(name) for name in baselines.BASELINES},
    "patient linear": lambda given: _whole(baselines.linear(given.samples, patient=True)),
    "torch": by_torch,
    "thin plate": thin_plate,
    "biharmonic": biharmonic,
    "unchanged": unchanged,
    "wavelet": wavelet,
    "non-local means": non_local_means,
    "total variation": total_variation,
}


def limited(name: str, given: Given, limit: float) -> tuple[Tensor, float]:
    """Apply a rival in a process of its own, and say how many seconds it took.

    Raises
    ------
    LimitExceeded
        If the process takes more than ``limit`` seconds, its start included.
    RuntimeError
        If the rival raises, with what it said.
    """
    command, task = [sys.executable, "-m", __name__], pickle.dumps((name, given, limit))
    try:
        done = subprocess.run(command, input=task, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise LimitExceeded(f"exceeded its limit of {limit:g} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
        raise RuntimeError(lines[-1])
    return pickle.loads(done.stdout)


def _serve() -> None:
    """Apply the rival that standard input names, and write what it made and its seconds to standard output.

    Past the limit the process ends itself, should who asked have been killed before.
    """
    name, given, limit = pickle.load(sys.stdin.buffer)
    signal.alarm(math.ceil(limit))
    start = time.perf_counter()
    made = RIVALS[name](given)
    pickle.dump((made, time.perf_counter() - start), sys.stdout.buffer)


if __name__ == "__main__":
    _serve()
