"""Demosaicing: the two colors that each pixel of a mosaic lacks, by a prior that learns from the colors it has."""

import math
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.noise.mosaics import mosaic_noise
from coordnet.noise.white import ClippedNoise, refuse_more_than
from coordnet.priors.base import REQUIRED, Prior, as_prior
from coordnet.priors.local import Local
from coordnet.priors.local.denoising import smoothed
from coordnet.restore.inpaint import inpaint
from coordnet.restore.restored import InpaintReport, Restored
from coordnet.sampling.arrays import Array, as_signal
from coordnet.sampling.noise_model import NoiseModel
from coordnet.sampling.patterns import Bayer, WeightedBayer

MOSAIC_NOISES = ("auto", "none", "camera")


def demosaic(
    raw: Array,
    pattern: str = "RGGB",
    sigma: float | None = None,
    *,
    noise: NoiseModel | str = "auto",
    prior: Prior | Literal["auto"] = "auto",
    seed: int | None = None,
    progress: bool = False,
) -> Restored[InpaintReport]:
    """Inpaint the colors that a Bayer mosaic lacks, and remove its noise where it surely has some.

    Without noise the color that a pixel measured stays as it is, to the bit. With noise none stays: the local prior
    removes it from all colors jointly, and a ``Denoiser`` has the weight that suits noise which is added. Where the
    noise depends on the signal, each patch has the mean variance of its samples, and what clipping did to the noise is
    undone (see ``ClippedNoise``).

    Parameters
    ----------
    raw : NumPy array or tensor, (height, width) or (height, width, 1)
        The mosaic, at least 2 by 2 pixels. Integers of 8 and 16 bits are scaled to [0, 1].
    pattern : str
        The colors of its upper left 2 by 2 pixels, row by row: RGGB, BGGR, GRBG or GBRG, in any case.
    sigma : float, optional
        Standard deviation of white noise on the mosaic, of integers after they are scaled; 0 for none.
    noise : "auto", "none", "camera" or NoiseModel
        The noise of the mosaic without ``sigma``: with "camera" it is estimated with a variance affine in the signal
        (see ``mosaic_noise``), with "auto" too, but taken only where it is no grain or texture and the prior takes
        noise. A model that is given has no spectrum.
    prior, seed
        Those of ``inpaint``. Noise needs a prior that takes it, as the local one does, which "auto" then is.

    Returns
    -------
    Restored
        That of ``inpaint``; the report has the ``pattern`` and, for noise, its ``sigma`` in the mean over the mosaic.
        ``noise`` is the model of noise that was estimated, or that depends on the signal.

    Raises
    ------
    ValueError
        If the mosaic has more than one channel or less than two rows or columns, there is no such pattern, sigma is
        negative or above the mosaic's own standard deviation or beside other noise, too little of the mosaic shows a
        camera's noise, the noise has a spectrum or is of the negative, or the prior takes no noise.
    """
    bayer = Bayer(str(pattern).upper())
    mosaic, kind = as_signal(raw, "raw", dimensions=2)
    mosaic, (height, width, channels) = mosaic.detach(), mosaic.shape
    if channels != 1:
        raise _checks.wrong("raw", "a gray picture of one channel", f"{channels} channels")
    if min(height, width) < 2:
        raise _checks.wrong("raw", "at least 2 by 2 pixels, all colors", f"{height} by {width}")
    model = _model(mosaic, bayer, sigma, noise, prior)
    clipped, level = ClippedNoise.on(mosaic, math.sqrt(model.floor), slope=model.gain), math.sqrt(model.floor)
    if model.gain > 0:
        variance = clipped.variance(_tile_means(mosaic)).clamp(min=torch.finfo(mosaic.dtype).eps)
        level = math.sqrt(float(variance.double().mean()))
        bayer = WeightedBayer(bayer.pattern, level * level / variance)
    if level:
        prior = Local(noise=level) if prior == "auto" else as_prior(prior, REQUIRED).with_noise(level)
    made = inpaint(mosaic.expand(height, width, 3), bayer, prior=prior, dimensions=2, seed=seed, progress=progress)
    colors = clipped.unclipped(made.signal) if model.gain > 0 else made.signal
    report = replace(made.report, pattern=bayer.pattern, sigma=level or None)
    estimated = model if model.gain > 0 or (level and sigma is None) else None
    return replace(made, signal=kind.restore(colors), report=report, noise=estimated)


def _model(
    mosaic: Float[Tensor, "height width 1"],
    bayer: Bayer,
    sigma: float | None,
    noise: NoiseModel | str,
    prior: Prior | Literal["auto"],
) -> NoiseModel:
    """Return the noise of a mosaic that the prior is to remove."""
    if sigma:
        refuse_more_than(mosaic, _checks.nonnegative("sigma", sigma))
    if sigma and noise not in ("auto", "none"):
        raise _checks.wrong("sigma", "none beside noise that is named", repr(sigma))
    if isinstance(noise, NoiseModel):
        if noise.spectrum is not None or noise.negative:
            raise _checks.wrong("noise", "a model without a spectrum, and not of the negative: a mosaic's", str(noise))
        return noise
    kind = _checks.choice("noise", noise, MOSAIC_NOISES)
    if kind == "camera":
        return mosaic_noise(mosaic, bayer)
    if kind == "auto" and sigma is None and (prior == "auto" or as_prior(prior, REQUIRED).takes_noise):
        return mosaic_noise(mosaic, bayer, surely=True)
    return NoiseModel(floor=sigma**2 if sigma else 0.0)


def _tile_means(mosaic: Float[Tensor, "height width 1"]) -> Float[Tensor, "height width 1"]:
    """Return means over the neighbors of each pixel that have its color."""
    means = torch.empty_like(mosaic)
    for i in (0, 1):
        for j in (0, 1):
            means[i::2, j::2] = smoothed(mosaic[i::2, j::2].movedim(-1, 0)).movedim(0, -1)
    return means
