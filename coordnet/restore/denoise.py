"""Denoising: adaptive Wiener filters of a signal with white noise on all of its samples."""

import itertools
import math
import statistics
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
from coordnet.linalg.operators import rotate
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.smoothness import Smoothness
from coordnet.restore.clipping import ClippedNoise
from coordnet.restore.noise_level import clipped_noise, noise_level, refuse_more_than
from coordnet.restore.restored import Restored
from coordnet.restore.tiles import Tiles, Window
from coordnet.restore.upscale import has_opacity
from coordnet.restore.windows import (
    OVERLAP,
    WINDOW,
    principal,
    side_by_side,
    window_means,
    window_modes,
    window_root,
    window_shape,
)
from coordnet.sampling.arrays import Array, as_signal
from coordnet.sampling.axes import Axis
from coordnet.sampling.samples import units_of

ROUNDS = 30  # rounds in which the spectrum of the whole signal is learned
PADDING = 16  # reflected samples beyond every border
PASSES = 2  # local filters, each with the spectra of the estimate before it
LOCAL_WIDTH = 0.7  # modes that a local spectrum is smoothed by: wider loses 0.2 dB, none 0.1 dB on photographs
PROBED = 8  # every how many tiles one is filtered once more, to estimate the remaining error
PROBE = 0.05  # step of the divergence's difference quotient, in standard deviations of the noise
START = Smoothness(1.5, 0.03)  # the spectrum before the first round

Signal = Float[Tensor, "*grid channels"]
Values = Float[Tensor, "signals channels *lattice"]
Levels = Float[Tensor, "signals channels *ones"]  # a number for each channel


def denoise(
    signal: Array,
    sigma: float | None = None,
    *,
    alpha: bool | None = None,
    dimensions: int | None = None,
    seed: int = 0,
    largest: int | None = None,
    progress: bool = False,
) -> Restored:
    """Remove white Gaussian noise by a Wiener filter with the signal's own spectrum, first as a whole, then locally.

    Channels are rotated to the eigenvectors of their covariance. The variance P of every mode of the reflected
    signal is learned in rounds of P ← P · smooth((|gz|² + gs²) / P) with the gain g = P / (P + s²), where s² is the
    noise's variance. The energies of the filtered signal in overlapping windows are then the variances of a filter in
    each window, ``PASSES`` times. Where values were clipped after the noise came, their noise has less variance and a
    mean of its own (see ``ClippedNoise``): the filters take the former, and the result is freed from the latter.

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
    largest : int
        Points of the largest signal that is filtered as a whole, 4 million if not given; see ``Tiles``.

    Returns
    -------
    Restored
        ``report["sigma"]`` is the noise, ``expected_psnr`` Stein's estimate of the remaining error (None without
        noise; within a dB or two if sigma is estimated or values were clipped). The values of ``fit`` on its lattice
        are the estimate; it is None for a signal in tiles.

    Raises
    ------
    ValueError
        If a value is not finite, sigma is negative or above the signal's own standard deviation, or there are more than
        four axes.

    Notes
    -----
    The windows are the empirical Wiener filter of Ghael, Sayeed and Baraniuk (1997), with Fourier modes; the error is
    estimated as in Ramani, Blu and Unser, "Monte-Carlo SURE" (2008).
    """
    values, kind = as_signal(signal, dimensions=dimensions)
    dims = values.ndim - 1
    alpha = dims == 2 and has_opacity(values) if alpha is None else alpha
    opacity = values[..., -1:] if alpha else values[..., :0]
    values = values[..., :-1] if alpha else values
    if dims not in WINDOW:
        raise _checks.wrong("signal", "one to four axes and channels", tuple(values.shape))
    if not bool(torch.isfinite(values).all()):
        raise _checks.wrong("signal", "finite values", "NaN or infinity")
    tiles = Tiles(tuple(values.shape[:-1]), largest)
    if sigma is not None:
        refuse_more_than(values, _checks.nonnegative("sigma", sigma))
    level = statistics.median(noise_level(values[tile]) for tile in tiles) if sigma is None else sigma
    given, fit, window = sigma is not None, None, window_shape(tuple(values.shape[:-1]))
    report = {"method": "adaptive Wiener filter, whole and local", "sigma": level, "sigma_given": given}
    report |= {"rounds": ROUNDS, "passes": PASSES, "window": list(window)}
    if len(tiles) == 1:
        clean, error, learned = _estimated(values, level, given=given, seed=seed, progress=progress)
        report["expected_psnr"] = _psnr(error)
        fit = _model(clean, report, learned)
        clean = fit.render(alignment="sample")
    else:
        clean, error = _in_tiles(tiles, values, level, given=given, seed=seed, progress=progress)
        report |= {"expected_psnr": _psnr(error), **tiles.report()}
    return Restored(kind.restore(torch.cat([clean, opacity], dim=-1)), fit, report, _psnr(error))


