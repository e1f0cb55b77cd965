"""Which kind of noise a signal has: white, colored or a camera's, and how the rooms beside this one tell it.

What is drawn has no noise, and areas of one color do not count (``drawn``). A picture that shows the steps of JPEG is
first compared with noise that is rounded to these steps (``before_jpeg``). Otherwise the energies of overlapping
windows (``windows``) are factorized into a spectrum that all share, and power laws of the signal (``factors``). White
noise is taken where the spectrum is flat, and a camera's where its variance rises with the brightness, or with that of
the negative. For colored noise of a gray picture, and for noise that colors share, the likelihood of patches is asked
(``grain``, ``shared``). Elsewhere the channels in which the signal varies least tell the spectrum, and the windows, or
differences of colors, have to differ as little as noise does (``evidence``). No model may exceed the noise that the
values' distribution leaves (``bound``). The level of white noise is told from textures of windows and of small patches
(``white``, ``white_level``, ``patch_energies``). Rows have white noise, whose level ``plans.row_noise`` tells.
"""

import math
import statistics
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.noise.before_jpeg import noise_before_jpeg
from coordnet.noise.bound import most_noise
from coordnet.noise.drawn import is_drawn, noisy_part, rounding_error
from coordnet.noise.evidence import (
    FLAT,
    MIRRORED,
    MIRRORED_ALONE,
    NOISE_MISFIT,
    QUANTILES,
    band_powers,
    differences_show,
    is_gaussian,
    is_uneven,
    mirrored_share,
    noise_bands,
    shown_power,
    steepest_slope,
)
from coordnet.noise.factors import FEWEST_WINDOWS, NoiseFactors, completed, deconvolved, factors_of
from coordnet.noise.grain import grain_of
from coordnet.noise.linear_demosaicing import demosaiced_noise
from coordnet.noise.pauses import quiet_noise
from coordnet.noise.shared import shared_noise
from coordnet.noise.white import noise_level
from coordnet.noise.wiener import window_shape
from coordnet.noise.windows import BANDS, ENDS, FAINTEST, SIDES, STRONG, Windows, doubled, symmetric
from coordnet.sampling.arrays import Array, as_signal
from coordnet.sampling.jpeg import shown_steps
from coordnet.sampling.noise_model import NoiseModel
from coordnet.sampling.samples import units_of

# Slope of the logarithm of the power against that of the frequency which no texture of one channel has: their power
# falls with its fourth power at most (see ``POWERS``), but that of noise which a filter left falls exponentially.
STEEP = -5.0
LIKE, NEGLECTED = 1.2, 0.15  # ratio of energies, and part of their mean over all modes, that are alike
# Ratio of the power in the channel with most of the signal to the largest of the others, up to which the noise may have
# any spectrum there. Beyond it, it has that of the others.
LOUDEST = 4.0
# Ratio of the mean power in the channel with most of the signal to that in the others, above which textures are the
# reason: those that a median leaves beside lost pixels, for one.
QUIET = 64.0
# Least power of compressed noise at any frequency, relative to the largest. On eight demosaiced photographs of quality
# 95, a half is 0.2 dB better than 0 and 1 in the mean.
COMPRESSED = 0.5
UNLIKE = 4.0  # ratio of the power in channels above which it is not alike
# Correlation of neighboring pixels beyond which noise is taken for the signal: of blurs by 2.3 pixels. Clouds have 0.96
# and more; noise filtered by 2 pixels was found with up to 0.943.
SMOOTHEST = 0.955
# Shares of a window's values at the ends of the range of a negative, whose upper end is black. Photographs with few
# photons have 20 % of their values there, and hardly a window with less than a tenth. Clipping lowers the noise there,
# and so makes none seem to rise.
DARK_ENDS = (0.1, 0.5)
# Ratio of the deviation in the flattest windows to that of white noise, which the quietest places bound, above which
# noise is louder in the dark. White noise of 0.03 to 0.08 on 44 crops has 0.8 to 1.1; dark photographs have 1 to 1.8.
LOUDER = 1.1
# Least factor of a model's deviation that the distribution of the values leaves (see ``most_noise``), and that of a
# negative, whose noise is skewed: it is 0.6 to 1.0 of dark photographs, and 0.1 of drawings with fainter white noise.
POSSIBLE, POSSIBLE_SKEWED = 0.6, 0.3


