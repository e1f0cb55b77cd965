"""The adaptive Wiener filter: one learned spectrum for the full signal, then spectra of windows that overlap."""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings import FourierEncoding
from coordnet.linalg.borders import reflect
from coordnet.linalg.kronecker import outer_product
from coordnet.linalg.operators import rotate
from coordnet.plans.modes import FourierModes
from coordnet.priors.adaptive.spectrum import PENALTY_FLOOR, growth
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.axes import Axis
from coordnet.sampling.noise_model import NoiseModel

LEARNING_ROUNDS = 30  # rounds in which the spectrum of the whole signal is learned
PADDING = 16  # reflected samples beyond every border
PASSES = 2  # local filters in a row; each takes its spectra from the estimate before it
LOCAL_WIDTH = 0.7  # deviation in modes of a local spectrum's smoothing; photographs lose 0.2 dB if wider, 0.1 without
START = Smoothness(1.5, 0.03)  # the spectrum before the first round
WINDOW_SIDES = {1: 512, 2: 32, 3: 16, 4: 8}  # samples along each axis of a window, by the number of axes
COVER = 4  # windows that cover a sample, along an axis

Values = Float[Tensor, "signals channels *lattice"]
Levels = Float[Tensor, "signals channels *ones"]  # a number for each channel, or each of its modes


