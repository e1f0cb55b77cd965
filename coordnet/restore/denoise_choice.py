"""The decisions before noise is removed from a signal: on its noise, and on the prior."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.fitting.choice import LONGEST_FIT
from coordnet.metrics.scores import decibels, value_range
from coordnet.noise.drawn import noisy_part
from coordnet.noise.estimate import required_noise, supported_noise
from coordnet.noise.rician import check_magnitudes, rician_level
from coordnet.noise.white import ENOUGH, noise_level, seen_level
from coordnet.noise.wiener import WINDOW_SIDES
from coordnet.plans.hold_out import middle
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import FEWEST_KRIGED, MOST_KRIGED, REQUIRED, Prior, Setting, as_prior
from coordnet.priors.denoiser import Denoiser
from coordnet.priors.kriging import Kriging
from coordnet.priors.local import Local
from coordnet.priors.local.weights import least_squares_share, squared_gains
from coordnet.priors.stack import Stack
from coordnet.priors.variation import TotalVariation
from coordnet.restore.cleaners import TRIED, Noise, Signal, cleaned, in_range, noisier
from coordnet.sampling.grids import Lattice
from coordnet.sampling.noise_model import NoiseModel

UNLIKE = 2.0  # smallest ratio of the given and the estimated sigma, or its inverse, that is warned of
KINDS = ("auto", "white", "colored", "camera", "rician")
ROOM = 2.0**10  # the largest number that may occur over the largest value allowed; estimates may overshoot
# Weight below which a prior gets none: the local or the adaptive one takes 0.3 to 3.5 times as long again, and on seven
# pictures weights of 0.03 to 0.13 brought 0.00 to 0.05 dB.
LEAST_SHARE = 0.15
SEEN = 2**20  # points of the middle part on which priors are compared with the adaptive one once more
# Priors that are weighed against each other; each is added to the sum of those before it.
WEIGHED: tuple[Prior, ...] = Adaptive(), Local(), Kriging(), TotalVariation()
CHECKED = WEIGHED[2:]  # those that have to be better than the adaptive one on the full signal, too
WEIGHED_IN_ROWS: tuple[Prior, ...] = Kriging(), Adaptive(), TotalVariation()


class Settled(NamedTuple):
    """The prior and the noise for a signal, and the mean squared differences that decided on the prior, if any."""

    prior: Prior
    noise: Noise
    tried: dict[str, float] | None


def settled(
    values: Signal,
    sigma: float | None,
    noise: NoiseModel | str,
    asked: Prior | None,
    seed: int,
    *,
    progress: bool = False,
) -> Settled:
    """Return what is decided on a signal; the arguments are those of ``denoise``, where it says what is raised."""
    model = _noise_model(values, sigma, noise)
    is_white = model.kind in ("none", "white")
    sigma = math.sqrt(model.floor) if model is noise and is_white else sigma
    if is_white:
        level = _white_level(values, sigma)
    else:
        level = math.sqrt(float(model.variance(values).double().mean()))
    is_plain = is_white or noise == "white"
    work = Noise(level, sigma is not None, seed, progress, NoiseModel() if is_plain else model)
    chosen, tried = _chosen_prior(asked, values, work, seed)
    return Settled(chosen, work, tried)


def _noise_model(signal: Signal, sigma: float | None, noise: NoiseModel | str) -> NoiseModel:
    """Return the model of the noise; white noise has an empty one, and its level is estimated apart.

    Where white noise is asked for, and a signal shows another kind, that one tells the level: the highest frequencies
    and the flattest windows, from which the level of white noise is told, have less of it.
    """
    if isinstance(noise, NoiseModel):
        if sigma is not None:
            raise _checks.wrong("sigma", "none beside a model of the noise", repr(sigma))
        channels, axes = signal.shape[-1], signal.ndim - 1
        if noise.spectrum is not None and (len(noise.spectrum), noise.spectrum.ndim - 2) != (channels, axes):
            expected = f"a spectrum of {channels} channels, with {axes} axes"
            raise _checks.wrong("noise", expected, f"one of shape {tuple(noise.spectrum.shape)}")
        if noise.magnitude:
            check_magnitudes(signal)
        return noise
    kind = _checks.choice("noise", noise, KINDS)
    if sigma is not None and kind in ("colored", "camera"):
        raise _checks.wrong("sigma", f"none: {kind} noise is estimated, or given as a cn.NoiseModel", repr(sigma))
    if kind == "rician":
        return NoiseModel(floor=(rician_level(signal) if sigma is None else sigma) ** 2, magnitude=True)
    is_open = kind in ("auto", "white")
    if sigma is not None:
        return NoiseModel()
    return (supported_noise(signal) or NoiseModel()) if is_open else required_noise(signal, kind)


def _white_level(signal: Signal, sigma: float | None) -> float:
    """Return sigma, or the noise level of a signal if it is not given.

    A warning says where the two are far apart: compressed noise has few high frequencies, and texture has many. For
    that the level, which takes some time, is estimated only where the highest frequencies are far from sigma.
    """
    if sigma is None:
        return noise_level(signal)
    rounding = torch.finfo(signal.dtype).eps * float(signal.abs().max())
    for level in (lambda signal: seen_level(noisy_part(signal, ENOUGH).double()), noise_level):
        estimate = level(signal)
        if sigma == 0 or estimate <= rounding or 1 / UNLIKE <= estimate / sigma <= UNLIKE:
            return sigma
    text = f"`sigma`: {sigma:.3g} is used as given, though the finest details look like noise of {estimate:.2g}"
    warnings.warn(text, _checks.CoordnetWarning, stacklevel=5)  # the caller of ``denoise`` and its decorator
    return sigma


def asked_prior(prior: Any) -> Prior:
    """Return the prior that was asked for; a ``ValueError`` is raised if it is none, or takes no noise."""
    if as_prior(prior, REQUIRED).cleans_by in ("plan", "sum"):
        return prior.with_noise(0.0)
    if isinstance(prior, Adaptive) and prior != Adaptive():
        raise _checks.wrong("prior", "cn.Adaptive() as it is: its windows have no parameters", repr(prior))
    return prior


def _chosen_prior(
    asked: Prior | None, values: Signal, noise: Noise, seed: int
) -> tuple[Prior, dict[str, float] | None]:
    """Return the prior for a signal, and what decided; a denoiser is weighed against the one that suits the signal.

    It has no part where the noise has a spectrum, or is that of magnitudes: no transform makes such noise white.
    """
    if isinstance(asked, Denoiser) and values.ndim not in (3, 4):
        raise _checks.wrong("signal", "a picture, a clip or a volume for a denoiser", tuple(values.shape))
    if asked is not None and not isinstance(asked, Denoiser):
        return asked, None
    better, tried = _suited_prior(values, noise, seed)
    takes_noise = noise.model.spectrum is None and not noise.model.magnitude
    return (replace(asked, pilot=better) if asked is not None and takes_noise else better), tried


def _suited_prior(values: Signal, noise: Noise, seed: int) -> tuple[Prior, dict[str, float] | None]:
    """Return the prior that suits a signal, and the mean squared differences that decided.

    The priors are weighed by ``recorrupted`` values. The local one alone would lose 14.7 dB on constants, and up to
    1.1 dB on scikit-image's smooth pictures (the moon at σ = 0.2). It is taken for noise that is not white. On clips
    and volumes the adaptive one takes as long. Kriging suits rows, and fields without edges: of 39 fields, volumes and
    photographs 20 take it, and gain 1.3 dB in the mean. Edges that the middle does not have would cost 4 dB. Total
    variation suits what is constant in parts: on 57 and 66 rows with noise, of which the latter were held out, it adds
    1.7 and 1.3 dB in the mean, 11 dB to steps, and loses 1.3 dB at worst; to drawn shapes and a phantom it adds 0.4 to
    1.2 dB. These two therefore have to be better than the adaptive prior on the full signal, too. Patches are not
    compared there, since they take longest.
    """
    grid = tuple(values.shape[:-1])
    setting = Setting(Lattice(grid), values.shape[-1], values.device)
    is_row, is_long = len(grid) == 1, len(grid) == 2 and Local(noise=noise.level).seconds(setting) > LONGEST_FIT
    if is_row:
        is_long = not (noise.is_plain and FEWEST_KRIGED <= len(values) <= MOST_KRIGED[1])
    if noise.level == 0 or len(grid) > 3 or is_long:
        return Adaptive(), None
    if not noise.is_plain:  # a spectrum is not known well enough for that
        return Local(), None
    errors = _errors(WEIGHED_IN_ROWS if is_row else WEIGHED, values[middle(grid, TRIED)], noise, seed)
    tried = {prior.name: float(error.square().mean()) for prior, error in errors.items()}
    chosen = weighed(errors, values.shape[-1])
    if math.prod(grid) > TRIED and set(CHECKED) & set(getattr(chosen, "priors", (chosen,))):
        seen = _errors((Adaptive(), *CHECKED), values[middle(grid, SEEN)], noise, seed)
        least = seen[Adaptive()].square().mean()
        errors = {prior: e for prior, e in errors.items() if prior not in seen or seen[prior].square().mean() <= least}
        chosen = weighed(errors, values.shape[-1])
    return chosen, tried


def _errors(priors: Sequence[Prior], part: Signal, noise: Noise, seed: int) -> dict[Prior, Float[Tensor, " n"]]:
    """Return the differences of each prior's estimates of a part, with noise that is added, from values without it."""
    more, target, _, all_noise = noisier(part, noise, seed)
    return {prior: (cleaned(prior, more, all_noise)[0] - target).double().flatten() for prior in priors}