def _in_tiles(
    tiles: Tiles, signal: Signal, level: float, *, given: bool, seed: int, progress: bool
) -> tuple[Signal, float | None]:
    """Return the estimate of a signal in tiles, and the mean squared error that some of them lead to expect."""
    errors: list[float | None] = []

    def estimate(tile: Window) -> Signal:
        probed = len(errors) % PROBED == 0
        clean, error, _ = _estimated(signal[tile], level, given=given, seed=seed if probed else None, progress=progress)
        errors.append(error)
        return clean

    clean, found = tiles.restore(estimate, progress=progress), [error for error in errors if error is not None]
    return clean, statistics.fmean(found) if found else None


def _estimated(
    signal: Signal, level: float, *, given: bool, seed: int | None, progress: bool
) -> tuple[Signal, float | None, dict[str, Tensor]]:
    """Return the estimate, its expected mean squared error unless the seed is None, and what was learned."""
    if level == 0:
        return signal, None, {}
    units = units_of(signal.unsqueeze(0))[0]
    signal, level = signal / units, level / float(units)
    noise, values = clipped_noise(signal, level), signal.movedim(-1, 0).unsqueeze(0)
    total = (1 + PASSES) * (1 if seed is None else 2)
    error = None
    with tqdm(total=total, desc="denoising", leave=None, disable=not progress, dynamic_ncols=True) as bar:
        means, learned = _filtered(values, noise, bar.update)
        if seed is not None:
            probe = torch.randint(0, 2, values.shape, generator=torch.Generator().manual_seed(seed))
            step = PROBE * level * (2 * probe - 1).to(values)
            derivative = (_filtered(values + step, noise, bar.update)[0] - means) / step
            error = _expected_error(values, means, derivative, noise, given=given)
    error = None if error is None else error * float(units) ** 2
    return units * noise.unclipped(means)[0].movedim(0, -1), error, learned


def _model(signal: Signal, report: dict[str, Any], learned: dict[str, Tensor]) -> Reconstruction:
    """Return the model whose values on the lattice are a signal."""
    grid, mean = tuple(signal.shape[:-1]), signal.mean(tuple(range(signal.ndim - 1)))
    encoding = FourierEncoding.on(tuple(Axis(n) for n in grid))
    weight = make_periodic((signal - mean).movedim(-1, 0).unsqueeze(0), encoding.shape)[0].contiguous()
    network = CoordinateNetwork(encoding, Linear(), len(mean), weight=weight).requires_grad_(False)
    return Reconstruction(network, mean, grid, (), report, learned)


def _filtered(values: Values, noise: ClippedNoise, advance: Callable[[], Any]) -> tuple[Values, dict[str, Tensor]]:
    """Filter values; return the estimate of their means, the penalty of every mode and the channels' rotation."""
    mean = values.mean(tuple(range(2, values.ndim)), keepdim=True)
    rotation, _ = principal(values - mean)
    rotated = rotate(rotation.mT, values - mean)

    def variance(means: Tensor) -> Tensor:
        """Return the mean variance of the noise in each rotated channel where the values' means are known."""
        return rotate(rotation.mT.square(), noise.variance(means).mean(tuple(range(2, values.ndim)), keepdim=True))

    estimate, penalty = _whole(rotated, variance(window_means(values)))
    advance()
    for _ in range(PASSES):
        estimate = _local(rotated, estimate, variance(rotate(rotation, estimate) + mean))
        advance()
    return rotate(rotation, estimate) + mean, {"penalty": penalty, "rotation": rotation}


