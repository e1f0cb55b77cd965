"""Scores of estimates, and SciPy's interpolations of the same samples."""

from coordnet.metrics.baselines import cubic, linear, nearest
from coordnet.metrics.scores import psnr, snr, ssim

__docformat__ = "numpy"
__all__ = ["cubic", "linear", "nearest", "psnr", "snr", "ssim"]
