"""The smoothness prior, a penalty on a power of the roughness, and its closed-form fits for any geometry."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.encodings.blending import lattice_of, measure
from coordnet.linalg.operators import Diagonal
from coordnet.linalg.transforms import CosineBasis, Folding
from coordnet.networks.fit_reports import LeastSquaresReport
from coordnet.plans.modes import EncodingModes, FourierModes, Modes
from coordnet.plans.plan import CenteredValues, DirectPlan, Fitted, Plan, solve_each
from coordnet.plans.posterior import LatticePosterior, PerturbedPosterior, Posterior, draw_tolerance
from coordnet.plans.systems import ConstrainedSystem, System, penalized_system
from coordnet.priors.base import Prior, Sampled, Setting
from coordnet.sampling.axes import Axes, ByAxes
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.samples import Geometry, units_of

POWER = ByAxes({1: 1.0, 2: 1.5, 3: 2.0})  # the smoothness of natural signals by the number of axes
# Power and strength between the samples of a strided lattice. Held-out figures at every second sample of sixteen
# photographs: 27.58 dB (27.33 without a prior).
STRIDED = ByAxes({1: (2.5, 0.01), 2: (1.5, 0.03)})
SOLVER_TOLERANCE = ByAxes({1: 1e-5, 2: 3e-4, 3: 1e-3})  # relative residual of solves by default, by number of axes
CELLS = 0.03  # factor of the tolerance for pixels within cells, where the penalty alone decides
MEASURED_TOLERANCE = 5e-5  # the default tolerance for any operator, whose small residuals hide larger errors
HUBER = 1.345  # standard deviations: 95 % efficient for normal errors (Huber 1981, section 7.9)
HUBER_ROUNDS = 5


@dataclass(frozen=True)
class Smoothness(Prior):
    """The penalty λ Σ ρ |z|² over modes z, with the roughness ρ = (a₁μ₁ ⊕ … ⊕ a_dμ_d)^p.

    The ``power`` p is the order of smoothness: 1 is a membrane, 2 a thin plate, 0 a ridge on the signal; 1.25 to 1.5
    suits photographs, 2 to 2.5 video. The ``strength`` λ is relative to squared errors of weight 1; 0 interpolates. The
    ``anisotropy`` a_j is the weight of roughness along each axis, or one number for all axes.

    On masked lattices the unknowns are the modes, or with the form "constrained" the unknown points, while the known
    ones are held fixed. The modes converge slowly on holes, scratches and text; with "auto" the mask decides. Huber's
    loss of the errors at samples is for samples with outliers.

    A ``ValueError`` is raised if a number is negative, no anisotropy is positive, or a form or loss is unknown.
    """

    name: ClassVar[str] = "smooth"
    usage: ClassVar[str] = "[:power=1.5,strength=0.01,anisotropy=0.3x1x1]"
    samples: ClassVar[tuple[Sampled, ...]] = ("lattice",)
    power: float = 1.5
    strength: float = 0.01
    anisotropy: float | tuple[float, ...] = 1.0
    form: Literal["auto", "modes", "constrained"] = "auto"
    loss: Literal["squared", "huber"] = "squared"

    def __post_init__(self) -> None:
        _checks.nonnegative("power", self.power)
        _checks.nonnegative("strength", self.strength)
        values = self.anisotropy if isinstance(self.anisotropy, tuple) else (self.anisotropy,)
        for value in values:
            _checks.nonnegative("anisotropy", value)
        if not any(values):
            raise _checks.wrong("anisotropy", "a positive weight on some axis", self.anisotropy)
        _checks.choice("form", self.form, ("auto", "modes", "constrained"))
        _checks.choice("loss", self.loss, ("squared", "huber"))

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return a plan without iteration for whole lattices and squared errors, and one that iterates for others."""
        if self.loss != "squared" or geometry.filled_axes is None or not encoding.axis_encoders:
            return SmoothPlan(encoding, geometry, self, **options)
        folds = lattice_of(encoding, geometry) != geometry.axes
        return (FoldedPlan if folds else SmoothLatticePlan)(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[Smoothness, ...]":
        """Return it for lattices that skip samples or have a long axis, and with Huber's loss for outliers."""
        geometry, dims = setting.geometry, len(setting.geometry.grid)
        if setting.robust:
            return (cls(POWER[dims], 1e-3 if setting.sampled == "lattice" else 1e-2, loss="huber"),)
        if geometry.is_strided:
            return (cls(*STRIDED[dims]),)
        fills = geometry.filled_axes is not None and geometry.shape == geometry.grid
        return (cls(POWER[dims], 1e-3),) if setting.is_long and fills else ()

    def robust(self) -> "Smoothness":
        """Return the prior with Huber's loss."""
        return replace(self, loss="huber")

    @property
    def text(self) -> str:
        """The prior as the command line reads it, always with its three numbers."""
        return self._text("power", "strength", "anisotropy")

    def axis_weights(self, dims: int) -> tuple[float, ...]:
        """Return the anisotropy as one weight per axis; a ``ValueError`` is raised for a tuple of another length."""
        weights = self.anisotropy if isinstance(self.anisotropy, tuple) else (self.anisotropy,) * dims
        if len(weights) != dims:
            raise _checks.wrong("anisotropy", f"one number, or {dims}, one per axis", self.anisotropy)
        return tuple(float(weight) for weight in weights)

    def roughness(self, modes: Modes) -> Float[Tensor, "*modes"]:
        """Return ρ of every mode; see ``axis_weights`` for errors."""
        return modes.roughness(self.axis_weights(len(modes.lattice))) ** self.power

    def penalty(self, modes: Modes) -> Float[Tensor, "*modes"]:
        """Return λρ of every mode."""
        return self.strength * self.roughness(modes)


class SmoothLatticePlan(DirectPlan):
    """Minimize ‖B z - y‖² + λ Σ ρ |z|² on a whole lattice: z = Bᵀ y / (1 + λρ), without iteration; see ``Plan``."""

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Smoothness, **options: Any) -> None:
        super().__init__(encoding, geometry, **options)
        self.modes = EncodingModes(self.encoding, geometry.axes, dtype=self.dtype, device=self.device)
        self.penalty = prior.penalty(self.modes)
        gain = Diagonal(1 / (1 + self.penalty))
        operator = self.modes.to_coefficients @ gain @ self.modes.basis.T
        self._prepare(operator, LeastSquaresReport(method="modes, direct", ranks=list(self.modes.ranks)))

    def posterior(self, values: Float[Tensor, "1 channels *samples"], learned: dict[str, Tensor]) -> Posterior:
        return LatticePosterior(self.modes, self.penalty, values)


