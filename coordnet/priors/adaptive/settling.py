"""The end of a solve at unknown points: where its steps change them by little beside their expected error."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

OnLattice = Float[Tensor, "signals channels *lattice"]
Negligible = Callable[[OnLattice], float]  # from a solution to the mean squared change of it that is negligible
SETTLING_STEPS = 2  # steps whose change is looked at
# The root mean square of the change in these steps at which a solve ends, relative to that of the error to expect.
# Half as much again loses up to 0.04 dB in fifteen pictures, and two thirds of it takes a sixth more steps.
SETTLED_CHANGE = 0.03
LEARNING_CHANGE = 0.1  # the same bound for solves that a spectrum is learned from; half of it takes 7 % more steps
# The relative residual that ends such a solve too, as a share of the usual tolerance. Smooth fields reach it first, and
# lose 10 dB in scratches with the usual tolerance.
SETTLING_TOLERANCE = 1 / 3


class Settling:
    """A callback of conjugate gradients that ends a solve whose error is that of the prior, and not of the iteration.

    Parameters
    ----------
    seen : (*lattice)
        The unknown points that are looked at. Those in the padding, which is a wide gap, converge last.
    negligible : function
        The mean squared change at these points that is small beside the error to expect of the solution.
    """

    def __init__(self, seen: Bool[Tensor, "*lattice"], negligible: Negligible) -> None:
        self.seen, self.negligible = _places(seen), negligible
        self.step, self.before = 0, torch.tensor(torch.inf)

    def __call__(self, step: int, residual: float, x: OnLattice) -> bool:
        """Return whether the last ``SETTLING_STEPS`` changed x by what is negligible."""
        if step - self.step < SETTLING_STEPS:
            return False
        now = x.flatten(2)[..., self.seen]
        change = float((now - self.before).square().mean())
        self.step, self.before = step, now
        return change <= self.negligible(x)


def negligible_beside(error: float) -> Negligible:
    """Return the change that is negligible beside an expected mean squared error."""
    return lambda x: SETTLED_CHANGE**2 * error


def negligible_in_learning(hidden: Float[Tensor, "1 1 *lattice"], values: OnLattice) -> Negligible:
    """Return the change that is negligible beside a solution's error at hidden nodes, where a spectrum is learned."""
    places = _places(hidden[0, 0] > 0)
    truth = values.flatten(2)[..., places]
    return lambda x: LEARNING_CHANGE**2 * float((x.flatten(2)[..., places] - truth).square().mean())


def _places(nodes: Bool[Tensor, "*lattice"]) -> Int[Tensor, " n"]:
    return nodes.flatten().nonzero().squeeze(1)
