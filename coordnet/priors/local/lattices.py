"""Strided lattices with the local prior: interpolation between them by the posterior means of patches."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet.encodings import FourierEncoding
from coordnet.linalg.borders import make_periodic
from coordnet.networks.fit_reports import LocalReport
from coordnet.plans.hold_out import HeldOut
from coordnet.plans.plan import Begun, Fitted, Judged, Plan
from coordnet.priors.local.classes import Channels, LocalClasses
from coordnet.priors.local.masks import Signal, weights_of_groups
from coordnet.priors.local.parameters import LocalParameters
from coordnet.priors.local.patches import Estimate, Patches
from coordnet.priors.local.weights import HOPE, Weight, choose_weight
from coordnet.priors.spline import Spline, interpolated
from coordnet.sampling.axes import Axis
from coordnet.sampling.grids import Lattice
from coordnet.sampling.samples import Samples


class LocalLatticePlan(Plan):
    """Enlarge a strided lattice to its signal's grid by the posterior means of patches.

    The classes stay as they start, because samples that are never neighbors teach nothing about neighbors. A cubic
    spline gives the means of patches, linear interpolation is what the patches are weighted against. In pictures,
    groups of similar patches of the result then give a third estimate, and groups of that a fourth. The lattice's own
    part with the same steps, enlarged in the same way, decides the weights. Samples stay as they are.

    The parameters are those of ``plan``; the encoding is replaced by Fourier's of the signal's grid.
    """

    holds_out = True

    def __init__(self, encoding: FourierEncoding, geometry: Lattice, prior: LocalParameters, **options: Any) -> None:
        super().__init__(FourierEncoding.on(tuple(Axis(n) for n in geometry.grid)), geometry, **options)
        self.lattice, self.prior = geometry, prior
        prior.patch_on(geometry.grid)

    def is_promising(self, errors: Mapping[Any, float], energy: float) -> bool:
        """Return whether linear interpolation is nearly as good as others: patches improve on it by a few dB."""
        return errors.get(Spline(1), 0.0) <= HOPE * min(errors.values(), default=0.0)

    def solve_and_hold_out(self, values: Float[Tensor, "1 channels *samples"], begun: Begun | None = None) -> Judged:
        """Return the coefficients of one centered signal, and the estimate of it from its own part; see ``Plan``."""
        samples = Samples(self.lattice, values[0].movedim(0, -1))
        with tqdm(total=3, desc="patches", disable=not self.progress) as bar:
            weight, grouped, held_out = self._weights(samples)
            bar.update()
            signal, linear, estimate, local = self._both(samples)
            record = weight.record(signal.range, "linear interpolation")
            f = signal.kept(linear + weight.alpha * (local - linear))
            bar.update()
            record["groups"] = weights_of_groups(grouped, signal.range, "the patches")
            f = signal.grouped(linear, f, ~signal.known, grouped)
            bar.update()
        coefficients = make_periodic(signal.range * signal.kept(f).unsqueeze(0), self.encoding.shape)
        method = "posterior means of patches, local prior, against linear interpolation"
        report = LocalReport(method=method, patch=list(self.prior.patch_on(self.lattice.grid)), **record)
        return Fitted(coefficients, report, estimate.learned(signal.range)), held_out

    def _weights(self, samples: Samples) -> tuple[Weight, Sequence[Weight], HeldOut | None]:
        """Return the weights of patches against linear interpolation, and of groups, from the lattice's own part.

        The last is the estimate of the lattice with these weights.
        """
        judged = HeldOut.draw(samples, 0.0, 0)
        if judged is None:
            return Weight(), (), None
        signal, linear, _, local = self._both(judged.samples)
        truth = judged.values / signal.range
        hidden = ~signal.known
        weight = choose_weight(hidden, truth, linear, local)
        f, grouped = signal.kept(linear + weight.alpha * (local - linear)), list[Weight]()
        if f.ndim == 3 and weight.alpha:
            grouped, f = signal.weigh_groups(linear, f, truth, hidden)
        return weight, grouped, replace(judged, estimate=signal.range * f)

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