class IteratedPlan(Plan):
    """A plan that solves for the modes of an encoding by conjugate gradients, for any geometry."""

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Any, **options: Any) -> None:
        super().__init__(encoding, geometry, **options)
        self.prior, kind = prior, {"dtype": self.dtype, "device": self.device}
        lattice = lattice_of(self.encoding, geometry)
        self.modes = modes_of(self.encoding, lattice, **kind)
        self.measurement = measure(self.encoding, geometry, **kind)
        default = MEASURED_TOLERANCE if self.measurement.is_general else SOLVER_TOLERANCE[len(geometry.grid)]
        self.tolerance = self.solver.tolerance or default * (1 if lattice == geometry.axes else CELLS)

    def normalized(self, values: Float[Tensor, "signals channels *samples"]) -> tuple[Tensor, Tensor]:
        """Return centered values in their own units (see ``units_of``), zero where unknown, and the units.

        The units are (signals, 1, …), with as many dimensions as modes have.
        """
        known = torch.where(self.measurement.weights > 0, values, 0.0)
        units = units_of(known)
        return known / units, units.reshape(len(units), 1, *(1,) * len(self.modes.lattice))


class SmoothPlan(IteratedPlan):
    """Minimize Σ w (S f - y)² + λ Σ ρ |z|² over the modes z of an encoding, f = B z.

    The normal equations (BᵀSᵀWSB + λρ) z = BᵀSᵀW y are solved by conjugate gradients, on the lattice itself or in the
    modes (``penalized_system``). Where unknown points are clustered (holes, scratches, text) and the modes span the
    lattice, known samples are held fixed and the unknown points are solved for (``ConstrainedSystem``).

    Huber's loss is minimized by reweighted solves. A ``ConvergenceWarning`` is given if the steps did not suffice.
    Gradients flow to the values, to the solver's tolerance; with Huber's loss, which is not linear in them, a
    ``ValueError`` is raised.
    """

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Smoothness, **options: Any) -> None:
        super().__init__(encoding, geometry, prior, **options)
        self.has_gradient = prior.loss == "squared"
        self.form = choose_form(prior, self.modes, self.measurement)
        self.system = self._system(self.measurement)

    def solve(self, values: CenteredValues) -> Fitted:
        """Return the coefficients for centered values, with the form, the iterations and the residual."""
        if self.prior.loss == "huber":
            return solve_each(self._solve_robustly, values)
        known, units = self.normalized(values.subtracted())
        z, report = self._solved(known, self.system)
        return Fitted(units * self.modes.coefficients(z), report)

    def posterior(self, values: Float[Tensor, "1 channels *samples"], learned: dict[str, Tensor]) -> Posterior:
        """Return the posterior for centered values; a ``ValueError`` is raised without a penalty, and for a loss."""
        if self.assumed == "none":
            raise _checks.wrong("prior", "one with a penalty, to draw", self.assumed)
        if self.prior.loss != "squared":
            raise _checks.wrong("prior", "squared errors, whose posterior is normal", self.prior.loss)
        exact = self.form == "constrained"
        in_modes = exact or self.measurement.is_general
        options: dict[str, Any] = {"tolerance": self.solver.tolerance or draw_tolerance(in_modes)}
        known = torch.where(self.measurement.weights > 0, values, 0.0)
        return PerturbedPosterior(self.system, known, **options, steps=self.solver.steps, has_noise=not exact)

    def _system(self, measurement: ForwardModel) -> System:
        if self.form == "constrained":
            return ConstrainedSystem(self.modes, measurement, self.prior.roughness(self.modes))
        return penalized_system(self.modes, measurement, self.prior.penalty(self.modes))

    def _solved(self, values: Tensor, system: System, start: Tensor | None = None) -> tuple[Tensor, LeastSquaresReport]:
        with tqdm(desc="solving", disable=not self.progress, dynamic_ncols=True) as bar:

            def show(step: int, residual: float, _: Tensor) -> None:
                bar.set_postfix_str(f"residual {residual:.1e}", refresh=False)
                bar.update(step - bar.n)

            solution = system.solve(
                values, start=start, tolerance=self.tolerance, steps=self.solver.steps, callback=show
            )
        solution.warn_unless_converged(self.tolerance)
        return solution.x, LeastSquaresReport(
            method=f"conjugate gradients, {self.form} form",
            iterations=solution.iterations,
            relative_residual=float(solution.relative_residual.max()),
            ranks=list(self.modes.ranks),
        )

    def _solve_robustly(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        """Minimize Huber's loss: weights min(1, δ/|r|), δ being 1.345 robust standard deviations of the residuals."""
        known = self.measurement.weights.expand_as(values) > 0
        values, units = self.normalized(values)
        z, report = self._solved(values, self.system)
        limit = torch.zeros(())
        for _ in range(HUBER_ROUNDS):
            residual = (self.measurement(self.modes(z)) - values).abs()
            limit = HUBER * 1.4826 * residual[known].median().clamp(min=1e-12)
            reweighted = self.measurement.reweighted((limit / residual.clamp(min=1e-30)).clamp(max=1))
            z, report = self._solved(values, self._system(reweighted), z)
        report = replace(report, loss="huber", limit=float(units * limit))
        return Fitted(units * self.modes.coefficients(z), report)


def modes_of(
    encoding: Encoding, axes: Axes, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> Modes:
    """Return the modes in which an encoding's roughness is diagonal."""
    if isinstance(encoding, FourierEncoding):
        return FourierModes(encoding, dtype=dtype, device=device)
    return EncodingModes(encoding, axes, dtype=dtype, device=device)


def choose_form(prior: Smoothness, modes: Modes, measurement: ForwardModel) -> str:
    """Return the form of the system: "constrained" for structured masks of 0 and 1 that unpadded modes span.

    A ``ValueError`` is raised if the prior asks for the constrained form where there is none.
    """
    spanned = modes.spans_grid and modes.on_padded_grid() is modes
    possible = prior.loss == "squared" and spanned and measurement.is_plain_mask
    if prior.form == "constrained" and not possible:
        expected = "modes, unless a lattice is masked by 0 and 1, the modes span it and the loss is squared"
        raise _checks.wrong("form", expected, "constrained")
    if prior.form != "auto":
        return prior.form
    return "constrained" if possible and measurement.is_structured_mask else "modes"


class FoldedPlan(DirectPlan):
    """Fit all means over the cells of a lattice of pixels, with a smoothness of the pixels, without iteration.

    The pixels f = B z minimize Σ (S f - y)² + λ Σ ρ |z|² for the means S f, through the folded modes of ``Folding``. A
    ``ValueError`` is raised if the encoding does not reach every lattice of pixels.
    """

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Smoothness, **options: Any) -> None:
        super().__init__(encoding, geometry, **options)
        modes = EncodingModes(self.encoding, geometry.fine_axes, dtype=self.dtype, device=self.device)
        if not modes.spans_grid:
            expected = "one that reaches every pixel, such as Gaussians at the pixels (cn.AreaLattice(grid))"
            raise _checks.wrong("encoding", expected, f"ranks {modes.ranks} of {modes.lattice}")
        cells = tuple(n // m for n, m in zip(geometry.grid, geometry.shape, strict=True))
        folding = Folding(cells, prior.roughness(modes), prior.strength)
        onto = CosineBasis(geometry.shape, self.dtype, self.device)
        report = LeastSquaresReport(method="folded modes, direct", ranks=list(modes.ranks))
        self._prepare(modes.to_coefficients @ folding @ onto.T, report)
