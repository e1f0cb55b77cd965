"""Learning the variance of every mode from the samples: expectation-maximisation, round by round."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.fit.systems import NEWTON, ModesSystem, PrecisionSystem, penalised
from coordnet.linalg.conjugate_gradients import Solution
from coordnet.linalg.extension import lengthened
from coordnet.priors.modes import Modes
from coordnet.priors.priors import Smoothness
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.measurements import Masked, Observation, Rotated, rotate

WIDTH = ByAxes({1: 10.0, 2: 4.0, 3: 1.5, 4: 1.0})  # of the ratio's smoothing, in modes, by the number of axes
DETERMINED = 0.05  # the share of smoothest modes that the samples determine by themselves
FLOOR = 1e-6
FEW_PAIRS = 1e-3  # of the samples: fewer, and the channels' covariance is not estimated from them
FIRST = Smoothness(1.5, 0.01)


@dataclass(frozen=True)
class Problem:
    """Centred samples in channels that are uncorrelated.

    Attributes
    ----------
    modes : Modes
        Of the lattice.
    observation : Observation
        How the samples depend on the rotated lattice signal.
    values : (signals, channels, *samples)
        Centred samples: rotated themselves where all channels share a mask, so that the channels are solved apart.
    rotation : (signals, channels, channels)
        From the rotated channels to the signal's own.
    variance : (signals, channels, 1, …)
        Of the rotated channels.
    joint : bool
        Whether the channels' masks differ, so that the rotated channels are solved together.
    held : bool
        Whether known points are held and the unknown ones solved for, in precision form.
    """

    modes: Modes
    observation: Observation
    values: Tensor
    rotation: Tensor
    variance: Tensor
    joint: bool
    held: bool = False

    def without(self, hidden: Tensor) -> "Problem":
        """The same problem, some samples' weights set to zero."""
        return replace(self, observation=self.observation.reweighted(1 - hidden))

    def error(self, z: Tensor, hidden: Tensor) -> float:
        """The weighted mean squared error at hidden samples."""
        residual = self.observation.forward(self.modes.synthesis(z)) - self.values
        weights = (hidden * self.observation.weights).expand_as(residual)
        return float((weights * residual.square()).sum() / weights.sum())


@dataclass(frozen=True)
class Round:
    """One solve, with the penalty (noise over variance of every mode) that it took."""

    number: int
    penalty: Tensor
    solution: Solution


def decorrelate(
    modes: Modes,
    observation: Observation,
    values: Float[Tensor, "signals channels *samples"],
    *,
    rotated: bool = True,
) -> Problem:
    """Rotate channels to the eigenvectors of their covariance, estimated from the samples that know both of a pair.

    Parameters
    ----------
    modes, observation
        See ``Problem``; the observation by the signal's own channels.
    values : (signals, channels, *samples)
        Centred samples.
    rotated : bool
        Leave the channels as they are if false.
    """
    weights = observation.weights.expand_as(values).flatten(2).double()
    y = weights * values.flatten(2)
    pairs = weights @ weights.mT
    covariance = (y @ y.mT) / pairs.clamp(min=1)
    if not rotated:
        covariance = torch.diag_embed(covariance.diagonal(dim1=-2, dim2=-1))
    elif bool((pairs < FEW_PAIRS * weights.shape[-1]).any()):
        covariance = _solved_covariance(modes, observation, values)
    variance, rotation = torch.linalg.eigh(covariance)
    variance = variance.clamp(min=0).to(values).reshape(*values.shape[:2], *(1,) * len(modes.lattice))
    rotation = rotation.to(values)
    if observation.weights.shape[1] == 1:
        return Problem(modes, observation, rotate(rotation.mT, values), rotation, variance, False)
    return Problem(modes, Rotated(observation, rotation), values, rotation, variance, True)


def _solved_covariance(
    modes: Modes, observation: Observation, values: Float[Tensor, "signals channels *samples"]
) -> Float[Tensor, "signals channels channels"]:
    """The covariance of channels that are never known together (a mosaic's), from each channel solved by itself."""
    penalty = FIRST.strength * FIRST.roughness(modes)
    z = penalised(modes, observation, penalty).solve(values, tolerance=1e-2).x
    f = modes.synthesis(z).flatten(2).double()
    return f @ f.mT / f.shape[-1]


