"""Windows of a lattice signal that overlap, and the modes in which they are filtered."""

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import FourierEncoding
from coordnet.linalg.kronecker import outer_product
from coordnet.plans.fourier_modes import FourierModes
from coordnet.sampling.axes import Axis

WINDOW_SIDES = {1: 512, 2: 32, 3: 16, 4: 8}  # samples along each axis of a window, by the number of axes
OVERLAP = 4  # windows that cover a sample, along an axis


def window_shape(lattice: tuple[int, ...]) -> tuple[int, ...]:
    """Return a window's length along each axis: a multiple of the overlap, or 1 on an axis too short for one."""
    size = WINDOW_SIDES[len(lattice)]
    return tuple(min(size, n // OVERLAP * OVERLAP) if n >= 2 * OVERLAP else 1 for n in lattice)


def window_root(shape: tuple[int, ...]) -> Float[Tensor, "*window"]:
    """Return the root of a Hann window with mean square 1, so that the modes of white noise keep its variance."""
    phases = [2 * torch.pi * (torch.arange(n, dtype=torch.float64) + 0.5) / n for n in shape]
    return outer_product([(1 - torch.cos(p)).sqrt() if len(p) > 1 else torch.ones_like(p) for p in phases])


def side_by_side(
    f: Float[Tensor, "1 channels *lattice"], shape: tuple[int, ...], shifts: tuple[int, ...]
) -> Float[Tensor, "..."]:
    """View the windows that lie side by side from ``shifts`` on, as (*counts, channels, *window)."""
    for axis, (length, shift) in enumerate(zip(shape, shifts, strict=True), start=2):
        f = f.narrow(axis, shift, f.shape[axis] - shift).unfold(axis, length, length)
    return f[0].movedim(0, len(shape))


def window_modes(f: Tensor) -> FourierModes:
    """Return the Fourier modes of windows (windows, channels, *window)."""
    lattice = tuple(f.shape[2:])
    return FourierModes(FourierEncoding(tuple(Axis(n) for n in lattice), lattice), dtype=f.dtype, device=f.device)


def principal(values: Tensor) -> tuple[Float[Tensor, "signals c c"], Float[Tensor, "signals c"]]:
    """Return eigenvectors and ascending eigenvalues of the channels' covariance."""
    y = values.flatten(2).double()
    variance, rotation = torch.linalg.eigh(y @ y.mT / y.shape[-1])
    return rotation.to(values), variance


def window_means(values: Float[Tensor, "1 channels *lattice"]) -> Float[Tensor, "1 channels *counts"]:
    """Return the means of parts that lie side by side and are as long as two windows lie apart."""
    shape = tuple(max(1, length // OVERLAP) for length in window_shape(tuple(values.shape[2:])))
    parts = side_by_side(values, shape, (0,) * len(shape))
    return parts.mean(tuple(range(-len(shape), 0))).movedim(-1, 0).unsqueeze(0)
