"""Denoising: white noise on all samples of a signal is removed by the local prior or an adaptive Wiener filter."""

import math
import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import FourierEncoding
from coordnet.fitting.choice import LONGEST_FIT
from coordnet.linalg.borders import make_periodic
from coordnet.linalg.machine import full_precision
from coordnet.metrics.scores import decibels, value_range
from coordnet.networks.fit_reports import DenoiseReport
from coordnet.plans.hold_out import middle
from coordnet.plans.plan import CenteredValues, Fitted, Plan
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Prior, Setting
from coordnet.priors.local import Local
from coordnet.priors.local.noise import LocalDenoiser
from coordnet.priors.registry import PRIORS, REQUIRED, as_prior
from coordnet.restore.noise import ClippedNoise, noise_level, refuse_more_than
from coordnet.restore.restored import Restored, Tiles, Window, has_opacity
from coordnet.restore.wiener import PASSES, WINDOW_SIDES, wiener_filter
from coordnet.sampling.arrays import Array, as_signal
from coordnet.sampling.axes import Axis
from coordnet.sampling.grids import Lattice
from coordnet.sampling.samples import units_of

PROBED = 8  # one tile in eight is filtered twice, to estimate the remaining error
PROBE = 0.05  # step of the divergence's difference quotient, in standard deviations of the noise
TRIED = 2**14  # points of the middle part on which both priors are compared
TRIAL_SEED = 2**20  # is added to the seed, so the noise of the comparison differs from an experiment's
ROOM = 2.0**10  # the largest number of a type over the largest value allowed; estimates may overshoot
BEYOND = 0.01  # with a larger share of its values outside [0, 1], an estimate has its own span as range
UNLIKE = 2.0  # smallest ratio of the given and the estimated sigma, or its inverse, that is warned of
ADDED = 0.7  # standard deviation of the noise added for the comparison, relative to the present noise

Signal = Float[Tensor, "*grid channels"]
Cleaned = tuple[Signal, float | None, dict[str, Tensor]]  # estimate, expected mean squared error, what was learned


@dataclass(frozen=True)
class Noise:
    """The noise that a filter removes, and how it works."""

    level: float  # standard deviation of the noise
    given: bool  # whether it was given, and not estimated
    seed: int | None = None  # the seed of the probe for the error that remains, which is not estimated without one
    progress: bool = False


