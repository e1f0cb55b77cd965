"""A denoiser of pictures as a prior: which samples it suits, and the plan that fills gaps by plug-and-play."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.linalg.borders import make_periodic
from coordnet.metrics.scores import decibels
from coordnet.networks.fit_reports import DenoiserReport
from coordnet.plans.nugget import SHOWS
from coordnet.plans.plan import Begun, Fitted, Judged, Plan
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Cleaning, Prior
from coordnet.priors.denoiser.areas import DenoisedAreaPlan
from coordnet.priors.denoiser.named import NAMES, network_of, whole
from coordnet.priors.denoiser.parameters import DenoiserParameters, takes_all_noise
from coordnet.priors.denoiser.pictures import LatticeDenoiser, surroundings
from coordnet.priors.denoiser.plug_and_play import NOISE_SHARE, RELAXATION, Scale, entries, falling, plug_and_play
from coordnet.priors.denoiser.refined import DenoisedMeasurementPlan, DenoisedMosaicPlan, DenoisedNoisePlan
from coordnet.priors.denoiser.trust import relative_step, weight_at_hidden
from coordnet.priors.local import Local
from coordnet.priors.local.weights import HOPE
from coordnet.priors.motion import lacks_frames
from coordnet.priors.stack import Stack
from coordnet.sampling.axes import Axis
from coordnet.sampling.grids import is_mosaic
from coordnet.sampling.samples import Geometry

# The first and the last standard deviation of the steps, relative to the error at hidden samples, and their number.
# With a quarter known, ten steps from 2.0 to 0.5, weighed by eight, gain 0.04 dB less in the mean of 25 photographs,
# twelve 0.02 dB less on seven, and sixteen 0.01 dB more. Steps of the middle of the hidden samples alone give too small
# a weight.
FIRST, LAST, STEPS = 2.5, 0.4, 14
# Standard deviation from which on layers multiply bfloat16, which takes a third of their time away. On the
# middle 192² of four photographs it costs 0.014 dB in the mean; on ten pictures bfloat16 from 0.01 on cost 0.06 dB.
ROUNDED_FROM = 0.03

Signal = Float[Tensor, "channels *lattice"]


class DenoiserPlan(Plan):
    """Fill gaps by plug-and-play, which starts at the best of the estimates that hid samples themselves.

    In a ``Stack`` these are the candidates before it; alone it makes the pilot's. The same steps from the estimate
    without the hidden samples give the weight, and where noise is a good part of the errors there, they say whether the
    steps count it, too. Where that lowers the squared error there too little (``weight_at_hidden``), or not surely if
    noise is a good part, the result is the estimate it started at, to the bit. Where the steps change unknown values
    less than hidden gaps, the weight is less (``relative_step``). Hidden samples say nothing of known ones, which stay
    as they are in that estimate.

    The parameters are those of ``plan``; the encoding of a lattice that skips samples is replaced by Fourier's of the
    signal's grid.
    """

    holds_out = True
    understates = True  # as the local estimate does, at which it mostly starts
    refines = True

    def __init__(
        self, encoding: FourierEncoding, geometry: Geometry, prior: DenoiserParameters, pilot: Prior, **options: Any
    ) -> None:
        self.pilot = lambda: pilot.plan(encoding, geometry, **options)
        on_grid = geometry.shape == geometry.grid
        own = encoding if on_grid else FourierEncoding.on(tuple(Axis(n) for n in geometry.grid))
        super().__init__(own, geometry, **options)
        self.prior, self.denoiser = prior, LatticeDenoiser(prior, self.device, rounded_from=ROUNDED_FROM)

    def is_promising(self, errors: Mapping[Any, float], energy: float) -> bool:
        """Return whether the estimates that it may start at are nearly as good as others, which no gain makes up."""
        starts = [error for prior, error in errors.items() if isinstance(prior, Adaptive | Local)]
        return min(starts, default=0.0) <= HOPE * min(errors.values(), default=0.0)

    @torch.no_grad()
    def solve_and_hold_out(self, values: Float[Tensor, "1 channels *samples"], begun: Begun | None = None) -> Judged:
        """Return the coefficients of one centered signal, and the estimate of what was hidden; see ``Plan``.

        It is the very result of the candidate that it started at where the weight is 0.
        """
        done = [judged for judged in (begun or {}).values() if judged[1] is not None]
        before = min(done, key=_hidden_error) if done else self.pilot().solve_and_hold_out(values)
        fitted, held_out = before
        if held_out is None:
            return before
        scale, error = Scale.of(held_out.values[held_out.shown.expand_as(held_out.values)]), _hidden_error(before)
        shows = self.prior.noise**2 > SHOWS * error
        noises = (0.0, self.prior.noise) if shows else (0.0,)
        count = (len(noises) + 1) * STEPS
        with tqdm(total=count, desc="denoising", disable=not self.progress, leave=None) as bar:
            hidden = (held_out.estimate, held_out.values, held_out.shown, held_out.hidden, scale, _steps(error, scale))
            tried = {noise: self._filled(*hidden, noise, bar) for noise in noises}
            noise = min(noises, key=lambda noise: float(held_out.errors(tried[noise]).square().sum()))
            second = tried[noise]
            weight = weight_at_hidden(held_out, second, has_noise=shows)
            if not weight:
                return before
            f = fitted.signal(self.geometry.grid)[0]
            known, put = self.geometry.known(len(f)).movedim(-1, 0).to(f.device), self._put(values[0])
            filled = self._filled(f, put, known, ~known, scale, _steps(error, scale), noise, bar)
        if held_out.is_clustered:
            weight *= relative_step(held_out.errors(second) - held_out.errors(held_out.estimate), (filled - f)[~known])
        f = torch.where(known, f if self.prior.noise else put, f + weight * (filled - f))
        judged = replace(held_out, estimate=torch.lerp(held_out.estimate, second, weight))
        errors = {"before": error, "denoiser": _hidden_error((fitted, judged))}
        psnr = {name: decibels(e) for name, e in errors.items()}
        report = DenoiserReport.of(fitted.report, self.prior.label, weight, psnr)
        return Fitted(make_periodic(f.unsqueeze(0), self.encoding.shape), report, fitted.learned), judged

    def _put(self, values: Float[Tensor, "channels *samples"]) -> Signal:
        """Return the samples in their places on the signal's grid."""
        if self.geometry.shape == self.geometry.grid:
            return values
        f = values.new_zeros(*self.geometry.grid, len(values))
        self.geometry.put(values.movedim(0, -1), f)  # type: ignore[attr-defined]
        return f.movedim(-1, 0)

    def _filled(
        self,
        start: Signal,
        values: Signal,
        known: Bool[Tensor, "#channels *lattice"],
        sought: Bool[Tensor, "#channels *lattice"],
        scale: Scale,
        sigmas: Sequence[float],
        noise: float,
        bar: tqdm,
    ) -> Signal:
        """Return a signal filled by plug-and-play from a start, with a standard deviation each step.

        Pixels that are far from all that are sought stay as they are in the start.
        """
        windows = surroundings(sought)

        def clean(x: Tensor, s: float, symmetry: int) -> Tensor:
            bar.update()
            z = x.clone()
            for window in windows:
                z[(..., *window)] = self.denoiser(x[(..., *window)], s, symmetry)
            return z

        nearest = entries(scale.into(values), known, math.sqrt(NOISE_SHARE) * noise / scale.span)
        return scale.back(plug_and_play(scale.into(start), sigmas, clean, nearest, RELAXATION))


