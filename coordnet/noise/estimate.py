"""Which kind of noise a signal has: white, colored or a camera's, by what its flattest windows support."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.noise.before_jpeg import noise_before_jpeg
from coordnet.noise.bound import most_noise
from coordnet.noise.drawn import is_drawn, noisy_part, rounding_error
from coordnet.noise.factors import FEWEST_WINDOWS, NoiseFactors, completed, deconvolved, factors_of
from coordnet.noise.linear_demosaicing import demosaiced_noise
from coordnet.noise.pauses import quiet_noise
from coordnet.noise.shared import brightness, shared_noise
from coordnet.noise.white import noise_level
from coordnet.noise.wiener import window_shape
from coordnet.noise.windows import (
    BANDS,
    FAINTEST,
    ROUNDING,
    SIDES,
    SIGNALS_UP_TO,
    STRONG,
    Windows,
    doubled,
    quantile_of_mean,
    symmetric,
)
from coordnet.sampling.arrays import Array, as_signal
from coordnet.sampling.jpeg import shown_steps
from coordnet.sampling.noise_model import NoiseModel
from coordnet.sampling.samples import units_of

FLAT = 1.5  # ratio of the largest power of a part to the least, below which noise counts as white
# Slope of the logarithm of the power against that of the frequency which no texture of one channel has: their power
# falls with its fourth power at most (see ``POWERS``), but that of noise which a filter left falls exponentially.
STEEP = -5.0
QUANTILES = (0.02, 0.1)  # shares of the windows whose energies are compared: noise alone differs little
SPREAD = {False: 1.8, True: 1.6}  # largest ratio of these energies, with several channels and with a single one
# Noise of a single channel is coarse if its mean power in the middle of the frequencies is less than this share of the
# largest above the lowest ones.
COARSE = 0.05
# Shares of the windows whose energies are compared where coarse noise has most, and their largest ratio, relative to
# that of noise alone. Of 176 crops of gray pictures without noise 0.26 pass (0.28 with the middle of the frequencies
# alone), of 321 with filtered noise 0.92 (0.79).
COARSE_QUANTILES, COARSE_SPREAD = (0.1, 0.3), 1.35
LIKE, NEGLECTED = 1.2, 0.15  # ratio of energies, and part of their mean over all modes, that are alike
LOUDEST = 4.0  # ratio of the power in the channel with most of the signal to the largest of the others
QUIET = 64.0  # ratio of the mean powers above which textures are the reason
# Least power of compressed noise at any frequency, relative to the largest. On eight demosaiced photographs of quality
# 95, a half is 0.2 dB better than 0 and 1 in the mean.
COMPRESSED = 0.5
UNLIKE = 4.0  # ratio of the power in channels above which it is not alike
CORRELATED = 5.0  # modes that are worth one without taper
# Least share of the power of noise that its mirror images have. Noise in clips after H.264 of quality 18 and 24 has
# 0.72 to 0.96, textures that move up to 0.70. It is less where few windows are flat: there clips keep such noise. In
# gray pictures textures that look like filtered noise have 0.1 to 0.45, such noise mostly more than 0.8, but 0.5 to 0.7
# in one crop of nine. In the brightness of color pictures, most of which have no such noise, there it is in doubt.
MIRRORED, MIRRORED_ALONE = 0.75, 0.5
# Correlation of neighboring pixels beyond which noise is taken for the signal: of blurs by 2.3 pixels. Clouds have 0.96
# and more; noise filtered by 2 pixels was found with up to 0.943.
SMOOTHEST = 0.955
# Ratio of the mean of the windows' energies to their median, in each part of the frequencies, up to which a channel is
# a Gaussian field as a whole. Of 90 random fields, a third of them without noise, colored noise was found in 37, down
# to 17 dB of the field; all of these have less. Of 90 gray crops in which filtered noise was found 19 have less, too:
# ten of textures, where its removal gains up to 4 dB or loses up to 9, and nine nearly flat ones, which keep it.
GAUSSIAN = 1.4
POSSIBLE = 0.6  # least factor of a model's deviation that the distribution of the values leaves; see ``most_noise``


def estimate_noise(signal: Array, *, dimensions: int | None = None) -> NoiseModel:
    """Return the noise of a signal, of the simplest kind that explains its flattest windows.

    White noise has the standard deviation of ``noise_level``, and is taken where the windows do not support another
    kind: where there are too few, or where their energies differ as those of textures do. The variance depends on the
    signal where a line against brightness explains it. Noise of a demosaiced picture has the spectrum of
    ``demosaiced_noise``. The spectrum of one channel takes less than of several, since others, in which signals vary
    less, tell noise from texture. Noise that the colors of a picture share in part, such as grain, has a covariance of
    the channels in its spectrum, and may be white; see ``shared_noise``. Bars, captions, insets and grounds of one
    color do not count, if blocks without such areas are a sixth of the signal; see ``noisy_part``.

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
    """Return the colored or the camera's noise that the windows of a signal support, None for white noise or none.

    White noise that was compressed as JPEG is no longer white; see ``noise_before_jpeg``. Noise that correlates between
    channels counts as colored; see ``shared_noise``. A picture that ``is_drawn`` has none. Bars and captions do not
    count; see ``noisy_part``.
    """
    signal = noisy_part(signal)
    if signal.ndim == 3 and is_drawn(signal):
        return None
    steps = shown_steps(signal) if signal.ndim == 3 else None
    if steps is not None and (before := noise_before_jpeg(signal, steps)) is not None:
        return before
    units = float(units_of(signal.unsqueeze(0))[0])
    model = _supported_by_windows(signal / units, is_compressed=steps is not None)
    if signal.ndim == 3 and signal.shape[2] > 1:
        alone = _supported_by_windows(brightness(signal / units), is_compressed=False, surely=True)
        model = shared_noise(signal / units, model, alone) or model
    if model is None:
        return None
    model = model.in_units(units)
    level = math.sqrt(float(model.variance(signal).mean()))
    if signal.ndim != 3:
        return model
    return model if level > rounding_error(signal) and most_noise(signal, model) > POSSIBLE else None


