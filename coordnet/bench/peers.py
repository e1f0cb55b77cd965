"""Every other library's method, once, by what it does: interpolate, remove noise, demosaic, invert measurements."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from scipy.interpolate import RBFInterpolator, RectBivariateSpline, RegularGridInterpolator
from skimage import restoration, transform
from torch import Tensor
from torch.nn.functional import interpolate, pad

from coordnet.bench.degradations import ANGLES, HALF
from coordnet.bench.experiment import Case
from coordnet.bench.fields import coarse, finer
from coordnet.metrics import baselines
from coordnet.noise.linear_demosaicing import bilinear, malvar
from coordnet.sampling import Axis, lattice_points
from coordnet.sampling.operators import Derivatives

KERNELS = {"thin plate": "thin_plate_spline", "cubic": "cubic", "quintic": "quintic"}
RBF_SMOOTHINGS = (0.0, 0.1, 1.0, 10.0)  # smoothing of RBFInterpolator, for samples at a distance of 1
FILTERS = {"bicubic": Image.Resampling.BICUBIC, "Lanczos": Image.Resampling.LANCZOS}
WEIGHTS = (0.25, 0.35, 0.5, 1.0, 1.5, 2.0)  # weights of total variation in units of the noise
WAVELET = "sym4"  # better on photographs than the library's default, Haar
# Weights of total variation, and of its generalization, that are tried for a kind of measurements.
VARIATION_WEIGHTS = {"fourier": (0.002, 0.005, 0.01, 0.02), "projections": (0.05, 0.2, 0.5, 1.0)}
PRIMAL_DUAL_STEPS = 300  # steps of the method of Chambolle and Pock
CURVATURE = 2.0  # weight of the second order relative to that of the first, as is usual
NORM = 12.0  # bound of the squared norm of (x, v) ↦ (∇x - v, E v) in the plane


def spline(case: Case, kind: str, **options: Any) -> Tensor:
    """Interpolate by SciPy: a spline on lattices, ``griddata`` elsewhere; nearest, linear or cubic."""
    estimate = baselines.BASELINES[kind](case.samples, **options)
    if estimate is None:
        raise ValueError("SciPy's griddata has no such method here, or too many points for it")
    return estimate


def torch_interpolate(case: Case) -> Tensor:
    """Interpolate a lattice from offset 0 on by ``torch.nn.functional.interpolate``: bicubic, or trilinear in 3-D.

    With ``align_corners`` output j of k (n - 1) + 1 sits at j / k of the input's samples, which is its place on the
    grid. The last sample is repeated once for the outputs beyond it.
    """
    geometry: Any = case.samples.geometry
    dims = len(geometry.grid)
    padded = pad(case.samples.values.movedim(-1, 0).unsqueeze(0), (0, 1) * dims, mode="replicate")
    size = [n * k + 1 for n, k in zip(geometry.shape, geometry.steps, strict=True)]
    mode = {1: "linear", 2: "bicubic", 3: "trilinear"}[dims]
    estimate = interpolate(padded, size=size, mode=mode, align_corners=True)
    return estimate[(0, slice(None), *(slice(n) for n in geometry.grid))].movedim(0, -1)


def lanczos_between(case: Case) -> Tensor:
    """Interpolate a whole lattice of a picture by Pillow's Lanczos filter; one sample is repeated at every end."""
    geometry: Any = case.samples.geometry
    axes = list(zip(geometry.grid, geometry.steps, geometry.offsets, strict=True))
    starts = [1.5 - (offset + 0.5) / step for _, step, offset in axes]  # one sample is before the first, half its width
    (top, bottom), (left, right) = ((a, a + n / k) for a, (n, k, _) in zip(starts, axes, strict=True))
    padded = pad(case.samples.values.movedim(-1, 0), (1, 1, 1, 1), mode="replicate")
    return _resized(padded, geometry.grid, "Lanczos", (left, top, right, bottom)).to(case.samples.values)


def pillow(case: Case, kind: str) -> Tensor:
    """Enlarge each channel by Pillow's ``resize``, in floating point."""
    return _resized(case.samples.values.movedim(-1, 0), case.samples.grid, kind).to(case.samples.values)


