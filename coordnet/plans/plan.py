"""Plans: the factorizations for one geometry, with which any number of signals on it are fitted."""

import itertools
import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.encodings.blending import Blending
from coordnet.encodings.designs import designs
from coordnet.encodings.encoding import duplicate
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.linalg.kronecker import Kronecker
from coordnet.linalg.machine import chunks, empty, full_precision, is_finite, is_tracked, is_transformed, scratch
from coordnet.linalg.operators import LinearOperator
from coordnet.linalg.recording import CudaGraph
from coordnet.networks.fit_reports import FitReport, LeastSquaresReport
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.networks.several_reports import BatchReport
from coordnet.networks.uncertain import Uncertainty
from coordnet.plans.hold_out import HeldOut
from coordnet.plans.posterior import Posterior
from coordnet.sampling.axes import Alignment
from coordnet.sampling.rectilinear import RectilinearLattice
from coordnet.sampling.samples import Geometry, channel_means


@dataclass(frozen=True)
class CenteredValues:
    """Values from which the mean of every channel is subtracted when they are used."""

    values: Float[Tensor, "signals channels *samples"]  # the original ones; channels may be strided
    means: Float[Tensor, "signals channels"]
    batch: tuple[int, ...]  # the leading dimensions that are flattened to ``signals``
    of_constant: Tensor | float  # the samples of the constant 1: 1, or (*samples)

    @classmethod
    def of(cls, centered: Float[Tensor, "signals channels *samples"]) -> "CenteredValues":
        """Return values that are centered already."""
        return cls(centered, centered.new_zeros(centered.shape[:2]), tuple(centered.shape[:1]), 1.0)

    def subtracted(self) -> Float[Tensor, "signals channels *samples"]:
        """Return the differences in new memory."""
        return self.values - self._broadcast(self.values.ndim) * self.of_constant

    def map(self, operator: LinearOperator, *, add_means: bool = False) -> Float[Tensor, "signals channels *codomain"]:
        """Apply an operator to the differences, in chunks of signals and channels; ``add_means`` adds the means again.

        Only the result is allocated if the intermediates of a channel are small enough for scratch memory.
        """
        means = self._broadcast(len(operator.codomain) + 2)
        if is_tracked(self.values):
            result = operator(self.subtracted())
            return result + means if add_means else result
        out = empty(self.values, (*self.values.shape[:2], *operator.codomain))
        centers = self._broadcast(self.values.ndim)
        for part in chunks(self.values, out):
            values = self.values[part]
            centered = scratch(values, tuple(values.shape)).copy_(values).sub_(centers[part])
            result = operator(centered, out[part])
            if add_means:
                result.add_(means[part])
        return out

    def _broadcast(self, dims: int) -> Tensor:
        return self.means.reshape(*self.means.shape, *(1,) * (dims - 2))


@dataclass(frozen=True)
class Fitted:
    """The coefficients of the linear head that a plan finds for centered values."""

    coefficients: Float[Tensor, "signals channels *features"]
    report: FitReport
    learned: dict[str, Tensor] = field(default_factory=dict)  # further estimates, such as a spectrum
    # The plan's estimate of the samples from their means over 2×2 cells, by which it is judged; None without one.
    halved: Float[Tensor, "signals channels *cells"] | None = None

    def signal(self, lattice: tuple[int, ...]) -> Float[Tensor, "signals channels *lattice"]:
        """Return the centered signal on a lattice of some lengths, with which Fourier coefficients begin."""
        return self.coefficients[(..., *(slice(0, n) for n in lattice))]


SOLVES = ("solve", "solve_and_hold_out", "_solve")  # a plan has one of these at least
Judged = tuple[Fitted, HeldOut | None]
Begun = Mapping[Any, Judged]  # results of other priors, whose keys they are


def solve_each(solve: Callable[[Tensor], Fitted], values: CenteredValues) -> Fitted:
    """Solve each signal independently, for methods that estimate something which signals must not share."""
    each = [solve(signal) for signal in values.subtracted().split(1)]
    if len(each) == 1:
        return each[0]
    reports = [fitted.report for fitted in each]
    names = [name for name in each[0].learned if all(name in fitted.learned for fitted in each)]
    learned = {name: torch.cat([fitted.learned[name] for fitted in each]) for name in names}
    return Fitted(torch.cat([fitted.coefficients for fitted in each]), BatchReport.of(reports), learned)