def hold_known(problem: Problem) -> Problem:
    """The same problem in precision form, over the whole of a padded lattice; the padding is unknown."""
    modes = problem.modes.whole()
    observation = Masked(lengthened(problem.observation.weights, modes.lattice))
    values = lengthened(problem.values, modes.lattice)
    return replace(problem, modes=modes, observation=observation, values=values, held=True)


def start_penalty(problem: Problem, start: Smoothness) -> Float[Tensor, "signals channels *modes"]:
    """λρ of every mode, in proportion more where a channel varies less."""
    largest = problem.variance.amax(1, keepdim=True)
    floor = FLOOR * largest.clamp(min=torch.finfo(largest.dtype).tiny)
    return start.strength * start.roughness(problem.modes) * (largest / problem.variance.clamp(min=floor))


def rounds(
    problem: Problem,
    penalty: Tensor,
    smoothest: Tensor,
    *,
    tolerance: float = 1e-3,
    steps: int = 500,
    start: Tensor | None = None,
) -> Iterator[Round]:
    """Solve, learn the spectrum from the solution, solve again, without end."""
    number, z = 0, start
    while True:
        solution = _solve(problem, penalty, z, tolerance, steps)
        yield Round(number, penalty, solution)
        z = solution.x
        penalty, number = (
            update(problem.modes, z, penalty, smoothest, problem.observation.density),
            number + 1,
        )


def _solve(problem: Problem, penalty: Tensor, start: Tensor | None, tolerance: float, steps: int) -> Solution:
    modes, observation = problem.modes, problem.observation
    if problem.held:
        assert isinstance(observation, Masked)
        system = PrecisionSystem(modes, observation, penalty)
    else:
        system = ModesSystem(modes, observation, penalty, joint=problem.joint)
    return system.solve(problem.values, start=start, tolerance=tolerance, steps=steps)


def update(modes: Modes, z: Tensor, penalty: Tensor, smoothest: Tensor, density: float) -> Tensor:
    """One step of expectation-maximisation for the modes' variances P, given the modes' solution under them.

    With noise variance s² and density q a mode's posterior variance under random sampling is v = 1 / (1/τ + 1/P),
    where τ = s²/q + (1 - q)/q mean(v), the effective noise that missing samples add, is iterated to its fixed
    point. P is multiplied by the smoothed ratio (|z|² + v) / P. Its scale against s² comes from the
    smoothest modes, which the samples determine by themselves.
    """
    shape = 1 / penalty.clamp(min=FLOOR)
    energy = z.real.square() + z.imag.square() if z.is_complex() else z.square()
    energies = (energy / shape)[..., smoothest].median(-1).values
    noise = energies.amax(1) / 0.7  # the median of an exponential variable of mean one
    noise = noise.clamp(min=1e-12).reshape(-1, *(1,) * (z.ndim - 1))
    spectrum = noise * shape
    tau = effective_noise(modes.thinned(spectrum), noise.flatten(1).unsqueeze(-1), density)
    tau = tau.reshape(*tau.shape[:2], *(1,) * len(modes.lattice))
    ratio = energy.add_(spectrum * tau / (spectrum + tau)).div_(spectrum)
    return penalty / modes.smooth(ratio, WIDTH[len(modes.lattice)]).clamp(min=FLOOR)


def effective_noise(
    spectrum: Float[Tensor, "signals channels m"], noise: Float[Tensor, "signals 1 1"], density: float
) -> Float[Tensor, "signals channels 1"]:
    """The fixed point τ = s²/q + (1 - q)/q mean(1 / (1/τ + 1/P)): the noise of a mode under random sampling.

    The mean is concave in τ, so that Newton's method falls to the fixed point from whatever is above it; and where q is
    above 1 (points that share a node), it rises to it from whatever is below.
    """
    own, share = noise / density, (1 - density) / density
    tau = own + share * spectrum.mean(-1, keepdim=True) if share >= 0 else own / (1 - share)
    for _ in range(NEWTON):
        ratio = spectrum / (spectrum + tau)
        slope = share * ratio.square().mean(-1, keepdim=True)
        tau = (own + tau * (share * ratio.mean(-1, keepdim=True) - slope)) / (1 - slope)
    return tau


def smoothest_modes(modes: Modes, anisotropy: tuple[float, ...]) -> Tensor:
    """Which modes are the smoothest ``DETERMINED`` of all."""
    roughness = modes.roughness(anisotropy)
    count = max(2, int(DETERMINED * roughness.numel()))
    return roughness <= roughness.flatten().kthvalue(min(count, roughness.numel())).values