def estimate_noise(signal: Array, *, dimensions: int | None = None) -> NoiseModel:
    """Return the noise of a signal, of the simplest kind that explains its flattest windows.

    White noise has the standard deviation of ``noise_level``, and is taken where the windows do not support another
    kind: where there are too few, or where their energies differ as those of textures do. The variance depends on the
    signal, or on its negative, where a line against brightness explains it. Noise of a demosaiced picture has the
    spectrum of ``demosaiced_noise``. The spectrum of one channel takes less than of several, since others, in which
    signals vary less, tell noise from texture; in a gray picture the likelihood of patches is asked before (see
    ``grain_of``). Noise that the colors of a picture share in part, such as grain, has a covariance of the channels in
    its spectrum, and may be white; see ``shared_noise``. Rows have white noise alone. Bars, captions, insets and
    grounds of one color do not count, if blocks without such areas are a sixth of the signal; see ``noisy_part``.

    Parameters
    ----------
    signal : NumPy array or tensor, (*grid, channels), or (height, width) for a gray picture
        A signal of one to four axes; integers of 8 and 16 bits are scaled to [0, 1].
    dimensions : int, optional
        The number of axes of the grid, where the shape does not tell; see ``as_signal``.

    Raises
    ------
    ValueError
        If a value is not finite, there are more than four axes, or no axis has the 8 samples that show any noise.
    """
    values, _ = as_signal(signal, dimensions=dimensions)
    if values.ndim - 1 not in SIDES:
        raise _checks.wrong("signal", "one to four axes and channels", tuple(values.shape))
    if not bool(torch.isfinite(values).all()):
        raise _checks.wrong("signal", "finite values", "NaN or infinity")
    if max(window_shape(tuple(values.shape[:-1]))) == 1:
        raise _checks.wrong("signal", "8 samples along some axis, to show noise", f"shape {tuple(values.shape)}")
    level = noise_level(values.detach())
    return supported_noise(values.detach()) or NoiseModel(floor=level * level)


def supported_noise(signal: Float[Tensor, "*grid channels"]) -> NoiseModel | None:
    """Return the colored or the camera's noise that a signal supports, None for white noise or none.

    White noise that was compressed as JPEG is no longer white; see ``noise_before_jpeg``. A picture that ``is_drawn``
    has none. Bars and captions do not count; see ``noisy_part``. JPEG itself makes patches of one color, and others
    that repeat, so that the noise before it is looked for in the full picture. Where a picture in [0, 1] has noise
    whose variance does not rise with brightness, that of its negative may: the gamma curve of a file stretches what is
    dark. Such noise is looked for where there is white noise, but not beside JPEG's errors: that of dark photographs is
    found before. Rows, which may be as rough as noise, have white noise.
    """
    if signal.ndim == 2:
        return None
    steps = shown_steps(signal) if signal.ndim == 3 else None
    before = None if steps is None else noise_before_jpeg(signal, steps)
    part = noisy_part(signal)
    if before is not None or (part.ndim == 3 and is_drawn(part)):
        return before
    found = _supported(part, is_compressed=steps is not None)
    is_rising = found is not None and found.gain > 0
    if is_rising or steps is not None or not _is_coded(signal):
        return found
    level = noise_level(signal) if found is None else math.sqrt(found.floor)
    negative = _supported(1 - part, LOUDER * level, is_compressed=False) if level > 0 else None
    return found if negative is None or negative.gain == 0 else replace(negative, negative=True)


def _supported(
    signal: Float[Tensor, "*grid channels"], most_white: float = math.inf, *, is_compressed: bool
) -> NoiseModel | None:
    """Return the noise that the windows of a signal support, whose variance rises with brightness or not at all.

    Noise that correlates between channels counts as colored; see ``shared_noise``. A negative has a deviation
    ``most_white`` above which its noise is too loud to be white.
    """
    is_negative = math.isfinite(most_white)
    units = float(units_of(signal.unsqueeze(0))[0])
    windows = Windows.of(signal / units, DARK_ENDS if is_negative else ENDS)
    if len(windows.modes) < 2 * FEWEST_WINDOWS:
        return None
    model = _supported_by_windows(signal / units, windows, most_white / units, is_compressed=is_compressed)
    if signal.ndim == 3 and signal.shape[2] > 1 and not (is_compressed or is_negative):
        model = shared_noise(signal / units, model) or model
    if model is None:
        return None
    model = model.in_units(units)
    if signal.ndim != 3:
        return model
    is_possible = most_noise(signal, model) > (POSSIBLE_SKEWED if is_negative else POSSIBLE)
    return model if is_possible and float(model.variance(signal).mean()) > rounding_error(signal) ** 2 else None


