"""The linear systems of a fit with a prior, solved by conjugate gradients, each with its preconditioner.

What does not depend on the values is computed when a system is made. Signals are ``(signals, channels, *lattice)``
and their modes ``(signals, channels, *modes)``, as ``Modes`` has them.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.linalg.conjugate_gradients import Solution, add_scaled, among, conjugate_gradients, dot, scaled
from coordnet.linalg.extension import lengthened
from coordnet.priors.modes import Modes
from coordnet.sampling.measurements import Masked, Observation

NEWTON = 12  # steps to an effective density or noise, within a thousandth of it
FARTHEST = 2.5  # of them, in its logarithm
COVARIANCE_FLOOR = 2e-4  # of the mean precision, in the precision form's preconditioner

Look = Callable[[int, float], None]  # told the step and the worst relative residual


class System(ABC):
    """The normal equations of Σ w (S f - y)² + Σ penalty |z|², f = B z, for some modes B and some observation.

    Parameters
    ----------
    modes : Modes
        B.
    observation : Observation
        S and w.
    penalty : (signals, channels, *modes) or (*modes)
        Of every mode.

    Attributes
    ----------
    parts : tuple of str
        The attributes that are tensors by signal and channel, beside the penalty.
    """

    parts: tuple[str, ...]

    def __init__(self, modes: Modes, observation: Observation, penalty: Tensor) -> None:
        self.modes, self.observation = modes, observation
        self.penalty = penalty.reshape(*(1,) * (2 + len(modes.lattice) - penalty.ndim), *penalty.shape)

    def solve(
        self,
        values: Float[Tensor, "signals channels *samples"],
        *,
        start: Tensor | None = None,
        tolerance: float = 1e-4,
        steps: int = 500,
        callback: Look | None = None,
    ) -> Solution:
        """The modes of some values, by conjugate gradients from some modes on; see there for the other options."""
        solution = conjugate_gradients(
            self,
            self.right_hand_side(values),
            start=None if start is None else self.unknowns(start),
            tolerance=tolerance,
            steps=steps,
            check_every=1 if values.device.type == "cpu" else 5,  # on a GPU each look waits for the queue
            callback=callback,
        )
        return replace(solution, x=self.modes_of(solution.x, values))

    @abstractmethod
    def operator(self, x: Tensor) -> Tensor:
        """The system's matrix times what is solved for."""

    @abstractmethod
    def preconditioner(self, r: Tensor) -> Tensor:
        """An approximation of the inverse times a residual."""

    @abstractmethod
    def right_hand_side(self, values: Float[Tensor, "signals channels *samples"]) -> Tensor:
        """Of some values."""

    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        """⟨a, b⟩ of every signal and channel of a lattice."""
        product = dot(a.flatten(2), b.flatten(2))
        return product.reshape(*product.shape, *(1,) * (a.ndim - 2))

    def only(self, kept: Bool[Tensor, "signals channels"]) -> "System":
        """The same system of some signals' channels alone: those that have not converged."""
        some = copy.copy(self)
        some.observation = self.observation.only(kept)
        for name in ("penalty", *self.parts):
            setattr(some, name, among(getattr(self, name), kept))
        return some

    @abstractmethod
    def unknowns(self, z: Tensor) -> Tensor:
        """What is solved for, of some modes."""

    @abstractmethod
    def modes_of(self, x: Tensor, values: Tensor) -> Tensor:
        """The modes of what was solved for."""


class ModesSystem(System):
    """(BᵀSᵀWSB + penalty) z = BᵀSᵀW y, preconditioned by 1 / (q* + penalty) with the ``effective_density`` q*.

    ``joint`` systems are one for all channels of a signal, which the observation couples.
    """

    parts = ("inverse",)

    def __init__(
        self, modes: Modes, observation: Observation, penalty: Tensor, *, joint: bool = False
    ) -> None:
        super().__init__(modes, observation, penalty)
        self.joint = joint
        effective = effective_density(modes.thinned(self.penalty), observation.density)
        effective = effective.reshape(*effective.shape[:2], *(1,) * len(modes.lattice))
        self.inverse = 1 / (effective + self.penalty)

    def operator(self, x: Tensor) -> Tensor:
        """(BᵀSᵀWSB + penalty) z."""
        seen = self.modes.analysis(self.observation.normal(self.modes.synthesis(x)))
        return add_scaled(seen, self.penalty, x)

    def preconditioner(self, r: Tensor) -> Tensor:
        """R / (q* + penalty)."""
        return scaled(self.inverse, r)

    def right_hand_side(self, values: Float[Tensor, "signals channels *samples"]) -> Tensor:
        """BᵀSᵀW y."""
        return self.modes.analysis(self.observation.adjoint(values))

    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        """⟨a, b⟩ in the modes, of every signal and channel, or of every signal where it is ``joint``."""
        product = self.modes.inner(a, b)
        return product.sum(1, keepdim=True) if self.joint else product

    def unknowns(self, z: Tensor) -> Tensor:
        """The modes themselves."""
        return z

    def modes_of(self, x: Tensor, values: Tensor) -> Tensor:
        """What was solved for."""
        return x


