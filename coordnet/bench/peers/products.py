"""Enlargements of a lattice as ``coordnet bench speed`` times them: by other libraries, and bare matrix products."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from scipy import ndimage
from scipy.interpolate import RectBivariateSpline
from torch import Tensor
from torch.nn.functional import interpolate

from coordnet.encodings import ComplexEncoding
from coordnet.sampling import Axis, Lattice, Samples


def rect_bivariate_spline(samples: Samples) -> None:
    """Enlarge each channel by SciPy's cubic spline."""
    x, y = (axis.points().numpy() for axis in samples.geometry.axes)
    u, v = (Axis(n).points().numpy() for n in samples.grid)
    for channel in samples.values.movedim(-1, 0).double().numpy():
        RectBivariateSpline(x, y, channel)(u, v)


def zoom(samples: Samples) -> None:
    """Enlarge each channel by ``scipy.ndimage.zoom`` of order 3."""
    factors = [n / k for n, k in zip(samples.grid, samples.values.shape, strict=False)]
    for channel in samples.values.movedim(-1, 0).contiguous().numpy():
        ndimage.zoom(channel, factors, order=3)


def interpolation(samples: Samples, mode: str) -> Callable[[], Tensor]:
    """Return the call of ``torch.nn.functional.interpolate`` on the values, with their channels in front."""
    x = samples.values.movedim(-1, 0).unsqueeze(0).contiguous()
    return partial(interpolate, x, size=samples.grid, mode=mode)


def papers_procedure(encoding: ComplexEncoding, samples: Samples) -> Tensor:
    """Compute W = Ψ₁⁺ Y (Ψ₂⁺)ᵀ by dense pseudo-inverses, then Ψ W Ψᵀ (Zheng et al., ECCV 2022)."""
    values = samples.values
    first, second = encoding.matrices(samples.geometry.axes, values.dtype, values.device)
    fine = encoding.matrices(Lattice(samples.grid).axes, values.dtype, values.device)
    w = torch.linalg.pinv(first) @ values.movedim(-1, 0) @ torch.linalg.pinv(second).T
    return fine[0] @ w @ fine[1].T


def bare_products(values: Tensor, shape: Sequence[int]) -> Callable[[], Tensor]:
    """Return a product of the shapes of a dense fit and render in one; nothing dense can be faster."""
    sides = zip(shape, values.shape[-len(shape) - 1 : -1], strict=True)
    return products(values, [torch.rand(m, n, dtype=values.dtype, device=values.device) for m, n in sides])


def products(values: Tensor, matrices: Sequence[Tensor]) -> Callable[[], Tensor]:
    """Return the product, by ``torch.matmul`` alone, of a matrix along every axis of a lattice.

    Values are (*batch, *lattice, channels), folded beforehand; the result is (batch × channels, *lattice).
    """
    dims = len(matrices)
    x = values.movedim(-1, -dims - 1).flatten(0, -dims - 1).contiguous()

    def work() -> Tensor:
        y = torch.matmul(x, matrices[-1].T)
        for j in reversed(range(dims - 1)):
            before, after = y.shape[: j + 1], y.shape[j + 2 :]
            y = torch.matmul(matrices[j], y.reshape(*before, y.shape[j + 1], -1)).reshape(*before, -1, *after)
        return y

    return work