def _steps(error: float, scale: Scale) -> Sequence[float]:
    """Return the standard deviations of steps from a start with a mean squared error."""
    level = max(math.sqrt(error) / scale.span, 1e-6)
    return falling(FIRST * level, LAST * level, STEPS)


def _hidden_error(judged: Judged) -> float:
    """Return the mean squared error of an estimate at the samples that were hidden from it."""
    held_out = judged[1]
    assert held_out is not None, "an estimate without the hidden samples"
    return float(held_out.errors(held_out.estimate).square().mean())


@dataclass(frozen=True)
class Denoiser(DenoiserParameters):
    """Any denoiser of pictures, such as a trained network, in the place of a prior.

    ``f(x, sigma)`` returns pictures (batch, channels, height, width) without their noise of a standard deviation; both
    are in units of the ``range``, as in deepinv. The samples' own operator says what is known, and the two are brought
    together by plug-and-play (``plug_and_play``), which starts at the best estimate without the denoiser. Samples that
    are hidden, or noise that is added, say how far the denoiser is to be trusted; where it does not suit, the result is
    that without it, to the bit. Clips and volumes are denoised in slices along their last two axes, pictures of another
    number of channels one channel after the other.

    ``cn.fit`` and all functions of ``restore`` weigh it beside the priors that suit the samples.

    Attributes
    ----------
    f : callable
        The denoiser. A ``torch.nn.Module`` is copied, put into ``eval`` and moved to the device of the samples.
    channels : int
        The number of channels that it takes.
    range : (float, float)
        The least and the greatest value of its pictures. The known range of a signal is mapped to it.
    multiple : int
        The height and the width that it takes are multiples of this; others are continued to the next one.
    noise : float
        The standard deviation of the noise on samples. With 0 it is estimated where other priors suit, too; where
        none is found, known samples stay as they are.
    pilot : Prior, optional
        The prior of the estimate to start at where there is no other: the local one, or where that does not suit the
        adaptive one.

    Raises
    ------
    ValueError
        If f is not callable or a number is out of its range; from a fit also if f takes no such pictures, or
        returns another shape or values that are not finite.

    Notes
    -----
    Venkatakrishnan, Bouman and Wohlberg, "Plug-and-play priors for model based reconstruction" (2013); Zhang, Li, Zuo,
    Zhang, Van Gool and Timofte, "Plug-and-play image restoration with deep denoiser prior" (2021).
    """

    name: ClassVar[str] = "denoiser"
    cleans_by: ClassVar[Cleaning] = "network"

    @classmethod
    def named(cls, text: str) -> "Denoiser":
        """Return the denoiser of a name, "ffdnet", or of ``PACKAGE:CLASS,weights=PATH``; see ``network_of``."""
        network, options = network_of(text, "denoiser", {"channels": whole, "multiple": whole}, NAMES)
        return cls(network, **options)

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan for measurements, means over cells, mosaics, or other gaps.

        A ``ValueError`` is raised if the encoding is not Fourier's, or the samples are not on the lattice of a picture,
        a clip or a volume, nor measurements of one.
        """
        if not isinstance(encoding, FourierEncoding):
            raise _checks.wrong("encoding", "a FourierEncoding, for a denoiser", type(encoding).__name__)
        has_cells = geometry.footprint == "area"
        suits = geometry.is_nodal or geometry.operator or has_cells
        if not suits or len(geometry.grid) not in ((2,) if has_cells else (2, 3)):
            expected = "samples on the lattice of a picture, a clip or a volume, or means of a picture, for a denoiser"
            raise _checks.wrong("geometry", expected, type(geometry).__name__)
        kind: Any = DenoiserPlan
        if geometry.operator:
            kind = DenoisedMeasurementPlan
        elif has_cells:
            kind = DenoisedAreaPlan
        elif self.noise and takes_all_noise(geometry):
            kind = DenoisedNoisePlan
        elif is_mosaic(geometry.weights):
            kind = DenoisedMosaicPlan
        return kind(encoding, geometry, self, self.pilot_for(geometry), **options)

    def among(self, others: Callable[[], Prior | None], geometry: Geometry) -> Prior:
        """Return a stack of the suited priors with this one, or this one after them where no sample can be hidden.

        Where frames have no samples it has no part: slices tell nothing of time. On two of 13 clips it would lose
        1.9 dB, on two others 0.1 and 0.02 dB, and gain nothing.
        """
        if self.noise and takes_all_noise(geometry):
            return self
        suited = others()
        if isinstance(suited, Stack) and not is_mosaic(geometry.weights):
            told, noise = (self.pilot_for(geometry),) if self.noise else (), self.noise or suited.nugget
            own = () if lacks_frames(geometry) else (self.with_noise(noise),)
            return replace(suited, priors=(*suited.priors, *told, *own), nugget=noise)
        if suited is None:
            return self
        takes_noise = self.noise and isinstance(suited, Local)
        return replace(self, pilot=suited.with_noise(self.noise) if takes_noise else suited)

    def with_noise(self, sigma: float) -> "Denoiser":
        return replace(self, noise=sigma)
