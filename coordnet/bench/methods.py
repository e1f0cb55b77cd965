"""coordnet's own methods: closed forms with each prior, networks trained by gradient, and the denoiser."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import torch

from coordnet.analysis import stable_rank
from coordnet.bench.cells import plain
from coordnet.bench.estimation import Case, Estimator, Outcome
from coordnet.bench.layouts import Layout, fourier
from coordnet.encodings import Encoding
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.fitting.gradient import fit_gradient
from coordnet.fitting.tuning import tune_smoothness
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.metrics.stopwatch import once, timed
from coordnet.networks.heads import Head, Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.smoothness import Smoothness
from coordnet.restore.denoise import denoise
from coordnet.sampling.axes import Axis, lattice_points
from coordnet.sampling.samples import MaskedLattice, Samples, ScatteredPoints

ENCODED = 2**16  # points encoded at a time
REPORTED = ("ranks", "iterations", "rounds", "start")  # entries of a fit's report that records keep
Fitted = tuple[Reconstruction, float, dict[str, Any]]  # the fit, its seconds, and notes
Prior = Smoothness | Adaptive | None


@dataclass(frozen=True)
class Fit(Estimator):
    """A reconstruction from samples through an encoding; its seconds include the encoding of the samples.

    With ``virtual`` the known samples of a masked lattice are scattered points, tied to a grid with that many times
    fewer nodes along each axis as in the papers, by the encoders' similarity.
    """

    layout: Layout
    virtual: int | None = None

    @abstractmethod
    def fit(self, encoding: Encoding, samples: Samples, case: Case) -> Fitted:
        """Fit the samples."""

    def apply(self, case: Case) -> Outcome:
        """Build the encoding, fit and render."""
        samples = self.tied(case.samples)
        encoding = self.layout(samples, case.samples.grid, case.seed).to(samples.values.device)
        transforms = self.layout.build is fourier  # FFTs have no matrix
        encode = 0.0 if transforms else _seconds_to_encode(encoding, samples)
        fitted, seconds, notes = self.fit(encoding, samples, case)
        with torch.no_grad():
            estimate, render = timed(lambda: fitted.on_axes(tuple(Axis(n) for n in case.samples.grid)))
        notes = {"parameters": fitted.network.parameter_count, **notes}
        notes |= {} if transforms else _rank(encoding, case.samples)
        return Outcome(estimate, seconds, encode, render, notes)

    def tied(self, samples: Samples) -> Samples:
        """Return the samples on the geometry that is fitted."""
        geometry = samples.geometry
        if not self.virtual:
            return samples
        assert geometry.weights is not None
        known = geometry.weights[..., 0] > 0
        points = lattice_points(geometry.axes).to(known.device)[known].to(samples.values.dtype)
        grid = tuple(max(2, n // self.virtual) for n in samples.grid)
        return Samples(ScatteredPoints(grid, points, blending="similarity"), samples.values[known])


def _seconds_to_encode(encoding: Any, samples: Samples) -> float:
    axes, like = samples.geometry.axes, samples.values
    if encoding.is_factored:
        return timed(lambda: encoding.matrices(axes, like.dtype, like.device))[1]
    points = lattice_points(axes, like.dtype, like.device).flatten(0, -2)
    if samples.weights is not None:
        points = points[(samples.weights > 0).any(-1).flatten()]
    return timed(lambda: [encoding(part).sum() for part in points.split(ENCODED)])[1]


def _rank(encoding: Any, samples: Samples) -> dict[str, float]:
    """Measure the stable rank of the encoding matrix of a row of samples."""
    if len(samples.grid) > 1:
        return {}
    x = samples.geometry.axes[0].points(device=samples.values.device)
    matrix = encoding.axis_encoders[0](x) if encoding.is_factored else encoding(x.unsqueeze(-1))
    return {"stable_rank": stable_rank(matrix.detach())}


@dataclass(frozen=True)
class ClosedForm(Fit):
    """A linear head in closed form; the seconds of the fit include the factorization."""

    prior: Prior = None
    masked: bool = False  # fit a strided lattice as a grid with unknown entries, so that the prior acts on all
    tolerance: float | None = None  # the relative residual of conjugate gradients; the library's if left out

    def fit(self, encoding: Encoding, samples: Samples, case: Case) -> Fitted:
        """Choose the prior and solve."""
        (prior, chosen), choice = once(lambda: self.choose(encoding, samples))
        options = {} if self.tolerance is None else {"solver": ConjugateGradients(self.tolerance)}
        fitted, seconds = timed(lambda: fit_closed_form(encoding, samples, prior, **options))
        notes = {key: fitted.report[key] for key in REPORTED if key in fitted.report}
        return fitted, seconds + choice, {**notes, **chosen}

    def choose(self, encoding: Any, samples: Samples) -> tuple[Prior, dict[str, Any]]:
        """Return the prior, and notes on it if it was chosen for the samples."""
        return self.prior, {}

    def tied(self, samples: Samples) -> Samples:
        """Return the samples on the geometry that is fitted."""
        geometry: Any = samples.geometry
        if not self.masked:
            return super().tied(samples)
        values = samples.values.new_zeros(*geometry.grid, samples.channels)
        values[geometry.slices] = samples.values
        return Samples(MaskedLattice(geometry.grid, weights=geometry.known(1).to(values)), values)


@dataclass(frozen=True)
class Tuned(ClosedForm):
    """The closed form with a smoothness prior whose numbers a criterion chooses from the samples."""

    criterion: str = "hold-out"

    def choose(self, encoding: Any, samples: Samples) -> tuple[Prior, dict[str, Any]]:
        """Choose power, strength and anisotropy."""
        prior = tune_smoothness(encoding, samples, criterion=self.criterion).choice
        return prior, {"chosen": plain(prior)}


@dataclass(frozen=True)
class Trained(Fit):
    """A network trained by Adam on the full batch; the fit is timed once, after one epoch to warm up."""

    head: Head = field(default=Linear())
    lr: float = 0.1

    def fit(self, encoding: Encoding, samples: Samples, case: Case) -> Fitted:
        """Train for the case's epochs."""
        generator = torch.Generator().manual_seed(case.seed)
        network = CoordinateNetwork(encoding, self.head, samples.channels, generator=generator)

        def train(epochs: int) -> Reconstruction:
            return fit_gradient(network, samples, epochs=epochs, lr=self.lr)

        train(1)
        fitted, seconds = once(lambda: train(case.epochs))
        return fitted, seconds, {key: fitted.report[key] for key in ("loss", "epochs")}


