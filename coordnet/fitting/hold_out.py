"""Hidden samples: the part of the samples that decides the free numbers of a method."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet import _checks
from coordnet.sampling.measurements import Measurement
from coordnet.sampling.samples import Lattice, Samples

MIN_LEFT = 20  # samples that must be left when some are hidden


def hide(
    measurement: Measurement, samples: tuple[int, ...], share: float, generator: torch.Generator
) -> Float[Tensor, "signals channels *samples"] | None:
    """Draw samples to hide: 1 where a known sample is hidden, 0 elsewhere.

    Random samples are hidden at random. Where the unknown points of a mask are clustered, the hidden points have their
    shape: the unknown pattern is shifted to a place where much of it is known.

    Parameters
    ----------
    measurement : Measurement
        Its weights are positive where a sample is known.
    samples : tuple of int
        The shape of the samples.
    share : float
        The fraction of random samples to hide.
    generator : torch.Generator
        The source of randomness.

    Returns
    -------
    (1, 1 or channels, *samples) or None
        None if too few samples are known to hide any.
    """
    weights = measurement.weights
    shape = (1, weights.shape[1], *samples)
    known = (weights > 0).any(0, keepdim=True).expand(shape)
    if measurement.is_structured_mask:
        hidden = _shifted_pattern(known, generator)
    else:
        hidden = (torch.rand(shape, generator=generator) < share).to(known.device) & known
    left = int((known & ~hidden).sum())
    if share == 0 or int(hidden.sum()) < 2 or left < MIN_LEFT:
        return None
    return hidden.to(weights)


def _shifted_pattern(known: Tensor, generator: torch.Generator, tries: int = 16) -> Tensor:
    """Shift the unknown pattern so that, of some random shifts, the most of it falls on known points."""
    axes = tuple(range(2, known.ndim))
    best = torch.zeros_like(known)
    for _ in range(tries):
        draws = torch.rand(len(axes), generator=generator)
        shifts = tuple(int(draw * known.shape[axis]) for draw, axis in zip(draws, axes, strict=True))
        hidden = (~known).roll(shifts, axes) & known
        if int(hidden.sum()) > int(best.sum()):
            best = hidden
    return best


def hidden_error(
    measurement: Measurement,
    f: Float[Tensor, "signals channels *lattice"],
    values: Float[Tensor, "signals channels *samples"],
    hidden: Float[Tensor, "#signals #channels *samples"],
) -> float:
    """Return the weighted mean squared error of a lattice signal at hidden samples."""
    residual = measurement(f) - values
    weights = (hidden * measurement.weights).expand_as(residual)
    return float((weights * residual.square()).sum() / weights.sum())


def hide_every_second(samples: Samples) -> tuple[Samples, Bool[Tensor, "*lattice channels"]]:
    """Keep every second sample of a whole lattice along each axis; return those, and where the others are.

    Raises
    ------
    ValueError
        If the samples are no whole lattice, or an axis has fewer than four samples.
    """
    shape = tuple(samples.values.shape[:-1])
    if not samples.geometry.is_whole_lattice or min(shape) < 4:
        expected = "a whole lattice of at least four samples along each axis"
        raise _checks.wrong("samples", expected, type(samples.geometry).__name__)
    kept = Lattice(shape, (2,) * len(shape))
    hidden = ~kept.known(samples.channels).to(samples.values.device)
    return Samples(kept, samples.values[kept.slices]), hidden


def middle(shape: tuple[int, ...], size: int) -> tuple[slice, ...]:
    """Return the middle of a large lattice, of about ``size`` points and at least 16 along an axis."""
    scale = (size / math.prod(shape)) ** (1 / len(shape))
    lengths = [min(n, max(16, round(n * scale))) for n in shape]
    return tuple(slice((n - m) // 2, (n - m) // 2 + m) for n, m in zip(shape, lengths, strict=True))
