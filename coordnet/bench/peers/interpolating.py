"""Interpolation, inpainting and enlargement by SciPy, PyTorch, Pillow, scikit-image and OpenCV."""

import itertools
from typing import Any

import numpy as np
import torch
from PIL import Image
from scipy.interpolate import RBFInterpolator, RectBivariateSpline, RegularGridInterpolator
from torch import Tensor
from torch.nn.functional import interpolate, pad

from coordnet.bench import unequal
from coordnet.bench.estimation import Case
from coordnet.bench.peers.base import best
from coordnet.metrics import baselines
from coordnet.sampling import Axis, lattice_points

KERNELS = {"thin plate": "thin_plate_spline", "cubic": "cubic", "quintic": "quintic"}
SMOOTHINGS = (0.0, 0.1, 1.0, 10.0)  # smoothing of RBFInterpolator, for samples at a distance of 1
FILTERS = {"bicubic": Image.Resampling.BICUBIC, "Lanczos": Image.Resampling.LANCZOS}


def spline(case: Case, kind: str, **options: Any) -> Tensor:
    """Interpolate by SciPy: a spline on lattices, ``griddata`` elsewhere; nearest, linear or cubic."""
    estimate = baselines.BASELINES[kind](case.samples, **options)
    if estimate is None:
        raise ValueError("SciPy's griddata has no such method here, or too many points for it")
    return estimate


def torch_interpolate(case: Case) -> Tensor:
    """Interpolate by ``torch.nn.functional.interpolate``: bicubic in 2-D, trilinear in 3-D.

    With ``align_corners`` output j of k (n - 1) + 1 sits at j / k of the input's samples, which is its place on the
    grid. The last sample is repeated once for the outputs beyond it. ValueError is raised if the samples are not a
    whole lattice that begins at offset 0.
    """
    geometry: Any = case.samples.geometry
    geometry.check_filled("samples", "a whole lattice")
    if any(geometry.offsets):
        raise ValueError("expected a whole lattice from offset 0 on")
    dims = len(geometry.grid)
    padded = pad(case.samples.values.movedim(-1, 0).unsqueeze(0), (0, 1) * dims, mode="replicate")
    size = [n * k + 1 for n, k in zip(geometry.shape, geometry.steps, strict=True)]
    mode = {1: "linear", 2: "bicubic", 3: "trilinear"}[dims]
    estimate = interpolate(padded, size=size, mode=mode, align_corners=True)
    return estimate[(0, slice(None), *(slice(n) for n in geometry.grid))].movedim(0, -1)


def lanczos_between(case: Case) -> Tensor:
    """Interpolate a strided lattice of a picture by Pillow's Lanczos filter of three lobes.

    The box says where the outputs lie among the samples, of which one is repeated at every end. ValueError is raised if
    the samples are not a whole lattice of a picture.
    """
    geometry: Any = case.samples.geometry
    geometry.check_filled("samples", "a whole lattice of a picture")
    if len(geometry.grid) != 2:
        raise ValueError("expected a whole lattice of a picture")
    axes = list(zip(geometry.grid, geometry.steps, geometry.offsets, strict=True))
    starts = [1.5 - (offset + 0.5) / step for _, step, offset in axes]  # one sample is before the first, half its width
    (top, bottom), (left, right) = ((a, a + n / k) for a, (n, k, _) in zip(starts, axes, strict=True))
    padded = pad(case.samples.values.movedim(-1, 0), (1, 1, 1, 1), mode="replicate")
    size, options = geometry.grid[::-1], {"resample": Image.Resampling.LANCZOS, "box": (left, top, right, bottom)}
    planes = [Image.fromarray(plane.cpu().numpy(), "F").resize(size, **options) for plane in padded.float()]
    return torch.stack([torch.from_numpy(np.array(plane)) for plane in planes], -1).to(case.samples.values)


def radial_basis(case: Case, kernel: str, neighbors: int = 60, smoothing: float = 0.0) -> Tensor:
    """Interpolate by SciPy's ``RBFInterpolator`` with a kernel of its own names, from the nearest samples."""
    samples = case.samples
    known = samples.geometry.known(1)[..., 0].numpy()
    x = lattice_points(tuple(Axis(n) for n in samples.grid)).numpy() * np.asarray(samples.grid)
    estimate = np.zeros((*samples.grid, samples.channels))
    samples.geometry.put(samples.values.double().cpu(), torch.from_numpy(estimate))
    options = {"neighbors": min(neighbors, int(known.sum())), "kernel": kernel, "smoothing": smoothing}
    where = ~known if smoothing == 0 else np.ones_like(known)
    estimate[where] = RBFInterpolator(x[known], estimate[known], **options)(x[where])
    return torch.from_numpy(estimate).to(samples.values)


def best_radial_basis(case: Case) -> Tensor:
    """Smooth by the best of three kernels and four smoothings of ``RBFInterpolator``, chosen with hindsight."""
    choices = itertools.product(KERNELS.values(), SMOOTHINGS)
    return best(case, (radial_basis(case, kernel, smoothing=smoothing) for kernel, smoothing in choices))


def thin_plate(case: Case, neighbors: int = 20) -> Tensor:
    """Interpolate by SciPy's ``RBFInterpolator``, a thin plate through the nearest samples."""
    return radial_basis(case, "thin_plate_spline", neighbors)


def biharmonic(case: Case) -> Tensor:
    """Inpaint the points that are unknown in every channel by scikit-image's ``inpaint_biharmonic``."""
    estimate = baselines.biharmonic(case.samples)
    assert estimate is not None
    return estimate


def telea(case: Case, radius: float = 5.0) -> Tensor:
    """Inpaint the points that are unknown by OpenCV's fast marching (Telea 2004), at 8 bits."""
    import cv2  # pyright: ignore[reportMissingImports]

    values, weights = case.samples.values, case.samples.weights
    assert weights is not None
    unknown = (weights[..., 0] == 0).cpu().numpy().astype(np.uint8)
    picture = (255 * values.clamp(0, 1)).round().cpu().numpy().astype(np.uint8)
    estimate = torch.from_numpy(cv2.inpaint(picture, unknown, radius, cv2.INPAINT_TELEA)).reshape(values.shape)
    return torch.where(weights > 0, values, estimate.to(values) / 255)


def bivariate(case: Case, degree: int) -> Tensor:
    """Interpolate by ``RectBivariateSpline``, or smooth to a sum of squares that the true noise expects."""
    values, (x, y) = case.samples.values[..., 0].numpy(), unequal.coarse(case)
    spline: Any = RectBivariateSpline(x, y, values, kx=degree, ky=degree, s=values.size * case.noise**2)  # type: ignore[arg-type]
    return torch.from_numpy(spline(*unequal.finer(case))).unsqueeze(-1)


def regular(case: Case) -> Tensor:
    """Interpolate by ``RegularGridInterpolator`` with its cubic splines."""
    spline = RegularGridInterpolator(unequal.coarse(case), case.samples.values[..., 0].numpy(), "cubic")
    return torch.from_numpy(spline(tuple(np.meshgrid(*unequal.finer(case), indexing="ij")))).unsqueeze(-1)


def pillow(case: Case, kind: str) -> Tensor:
    """Enlarge each channel by Pillow's ``resize``, in floating point."""
    values, size = case.samples.values, (case.samples.grid[1], case.samples.grid[0])
    channels = [Image.fromarray(channel.numpy()) for channel in values.float().movedim(-1, 0).contiguous()]
    large = [np.asarray(channel.resize(size, FILTERS[kind])) for channel in channels]
    return torch.from_numpy(np.stack(large, -1)).to(values)
