"""Removal of noise from pictures by scikit-image and BM3D."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from skimage import restoration
from torch import Tensor

from coordnet.bench.estimation import Case
from coordnet.bench.peers.base import best

WEIGHTS = (0.25, 0.35, 0.5, 1.0, 1.5, 2.0)  # weights of total variation in units of the noise
WAVELET = "sym4"  # better on photographs than the library's default, Haar


def unchanged(case: Case) -> Tensor:
    """Return the noisy samples themselves."""
    return case.samples.values


def wavelet(case: Case, blind: bool = False) -> Tensor:
    """Denoise by ``denoise_wavelet`` with BayesShrink; the noise is given, or estimated if ``blind``."""
    options = {"wavelet": WAVELET, "method": "BayesShrink", "convert2ycbcr": case.samples.channels == 3}
    sigma = None if blind else case.noise
    return _restored(case.samples.values, restoration.denoise_wavelet, sigma=sigma, rescale_sigma=True, **options)


def non_local_means(case: Case, blind: bool = False) -> Tensor:
    """Denoise by ``denoise_nl_means``; the noise is given, or found by ``estimate_sigma`` if ``blind``.

    The settings are those of scikit-image's example: patches of 5 at distances up to 6, h = 0.6 σ, the fast mode.
    """
    values, sigma = case.samples.values, case.noise
    if blind:
        sigma = float(np.mean(restoration.estimate_sigma(values.double().cpu().numpy(), channel_axis=-1)))
    options = {"patch_size": 5, "patch_distance": 6, "fast_mode": True, "h": 0.6 * sigma, "sigma": sigma}
    return _restored(values, restoration.denoise_nl_means, **options)


def block_matching(case: Case) -> Tensor:
    """Denoise by BM3D, or by CBM3D three channels, with the true noise (Dabov, Foi, Katkovnik and Egiazarian, 2007)."""
    import bm3d  # pyright: ignore[reportMissingImports]

    values = case.samples.values
    work = bm3d.bm3d_rgb if case.samples.channels == 3 else bm3d.bm3d
    made = work(values.double().cpu().numpy(), case.noise)
    return torch.from_numpy(np.asarray(made)).reshape(values.shape).to(values)


def best_total_variation(case: Case) -> Tensor:
    """Denoise by ``denoise_tv_chambolle`` with the best of six weights, chosen with hindsight."""
    weights = (weight * case.noise for weight in WEIGHTS)
    return best(case, (_restored(case.samples.values, restoration.denoise_tv_chambolle, weight=w) for w in weights))


def _restored(values: Tensor, function: Callable[..., Any], *arguments: Any, **options: Any) -> Tensor:
    """Apply a function of scikit-image to a picture in float64."""
    image = function(values.double().cpu().numpy(), *arguments, channel_axis=-1, **options)
    return torch.from_numpy(np.asarray(image)).to(values)
