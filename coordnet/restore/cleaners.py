"""The filters that remove noise from a signal, of which each prior names one, and the error to expect of them."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import avg_pool2d
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import FourierEncoding
from coordnet.fitting.channel_groups import Groups, channel_groups, join_channels, numbered, steps_correlate
from coordnet.linalg.transforms import cosines, inverse_cosines
from coordnet.noise.rician import RicianNoise
from coordnet.noise.white import CLIPPED, ClippedNoise, noise_level
from coordnet.noise.wiener import PASSES, wiener_filter
from coordnet.plans.hold_out import middle
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Cleaning, Prior
from coordnet.priors.denoiser import Denoiser
from coordnet.priors.local import Local
from coordnet.priors.local.denoising import Cleaned as ByPatches
from coordnet.priors.local.denoising import LocalDenoiser
from coordnet.priors.local.weights import ADDED, GROWTH, recorrupted
from coordnet.priors.stack import Stack
from coordnet.restore.weighed import by_denoiser, is_within, weigh
from coordnet.sampling.grids import Lattice
from coordnet.sampling.noise_model import NoiseModel
from coordnet.sampling.samples import Samples, units_of

PROBE = 0.05  # step of the divergence's difference quotient, in standard deviations of the noise
TRIED = 2**14  # points of the middle part on which both priors are compared
# Pixels along each axis of means in which noise is low enough to see that channels tell of each other, so that no
# estimates are needed: in 18 of 24 noisy color pictures, and wrongly in 2 of 60 planes, of a field and its blur.
MEANS_SIDE = 4
TRIAL_SEED = 2**20  # is added to the seed, so the noise of the comparison differs from an experiment's
# Least power of the noise in any combination of channels, relative to the most at that frequency: of noise with a
# spectrum, and of noise that is white in space, which keeps differences of colors that have hardly any.
EVENED, EVENED_WHITE = 0.5, 0.1
DENOISER_WEIGHT = "denoiser_weight"  # name of a denoiser's weight among what was learned
# Largest share of the noise's power in fine detail with which it counts as coarse: noise filtered by 1 pixel has up to
# 0.05. Demosaiced noise has 0.4, and 0.2 dB would be lost.
COARSE = 0.1
# Share of the smaller picture's frequencies on each axis that are taken. On 128×128 pixels of kodim03, 05, 09 and 13
# with noise filtered by 1 pixel the gain is 0.15 dB in the mean, and 0.1 dB with 0.4; below 0.3 more blotches stay.
REPLACED = 0.3
HALVED_FROM = 64  # pixels along each axis of a picture whose half is large enough for patches to be learned from

Signal = Float[Tensor, "*grid channels"]
Picture = Float[Tensor, "channels height width"]
Estimated = tuple[Signal, float | None, dict[str, Tensor]]  # estimate, expected mean squared error, what was learned
Cleaned = tuple[Signal, float | None, dict[str, Tensor], str]  # the same, and the name of the prior that was used


@dataclass(frozen=True)
class Noise:
    """The noise that a filter removes, and how it works."""

    level: float  # standard deviation of the noise, in the mean over the signal
    given: bool  # whether it was given, and not estimated
    seed: int | None = None  # the seed of the probe for the error that remains, which is not estimated without one
    progress: bool = False
    model: NoiseModel = NoiseModel()  # the noise where it is not white or depends on the signal, else none
    one: float = 1.0  # the largest value of pictures, in the units of the signal
    clipped_share: float = CLIPPED  # an end of the range clipped the values if a larger share of them lies there

    @property
    def is_plain(self) -> bool:
        """Whether the noise is white, and alike on all values."""
        return self.model.kind == "none"

    def clipped(self, signal: Signal) -> ClippedNoise:
        """Return the noise of each value of a signal, clipped at the ends of its range that hold many samples."""
        if self.model.magnitude:
            return RicianNoise.of(signal, self.level)
        if self.model.gain > 0:
            return ClippedNoise.on(signal, math.sqrt(self.model.floor), slope=self.model.gain)
        given = self.given or not self.is_plain
        return ClippedNoise.on(signal, self.level, given=given, share=self.clipped_share)

    def drawn(self, like: Signal, generator: torch.Generator) -> Signal:
        """Draw noise like that of a signal."""
        if self.is_plain:
            return self.level * torch.randn(like.shape, generator=generator, dtype=torch.float32).to(like)
        process = self.model.process(tuple(like.shape[:-1]), like.shape[-1], generator).to(like)
        return self.model.variance(like).sqrt() * process

    @property
    def evened(self) -> "Noise":
        """The noise with at least a share of its largest power in any combination of channels; see ``EVENED``."""
        if self.model.spectrum is None:
            return self
        return self._with(self.model.evened(EVENED_WHITE if self.model.is_white_in_space else EVENED))

    @property
    def halved(self) -> "Noise":
        """The noise of a picture of half the height and width."""
        return self._with(self.model.halved)

    def _with(self, model: NoiseModel) -> "Noise":
        """Return the noise with a model of another spectrum, whose variance differs by a factor alone."""
        largest = max(self.model.floor, self.model.gain)
        growth = max(model.floor, model.gain) / largest if largest > 0 else 1.0
        return replace(self, level=self.level * math.sqrt(growth), model=model)

    def of_channels(self, chosen: Bool[Tensor, " channels"]) -> "Noise":
        """Return the noise of some channels."""
        return self._with(self.model.of_channels(chosen))

    def in_units(self, units: float) -> "Noise":
        """Return the noise of a signal that was divided by its units."""
        model = self.model.in_units(1 / units)
        return replace(self, level=self.level / units, model=model, one=self.one / units)


def noisier(part: Signal, noise: Noise, seed: int) -> tuple[Signal, Signal, Signal, Noise]:
    """Return a signal and its target as ``recorrupted`` by noise like that it had, this noise, and all of its noise."""
    more = noise.drawn(part, torch.Generator().manual_seed(TRIAL_SEED + seed))
    model = replace(noise.model, gain=GROWTH**2 * noise.model.gain, floor=GROWTH**2 * noise.model.floor)
    return *recorrupted(part, more), more, Noise(GROWTH * noise.level, given=True, model=model)


def cleaned(prior: Prior, signal: Signal, noise: Noise) -> Cleaned:
    """Return the estimate by a prior, its error, what was learned, and the name of the prior that was used.

    Channels that do not tell of each other are estimated in groups, each as if it were alone. What was learned then has
    the number of the group, as in "spectrum_0". Where the noise is that of the negative, this is what is estimated.
    """
    if noise.model.negative:
        positive = replace(noise, model=replace(noise.model, negative=False))
        clean, error, learned, used = cleaned(prior, 1 - signal, positive)
        return 1 - clean, error, learned, used
    groups = _groups(signal, noise)
    return join_groups([_together(prior, signal[..., group], noise.of_channels(group)) for group in groups], groups)


def join_groups(made: Sequence[Cleaned], groups: Groups) -> Cleaned:
    """Return the estimates of groups of channels in one; a group without an error was left as it is, beside others."""
    if len(made) == 1:
        return made[0]
    clean, errors, learned, used = zip(*made, strict=True)
    counts, is_known = [int(group.sum()) for group in groups], any(e is not None for e in errors)
    error = statistics.fmean([e or 0.0 for e in errors], counts) if is_known else None
    names = dict.fromkeys(name for name, e in zip(used, errors, strict=True) if e is not None or not is_known)
    return join_channels(clean, groups), error, numbered(learned), " and ".join(names)


def _groups(signal: Signal, noise: Noise) -> Groups:
    """Return the groups of channels that do not tell of each other (``channel_groups``).

    They are told by the adaptive prior's estimates of each channel alone, of the middle of the signal: in the noisy
    signal smooth channels look as rough as others, and an estimate of all may leave traces of one in another. Where the
    steps of means over ``MEANS_SIDE`` pixels correlate, as those of most colors do, all tell of each other. Channels of
    rows stay together, where noise hides whether their steps correlate: related ones would lose up to 0.9 dB. So do
    those of clips and volumes, whose groups would take longer to tell than a small clip takes to denoise.
    """
    together = torch.ones(signal.shape[-1], dtype=torch.bool)
    if len(together) == 1 or signal.ndim != 3:
        return [together]
    part, quiet = signal[middle(tuple(signal.shape[:-1]), TRIED)], replace(noise, seed=None, progress=False)
    if steps_correlate(avg_pool2d(part.movedim(-1, 0), MEANS_SIDE, ceil_mode=True).movedim(0, -1)):
        return [together]
    alone = torch.eye(len(together), dtype=torch.bool)
    clean = torch.cat([_together(Adaptive(), part[..., k], quiet.of_channels(k))[0] for k in alone], -1)
    return channel_groups(Samples(Lattice(tuple(part.shape[:-1])), in_range(clean, noise.level)), noise.level)


def in_range(clean: Signal, level: float) -> Signal:
    """Return an estimate as values in [0, 1] if nearly all are there, but for the noise's standard deviation."""
    return clean.clamp(0, 1) if is_within(clean, level, 1.0) else clean


