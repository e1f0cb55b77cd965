"""Generalized cross-validation of plates, which judges noisy points by all of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from jaxtyping import Float

from coordnet.priors.plates.field import Field
from coordnet.priors.plates.plate import energy_weight, plate
from coordnet.priors.plates.solve import Band, NormalEquations, SingularPlate

PROBES = 12  # random signs for each point that estimate the trace, to 2 % of it for 500 points
PROBES_SEED = 2**18
FEWEST_FREE = 0.5  # degrees of freedom that a plate leaves for each point at least: leverages of more are too unequal


class GeneralizedErrors:
    """The errors n Σ w(y - Sy)² / tr(I - S)² that generalized cross-validation expects of smoothers S of some fields.

    Hidden points are a part of all, and their own noise hides how plates differ; here every point counts, with the
    plate through all. The trace is zᵀ(I - S)z in the mean over random signs z, the same for all plates. The smoothers
    include the drift.

    Notes
    -----
    Craven and Wahba, "Smoothing noisy data with spline functions" (1979); Hutchinson, "A stochastic estimator of the
    trace of the influence matrix for Laplacian smoothing splines" (1989).
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        generator = np.random.default_rng(PROBES_SEED)
        self.signs = [generator.choice([-1.0, 1.0], (len(field.values), PROBES)) for field in fields]
        self.fields = [_beside(field, signs) for field, signs in zip(fields, self.signs, strict=True)]
        self.equations = [NormalEquations(field) if field.has_narrow_band else None for field in self.fields]
        lattices = [field.lattice for field in fields]
        self.alike = [lattices.index(lattice) for lattice in lattices]  # the first field of each lattice
        self._energy = cache(lambda k, order, corner: self.fields[k].energy(order, corner))
        self._band = cache(lambda k, order, corner: Band.of(self._energy(k, order, corner)))
        self.of_plate = cache(self._of_plate)

    def _of_plate(self, order: int | float, cutoff: float, corner: float = 0.0) -> float:
        """Return the error of plates; infinity if the points do not determine them, or they nearly interpolate."""
        squares, free, count = 0.0, 0.0, 0
        for k, (field, signs) in enumerate(zip(self.fields, self.signs, strict=True)):
            try:
                f = self._solved(k, order, cutoff, corner)
            except SingularPlate:
                return np.inf
            left = field.without_drift(field.left_by(f), field.drift_coefficients(f))
            weights = field.weights / field.weights.mean()
            squares += float(weights @ np.square(left[:, :-PROBES]).mean(1))
            free += float((signs * left[:, -PROBES:]).sum()) / PROBES
            count += len(weights)
        return count * squares / free**2 if free > FEWEST_FREE * count else np.inf

    def _solved(self, k: int, order: int | float, cutoff: float, corner: float) -> Float[np.ndarray, "size columns"]:
        equations, first = self.equations[k], self.alike[k]
        if equations is None:
            return plate(self.fields[k], order, cutoff, corner, energy=self._energy(first, order, corner))[0]
        return equations.solve(self._band(first, order, corner), energy_weight(order, cutoff))


def _beside(field: Field, columns: Float[np.ndarray, "n columns"]) -> Field:
    """Return a field with further columns of values, before those of a drift."""
    values, drift = np.hsplit(field.values, [field.count])
    return replace(field, values=np.hstack([values, columns, drift]))
