"""Denoisers side by side: coordnet's, and scikit-image's wavelets and total variation."""

from importlib.util import find_spec
from typing import cast

import numpy as np
import torch

from coordnet.denoising import denoise
from coordnet.experiments.peers import Estimate, Method, Score
from coordnet.samples import Samples

WEIGHTS = (0.05, 0.1, 0.15, 0.2)  # of total variation


def denoised(samples: Samples) -> Estimate:
    """``coordnet.denoise``, the noise estimated."""
    fit = denoise(samples.values)
    return Estimate(fit.render(), f"sigma {fit.report['sigma']:.4f}")


def wavelet(samples: Samples) -> Estimate:
    """``denoise_wavelet`` with BayesShrink in YCbCr, ``rescale_sigma``, the noise estimated."""
    from skimage.restoration import denoise_wavelet

    if find_spec("pywt") is None:
        return Estimate(
            samples.values * torch.nan, "PyWavelets is not installed: pip install coordnet[bench]"
        )
    noisy = samples.values.double().numpy()
    made = denoise_wavelet(
        noisy, method="BayesShrink", mode="soft", convert2ycbcr=True, rescale_sigma=True, channel_axis=-1
    )
    return Estimate(torch.from_numpy(np.asarray(made)).to(samples.values))


def best_total_variation(score: Score) -> Method:
    """``denoise_tv_chambolle`` with the best of four weights, which only the truth tells."""
    from skimage.restoration import denoise_tv_chambolle

    def apply(samples: Samples) -> Estimate:
        noisy = samples.values.double().numpy()
        made = []
        for weight in WEIGHTS:
            smooth = cast(np.ndarray, denoise_tv_chambolle(noisy, weight=weight, channel_axis=-1))
            made.append(Estimate(torch.from_numpy(smooth).to(samples.values), f"weight {weight:g}"))
        return max(made, key=lambda estimate: score(estimate.signal))

    return apply