def wiener_filter(
    values: Values,
    variance_at: Callable[[Tensor], Tensor],
    advance: Callable[[], Any],
    model: NoiseModel = NoiseModel(),  # noqa: B008
) -> tuple[Values, dict[str, Tensor]]:
    """Apply a Wiener filter with the signal's own spectrum, then filters of windows with spectra of their own.

    Channels are rotated to the eigenvectors of their covariance. The variance P of every mode of the reflected
    signal is learned in rounds of expectation-maximization: they multiply it by its ``growth`` for the posterior
    moments |gz|² + gs² with the gain g = P / (P + s²), where s² is the noise's variance, which ``variance_at`` returns
    for the values' means, times the spectrum of the ``model`` if it has one. The energies of the filtered signal in
    overlapping windows are then the variances of a filter in each window, ``PASSES`` times. The result is the estimate
    of the values' means, with the penalty of every mode and the channels' rotation; ``advance`` is called after each
    filter.
    """
    mean = values.mean(tuple(range(2, values.ndim)), keepdim=True)
    rotation, _ = principal(values - mean)
    rotated = rotate(rotation.mT, values - mean)

    def variance(means: Tensor, lattice: tuple[int, ...]) -> Tensor:
        """Return the mean variance of the noise in each rotated channel, and mode of a lattice if it has a spectrum."""
        level = variance_at(means).mean(tuple(range(2, values.ndim)), keepdim=True)
        if model.spectrum is None:
            return rotate(rotation.mT.square(), level)
        power = torch.einsum("ic,ij...,jc->c...", rotation[0], model.on_grid(lattice).to(level), rotation[0])
        return level.mean(1, keepdim=True) * power[..., : lattice[-1] // 2 + 1].clamp(min=PENALTY_FLOOR)

    lattice = tuple(values.shape[2:])
    estimate, penalty = _whole(rotated, variance(window_means(values), padded_shape(lattice)))
    advance()
    for _ in range(PASSES):
        means = rotate(rotation, estimate) + mean
        by_place = None if model.kind == "none" else variance_at(means).mean(1, keepdim=True)
        estimate = _local(rotated, estimate, variance(means, window_shape(lattice)), by_place)
        advance()
    return rotate(rotation, estimate) + mean, {"penalty": penalty, "rotation": rotation}


def _whole(values: Values, noise: Levels) -> tuple[Values, Float[Tensor, "signals channels *modes"]]:
    """Apply the Wiener filter with one learned spectrum for each channel; return its penalty too.

    ``noise`` is the noise's variance in each channel, the penalty its ratio to that of the signal.
    """
    lattice = values.shape[2:]
    margin = tuple((m - n) // 2 for n, m in zip(lattice, padded_shape(tuple(lattice)), strict=True))
    modes = window_modes(padded := reflect(values, margin, margin))
    z = modes.adjoint(padded)
    energy = z.abs().square()
    spectrum = noise / (START.strength * START.roughness(modes)).clamp(min=PENALTY_FLOOR)
    for _ in range(LEARNING_ROUNDS):
        gain = spectrum / (spectrum + noise)
        moments = gain * (gain * energy + noise)
        spectrum = spectrum * growth(modes, moments, spectrum).clamp(min=PENALTY_FLOOR)
    estimate = modes(z * (spectrum / (spectrum + noise)))
    return _inside(estimate, lattice, margin), noise / spectrum


def _local(
    values: Values, pilot: Values, noise: Levels, by_place: Float[Tensor, "signals 1 *lattice"] | None = None
) -> Values:
    """Apply a Wiener filter in overlapping windows, with a pilot estimate's energies as the signal's variances.

    ``noise`` is the noise's variance in each channel. Where it differs ``by_place``, a window has the mean there.
    """
    lattice = tuple(values.shape[2:])
    shape = window_shape(lattice)
    hops = [max(1, b // COVER) for b in shape]
    margin = tuple(b - 1 if b > 1 else 0 for b in shape)
    longer = [-(-(n + m) // b) * b + b for n, m, b in zip(lattice, margin, shape, strict=True)]
    after = tuple(p - n - m for p, n, m in zip(longer, lattice, margin, strict=True))
    noisy, known = (reflect(f, margin, after) for f in (values, pilot))
    window = window_root(shape).to(values)
    relative = None if by_place is None else reflect(by_place / by_place.mean(), margin, after)
    total, cover, modes = torch.zeros_like(noisy), torch.zeros_like(noisy[:1, :1]), window_modes(window[None, None])
    for shifts in itertools.product(*(range(0, b, h) for b, h in zip(shape, hops, strict=True))):
        tiles, guess = side_by_side(noisy, shape, shifts), side_by_side(known, shape, shifts)
        flat = (-1, *tiles.shape[-len(shape) - 1 :])
        noisy_tiles, guess = (tiles * window).reshape(flat), (guess * window).reshape(flat)
        variance = modes.smooth(modes.adjoint(guess).abs().square(), LOCAL_WIDTH).clamp(min=0)
        level = noise
        if relative is not None:
            means = side_by_side(relative, shape, shifts).mean(tuple(range(-len(shape), 0)), keepdim=True)
            level = noise * means.reshape(-1, 1, *(1,) * len(shape))
        filtered = modes(modes.adjoint(noisy_tiles) * (variance / (variance + level))) * window
        side_by_side(total, shape, shifts).add_(filtered.reshape(tiles.shape))
        side_by_side(cover, shape, shifts).add_(window.square())
    return _inside(total / cover.clamp(min=PENALTY_FLOOR), lattice, margin)


def padded_shape(lattice: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths of a lattice with ``PADDING`` at both ends of each axis that is longer than 1."""
    return tuple(n + 2 * PADDING if n > 1 else n for n in lattice)


def _inside(f: Tensor, lattice: tuple[int, ...], margin: tuple[int, ...]) -> Tensor:
    """Cut the lattice out of a padded one with a margin before it."""
    return f[..., *(slice(m, m + n) for n, m in zip(lattice, margin, strict=True))]


def window_shape(lattice: tuple[int, ...]) -> tuple[int, ...]:
    """Return a window's length along each axis: a multiple of the overlap, or 1 on an axis too short for one."""
    size = WINDOW_SIDES[len(lattice)]
    return tuple(min(size, n // COVER * COVER) if n >= 2 * COVER else 1 for n in lattice)


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
    shape = tuple(max(1, length // COVER) for length in window_shape(tuple(values.shape[2:])))
    parts = side_by_side(values, shape, (0,) * len(shape))
    return parts.mean(tuple(range(-len(shape), 0))).movedim(-1, 0).unsqueeze(0)
