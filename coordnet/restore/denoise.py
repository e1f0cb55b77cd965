"""Denoising: adaptive Wiener filters of a signal with white noise on all of its samples."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import FourierEncoding
from coordnet.fitting.spectrum import PENALTY_FLOOR, SMOOTHING_WIDTH
from coordnet.linalg.borders import make_periodic, reflect
from coordnet.linalg.kronecker import outer_product
from coordnet.linalg.operators import rotate
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.fourier import FourierModes
from coordnet.priors.smoothness import Smoothness
from coordnet.restore.restored import Restored
from coordnet.restore.upscale import has_opacity
from coordnet.sampling.arrays import Array, as_signal
from coordnet.sampling.axes import Axis

ROUNDS = 30  # rounds in which the spectrum of the whole signal is learned
PADDING = 16  # reflected samples beyond every border
WINDOW = {1: 512, 2: 32, 3: 16, 4: 8}  # samples of a window along an axis, by the number of axes
OVERLAP = 4  # windows that cover a sample, along an axis
PASSES = 2  # local filters, each with the spectra of the estimate before it
LOCAL_WIDTH = 0.7  # modes that a local spectrum is smoothed by: wider loses 0.2 dB, none 0.1 dB on photographs
CORNER = 0.75  # share of the highest frequency; modes above it on every axis are taken for noise
PROBE = 0.05  # step of the divergence's difference quotient, in standard deviations of the noise
START = Smoothness(1.5, 0.03)  # the spectrum before the first round

Values = Float[Tensor, "signals channels *lattice"]


def denoise(
    signal: Array,
    sigma: float | None = None,
    *,
    alpha: bool | None = None,
    dimensions: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Restored:
    """Remove white Gaussian noise by a Wiener filter with the signal's own spectrum, first as a whole, then locally.

    Channels are rotated to the eigenvectors of their covariance. The variance P of every mode of the reflected
    signal is learned in rounds of P ← P · smooth((|gz|² + gs²) / P) with the gain g = P / (P + s²), where s² is the
    noise's variance. The energies of the filtered signal in overlapping windows are then the variances of a filter in
    each window, ``PASSES`` times.

    Parameters
    ----------
    signal : NumPy array or tensor, (*grid, channels), or (height, width) for a gray picture
        A signal of one to four axes; integers of 8 and 16 bits are scaled to [0, 1].
    sigma : float, optional
        Standard deviation of the noise, of integers after they are scaled; estimated by ``noise_level`` if not given.
    alpha : bool, optional
        Whether the last channel is opacity, which stays as it is; of pictures with two or four channels if not given.
    dimensions : int, optional
        The number of axes of the grid, where the shape does not tell; see ``as_signal``.
    seed : int
        Seed of the probe that estimates the remaining error.

    Returns
    -------
    Restored
        ``report["sigma"]`` is the noise, ``expected_psnr`` Stein's estimate of the remaining error (None without
        noise; within a dB or two if sigma is estimated). The values of ``fit`` on its lattice are the estimate.

    Raises
    ------
    ValueError
        If a value is not finite, sigma is negative, or there are more than four axes.

    Notes
    -----
    The windows are the empirical Wiener filter of Ghael, Sayeed and Baraniuk (1997), with Fourier modes; the error is
    estimated as in Ramani, Blu and Unser, "Monte-Carlo SURE" (2008).
    """
    given, kind = as_signal(signal, dimensions=dimensions)
    dims = given.ndim - 1
    alpha = dims == 2 and has_opacity(given) if alpha is None else alpha
    opacity = given[..., -1:] if alpha else given[..., :0]
    signal = given[..., :-1] if alpha else given
    if dims not in WINDOW:
        raise _checks.wrong("signal", "one to four axes and channels", tuple(signal.shape))
    if not bool(torch.isfinite(signal).all()):
        raise _checks.wrong("signal", "finite values", "NaN or infinity")
    level = noise_level(signal) if sigma is None else _checks.nonnegative("sigma", sigma)
    mean = signal.mean(tuple(range(dims)))
    values = (signal - mean).movedim(-1, 0).unsqueeze(0)
    estimate, expected, learned = values, None, {}
    if level > 0:
        probe = torch.randint(0, 2, values.shape, generator=torch.Generator().manual_seed(seed))
        step = PROBE * level * (2 * probe - 1).to(values)
        with tqdm(total=2 * (1 + PASSES), desc="denoising", disable=not progress, dynamic_ncols=True) as bar:
            estimate, learned = _filtered(values, level, bar.update)
            moved, _ = _filtered(values + step, level, bar.update)
        expected = _expected_psnr(values, estimate, moved, step, level, given=sigma is not None)
    report = {"method": "adaptive Wiener filter, whole and local", "sigma": level, "sigma_given": sigma is not None}
    report |= {"rounds": ROUNDS, "passes": PASSES, "window": list(_windows(values)), "expected_psnr": expected}
    encoding = FourierEncoding.on(tuple(Axis(n) for n in signal.shape[:-1]))
    weight = make_periodic(estimate, encoding.shape)[0].contiguous()
    network = CoordinateNetwork(encoding, Linear(), len(mean), weight=weight).requires_grad_(False)
    fit = Reconstruction(network, mean, tuple(signal.shape[:-1]), (), report, learned)
    restored = torch.cat([fit.render(alignment="sample"), opacity], dim=-1)
    return Restored(kind.restore(restored), fit, report, expected)


def noise_level(signal: Float[Tensor, "*grid channels"]) -> float:
    """Estimate the standard deviation of white noise on a signal from its highest frequencies.

    Its square is the median over windows of the mean energy of the modes above ``CORNER`` of the highest frequency on
    every axis, averaged over the rotated channels where it is least: details of color are seldom as fine as a pixel.
    """
    values = (signal - signal.mean(tuple(range(signal.ndim - 1)))).movedim(-1, 0).unsqueeze(0)
    rotation, variance = _principal(values)
    lattice, shape = values.shape[2:], _windows(values)
    least = [float(v) for v in variance[0] if v > PENALTY_FLOOR * variance.max()]
    if not least or max(shape) == 1:
        return 0.0
    rotated = rotate(rotation.mT, values)[:, -len(least) :]
    axes = zip(lattice, shape, strict=True)
    shifts = itertools.product(*(sorted({s for s in (0, b // 2) if n - s >= b}) for n, b in axes))
    tiles = torch.cat([_tiles(rotated, shape, s).flatten(0, -len(shape) - 2) for s in shifts])
    taper = _window(shape).square().to(tiles)  # keeps smooth signals from leaking into the highest modes
    taper = taper / taper.square().mean().sqrt()
    modes = _window_modes(tiles)
    z = modes.adjoint(tiles * taper)
    indices = [torch.arange(n, device=signal.device) for n in z.shape[2:]]
    high = [torch.minimum(k, b - k) >= CORNER * (b // 2) for k, b in zip(indices, shape, strict=True)]
    energy = z.abs().square()[..., torch.stack(torch.meshgrid(*high, indexing="ij")).all(0)]
    count = energy.shape[-1] / float(taper.pow(4).mean())  # of independent modes: the taper couples neighbors
    middle = (1 - 1 / (9 * count)) ** 3  # the median of a mean of exponential variables (Wilson, Hilferty)
    level = energy.mean(-1).median(0).values / middle
    spread = 4 / math.sqrt(energy.shape[0] * energy.shape[-1])  # three standard deviations of a median of means
    return float(level[level <= (1 + spread) * level.min()].mean().sqrt())


def _filtered(values: Values, sigma: float, advance: Callable[[], Any]) -> tuple[Values, dict[str, Tensor]]:
    """Filter centered values; return the estimate, the penalty of every mode and the channels' rotation."""
    rotation, _ = _principal(values)
    rotated = rotate(rotation.mT, values)
    estimate, spectrum = _whole(rotated, sigma)
    advance()
    for _ in range(PASSES):
        estimate = _local(rotated, estimate, sigma)
        advance()
    return rotate(rotation, estimate), {"penalty": sigma**2 / spectrum, "rotation": rotation}


