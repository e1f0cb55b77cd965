"""Evidence of noise in the windows of a signal: their energies differ little, and in no direction of its own."""

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.linalg.machine import lower_median
from coordnet.noise.factors import NoiseFactors
from coordnet.noise.windows import BANDS, FAINTEST, SIGNALS_UP_TO, STRONG, Windows, quantile_of_mean, symmetric

FLAT = 1.5  # ratio of the largest power of a part to the least, below which noise counts as white
QUANTILES = (0.02, 0.1)  # shares of the windows whose energies are compared: noise alone differs little
SPREAD = {False: 1.8, True: 1.6}  # largest ratio of these energies, with several channels and with a single one
# Shares of the windows whose energies are compared in a difference of colors, and the largest ratio of these, relative
# to that in noise alone. Without this, noise that a Gaussian of 2 pixels filtered stays on one photograph of sixteen.
COLOR_QUANTILES, COLOR_SPREAD = (0.1, 0.3), 1.35
CORRELATED = 5.0  # modes that are worth one without taper
# Least share of the power of noise that its mirror images have. Noise in clips after H.264 of quality 18 and 24 has
# 0.72 to 0.96, textures that move up to 0.70. It is less where few windows are flat: there clips keep such noise. In
# gray pictures textures that look like filtered noise have 0.1 to 0.45, such noise mostly more than 0.8, but 0.5 to 0.7
# in one crop of nine.
MIRRORED, MIRRORED_ALONE = 0.75, 0.5
# Ratio of the mean of the windows' energies to their median, in each part of the frequencies, up to which a channel is
# a Gaussian field as a whole. Of 90 random fields, a third of them without noise, colored noise was found in 37, down
# to 17 dB of the field; all of these have less. Of 90 gray crops in which filtered noise was found 19 have less, too:
# ten of textures, where its removal gains up to 4 dB or loses up to 9, and nine nearly flat ones, which keep it.
GAUSSIAN = 1.4
# Largest ``misfit`` of windows of a clip or a volume that noise alone has. Of 45 parts of brains, fields and clips
# without noise, 41 have 0.64 to 4.3; with noise, white or filtered, such parts have 0.52 to 0.71, and more than 0.64 in
# one of ten.
NOISE_MISFIT = 0.64


def is_uneven(windows: Windows, factors: NoiseFactors) -> bool:
    """Return whether the energies of windows in the channel with most of the signal differ more than those of noise.

    The energies are those in the middle of the frequencies.
    """
    radius = windows.radius
    middle = radius.argsort()[len(radius) // BANDS : len(radius) // 2]
    energy = windows.modes[:, -1].abs().square() / factors.line(windows.means.mean(1)).unsqueeze(1)
    low, high = energy[:, middle].mean(1).quantile(torch.tensor(QUANTILES).to(energy)).tolist()
    return high > SPREAD[len(factors.spectra) == 1] * low


def differences_show(windows: Windows, factors: NoiseFactors) -> bool:
    """Return whether the channel with least of the signal, a difference of colors, shows noise for sure.

    It is not white nor faint, and its windows have energies that differ as those of noise do, in all directions. Its
    variance does not depend on the brightness: that of texture, whose contrast grows with the light, does.
    """
    if len(factors.spectra) == 1 or len(windows.shape) != 2 or factors.line.gain > 0:
        return False
    spectrum = factors.spectra[0]
    bands = band_powers(windows, factors.spectra[:1])[0]
    return (
        float(bands.mean()) * float(factors.line(windows.means).mean()) > FAINTEST**2
        and float(bands[1:].max() / bands[1:].min()) > FLAT
        and mirrored_share(windows, spectrum) > MIRRORED
        and _spread(windows, factors) < COLOR_SPREAD
    )


def steepest_slope(windows: Windows, spectrum: Float[Tensor, " modes"]) -> float:
    """Return the least slope of the logarithm of the power against that of the frequency, by half octaves."""
    log, power = windows.radius.log2(), spectrum / windows.seen.sum(1)
    _, octave = (2 * log).round().unique(return_inverse=True)
    own = torch.nn.functional.one_hot(octave).double()
    x, y = own.mT @ log / own.sum(0), (own.mT @ power / own.sum(0)).log2()
    return float((y.diff() / x.diff()).min())


def is_gaussian(windows: Windows) -> bool:
    """Return whether the energies of windows differ no more than those of a Gaussian field, at any frequency.

    Nothing then tells noise from the signal, and colored noise would be all of it. A picture has more energy at edges.
    """
    bands = torch.stack([windows.modes[:, -1, band].abs().square().mean(1) for band in windows.bands])
    return bool((bands.mean(1) < GAUSSIAN * bands.median(1).values).all())


def mirrored_share(windows: Windows, spectrum: Float[Tensor, " modes"]) -> float:
    """Return the share of a spectrum's power that its mirror images have, above the lowest frequencies."""
    high = windows.radius > SIGNALS_UP_TO
    return float(symmetric(spectrum, windows.shape)[high].sum() / spectrum[high].sum())


def _spread(windows: Windows, factors: NoiseFactors) -> float:
    """Return how much the energies of windows in the first channel differ, relative to those of noise."""
    spectrum, power = factors.spectra[0], shown_power(windows, factors.spectra[0])
    strong = power > STRONG * power.max()
    energy = windows.modes[:, 0, strong].abs().square() / factors.line(windows.means.mean(1)).unsqueeze(1)
    means, count = (energy / spectrum[strong]).mean(1), max(1.0, float(strong.sum()) / CORRELATED)
    low, high = means.quantile(torch.tensor(COLOR_QUANTILES).to(means)).tolist()
    least, most = (quantile_of_mean(share, count) for share in COLOR_QUANTILES)
    return high * least / (low * most)


def shown_power(windows: Windows, spectrum: Float[Tensor, " modes"]) -> Float[Tensor, " modes"]:
    """Return the power at the frequency of each mode, 0 at the lowest ones, where signals have most."""
    return (spectrum / windows.seen.sum(1)).where(windows.radius > SIGNALS_UP_TO, 0.0)


def band_powers(windows: Windows, spectra: Float[Tensor, "c modes"]) -> Float[Tensor, "c bands"]:
    """Return the mean power of spectra in parts of the modes, the lowest frequencies first."""
    flat = spectra / windows.seen.sum(1)
    return torch.stack([flat[:, band].mean(1) for band in windows.bands], 1)


def noise_bands(windows: Windows, spectrum: Float[Tensor, " modes"]) -> Float[Tensor, " bands"]:
    """Return the power of a spectrum in those parts of the modes in which windows tell noise from a signal.

    In a picture these are all but the lowest frequencies. The short windows of clips and volumes tell it in the upper
    half of the modes alone, and there by the median, since what moves has its power on a plane of frequencies.
    """
    if len(windows.shape) == 2:
        return band_powers(windows, spectrum.unsqueeze(0))[0, 1:]
    flat = spectrum / windows.seen.sum(1)
    return torch.stack([lower_median(flat[band]) for band in windows.bands[BANDS // 2 :]])
