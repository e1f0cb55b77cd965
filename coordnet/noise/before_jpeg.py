"""The noise that a picture had before JPEG rounded it: the noise whose own rounding leaves what flat windows show."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import torch
from jaxtyping import Float
from scipy.fft import dctn, idctn
from scipy.ndimage import gaussian_filter
from torch import Tensor

from coordnet.noise.grain import filtered_power
from coordnet.noise.linear_demosaicing import demosaiced_spectrum, malvar
from coordnet.noise.shared import channel_covariance
from coordnet.noise.windows import SIDES, Windows
from coordnet.sampling.jpeg import PEAK, SIDE, TO_BRIGHTNESS, brightness
from coordnet.sampling.noise_model import NoiseModel
from coordnet.sampling.patterns import Bayer

DRAWN = 24  # blocks along each axis of the noise that is drawn and rounded
LEAST_WINDOWS = 48  # windows of a picture in which noise is looked for
FLATTEST = 0.05  # quantile of the windows' energies that is compared
PLAINEST = (0.02, 0.1)  # quantiles whose ratio in photographs without noise is larger than in drawn noise
TEXTURED = 2.5  # ratio of these ratios above which the photograph's own texture is seen: bricks with noise have 1.9
# Ratio of the parts of the frequencies, each relative to drawn noise, above which the noise was not white before: the
# demosaiced noise of eight photographs has 8 to 13, white noise 1.2 to 3.4, noise filtered by 1 pixel 5 and more.
UNEVEN = 4.0
WIDTHS = (0.7, 0.85, 1.0, 1.2, 1.4)  # deviations in pixels of the filter of grain
UNEVEN_FILTERED = 1.6  # largest such ratio of filtered noise, which textures look like
BRIGHTNESS_WEIGHTS = torch.tensor(TO_BRIGHTNESS[0], dtype=torch.float64)  # red, green and blue
DEVIATIONS = (1 / PEAK, 0.2)  # range of the standard deviation of brightness, from a step of 8 bits on
HALVINGS = 10  # number of times that this range is halved, in its logarithm
FAINT = 0.012  # standard deviation of brightness below which noise of bright pictures is not told from texture
# Standard deviation relative to the brightest window above which noise is larger than most textures. In photographs of
# a fifth or a tenth of the range it has 0.04 to 0.11. So have foliage and grass without noise: they change by -0.5 to
# +2 dB where they are taken for noise, since the rounding is removed with them.
LOUD = 0.04
# Least ratio of the ``_spread`` of windows to that of windows relative to photons, from which on the variance is
# proportional to the brightness. Demosaiced photons in eight crops have 0.98 to 1.1 or 1.2 to 10.6. White noise that is
# clipped in the dark has up to 1.7, and is not asked.
RISING = 1.15
LEAST_BRIGHTNESS = 1e-3  # brightness of a window, relative to the mean, of which the variance is at least a multiple
LEAST_KEPT = 0.02  # least share of the coefficients of noise that are not rounded to 0: else JPEG removed the noise


@dataclass(frozen=True)
class Filter:
    """A filter that turned white noise into the brightness's noise, before JPEG."""

    apply: Callable[[Float[np.ndarray, "height width"]], Float[np.ndarray, "height width"]]
    power: Float[Tensor, "height width"]  # spectrum that is left of white noise, of mean 1
    may_rise: bool = False  # whether the variance may be proportional to the brightness, as that of photons is


NO_FILTER = Filter(lambda white: white, torch.ones(2 * SIDES[2], 2 * SIDES[2], dtype=torch.float64))


@cache
def _filters() -> list[Filter]:
    """Return the filters of grain, and that of noise on a Bayer mosaic that was demosaiced by ``malvar``."""
    known = Bayer("RGGB").geometry((DRAWN * SIDE, DRAWN * SIDE, 3), None).weights > 0

    def demosaiced(white: Float[np.ndarray, "height width"]) -> Float[np.ndarray, "height width"]:
        return (malvar(torch.from_numpy(white)[..., None] * known, known) @ BRIGHTNESS_WEIGHTS).numpy()

    power = torch.einsum("i,ijxy,j->xy", BRIGHTNESS_WEIGHTS, demosaiced_spectrum(), BRIGHTNESS_WEIGHTS)
    grain = [Filter(partial(gaussian_filter, sigma=width, mode="wrap"), filtered_power(width)) for width in WIDTHS]
    return [*grain, Filter(demosaiced, power / power.mean(), may_rise=True)]


