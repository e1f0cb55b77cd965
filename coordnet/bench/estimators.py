"""coordnet's own methods: closed forms with each prior, networks trained by gradient, and restorations.

A layout says how the encoding of a method is constructed for the samples of any signal.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from coordnet import encodings
from coordnet.analysis import stable_rank
from coordnet.bench.experiment import Case, Estimator, Outcome
from coordnet.bench.records import plain
from coordnet.comparison.stopwatch import once, timed
from coordnet.encodings import Encoding
from coordnet.encodings.encoders import Encoder, FeatureMap, JointEncoder, JointRandomFourier, RandomFourier
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
from coordnet.restore.upscale import upscale
from coordnet.restore.upscale_choice import PixelKind
from coordnet.sampling import Axis, MaskedLattice, Samples, ScatteredPoints, lattice_points
from coordnet.sampling.axes import Axes

Grid = tuple[int, ...]
Fitted = tuple[Reconstruction, float, dict[str, Any]]  # a fit, its seconds, and notes beside its report
ENCODED_ROWS = 2**14  # rows encoded at a time to find the largest norm
ENCODED = 2**16  # points encoded at a time
REPORTED = ("ranks", "iterations", "rounds", "start", "loss", "epochs", "order", "cutoff", "sigma")  # kept in records


@dataclass(frozen=True)
class Layout:
    """The construction of an encoding, every encoding matrix divided by its largest row norm.

    A scale is kept in sample spacings of the signal's own grid: a length σ given for 512 samples is 512 σ / N for N
    samples, and a frequency the inverse.
    """

    build: Callable[["Layout", Samples, Grid, torch.Generator], Encoding]  # a function below
    encoder: Any = None  # its class
    scale: float | None = None  # in units of an axis of ``of`` samples; the encoder's default if left out
    of: int | None = None
    features: int | None = None  # in all, or of each axis of a complex encoding; as many as samples if left out

    def __call__(self, samples: Samples, grid: Grid, seed: int) -> Encoding:
        """Construct the encoding for samples of a signal that has its own ``grid``."""
        return self.build(self, samples, grid, torch.Generator().manual_seed(seed))

    def scales(self, length: int) -> dict[str, Any]:
        """Return the encoder's scale for an axis of ``length`` samples; a frequency is at least its least value."""
        if self.scale is None or self.of is None:
            return {}
        (parameter,) = self.encoder.scales
        if parameter.unit == "length":
            return {parameter.name: self.scale * self.of / length}
        return {parameter.name: max(parameter.least, self.scale * length / self.of)}

    def on(self, axis: Axis, length: int, features: int | None, drawn: torch.Generator) -> Encoder:
        """Construct the encoder of one axis of a grid with ``length`` samples."""
        return self.encoder.like(axis, features=features, generator=drawn, normalize=True, **self.scales(length))


def complex_(layout: Layout, samples: Samples, grid: Grid, drawn: torch.Generator) -> Encoding:
    """Return the Kronecker product of an encoder on every axis."""
    axes = zip(samples.geometry.axes, grid, strict=True)
    return encodings.ComplexEncoding([layout.on(axis, n, layout.features, drawn) for axis, n in axes])


