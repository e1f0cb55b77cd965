"""Other libraries' ways to remove noise that is not white, told the noise or the best of their parameters."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from scipy.ndimage import gaussian_filter, median_filter
from skimage.restoration import denoise_tv_chambolle
from torch import Tensor

from coordnet.bench.experiment import Case

NLM_STRENGTHS = (3, 5, 7, 10, 14, 20)  # filter strengths of OpenCV's non-local means, in 8-bit values
TV_WEIGHTS = (0.01, 0.02, 0.03, 0.05, 0.08)  # weights of total variation
SIGMAS = (0.02, 0.035, 0.05, 0.08)  # standard deviations that CBM3D is given
FLOOR, COLORED_SIGMA = 0.0004, 0.1  # variance of a camera's noise at 0, and deviation of colored noise
QUADRATURE = 41  # nodes of the quadrature over the noise


def _array(case: Case) -> np.ndarray:
    return case.samples.values.double().cpu().numpy()


def _like(case: Case, made: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(made)).reshape(case.samples.values.shape).to(case.samples.values)


def non_local_means(case: Case) -> Tensor:
    """Denoise at 8 bits by OpenCV's ``fastNlMeansDenoisingColored`` with the best strength, chosen with hindsight."""
    import cv2  # pyright: ignore[reportMissingImports]

    picture: Any = np.uint8(np.round(255 * np.clip(_array(case), 0, 1)))
    return case.best(
        _like(case, cv2.fastNlMeansDenoisingColored(picture, None, h, h, 7, 21) / 255.0) for h in NLM_STRENGTHS
    )


def median(case: Case) -> Tensor:
    """Take medians of 3×3 pixels."""
    return _like(case, median_filter(_array(case), size=(3, 3, 1)))


def best_total_variation(case: Case) -> Tensor:
    """Denoise by scikit-image's ``denoise_tv_chambolle`` with the best weight, chosen with hindsight."""
    return case.best(_like(case, denoise_tv_chambolle(_array(case), weight, channel_axis=-1)) for weight in TV_WEIGHTS)


def best_block_matching(case: Case) -> Tensor:
    """Denoise by CBM3D with the best standard deviation, chosen with hindsight."""
    with _bm3d() as denoise:
        return case.best(_like(case, denoise(_array(case), sigma)) for sigma in SIGMAS)


def told_spectrum(case: Case, width: float) -> Tensor:
    """Denoise by BM3D with the true power spectrum of noise that was filtered by a Gaussian."""
    values = _array(case)
    impulse = np.zeros(values.shape[:2])
    impulse[0, 0] = 1
    power = np.abs(np.fft.fft2(gaussian_filter(impulse, width, mode="wrap"))) ** 2
    power *= COLORED_SIGMA**2 * impulse.size / power.mean()
    with _bm3d() as denoise:
        return _like(case, denoise(values, np.stack([power] * 3, -1)))


def stabilized(case: Case, gain: float) -> Tensor:
    """Denoise by the generalized Anscombe transform, CBM3D, and the exact inverse, with the true gain and floor.

    The inverse is that of the mean of the transform, by quadrature (Mäkitalo and Foi, 2013).
    """

    def f(y: np.ndarray) -> np.ndarray:
        return 2 / gain * np.sqrt(np.maximum(gain * y + 0.375 * gain**2 + FLOOR, 0))

    values, nodes = _array(case), np.polynomial.hermite_e.hermegauss(QUADRATURE)
    x = np.linspace(0, 1, 1001)
    y = x[:, None] + np.sqrt(FLOOR + gain * x)[:, None] * nodes[0]
    y = np.clip(y, 0, 1) if values.min() >= 0 and values.max() <= 1 else y
    means = f(y) @ (nodes[1] / nodes[1].sum())
    top = f(np.array(1.0))
    with _bm3d() as denoise:
        return _like(case, np.interp(top * denoise(f(values) / top, 1 / top), means, x))


@contextmanager
def _bm3d() -> Iterator[Callable[..., np.ndarray]]:
    """Yield CBM3D; its package calls a name that NumPy 2.4 removed where it is given a spectrum."""
    import bm3d  # pyright: ignore[reportMissingImports]

    name = "trapz"
    missing = not hasattr(np, name)
    if missing:
        setattr(np, name, np.trapezoid)
    try:
        yield bm3d.bm3d_rgb
    finally:
        if missing:
            delattr(np, name)