class LatticeSystem(System):
    """(SᵀWS + B diag(penalty) Bᵀ) f = SᵀW y on the lattice of complete modes, with z = Bᵀ f.

    The first part is diagonal on the lattice (or nearly), the second in the modes, and the preconditioner
    (SᵀWS + c)^(-1/2) B diag(1 / (c* + penalty)) Bᵀ (SᵀWS + c)^(-1/2)
    inverts each where it is, with c half of the median penalty and c* the lesser of c and the
    ``effective_density``. Against 1 / (c* + penalty) alone it takes a third to a half of the steps to the same
    error, for twice the transforms a step, and their number does not grow with the lattice.

    Notes
    -----
    The symmetric form of the preconditioner (SᵀWS + c)(penalty + c) of alternating splittings: Bai, Golub and Ng,
    "Hermitian and skew-Hermitian splitting methods" (SIAM J. Matrix Anal. Appl. 2003).
    """

    parts = ("inverse", "damping")

    def __init__(self, modes: Modes, observation: Observation, penalty: Tensor) -> None:
        super().__init__(modes, observation, penalty)
        self.whole = modes.whole()
        self.part = (..., *(slice(0, n) for n in modes.lattice))
        ones = (1,) * len(self.whole.lattice)
        thinned = modes.thinned(self.penalty)
        least = math.sqrt(torch.finfo(penalty.dtype).eps)
        shift = (thinned.median(-1, keepdim=True).values / 2).clamp(min=least)
        low = effective_density(thinned, observation.density).minimum(shift)
        self.inverse = 1 / (low.reshape(*low.shape[:2], *ones) + self.penalty)
        weights = lengthened(observation.diagonal(), self.whole.lattice)
        self.damping = (weights + shift.reshape(*shift.shape[:2], *ones)).rsqrt_()

    def operator(self, x: Tensor) -> Tensor:
        """(SᵀWS + B diag(penalty) Bᵀ) f."""
        out = self.whole.filter(x, self.penalty)
        out[self.part] += self.observation.normal(x[self.part])
        return out

    def preconditioner(self, r: Tensor) -> Tensor:
        """Each part inverted where it is diagonal."""
        return self.whole.filter(self.damping * r, self.inverse, overwrite=True).mul_(self.damping)

    def right_hand_side(self, values: Float[Tensor, "signals channels *samples"]) -> Tensor:
        """SᵀW y."""
        return lengthened(self.observation.adjoint(values), self.whole.lattice)

    def unknowns(self, z: Tensor) -> Tensor:
        """B z."""
        return self.whole.synthesis(z)

    def modes_of(self, x: Tensor, values: Tensor) -> Tensor:
        """Bᵀ f."""
        return self.whole.analysis(x)


class PrecisionSystem(System):
    """fᵀKf least, K = B diag(penalty) Bᵀ, with known points held: K_uu x = -K_uk y for unknown points u, known ones k.

    Preconditioned by the covariance B diag(1 / (penalty + ε)) Bᵀ restricted to u.
    """

    parts = ("unknown", "covariance")

    def __init__(self, modes: Modes, observation: Masked, penalty: Tensor) -> None:
        super().__init__(modes, observation, penalty)
        self.unknown = (observation.weights == 0).to(penalty)
        mean = self.penalty.mean(modes.axes, keepdim=True)
        self.covariance = 1 / (self.penalty + COVARIANCE_FLOOR * mean)

    def operator(self, x: Tensor) -> Tensor:
        """K_uu x."""
        return self.modes.filter(x, self.penalty).mul_(self.unknown)

    def preconditioner(self, r: Tensor) -> Tensor:
        """The covariance of the unknown points times r."""
        return self.modes.filter(r, self.covariance).mul_(self.unknown)

    def right_hand_side(self, values: Float[Tensor, "signals channels *samples"]) -> Tensor:
        """-K_uk y."""
        return self.modes.filter(values * (1 - self.unknown), -self.penalty).mul_(self.unknown)

    def unknowns(self, z: Tensor) -> Tensor:
        """B z at the unknown points."""
        return self.modes.synthesis(z).mul_(self.unknown)

    def modes_of(self, x: Tensor, values: Tensor) -> Tensor:
        """Bᵀ f, known points as they are."""
        return self.modes.analysis(values * (1 - self.unknown) + x)


def penalised(modes: Modes, observation: Observation, penalty: Tensor) -> System:
    """The system of some penalty: on the lattice where the modes are complete, else in them.

    Without a penalty it is in the modes, too, whose plain steps keep to the solution of least norm.
    """
    kind = LatticeSystem if modes.complete and bool((penalty > 0).any()) else ModesSystem
    return kind(modes, observation, penalty)


def effective_density(
    penalty: Float[Tensor, "signals channels m"], density: float
) -> Float[Tensor, "signals channels 1"]:
    """The q* for which 1 / (q* + penalty) is the mean inverse of a random mask's system.

    A mode is disturbed by what the mask leaves of all the others, so that it is measured as if by a density of
    q* = q / (1 + (1 - q) mean(1 / (q* + penalty))); against q itself as preconditioner it takes 40 % fewer steps at 5 %
    density, and as many from 25 % on. It is found by Newton's method for log q*, in steps of at most ``FARTHEST``: the
    tangent leads far below q* where the penalty is small beside q.
    """
    effective = torch.full_like(penalty[..., :1], density)
    if not bool(
        penalty.any()
    ):  # the fixed point is 0 below a density of 1/2; any constant serves a projection
        return effective
    missing = max(1 - density, 0.0)
    for _ in range(NEWTON):
        passed = effective / (effective + penalty)
        mean = missing * passed.mean(-1, keepdim=True)
        slope = missing * (passed - passed.square()).mean(-1, keepdim=True)
        excess = ((effective + mean) / density).log() * (effective + mean) / (effective + slope)
        effective = effective * (-excess).clamp(-FARTHEST, FARTHEST).exp()
    return effective.clamp(min=torch.finfo(penalty.dtype).tiny)
