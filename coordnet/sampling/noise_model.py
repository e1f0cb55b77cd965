"""The noise of a signal: a power spectrum, and a variance that is affine in the signal."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet import _checks

MIN_RATIO = 1e-4  # smallest eigenvalue of a patch's covariance relative to their mean, so that it has a root
FINE_GRID = 8  # number of frequencies on an axis that stand for those of a spectrum with a single one
PSD_ROUNDING = 1e-6  # negative part of a spectrum relative to its mean that counts as rounding

NoiseKind = Literal["none", "white", "colored", "camera", "Rician"]


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """Gaussian noise of variance ``floor + gain * x`` at a value x, with a power spectrum of its own.

    The noise is (floor + gain x)^(1/2) times a stationary process, whose power spectrum has the mean 1. Poisson noise
    of counts has a gain, read noise a floor (Foi, Trimeche, Katkovnik and Egiazarian, "Practical Poissonian-Gaussian
    noise modeling and fitting for single-image raw-data", 2008).

    Attributes
    ----------
    spectrum : (channels, channels, *window), optional
        The power spectrum at the frequencies of ``torch.fft.fftn`` on a window, a symmetric matrix of the channels at
        each: white noise, alike and independent in all channels, if not given. It is scaled to a mean diagonal of 1,
        and the variance by the same factor.
    gain : float
        The variance per unit of the signal.
    floor : float
        The variance at 0.
    negative : bool
        Whether the gain is that of the signal's negative, 1 - x: so it is in pictures in [0, 1] that are stored by a
        gamma curve, which stretches what is dark together with its noise.
    magnitude : bool
        Whether the signal has the magnitudes of complex numbers with such noise on both of their parts, as images of
        magnetic resonance: Rician noise, which is white and whose mean is not 0 (Gudbjartsson and Patz, "The Rician
        distribution of noisy MRI data", 1995).

    Raises
    ------
    ValueError
        If the spectrum is of another shape, negative or zero, the gain or the floor is negative, or a model of
        magnitudes has a spectrum or a gain or is of the negative.
    """

    spectrum: Tensor | None = None  # (channels, channels, *window); another shape is refused
    gain: float = 0.0
    floor: float = 0.0
    magnitude: bool = False
    negative: bool = False

    def __post_init__(self) -> None:
        scale = 1.0
        if self.magnitude and (self.gain or self.negative or self.spectrum is not None):
            raise _checks.wrong("magnitude", "False for noise with a spectrum or a gain, or of the negative", "True")
        if self.spectrum is not None:
            spectrum, scale = _scaled(self.spectrum)
            object.__setattr__(self, "spectrum", spectrum)
        object.__setattr__(self, "gain", scale * _checks.nonnegative("gain", self.gain))
        object.__setattr__(self, "floor", scale * _checks.nonnegative("floor", self.floor))

    @property
    def kind(self) -> NoiseKind:
        """The name of the noise: a camera's depends on the signal, and colored noise has a spectrum."""
        if self.gain > 0:
            return "camera"
        if self.floor == 0:
            return "none"
        if self.magnitude:
            return "Rician"
        return "white" if self.spectrum is None else "colored"

    @property
    def is_white_in_space(self) -> bool:
        """Whether the noise of different samples is independent: that of their channels may correlate."""
        return self.spectrum is None or self.spectrum[0, 0].numel() == 1

    @property
    def fine_share(self) -> float:
        """The share of the power at frequencies above half of the highest on some axis."""
        if self.spectrum is None:
            return math.nan
        power = self.spectrum.diagonal(dim1=0, dim2=1).mean(-1)
        power = power.expand([n if n > 1 else FINE_GRID for n in power.shape])
        lines = [torch.fft.fftfreq(n, dtype=torch.float64).abs() > 0.25 for n in power.shape]
        fine = torch.stack(torch.meshgrid(*lines, indexing="ij")).any(0)
        return float(power[fine].sum() / power.sum())

    def __str__(self) -> str:
        """Return the noise in words: its standard deviation, or how its variance depends on the signal."""
        if self.kind == "none":
            return "no noise"
        words = f"{self.kind} noise of standard deviation {self.floor**0.5:.4g}"
        if self.gain > 0:
            of = "(1 - x)" if self.negative else "x"
            words = f"a camera's noise of variance {self.floor:.2g} + {self.gain:.2g} {of} at a value x"
        if self.spectrum is not None and self.is_white_in_space:
            return f"{words}, white and in part the same in all channels"
        return words if self.spectrum is None else f"{words}, {100 * self.fine_share:.0f} % of it in fine detail"

    def in_units(self, units: float) -> "NoiseModel":
        """Return the noise of a signal that was divided by some units before."""
        return replace(self, gain=units * self.gain, floor=units * units * self.floor)

    def variance(self, values: Tensor) -> Tensor:
        """Return the variance of the noise on some values, which is that of 0 below it, or of 1 above it."""
        return self.floor + self.gain * (1 - values if self.negative else values).clamp(min=0)

    def weights(self, means: Tensor) -> Tensor:
        """Return the weights of samples with some means: their mean variance relative to that of each.

        The means come from a signal that was smoothed. With the noisy samples in their place, those that happen to be
        dark would have too much weight. A ``ValueError`` is raised where some of the variances are 0.
        """
        variance = self.variance(means)
        if not bool((variance > 0).all()):
            raise _checks.wrong("floor", "a variance of more than 0 at all means", f"{self.floor:g}")
        return variance.mean() / variance

    @cached_property
    def autocovariance(self) -> Float[Tensor, "channels channels *window"]:
        """The covariance of the process at every lag, by inverse Fourier transforms of the spectrum."""
        assert self.spectrum is not None, "noise with a spectrum"
        return torch.fft.ifftn(self.spectrum, dim=tuple(range(2, self.spectrum.ndim))).real

    def evened(self, share: float) -> "NoiseModel":
        """Return the model whose power in every combination of channels is at least a share of the largest there.

        Demosaicing and compression remove details of colors with their noise: where a channel seems to be free of
        noise, it says little of the signal.
        """
        if self.spectrum is None:
            return self
        values, vectors = torch.linalg.eigh(self.spectrum.movedim((0, 1), (-2, -1)))
        values = torch.maximum(values, share * values[..., -1:])
        spectrum = (vectors * values.unsqueeze(-2) @ vectors.mT).movedim((-2, -1), (0, 1))
        return replace(self, spectrum=spectrum)

    @property
    def halved(self) -> "NoiseModel":
        """The noise, with a spectrum, of a signal of half the length on each axis: that at the lowest frequencies."""
        assert self.spectrum is not None, "noise with a spectrum"
        spectrum, share = self.spectrum, 0.5 ** (self.spectrum.ndim - 2)
        for axis, n in enumerate(spectrum.shape[2:], start=2):
            f = torch.fft.fftfreq(n, dtype=torch.float64)
            spectrum = spectrum[(slice(None),) * axis + ((f >= -0.25) & (f < 0.25),)]
        return replace(self, spectrum=spectrum, gain=share * self.gain, floor=share * self.floor)

    def of_channels(self, chosen: Bool[Tensor, " channels"]) -> "NoiseModel":
        """Return the noise of some channels, which is the same in all without a spectrum; none where they have none."""
        if self.spectrum is None:
            return self
        spectrum = self.spectrum[chosen][:, chosen]
        return replace(self, spectrum=spectrum) if bool(spectrum.any()) else NoiseModel()

    def on_grid(self, grid: tuple[int, ...]) -> Float[Tensor, "channels channels *grid"]:
        """Return the spectrum at the frequencies of a grid: the transform of the autocovariance within the window."""
        lags = self._at_lags(grid)
        return torch.fft.fftn(lags, dim=tuple(range(2, lags.ndim))).real

    def covariance(
        self, patch: tuple[int, ...], vector: Float[Tensor, " channels"] | None = None
    ) -> Float[Tensor, "size size"]:
        """Return the covariance of a patch's entries, channel after channel: Toeplitz blocks of ``autocovariance``.

        With a ``vector`` it is that of the channels' sum with these weights. Entries that lie further apart than the
        window reaches are uncorrelated.
        """
        grids = torch.meshgrid(*(torch.arange(n) for n in patch), indexing="ij")
        places = torch.stack(grids).flatten(1)
        lags = (places.unsqueeze(2) - places.unsqueeze(1)).unbind(0)
        lagged = self._at_lags(tuple(2 * n for n in patch))
        if vector is not None:
            weights = vector.to(lagged)
            lagged = torch.einsum("i,ij...,j->...", weights, lagged, weights)[None, None]
        blocks = lagged[(slice(None), slice(None), *lags)]
        size = blocks.shape[0] * math.prod(patch)
        full = blocks.permute(0, 2, 1, 3).reshape(size, size)
        return (full + full.mT) / 2

    def _at_lags(self, grid: tuple[int, ...]) -> Float[Tensor, "channels channels *grid"]:
        """Return the autocovariance at the lags of a grid that goes around, 0 at those beyond the window."""
        lagged = self.autocovariance.new_zeros(*self.autocovariance.shape[:2], *grid)
        kept = [(min(n, m) - 1) // 2 for n, m in zip(grid, self.autocovariance.shape[2:], strict=True)]
        lags = torch.meshgrid(*(torch.arange(-k, k + 1) for k in kept), indexing="ij")
        at = (slice(None), slice(None), *lags)
        lagged[at] = self.autocovariance[at]
        return lagged

    def roots(
        self, patch: tuple[int, ...], vector: Float[Tensor, " channels"] | None = None
    ) -> tuple[Float[Tensor, "size size"], Float[Tensor, "size size"]]:
        """Return the symmetric root of a patch's ``covariance`` and the root's inverse.

        The covariance's eigenvalues are taken as at least ``MIN_RATIO`` of their mean.
        """
        values, vectors = torch.linalg.eigh(self.covariance(patch, vector).double())
        root = values.clamp(min=MIN_RATIO * float(values.mean())).sqrt()
        return vectors * root @ vectors.mT, vectors / root @ vectors.mT

    def process(self, grid: tuple[int, ...], channels: int, generator: torch.Generator) -> Float[Tensor, "*grid c"]:
        """Draw the stationary process on a grid, which it goes around: the variance 1 in the mean over channels."""
        white = torch.randn(*grid, channels, generator=generator, dtype=torch.float64)
        if self.spectrum is None:
            return white
        axes = tuple(range(len(grid)))
        values, vectors = torch.linalg.eigh(self.on_grid(grid).movedim((0, 1), (-2, -1)))
        root = (vectors * values.clamp(min=0).sqrt().unsqueeze(-2)) @ vectors.mT
        modes = torch.fft.fftn(white, dim=axes).unsqueeze(-1)
        return torch.fft.ifftn((root.to(modes) @ modes)[..., 0], dim=axes).real


def _scaled(spectrum: Tensor) -> tuple[Tensor, float]:
    """Return a spectrum of mean diagonal 1 and the factor that it was divided by, after it was checked."""
    if spectrum.ndim < 3 or spectrum.shape[0] != spectrum.shape[1]:
        raise _checks.wrong("spectrum", "the shape (channels, channels, *window)", tuple(spectrum.shape))
    spectrum = spectrum.detach().double().cpu()
    spectrum = (spectrum + spectrum.transpose(0, 1)) / 2
    scale = float(spectrum.diagonal(dim1=0, dim2=1).mean())
    if not 0 < scale < math.inf:
        raise _checks.wrong("spectrum", "finite power, more than 0 in the mean", f"{scale:g}")
    least = float(torch.linalg.eigvalsh(spectrum.movedim((0, 1), (-2, -1))).min())
    if least < -PSD_ROUNDING * scale:
        raise _checks.wrong("spectrum", "no negative power", f"{least:g}")
    return spectrum / scale, scale