def follows_scales(encoding: Encoding) -> bool:
    """Whether gradients are followed to scales of an encoding's axes."""
    scaled = (encoder for encoder in encoding.axis_encoders if encoder.scales)
    tensors = itertools.chain.from_iterable((*encoder.parameters(), *encoder.buffers()) for encoder in scaled)
    return any(map(is_tracked, tensors))


class Plan:
    """The factorization of a closed-form fit for an encoding and a geometry; its options are those of ``plan``.

    Reports name the prior as ``assumed``, where the solve names no other one. The plan keeps a copy of the encoding
    with its trainable numbers held fixed, and each fit another one. If its scales are followed (``follows_scales``),
    the plan and its fits keep the encoding itself.
    """

    holds_out: bool = False  # whether a fit hides samples itself, and returns their estimates
    stands_apart: bool = False  # whether a fit starts anew, and not from fits made before it
    understates: bool = False  # whether these estimates have a little larger errors than the fit's result
    refines: bool = False  # whether such a fit is at least as good as earlier ones at the samples that these hid
    needs_proof: bool = False  # whether it has a weight only where hidden samples surely gain by it
    by_likelihood: bool = False  # whether a likelihood of all samples chooses its numbers, better than hidden ones do
    direct: bool = False  # whether a fit is a fixed sequence of products, without iteration
    has_gradient: bool = False  # whether gradients flow to the values
    has_drift: bool = False  # whether a fit finds the coefficients of a drift
    has_poles: bool = False  # whether a fit of points on a sphere goes on over its poles

    def __init__(
        self,
        encoding: Encoding,
        geometry: Geometry,
        *,
        solver: ConjugateGradients | None = None,
        center: bool = True,
        progress: bool = False,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        assumed: str = "none",
    ) -> None:
        if all(getattr(type(self), name) is getattr(Plan, name) for name in SOLVES):
            raise TypeError(f"expected a plan with one of {', '.join(SOLVES)}, received {type(self).__name__} without")
        if geometry.drift is not None and not self.has_drift:
            raise _checks.wrong("prior", "cn.ThinPlate() or 'auto', for points with a drift", assumed)
        if geometry.latitude is not None and not self.has_poles:
            raise _checks.wrong("prior", "cn.ThinPlate() or 'auto', for points on a sphere", assumed)
        self.assumed = assumed
        self.followed = follows_scales(encoding)
        self.device = torch.empty(0, device=device).device  # a device of a tensor has its index
        self.encoding = encoding if self.followed else duplicate(encoding).cpu()  # to read its scales waits for no GPU
        self.geometry, self.center, self.dtype = geometry, center, dtype
        self.solver, self.progress = solver or ConjugateGradients(), progress

    def solve(self, values: CenteredValues) -> Fitted:
        """Return the coefficients for centered values, by default each signal on its own, and how the solve went."""
        return solve_each(self._solve, values)

    def solve_and_hold_out(self, values: Float[Tensor, "1 channels *samples"], begun: Begun | None = None) -> Judged:
        """Return the coefficients of one centered signal, and the estimate of samples that were hidden on the way.

        ``begun`` has what this method returned for other priors. The second is None, as by default, where no sample was
        hidden.
        """
        return self.solve(CenteredValues.of(values)), None

    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        """Return the coefficients of one centered signal; a plan has this, or one of the two above."""
        return self.solve_and_hold_out(values)[0]

    def share(self, values: Float[Tensor, "1 channels *samples"]) -> float | None:
        """Return the weight that this fit of one centered signal has beside the one that hidden samples give.

        A fit whose share is 0 is not tried. By default it is None: hidden samples decide alone.
        """
        return None

    def is_promising(self, errors: Mapping[Any, float], energy: float) -> bool:
        """Return whether a fit is worth its time, by the mean squared hidden errors of priors that were tried before.

        The mean square of the samples is their ``energy``. By default it is worth it.
        """
        return True

    def fit(
        self,
        values: Float[Tensor, "*batch_samples channels"],
        *,
        lattice: RectilinearLattice | None = None,
        uncertainty: Callable[[FitReport], Uncertainty] | None = None,
    ) -> Reconstruction:
        """Fit a signal, or a batch of signals that share the geometry, whose samples are a lattice or n points.

        The options are those of ``Reconstruction``; the lattice is the geometry's if not given. The uncertainty is a
        function of the report, which says what the fit chose.

        Raises
        ------
        ValueError
            If the shape does not end in the geometry's and the channels, the dtype or the device is not the plan's, a
            value is not finite, or their sum overflows. Values on a GPU are not looked at, which would wait for it.
            Also if gradients are followed to the values, and the plan ``has_gradient`` not.
        """
        self.check_gradients(values)
        centered = self.centered(values)
        if values.numel() == 0:
            raise _checks.wrong("values", "at least one signal and one channel", f"shape {tuple(values.shape)}")
        with nullcontext() if self.direct else full_precision():  # an iteration looks at residuals and their rounding
            fitted = self.solve(centered)
        return self.reconstruction(fitted, centered, lattice=lattice, uncertainty=uncertainty)

    def reconstruction(
        self,
        fitted: Fitted,
        centered: CenteredValues,
        *,
        lattice: RectilinearLattice | None = None,
        uncertainty: Callable[[FitReport], Uncertainty] | None = None,
    ) -> Reconstruction:
        """Return the reconstruction with coefficients of centered values; see ``fit`` for options and errors."""
        # The fit has tensors of its own: to move or to train them does not change the plan.
        encoding = self.encoding if self.followed else duplicate(self.encoding)
        weight = fitted.coefficients.flatten(0, 1).contiguous()
        if not is_finite(weight, waits=not self.direct):  # an iteration has waited already
            expected = "values that this plan can fit: a finite result"
            raise _checks.wrong("values", expected, "NaN or infinity in it; another prior may do")
        blending = Blending.of(self.geometry)
        network = CoordinateNetwork(encoding, Linear(), centered.means.numel(), weight=weight, blending=blending)
        offset = centered.means.reshape(*centered.batch, centered.means.shape[1])
        report = replace(fitted.report, prior=fitted.report.prior or self.assumed)
        learned, footprint = fitted.learned, self.geometry.footprint
        lattice = lattice or self.geometry.lattice
        grid = self.geometry.grid if lattice is None else lattice.grid
        sure = uncertainty and uncertainty(report)
        drift = () if self.geometry.drift is None else self.geometry.drift.names
        parts = report, learned, footprint, lattice, sure, drift
        return Reconstruction(network, offset, grid, centered.batch, *parts)

    def posterior(self, values: Float[Tensor, "1 channels *samples"], learned: dict[str, Tensor]) -> Posterior:
        """Return the posterior that the prior has for centered values, with what the fit learned.

        A ``ValueError`` is raised if there is none to draw from.
        """
        expected = "a smooth prior of squared errors, or an adaptive or local one, to draw"
        raise _checks.wrong("prior", expected, self.assumed)

    def centered(self, values: Float[Tensor, "*batch_samples channels"]) -> CenteredValues:
        """Return the values (signals, channels, *samples) and their means; see ``fit`` for errors."""
        if not isinstance(values, Tensor) or values.dtype != self.dtype:
            found = values.dtype if isinstance(values, Tensor) else type(values).__name__
            raise _checks.wrong("values", f"a tensor of {self.dtype}, the dtype of the plan", found)
        if values.device != self.device:
            raise _checks.wrong("values", f"{self.device}, the device of the plan", values.device)
        shape = self.geometry.shape
        batch, channels = tuple(values.shape[: -len(shape) - 1]), values.shape[-1] if values.ndim else 0
        if tuple(values.shape[len(batch) : -1]) != shape:
            raise _checks.wrong("values", f"shape (*batch, {shape}, channels)", tuple(values.shape))
        stack = values.movedim(-1, len(batch)).reshape(math.prod(batch), channels, *shape)
        of_constant = self.geometry.of_constant(stack)
        means = channel_means(stack, self.geometry.weights, of_constant)
        if not is_finite(means):
            raise _checks.wrong("values", "finite values, with a finite sum", "NaN, infinity or an overflow")
        return CenteredValues(stack, means if self.center else torch.zeros_like(means), batch, of_constant)

    def check_gradients(self, values: Tensor) -> None:
        """Refuse values with a ``ValueError`` whose gradients are followed where the plan has none."""
        if self.direct or not isinstance(values, Tensor):
            return
        if is_transformed(values):
            expected = "a tensor outside of torch.func, or `backward()` for its gradient, where a fit iterates"
            raise _checks.wrong("values", expected, "one that torch.func or forward-mode autograd follows")
        if is_tracked(values) and not self.has_gradient:
            expected = "cn.Adaptive() or cn.Smoothness() where gradients are followed, or `values.detach()`"
            raise _checks.wrong("prior", expected, f"{self.assumed}, whose fit has no gradient")

    def renderer(self, shape: int | tuple[int, ...] | None = None, alignment: Alignment = "pixel") -> "Renderer":
        """Return ``values`` ↦ ``plan.fit(values).render(shape, alignment)``; ``ValueError`` if the plan iterates."""
        raise self._iteration_error()

    def capture(self, values: Float[Tensor, "*batch_samples channels"]) -> CudaGraph[Reconstruction]:
        """Record the fit of values of one shape as a ``CudaGraph``; a ``ValueError`` is raised if the plan iterates."""
        raise self._iteration_error()

    def _iteration_error(self) -> ValueError:
        return _checks.wrong("plan", "one of a whole lattice, which takes no iteration", type(self).__name__)


