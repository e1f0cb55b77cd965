"""The hum of the mains in a sound: lines at multiples of 50 or 60 Hz that stay as they are while the sound changes.

A line is seen in segments of the sound, whose weights are the inverse of the power beside the line: where the sound
pauses at these frequencies, the line goes on. Notes and voices begin and end, so that their amplitudes differ by
segment.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Complex, Float
from scipy.signal import resample_poly
from torch import Tensor

from coordnet.networks.noise_reports import HumReport

MAINS = (50.0, 60.0)  # Hz
# Largest relative difference from them, of the mains, of clocks and of the speed of tapes. The notes beside them at a
# concert pitch of 440 Hz, G1 and B1, differ by 2 and 3 %.
DETUNED = 0.01
HIGHEST = 1000.0  # frequency in Hz up to which harmonics are looked for
LOW_RATE = 4000.0  # least samples per second of the sound of low frequencies in which they are looked for
HIGHEST_SEEN = 0.45  # frequency in cycles per sample up to which a sound shows lines
SEGMENT = 0.5  # seconds of a segment, whose Hann window separates lines that lie 4 Hz apart
PER_SEGMENT = 4  # segments that cover a sample
BESIDE = (-3, -2, 2, 3)  # frequencies beside a line where its window does not see it, in cycles per segment
STEADY_SECONDS = 16.0  # seconds, about, in which the fundamental and the amplitudes are constant
SHORTEST = 3.0  # seconds of a sound that shows hum
QUIETEST = 0.1  # quantile of the power beside a line, half of which is added to it, so that few segments do not decide
STEPS = 8  # fundamentals that are tried in the width of the highest harmonic's line
DRIFT = 0.002  # largest relative difference of the fundamental of a block from that of the whole sound
# Least energy of a line relative to that of noise, an exponential variable: of the fundamental or twice that, which
# show that there is hum, and of the others.
FOUND, RELATED = 30.0, 10.0
# Largest variance of a line's amplitudes relative to that of the sound beside it, and the share of their energy that
# may be added to it.
EXPLAINED, UNEVEN = 3.0, 0.15
ABSENT = 0.02  # largest share of the segments in which a line would be heard and is not; tones begin and end
COHERENT = 0.3  # share of the energy of amplitudes in their mean from which on a line tells the fundamental
LEAST_REST = 0.05  # least share of the sound that is left; what is nothing but such lines is no sound with hum
REFINEMENTS = 2  # rounds in which the fundamental is found, and in which amplitudes are found

Row = Float[Tensor, "length channels"]
Amplitudes = Complex[Tensor, "harmonics channels segments"]


@dataclass(frozen=True)
class Lines:
    """The amplitudes of the multiples of a fundamental in the segments of a block of a sound."""

    start: float  # the seconds at which the block begins
    fundamental: float  # Hz
    seconds: Float[Tensor, " segments"]  # the middles of the segments
    seen: Amplitudes  # with the phases in the middle of each segment
    beside: Float[Tensor, "harmonics channels segments"]  # the largest power beside

    @classmethod
    def of(cls, row: Row, rate: float, fundamental: float, start: float) -> "Lines":
        """Return the lines of a block of ``rate`` samples per second, up to ``HIGHEST``."""
        length = round(SEGMENT * rate)
        segments = row.mT.unfold(1, length, length // PER_SEGMENT)
        around = (torch.arange(length).double() - (length - 1) / 2) / rate
        seconds = start + (torch.arange(segments.shape[1]) * (length // PER_SEGMENT) + (length - 1) / 2) / rate
        taper = 1 + torch.cos(2 * torch.pi * around * rate / length)
        offsets = torch.tensor((0, *BESIDE)) * rate / length
        made = []
        for harmonic in range(1, count_harmonics(rate, fundamental) + 1):
            waves = 2 * taper / taper.sum() * _turned(-torch.outer(harmonic * fundamental + offsets, around))
            made.append(torch.einsum("cjl,ol->ocj", segments.to(waves), waves))
        found = torch.stack(made)
        return cls(start, fundamental, seconds, found[:, 0], found[:, 1:].abs().square().amax(1))

    @property
    def harmonics(self) -> Float[Tensor, "harmonics 1 1"]:
        """The multiples of the fundamental."""
        return torch.arange(1, len(self.seen) + 1).double()[:, None, None]

    @cached_property
    def weight(self) -> Float[Tensor, "harmonics channels segments"]:
        """The inverse of the power beside, to which some is added."""
        added = 0.5 * torch.quantile(self.beside, QUIETEST, dim=-1, keepdim=True)
        return 1 / (self.beside + added + 1e-12 * self.beside.mean() + torch.finfo(torch.float64).tiny)

    @property
    def amplitudes(self) -> Amplitudes:
        """The amplitudes with the phases at 0 seconds: the same in all segments for steady lines."""
        return self.seen * _turned(-self.fundamental * self.harmonics * self.seconds)

    @property
    def means(self) -> Complex[Tensor, "harmonics channels"]:
        """The weighted means of the amplitudes."""
        return (self.weight * self.amplitudes).sum(-1) / self.weight.sum(-1)

    def evidence(self, fundamentals: Float[Tensor, " tried"]) -> Float[Tensor, " tried"]:
        """Return the logarithm of the likelihood of steady lines at the multiples of some fundamentals.

        Each harmonic has -n log(1 - R) of it, for n independent segments and the share R of the energy of their
        amplitudes in the mean, as of normal variables whose variance is not known.
        """
        step, size = float(self.seconds[1] - self.seconds[0]), 16 * len(self.seconds)
        total = self.weight.sum(-1)
        energy = (self.weight * self.seen.abs().square()).sum((1, 2))
        count = (total.square() / self.weight.square().sum(-1)).mean(1) * 2 / PER_SEGMENT
        power = torch.fft.fft(self.weight * self.seen, n=size, dim=-1).abs().square() / total.unsqueeze(-1)
        share = power.sum(1) / energy.clamp(min=torch.finfo(torch.float64).tiny).unsqueeze(1)
        at = (fundamentals * self.harmonics[:, 0] * step * size).round().long() % size
        return -(count.unsqueeze(1) * torch.log1p(-share.gather(1, at).clamp(max=1 - 1e-9))).sum(0)

    def tuned(self) -> "Lines":
        """Return the lines with the fundamental at which the phases of coherent ones do not drift."""
        made = self
        for _ in range(REFINEMENTS):
            amplitudes, means = made.amplitudes, made.means.unsqueeze(-1)
            energy = self.weight * amplitudes.abs().square()
            coherent = self.weight.sum(-1) * means[..., 0].abs().square() > COHERENT * energy.sum(-1)
            trust = self.weight * means.abs().square() * coherent.unsqueeze(-1)
            middle = (self.weight * self.seconds).sum(-1, keepdim=True) / self.weight.sum(-1, keepdim=True)
            turns = 2 * torch.pi * self.harmonics * (self.seconds - middle)
            drift = (amplitudes * means.conj()).angle().clamp(-1, 1)
            if bool(coherent.any()):
                change = float((trust * turns * drift).sum() / (trust * turns.square()).sum())
                made = replace(made, fundamental=made.fundamental + change)
        return made

    @property
    def sums(self) -> Float[Tensor, "5 harmonics"]:
        """Weighted energies: of the means and of noise in them, of the amplitudes, around their means, and beside."""
        w, a, means = self.weight, self.amplitudes, self.means
        parts = (
            (w * a).sum(-1).abs().square(),
            (w.square() * self.beside).sum(-1) * PER_SEGMENT / 2,
            (w * a.abs().square()).sum(-1),
            (w * (a - means.unsqueeze(-1)).abs().square()).sum(-1),
            (w * self.beside).sum(-1),
        )
        return torch.stack([part.sum(1) for part in parts])

    @property
    def absent(self) -> Float[Tensor, " harmonics"]:
        """The share of segments in which little else is heard, and less than half of the mean amplitude."""
        means = self.means.abs().unsqueeze(-1)
        silent = (self.amplitudes.abs() < means / 2) & (self.beside < means.square() / 16)
        return silent.double().mean((1, 2))

    def robust_means(self) -> Complex[Tensor, "harmonics channels"]:
        """Return means of the amplitudes in which those that differ most have the least weight."""
        means = self.means
        for _ in range(REFINEMENTS):
            weight = 1 / (1 / self.weight + (self.amplitudes - means.unsqueeze(-1)).abs().square())
            means = (weight * self.amplitudes).sum(-1) / weight.sum(-1)
        return means


def without_hum(row: Row, rate: float) -> tuple[Row, HumReport | None]:
    """Return a sound of ``rate`` samples per second without the hum of the mains, and the hum if there is any.

    The evidence for steady lines, summed over the sound, tells the fundamental, and which of its multiples are lines.
    One of them is the fundamental or twice that, as of rectifiers. Sounds of less than ``SHORTEST`` seconds and those
    that consist of such lines alone have none.
    """
    every = max(1, int(rate / LOW_RATE))
    if len(row) < SHORTEST * rate or count_harmonics(rate / every, max(MAINS) * (1 + DETUNED)) < 1:
        return row, None
    values = row.detach().double().cpu()
    low = torch.from_numpy(resample_poly(values.numpy(), 1, every, axis=0)) if every > 1 else values
    lines = _lines(low, rate / every)
    energy, noise, total, uneven, beside = torch.stack([block.sums for block in lines]).sum(0)
    steady = (energy > RELATED * noise) & (uneven <= EXPLAINED * beside + UNEVEN * total)
    steady &= torch.stack([block.absent for block in lines]).mean(0) <= ABSENT
    if not bool((steady & (energy > FOUND * noise))[:2].any()):
        return row, None
    rest = values - _rendered(lines, steady, row.shape, rate)
    if float(rest.square().sum()) < LEAST_REST * float(values.square().sum()):
        return row, None
    frequency = sum(block.fundamental for block in lines) / len(lines)
    return rest.to(row), HumReport(frequency=frequency, harmonics=(steady.nonzero()[:, 0] + 1).tolist())


def count_harmonics(rate: float, fundamental: float) -> int:
    """Return the number of multiples of a fundamental up to ``HIGHEST`` that samples at some rate show."""
    return int(min(HIGHEST, HIGHEST_SEEN * rate) / fundamental)


def _lines(row: Row, rate: float) -> list[Lines]:
    """Return the lines of the blocks of a sound, which overlap by a half, at the fundamental with most evidence."""
    seconds, tried = len(row) / rate, []
    number = max(1, round(2 * seconds / STEADY_SECONDS) - 1)
    hop = seconds / (number + 1)
    blocks = [(k * hop, row[round(k * hop * rate) : round((k + 2) * hop * rate)]) for k in range(number)]
    blocks = [(round(start * rate) / rate, block) for start, block in blocks]
    for mains in MAINS:
        count = count_harmonics(rate, mains)
        reach = DETUNED * mains * torch.linspace(-1, 1, 2 * int(STEPS * DETUNED * mains * 2 * hop * count) + 1)
        fundamentals = mains + reach.double()
        evidence = sum(Lines.of(block, rate, mains, start).evidence(fundamentals) for start, block in blocks)
        assert isinstance(evidence, Tensor)
        tried.append((float(evidence.max()), float(fundamentals[evidence.argmax()])))
    fundamental = max(tried)[1]
    made = []
    for start, block in blocks:
        lines = Lines.of(block, rate, fundamental, start)
        near = fundamental * (1 + DRIFT * torch.linspace(-1, 1, 401).double())
        best = float(near[lines.evidence(near).argmax()]) if number > 1 else fundamental
        made.append(replace(lines, fundamental=best).tuned())
    return made


def _rendered(lines: list[Lines], steady: Bool[Tensor, " harmonics"], shape: torch.Size, rate: float) -> Row:
    """Return the steady lines at every sample, which fade from each block to the next."""
    hop = shape[0] / rate / (len(lines) + 1)
    made, cover = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape[0], 1, dtype=torch.float64)
    for k, block in enumerate(lines):
        first, last = round(k * hop * rate), min(shape[0], round((k + 2) * hop * rate))
        seconds = torch.arange(first, last).double() / rate
        fade = (1 - (seconds / hop - k - 1).abs()).clamp(min=1e-6).unsqueeze(1)
        for harmonic, means in zip(block.harmonics[steady].flatten(), block.robust_means()[steady], strict=True):
            waves = _turned(harmonic * block.fundamental * seconds).unsqueeze(1)
            made[first:last] += fade * (waves * means).real
        cover[first:last] += fade
    return made / cover


def _turned(turns: Tensor) -> Tensor:
    """Return the complex numbers of size 1 at some angles in turns."""
    return torch.polar(torch.ones_like(turns), 2 * torch.pi * turns)
