"""Posterior means of frames under a covariance, by flexible conjugate gradients on lattices of several resolutions."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from coordnet.priors.evolving.covariance import Covariance, Frames, Modes, Padded

STEPS_BETWEEN, STEPS_COARSEST = 6, 15  # steps of conjugate gradients on coarser lattices, and on the coarsest one
COARSE_TOLERANCE = 1e-2  # relative residual at which these stop
LEAST_STEPS = 4  # steps on the lattice itself from the solution of another covariance on


class Mean(NamedTuple):
    """A posterior mean on the padded lattice, the steps that it took, and its relative residual."""

    frames: Padded
    steps: int
    residual: float


class FramePosterior:
    """The posterior of frames given some known entries with white noise: (FᵀMF + s²/P) u = FᵀM y.

    u are the coefficients of the modes along the eigenvectors of their bands, F u the frames, M is 1 where an entry is
    known, and P are the variances. The preconditioner is 1/(q + s²/P) with the known share q; modes that a coarser
    lattice has are solved for there, with the known shares of its blocks in the place of M. It changes from step to
    step, so that conjugate gradients are flexible ones.

    Notay, "Flexible conjugate gradients" (SIAM J. Sci. Comput. 2000).
    """

    def __init__(self, covariance: Covariance, known: Bool[np.ndarray, "frames *space"], noise: float) -> None:
        self.covariance, self.bands = covariance, covariance.bands
        self.masks = self.bands.masks(known.astype(np.float32))
        self.penalty = np.float32(noise) / covariance.variances
        self.inverse = 1 / (self.masks[0].mean(dtype=np.float64).astype(np.float32) + self.penalty)

    def mean(self, values: Frames, start: Padded | None, steps: int, tolerance: float) -> Mean:
        """Return the posterior mean for values that are 0 where nothing is known, from other padded frames on."""
        level = self.bands.levels[0]
        right = self.covariance.along(level.modes(self.bands.padded(values)))
        begin = None if start is None else self.covariance.along(level.modes(start))
        u, taken, residual = self._solve(0, right, begin, steps, tolerance, LEAST_STEPS)
        return Mean(level.frames(self.covariance.across(u)), taken, residual)

    def _normal(self, level: int, u: Modes) -> Modes:
        """Return the system's matrix on a level times coefficients."""
        lattice = self.bands.levels[level]
        f = lattice.frames(self.covariance.across(u))
        f *= self.masks[level]
        return self.covariance.along(lattice.modes(f)) + self.penalty[:, : u.shape[1]] * u

    def _solve(
        self, level: int, right: Modes, start: Modes | None, steps: int, tolerance: float, least: int = 0
    ) -> tuple[Modes, int, float]:
        """Return the coefficients, the steps taken and the relative residual, whose square is ⟨r, Mr⟩ / ⟨b, Mb⟩."""
        inverse = self.inverse[:, : right.shape[1]]
        u = np.zeros_like(right) if start is None else start.copy()
        r = right.copy() if start is None else right - self._normal(level, u)
        whole = float(_dot(right, inverse * right)) or 1.0
        z = self._precondition(level, r)
        p, rz = z.copy(), _dot(r, z)
        step, left = 0, float(_dot(r, inverse * r)) / whole
        while step < steps and rz > 0 and (step < least or left > tolerance**2):
            q = self._normal(level, p)
            length = rz / _dot(p, q)
            u += length * p
            change = length * q
            r -= change
            step, left = step + 1, float(_dot(r, inverse * r)) / whole
            if step >= least and left <= tolerance**2:
                break
            z = self._precondition(level, r)
            p *= -_dot(z, change) / rz
            p += z
            rz = _dot(r, z)
        return u, step, max(left, 0.0) ** 0.5

    def _precondition(self, level: int, r: Modes) -> Modes:
        z = self.inverse[:, : r.shape[1]] * r
        if level + 1 < len(self.bands.levels):
            count = self.bands.levels[level + 1].bands[-1].stop
            steps = STEPS_BETWEEN if level + 2 < len(self.bands.levels) else STEPS_COARSEST
            z[:, :count] = self._solve(level + 1, np.ascontiguousarray(r[:, :count]), None, steps, COARSE_TOLERANCE)[0]
        return z


def _dot(a: Float[np.ndarray, "..."], b: Float[np.ndarray, "..."]) -> np.float32:
    return np.float32(np.vdot(a, b))
