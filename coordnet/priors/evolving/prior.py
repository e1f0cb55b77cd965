"""The evolving prior: frames in time, with a covariance over them for every band of spatial frequencies."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.linalg.borders import make_periodic
from coordnet.metrics.scores import decibels
from coordnet.networks.fit_reports import EvolvingReport
from coordnet.plans.hold_out import HeldOut
from coordnet.plans.plan import Begun, Fitted, Judged, Plan
from coordnet.priors.base import Learned, Sampled, Setting, Timed
from coordnet.priors.evolving.covariance import Mean
from coordnet.priors.evolving.learning import NOISE_ROUNDS, Followed, FrameStatistics, Problem, follow, learned_from_all
from coordnet.sampling.axes import MAX_AXES
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.samples import Geometry

FRAMES = 3, 400  # fewest and most frames for which it is taken unasked
SECONDS = 2e-5  # time of one core for a channel of a node
SECONDS_BY_FRAMES = 3e-7  # time of one core for a channel of a node and each of its frames

Mask = Bool[np.ndarray, "#channels frames *space"]


@dataclass(frozen=True)
class Evolving(Timed):
    """A Gaussian prior of frames in time, with a covariance over the frames for every band of spatial frequencies.

    The first axis is time. What is large may so persist for long and what is small for a short time, which one spectrum
    of space and time cannot say: it suits fields under clouds. The covariances are learned from the samples.

    Attributes
    ----------
    times : tuple of float
        Those of ``Timed``.
    rounds : int
        Rounds of learning at most.
    hold_out : float
        The share of the samples that is hidden to choose the rounds, where no gaps of other frames can be laid over a
        frame.
    seed : int
        The seed of the hidden samples.
    statistics : tuple of FrameStatistics
        Those of other blocks of the signal, one for each channel; nothing is learned then.

    Raises
    ------
    ValueError
        If the rounds are negative, or the share is not in [0, 1).

    Notes
    -----
    Cressie and Huang, "Classes of nonseparable, spatio-temporal stationary covariance functions" (1999), for
    covariances in time by spatial frequency; Dempster, Laird and Rubin (1977), for how they are learned.
    """

    name: ClassVar[str] = "evolving"
    usage: ClassVar[str] = " (frames in time)"
    learns: ClassVar[bool] = True
    samples: ClassVar[tuple[Sampled, ...]] = ("gaps",)
    axes: ClassVar[range] = range(3, MAX_AXES + 1)
    on_cpu: ClassVar[bool] = True
    rounds: int = 6
    hold_out: float = 0.1
    seed: int = 0
    statistics: tuple[FrameStatistics, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", _checks.integer("seed", self.seed, 0))
        super().__post_init__()
        _checks.integer("rounds", self.rounds, 0)
        if not 0 <= _checks.nonnegative("hold_out", self.hold_out) < 1:
            raise _checks.wrong("hold_out", "a share in [0, 1)", self.hold_out)

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        return EvolvingPlan(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[Evolving, ...]":
        """Return it for masked lattices of three axes or more, with 3 to 400 frames along the first.

        Something is known of each channel.
        """
        geometry = setting.geometry
        is_mask = geometry.weights is not None and geometry.is_nodal
        if not is_mask or not setting.fourier:
            return ()
        if not bool((geometry.full_weights > 0).flatten(0, -2).any(0).all()):
            return ()
        suits = geometry.is_binary and geometry.shape == geometry.grid and FRAMES[0] <= geometry.grid[0] <= FRAMES[1]
        return (cls(),) if suits else ()

    def seconds(self, setting: Setting) -> float:
        grid = setting.geometry.grid
        return math.prod(grid) * setting.channels * (SECONDS + SECONDS_BY_FRAMES * grid[0])

    def taught(self, fits: Sequence[Learned]) -> "Evolving":
        """Return the prior with the mean of the covariances that fits learned."""
        return replace(self, statistics=FrameStatistics.mean([learned for _, learned in fits]))

    @property
    def keeps_samples(self) -> bool:
        """Whether noise stays: its variance is learned, and removed."""
        return False


class EvolvingPlan(Plan):
    """The posterior mean of frames under the covariance Σ_b S_b ⊗ C_b, whose parts are learned from the samples.

    b are bands of spatial frequencies, S_b their cosine modes with a variance each, and C_b a matrix over the frames.
    The covariance to start from is fitted to the variogram of the samples, and improved by rounds of
    expectation-maximization. Samples that are hidden in the shape of the gaps say which rounds to keep. The mean given
    all samples follows, each channel on its own; the Fourier encoding interpolates it. It is found on the CPU.

    The parameters are those of ``plan``. A ``ValueError`` is raised if the encoding is not Fourier's, or the samples
    are no lattice of two axes or more, have other weights than 0 and 1, or say nothing of a channel that is learned.
    """

    holds_out = stands_apart = True

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Evolving, **options: Any) -> None:
        if not isinstance(encoding, FourierEncoding):
            raise _checks.wrong("encoding", "a FourierEncoding for frames in time", type(encoding).__name__)
        if not geometry.is_nodal or geometry.shape != geometry.grid or len(geometry.grid) < 2:
            raise _checks.wrong("geometry", "frames of a lattice in time, some values unknown", repr(geometry))
        super().__init__(encoding, geometry, **options)
        self.prior, self.times = prior, prior.in_frames(geometry.grid[0])
        weights = geometry.full_weights.movedim(-1, 0)
        if not bool(((weights == 0) | (weights == 1)).all()):
            raise _checks.wrong("weights", "0 or 1 for frames in time", "others")
        self.known = weights.cpu().numpy() > 0
        if not prior.statistics and not self.known.any(tuple(range(1, weights.ndim))).all():
            raise _checks.wrong("geometry", "a known value in each channel", "none in one")

    def solve_and_hold_out(self, values: Float[Tensor, "1 channels *samples"], begun: Begun | None = None) -> Judged:
        """Return the coefficients of one centered signal, and the estimate of its hidden samples.

        Samples that priors before it hid are hidden, so that all are judged by the same ones.
        """
        before = [held for _, held in (begun or {}).values() if held is not None and not held.steps]
        hidden = self._hidden(values, before[0] if before else None)
        hope = min((float(held.errors(held.estimate).square().mean().sqrt()) for held in before), default=math.inf)
        each = self._followed(values[0].detach().cpu().double().numpy(), hidden, hope)
        means = [followed.learner.at(problem.y, problem.known).solve(is_last=True) for problem, followed in each]
        final, shown = (
            torch.from_numpy(np.stack([p.scale * f for (p, _), f in zip(each, frames, strict=True)])).to(values)
            for frames in ([mean.frames for mean in means], [followed.estimate for _, followed in each])
        )
        report = _report(each, means)
        learned: dict[str, Tensor] = {}
        for channel, (problem, followed) in enumerate(each):
            learned |= FrameStatistics.of(problem, followed.learner).tensors(channel)
        fitted = Fitted(make_periodic(final.unsqueeze(0), self.encoding.shape), report, learned)
        if not hidden.any():
            return fitted, None
        part = before[0].part if before else tuple(slice(0, n) for n in self.geometry.grid)
        seen, out = (torch.from_numpy(mask[(..., *part)]).to(values.device) for mask in (self.known & ~hidden, hidden))
        return fitted, HeldOut(part, values[0][(..., *part)], seen, out, shown[(..., *part)])

    def _hidden(self, values: Tensor, before: HeldOut | None) -> Mask:
        """Return the samples that another prior hid, or hide some; none where there is nothing to learn."""
        hidden = np.zeros_like(self.known)
        if self.prior.statistics:
            return hidden
        if before is not None:
            hidden[(..., *before.part)] = before.hidden.cpu().numpy()
            return hidden
        weights = torch.from_numpy(self.known).unsqueeze(0).to(torch.float32)
        generator = torch.Generator().manual_seed(self.prior.seed)
        drawn = ForwardModel.mask(weights).hide(self.prior.hold_out, generator, values.cpu())
        return hidden if drawn is None else drawn[0].numpy() > 0

    def _followed(
        self, y: Float[np.ndarray, "channels frames *space"], hidden: Mask, hope: float
    ) -> list[tuple[Problem, Followed]]:
        """Return what was learned of every channel; ``hope`` is the root mean square of another's hidden errors."""
        each, total = [], len(y) * (2 * self.prior.rounds + 1 + NOISE_ROUNDS)
        with tqdm(total=total, desc="frames in time", leave=None, disable=not self.progress, dynamic_ncols=True) as bar:
            for channel, f in enumerate(y):
                known, out = (mask[min(channel, len(mask) - 1)] for mask in (self.known, hidden))
                problem = Problem.of(f, known, out, self.times)
                if self.prior.statistics:
                    followed = self.prior.statistics[channel].followed(problem)
                else:
                    followed = follow(problem, self.prior.rounds, hope / problem.scale, bar.update)
                    followed = learned_from_all(problem, followed, self.prior.rounds, bar.update)
                each.append((problem, followed))
        return each


def _report(each: list[tuple[Problem, Followed]], means: list[Mean]) -> EvolvingReport:
    errors = [[problem.scale * error for error in followed.errors] for problem, followed in each]
    kept = [e[followed.rounds] for e, (_, followed) in zip(errors, each, strict=True) if e]
    return EvolvingReport(
        method="flexible conjugate gradients, covariances of frames by spatial frequency",
        device="cpu",
        iterations=max(mean.steps for mean in means),
        relative_residual=max(mean.residual for mean in means),
        hold_out_psnr={"evolving": decibels(float(np.square(kept).mean()))} if kept and min(kept) > 0 else None,
        bands=[len(followed.learner.bands.middles) for _, followed in each],
        stretch=[list(followed.learner.bands.stretch) for _, followed in each],
        sigma=[problem.scale * math.sqrt(followed.learner.noise) for problem, followed in each],
        rounds=[followed.rounds for _, followed in each],
        hidden_errors=errors,
    )
