"""Linear measurements of pictures, deblurring, tomography and Fourier samples, and what scikit-image makes of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from skimage import transform
from torch import Tensor

from coordnet.bench.estimation import Task
from coordnet.linalg.operators import LinearOperator
from coordnet.sampling import Measurements, operators

WIDTH, HALF = 1.6, 7  # standard deviation and half-width, in pixels, of the Gaussian that blurs
ANGLES = np.linspace(0, 180, 30, endpoint=False)
SHARE, DECAY = 0.25, 0.18  # sampled share of Fourier space; frequency, in cycles a pixel, beyond which samples are rare


def blur(grid: tuple[int, ...], seed: int) -> LinearOperator:
    """Return the blur by a Gaussian."""
    x = torch.arange(-HALF, HALF + 1.0)
    psf = torch.exp(-(x.square().unsqueeze(1) + x.square()) / (2 * WIDTH**2))
    return operators.Blur(psf / psf.sum(), grid)


def projections(grid: tuple[int, ...], seed: int) -> LinearOperator:
    """Return the projections at 30 angles."""
    return operators.Projections(ANGLES, grid)


def quarter(grid: tuple[int, ...], seed: int) -> LinearOperator:
    """Return a random quarter of Fourier space, drawn with a density that falls with the frequency as a Gaussian."""
    frequencies = np.meshgrid(*(np.fft.fftfreq(n) for n in grid), indexing="ij")
    density = np.exp(-sum(f**2 for f in frequencies) / DECAY**2)
    low, high = 0.0, 1e6
    for _ in range(100):  # the factor at which min(factor × density, 1) has the mean SHARE
        factor = (low + high) / 2
        low, high = (factor, high) if np.minimum(factor * density, 1).mean() < SHARE else (low, factor)
    drawn = np.random.default_rng(seed).random(density.shape) < np.minimum(high * density, 1)
    return operators.FourierSamples(drawn)


def radon(picture: Tensor) -> Tensor:
    """Return the projections of a picture by scikit-image, which are not quite those of ``projections``."""
    channels = picture.double().numpy().transpose(2, 0, 1)
    return torch.from_numpy(np.stack([transform.radon(c, ANGLES, circle=False) for c in channels], -1)).to(picture)


@dataclass(frozen=True)
class MeasuredTask(Task):
    """Values of a linear map of the picture, with noise; the standard deviation of the noise is not given."""

    operator: Callable[[tuple[int, ...], int], LinearOperator] = blur
    simulate: Callable[[Tensor], Tensor] | None = None  # another library's map; the operator if not given

    def sampled(self, signal: Tensor, seed: int, device: str) -> tuple[Measurements, Tensor]:
        """Return the measurements on a device, and the signal."""
        operator = self.operator(tuple(signal.shape[:-1]), seed)
        clean = Measurements.of(operator, signal).values if self.simulate is None else self.simulate(signal)
        noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed))
        return Measurements(operator, (clean + self.noise * noise).to(device)), signal
