"""The spectrum of a signal's noise, and its variance against brightness, from windows of the signal itself.

The energies of a window's modes are exponential variables, whose means are the noise's spectrum, which all windows
share but for its variance there, plus power laws that each window has to an extent of its own. Both are found by the
multiplicative updates of a factorization in the divergence of Itakura and Saito, which increase the likelihood
(Févotte, Bertin and Durrieu, "Nonnegative matrix factorization with the Itakura-Saito divergence", 2009).
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import nnls
from torch import Tensor

from coordnet.noise.windows import Windows, misfit, squared_frequencies
from coordnet.sampling.noise_model import NoiseModel

POWERS = (2.0, 4.0)  # the signal's energy in a window falls as these powers of the frequency
SPECTRUM_ROUNDS = 5  # rounds in which windows are chosen by the spectrum, and the spectrum is found in these windows
UPDATES = 10  # multiplicative updates of the windows' own energies in a row
LEAST_UPDATE = 1e-3  # factor of an update at least, so that windows without any energy keep some variance
SHARES = (0.15, 0.05)  # share of the windows that is taken for flat: where the signal varies little, and most
FEWEST_WINDOWS = 24  # windows from which a spectrum is found
LOWEST = 0.1  # quantile of the energies from which the spectrum starts
LEAST_ENERGY = 1e-9  # energy of a mode relative to the channel's mean; JPEG leaves 0, of which no factor is positive
TINY = 1e-2  # power relative to the mean, below which frequencies count little for the choice of windows
SMOOTHING_WIDTH = 0.6  # deviation in modes of the spectrum's smoothing where the signal hides the noise
# Ratio of the variances where the signal is bright and dark above which noise depends on the signal. With 1.15 white
# noise beside bars seems to, in 2 of 24 draws, and with 1.2 in none.
RISE = 1.25
EXPLAINED = 0.6  # share of the differences of the variances that a line may leave
BINS = 8  # parts of the range of brightness
MISFIT = 2.0  # weight of the misfit of a window beside the share of its signal
BIN_WINDOWS = 16  # windows in each part at least
BEYOND = 1.25  # parts whose variance is larger than the line by this factor have texture, and count little
DECONVOLUTIONS = 40  # updates that free the spectrum from the windows' taper
# Cycles per window between which windows show the spectrum of the noise. Below, the power laws take most of it in
# pictures: of noise filtered by a Gaussian of 0.6 to 0.8 pixels 10 to 40 % of the power was found there.
SHOWN_MODES = (2.08, 4.8)
FAINT = 0.1  # power relative to the largest that is shown, below which a frequency counts little for what is not shown
UNCORRELATED = 1e-6  # covariance of rotated channels relative to the largest power, as by rounding
MOST_RAISED = 2.0  # power to which the lowest frequencies are raised at most, relative to the largest that is shown

Energies = Float[Tensor, "windows modes"]


@dataclass(frozen=True)
class Factors:
    """The factorization of one channel's energies: v P of the noise, and the power laws' energies."""

    energy: Energies
    variance: Float[Tensor, " windows"]
    spectrum: Float[Tensor, " modes"]
    laws: Float[Tensor, "laws modes"]
    extents: Float[Tensor, "windows laws"]

    @property
    def noise(self) -> Energies:
        """The expected energies of the noise."""
        return self.variance.unsqueeze(1) * self.spectrum

    @property
    def signal(self) -> Energies:
        """The expected energies of the signal."""
        return self.extents @ self.laws

    def at(self, rows: Int[Tensor, " rows"]) -> "Factors":
        """Return the part of some windows."""
        parts = {name: getattr(self, name)[rows] for name in ("energy", "variance", "extents")}
        return replace(self, **parts)

    def explained(self, updates: int = UPDATES) -> "Factors":
        """Return the factors with the windows' own energies fitted to a spectrum of the noise that stays."""
        extents, noise = self.extents, self.noise
        for _ in range(updates):
            precision = torch.addmm(noise, extents, self.laws).reciprocal_()
            weighted = (self.energy * precision).mul_(precision)
            extents = extents * (weighted @ self.laws.mT / (precision @ self.laws.mT)).clamp(max=10)
        return replace(self, extents=extents)

    def learned(self) -> "Factors":
        """Return the factors with both parts fitted."""
        made, v = self, self.variance.unsqueeze(1)
        for _ in range(2 * UPDATES):
            mean = made.noise + made.signal
            spectrum = made.spectrum * (v * made.energy / mean.square()).sum(0) / (v / mean).sum(0)
            made = replace(made, spectrum=spectrum).explained(1)
        return made

    def scores(self) -> tuple[Float[Tensor, " windows"], Float[Tensor, " windows"]]:
        """Return the share of the signal in each window relative to the noise, and how its energy fits both."""
        weight = self.spectrum / (self.spectrum + TINY * self.spectrum.mean())
        weight = weight / weight.sum()
        noise, signal = self.noise, self.signal
        return signal / noise @ weight, self.energy / (noise + signal) @ weight