def _together(prior: Prior, signal: Signal, noise: Noise) -> Cleaned:
    """Return the estimate of all channels together by a prior, which sees the signal in units of its size.

    Noise below the rounding of the values leaves them as they are. The name is that of the prior that was used: a
    denoiser's pilot where the denoiser has no weight.
    """
    units = units_of(signal.unsqueeze(0))[0]
    if noise.level <= torch.finfo(signal.dtype).eps * float(units):
        return signal, None, {}, prior.start.words
    estimate, error, learned = CLEANERS[prior.cleans_by](prior, signal / units, noise.in_units(float(units)))
    if "patch_deviation" in learned:
        learned = {**learned, "patch_deviation": units * learned["patch_deviation"]}
    used = prior if DENOISER_WEIGHT in learned else prior.start
    return units * estimate, None if error is None else error * float(units) * float(units), learned, used.words


def _by_patches(prior: Prior, signal: Signal, noise: Noise) -> Estimated:
    """Return the estimate by the local prior, its expected error and the classes.

    The error of clipped values is the risk of an ideal Wiener filter alone: Stein's formula asks for the variance of
    each value, and the error in that of clipped ones is larger than the risk.
    """
    clipped, values, error = noise.clipped(signal), signal.movedim(-1, 0), None
    made = _over_scales(prior, noise, signal, values)
    if noise.seed is not None:
        spread = _sharpness(prior, values, made.f, noise) * made.spread
        ideal = max(float((clipped.gain(made.f) * spread).mean()), 1e-12)
        error = ideal if any(clipped.clips) else _expected_error(values, made.f, spread, clipped, exact=noise.given)
    return clipped.unclipped(made.f).movedim(0, -1), error, made.learned


