"""Clips and volumes freed from white noise: ``python results/cubes/noise.py DATA`` prints a table of PSNR.

Signals have the range 1 and noise of two levels, which are told to the peers and estimated by ``cn.denoise``. The
peers are non-local means in three axes (scikit-image) with the best of four strengths by hindsight, and BM3D and
``cn.denoise`` frame by frame.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from bm3d import bm3d
from skimage.restoration import denoise_nl_means

import coordnet as cn
from coordnet.bench.cube_fields import cube
from coordnet.bench.package_fields import FIELDS

LEVELS = 0.05, 0.1
STRENGTHS = 0.4, 0.6, 0.8, 1.0  # of non-local means, relative to the noise
NAMES = "climate", "atmosphere", "ionosphere", "anatomy"  # fields of three axes that packages ship


def signals(data):
    """Yield the name and the values of every signal, scaled to [0, 1]."""
    if data is not None:
        yield "clip", cube("clip", data)[0][:20]
    for name in NAMES:
        values = np.asarray(FIELDS[name].load(), float)[:24, :48, :48]
        yield name, (values - values.min()) / (values.max() - values.min())


def estimates(noisy, truth, sigma):
    """Return what every method makes of a noisy signal, by its name."""
    y, frames = torch.from_numpy(noisy).float(), range(len(noisy))
    means = [
        denoise_nl_means(noisy, patch_size=3, patch_distance=4, h=h * sigma, sigma=sigma, fast_mode=True)
        for h in STRENGTHS
    ]
    return {
        "cn.denoise": cn.denoise(y, dimensions=3).signal.numpy(),
        "adaptive": cn.denoise(y, prior=cn.Adaptive(), dimensions=3).signal.numpy(),
        "cn.denoise, frame by frame": np.stack([cn.denoise(y[k], dimensions=2).signal.numpy() for k in frames]),
        "non-local means": max(means, key=lambda made: psnr(made, truth)),
        "BM3D, frame by frame": np.stack([bm3d(noisy[k], sigma) for k in frames]),
    }


def psnr(made, truth):
    """Return the PSNR against the range 1."""
    return -10 * np.log10(np.square(made.reshape(truth.shape) - truth).mean())


if __name__ == "__main__":
    for name, truth in signals(Path(sys.argv[1]) if len(sys.argv) > 1 else None):
        for sigma in LEVELS:
            noisy = truth + sigma * np.random.default_rng(0).standard_normal(truth.shape)
            found = {method: psnr(made, truth) for method, made in estimates(noisy, truth, sigma).items()}
            print(name, sigma, *(f"{method} {score:.2f}" for method, score in found.items()), sep="; ", flush=True)