def _principal(values: Tensor) -> tuple[Float[Tensor, "signals c c"], Float[Tensor, "signals c"]]:
    """Return eigenvectors and ascending eigenvalues of the channels' covariance."""
    y = values.flatten(2).double()
    variance, rotation = torch.linalg.eigh(y @ y.mT / y.shape[-1])
    return rotation.to(values), variance


def _whole(values: Values, sigma: float) -> tuple[Values, Float[Tensor, "signals channels *modes"]]:
    """Apply the Wiener filter with one learned spectrum for each channel; return that spectrum too."""
    lattice = values.shape[2:]
    margin = tuple(PADDING if n > 1 else 0 for n in lattice)
    modes = _window_modes(padded := reflect(values, margin, margin))
    z, noise = modes.adjoint(padded), sigma**2
    energy = z.abs().square()
    spectrum = noise / (START.strength * START.roughness(modes)).clamp(min=PENALTY_FLOOR)
    for _ in range(ROUNDS):
        gain = spectrum / (spectrum + noise)
        ratio = gain * (gain * energy + noise) / spectrum
        spectrum = spectrum * modes.smooth(ratio, SMOOTHING_WIDTH[len(lattice)]).clamp(min=PENALTY_FLOOR)
    estimate = modes(z * (spectrum / (spectrum + noise)))
    return _inside(estimate, lattice, margin), spectrum