def weighed(errors: dict[Prior, Float[Tensor, " n"]], channels: int) -> Prior:
    """Return the sum of priors, or the one of them, that has the least error where each is added to those before it.

    Its weight is least squares, and 0 if the error does not fall by more than a standard error; those of the channels
    of a value are alike. A prior whose weight is below ``LEAST_SHARE`` at the end is left out.
    """
    (first, total), *others = errors.items()
    weights = {first: 1.0}
    for prior, error in others:
        share = least_squares_share(total, error)
        gains = squared_gains(total, error, share)
        if float(gains.mean()) > float(gains.std()) * math.sqrt(channels / len(gains)):
            weights = {before: (1 - share) * weight for before, weight in weights.items()} | {prior: share}
            total = total + share * (error - total)
    kept = {prior: weight for prior, weight in weights.items() if weight >= LEAST_SHARE}
    if len(kept) == 1:
        return next(iter(kept))
    return Stack(tuple(kept), tuple(weight / sum(kept.values()) for weight in kept.values()))


def check_values(values: Signal) -> None:
    """Refuse a signal of too many axes, or with values that are not finite or too large, with a ``ValueError``.

    Their squares have to be finite in double precision, as the variance of the noise is.
    """
    if values.ndim - 1 not in WINDOW_SIDES:
        raise _checks.wrong("signal", "one to four axes and channels", tuple(values.shape))
    if not bool(torch.isfinite(values).all()):
        raise _checks.wrong("signal", "finite values (see inpaint)", "NaN or infinity")
    most = min(torch.finfo(values.dtype).max, math.sqrt(torch.finfo(torch.float64).max)) / ROOM
    if (largest := float(values.abs().max())) > most:
        raise _checks.wrong("signal", f"values of at most {most:.0e}", f"{largest:.0e}")


def described(noise: Noise, lost: Tensor | None) -> dict[str, Any]:
    """Return what a report says of the noise: its kind, the variance, and the share of the pixels that were lost."""
    kind, floor = noise.model.kind, noise.model.floor
    if noise.is_plain:
        kind, floor = "white" if noise.level > 0 else "none", noise.level * noise.level
    share = 0.0 if lost is None else float(lost.double().mean())
    return {"kind": kind, "floor": floor, "gain": noise.model.gain, "negative": noise.model.negative, "lost": share}


def expected_psnr(error: float | None, clean: Signal, level: float) -> float | None:
    """Return the PSNR of an expected mean squared error against the range of the estimate.

    That is 1 where the estimate is ``in_range``, unless it is too small for a picture; else its own span (see
    ``value_range``).
    """
    if error is None or math.isinf(error):
        return None
    return decibels(error, value_range(in_range(clean, level))[0])