@dataclass(frozen=True)
class Line:
    """The variance of the noise against brightness, relative to the spectrum's: ``floor + gain * x``."""

    floor: float = 1.0
    gain: float = 0.0
    brightness: tuple[float, ...] = ()  # means of the flat windows, by parts of the range of brightness
    variances: tuple[float, ...] = ()  # those that were found there

    def __call__(self, brightness: Tensor) -> Tensor:
        """Return the variance at some brightness, of at least a thousandth of the mean."""
        variance = self.floor + self.gain * brightness
        return variance.clamp(min=1e-3 * float(variance.mean().clamp(min=1e-9)))

    @property
    def level(self) -> "Line":
        """The line without a gain, at the mean of what was found."""
        return replace(self, floor=float(np.mean(self.variances)) if self.variances else self.floor, gain=0.0)

    def rises(self, means: Tensor) -> bool:
        """Return whether the variance surely grows with the brightness, of which the windows' means are given."""
        if len(self.variances) < 3 or self.gain == 0:
            return False
        dark, bright = means.mean(1).quantile(torch.tensor([0.1, 0.9]).to(means)).tolist()
        x, y = np.array(self.brightness), np.log(self.variances)
        left = np.abs(y - np.log(self.floor + self.gain * np.maximum(x, 0))).mean()
        rise = (self.floor + self.gain * max(bright, 0)) / (self.floor + self.gain * max(dark, 0) + 1e-12)
        return bool(rise > RISE and left < EXPLAINED * np.abs(y - np.median(y)).mean())

    @classmethod
    def through(cls, points: list[tuple[float, float, int, int]]) -> "Line":
        """Fit a line of nonnegative floor and gain to brightness, variance, count and channel, by relative errors.

        The variances of each channel are relative to its own spectrum, and have a factor of their own, 1 in the
        geometric mean: only the differences within channels tell how the variance depends on brightness. Half of the
        variances lie above the line: those of noise that is multiplied, which grow as squares, would mostly do.
        """
        x, y, count, channel = torch.tensor(points, dtype=torch.float64).unbind(1)
        x, own = x.clamp(min=0), torch.nn.functional.one_hot(channel.long()).double()
        weight, factor = count.sqrt(), torch.ones_like(y)
        floor, gain = 1.0, 0.0
        for _ in range(UPDATES):
            rows = factor.unsqueeze(1) * torch.stack([torch.ones_like(x), x], 1) / y.unsqueeze(1)
            floor, gain = nnls((weight.unsqueeze(1) * rows).numpy(), weight.numpy())[0].tolist()
            ratio = y / (floor + gain * x).clamp(min=1e-12)
            weight = count.sqrt() * torch.where(ratio > BEYOND * factor, 0.1, 1.0)
            means = (own * weight.unsqueeze(1)).mT @ ratio.log() / (own.mT @ weight)
            factor = (own @ (means - means.mean())).exp()
        found = y / factor
        middle = float((found / (floor + gain * x).clamp(min=1e-12)).quantile(0.5))
        return cls(middle * floor, middle * gain, tuple(x.tolist()), tuple(found.tolist()))


@dataclass(frozen=True)
class NoiseFactors:
    """The spectra of the rotated channels as the windows see them, and the variance against brightness."""

    spectra: Float[Tensor, "channels modes"]
    line: Line
    misfit: float  # that of the flattest windows of the first channel, where windows show the noise; see ``misfit``


