"""Demosaicing by linear filters, and the noise of a demosaiced picture: that of pixels, spread over the colors."""

from functools import cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import conv2d, pad

from coordnet.noise.factors import NoiseFactors
from coordnet.noise.windows import Windows, doubled
from coordnet.sampling.noise_model import NoiseModel

# The filters of figure 2 in Malvar, He and Cutler, "High-Quality Linear Interpolation for Demosaicing of
# Bayer-Patterned Color Images" (2004), in eighths: green at a red or a blue pixel; the color of its row at a
# green pixel, transposed that of its column; blue at a red pixel, and red at a blue one.
_GREEN = [[0, 0, -1, 0, 0], [0, 0, 2, 0, 0], [-1, 2, 4, 2, -1], [0, 0, 2, 0, 0], [0, 0, -1, 0, 0]]
_OF_ROW = [[0, 0, 0.5, 0, 0], [0, -1, 0, -1, 0], [-1, 4, 5, 4, -1], [0, -1, 0, -1, 0], [0, 0, 0.5, 0, 0]]
_OPPOSITE = [[0, 0, -1.5, 0, 0], [0, 2, 0, 2, 0], [-1.5, 0, 6, 0, -1.5], [0, 2, 0, 2, 0], [0, 0, -1.5, 0, 0]]
GREEN, OF_ROW, OPPOSITE = (torch.tensor(kernel) / 8 for kernel in (_GREEN, _OF_ROW, _OPPOSITE))
BILINEAR = torch.tensor([[1, 2, 1], [2, 4, 2], [1, 2, 1]]) / 4
LATTICE = 32  # pixels along each axis of the lattice on which the spectrum is given
TELLING = slice(1, 3)  # parts of the frequencies that tell the level: slopes have energy below, and rounding above
# Share of the power that the flattest windows show in these parts: noise drawn on 128×128 pixels has 0.75 to 1.03.
SHOWN_POWER = 0.9
# Largest ratio of the power in parts of the frequencies to that of demosaiced noise, and its inverse: 128×128 crops of
# sixteen noisy photographs have up to 2.6, white noise 8. The channel with most of the signal has no upper bound.
MISMATCH = 3.0
LOUD = 0.03  # least standard deviation in the signal's units: textures of clean photographs look like up to 0.017

Picture = Float[Tensor, "height width 3"]


def bilinear(mosaic: Picture, known: Bool[Tensor, "height width 3"]) -> Picture:
    """Fill each color by the mean of its two or four nearest known values, at the border of those that exist."""
    weights = known.to(mosaic)
    sums, counts = convolved(mosaic * weights, BILINEAR), convolved(weights, BILINEAR)
    return torch.where(known, mosaic, sums / counts.clamp(min=torch.finfo(mosaic.dtype).tiny))


def malvar(mosaic: Picture, known: Bool[Tensor, "height width 3"]) -> Picture:
    """Correct bilinear values by the Laplacian of the pixel's known color; the mosaic is reflected at its border."""
    raw = (mosaic * known).sum(-1, keepdim=True)
    red, green, _ = known.unbind(-1)
    row_of_red = red.any(1, keepdim=True)
    green_of, row_of, column_of, opposite = (
        convolved(raw, kernel)[..., 0] for kernel in (GREEN, OF_ROW, OF_ROW.T, OPPOSITE)
    )
    red_of = torch.where(green, torch.where(row_of_red, row_of, column_of), opposite)
    blue_of = torch.where(green, torch.where(row_of_red, column_of, row_of), opposite)
    return torch.where(known, raw, torch.stack([red_of, green_of, blue_of], -1))


def convolved(image: Float[Tensor, "height width c"], kernel: Float[Tensor, "k k"]) -> Float[Tensor, "height width c"]:
    """Correlate every channel with one kernel; the image is reflected about its outermost pixels."""
    margin = kernel.shape[0] // 2
    planes = pad(image.movedim(-1, 0).unsqueeze(1), (margin,) * 4, mode="reflect")
    return conv2d(planes, kernel.to(image)[None, None])[:, 0].movedim(0, -1)


def demosaiced_noise(windows: Windows, factors: NoiseFactors) -> NoiseModel | None:
    """Return the noise that demosaicing by ``malvar`` makes of white noise, None where another or too little was found.

    Colors have most of its power at low frequencies, where textures hide it from an estimate of the spectrum alone. The
    channels without most of the signal, which are differences of colors, tell the level.
    """
    if len(windows.shape) != 2 or windows.rotation.shape != (3, 3):
        return None
    model = NoiseModel(demosaiced_spectrum(), floor=1.0)
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
def demosaiced_spectrum() -> Float[Tensor, "3 3 32 32"]:
    """Return the power spectrum of white noise of a Bayer mosaic after demosaicing by ``malvar``.

    It is the mean over the four pixels of a tile of the products of their responses' transforms.
    """
    known = torch.zeros(LATTICE, LATTICE, 3, dtype=torch.bool)
    known[::2, ::2, 0] = known[::2, 1::2, 1] = known[1::2, ::2, 1] = known[1::2, 1::2, 2] = True
    spectrum = torch.zeros(3, 3, LATTICE, LATTICE, dtype=torch.float64)
    for pixel in range(4):
        impulse = torch.zeros(LATTICE, LATTICE, 3, dtype=torch.float64)
        impulse[LATTICE // 2 + pixel // 2, LATTICE // 2 + pixel % 2] = 1.0
        response = torch.fft.fft2(malvar(impulse * known, known).movedim(-1, 0))
        spectrum += torch.einsum("ixy,jxy->ijxy", response, response.conj()).real / 4
    return spectrum
