"""Strided lattices with the local prior: interpolation between them by the posterior means of patches."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet.encodings import FourierEncoding
from coordnet.encodings.encoders import UnevenSpline
from coordnet.linalg.borders import make_periodic
from coordnet.linalg.kronecker import Kronecker
from coordnet.networks.fit_reports import LocalReport, PatchWeights
from coordnet.plans.plan import CenteredValues, Fitted, Plan, solve_each
from coordnet.priors.local.channels import Channels
from coordnet.priors.local.classes import LocalClasses
from coordnet.priors.local.estimate import Estimate
from coordnet.priors.local.masks import Signal
from coordnet.priors.local.parameters import LocalParameters
from coordnet.priors.local.patches import Patches
from coordnet.priors.local.weights import Weights, choose_weights
from coordnet.sampling.axes import Axis
from coordnet.sampling.grids import Lattice
from coordnet.sampling.samples import Samples

SHORTEST = 4  # samples that must be left along an axis when the lattice's own part is enlarged


class LocalLatticePlan(Plan):
    """Enlarge a strided lattice to its signal's grid by the posterior means of patches.

    The classes stay as they start, because samples that are never neighbors teach nothing about neighbors. A cubic
    spline gives the means of patches, linear interpolation is what the patches are weighted against. In pictures,
    groups of similar patches of the result then give a third estimate. The lattice's own part with the same steps,
    enlarged in the same way, decides both weights. Samples stay as they are.

    The parameters are those of ``plan``; the encoding is replaced by Fourier's of the signal's grid.
    """

    def __init__(self, encoding: FourierEncoding, geometry: Lattice, prior: LocalParameters, **options: Any) -> None:
        super().__init__(FourierEncoding.on(tuple(Axis(n) for n in geometry.grid)), geometry, **options)
        self.lattice, self.prior = geometry, prior
        prior.patch_on(geometry.grid)

    def solve(self, values: CenteredValues) -> Fitted:
        """Return the coefficients for centered values, each signal with its own weight."""
        return solve_each(self._solve, values)

    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        samples = Samples(self.lattice, values[0].movedim(0, -1))
        with tqdm(total=3, desc="patches", disable=not self.progress) as bar:
            weights, grouped = self._weights(samples)
            bar.update()
            signal, linear, estimate, local = self._both(samples)
            record = weights.record(signal.range, signal.known, "linear interpolation")
            f = signal.kept(linear + weights.on(signal.known) * (local - linear))
            bar.update()
            if not grouped.are_zero:
                record["groups"] = PatchWeights(**grouped.record(signal.range, signal.known, "the patches"))
                f = f + grouped.on(signal.known) * (signal.from_similar(f, ~signal.known) - f)
            bar.update()
        coefficients = make_periodic(signal.range * signal.kept(f).unsqueeze(0), self.encoding.shape)
        method = "posterior means of patches, local prior, against linear interpolation"
        report = LocalReport(method=method, patch=list(self.prior.patch_on(self.lattice.grid)), **record)
        return Fitted(coefficients, report, estimate.learned(signal.range))

    def _weights(self, samples: Samples) -> tuple[Weights, Weights]:
        """Return the weights of patches against linear interpolation, and of groups, from the lattice's own part."""
        shape = tuple(samples.values.shape[:-1])
        offsets = tuple(min(o, n - 1) for o, n in zip(self.lattice.offsets, shape, strict=True))
        own = Lattice(shape, self.lattice.steps, offsets)
        if min(m for m, step in zip(own.shape, own.steps, strict=True) if step > 1) < SHORTEST:
            return Weights.none(), Weights.none()
        signal, linear, _, local = self._both(Samples(own, samples.values[own.slices]))
        truth = samples.values.movedim(-1, 0) / signal.range
        hidden = (~signal.known).expand_as(truth)
        weights = choose_weights(signal.known, hidden, truth, linear, local)
        if weights.are_zero or len(shape) != 2:
            return weights, Weights.none()
        f = signal.kept(linear + weights.on(signal.known) * (local - linear))
        return weights, choose_weights(signal.known, hidden, truth, f, signal.from_similar(f, ~signal.known))

    def _both(self, samples: Samples) -> tuple[Signal, Tensor, Estimate, Tensor]:
        """Return samples on their grid, in units of their range, and both interpolations of them."""
        values = samples.values.new_zeros(*samples.grid, samples.channels)
        samples.geometry.put(samples.values, values)
        known = samples.geometry.known(1).movedim(-1, 0).to(values.device)
        signal = Signal.of(values.movedim(-1, 0), known)
        linear, cubic = (interpolated(samples, degree) / signal.range for degree in (1, 3))
        shape = self.prior.patch_on(samples.grid)
        classes = LocalClasses.begin(shape, Channels.of(signal.values, known), joint=False)
        observed = classes.observe(signal.values, known, cubic)
        estimate = classes.estimate(observed, Patches.every(self.prior.stride, samples.grid, shape, values.device))
        return signal, linear, estimate, classes.restore(estimate.f)


def interpolated(samples: Samples, degree: int) -> Float[Tensor, "channels *grid"]:
    """Return the tensor spline through all samples of a lattice on its signal's grid, with the end values beyond it."""
    values = samples.values.movedim(-1, 0)
    pairs = zip(samples.axes, samples.grid, strict=True)
    matrices = [_spline_matrix(axis, Axis(length), degree, values.device) for axis, length in pairs]
    return Kronecker(matrices)(values.double()).to(values)


def _spline_matrix(knots: Axis, onto: Axis, degree: int, device: torch.device) -> Float[Tensor, "positions knots"]:
    """Return the matrix, in float64, from values at the knots of a spline to its values at other positions."""
    encoder = UnevenSpline.for_axes((knots,), None, degree=degree)
    x = knots.points(device=device)
    at = onto.points(device=device).clamp(x[0], x[-1])
    return torch.linalg.solve(encoder(x), encoder(at), left=False)
