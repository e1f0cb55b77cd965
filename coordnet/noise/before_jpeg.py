"""The noise that a picture had before JPEG rounded it: the noise whose own rounding leaves what flat windows show."""

import math

import numpy as np
import torch
from jaxtyping import Float
from scipy.fft import idctn
from torch import Tensor

from coordnet.noise.windows import Windows
from coordnet.sampling.jpeg import PEAK, SIDE, TO_BRIGHTNESS, brightness
from coordnet.sampling.noise_model import NoiseModel

DRAWN = 24  # blocks along each axis of the noise that is drawn and rounded
LEAST_WINDOWS = 48  # windows of a picture in which noise is looked for
FLATTEST = 0.05  # quantile of the windows' energies that is compared
PLAINEST = (0.02, 0.1)  # quantiles whose ratio in photographs without noise is larger than in drawn noise
TEXTURED = 2.5  # ratio of these ratios above which the photograph's own texture is seen: bricks with noise have 1.9
# Ratio of the parts of the frequencies, each relative to drawn noise, above which the noise was not white before: the
# demosaiced noise of eight photographs has 8 to 13, white noise 1.2 to 3.4.
UNEVEN = 4.0
DEVIATIONS = (1 / PEAK, 0.2)  # range of the standard deviation of brightness, from a step of 8 bits on
HALVINGS = 10  # number of times that this range is halved, in its logarithm
# Least deviation of the colors' lowest frequencies in flat windows, relative to the noise's. On eight photographs of
# quality 75 and 95, noise of 0.05 leaves 0.14 to 0.7; pebbles without noise, 0.05 to 0.1.
IN_COLORS = 0.12
FAINT = 0.012  # standard deviation of brightness below which noise of bright pictures is not told from texture
# Standard deviation relative to the brightest window above which noise is larger than most textures. In photographs of
# a fifth or a tenth of the range it has 0.04 to 0.11. So have foliage and grass without noise: they change by -0.5 to
# +2 dB where they are taken for noise, since the rounding is removed with them.
LOUD = 0.04
# Least share of the coefficients of noise, and of loud noise, that are not rounded to 0: else JPEG removed the noise.
KEPT, KEPT_LOUD = 0.2, 0.02


def noise_before_jpeg(
    picture: Float[Tensor, "height width channels"], steps: Float[np.ndarray, "8 8"], *, has_bars: bool = False
) -> NoiseModel | None:
    """Return the noise of a JPEG picture that had white noise before it was rounded to some steps, None for others.

    White noise is drawn and rounded to the steps, and its standard deviation s is chosen so that the energies in its
    windows are those of the picture's flattest ones. Where there is a signal, rounding to a step q adds an error of
    variance q²/12, or about s² where q is so large that the noise is removed. Faint noise counts if the picture is dark
    itself, but not beside bars or a ground, where JPEG's ringing around letters looks like it. The result is white
    noise of the sum of both variances; it is given as a spectrum, because its level cannot be read from the picture's
    highest frequencies.
    """
    windows = Windows.of(brightness(picture).unsqueeze(2))
    if len(windows.modes) < LEAST_WINDOWS:
        return None
    flat, drawn = _flat_power(windows), np.random.default_rng(0).standard_normal((DRAWN, DRAWN, SIDE, SIDE))

    def rounded(deviation: float) -> Windows:
        blocks = np.asarray(idctn(np.rint(PEAK * deviation * drawn / steps) * steps, axes=(2, 3), norm="ortho"))
        made = np.rint(blocks.swapaxes(1, 2).reshape(DRAWN * SIDE, DRAWN * SIDE, 1)) / PEAK
        return Windows.of(torch.from_numpy(made))

    shares = np.abs(drawn) / steps
    least = max(DEVIATIONS[0], 0.5 / PEAK / np.quantile(shares, 1 - KEPT_LOUD))
    low, high = least, DEVIATIONS[1]
    for _ in range(HALVINGS):
        deviation = math.sqrt(low * high)
        ratios = flat / _flat_power(rounded(deviation))
        low, high = (deviation, high) if float(ratios.sort().values[1]) > 1 else (low, deviation)
    is_white = float(ratios.max() / ratios.min()) < UNEVEN
    is_textured = _spread(windows) > TEXTURED * _spread(rounded(deviation))
    is_faint = deviation < FAINT or float((PEAK * deviation * shares > 0.5).mean()) < KEPT
    is_loud = not has_bars and deviation >= LOUD * float(windows.means.max())
    is_lost = low == least or (is_faint and not is_loud)
    if is_lost or is_textured or not is_white:
        return None
    variance = deviation**2 + float(np.minimum(steps**2 / 12 / PEAK**2, deviation**2).mean())
    channels = picture.shape[2]
    share = float(np.square(TO_BRIGHTNESS[0]).sum()) if channels == 3 else 1 / channels
    # Fainter noise is removed from the colors, whose steps are larger.
    keeps_colors = PEAK * deviation > steps[:2, :2].max()
    if keeps_colors and _in_colors(picture) < IN_COLORS**2 * deviation**2 / share:
        return None
    return NoiseModel(torch.eye(channels)[:, :, None, None], floor=variance / share)


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


def _in_colors(picture: Float[Tensor, "height width channels"]) -> float:
    """Return the least power of the colors at the lowest frequencies in flat windows, infinity for gray ones.

    JPEG keeps these frequencies of the colors best. White noise is in all of them, unlike most textures.
    """
    windows = Windows.of(picture)
    energy = windows.modes[:, :-1, windows.bands[0]].abs().square().mean(2)
    return float(energy.quantile(PLAINEST[1], dim=0).min()) if energy.numel() else math.inf


def _spread(windows: Windows) -> float:
    """Return the ratio of two low quantiles of the windows' energies at low frequencies, but the lowest."""
    energy = windows.modes[:, 0, torch.cat(windows.bands[1:3])].abs().square().mean(1)
    low, high = energy.quantile(torch.tensor(PLAINEST).to(energy)).tolist()
    return high / max(low, 1e-12)