@dataclass(frozen=True)
class Denoised(Estimator):
    """The adaptive Wiener filter of ``denoise``, with the noise given or estimated."""

    given: bool = False

    def apply(self, case: Case) -> Outcome:
        """Remove the noise."""
        sigma = case.noise if self.given else None
        fitted, seconds = timed(lambda: denoise(case.samples.values, sigma).fit)
        return Outcome(fitted.render(), seconds, notes={"sigma": fitted.report["sigma"]})


@dataclass(frozen=True)
class Hindsight(Estimator):
    """The best of several estimators by the score that only the true signal gives."""

    candidates: tuple[Estimator, ...]

    def apply(self, case: Case) -> Outcome:
        """Apply every candidate and keep the best; the seconds are those of all together."""
        score = case.score
        assert score is not None

        def best() -> tuple[Estimator, Outcome]:
            outcomes = ((candidate, candidate.apply(case)) for candidate in self.candidates)
            return max(outcomes, key=lambda pair: score(pair[1].estimate))

        (candidate, outcome), seconds = once(best)
        return Outcome(outcome.estimate, seconds, notes={**outcome.notes, "chosen": plain(candidate)})


SMOOTH, VIDEO = Smoothness(1.5, 0.01), Smoothness(2.0, 0.01)  # for photographs and for video
ADAPTIVE = ClosedForm(Layout(fourier), prior=Adaptive())
