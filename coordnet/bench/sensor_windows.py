"""Synthetic windows of two sensors, normal and anomalous, where only the order of the values tells which."""

from collections.abc import Callable

import torch
from torch import Tensor

from coordnet.bench.classification import Part
from coordnet.sampling import Axis

TIMES = Axis(32)  # the time steps of a window
NOISE, LAG, SPIKES, SLOW, FAST = 0.3, 1, 6, 1.0, 4.0


def mean_shift(noise: Tensor, generator: torch.Generator) -> Tensor:
    """Add a step from -1 to 1, or back, in the middle half; normal windows have its values in random order."""
    count = len(noise)
    step = torch.randint(TIMES.count // 4, 3 * TIMES.count // 4, (count, 1), generator=generator)
    levels = torch.where(torch.arange(TIMES.count) < step, -1.0, 1.0)
    levels *= 2 * torch.randint(2, (count, 1), generator=generator) - 1
    return torch.stack([noise[..., 0] + _mixed(levels, generator), noise[..., 1]], -1)


def spike_pattern(noise: Tensor, generator: torch.Generator) -> Tensor:
    """Add a burst of six neighboring spikes of height 2; in normal windows they are at random steps."""
    start = torch.randint(TIMES.count - SPIKES, (len(noise), 1), generator=generator)
    spikes = torch.zeros(noise.shape[:2]).scatter_(1, start + torch.arange(SPIKES), 2.0)
    return torch.stack([noise[..., 0] + _mixed(spikes, generator), noise[..., 1]], -1)


def frequency_change(noise: Tensor, generator: torch.Generator) -> Tensor:
    """Add a wave of one cycle in the first half and four in the second; normal windows have one of the two throughout.

    The phase is drawn, and continuous at the change.
    """
    phase = torch.rand(len(noise), 1, generator=generator)
    rates = torch.where(torch.rand(len(noise), 1, generator=generator) < 0.5, SLOW, FAST)
    changing = torch.where(torch.arange(TIMES.count) < TIMES.count // 2, SLOW, FAST)
    speed = torch.where(_anomalous(noise), changing, rates) / (TIMES.count // 2)
    wave = torch.sin(2 * torch.pi * (speed.cumsum(1) + phase))
    return torch.stack([noise[..., 0] + wave, noise[..., 1]], -1)


def lagged_copy(noise: Tensor, generator: torch.Generator) -> Tensor:
    """Let the second sensor repeat the first one step later, with noise; in normal windows in random order."""
    first = torch.randn(noise.shape[:2], generator=generator)
    return torch.stack([first, noise[..., 1] + _mixed(first.roll(LAG, 1), generator)], -1)


def drift(noise: Tensor, generator: torch.Generator) -> Tensor:
    """Add a slope of ±1.5 over the window; normal windows have its values in random order."""
    slope = (torch.arange(TIMES.count) / (TIMES.count - 1) - 0.5) * 1.5
    signs = 2 * torch.randint(2, (len(noise), 1), generator=generator) - 1
    return torch.stack([noise[..., 0] + _mixed(signs * slope, generator), noise[..., 1]], -1)


def _mixed(values: Tensor, generator: torch.Generator) -> Tensor:
    """Put the values of every second window, the normal ones, in random order."""
    order = torch.rand(values.shape, generator=generator).argsort(1)
    return torch.where(_anomalous(values), values, values.gather(1, order))


def _anomalous(values: Tensor) -> Tensor:
    return (torch.arange(len(values)) % 2 == 1).unsqueeze(-1)


SETS: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "mean shift": mean_shift,
    "spike pattern": spike_pattern,
    "frequency change": frequency_change,
    "lagged copy": lagged_copy,
    "drift": drift,
}


def windows(name: str, count: int, seed: int) -> Part:
    """Draw windows of 32 steps of two sensors: tokens (count, 32, 2) and positions (count, 32, 1) in [0, 1).

    Class 1, every second window, has the anomaly of the set ``name`` of ``SETS``, and class 0 the same values in random
    order, or the same wave without a change, so that a set of tokens without positions has nearly the same values in
    both. White noise of deviation 0.3 is on both sensors, but for the first of a lagged copy.

    These sets stand for the sensor data of Idé et al. (2024), which cannot be had.
    """
    generator = torch.Generator().manual_seed(seed)
    noise = NOISE * torch.randn(count, TIMES.count, 2, generator=generator)
    positions = TIMES.points(torch.float32).unsqueeze(-1).expand(count, -1, -1)
    return Part(SETS[name](noise, generator), positions, torch.arange(count) % 2)