def _sharpness(prior: Prior, values: Tensor, estimate: Tensor, noise: Noise) -> float:
    """Return the divergence of the local prior's estimate relative to that of the posterior means of its patches.

    The former is the part of added noise that stays, on the middle of the signal. The latter is the sum of the
    posterior variances over the noise's.
    """
    window = (slice(None), *middle(tuple(values.shape[1:]), TRIED))
    y, _, more, all_noise = noisier(values[window].movedim(0, -1), noise, noise.seed or 0)
    quiet = replace(all_noise, progress=False)
    made = _over_scales(prior, quiet, None if noise.is_plain else y, y.movedim(-1, 0))
    kept = float(((made.f - estimate[window]) * more.movedim(-1, 0)).mean()) / (ADDED * noise.level**2)
    ratio = (all_noise.level / all_noise.evened.level) ** 2
    return ratio * max(kept, 0.0) / max(float(made.spread.mean()) / all_noise.evened.level**2, 1e-12)


def _over_scales(prior: Prior, noise: Noise, signal: Signal | None, values: Tensor) -> ByPatches:
    """Return the local prior's estimate of values, whose lowest frequencies are a smaller picture's for coarse noise.

    The noise is that of a signal, or alike on all values without one. Patches hardly tell the signal from noise that is
    coarser than they are; patches of the smaller picture do. Only the lowest frequencies are replaced, since those near
    the highest of the smaller picture are worse.

    Facciolo, Pierazzo and Morel, "Conservative scale recomposition for multiscale denoising" (2017).
    """
    made = _denoiser(prior, noise, signal)(values)
    if not is_coarse(noise.model, tuple(values.shape[1:])):
        return made
    small = halved(values)
    coarse = _denoiser(prior, noise.halved, small.movedim(0, -1))(small)
    return replace(made, f=joined(made.f, coarse.f))


