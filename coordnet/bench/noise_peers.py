"""Denoisers side by side: coordnet's, and scikit-image's wavelets, non-local means and total variation."""

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.bench.peers import Estimate, Method, Score
from coordnet.restore.denoise import denoise
from coordnet.sampling.samples import Samples

WEIGHTS = (0.25, 0.35, 0.5, 1.0, 1.5, 2.0)  # of total variation, times the noise
WAVELET = "sym4"  # better on photographs than the library's default, Haar


def denoised(samples: Samples) -> Estimate:
    """``coordnet.denoise``, the noise estimated."""
    fit = denoise(samples.values).fit
    return Estimate(fit.render(), f"sigma {fit.report['sigma']:.4f}")


def wavelet(
    noisy: Float[Tensor, "height width channels"], sigma: float | None = None
) -> Float[Tensor, "height width channels"]:
    """``denoise_wavelet`` with BayesShrink, colours in YCbCr, ``rescale_sigma``; the noise told, or estimated."""
    from skimage.restoration import denoise_wavelet

    made = denoise_wavelet(
        noisy.double().cpu().numpy(),
        sigma=sigma,
        wavelet=WAVELET,
        method="BayesShrink",
        convert2ycbcr=noisy.shape[-1] == 3,
        rescale_sigma=True,
        channel_axis=-1,
    )
    return torch.from_numpy(np.asarray(made)).to(noisy)


def non_local_means(
    noisy: Float[Tensor, "height width channels"], sigma: float | None = None
) -> Float[Tensor, "height width channels"]:
    """``denoise_nl_means`` as scikit-image's example has it: patches of 5, 13 apart, h = 0.6 σ, the fast mode.

    The noise is told, or estimated by ``estimate_sigma``.
    """
    from skimage.restoration import denoise_nl_means, estimate_sigma

    image = noisy.double().cpu().numpy()
    if sigma is None:
        sigma = float(estimate_sigma(image, channel_axis=-1, average_sigmas=True))
    made = denoise_nl_means(
        image, patch_size=5, patch_distance=6, h=0.6 * sigma, sigma=sigma, fast_mode=True, channel_axis=-1
    )
    return torch.from_numpy(np.asarray(made)).to(noisy)


def total_variation(
    noisy: Float[Tensor, "height width channels"], sigma: float, score: Score
) -> tuple[Float[Tensor, "height width channels"], float]:
    """``denoise_tv_chambolle`` with the best of six weights by a score which only the truth tells, and the weight."""
    from skimage.restoration import denoise_tv_chambolle

    image = noisy.double().cpu().numpy()
    made = []
    for weight in (w * sigma for w in WEIGHTS):
        smooth = cast(np.ndarray, denoise_tv_chambolle(image, weight=weight, channel_axis=-1))
        made.append((torch.from_numpy(smooth).to(noisy), weight))
    return max(made, key=lambda found: score(found[0]))


def unaided(method: Callable[[Tensor], Tensor]) -> Method:
    """A denoiser that estimates the noise by wavelets; NaN where PyWavelets is not installed."""

    def apply(samples: Samples) -> Estimate:
        try:
            return Estimate(method(samples.values))
        except ImportError:
            missing = "PyWavelets is not installed: pip install coordnet[bench]"
            return Estimate(samples.values * torch.nan, missing)

    return apply


def best_total_variation(sigma: float) -> Callable[[Score], Method]:
    """``total_variation`` for a noise."""

    def method(score: Score) -> Method:
        def apply(samples: Samples) -> Estimate:
            made, weight = total_variation(samples.values, sigma, score)
            return Estimate(made, f"weight {weight:g}")

        return apply

    return method