@full_precision()
def denoise(
    signal: Array,
    sigma: float | None = None,
    *,
    prior: Prior | str = "auto",
    alpha: bool | None = None,
    dimensions: int | None = None,
    seed: int = 0,
    largest: int | None = None,
    progress: bool = False,
) -> Restored:
    """Remove white Gaussian noise by a prior that is adapted to the very signal.

    The local prior has Gaussian classes of small patches, and then filters groups of similar patches (see
    ``LocalDenoiser``). The adaptive prior has one spectrum for the full signal and one for every window (see
    ``wiener_filter``). Where values were clipped after the noise came, their noise has less variance and a mean of its
    own (see ``ClippedNoise``): the filters take the former, and the result is freed from the latter.

    Parameters
    ----------
    signal : NumPy array or tensor, (*grid, channels), or (height, width) for a gray picture
        A signal of one to four axes; integers of 8 and 16 bits are scaled to [0, 1].
    sigma : float, optional
        Standard deviation of the noise, of integers after they are scaled; before clipping, where values were clipped.
        It is estimated by ``noise_level`` if not given. A ``CoordnetWarning`` says where the estimate is less than half
        of what is given, or more than twice as much.
    prior : "local", "adaptive", a prior that takes noise, its name, or "auto"
        With "auto", both are tried on the middle of a picture that the local prior is expected to take less than a
        minute for, and the better one is taken: on most pictures the local one. Other signals take the adaptive one,
        which is faster. A prior without a filter of its own is fitted to all samples, with their noise.
    alpha : bool, optional
        Whether the last channel is opacity, which stays as it is; of pictures with two or four channels in [0, 1] if
        not given.
    dimensions : int, optional
        The number of axes of the grid, where the shape does not tell; see ``as_signal``.
    seed : int
        Seed of the probe that estimates the remaining error, and of the noise that is added where priors are tried.
    largest : int
        Points of the largest signal that is filtered as a whole, 4 million if not given; see ``Tiles``.

    Returns
    -------
    Restored
        ``report["sigma"]`` is the noise, ``report["prior"]`` the prior, and ``report["tried"]`` the scores that decided
        it. ``expected_psnr`` is an estimate of the remaining error by Stein's formula, against the range 1 for
        pictures in [0, 1] and the signal's own span for others; it is None without noise, within a dB or two if sigma
        is estimated, and up to 3 dB too high if many values were clipped. The values of ``fit`` on its lattice are the
        estimate; it is None for a signal in tiles.

    Raises
    ------
    ValueError
        If a value is not finite or near the largest number of its type, sigma is negative or above the signal's own
        standard deviation, there are more than four axes, or the prior is another one.

    Notes
    -----
    The windows are the empirical Wiener filter of Ghael, Sayeed and Baraniuk (1997), with Fourier modes; its error is
    estimated as in Ramani, Blu and Unser, "Monte-Carlo SURE" (2008).
    """
    _checks.integer("seed", seed, 0)
    values, kind = as_signal(signal, dimensions=dimensions)
    values, dims = values.detach(), values.ndim - 1
    alpha = dims == 2 and has_opacity(values) if alpha is None else alpha
    opacity = values[..., -1:] if alpha else values[..., :0]
    values = values[..., :-1] if alpha else values
    _check(values, sigma)
    asked = None if prior == "auto" else _asked(prior)
    tiles = Tiles(tuple(values.shape[:-1]), largest)
    level = _level(tiles, values, sigma, progress=progress)
    chosen, tried = _better_prior(values, level, seed) if asked is None else (asked, None)
    noise = Noise(level, sigma is not None, seed, progress)
    report = DenoiseReport(
        prior=chosen.name, sigma=level, sigma_given=sigma is not None, tried=tried, expected_psnr=None
    )
    fit, cut = None, {}
    if len(tiles) == 1:
        options: Any = {"dtype": values.dtype, "device": values.device}
        fit = NoisePlan(tiles.grid, partial(_cleaned, chosen, noise=noise), report, **options).fit(values)
        expected, clean = cast(DenoiseReport, fit.report).expected_psnr, fit.render(alignment="sample")
    else:
        clean, error = _in_tiles(tiles, values, chosen, noise)
        expected, cut = _psnr(error, clean, level), tiles.report()
    found = {**replace(report, expected_psnr=expected).as_dict(), **cut}
    return Restored(kind.restore(torch.cat([clean, opacity], dim=-1)), fit, found, expected)


def _level(tiles: Tiles, signal: Signal, sigma: float | None, *, progress: bool) -> float:
    """Return sigma, or if it is not given the median of the noise levels of a signal's tiles.

    A warning says where the two are far apart: compressed noise has few high frequencies, and texture has many.
    """
    hidden = not progress or len(tiles) == 1
    with tqdm(tiles, desc="estimating the noise", leave=None, disable=hidden, dynamic_ncols=True) as bar:
        estimate = statistics.median(noise_level(signal[tile]) for tile in bar)
    if sigma is None:
        return estimate
    rounding = torch.finfo(signal.dtype).eps * float(signal.abs().max())
    if sigma > 0 and estimate > rounding and not 1 / UNLIKE <= estimate / sigma <= UNLIKE:
        text = f"`sigma`: {sigma:.3g} is used as given, though the finest details look like noise of {estimate:.2g}"
        warnings.warn(text, _checks.CoordnetWarning, stacklevel=3)
    return sigma


def _check(values: Signal, sigma: float | None) -> None:
    if values.ndim - 1 not in WINDOW_SIDES:
        raise _checks.wrong("signal", "one to four axes and channels", tuple(values.shape))
    if not bool(torch.isfinite(values).all()):
        raise _checks.wrong("signal", "finite values", "NaN or infinity")
    if (largest := float(values.abs().max())) > (most := torch.finfo(values.dtype).max / ROOM):
        raise _checks.wrong("signal", f"values of at most {most:.0e}", f"{largest:.0e}")
    if sigma is not None:
        refuse_more_than(values, _checks.nonnegative("sigma", sigma))


def _asked(prior: Prior | str) -> Prior:
    """Return the prior that was asked for; a ``ValueError`` is raised if it takes no noise."""
    if isinstance(prior, str):
        prior = PRIORS[_checks.choice("prior", prior, ("auto", *PRIORS))]()
    if as_prior(prior, REQUIRED).name not in CLEANERS:
        return prior.with_noise(0.0)
    if isinstance(prior, Adaptive) and prior != Adaptive():
        raise _checks.wrong("prior", "cn.Adaptive() as it is: its windows have no parameters", repr(prior))
    return prior


