"""How far a denoiser is trusted in gaps: what hidden samples say of it."""

from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.plans.hold_out import HeldOut
from coordnet.priors.local.weights import least_squares_weight, sure_share

# Nodes a side of the blocks of hidden gaps in which errors are taken to be alike. In holes and scratches of 67 crops of
# 96² six denoisers that do not suit get a weight in 1 of 402 trials, in 6 with blocks of 4, and in 45 if every hidden
# error counts; a trained one gains 0.28, 0.30 and 0.33 dB, and loses on 8, 10 and 16 crops. On the half of the crops
# that decided, 0, 1 and 16 of 204 get one; on 153 crops of other places 3 of 918.
BLOCK = 8
# Weight below which a denoiser gets none: a small share of large steps is that of one that does not suit. With a
# standard deviation that is estimated 5 % too low, one that changes nothing would have 0.07 of the noise. Trained ones
# have 0.2 to 1, and in holes of 102 crops 0.25 and 0.35 change nothing for them.
LEAST_WEIGHT = 0.15


def weight_at_hidden(held_out: HeldOut, second: Float[Tensor, "channels *lattice"], *, has_noise: bool) -> float:
    """Return the weight of a second estimate that suits the hidden samples, or 0 below ``LEAST_WEIGHT``.

    It is that of ``least_squares_weight``, and where ``has_noise`` says that noise is a good part of the errors, 0
    unless it is sure (``sure_share``). In hidden gaps errors are alike within blocks of ``BLOCK`` nodes a side: their
    number is that of the independent errors, by which the gain is to be more than chance explains.
    """
    error, other, channels = held_out.errors(held_out.estimate), held_out.errors(second), len(held_out.values)
    alike = channels
    if held_out.is_clustered:
        alike = error.numel() / count_blocks(held_out.hidden)
    weight = least_squares_weight(error, other, alike)
    weight = min(weight, sure_share(error, other, channels)) if has_noise else weight
    return weight if weight >= LEAST_WEIGHT else 0.0


def relative_step(hidden: Float[Tensor, " hidden"], unknown: Float[Tensor, " unknown"]) -> float:
    """Return by what the weight of hidden gaps is multiplied for unknown ones, whose steps may be smaller.

    It is the ratio of the root mean square steps between the two estimates, 1 at most. Hidden gaps with larger steps
    have more to correct than the unknown ones, and tell a weight that is too large for these. In holes and scratches of
    102 crops of 96² pixels a trained denoiser gains as much with it in the mean, and loses on 9 of them instead of 13,
    0.56 dB at most instead of 1.01; on 51 others, which were looked at last, it gains 0.14 dB instead of 0.11 and loses
    0.91 dB at most instead of 1.72.
    """
    seen, sought = (float(step.double().square().mean().sqrt()) for step in (hidden, unknown))
    return min(1.0, sought / seen) if seen > 0 else 1.0


def count_blocks(hidden: Bool[Tensor, "channels *lattice"]) -> int:
    """Return the number of blocks with hidden entries; channels share blocks, frames do not."""
    at = hidden.nonzero()[:, 1:]
    at[:, -2:] //= BLOCK
    return len(at.unique(dim=0))