def _is_smooth(model: NoiseModel) -> bool:
    """Return whether the noise of neighboring pixels is nearly the same, as are the values of clouds and slopes."""
    if model.spectrum is None:
        return False
    covariance = model.autocovariance.diagonal(dim1=0, dim2=1).sum(-1)
    beside = (covariance[0, 1 % covariance.shape[1]] + covariance[1 % len(covariance), 0]) / 2
    return bool(beside > SMOOTHEST * covariance[0, 0])


def required_noise(signal: Float[Tensor, "*grid channels"], kind: str) -> NoiseModel:
    """Return colored noise, of one variance, or a camera's, of a variance affine in the signal, without asking whether.

    A camera's is that of the negative of a picture in [0, 1] whose noise does not rise with brightness, if it rises
    there. Colored noise of a row is that of its quietest windows (see ``quiet_noise``). A ``ValueError`` is raised
    where there are too few windows without texture or clipped values to tell, and for a camera's noise of a row, such
    as a sound, whose values are no brightness.
    """
    if signal.ndim == 2:
        if kind == "camera":
            raise _checks.wrong("noise", "white or colored for a row", kind)
        return quiet_noise(signal)
    if kind == "camera" and (found := supported_noise(signal)) is not None and found.gain > 0:
        return found
    found = _required(signal, kind)
    if kind == "colored" or found.gain > 0 or not _is_coded(signal):
        return found
    negative = _required(1 - signal, kind)
    return replace(negative, negative=True) if negative.gain > 0 else found


def _is_coded(signal: Float[Tensor, "*grid channels"]) -> bool:
    """Return whether a signal may be a picture that is stored by a gamma curve: it has values in [0, 1]."""
    return signal.ndim == 3 and bool(((signal >= 0) & (signal <= 1)).all())


def _required(signal: Float[Tensor, "*grid channels"], kind: str) -> NoiseModel:
    signal = noisy_part(signal)
    steps = shown_steps(signal) if signal.ndim == 3 else None
    units = float(units_of(signal.unsqueeze(0))[0])
    windows = Windows.of(signal / units)
    if len(windows.modes) < 2 * FEWEST_WINDOWS:
        expected = f"white: too little of the signal shows {kind} noise"
        raise _checks.wrong("noise", expected, kind)
    factors = factors_of(windows)
    factors = factors if kind == "camera" else replace(factors, line=factors.line.level)
    model = colored_model(windows, factors, is_compressed=steps is not None)
    if model is None:
        raise _checks.wrong("noise", f"white: the signal's texture hides {kind} noise", kind)
    return completed(model, windows).in_units(units)


def _supported_by_windows(
    values: Float[Tensor, "*grid channels"], windows: Windows, most_white: float, *, is_compressed: bool
) -> NoiseModel | None:
    """Return the noise that the windows of a signal support, None for white noise.

    Whether they do is decided by the power that was found in them, before it is ``completed``. Where no line rises, as
    of a signal with few brightnesses, but the deviation is above ``most_white``, the variance is proportional to the
    signal: so it nearly is where lines rise.
    """
    factors = factors_of(windows)
    factors = factors if factors.line.rises(windows.means) else replace(factors, line=factors.line.level)
    made = _supported_by_factors(values, windows, factors, is_compressed=is_compressed)
    if made is None or float(made.variance(values).mean()) < FAINTEST**2:
        return None
    if made.kind == "white":
        return NoiseModel(gain=made.floor / float(values.mean())) if made.floor > most_white**2 else None
    return None if values.ndim == 3 and _is_smooth(made) else completed(made, windows)


def _supported_by_factors(
    values: Float[Tensor, "*grid channels"], windows: Windows, factors: NoiseFactors, *, is_compressed: bool
) -> NoiseModel | None:
    """Return the model of what was found in windows if they support it, None if they leave doubt."""
    is_single, is_cube = len(factors.spectra) == 1, len(windows.shape) == 3
    least = MIRRORED if is_cube else MIRRORED_ALONE
    if (is_single or is_cube) and mirrored_share(windows, factors.spectra[-1]) < least:
        return None
    if is_cube and factors.misfit > NOISE_MISFIT:
        return None
    bands = noise_bands(windows, factors.spectra[: max(1, len(factors.spectra) - 1)].mean(0))
    if float(bands.max() / bands.min()) < FLAT:
        return _white(factors, float(bands[-2:].mean()))
    is_picture = is_single and len(windows.shape) == 2
    if is_picture and not is_compressed and (grain := _gray_grain(values, windows.rotation)) is not None:
        return grain
    if is_single and (steepest_slope(windows, factors.spectra[0]) > STEEP or is_gaussian(windows)):
        return None
    return colored_model(windows, factors, is_compressed=is_compressed)


