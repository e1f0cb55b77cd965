"""Sources of randomness: one that was given, or one with a fixed seed."""

import torch

from coordnet import _checks


def as_generator(generator: torch.Generator | None) -> torch.Generator:
    """Return a generator as it is, or for None one with seed 0; anything else raises a ``ValueError``."""
    if generator is None:
        return torch.Generator().manual_seed(0)
    return _checks.instance("generator", generator, torch.Generator, "a torch.Generator")