def _whole(values: Values, noise: Levels) -> tuple[Values, Float[Tensor, "signals channels *modes"]]:
    """Apply the Wiener filter with one learned spectrum for each channel; return its penalty too.

    ``noise`` is the noise's variance in each channel, the penalty its ratio to that of the signal.
    """
    lattice = values.shape[2:]
    margin = tuple(PADDING if n > 1 else 0 for n in lattice)
    modes = window_modes(padded := reflect(values, margin, margin))
    z = modes.adjoint(padded)
    energy = z.abs().square()
    spectrum = noise / (START.strength * START.roughness(modes)).clamp(min=PENALTY_FLOOR)
    for _ in range(ROUNDS):
        gain = spectrum / (spectrum + noise)
        ratio = gain * (gain * energy + noise) / spectrum
        spectrum = spectrum * modes.smooth(ratio, SMOOTHING_WIDTH[len(lattice)]).clamp(min=PENALTY_FLOOR)
    estimate = modes(z * (spectrum / (spectrum + noise)))
    return _inside(estimate, lattice, margin), noise / spectrum


def _local(values: Values, pilot: Values, noise: Levels) -> Values:
    """Apply a Wiener filter in overlapping windows, with a pilot estimate's energies as the signal's variances.

    ``noise`` is the noise's variance in each channel.
    """
    lattice = tuple(values.shape[2:])
    shape = window_shape(lattice)
    hops = [max(1, b // OVERLAP) for b in shape]
    margin = tuple(b - 1 if b > 1 else 0 for b in shape)
    longer = [-(-(n + m) // b) * b + b for n, m, b in zip(lattice, margin, shape, strict=True)]
    after = tuple(p - n - m for p, n, m in zip(longer, lattice, margin, strict=True))
    noisy, known = (reflect(f, margin, after) for f in (values, pilot))
    window = window_root(shape).to(values)
    total, cover = torch.zeros_like(noisy), torch.zeros_like(noisy[:1, :1])
    for shifts in itertools.product(*(range(0, b, h) for b, h in zip(shape, hops, strict=True))):
        tiles, guess = side_by_side(noisy, shape, shifts), side_by_side(known, shape, shifts)
        flat = (-1, *tiles.shape[-len(shape) - 1 :])
        noisy_tiles, guess = (tiles * window).reshape(flat), (guess * window).reshape(flat)
        modes = window_modes(guess)
        variance = modes.smooth(modes.adjoint(guess).abs().square(), LOCAL_WIDTH).clamp(min=0)
        filtered = modes(modes.adjoint(noisy_tiles) * (variance / (variance + noise))) * window
        side_by_side(total, shape, shifts).add_(filtered.reshape(tiles.shape))
        side_by_side(cover, shape, shifts).add_(window.square())
    return _inside(total / cover.clamp(min=PENALTY_FLOOR), lattice, margin)


def _inside(f: Tensor, lattice: tuple[int, ...], margin: tuple[int, ...]) -> Tensor:
    """Cut the lattice out of a padded one with a margin before it."""
    return f[..., *(slice(m, m + n) for n, m in zip(lattice, margin, strict=True))]


def _expected_error(values: Values, estimate: Values, derivative: Values, noise: ClippedNoise, *, given: bool) -> float:
    """Return Stein's unbiased estimate of the mean squared error, |f(y) - y|² - v + 2 v div f per sample.

    ``derivative`` is the difference quotient along random signs, whose mean is the divergence. An error of a few
    hundredths in v is as large as the whole risk of a smooth picture. If v was estimated, or values were clipped, the
    result is therefore the geometric mean with the risk of an ideal Wiener filter, v div f.
    """
    gain, variance = noise.gain(estimate), noise.variance(estimate)
    ideal = max(float((gain * variance * derivative).mean()), 1e-12)
    stein = max(float((gain * ((estimate - values).square() - variance)).mean()) + 2 * ideal, ideal)
    return stein if given and not any(noise.clips) else math.sqrt(stein * ideal)


def _psnr(error: float | None) -> float | None:
    return None if error is None else -10 * math.log10(error)