def factors_of(windows: Windows) -> NoiseFactors:
    """Factorize the energies of a signal's windows; see the module."""
    energy = windows.modes.abs().square()
    level = energy.mean().clamp(min=torch.finfo(energy.dtype).tiny).log2().floor().exp2()  # divides without rounding
    energy = (energy / level).float()  # takes half the time; without the level the squares of faint ones are 0
    energy = torch.maximum(energy, LEAST_ENERGY * energy.mean((0, 2), keepdim=True))
    flat = windows.seen.sum(1).float()
    laws = torch.stack([windows.frequency**-p for p in POWERS]) @ windows.seen.mT
    laws = (laws / laws.mean(1, keepdim=True)).float()
    brightness = (windows.means @ windows.rotation.square()).float()
    parts = _parts(windows.means.mean(1))
    start = torch.quantile(energy, LOWEST, dim=0) / -torch.log(torch.tensor(1 - LOWEST))
    spectra = _smoothed(start / flat, torch.ones_like(start), windows.shape) * flat
    line, chosen = Line(), []
    for number in range(SPECTRUM_ROUNDS):
        factors = []
        for c, spectrum in enumerate(spectra):
            extents = 1e-2 * energy[:, c].mean(1, keepdim=True).expand(-1, len(POWERS))
            factors.append(Factors(energy[:, c], line(brightness[:, c]), spectrum, laws, extents).explained())
        if number:
            learned = [f.at(rows).learned() for f, rows in zip(factors, chosen, strict=True)]
            trust = torch.stack([(f.noise / (f.noise + f.signal)).square().mean(0) for f in learned])
            spectra = _smoothed(torch.stack([f.spectrum for f in learned]) / flat, trust, windows.shape) * flat
            factors = [replace(f, spectrum=s).explained() for f, s in zip(factors, spectra, strict=True)]
            line = _line(factors[: max(1, len(factors) - 1)], chosen, brightness, parts)
        shares = [SHARES[c == len(spectra) - 1 and c > 0] for c in range(len(spectra))]
        chosen = [_flattest(f, parts, share) for f, share in zip(factors, shares, strict=True)]
    flattest = factors[0].at(chosen[0])
    unlike = misfit((flattest.energy / flattest.noise)[:, _is_shown(windows.radius, windows.shape)])
    return NoiseFactors(level * spectra.double(), line, unlike)


