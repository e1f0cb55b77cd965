"""Hidden samples: the part of what is known that decides the free numbers of a method."""

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.fit.smooth import is_structured
from coordnet.sampling.measurements import Masked, Observation

FEWEST = 20  # samples below which nothing can be hidden


def hide(
    observation: Observation, samples: tuple[int, ...], share: float, generator: torch.Generator
) -> Float[Tensor, "signals channels *samples"] | None:
    """One where a known sample is hidden, zero elsewhere.

    Random samples are hidden at random. Where the unknown points cluster, what is hidden is shaped like them: their
    own pattern, shifted to a place where much of it is known.

    Parameters
    ----------
    observation : Observation
        Its weights tell what is known.
    samples : tuple of int
        Shape of the samples.
    share : float
        Of random samples, to be hidden.
    generator : torch.Generator
        Draws them.

    Returns
    -------
    (1, 1 or channels, *samples) or None
        None where too few samples are known to hide any.
    """
    weights = observation.weights
    shape = (1, weights.shape[1], *samples)
    known = (weights > 0).any(0, keepdim=True).expand(shape)
    if isinstance(observation, Masked) and is_structured(observation.weights):
        hidden = _shifted(known, generator)
    else:
        hidden = (torch.rand(shape, generator=generator) < share).to(known.device) & known
    left = int((known & ~hidden).sum())
    if share == 0 or int(hidden.sum()) < 2 or left < FEWEST:
        return None
    return hidden.to(weights)


def _shifted(known: Tensor, generator: torch.Generator, tries: int = 16) -> Tensor:
    """The unknown pattern, shifted so that as much of it as can be found in some tries falls on known points."""
    axes = tuple(range(2, known.ndim))
    best = torch.zeros_like(known)
    for _ in range(tries):
        draws = torch.rand(len(axes), generator=generator)
        shifts = tuple(int(draw * known.shape[axis]) for draw, axis in zip(draws, axes, strict=True))
        hidden = (~known).roll(shifts, axes) & known
        if int(hidden.sum()) > int(best.sum()):
            best = hidden
    return best