@dataclass(frozen=True)
class Fit:
    """Noise after a filter, whose own rounding leaves about the energies of a picture's flattest windows."""

    filter: Filter
    is_rising: bool  # whether the variance is proportional to the brightness
    deviation: float  # standard deviation of the brightness before the rounding
    misfit: float  # ratio of the largest to the least energy in parts of the frequencies, relative to the drawn noise
    spread: float  # ``_spread`` of the picture's windows relative to that of the drawn noise
    is_lost: bool  # whether nearly all coefficients are rounded to 0, or the deviation is less than a step of 8 bits

    @classmethod
    def of(cls, windows: Windows, filter: Filter, steps: Float[np.ndarray, "8 8"]) -> "Fit":
        """Return the noise after a filter, before rounding to steps, that leaves the ``_flat_power`` of windows."""
        photons = _relative_to_photons(windows)
        is_rising = filter.may_rise and _spread(windows) > RISING * _spread(photons)
        windows = photons if is_rising else windows
        flat = _flat_power(windows)
        white = in_plane(np.random.default_rng(0).standard_normal((DRAWN, DRAWN, SIDE, SIDE)))
        drawn = filter.apply(white)
        blocks = (drawn * white.std() / drawn.std()).reshape(DRAWN, SIDE, DRAWN, SIDE).swapaxes(1, 2)
        coefficients = np.asarray(dctn(blocks, axes=(2, 3), norm="ortho"))

        def rounded(deviation: float) -> Windows:
            plane = in_plane(np.rint(PEAK * deviation * coefficients / steps) * steps)
            return Windows.of(torch.from_numpy(np.rint(plane)[..., None] / PEAK))

        shares = np.abs(coefficients) / steps
        least = max(DEVIATIONS[0], 0.5 / PEAK / np.quantile(shares, 1 - LEAST_KEPT))
        low, high = least, DEVIATIONS[1]
        for _ in range(HALVINGS):
            deviation = math.sqrt(low * high)
            ratios = flat / _flat_power(rounded(deviation))
            low, high = (deviation, high) if float(ratios.sort().values[1]) > 1 else (low, deviation)
        misfit = float(ratios.max() / ratios.min())
        spread = _spread(windows) / _spread(rounded(deviation))
        return cls(filter, is_rising, deviation, misfit, spread, bool(low == least))

    def power(self, steps: Float[np.ndarray, "8 8"]) -> Float[Tensor, "height width"]:
        """Return the power of the brightness's noise and of its rounding at the ``doubled`` frequencies of a window."""
        f = torch.fft.fftfreq(2 * SIDES[2], dtype=torch.float64)
        before = self.deviation**2 * self.filter.power
        at = (2 * SIDE * f.abs()).long().clamp(max=SIDE - 1)
        rounding = torch.from_numpy(steps / PEAK)[at][:, at].square() / 12
        return before + torch.minimum(rounding, before)


def in_plane(coefficients: Float[np.ndarray, "rows columns 8 8"]) -> Float[np.ndarray, "height width"]:
    """Return the picture of blocks with some coefficients of the cosine transform."""
    rows, columns = coefficients.shape[:2]
    blocks = np.asarray(idctn(coefficients, axes=(2, 3), norm="ortho"))
    return blocks.swapaxes(1, 2).reshape(rows * SIDE, columns * SIDE)