def _parts(brightness: Float[Tensor, " windows"]) -> list[Int[Tensor, " rows"]]:
    """Return the numbers of the windows in equal parts by brightness."""
    return list(brightness.argsort().chunk(min(BINS, max(1, len(brightness) // BIN_WINDOWS))))


def _flattest(factors: Factors, parts: list[Tensor], share: float) -> Int[Tensor, " rows"]:
    """Return the windows of each part with the least share of the signal that fit as the part's others do."""
    fewest, (signal, fit) = -(-FEWEST_WINDOWS // len(parts)), factors.scores()
    chosen = []
    for rows in parts:
        scores = signal[rows] + MISFIT * (fit[rows] / fit[rows].median() - 1).abs()
        chosen.append(rows[scores.argsort()[: max(fewest, int(share * len(rows)))]])
    return torch.cat(chosen)


def _line(factors: list[Factors], chosen: list[Tensor], brightness: Tensor, parts: list[Tensor]) -> Line:
    """Return the line through the variances that are most likely in each part of the range of brightness."""
    points = []
    for c, (f, rows) in enumerate(zip(factors, chosen, strict=False)):
        for part in parts:
            kept = rows[torch.isin(rows, part)]
            some, scale = f.at(kept), 1.0
            for _ in range(UPDATES):
                noise = scale * some.noise
                mean = noise + some.signal
                likelier = float((noise * some.energy / mean.square()).sum() / (noise / mean).sum())
                scale *= max(likelier, LEAST_UPDATE)
            points.append((float(brightness[kept, c].mean()), scale * float(some.variance.mean()), len(kept), c))
    return Line.through(points)


def _smoothed(spectra: Tensor, trust: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return spectra whose logarithm is smoothed over neighboring modes as far as they are not trusted."""
    weight, log = trust + 1e-6, spectra.clamp(min=1e-30).log()

    def blurred(x: Float[Tensor, "channels modes"]) -> Tensor:
        full = torch.cat([torch.zeros_like(x[:, :1]), x], 1).reshape(-1, *shape)
        for axis, n in enumerate(shape, start=1):
            i = torch.arange(n)
            kernel = torch.exp(-torch.minimum(i, n - i).float().square() / (2 * SMOOTHING_WIDTH**2))
            gain = torch.fft.fft(kernel / kernel.sum()).real.reshape(-1, *(1,) * (len(shape) - axis))
            full = torch.fft.ifft(torch.fft.fft(full, dim=axis) * gain, dim=axis).real
        return full.flatten(1)[:, 1:]

    smooth = blurred(weight * log) / blurred(weight).clamp(min=1e-12)
    return (trust * log + (1 - trust) * smooth).exp()


def deconvolved(
    spectra: Float[Tensor, "c modes"],
    seen: Float[Tensor, "modes frequencies"],
    start: Float[Tensor, "c frequencies"] | None = None,
) -> Float[Tensor, "c frequencies"]:
    """Return the power at every frequency that the windows see as some spectra, by Richardson's and Lucy's updates.

    They start from a constant power if none is given.
    """
    power = spectra.mean(1, keepdim=True).expand(-1, seen.shape[1]) if start is None else start
    for _ in range(DECONVOLUTIONS):
        power = power * ((spectra / (power @ seen.mT).clamp(min=1e-30)) @ seen) / seen.sum(0)
    return power


def completed(model: NoiseModel, windows: Windows) -> NoiseModel:
    """Return the colored noise of a signal, whose power at the lowest frequencies follows from that above.

    The spectra of the rotated channels, which are uncorrelated, are at most what their ``quadratic`` leads to, where
    windows saw them, since textures have most of their power there. Freed from the windows' taper they are at least
    that, since the power laws take some of the noise. Those of demosaiced noise, which correlate, are known at all
    frequencies.
    """
    spectrum, rotation = model.spectrum, windows.rotation
    if spectrum is None:
        return model
    grid = tuple(spectrum.shape[2:])
    covariance = torch.einsum("ic,ijf,jd->fcd", rotation, spectrum.flatten(2), rotation)
    power = covariance.diagonal(dim1=1, dim2=2)
    if float((covariance - torch.diag_embed(power)).abs().max()) > UNCORRELATED * float(power.max()):
        return model
    power = power.clamp(min=LEAST_ENERGY * float(power.mean())).mT
    flat, squares = windows.seen.sum(1), squared_frequencies(windows.shape)[1:]
    seen = power @ windows.seen.mT / flat
    shown, is_low = _is_shown(windows.radius, windows.shape), _is_low(windows.radius, windows.shape)
    bounded = torch.where(is_low, torch.minimum(seen, quadratic(seen, squares, shown)), seen)
    power, squares = deconvolved(bounded * flat, windows.seen, power), squared_frequencies(grid)
    radius = squares.sum(1).sqrt()
    shown, is_low = _is_shown(radius, windows.shape), _is_low(radius, windows.shape)
    least = torch.minimum(quadratic(power, squares, shown), MOST_RAISED * power[:, shown].amax(1, keepdim=True))
    power = torch.where(is_low, torch.maximum(power, least), power)
    return replace(model, spectrum=torch.einsum("ic,cf,jc->ijf", rotation, power, rotation).unflatten(2, grid))


def quadratic(
    power: Float[Tensor, "c modes"], squares: Float[Tensor, "modes axes"], shown: Bool[Tensor, " modes"]
) -> Float[Tensor, "c modes"]:
    """Return what power spectra at some squared frequencies lead to from those that windows show.

    The logarithm of the power of noise that was filtered over a short range is smooth, and that of a Gaussian filter is
    quadratic, also beneath a taper: a polynomial a + Σ b f² is fitted by least squares where windows show the noise.
    """
    terms = torch.cat([torch.ones_like(squares[:, :1]), squares], 1)
    found = power[:, shown]
    weight = (found / (found + FAINT * found.amax(1, keepdim=True))).sqrt().unsqueeze(2)
    fit = torch.linalg.lstsq(weight * terms[shown], weight * found.log().unsqueeze(2)).solution
    return (fit[..., 0] @ terms.mT).exp()


def _is_low(radius: Float[Tensor, " modes"], shape: tuple[int, ...]) -> Bool[Tensor, " modes"]:
    return radius < SHOWN_MODES[0] / max(shape)


def _is_shown(radius: Float[Tensor, " modes"], shape: tuple[int, ...]) -> Bool[Tensor, " modes"]:
    return ~_is_low(radius, shape) & (radius <= SHOWN_MODES[1] / max(shape))
