"""What the quality benchmark sets beside coordnet, and coordnet's own methods, as functions of samples."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor

from coordnet.bench import demosaicing_peers
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.encoders import Gaussian
from coordnet.fit.adaptive import AdaptivePlan
from coordnet.fit.closed_form import fit_closed_form, plan
from coordnet.fit.smooth import TOLERANCE
from coordnet.fit.spectrum import decorrelate, rounds, smoothest_modes, start_penalty
from coordnet.fit.tuning import tune_smoothness
from coordnet.linalg.operators import rotate
from coordnet.metrics import baselines
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.axes import lattice_points
from coordnet.sampling.samples import Samples

NEIGHBOURS = 20


@dataclass(frozen=True)
class Estimate:
    """A signal (*grid, channels) made of samples, and what the method chose."""

    signal: Tensor
    chosen: str = ""


Method = Callable[[Samples], Estimate]
Score = Callable[[Tensor], float]
GRID = tuple(
    Smoothness(power, strength)
    for power in (1.0, 1.25, 1.5, 1.75, 2.0)
    for strength in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
)


def baseline(method: baselines.Baseline) -> Method:
    """One of SciPy's methods; NaN where it is out of reach."""

    def apply(samples: Samples) -> Estimate:
        made = method(samples)
        if made is None:
            made = samples.values.new_full((*samples.grid, samples.channels), torch.nan)
        return Estimate(made)

    return apply


def smooth(prior: Smoothness, *, fourier: bool = False) -> Method:
    """The closed form of a complex Gaussian encoding with a smoothness prior, rendered.

    A Fourier encoding in its place, whose matrices are FFTs, is for rows too long for a dense design.
    """

    def apply(samples: Samples) -> Estimate:
        encoding = FourierEncoding.like(samples) if fourier else ComplexEncoding.like(Gaussian, samples)
        fit = fit_closed_form(encoding, samples, prior=prior)
        return Estimate(fit.render(), f"{fit.report['iterations']} iterations")

    return apply


def adaptive(prior: Adaptive | None = None) -> Method:
    """The closed form of a Fourier encoding with an adaptive prior, rendered."""

    def apply(samples: Samples) -> Estimate:
        fit = fit_closed_form(FourierEncoding.like(samples), samples, prior=prior or Adaptive())
        return Estimate(fit.render(), _chosen(fit))

    return apply


def tuned(criterion: str = "hold-out") -> Method:
    """The smooth prior of a complex Gaussian encoding with all its numbers chosen from the samples."""

    def apply(samples: Samples) -> Estimate:
        encoding = ComplexEncoding.like(Gaussian, samples)
        prior = tune_smoothness(encoding, samples, criterion=criterion).choice
        fit = fit_closed_form(encoding, samples, prior=prior)
        anisotropy = ", ".join(f"{a:g}" for a in prior.anisotropy)
        chosen = f"power {prior.power:g}, strength {prior.strength:g}, anisotropy {anisotropy}"
        return Estimate(fit.render(), chosen)

    return apply


def best_smooth(score: Score) -> Method:
    """The smooth prior of a grid of thirty candidates that only the truth tells to be the best."""

    def apply(samples: Samples) -> Estimate:
        encoding = ComplexEncoding.like(Gaussian, samples)
        made = (
            Estimate(
                fit_closed_form(encoding, samples, prior=prior).render(),
                f"power {prior.power:g}, strength {prior.strength:g}",
            )
            for prior in GRID
        )
        return max(made, key=lambda estimate: score(estimate.signal))

    return apply


def _chosen(fit: Reconstruction) -> str:
    start = fit.report["start"]
    return f"power {start['power']:g}, strength {start['strength']:g}, {fit.report['rounds']} rounds"


def with_hindsight(score: Score, count: int = 8) -> Method:
    """The best of every start and every round, by the score that only the truth gives."""

    def apply(samples: Samples) -> Estimate:
        followed = itertools.chain.from_iterable(
            (
                Estimate(signal, f"power {start.power:g}, strength {start.strength:g}, {number} rounds")
                for number, signal in enumerate(follow(samples, start, count))
            )
            for start in Adaptive().candidates(len(samples.grid))
        )
        return max(followed, key=lambda estimate: score(estimate.signal))

    return apply


def follow(samples: Samples, start: Smoothness, count: int) -> Iterator[Tensor]:
    """The reconstruction from all samples after 0 … ``count`` rounds from a start, nothing held out."""
    dims = len(samples.grid)
    made = cast(AdaptivePlan, plan(FourierEncoding.like(samples), samples.geometry, prior=Adaptive((start,))))
    values = samples.values.movedim(-1, 0).unsqueeze(0)
    means = samples.mean().reshape(1, -1, *(1,) * dims)
    problem = decorrelate(made.modes, made.measurement, values - means)
    steps = rounds(
        problem,
        start_penalty(problem, start),
        smoothest_modes(made.modes, start.axis_weights(dims)),
        tolerance=TOLERANCE[dims],
    )
    for step in itertools.islice(steps, count + 1):
        lattice = rotate(problem.rotation, made.modes(step.solution.x)) + means
        yield lattice[0].movedim(0, -1)


def thin_plate(samples: Samples) -> Estimate:
    """SciPy's ``RBFInterpolator``, thin plate, of the 20 nearest samples."""
    from scipy.interpolate import RBFInterpolator

    assert samples.weights is not None
    x = lattice_points(samples.geometry.axes).numpy() * np.asarray(samples.grid)
    known = (samples.weights[..., 0] > 0).numpy()
    fit = RBFInterpolator(x[known], samples.values.double().numpy()[known], neighbors=NEIGHBOURS)
    estimate = samples.values.double().numpy().copy()
    estimate[~known] = fit(x[~known])
    return Estimate(torch.from_numpy(estimate).to(samples.values))


def biharmonic(samples: Samples) -> Estimate:
    """scikit-image's ``inpaint_biharmonic`` of what is unknown in every channel."""
    from skimage.restoration import inpaint_biharmonic

    assert samples.weights is not None
    unknown = (samples.weights[..., 0] == 0).numpy()
    image = samples.values.double().numpy()
    made = cast(np.ndarray, inpaint_biharmonic(image, unknown, channel_axis=-1))
    return Estimate(torch.from_numpy(made).to(samples.values))


def demosaicing(method: Callable[[Tensor, Tensor], Tensor]) -> Method:
    """A demosaicing method of a mosaic and its mask."""

    def apply(samples: Samples) -> Estimate:
        assert samples.weights is not None
        return Estimate(method(samples.values, samples.weights > 0))

    return apply


GRIDDATA = {"griddata linear": baseline(baselines.linear)}
SPLINES = {"cubic spline": baseline(baselines.cubic), "linear interpolation": baseline(baselines.linear)}
TRIANGULATED = {"griddata linear": baseline(partial(baselines.linear, patient=True))}
NEAREST = {"nearest": baseline(baselines.nearest)}
DEMOSAICING = {
    "bilinear": demosaicing(demosaicing_peers.bilinear),
    "Malvar 5×5": demosaicing(demosaicing_peers.malvar),
}
