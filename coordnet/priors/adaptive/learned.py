"""What plans share whose spectrum is learned from the samples: the posterior with that spectrum."""

from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.plans.posterior import PerturbedPosterior, Posterior, draw_tolerance
from coordnet.plans.systems import System
from coordnet.priors.adaptive.spectrum import Problem
from coordnet.priors.smoothness import IteratedPlan


class LearnedPlan(IteratedPlan):
    """A plan that learns the penalty of every mode from the samples."""

    has_gradient = True

    @abstractmethod
    def problem(self, values: Float[Tensor, "1 channels *samples"]) -> Problem:
        """Return centered samples in uncorrelated channels."""

    @abstractmethod
    def system(self, problem: Problem, penalty: Tensor) -> System:
        """Return the linear system of a problem for the penalty of every mode."""

    def posterior(self, values: Float[Tensor, "1 channels *samples"], learned: dict[str, Tensor]) -> Posterior:
        """Return the posterior with the spectrum that a fit learned; ``ValueError`` if it learned none."""
        if "penalty" not in learned:
            expected = "a fit that learned a spectrum, to draw from it"
            raise _checks.wrong("prior", expected, "none, as for strided lattices")
        problem = self.problem(torch.where(self.measurement.weights > 0, values, 0.0))
        system = self.system(problem, learned["penalty"].to(values))
        in_modes = problem.joint or problem.constrained or problem.measurement.is_general
        options: dict[str, Any] = {"tolerance": self.solver.tolerance or draw_tolerance(in_modes)}
        options |= {"steps": self.solver.steps, "rotation": problem.rotation, "has_noise": not problem.constrained}
        return PerturbedPosterior(system, problem.values, **options)