def _gray_grain(
    picture: Float[Tensor, "height width channels"], rotation: Float[Tensor, "channels 1"]
) -> NoiseModel | None:
    """Return noise that a filter left in a gray picture, which may be toned, None for other noise or none."""
    grain = grain_of(picture.cpu().double(), rotation[:, 0])
    if grain is None or grain.spectrum is None or grain.is_white_in_space:
        return None
    return NoiseModel((rotation @ rotation.mT)[:, :, None, None] * grain.spectrum, floor=grain.floor)


def _white(factors: NoiseFactors, level: float) -> NoiseModel:
    """Return noise with the power ``level`` at every frequency, and the variance against brightness that was found."""
    return NoiseModel(gain=level * factors.line.gain, floor=level * factors.line.floor)


def colored_model(windows: Windows, factors: NoiseFactors, *, is_compressed: bool) -> NoiseModel | None:
    """Return the model with the spectra that were found, None where the signal's textures may have made them.

    Noise after demosaicing is known by its spectrum.
    """
    if (demosaiced := demosaiced_noise(windows, factors)) is not None:
        return demosaiced
    spectra = factors.spectra
    if len(spectra) > 1 and _may_share(windows, factors):
        spectra = spectra[:-1].mean(0, keepdim=True).expand(len(spectra), -1)
    else:
        if is_uneven(windows, factors) and not differences_show(windows, factors):
            return None
        if len(spectra) > 1:
            *others, last = band_powers(windows, spectra).mean(1).tolist()
            if last > QUIET * statistics.fmean(others):
                return None
            spectra = torch.cat([spectra[:-1], _of_last(windows, factors, is_compressed=is_compressed)])
    power = deconvolved(spectra, windows.seen)
    spectrum = torch.einsum("ic,cf,jc->ijf", windows.rotation, power, windows.rotation)
    spectrum = spectrum.reshape(*spectrum.shape[:2], *doubled(windows.shape))
    return NoiseModel(spectrum, gain=factors.line.gain, floor=factors.line.floor)


def _of_last(windows: Windows, factors: NoiseFactors, *, is_compressed: bool) -> Float[Tensor, "1 modes"]:
    """Return the spectrum of the channel with most of the signal.

    It is bounded by that of the others, times a ratio, since textures may have made it, and by its own in other
    directions: noise that differs by direction does so in all channels. JPEG removes most noise where there is nothing
    else, so that the flattest windows have too little at high frequencies: there it is at least the share
    ``COMPRESSED`` of the largest.
    """
    others, last, flat = factors.spectra[:-1].mean(0), factors.spectra[-1:], windows.seen.sum(1)
    if len(windows.shape) == 2:
        last = torch.minimum(last, torch.maximum(symmetric(last[0], windows.shape), others))
    loudest = LOUDEST * band_powers(windows, factors.spectra[:-1]).max() * flat
    bounded = torch.minimum(last, torch.maximum(brightness_ratio(windows, factors) * others, loudest))
    least = COMPRESSED * band_powers(windows, last).max() * flat
    return torch.maximum(bounded, least) if is_compressed else bounded


def brightness_ratio(windows: Windows, factors: NoiseFactors) -> float:
    """Return the ratio of the noise's power in the channel with most of the signal to that in the others.

    Textures have much more at the lowest of the frequencies at which the others show the noise: it is the least in
    parts of them.
    """
    others, last = factors.spectra[:-1].mean(0), factors.spectra[-1]
    power, order = shown_power(windows, others), windows.radius.argsort()
    parts = order[power[order] > STRONG * power.max()].chunk(BANDS)
    ratios = [float(last[part].sum() / others[part].sum()) for part in parts]
    return min(ratios)


def _may_share(windows: Windows, factors: NoiseFactors) -> bool:
    """Return whether the channel with most of the signal may have the spectrum that the others have in the mean.

    Its flattest windows then have hardly more energy than that at the higher frequencies, where signals have least, and
    the others have spectra alike among themselves.
    """
    bands = band_powers(windows, factors.spectra[:-1])
    if float((bands.amax(0) / bands.amin(0)).max()) > UNLIKE:
        return False
    others = factors.spectra[:-1].mean(0)
    energy = windows.modes[:, -1].abs().square() / factors.line(windows.means.mean(1)).unsqueeze(1)
    for band in windows.bands[BANDS // 2 :]:
        least = float(energy[:, band].mean(1).quantile(QUANTILES[0]))
        if least > LIKE * float(others[band].mean()) + NEGLECTED * float(others.mean()):
            return False
    return True