def simple(layout: Layout, samples: Samples, grid: Grid, drawn: torch.Generator) -> Encoding:
    """Return the concatenation of an encoder on every axis; random Fourier features are drawn jointly."""
    axes = samples.geometry.axes
    kind: Any = JointRandomFourier if layout.encoder is RandomFourier else layout.encoder
    if issubclass(kind, JointEncoder):
        options: dict[str, Any] = {"generator": drawn} if kind.random else {}
        if layout.scale is None:
            return encodings.JointEncoding(kind.like(axes, features=layout.features, normalize=True, **options))
        each = [layout.scales(n) for n in grid]
        options |= {name: tuple(one[name] for one in each) for name in each[0]}
        features = layout.features or 2 * (len(axes) * max(a.count for a in axes) // 2)
        joint = kind(len(axes), features=features, **options)
        joint.gain = 1 / math.sqrt(features / 2)  # cos² + sin² of every frequency is 1
        return encodings.JointEncoding(joint)
    share = layout.features and layout.features // len(axes)
    if share and layout.encoder.scales and layout.encoder.scales[0].unit == "frequency":
        share += share % 2  # cosines and sines come in pairs
    encoders = [layout.on(axis, n, share, drawn) for axis, n in zip(axes, grid, strict=True)]
    return _normalized(encodings.SimpleEncoding(encoders), axes)


def directional(layout: Layout, samples: Samples, grid: Grid, drawn: torch.Generator) -> Encoding:
    """Return four directions of the plane, each with a quarter of the features."""
    axes = samples.geometry.axes
    longest = max(range(len(axes)), key=lambda j: axes[j].count)
    quarter = layout.features and layout.features // 4
    encoder = layout.on(Axis(axes[longest].count), grid[longest], quarter, drawn)
    return _normalized(encodings.DirectionalEncoding([encoder] * 4), axes)


def fourier(layout: Layout, samples: Samples, grid: Grid, drawn: torch.Generator) -> Encoding:
    """Return the Fourier lattice, whose matrices are FFTs."""
    return encodings.FourierEncoding.like(samples)


@torch.no_grad()
def _normalized(encoding: encodings.DenseEncoding, axes: Axes) -> encodings.DenseEncoding:
    """Divide an encoding by its largest row norm over a lattice."""
    rows = lattice_points(axes, torch.float32).flatten(0, -2).split(ENCODED_ROWS)
    largest = max(float(encoding(part).norm(dim=-1).max()) for part in rows)
    for module in encoding.modules():
        if isinstance(module, FeatureMap):
            module.gain /= largest
    return encoding


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
    def fit(self, encoding: Encoding, samples: Samples, case: Case) -> Fitted:
        """Fit the samples; return the fit, its seconds, and notes beside its report."""

    def __call__(self, case: Case) -> Outcome:
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

    prior: Prior | Literal["auto"] | None = None
    tolerance: float | None = None  # the relative residual of conjugate gradients; the library's if left out

    def fit(self, encoding: Encoding, samples: Samples, case: Case) -> Fitted:
        options = {} if self.tolerance is None else {"solver": ConjugateGradients(self.tolerance)}
        least_norm = self.prior is None and samples.geometry.filled_axes is None  # as the papers' closed form
        prior = NO_PENALTY if least_norm else self.prior
        return *timed(lambda: fit_closed_form(encoding, samples, prior, **options)), {}


@dataclass(frozen=True)
class Tuned(ClosedForm):
    """The closed form with a smoothness prior whose numbers a criterion chooses from the samples."""

    criterion: str = "hold-out"

    def fit(self, encoding: Any, samples: Samples, case: Case) -> Fitted:
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

    def fit(self, encoding: Encoding, samples: Samples, case: Case) -> Fitted:
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
        sigma = case.noise if self.given else None
        prior = Local() if self.prior == "local" else Adaptive()
        made, seconds = timed(lambda: denoise(case.samples.values, sigma, prior=prior))
        notes = {name: getattr(made.report, name) for name in ("sigma", "expected_psnr")}
        return Outcome(made.signal, seconds, notes=notes)


@dataclass(frozen=True)
class Enlarged(Estimator):
    """The result of ``upscale``."""

    samples: PixelKind = "area"
    prior: Literal["auto", "none"] = "auto"

    def __call__(self, case: Case) -> Outcome:
        values = case.samples.values
        factor = case.samples.grid[0] / values.shape[0]
        prior = None if self.prior == "none" else "auto"
        made, seconds = timed(lambda: upscale(values, factor, samples=self.samples, prior=prior))
        notes = {k: v for k, v in made.report.as_dict().items() if k in ("prior", "noise", "sigma")}
        return Outcome(made.signal, seconds, notes=notes)


@dataclass(frozen=True)
class Hindsight(Estimator):
    """The best of several estimators by the score that only the true signal gives."""

    candidates: tuple[Estimator, ...]

    def __call__(self, case: Case) -> Outcome:
        outcomes, seconds = once(lambda: [candidate(case) for candidate in self.candidates])
        best = case.best(outcome.estimate for outcome in outcomes)
        pairs = zip(outcomes, self.candidates, strict=True)
        outcome, candidate = next(pair for pair in pairs if pair[0].estimate is best)
        return Outcome(best, seconds, notes={**outcome.notes, "chosen": plain(candidate)})


SMOOTH, VIDEO = Smoothness(1.5, 0.01), Smoothness(2.0, 0.01)  # for photographs and for video
ADAPTIVE = ClosedForm(Layout(fourier), prior=Adaptive())
LOCAL = ClosedForm(Layout(fourier), prior=Local())