class DirectPlan(Plan):
    """A plan whose fit is one linear operator, without iteration.

    A fit, like a ``renderer``, allocates only its result: intermediates are in memory that each thread keeps (see
    ``linalg.machine``), and channels are processed in chunks that fit into a processor's cache. A captured graph has
    its own memory. Autograd, and FFTs on a GPU, allocate more; a batch whose dimensions are not adjacent in memory is
    copied.
    """

    direct = has_gradient = True
    operator: LinearOperator  # from centered values to coefficients, with matrices in float64
    report: LeastSquaresReport  # the same for every fit

    def _prepare(self, operator: LinearOperator, report: LeastSquaresReport) -> None:
        self.operator, self.report = operator, report
        self._operator = operator.to(dtype=self.dtype)

    def solve(self, values: CenteredValues) -> Fitted:
        coefficients = self._operator(values.subtracted()) if self.followed else values.map(self._operator)
        return Fitted(coefficients, self.report)

    @torch.no_grad()
    def renderer(self, shape: int | tuple[int, ...] | None = None, alignment: Alignment = "pixel") -> "Renderer":
        """Return a function that fits and renders in one step, with one matrix per axis where that is possible."""
        axes = self.geometry.render_axes(shape, alignment, self.geometry.footprint)
        onto = Kronecker(designs(self.encoding, axes, device=self.device))
        return Renderer(self.centered, (onto @ self.operator).to(dtype=self.dtype))

    def capture(self, values: Float[Tensor, "*batch_samples channels"]) -> CudaGraph[Reconstruction]:
        """Record the fit of values of one shape as a CUDA graph; see ``CudaGraph``."""
        return CudaGraph(self.fit, values)


class Renderer:
    """The map from values on a plan's geometry to the fitted signal on a lattice, with ``Plan.centered`` as ``center``.

    The operator maps centered values to the centered signal on the lattice.
    """

    def __init__(self, center: Callable[[Tensor], CenteredValues], operator: LinearOperator) -> None:
        self.center, self.operator = center, operator

    @torch.no_grad()
    def __call__(self, values: Float[Tensor, "*batch_samples channels"]) -> Float[Tensor, "*result channels"]:
        """Return ``plan.fit(values).render(shape)``, (*batch, *shape, channels); see ``Plan.fit`` for errors."""
        centered = self.center(values)
        out = centered.map(self.operator, add_means=True)
        return out.movedim(1, -1).reshape(*centered.batch, *self.operator.codomain, values.shape[-1])

    def capture(self, values: Float[Tensor, "*batch_samples channels"]) -> CudaGraph[Tensor]:
        """Record the call with values of one shape as a CUDA graph; see ``CudaGraph``."""
        return CudaGraph(self, values)