def noise_before_jpeg(
    picture: Float[Tensor, "height width channels"], steps: Float[np.ndarray, "8 8"]
) -> NoiseModel | None:
    """Return the noise that a JPEG picture had before it was rounded to some steps, None for others.

    Noise that is white or was filtered, as grain and demosaiced noise are, is drawn and rounded to the steps, and its
    standard deviation s is chosen so that the energies in its windows are those of the picture's flattest ones. It is
    white unless they differ too much; then the filter is the one with which they are most alike. Smooth surfaces and
    edges without noise leave energies in between. Where there is a signal, rounding to a step q adds an error of
    variance q²/12, or about s² where q is so large that the noise is removed. Faint noise counts if the picture is dark
    itself. White noise has the sum of both variances; it is given as a spectrum, because its level cannot be read from
    the picture's highest frequencies. So has faint noise, of which too little is left to show a filter. Filtered noise
    has the covariance of the channels that the flattest windows have. That of a mosaic has a variance in proportion to
    the brightness, as photons have, where the windows then differ less.
    """
    windows = Windows.of(brightness(picture).unsqueeze(2))
    if len(windows.modes) < LEAST_WINDOWS:
        return None
    fit = Fit.of(windows, NO_FILTER, steps)
    if fit.misfit > UNEVEN:
        fit = min((Fit.of(windows, filter, steps) for filter in _filters()), key=lambda fit: fit.misfit)
        if fit.misfit > UNEVEN_FILTERED:
            return None
    is_faint = fit.deviation < min(FAINT, LOUD * float(windows.means.max()))
    if fit.is_lost or is_faint or fit.spread > TEXTURED:
        return None
    model = _white(picture, fit, steps) if fit.filter is NO_FILTER else _filtered(picture, fit, steps)
    if model is None or not fit.is_rising:
        return model
    return replace(model, gain=model.floor / float(windows.means.mean()), floor=0.0)


def _weights(channels: int) -> Float[Tensor, " channels"]:
    """Return the weights of channels in the brightness."""
    return BRIGHTNESS_WEIGHTS if channels == 3 else torch.full((channels,), 1 / channels, dtype=torch.float64)


def _white(picture: Tensor, fit: Fit, steps: np.ndarray) -> NoiseModel:
    """Return the white noise of a picture, with the variance of its rounding."""
    weights = _weights(picture.shape[2])
    variance = fit.deviation**2 + float(np.minimum(steps**2 / 12 / PEAK**2, fit.deviation**2).mean())
    return NoiseModel(torch.eye(len(weights))[:, :, None, None], floor=variance / float(weights @ weights))


def _filtered(picture: Tensor, fit: Fit, steps: np.ndarray) -> NoiseModel | None:
    """Return the filtered noise of a picture, None where channels were clipped."""
    power, weights = fit.power(steps), _weights(picture.shape[2])
    covariance = channel_covariance(picture, power)
    share = weights @ covariance @ weights
    return NoiseModel((covariance / share)[:, :, None, None] * power, floor=1.0) if share > 0 else None


def _flat_power(windows: Windows) -> Float[Tensor, " bands"]:
    """Return the mean energy in parts of the modes of the flattest windows, but at the lowest frequencies.

    Textures have most of their energy in some directions. The modes of a part are those of four directions, of which
    the one with the least energy counts.
    """
    energy, lines = windows.modes[:, 0].abs().square(), [torch.fft.fftfreq(n) for n in windows.shape]
    rows, columns = (f.flatten()[1:] for f in torch.meshgrid(*lines, indexing="ij"))
    direction = 2 * (rows * columns > 0).long() + (rows.abs() > columns.abs()).long()
    parts = [[band[direction[band] == k] for k in range(4)] for band in windows.bands[1:]]
    powers = [[energy[:, part].mean(1).quantile(FLATTEST) for part in each] for each in parts]
    return torch.tensor(powers).amin(1).clamp(min=1e-12)


def _relative_to_photons(windows: Windows) -> Windows:
    """Return windows whose energies are relative to their brightness, which the variance of photons rises with."""
    relative = (windows.means / windows.means.mean()).clamp(min=LEAST_BRIGHTNESS)
    return replace(windows, modes=windows.modes / relative.sqrt().unsqueeze(2))


def _spread(windows: Windows) -> float:
    """Return the ratio of two low quantiles of the windows' energies at low frequencies, but the lowest."""
    energy = windows.modes[:, 0, torch.cat(windows.bands[1:3])].abs().square().mean(1)
    low, high = energy.quantile(torch.tensor(PLAINEST).to(energy)).tolist()
    return high / max(low, 1e-12)