def _resized(
    planes: Float[Tensor, "channels h w"], grid: tuple[int, ...], kind: str, box: tuple[float, ...] | None = None
) -> Float[Tensor, "height width channels"]:
    images = [Image.fromarray(np.ascontiguousarray(plane), "F") for plane in planes.float().cpu().numpy()]
    large = [image.resize(grid[::-1], FILTERS[kind], box) for image in images]  # type: ignore[arg-type]
    return torch.from_numpy(np.stack([np.asarray(image) for image in large], -1))


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
    choices = itertools.product(KERNELS.values(), RBF_SMOOTHINGS)
    return case.best(radial_basis(case, kernel, smoothing=smoothing) for kernel, smoothing in choices)


def thin_plate(case: Case, neighbors: int = 20) -> Tensor:
    """Interpolate by SciPy's ``RBFInterpolator``, a thin plate through the nearest samples."""
    return radial_basis(case, "thin_plate_spline", neighbors)


def bivariate(case: Case, degree: int) -> Tensor:
    """Interpolate by ``RectBivariateSpline``, or smooth to a sum of squares that the true noise expects."""
    values, (x, y) = case.samples.values[..., 0].numpy(), coarse(case)
    spline: Any = RectBivariateSpline(x, y, values, kx=degree, ky=degree, s=values.size * case.noise**2)  # type: ignore[arg-type]
    return torch.from_numpy(spline(*finer(case))).unsqueeze(-1)


def regular(case: Case) -> Tensor:
    """Interpolate by ``RegularGridInterpolator`` with its cubic splines."""
    spline = RegularGridInterpolator(coarse(case), case.samples.values[..., 0].numpy(), "cubic")
    return torch.from_numpy(spline(tuple(np.meshgrid(*finer(case), indexing="ij")))).unsqueeze(-1)


def biharmonic(case: Case) -> Tensor:
    """Inpaint the points that are unknown in every channel by scikit-image's ``inpaint_biharmonic``."""
    estimate = baselines.biharmonic(case.samples)
    assert estimate is not None
    return estimate


def telea(case: Case) -> Tensor:
    """Inpaint the points that are unknown by OpenCV's fast marching (Telea 2004), at 8 bits."""
    import cv2  # pyright: ignore[reportMissingImports]

    values, weights = case.samples.values, case.samples.geometry.full_weights
    unknown = (weights[..., 0] == 0).cpu().numpy().astype(np.uint8)
    picture = (255 * values.clamp(0, 1)).round().cpu().numpy().astype(np.uint8)
    estimate = torch.from_numpy(cv2.inpaint(picture, unknown, 5.0, cv2.INPAINT_TELEA)).reshape(values.shape)
    return torch.where(weights > 0, values, estimate.to(values) / 255)


def as_array(case: Case) -> np.ndarray:
    """Return the samples as an array of float64."""
    return case.samples.values.double().cpu().numpy()


def as_sampled(case: Case, made: np.ndarray) -> Tensor:
    """Return an estimate as a tensor like the samples, with their shape."""
    return torch.from_numpy(np.ascontiguousarray(made)).reshape(case.samples.values.shape).to(case.samples.values)


def unchanged(case: Case) -> Tensor:
    """Return the noisy samples themselves."""
    return case.samples.values


def blurred(case: Case) -> Tensor:
    """Return the blurred picture itself."""
    return case.samples.values


def wavelet(case: Case, blind: bool = False) -> Tensor:
    """Denoise by ``denoise_wavelet`` with BayesShrink; the noise is given, or estimated if ``blind``."""
    options = {"wavelet": WAVELET, "method": "BayesShrink", "convert2ycbcr": case.samples.channels == 3}
    sigma = None if blind else case.noise
    return restored(case, restoration.denoise_wavelet, sigma=sigma, rescale_sigma=True, **options)


def non_local_means(case: Case, blind: bool = False) -> Tensor:
    """Denoise by ``denoise_nl_means`` as in scikit-image's example; the noise is given, or estimated if ``blind``."""
    sigma = case.noise
    if blind:
        sigma = float(np.mean(restoration.estimate_sigma(as_array(case), channel_axis=-1)))
    options = {"patch_size": 5, "patch_distance": 6, "fast_mode": True, "h": 0.6 * sigma, "sigma": sigma}
    return restored(case, restoration.denoise_nl_means, **options)


def block_matching(case: Case) -> Tensor:
    """Denoise by BM3D, or by CBM3D three channels, with the true noise (Dabov, Foi, Katkovnik and Egiazarian, 2007)."""
    import bm3d  # pyright: ignore[reportMissingImports]

    work: Any = bm3d.bm3d_rgb if case.samples.channels == 3 else bm3d.bm3d
    return as_sampled(case, work(as_array(case), case.noise))


