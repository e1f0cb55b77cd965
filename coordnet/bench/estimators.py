"""coordnet's own methods: closed forms with each prior, networks trained by gradient, and the denoiser."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from coordnet.analysis import stable_rank
from coordnet.bench.cells import plain
from coordnet.bench.estimation import Case, Estimator, Outcome
from coordnet.bench.layouts import Layout, fourier
from coordnet.comparison.stopwatch import once, timed
from coordnet.encodings import Encoding
from coordnet.fitting.closed_form import NO_PENALTY, fit_closed_form
from coordnet.fitting.gradient import fit_gradient
from coordnet.fitting.tuning import tune_smoothness
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.networks.heads import Head, Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Prior
from coordnet.priors.local import Local
from coordnet.priors.smoothness import Smoothness
from coordnet.restore.denoise import denoise
from coordnet.sampling import Axis, MaskedLattice, Samples, ScatteredPoints, lattice_points

ENCODED = 2**16  # points encoded at a time
# the entries of a fit's report that records keep
REPORTED = ("ranks", "iterations", "rounds", "start", "loss", "epochs", "order", "cutoff", "sigma")


@dataclass(frozen=True)
class Fit(Estimator):
    """A reconstruction from samples through an encoding; its seconds include the encoding of the samples.

    With ``blended`` the known samples of a masked lattice are scattered points, tied to a grid with that many times
    fewer nodes along each axis as in the papers, by the encoders' similarity; the estimate blends the nodes too.
    """

    layout: Layout
    blended: int | None = None
    masked: bool = False  # fit a strided lattice as a grid with unknown entries, so that a prior acts on all

    @property
    def draws(self) -> bool:
        """Whether the network or the encoder is drawn."""
        return super().draws or getattr(self.layout.encoder, "random", False)

    @abstractmethod
    def fit(self, encoding: Encoding, samples: Samples, case: Case) -> tuple[Reconstruction, float, dict[str, Any]]:
        """Fit the samples; return the fit, its seconds, and notes beside its report."""

    def __call__(self, case: Case) -> Outcome:
        """Build the encoding, fit and render."""
        samples = self.tied(case.samples)
        encoding = self.layout(samples, case.samples.grid, case.seed).to(samples.values.device)
        encode, rank = (0.0, {}) if self.layout.build is fourier else _encoded(encoding, samples, case)
        fitted, seconds, more = self.fit(encoding, samples, case)
        with torch.no_grad():
            estimate, render = timed(lambda: fitted.on_axes(tuple(Axis(n) for n in case.samples.grid)))
        report = {key: value for key, value in fitted.report.as_dict().items() if key in REPORTED}
        notes = {"parameters": fitted.network.parameter_count, **report, **more, **rank}
        return Outcome(estimate, seconds, encode, render, notes)

    def tied(self, samples: Samples) -> Samples:
        """Return the samples on the geometry that is fitted."""
        geometry: Any = samples.geometry
        if self.masked:
            values = samples.values.new_zeros(*geometry.grid, samples.channels)
            values[geometry.slices] = samples.values
            return Samples(MaskedLattice(geometry.grid, weights=geometry.known(1).to(values)), values)
        if not self.blended:
            return samples
        known = geometry.weights[..., 0] > 0
        points = lattice_points(geometry.axes).to(known.device)[known].to(samples.values.dtype)
        grid = tuple(max(2, n // self.blended) for n in samples.grid)
        return Samples(ScatteredPoints(grid, points, blending="similarity"), samples.values[known])


def _encoded(encoding: Any, samples: Samples, case: Case) -> tuple[float, dict[str, float]]:
    """Time the encoding of the samples, and measure the stable rank of its matrix on a row of samples."""
    axes, like = samples.geometry.axes, samples.values
    if encoding.is_factored:
        seconds = timed(lambda: encoding.matrices(axes, like.dtype, like.device))[1]
    else:
        points = lattice_points(axes, like.dtype, like.device).flatten(0, -2)
        points = points if samples.weights is None else points[(samples.weights > 0).any(-1).flatten()]
        seconds = timed(lambda: [encoding(part).sum() for part in points.split(ENCODED)])[1]
    if len(case.samples.grid) > 1:
        return seconds, {}
    x = case.samples.geometry.axes[0].points(device=like.device)
    matrix = encoding.axis_encoders[0](x) if encoding.is_factored else encoding(x.unsqueeze(-1))
    return seconds, {"stable_rank": stable_rank(matrix.detach())}


@dataclass(frozen=True)
class ClosedForm(Fit):
    """A linear head in closed form; the seconds of the fit include the factorization."""

    prior: Prior | None = None
    tolerance: float | None = None  # the relative residual of conjugate gradients; the library's if left out

    def fit(self, encoding: Encoding, samples: Samples, case: Case) -> tuple[Reconstruction, float, dict[str, Any]]:
        """Solve with the prior."""
        options = {} if self.tolerance is None else {"solver": ConjugateGradients(self.tolerance)}
        least_norm = self.prior is None and samples.geometry.filled_axes is None  # as the papers' closed form
        prior = NO_PENALTY if least_norm else self.prior
        return *timed(lambda: fit_closed_form(encoding, samples, prior, **options)), {}


@dataclass(frozen=True)
class Tuned(ClosedForm):
    """The closed form with a smoothness prior whose numbers a criterion chooses from the samples."""

    criterion: str = "hold-out"

    def fit(self, encoding: Any, samples: Samples, case: Case) -> tuple[Reconstruction, float, dict[str, Any]]:
        """Choose power, strength and anisotropy, and solve; the seconds are those of both."""
        prior, choice = once(lambda: tune_smoothness(encoding, samples, criterion=self.criterion).choice)
        fitted, seconds = timed(lambda: fit_closed_form(encoding, samples, prior))
        return fitted, seconds + choice, {"chosen": plain(prior)}


@dataclass(frozen=True)
class Trained(Fit):
    """A network trained by Adam on the full batch; the fit is timed once, after one epoch to warm up."""

    group = "gradient"
    head: Head = field(default=Linear())
    lr: float = 0.1

    def fit(self, encoding: Encoding, samples: Samples, case: Case) -> tuple[Reconstruction, float, dict[str, Any]]:
        """Train for the case's epochs."""
        generator = torch.Generator().manual_seed(case.seed)
        network = CoordinateNetwork(encoding, self.head, samples.channels, generator=generator)
        fit_gradient(network, samples, epochs=1, lr=self.lr)
        return *once(lambda: fit_gradient(network, samples, epochs=case.epochs, lr=self.lr)), {}