def _local(values: Values, pilot: Values, sigma: float) -> Values:
    """Apply a Wiener filter in overlapping windows, with a pilot estimate's energies as the signal's variances."""
    lattice, shape = values.shape[2:], _windows(values)
    hops = [max(1, b // OVERLAP) for b in shape]
    margin = tuple(b - 1 if b > 1 else 0 for b in shape)
    longer = [-(-(n + m) // b) * b + b for n, m, b in zip(lattice, margin, shape, strict=True)]
    after = tuple(p - n - m for p, n, m in zip(longer, lattice, margin, strict=True))
    noisy, known = reflect(values, margin, after), reflect(pilot, margin, after)
    window = _window(shape).to(values)
    total, cover = torch.zeros_like(noisy), torch.zeros_like(noisy[:1, :1])
    for shifts in itertools.product(*(range(0, b, h) for b, h in zip(shape, hops, strict=True))):
        tiles, guess = _tiles(noisy, shape, shifts), _tiles(known, shape, shifts)
        flat = (-1, *tiles.shape[-len(shape) - 1 :])
        noisy_tiles, guess = (tiles * window).reshape(flat), (guess * window).reshape(flat)
        modes = _window_modes(guess)
        variance = modes.smooth(modes.adjoint(guess).abs().square(), LOCAL_WIDTH).clamp(min=0)
        filtered = modes(modes.adjoint(noisy_tiles) * (variance / (variance + sigma**2))) * window
        _tiles(total, shape, shifts).add_(filtered.reshape(tiles.shape))
        _tiles(cover, shape, shifts).add_(window.square())
    return _inside(total / cover.clamp(min=PENALTY_FLOOR), lattice, margin)


def _inside(f: Tensor, lattice: tuple[int, ...], margin: tuple[int, ...]) -> Tensor:
    """Cut the lattice out of a padded one with a margin before it."""
    return f[..., *(slice(m, m + n) for n, m in zip(lattice, margin, strict=True))]


def _windows(values: Tensor) -> tuple[int, ...]:
    """Return the window's length along each axis: a multiple of the overlap, or 1 on an axis too short for one."""
    lattice = values.shape[2:]
    size = WINDOW[len(lattice)]
    return tuple(min(size, n // OVERLAP * OVERLAP) if n >= 2 * OVERLAP else 1 for n in lattice)


def _window(shape: tuple[int, ...]) -> Float[Tensor, "*window"]:
    """Return the root of a Hann window with mean square 1, so that the modes of white noise keep its variance."""
    phases = [2 * torch.pi * (torch.arange(n, dtype=torch.float64) + 0.5) / n for n in shape]
    return outer_product([(1 - torch.cos(p)).sqrt() if len(p) > 1 else torch.ones_like(p) for p in phases])


def _tiles(
    f: Float[Tensor, "1 channels *lattice"], shape: tuple[int, ...], shifts: tuple[int, ...]
) -> Float[Tensor, "..."]:
    """View the windows that lie side by side from ``shifts`` on, as (*counts, channels, *window)."""
    for axis, (length, shift) in enumerate(zip(shape, shifts, strict=True), start=2):
        f = f.narrow(axis, shift, f.shape[axis] - shift).unfold(axis, length, length)
    return f[0].movedim(0, len(shape))


def _window_modes(f: Tensor) -> FourierModes:
    lattice = tuple(f.shape[2:])
    return FourierModes(FourierEncoding(tuple(Axis(n) for n in lattice), lattice), dtype=f.dtype, device=f.device)


def _expected_psnr(values: Tensor, estimate: Tensor, moved: Tensor, step: Tensor, sigma: float, given: bool) -> float:
    """Return the PSNR of Stein's unbiased risk estimate, |f(y) - y|² - s² + 2 s² div f per sample.

    An error of a few hundredths in s² is as large as the whole risk of a smooth picture. If s was estimated, the risk
    is therefore the geometric mean with that of an ideal Wiener filter, s² div f.
    """
    divergence = float((step * (moved - estimate)).mean() / step.square().mean())
    ideal = max(sigma**2 * divergence, 1e-12)
    stein = max(float((estimate - values).square().mean()) - sigma**2 + 2 * ideal, ideal)
    return -10 * math.log10(stein if given else math.sqrt(stein * ideal))
