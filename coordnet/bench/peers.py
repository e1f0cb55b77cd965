"""Every other library's method, once: SciPy, PyTorch, scikit-image, demosaicing filters, and the papers' procedure."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from PIL import Image
from scipy import ndimage
from scipy.interpolate import RBFInterpolator, RectBivariateSpline
from skimage import restoration
from torch import Tensor
from torch.nn.functional import interpolate, pad

from coordnet.bench import demosaicing
from coordnet.bench.estimation import Case, Estimator, Method, Outcome
from coordnet.bench.limits import limited
from coordnet.comparison.stopwatch import timed
from coordnet.encodings import ComplexEncoding
from coordnet.metrics import baselines
from coordnet.sampling import Axis, Lattice, Samples, lattice_points

WEIGHTS = (0.25, 0.35, 0.5, 1.0, 1.5, 2.0)  # weights of total variation in units of the noise
KERNELS = {"thin plate": "thin_plate_spline", "cubic": "cubic", "quintic": "quintic"}
SMOOTHINGS = (0.0, 0.1, 1.0, 10.0)  # of radial basis functions, of samples one apart
WAVELET = "sym4"  # better on photographs than the library's default, Haar


@dataclass(frozen=True)
class Peer(Estimator):
    """A function of a case; with a limit in seconds it runs once, in a process of its own."""

    group = "baseline"
    function: Callable[..., Tensor]
    limit: float | None = None
    package: str | None = None

    @property
    def missing(self) -> str | None:
        """The package of the function, if it is not installed."""
        return self.package if self.package and find_spec(self.package) is None else None

    def __call__(self, case: Case) -> Outcome:
        """Call the function."""
        if self.limit is None:
            return Outcome(*timed(partial(self.function, case)))
        return Outcome(*limited(partial(self.function, replace(case, score=None)), self.limit))


def baseline(
    name: str, function: Callable[..., Any], limit: float | None = None, package: str | None = None, **options: Any
) -> Method:
    """Return another library's method, which is stopped at a limit in seconds if one is given.

    A study leaves it out where its ``package`` is not installed.
    """
    return Method(name, Peer(partial(function, **options) if options else function, limit, package))


def best(case: Case, estimates: Iterable[Tensor]) -> Tensor:
    """Choose an estimate with hindsight."""
    assert case.score is not None
    return max(estimates, key=case.score)


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
    if not geometry.is_whole_lattice or any(geometry.offsets):
        raise ValueError("expected a whole lattice")
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
    if not geometry.is_whole_lattice or len(geometry.grid) != 2:
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


def unchanged(case: Case) -> Tensor:
    """Return the noisy samples themselves."""
    return case.samples.values


def wavelet(case: Case, blind: bool = False) -> Tensor:
    """Denoise by ``denoise_wavelet`` with BayesShrink; the noise is given, or estimated if ``blind``."""
    options = {"wavelet": WAVELET, "method": "BayesShrink", "convert2ycbcr": case.samples.channels == 3}
    sigma = None if blind else case.noise
    return _restored(case.samples.values, restoration.denoise_wavelet, sigma=sigma, rescale_sigma=True, **options)


def non_local_means(case: Case, blind: bool = False) -> Tensor:
    """Denoise by ``denoise_nl_means``; the noise is given, or found by ``estimate_sigma`` if ``blind``.

    The settings are those of scikit-image's example: patches of 5 at distances up to 6, h = 0.6 σ, the fast mode.
    """
    values, sigma = case.samples.values, case.noise
    if blind:
        sigma = float(np.mean(restoration.estimate_sigma(values.double().cpu().numpy(), channel_axis=-1)))
    options = {"patch_size": 5, "patch_distance": 6, "fast_mode": True, "h": 0.6 * sigma, "sigma": sigma}
    return _restored(values, restoration.denoise_nl_means, **options)


def block_matching(case: Case) -> Tensor:
    """Denoise by BM3D, or by CBM3D three channels, with the true noise (Dabov, Foi, Katkovnik and Egiazarian, 2007)."""
    import bm3d  # pyright: ignore[reportMissingImports]

    values = case.samples.values
    work = bm3d.bm3d_rgb if case.samples.channels == 3 else bm3d.bm3d
    made = work(values.double().cpu().numpy(), case.noise)
    return torch.from_numpy(np.asarray(made)).reshape(values.shape).to(values)


def best_total_variation(case: Case) -> Tensor:
    """Denoise by ``denoise_tv_chambolle`` with the best of six weights, chosen with hindsight."""
    weights = (weight * case.noise for weight in WEIGHTS)
    return best(case, (_restored(case.samples.values, restoration.denoise_tv_chambolle, weight=w) for w in weights))


def _restored(values: Tensor, function: Callable[..., Any], *arguments: Any, **options: Any) -> Tensor:
    """Apply a function of scikit-image to a picture in float64."""
    image = function(values.double().cpu().numpy(), *arguments, channel_axis=-1, **options)
    return torch.from_numpy(np.asarray(image)).to(values)


def demosaiced(case: Case, kind: str) -> Tensor:
    """Demosaic by "bilinear" interpolation, or by the 5×5 filters of Malvar, He and Cutler ("malvar")."""
    assert case.samples.weights is not None
    return demosaicing.METHODS[kind](case.samples.values, case.samples.weights > 0)


def menon(case: Case) -> Tensor:
    """Demosaic by the directional filter of Menon, Andriani and Calvagno (2007), from colour-demosaicing."""
    from colour_demosaicing import demosaicing_CFA_Bayer_Menon2007  # pyright: ignore[reportMissingImports]

    values, weights = case.samples.values, case.samples.weights
    assert weights is not None
    pattern = "".join("RGB"[int(weights[y, x].argmax())] for y in (0, 1) for x in (0, 1))
    mosaic = (values * weights).sum(-1).double().cpu().numpy()
    return torch.from_numpy(demosaicing_CFA_Bayer_Menon2007(mosaic, pattern)).to(values)


def telea(case: Case, radius: float = 5.0) -> Tensor:
    """Inpaint the points that are unknown by OpenCV's fast marching (Telea 2004), at 8 bits."""
    import cv2  # pyright: ignore[reportMissingImports]

    values, weights = case.samples.values, case.samples.weights
    assert weights is not None
    unknown = (weights[..., 0] == 0).cpu().numpy().astype(np.uint8)
    picture = (255 * values.clamp(0, 1)).round().cpu().numpy().astype(np.uint8)
    estimate = torch.from_numpy(cv2.inpaint(picture, unknown, radius, cv2.INPAINT_TELEA)).reshape(values.shape)
    return torch.where(weights > 0, values, estimate.to(values) / 255)


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
