"""The noise of a demosaiced picture: that of single pixels, spread over the colors by the filters of demosaicing."""

from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.restore.noise_factors import NoiseFactors
from coordnet.restore.noise_windows import Windows, doubled
from coordnet.sampling.noise_model import NoiseModel

LATTICE = 32  # pixels along each axis of the lattice on which the spectrum is given
TELLING = slice(1, 3)  # parts of the frequencies that tell the level: slopes have energy below, and rounding above
# Share of the power that the flattest windows show in these parts: noise drawn on 128×128 pixels has 0.75 to 1.03.
SHOWN_POWER = 0.9
# Largest ratio of the power in parts of the frequencies to that of demosaiced noise, and its inverse: 128×128 crops of
# sixteen noisy photographs have up to 2.6, white noise 8. The channel with most of the signal has no upper bound.
MISMATCH = 3.0
LOUD = 0.03  # least standard deviation in the signal's units: textures of clean photographs look like up to 0.017

Demosaicing = Callable[[Tensor, Tensor], Tensor]  # a mosaic, and which colors of it are known


def demosaiced_noise(windows: Windows, factors: NoiseFactors, method: Demosaicing) -> NoiseModel | None:
    """Return the noise that a method of demosaicing makes of white noise, None where another or too little was found.

    Colors have most of its power at low frequencies, where textures hide it from an estimate of the spectrum alone. The
    channels without most of the signal, which are differences of colors, tell the level.
    """
    if len(windows.shape) != 2 or windows.rotation.shape != (3, 3):
        return None
    model = NoiseModel(demosaiced_spectrum(method), floor=1.0)
    power = torch.einsum("ic,ijxy,jc->cxy", windows.rotation, model.on_grid(doubled(windows.shape)), windows.rotation)
    expected = power.flatten(1) @ windows.seen.mT
    ratios = torch.stack([(factors.spectra[:, part].mean(1) / expected[:, part].mean(1)) for part in windows.bands], 1)
    level = float(ratios[:-1, TELLING].log().mean().exp())
    ratios = ratios / level
    if float(ratios[:-1].max()) > MISMATCH or float(ratios.min()) < 1 / MISMATCH:
        return None
    scale = level / SHOWN_POWER
    made = NoiseModel(model.spectrum, gain=scale * factors.line.gain, floor=scale * factors.line.floor)
    return made if float(made.variance(windows.means).mean()) > LOUD**2 else None


@cache
def demosaiced_spectrum(method: Demosaicing) -> Float[Tensor, "3 3 32 32"]:
    """Return the power spectrum of demosaiced white noise of a Bayer mosaic, by a linear method.

    It is the mean over the four pixels of a tile of the products of their responses' transforms.
    """
    known = torch.zeros(LATTICE, LATTICE, 3, dtype=torch.bool)
    known[::2, ::2, 0] = known[::2, 1::2, 1] = known[1::2, ::2, 1] = known[1::2, 1::2, 2] = True
    spectrum = torch.zeros(3, 3, LATTICE, LATTICE, dtype=torch.float64)
    for pixel in range(4):
        impulse = torch.zeros(LATTICE, LATTICE, 3, dtype=torch.float64)
        impulse[LATTICE // 2 + pixel // 2, LATTICE // 2 + pixel % 2] = 1.0
        response = torch.fft.fft2(method(impulse * known, known).movedim(-1, 0))
        spectrum += torch.einsum("ixy,jxy->ijxy", response, response.conj()).real / 4
    return spectrum