@dataclass(frozen=True)
class Denoised(Estimator):
    """The result of ``denoise`` with a prior, with the noise given or estimated."""

    given: bool = False
    prior: Literal["local", "adaptive"] = "adaptive"

    def __call__(self, case: Case) -> Outcome:
        """Remove the noise."""
        sigma = case.noise if self.given else None
        made, seconds = timed(lambda: denoise(case.samples.values, sigma, prior=self.prior))
        notes = {name: made.report[name] for name in ("sigma", "expected_psnr")}
        return Outcome(made.signal, seconds, notes=notes)


@dataclass(frozen=True)
class Hindsight(Estimator):
    """The best of several estimators by the score that only the true signal gives."""

    candidates: tuple[Estimator, ...]

    def __call__(self, case: Case) -> Outcome:
        """Keep the best estimate; the seconds are those of all candidates together."""
        score = case.score
        assert score is not None
        outcomes, seconds = once(lambda: [candidate(case) for candidate in self.candidates])
        values = [score(outcome.estimate) for outcome in outcomes]
        best = values.index(max(values))
        outcome, candidate = outcomes[best], self.candidates[best]
        return Outcome(outcome.estimate, seconds, notes={**outcome.notes, "chosen": plain(candidate)})


SMOOTH, VIDEO = Smoothness(1.5, 0.01), Smoothness(2.0, 0.01)  # for photographs and for video
ADAPTIVE = ClosedForm(Layout(fourier), prior=Adaptive())
LOCAL = ClosedForm(Layout(fourier), prior=Local())
