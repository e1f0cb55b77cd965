"""Closed-form fits with a smoothness prior, wherever the samples are."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.designs import designs
from coordnet.fit.centred import Centred
from coordnet.fit.fused import Renderer
from coordnet.fit.plan import Plan, Solved, apart
from coordnet.fit.systems import PrecisionSystem, System, penalised
from coordnet.priors.fourier import FourierModes
from coordnet.priors.modes import EncodingModes, Modes
from coordnet.priors.priors import Smoothness
from coordnet.sampling.axes import Alignment, Axes, render_axes
from coordnet.sampling.measurements import Masked, Observation
from coordnet.sampling.samples import Geometry

CLUSTERING = 0.25  # excess over chance, with which the neighbour of an unknown point is unknown too
HUBER = 1.345  # standard deviations: 95 % efficient where the errors are normal (Huber 1981, section 7.9)


class SmoothPlan(Plan):
    """Minimise Σ w (S f - y)² + λ Σ ρ |z|² over the modes z of an encoding, f = B z.

    A whole lattice takes no iteration: z = Bᵀ y / (1 + λρ). Elsewhere the normal equations
    (BᵀSᵀWSB + λρ) z = BᵀSᵀW y are solved by conjugate gradients: on the lattice itself or in the modes
    (``penalised``). Where unknown points cluster (holes, scratches, text), a complete basis is solved in
    precision form, known samples held exactly (``PrecisionSystem``).

    Parameters
    ----------
    encoding, geometry, center
        See ``Plan``.
    observation : Observation, optional
        How the samples depend on the lattice; none for a whole lattice.
    prior : Smoothness
        p, λ, a_j and the form.
    rcond : float, optional
        Relative cut of singular values.
    robust : bool
        Huber's loss by reweighted solves, for samples with outliers.
    tolerance, steps
        Of conjugate gradients.
    progress : bool
        Show a bar over their steps.
    dtype, device
        Of the values to come.

    Warns
    -----
    ConvergenceWarning
        Where the steps did not suffice.
    """

    def __init__(
        self,
        encoding: ComplexEncoding | FourierEncoding,
        geometry: Geometry,
        observation: Observation | None,
        prior: Smoothness,
        *,
        rcond: float | None = None,
        center: bool = True,
        robust: bool = False,
        tolerance: float = 1e-4,
        steps: int = 500,
        progress: bool = False,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(encoding, geometry, center=center, dtype=dtype)
        self.modes = modes_of(self.encoding, geometry.axes, rcond=rcond, dtype=dtype, device=device)
        self.observation, self.prior, self.robust = observation, prior, robust
        self.progress = progress
        self.tolerance = _checks.positive("tolerance", tolerance)
        self.steps = _checks.integer("steps", steps, 1)
        self.roughness = prior.roughness(self.modes)
        self.gain = 1 / (1 + prior.strength * self.roughness)  # of a whole lattice
        self.form = "modes"
        if observation is not None and not robust:
            self.form = choose_form(prior, self.modes, observation)
        self.system = None if observation is None else self._system(observation)

    def solve(self, values: Centred) -> Solved:
        """Return the weights of centred values, with the form, the iterations and the residual."""
        if self.robust:
            return apart(self._robust, values)
        if self.system is None:
            weights = values.through(self._weights, self.encoding.shape)
            return Solved(weights, {"method": "modes, direct", "ranks": list(self.modes.ranks)})
        return self._solved(*self._solve(values.whole(), self.system, None))

    def _weights(self, values: Tensor, out: Tensor | None) -> Tensor:
        """Of a whole lattice."""
        assert isinstance(self.modes, EncodingModes)
        return self.modes.weights(self._gained(values, overwrite=out is not None), out)

    def _gained(self, values: Tensor, overwrite: bool = False) -> Tensor:
        """The modes of a whole lattice."""
        assert isinstance(self.modes, EncodingModes)
        return self.modes.analysis(values, overwrite).mul_(self.gain)

    @property
    def direct(self) -> bool:  # type: ignore[override]
        """Whether a fit takes no iteration: on a whole lattice without outliers."""
        return self.observation is None and not self.robust

    def renderer(self, shape: tuple[int, ...] | None = None, alignment: Alignment = "pixel") -> Renderer:
        """Return what fits and renders at once, on a whole lattice; see ``Plan.renderer``."""
        if not self.direct:
            return super().renderer(shape, alignment)
        assert isinstance(self.encoding, ComplexEncoding) and isinstance(self.modes, EncodingModes)
        axes = render_axes(shape or self.geometry.grid, self.geometry.grid, alignment)
        fused = self.modes.fused(designs(self.encoding, axes, device=self.roughness.device))

        def apply(values: Tensor, out: Tensor | None) -> Tensor:
            return fused(self._gained(values, overwrite=out is not None), out)

        return Renderer(self.centred, apply, axes)

    def _system(self, observation: Observation) -> System:
        if self.form == "precision":
            assert isinstance(observation, Masked)
            return PrecisionSystem(self.modes, observation, self.roughness)
        return penalised(self.modes, observation, self.prior.strength * self.roughness)

    def _solve(
        self, values: Tensor, system: System | None, start: Tensor | None
    ) -> tuple[Tensor, dict[str, Any]]:
        if system is None:  # the first of the robust rounds
            return self._gained(values), {}
        with tqdm(desc="solving", disable=not self.progress, dynamic_ncols=True) as bar:

            def look(step: int, residual: float) -> None:
                bar.set_postfix_str(f"residual {residual:.1e}", refresh=False)
                bar.update(step - bar.n)

            solution = system.solve(
                values, start=start, tolerance=self.tolerance, steps=self.steps, callback=look
            )
        solution.warn_unless_converged(self.tolerance)
        return solution.x, {
            "method": f"conjugate gradients, {self.form} form",
            "iterations": solution.iterations,
            "relative_residual": float(solution.relative_residual.max()),
        }

    def _solved(self, z: Tensor, report: dict[str, Any]) -> Solved:
        return Solved(self.modes.weights(z), {**report, "ranks": list(self.modes.ranks)})

    def _robust(self, values: Float[Tensor, "1 channels *samples"], rounds: int = 5) -> Solved:
        """Huber's loss: weights min(1, δ/|r|), δ of 1.345 robust standard deviations of the residuals r."""
        base = self.observation or Masked(torch.ones_like(values[:1, :1]))
        known = base.weights.expand_as(values) > 0
        z, report = self._solve(values, self.system, None)
        for _ in range(rounds):
            residual = (base.forward(self.modes.synthesis(z)) - values).abs()
            limit = HUBER * 1.4826 * residual[known].median().clamp(min=1e-12)
            observation = base.reweighted((limit / residual.clamp(min=1e-30)).clamp(max=1))
            z, report = self._solve(values, self._system(observation), z)
        return self._solved(z, {**report, "loss": "huber", "limit": float(limit)})