def is_coarse(model: NoiseModel, lattice: tuple[int, ...]) -> bool:
    """Return whether a signal is a picture large enough to be halved, of noise with hardly any fine detail."""
    is_large = len(lattice) == 2 and min(lattice) >= HALVED_FROM
    return is_large and model.spectrum is not None and model.fine_share < COARSE


def halved(picture: Picture) -> Picture:
    """Return a picture of half the height and width, which has the lowest frequencies of its cosine transform."""
    height, width = (n // 2 for n in picture.shape[1:])
    return inverse_cosines(cosines(picture, 2)[:, :height, :width] / 2, 2)


def joined(fine: Picture, coarse: Picture) -> Picture:
    """Return a picture with its lowest frequencies from one of half its height and width."""
    height, width = (int(REPLACED * n) for n in coarse.shape[1:])
    modes = cosines(fine, 2)
    modes[:, :height, :width] = 2 * cosines(coarse, 2)[:, :height, :width]
    return inverse_cosines(modes, 2)


def _denoiser(prior: Prior, noise: Noise, signal: Signal | None) -> LocalDenoiser:
    """Return the local prior's filter for the noise of a signal, or for noise alike on all values without one."""
    noise = noise.evened
    local, level = cast(Local, prior.with_noise(noise.level)), noise.level
    if signal is None:
        return LocalDenoiser(local, progress=noise.progress)
    clipped = noise.clipped(signal)
    return LocalDenoiser(local, lambda means: clipped.variance(means) / level**2, noise.progress, noise.model)


def _probe(values: Tensor, noise: Noise) -> Tensor:
    """Return a small step up or down at every value, from which a difference quotient estimates a divergence."""
    signs = torch.randint(0, 2, values.shape, generator=torch.Generator().manual_seed(noise.seed or 0))
    return PROBE * noise.level * (2 * signs - 1).to(values)


def _by_windows(prior: Prior, signal: Signal, noise: Noise) -> Estimated:
    """Return the estimate by the Wiener filter, its expected error and its spectrum."""
    clipped, values = noise.clipped(signal), signal.movedim(-1, 0).unsqueeze(0)
    total = (1 + PASSES) * (1 if noise.seed is None else 2)
    error = None
    with tqdm(total=total, desc="denoising", leave=None, disable=not noise.progress, dynamic_ncols=True) as bar:
        means, learned = wiener_filter(values, clipped.variance, bar.update, noise.model)
        if noise.seed is not None:
            step = _probe(values, noise)
            derivative = (wiener_filter(values + step, clipped.variance, bar.update, noise.model)[0] - means) / step
            exact = noise.given and not any(clipped.clips)
            error = _expected_error(values, means, clipped.variance(means) * derivative, clipped, exact=exact)
    return clipped.unclipped(means)[0].movedim(0, -1), error, learned


def _by_plan(prior: Prior, signal: Signal, noise: Noise) -> Estimated:
    """Return the fit of a prior to all samples, and its expected error.

    A ``ValueError`` is raised for noise that is not white.
    """
    if not noise.is_plain:
        raise _checks.wrong("prior", f"local or adaptive for {noise.model.kind} noise", prior.name)
    lattice = Lattice(tuple(signal.shape[:-1]))
    options: dict[str, Any] = {"dtype": signal.dtype, "device": signal.device, "progress": noise.progress}
    encoding, known = FourierEncoding.like(lattice), prior.with_noise(noise.level)
    fit = known.plan(encoding, lattice, **options).fit(signal)
    clean, error, clipped = fit.render(alignment="sample"), None, noise.clipped(signal)
    if noise.seed is not None:
        step, settled = _probe(signal, noise), known.settled(fit.report).plan(encoding, lattice, **options)
        spread = noise.level**2 * (settled.fit(signal + step).render(alignment="sample") - clean) / step
        error = _expected_error(signal, clean, spread, clipped, exact=noise.given)
    return clipped.unclipped(clean), error, {}


def _expected_error(values: Tensor, estimate: Tensor, spread: Tensor, noise: ClippedNoise, *, exact: bool) -> float:
    """Return Stein's unbiased estimate of the mean squared error, |f(y) - y|² - v + 2 v div f per sample.

    The mean of ``spread`` is v div f. An error of a few hundredths in v is as large as the whole risk of a smooth
    picture. Unless the variance and the spread are ``exact``, the result is therefore the geometric mean with the risk
    of an ideal Wiener filter, v div f.
    """
    gain, variance = noise.gain(estimate), noise.variance(estimate)
    ideal = max(float((gain * spread).mean()), 1e-12)
    stein = max(float((gain * ((estimate - values).square() - variance)).mean()) + 2 * ideal, ideal)
    return stein if exact else math.sqrt(stein * ideal)


def _by_denoiser(prior: Prior, signal: Signal, noise: Noise) -> Estimated:
    """Return the pilot's estimate with the weight that a denoiser has, its expected error and what the pilot learned.

    The denoiser and its weight take the estimated noise, even where another one was given: the weight fails otherwise.
    """
    denoiser, pilot = cast(Denoiser, prior), cast(Prior, cast(Denoiser, prior).pilot)
    clean = CLEANERS[pilot.cleans_by]
    estimate, error, learned = clean(pilot, signal, noise)
    level = noise_level(signal) if noise.given else noise.level
    model = NoiseModel(floor=level**2) if noise.is_plain else noise.model

    def without(noisier: Signal, more: NoiseModel) -> Signal:
        own = NoiseModel() if noise.is_plain else more
        return clean(pilot, noisier, Noise(GROWTH * level, given=True, model=own))[0]

    seed = TRIAL_SEED + (noise.seed or 0)
    weighed = weigh(denoiser, without, signal, model, noise.one, seed) if level > 0 else None
    if not (weighed and weighed.weight):
        return estimate, error, learned
    step = by_denoiser(denoiser, signal, estimate, model, noise.one, error) - estimate
    weight = torch.tensor([[weighed.weight]], device=signal.device)
    expected = None if error is None else weighed.ratio * error
    return estimate + weighed.weight * step, expected, {**learned, DENOISER_WEIGHT: weight}


def _by_sum(prior: Prior, signal: Signal, noise: Noise) -> Estimated:
    """Return the weighted sum of the estimates by several priors, its expected error and what they learned.

    For weights of sum 1 the squared error of a sum F = Σ w f is that of the summands in the mean, Σ w |f - x|², without
    their own spread, Σ w |f - F|².
    """
    stack = cast(Stack, prior)
    clean, errors, learned = zip(*(CLEANERS[one.cleans_by](one, signal, noise) for one in stack.priors), strict=True)
    total = sum((w * f for w, f in zip(stack.weights, clean, strict=True)), torch.zeros_like(signal))
    spread = sum(w * float((f - total).double().square().mean()) for w, f in zip(stack.weights, clean, strict=True))
    expected = None
    if None not in errors:
        expected = max(sum(w * e for w, e in zip(stack.weights, errors, strict=True)) - spread, 1e-12)
    return total, expected, {name: part for own in learned for name, part in own.items()}


Cleaner = Callable[[Prior, Signal, Noise], Estimated]
CLEANERS: dict[Cleaning, Cleaner] = {
    "plan": _by_plan,
    "patches": _by_patches,
    "windows": _by_windows,
    "network": _by_denoiser,
    "sum": _by_sum,
}