def best_total_variation(case: Case, weights: Sequence[float] = WEIGHTS) -> Tensor:
    """Denoise by ``denoise_tv_chambolle`` with the best of some weights, in units of the noise, with hindsight."""
    denoise = partial(restored, case, restoration.denoise_tv_chambolle)
    return case.best(denoise(weight=weight * case.noise) for weight in weights)


def restored(case: Case, function: Callable[..., Any], **options: Any) -> Tensor:
    """Apply a function of scikit-image to a picture in float64."""
    return as_sampled(case, function(as_array(case), channel_axis=-1, **options))


def demosaiced(case: Case, kind: str) -> Tensor:
    """Demosaic by "bilinear" interpolation, or by the 5×5 filters of Malvar, He and Cutler ("malvar")."""
    return {"bilinear": bilinear, "malvar": malvar}[kind](case.samples.values, case.samples.geometry.full_weights > 0)


def menon(case: Case) -> Tensor:
    """Demosaic by the directional filter of Menon, Andriani and Calvagno (2007), from colour-demosaicing."""
    from colour_demosaicing import demosaicing_CFA_Bayer_Menon2007  # pyright: ignore[reportMissingImports]

    values, weights = case.samples.values, case.samples.geometry.full_weights
    pattern = "".join("RGB"[int(weights[y, x].argmax())] for y in (0, 1) for x in (0, 1))
    mosaic = (values * weights).sum(-1).double().cpu().numpy()
    return torch.from_numpy(demosaicing_CFA_Bayer_Menon2007(mosaic, pattern)).to(values)


def _channels(case: Case, method: Callable[[np.ndarray], np.ndarray]) -> Tensor:
    """Apply a method of scikit-image to the measurements of every channel in float64."""
    channels = [method(values) for values in case.samples.values.double().movedim(-1, 0).numpy()]
    return torch.from_numpy(np.stack(channels, -1)).to(case.samples.values)


def operator_of(case: Case) -> Any:
    """Return the operator that was measured with."""
    return case.samples.geometry.operator