def _better_prior(values: Signal, level: float, seed: int) -> tuple[Prior, dict[str, float] | None]:
    """Return the prior that suits a signal, and the mean squared differences that decided.

    With white noise n independent of the noise there is, of the same variance, y + τn and y - n/τ have uncorrelated
    noise: the mean squared difference of the latter from an estimate by the former is the estimate's error, plus a
    constant (Pang, Zheng, Quan and Ji, "Recorrupted-to-recorrupted", 2021). The local prior is taken where it is better
    by more than a standard error: where the two are hardly different, as on constants, the adaptive one costs less.
    """
    grid = tuple(values.shape[:-1])
    setting = Setting(Lattice(grid), values.shape[-1], values.device)
    if level == 0 or len(grid) != 2 or Local(noise=level).seconds(setting) > LONGEST_FIT:
        return Adaptive(), None
    part = values[middle(grid, TRIED)]
    noisier, noise, sigma = _noisier(part, level, seed)
    target = part - noise / ADDED
    errors = {
        prior.name: (_cleaned(prior, noisier, Noise(sigma, given=True))[0] - target).double().square()
        for prior in (Local(), Adaptive())
    }
    gain = errors["adaptive"] - errors["local"]
    is_better = float(gain.mean()) > float(gain.std(correction=0)) / math.sqrt(gain.numel())
    tried = {prior: float(error.mean()) for prior, error in errors.items()}
    return Local() if is_better else Adaptive(), tried


def _noisier(part: Tensor, level: float, seed: int) -> tuple[Tensor, Tensor, float]:
    """Return a signal with more noise, noise like that it had, and the standard deviation of all its noise."""
    generator = torch.Generator().manual_seed(TRIAL_SEED + seed)
    noise = level * torch.randn(part.shape, generator=generator).to(part)
    return part + ADDED * noise, noise, level * math.sqrt(1 + ADDED**2)


def _in_tiles(tiles: Tiles, signal: Signal, prior: Prior, noise: Noise) -> tuple[Signal, float | None]:
    """Return the estimate of a signal in tiles, and the mean squared error that some of them lead to expect."""
    errors: list[float | None] = []

    def estimate(tile: Window) -> Signal:
        probed = len(errors) % PROBED == 0
        clean, error, _ = _cleaned(prior, signal[tile], noise if probed else replace(noise, seed=None))
        errors.append(error)
        return clean

    clean, found = tiles.restore(estimate, progress=noise.progress), [error for error in errors if error is not None]
    return clean, statistics.fmean(found) if found else None


def _cleaned(prior: Prior, signal: Signal, noise: Noise) -> Cleaned:
    """Return the estimate by a prior, which sees the signal in units of its size, its error and what was learned.

    Noise below the rounding of the values leaves them as they are.
    """
    units = units_of(signal.unsqueeze(0))[0]
    if noise.level <= torch.finfo(signal.dtype).eps * float(units):
        return signal, None, {}
    work = CLEANERS.get(prior.name, _by_plan)
    estimate, error, learned = work(prior, signal / units, replace(noise, level=noise.level / float(units)))
    if "patch_deviation" in learned:
        learned = {**learned, "patch_deviation": units * learned["patch_deviation"]}
    return units * estimate, None if error is None else error * float(units) * float(units), learned


def _by_patches(prior: Prior, signal: Signal, noise: Noise) -> Cleaned:
    """Return the estimate by the local prior, its expected error and the classes.

    The error of clipped values is the risk of an ideal Wiener filter alone: Stein's formula asks for the variance of
    each value, and the error in that of clipped ones is larger than the risk.
    """
    clipped, values = ClippedNoise.on(signal, noise.level, given=noise.given), signal.movedim(-1, 0)
    local, error = cast(Local, prior.with_noise(noise.level)), None
    made = LocalDenoiser(local, lambda means: clipped.variance(means) / noise.level**2, noise.progress)(values)
    if noise.seed is not None:
        spread = _sharpness(prior, values, made.f, noise.level, noise.seed) * made.spread
        ideal = max(float((clipped.gain(made.f) * spread).mean()), 1e-12)
        error = ideal if any(clipped.clips) else _expected_error(values, made.f, spread, clipped, exact=noise.given)
    return clipped.unclipped(made.f).movedim(0, -1), error, made.learned


