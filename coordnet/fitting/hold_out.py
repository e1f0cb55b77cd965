"""Hidden samples: the part of the samples by whose error the free numbers of a method are chosen."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.sampling.forward import ForwardModel

MIN_LEFT = 20  # samples that must be left when some are hidden
TRIES = 16  # draws, or shifts of the unknown pattern; the shift that hides most samples is taken


def hide(
    measurement: ForwardModel, samples: tuple[int, ...], share: float, generator: torch.Generator
) -> Float[Tensor, "signals channels *samples"] | None:
    """Draw samples to hide: 1 where a known sample is hidden, 0 elsewhere, (1, 1 or channels, *samples).

    A random ``share`` of the samples is hidden. A draw that hides more than twice as many is repeated: the mask was
    drawn from the same seed. If the unknown points of a mask are clustered, the hidden points have their shape instead:
    the unknown pattern is shifted to a place where much of it is known. The result is None if ``share`` is 0 or too few
    samples are known to hide any.
    """
    weights = measurement.weights
    shape = (1, weights.shape[1], *samples)
    known = (weights > 0).any(0, keepdim=True).expand(shape)
    if measurement.is_structured_mask:
        hidden = max((_shifted(known, generator) for _ in range(TRIES)), key=lambda pattern: int(pattern.sum()))
    else:
        draws = ((torch.rand(shape, generator=generator) < share).to(known.device) & known for _ in range(TRIES))
        most = max(2 * share * int(known.sum()), MIN_LEFT)
        hidden = next((draw for draw in draws if int(draw.sum()) <= most), known)
    left = int((known & ~hidden).sum())
    if share == 0 or int(hidden.sum()) < 2 or left < MIN_LEFT:
        return None
    return hidden.to(weights)


def _shifted(known: Tensor, generator: torch.Generator) -> Tensor:
    """Return where the unknown pattern, shifted at random, falls on known points."""
    axes = tuple(range(2, known.ndim))
    draws = torch.rand(len(axes), generator=generator)
    shifts = tuple(int(draw * known.shape[axis]) for draw, axis in zip(draws, axes, strict=True))
    return (~known).roll(shifts, axes) & known


def hidden_error(
    measurement: ForwardModel,
    f: Float[Tensor, "signals channels *lattice"],
    values: Float[Tensor, "signals channels *samples"],
    hidden: Float[Tensor, "#signals #channels *samples"],
) -> float:
    """Return the weighted mean squared error of a lattice signal at hidden samples."""
    residual = measurement(f) - values
    weights = (hidden * measurement.weights).expand_as(residual)
    return float((weights * residual.square()).sum() / weights.sum())


def middle(shape: tuple[int, ...], size: int) -> tuple[slice, ...]:
    """Return the middle of a large lattice, of about ``size`` points and at least 16 along an axis."""
    scale = (size / math.prod(shape)) ** (1 / max(1, sum(n > 1 for n in shape)))
    lengths = [min(n, max(16, round(n * scale))) for n in shape]
    return tuple(slice((n - m) // 2, (n - m) // 2 + m) for n, m in zip(shape, lengths, strict=True))