def modes_of(
    encoding: ComplexEncoding | FourierEncoding,
    axes: Axes,
    *,
    rcond: float | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Modes:
    """The modes in which an encoding's roughness is diagonal."""
    if isinstance(encoding, FourierEncoding):
        return FourierModes(encoding, dtype=dtype, device=device)
    return EncodingModes(encoding, axes, rcond=rcond, dtype=dtype, device=device)


def choose_form(prior: Smoothness, modes: Modes, observation: Observation) -> str:
    """The precision form where unknown points cluster, every lattice signal is reached and weights are 0 or 1.

    Raises
    ------
    ValueError
        If the precision form is asked for where there is none.
    """
    possible = (
        modes.complete
        and modes.whole() is modes
        and isinstance(observation, Masked)
        and is_plain(observation.weights)
    )
    if prior.form == "precision" and not possible:
        raise _checks.wrong(
            "form", "modes, unless a lattice is masked by 0 and 1 and the basis complete", "precision"
        )
    if prior.form != "auto" or not possible:
        return "modes" if prior.form == "auto" else prior.form
    assert isinstance(observation, Masked)
    return "precision" if is_structured(observation.weights) else "modes"


def is_plain(weights: Tensor) -> bool:
    """Whether weights are 0 and 1 alone."""
    return bool(((weights == 0) | (weights == 1)).all())


def is_structured(weights: Float[Tensor, "signals channels *lattice"]) -> bool:
    """Whether an unknown point's neighbour is unknown by ``CLUSTERING`` more often than at random."""
    unknown = weights == 0
    pairs, both = 0, 0
    for axis in range(2, unknown.ndim):
        length = unknown.shape[axis]
        left, right = unknown.narrow(axis, 0, length - 1), unknown.narrow(axis, 1, length - 1)
        pairs += int(left.sum())
        both += int((left & right).sum())
    return pairs > 0 and both / pairs > float(unknown.float().mean()) + CLUSTERING