def _sharpness(prior: Prior, values: Tensor, estimate: Tensor, level: float, seed: int) -> float:
    """Return the divergence of the local prior's estimate relative to that of the posterior means of its patches.

    The former is the part of added noise that stays, on the middle of the signal. The latter is the sum of the
    posterior variances over the noise's.
    """
    window = (slice(None), *middle(tuple(values.shape[1:]), TRIED))
    noisier, noise, sigma = _noisier(values[window], level, seed)
    made = LocalDenoiser(cast(Local, prior.with_noise(sigma)))(noisier)
    kept = float(((made.f - estimate[window]) * noise).mean()) / (ADDED * level**2)
    return max(kept, 0.0) / max(float(made.spread.mean()) / sigma**2, 1e-12)


def _probe(values: Tensor, noise: Noise) -> Tensor:
    """Return a small step up or down at every value, from which a difference quotient estimates a divergence."""
    signs = torch.randint(0, 2, values.shape, generator=torch.Generator().manual_seed(noise.seed or 0))
    return PROBE * noise.level * (2 * signs - 1).to(values)


def _by_windows(prior: Prior, signal: Signal, noise: Noise) -> Cleaned:
    """Return the estimate by the Wiener filter, its expected error and its spectrum."""
    clipped, values = ClippedNoise.on(signal, noise.level, given=noise.given), signal.movedim(-1, 0).unsqueeze(0)
    total = (1 + PASSES) * (1 if noise.seed is None else 2)
    error = None
    with tqdm(total=total, desc="denoising", leave=None, disable=not noise.progress, dynamic_ncols=True) as bar:
        means, learned = wiener_filter(values, clipped.variance, bar.update)
        if noise.seed is not None:
            step = _probe(values, noise)
            derivative = (wiener_filter(values + step, clipped.variance, bar.update)[0] - means) / step
            exact = noise.given and not any(clipped.clips)
            error = _expected_error(values, means, clipped.variance(means) * derivative, clipped, exact=exact)
    return clipped.unclipped(means)[0].movedim(0, -1), error, learned


def _by_plan(prior: Prior, signal: Signal, noise: Noise) -> Cleaned:
    """Return the fit of a prior to all samples, and its expected error."""
    lattice = Lattice(tuple(signal.shape[:-1]))
    options: dict[str, Any] = {"dtype": signal.dtype, "device": signal.device, "progress": noise.progress}
    made = prior.with_noise(noise.level).plan(FourierEncoding.like(lattice), lattice, **options)
    clean, error = made.fit(signal).render(alignment="sample"), None
    if noise.seed is not None:
        step = _probe(signal, noise)
        spread = noise.level**2 * (made.fit(signal + step).render(alignment="sample") - clean) / step
        error = _expected_error(signal, clean, spread, ClippedNoise.on(signal, noise.level), exact=noise.given)
    return clean, error, {}


CLEANERS: dict[str, Callable[..., Cleaned]] = {"local": _by_patches, "adaptive": _by_windows}


class NoisePlan(Plan):
    """Remove white noise from a full lattice of one signal, whose estimate a Fourier series interpolates.

    ``clean`` returns the estimate of a signal, its error and what was learned; ``report`` says by what prior and for
    what noise. The options are those of ``plan``.
    """

    def __init__(
        self, grid: tuple[int, ...], clean: Callable[[Signal], Cleaned], report: DenoiseReport, **options: Any
    ) -> None:
        encoding = FourierEncoding.on(tuple(Axis(n) for n in grid))
        super().__init__(encoding, Lattice(grid), assumed=report.prior or "none", **options)
        self.clean, self.report = clean, report

    def solve(self, values: CenteredValues) -> Fitted:
        """Return the coefficients of the estimate; the noise is that of the original values, as clipping was."""
        clean, error, learned = self.clean(values.values[0].movedim(0, -1))
        f = (clean - values.means[0]).movedim(-1, 0).unsqueeze(0)
        report = replace(self.report, expected_psnr=_psnr(error, clean, self.report.sigma))
        return Fitted(make_periodic(f, self.encoding.shape), report, learned)


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


def _psnr(error: float | None, clean: Signal, level: float) -> float | None:
    """Return the PSNR of an expected mean squared error against the range of the estimate.

    That is 1 where nearly all of the estimate is in [0, 1] but for the noise's standard deviation, else its own span.
    """
    if error is None or math.isinf(error):
        return None
    beyond = float(((clean < -level) | (clean > 1 + level)).double().mean())
    return decibels(error, 1.0 if beyond < BEYOND else value_range(clean)[0])
