"""Reconstruction from linear measurements of pictures by scikit-image: deblurring, tomography and Fourier samples."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from skimage import restoration, transform
from torch import Tensor

from coordnet.bench.estimation import Case
from coordnet.bench.measurement_tasks import ANGLES, HALF
from coordnet.bench.peers.base import best


def _channels(case: Case, method: Callable[[np.ndarray], np.ndarray]) -> Tensor:
    values = case.samples.values.double().numpy()
    found = [method(values[..., c]) for c in range(values.shape[-1])]
    return torch.from_numpy(np.stack(found, -1)).to(case.samples.values)


def _operator(case: Case) -> Any:
    return case.samples.geometry.operator


def blurred(case: Case) -> Tensor:
    """Return the blurred picture itself."""
    return case.samples.values


def _padded(case: Case, method: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Tensor:
    """Apply a method that assumes another border to the picture, continued by reflection."""
    psf, inside = _operator(case).psf.double().numpy(), (slice(2 * HALF, -2 * HALF),) * 2
    return _channels(case, lambda y: method(np.pad(y, 2 * HALF, mode="symmetric"), psf)[inside])


def unsupervised_wiener(case: Case) -> Tensor:
    """Deblur by scikit-image's ``unsupervised_wiener``."""
    return _padded(case, lambda y, psf: restoration.unsupervised_wiener(y, psf, rng=case.seed, clip=False)[0])


def richardson_lucy(case: Case) -> Tensor:
    """Deblur by ``richardson_lucy`` with 5 to 40 steps, chosen with hindsight."""

    def steps(count: int) -> Tensor:
        return _padded(case, lambda y, psf: restoration.richardson_lucy(y.clip(1e-4), psf, num_iter=count))

    return best(case, map(steps, (5, 10, 20, 40)))


def filtered_back_projection(case: Case) -> Tensor:
    """Reconstruct by ``iradon`` with the best of its filters, chosen with hindsight."""
    size = _operator(case).domain[0]

    def filtered(name: str) -> Tensor:
        options: Any = {"circle": False, "output_size": size, "filter_name": name}
        return _channels(case, lambda y: transform.iradon(y, ANGLES, **options))

    return best(case, map(filtered, ("ramp", "shepp-logan", "cosine", "hamming", "hann")))


def sart(case: Case) -> Tensor:
    """Reconstruct by ``iradon_sart`` with 1 to 8 passes, chosen with hindsight."""
    height, width = _operator(case).domain

    def passes(count: int) -> Tensor:
        def one(y: np.ndarray) -> np.ndarray:
            image = None
            for _ in range(count):
                image = transform.iradon_sart(y, ANGLES, image=image)
            assert image is not None
            top, left = len(image) // 2 - height // 2, len(image) // 2 - width // 2
            return image[top : top + height, left : left + width]

        return _channels(case, one)

    return best(case, map(passes, (1, 2, 4, 8)))


def zero_filled(case: Case) -> Tensor:
    """Return the inverse transform with zeros where nothing was measured."""
    return _operator(case).adjoint(case.samples.values.movedim(-1, 0)).movedim(0, -1)


def total_variation(case: Case, steps: int = 60) -> Tensor:
    """Minimize squared errors and total variation by accelerated proximal gradients with ``denoise_tv_chambolle``.

    The weight is chosen with hindsight. The operator's rows are orthonormal, so that a gradient step of 1 is stable
    (Beck and Teboulle, 2009).
    """
    operator, y = _operator(case), case.samples.values.movedim(-1, 0)

    def solve(weight: float) -> Tensor:
        x = z = operator.adjoint(y)
        momentum = 1.0
        for _ in range(steps):
            target = (z - operator.adjoint(operator(z) - y)).numpy()
            options: Any = {"weight": weight, "channel_axis": 0, "max_num_iter": 30}
            new = torch.from_numpy(restoration.denoise_tv_chambolle(target, **options)).to(y)
            grown = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
            x, z, momentum = new, new + (momentum - 1) / grown * (new - x), grown
        return x.movedim(0, -1)

    return best(case, map(solve, (0.002, 0.005, 0.01, 0.02)))
