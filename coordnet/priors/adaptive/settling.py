"""The end of a solve at unknown points: where its steps change them by little beside their expected error."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

OnLattice = Float[Tensor, "signals channels *lattice"]
Error = Callable[[OnLattice], float]  # from a solution to the mean squared error to expect of it at unknown nodes
SETTLING_STEPS = 2  # steps whose change is looked at
# Root mean square of the change in these steps, relative to that of the error to expect: half as much again loses up to
# 0.04 dB in fifteen pictures, two thirds of it takes a fifth more steps.
SETTLED_CHANGE = 0.03
# Relative residual that ends such a solve too, as a share of the usual tolerance. Fields that are smoother than noise
# of float32 reach it first; with the usual tolerance they lose 10 dB in scratches.
SETTLING_TOLERANCE = 1 / 3


class Settling:
    """A callback of conjugate gradients that ends a solve whose error is that of the prior, and not of the iteration.

    Parameters
    ----------
    seen : (*lattice)
        The unknown points that are looked at. Those in the padding, which is a wide gap, converge last.
    error : function
        The mean squared error to expect of a solution at unknown points, which may look at the solution.
    """

    def __init__(self, seen: Bool[Tensor, "*lattice"], error: Error) -> None:
        self.seen, self.error = _places(seen), error
        self.step, self.before = 0, torch.tensor(torch.inf)

    def __call__(self, step: int, residual: float, x: OnLattice) -> bool:
        """Return whether the last ``SETTLING_STEPS`` changed x by less than ``SETTLED_CHANGE`` of the error."""
        if step - self.step < SETTLING_STEPS:
            return False
        now = x.flatten(2)[..., self.seen]
        change = float((now - self.before).square().mean())
        self.step, self.before = step, now
        return change <= SETTLED_CHANGE**2 * self.error(x)


def error_at(hidden: Float[Tensor, "1 channels *lattice"], values: OnLattice) -> Error:
    """Return the function x ↦ mean squared difference to known values at nodes that are hidden in the first channel."""
    places = _places(hidden[0, 0] > 0)
    truth = values.flatten(2)[..., places]
    return lambda x: float((x.flatten(2)[..., places] - truth).square().mean())


def _places(nodes: Bool[Tensor, "*lattice"]) -> Int[Tensor, " n"]:
    return nodes.flatten().nonzero().squeeze(1)