def _is_smooth(model: NoiseModel) -> bool:
    """Return whether the noise of neighboring pixels is nearly the same, as are the values of clouds and slopes."""
    if model.spectrum is None:
        return False
    covariance = model.autocovariance.diagonal(dim1=0, dim2=1).sum(-1)
    beside = (covariance[0, 1 % covariance.shape[1]] + covariance[1 % len(covariance), 0]) / 2
    return bool(beside > SMOOTHEST * covariance[0, 0])


def required_noise(signal: Float[Tensor, "*grid channels"], kind: str) -> NoiseModel:
    """Return colored noise, of one variance, or a camera's, of a variance affine in the signal, without asking whether.

    Colored noise of a row is that of its quietest windows (see ``quiet_noise``). A ``ValueError`` is raised where there
    are too few windows without texture or clipped values to tell, and for a camera's noise of a row, such as a sound,
    whose values are no brightness.
    """
    if signal.ndim == 2:
        if kind == "camera":
            raise _checks.wrong("noise", "white or colored for a row", kind)
        return quiet_noise(signal)
    signal = noisy_part(signal)
    steps = shown_steps(signal) if signal.ndim == 3 else None
    units = float(units_of(signal.unsqueeze(0))[0])
    windows = Windows.of(signal / units)
    if len(windows.modes) < 2 * FEWEST_WINDOWS or _is_clean(windows):
        expected = f"white: too little of the signal shows {kind} noise"
        raise _checks.wrong("noise", expected, kind)
    factors = factors_of(windows)
    factors = factors if kind == "camera" else replace(factors, line=factors.line.level)
    model = colored_model(windows, factors, is_compressed=steps is not None)
    if model is None:
        raise _checks.wrong("noise", f"white: the signal's texture hides {kind} noise", kind)
    return completed(model, windows).in_units(units)


def _supported_by_windows(
    values: Float[Tensor, "*grid channels"], *, is_compressed: bool, surely: bool = False
) -> NoiseModel | None:
    """Return the noise that the windows of a signal support, None for white noise.

    Whether they do is decided by the power that was found in them, before it is ``completed``. With ``surely``, noise
    of a single channel that may be texture is none.
    """
    windows = Windows.of(values)
    if len(windows.modes) < 2 * FEWEST_WINDOWS or _is_clean(windows):
        return None
    factors = factors_of(windows)
    factors = factors if factors.line.rises(windows.means) else replace(factors, line=factors.line.level)
    made = _supported(windows, factors, is_compressed=is_compressed, surely=surely)
    if made is None or float(made.variance(values).mean()) < FAINTEST**2:
        return None
    return None if values.ndim == 3 and _is_smooth(made) else completed(made, windows)