def _deblurred(case: Case, method: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Tensor:
    """Apply a method that assumes another border to the picture, continued by reflection."""
    psf, inside = operator_of(case).psf.double().numpy(), (slice(2 * HALF, -2 * HALF),) * 2
    return _channels(case, lambda y: method(np.pad(y, 2 * HALF, mode="symmetric"), psf)[inside])


def unsupervised_wiener(case: Case) -> Tensor:
    """Deblur by scikit-image's ``unsupervised_wiener``."""
    return _deblurred(case, lambda y, psf: restoration.unsupervised_wiener(y, psf, rng=case.seed, clip=False)[0])


def richardson_lucy(case: Case) -> Tensor:
    """Deblur by ``richardson_lucy`` with 5 to 40 steps, chosen with hindsight."""
    lucy = restoration.richardson_lucy
    return case.best(_deblurred(case, lambda y, psf, n=n: lucy(y.clip(1e-4), psf, num_iter=n)) for n in (5, 10, 20, 40))


def filtered_back_projection(case: Case) -> Tensor:
    """Reconstruct by ``iradon`` with the best of its filters, chosen with hindsight."""
    options: Any = {"theta": ANGLES, "circle": False, "output_size": operator_of(case).domain[0]}
    names = ("ramp", "shepp-logan", "cosine", "hamming", "hann")
    return case.best(_channels(case, partial(transform.iradon, filter_name=name, **options)) for name in names)


def sart(case: Case) -> Tensor:
    """Reconstruct by ``iradon_sart`` with 1 to 8 passes, chosen with hindsight."""
    height, width = operator_of(case).domain

    def passes(y: np.ndarray, count: int) -> np.ndarray:
        image: Any = None
        for _ in range(count):
            image = transform.iradon_sart(y, ANGLES, image=image)
        top, left = len(image) // 2 - height // 2, len(image) // 2 - width // 2
        return image[top : top + height, left : left + width]

    return case.best(_channels(case, partial(passes, count=count)) for count in (1, 2, 4, 8))


def zero_filled(case: Case) -> Tensor:
    """Return the inverse transform with zeros where nothing was measured."""
    return operator_of(case).adjoint(case.samples.values.movedim(-1, 0)).movedim(0, -1)


def total_variation(
    case: Case, weights: tuple[float, ...] = VARIATION_WEIGHTS["fourier"], steps: int = 60, gain: float = 1.0
) -> Tensor:
    """Minimize squared errors and total variation by accelerated proximal gradients with ``denoise_tv_chambolle``.

    The weight is chosen with hindsight. A gradient step of 1 / ``gain`` is stable for the largest eigenvalue of AᵀA, 1
    where the operator's rows are orthonormal (Beck and Teboulle, 2009).
    """
    operator, y = operator_of(case), case.samples.values.movedim(-1, 0)

    def solve(weight: float) -> Tensor:
        x = z = operator.adjoint(y) / gain
        momentum = 1.0
        for _ in range(steps):
            target = (z - operator.adjoint(operator(z) - y) / gain).numpy()
            options: Any = {"weight": weight / gain, "channel_axis": 0, "max_num_iter": 30}
            new = torch.from_numpy(restoration.denoise_tv_chambolle(target, **options)).to(y)
            grown = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
            x, z, momentum = new, new + (momentum - 1) / grown * (new - x), grown
        return x.movedim(0, -1)

    return case.best(map(solve, weights))


def tomography_by_total_variation(case: Case) -> Tensor:
    """Reconstruct from projections as ``total_variation`` does, in steps for the largest gain that they may have."""
    return total_variation(case, VARIATION_WEIGHTS["projections"], 100, largest_gain(case))


def largest_gain(case: Case) -> float:
    """Return the largest row sum of AᵀA, which bounds its eigenvalues where A has no negative entry; at least 1."""
    ones = torch.ones(1, 1, *operator_of(case).domain)
    return max(1.0, float(operator_of(case).adjoint(operator_of(case)(ones)).max()))


def total_generalized_variation(case: Case, kind: str) -> Tensor:
    """Minimize |A x - y|²/2 + w (Σ |∇x - v| + ``CURVATURE`` Σ |E v|) over pictures x and fields v, E v = (∇v + ∇vᵀ)/2.

    The weight w is chosen with hindsight from those of a ``kind``. Bredies, Kunisch and Pock, "Total generalized
    variation" (2010); Chambolle and Pock, "A first-order primal-dual algorithm for convex problems" (2011).
    """
    return case.best(_least_generalized_variation(case, weight).movedim(0, -1) for weight in VARIATION_WEIGHTS[kind])


def _least_generalized_variation(case: Case, weight: float) -> Float[Tensor, "channels height width"]:
    operator, y = operator_of(case), case.samples.values.movedim(-1, 0)
    gain, slopes = largest_gain(case), Derivatives(operator.domain)
    # Each dual variable has half of what is stable with the first step: on 30 projections of a 48² picture 300 steps
    # are then within 1 % of the least objective, and with equal steps for all variables at 2.5 times that.
    primal = 1 / (NORM + gain) ** 0.5
    step, data_step = (0.5 / (primal * norm) for norm in (NORM, gain))
    x = x_bar = operator.adjoint(y) / gain
    v = v_bar = torch.zeros_like(slopes(x))
    p, q, r = torch.zeros_like(v), torch.zeros_like(slopes(v)), torch.zeros_like(y)
    for _ in range(PRIMAL_DUAL_STEPS):
        p = _within(p + step * (slopes(x_bar) - v_bar), weight, (-3,))
        q = _within(q + step * _symmetric(slopes(v_bar)), CURVATURE * weight, (-4, -3))
        r = (r + data_step * (operator(x_bar) - y)) / (1 + data_step)
        x_new = x - primal * (operator.adjoint(r) + slopes.adjoint(p))
        v_new = v - primal * (slopes.adjoint(q) - p)  # q is symmetric
        x, x_bar, v, v_bar = x_new, 2 * x_new - x, v_new, 2 * v_new - v
    return x


def _within(p: Tensor, radius: float, axes: tuple[int, ...]) -> Tensor:
    """Return vectors, or matrices, along some axes, shortened to a radius."""
    return p / (p.norm(dim=axes, keepdim=True) / radius).clamp(min=1)


def _symmetric(slopes: Float[Tensor, "channels 2 2 height width"]) -> Tensor:
    """Return the mean of the matrix of slopes at each pixel and its transpose."""
    return (slopes + slopes.transpose(1, 2)) / 2