def _supported(windows: Windows, factors: NoiseFactors, *, is_compressed: bool, surely: bool) -> NoiseModel | None:
    """Return the model of what was found in windows if they support it, None for white noise."""
    is_single, is_cube = len(factors.spectra) == 1, len(windows.shape) == 3
    least = MIRRORED if is_cube or surely else MIRRORED_ALONE
    if (is_single or is_cube) and _mirrored(windows, factors.spectra[-1]) < least:
        return None
    if surely and factors.line.gain > 0:  # so has texture, whose contrast grows with the light
        return None
    bands = _bands(windows, factors.spectra[: max(1, len(factors.spectra) - 1)].mean(0, keepdim=True))[0, 1:]
    if float(bands.max() / bands.min()) < FLAT:
        model = _white(factors, float(bands[BANDS // 2 :].mean()))
        return model if model.gain > 0 else None
    if is_single and (_steepest_slope(windows, factors.spectra[0]) > STEEP or _is_gaussian(windows)):
        return None
    return colored_model(windows, factors, is_compressed=is_compressed)


def _steepest_slope(windows: Windows, spectrum: Float[Tensor, " modes"]) -> float:
    """Return the least slope of the logarithm of the power against that of the frequency, by half octaves."""
    log, power = windows.radius.log2(), spectrum / windows.seen.sum(1)
    _, octave = (2 * log).round().unique(return_inverse=True)
    own = torch.nn.functional.one_hot(octave).double()
    x, y = own.mT @ log / own.sum(0), (own.mT @ power / own.sum(0)).log2()
    return float((y.diff() / x.diff()).min())


def _is_gaussian(windows: Windows) -> bool:
    """Return whether the energies of windows differ no more than those of a Gaussian field, at any frequency.

    Nothing then tells noise from the signal, and colored noise would be all of it. A picture has more energy at edges.
    """
    bands = torch.stack([windows.modes[:, -1, band].abs().square().mean(1) for band in windows.bands])
    return bool((bands.mean(1) < GAUSSIAN * bands.median(1).values).all())


def _mirrored(windows: Windows, spectrum: Float[Tensor, " modes"]) -> float:
    """Return the share of a spectrum's power that its mirror images have, above the lowest frequencies."""
    high = windows.radius > SIGNALS_UP_TO
    return float(symmetric(spectrum, windows.shape)[high].sum() / spectrum[high].sum())


def _white(factors: NoiseFactors, level: float) -> NoiseModel:
    """Return noise with the power ``level`` at every frequency, and the variance against brightness that was found."""
    return NoiseModel(gain=level * factors.line.gain, floor=level * factors.line.floor)


def mosaic_noise(mosaic: Float[Tensor, "height width 1"]) -> NoiseModel:
    """Return the white noise of a mosaic whose colors repeat every 2×2 pixels, with a variance affine in the signal.

    The four pixels of a tile are channels. A signal has least power in their differences: the noise is at the
    frequencies and in the differences where the power is least. A ``ValueError`` is raised where there are too few
    windows without texture or clipped values to tell.
    """
    units = float(units_of(mosaic.unsqueeze(0))[0])
    height, width = (n // 2 * 2 for n in mosaic.shape[:2])
    tiles = (mosaic[:height, :width, 0] / units).unflatten(1, (-1, 2)).unflatten(0, (-1, 2))
    windows = Windows.of(tiles.movedim(1, 2).flatten(2))
    if len(windows.modes) < 2 * FEWEST_WINDOWS:
        raise _checks.wrong("noise", "a cn.NoiseModel: too little of the mosaic shows a camera's noise", "camera")
    factors = factors_of(windows)
    factors = factors if factors.line.rises(windows.means) else replace(factors, line=factors.line.level)
    least = float(_bands(windows, factors.spectra[: max(1, len(factors.spectra) - 1)])[:, 1:].min())
    return _white(factors, least).in_units(units)


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
        if _is_uneven(windows, factors):
            return None
        if len(spectra) > 1 and (last := _of_last(windows, spectra, is_compressed=is_compressed)) is None:
            return None
        spectra = torch.cat([spectra[:-1], last]) if len(spectra) > 1 else spectra
    power = deconvolved(spectra, windows.seen)
    spectrum = torch.einsum("ic,cf,jc->ijf", windows.rotation, power, windows.rotation)
    spectrum = spectrum.reshape(*spectrum.shape[:2], *doubled(windows.shape))
    return NoiseModel(spectrum, gain=factors.line.gain, floor=factors.line.floor)


def _is_uneven(windows: Windows, factors: NoiseFactors) -> bool:
    """Return whether the energies of windows in the channel with most of the signal differ more than those of noise.

    They are those in the middle of the frequencies. Where coarse noise of a single channel has hardly any power there,
    they are those where it has most, relative to its power: texture would hide that all windows share it.
    """
    radius, is_single = windows.radius, len(factors.spectra) == 1
    energy = windows.modes[:, -1].abs().square() / factors.line(windows.means.mean(1)).unsqueeze(1)
    middle = radius.argsort()[len(radius) // BANDS : len(radius) // 2]
    power = (factors.spectra[-1] / windows.seen.sum(1)).where(radius > SIGNALS_UP_TO, 0.0)
    if is_single and float(power[middle].mean()) < COARSE * float(power.max()):
        has_most = power > STRONG * power.max()
        means, count = (energy[:, has_most] / power[has_most]).mean(1), max(1.0, float(has_most.sum()) / CORRELATED)
        low, high = (quantile_of_mean(q, count) for q in COARSE_QUANTILES)
        shares, most = COARSE_QUANTILES, COARSE_SPREAD * high / low
    else:
        means, shares, most = energy[:, middle].mean(1), QUANTILES, SPREAD[is_single]
    low, high = means.quantile(torch.tensor(shares).to(means)).tolist()
    return high > most * low


def _of_last(windows: Windows, spectra: Tensor, *, is_compressed: bool) -> Float[Tensor, "1 modes"] | None:
    """Return the spectrum of the channel with most of the signal, None if the noise is hardly in the others.

    It is bounded by theirs and by its own in other directions, since textures may have made it; noise that differs by
    direction does so in all channels. JPEG removes most noise where there is nothing else, so that the flattest windows
    have too little at high frequencies: there it is at least the share ``COMPRESSED`` of the largest.
    """
    bands, flat = _bands(windows, spectra), windows.seen.sum(1).unsqueeze(0)
    if float(bands[-1].mean()) > QUIET * float(bands[:-1].mean()):
        return None
    last = spectra[-1:]
    if len(windows.shape) == 2:
        bound = torch.maximum(symmetric(spectra[-1], windows.shape), spectra[:-1].mean(0))
        last = torch.minimum(last, bound)
    bounded = torch.minimum(last, LOUDEST * float(bands[:-1].max()) * flat)
    return torch.maximum(bounded, COMPRESSED * float(_bands(windows, last).max()) * flat) if is_compressed else bounded


def _is_clean(windows: Windows) -> bool:
    """Return whether a tenth of the windows have no more energy than rounding to 8 bits leaves.

    The lowest frequencies do not count, where slopes have energy.
    """
    fine = windows.radius.argsort()[len(windows.radius) // BANDS :]
    energy = windows.modes[..., fine].abs().square().mean(2).amax(1)
    return float(energy.quantile(0.1)) < ROUNDING**2


def _bands(windows: Windows, spectra: Float[Tensor, "c modes"]) -> Float[Tensor, "c bands"]:
    """Return the mean power of spectra in parts of the modes, the lowest frequencies first."""
    flat = spectra / windows.seen.sum(1)
    return torch.stack([flat[:, band].mean(1) for band in windows.bands], 1)


def _may_share(windows: Windows, factors: NoiseFactors) -> bool:
    """Return whether the channel with most of the signal may have the spectrum that the others have in the mean.

    Its flattest windows then have hardly more energy than that at the higher frequencies, where signals have least, and
    the others have spectra alike among themselves.
    """
    bands = _bands(windows, factors.spectra[:-1])
    if float((bands.amax(0) / bands.amin(0)).max()) > UNLIKE:
        return False
    others = factors.spectra[:-1].mean(0)
    energy = windows.modes[:, -1].abs().square() / factors.line(windows.means.mean(1)).unsqueeze(1)
    for band in windows.bands[BANDS // 2 :]:
        least = float(energy[:, band].mean(1).quantile(QUANTILES[0]))
        if least > LIKE * float(others[band].mean()) + NEGLECTED * float(others.mean()):
            return False
    return True
