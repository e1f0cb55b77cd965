"""The door: what a fit depends on beside the samples, what of it suits them unless it is given, and the fit."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import ComplexEncoding, Encoding, SimpleEncoding
from coordnet.encodings.encoders import UnevenSpline
from coordnet.fitting.channel_groups import check_channels, fit_by_channel
from coordnet.fitting.choice import Family, Kind, Solver, choose_prior, default_encoder, default_encoding, weighed
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.fitting.gradient import Callback, default_epochs, fit_gradient, training_seconds, warn_if_long
from coordnet.linalg.machine import stage
from coordnet.networks.heads import Head, Linear, head_label, labelled
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plans.hold_out import middle
from coordnet.priors.base import Prior, as_prior
from coordnet.priors.kriging import Kriging
from coordnet.priors.plates import ThinPlate
from coordnet.priors.spline import LONGEST, SPLINE_DEGREES
from coordnet.priors.stack import Stack
from coordnet.sampling.rectilinear import RectilinearLattice
from coordnet.sampling.samples import Samples

SPLINE_GAIN = 10**0.6  # 6 dB: of the squared hidden error, by which splines replace another fit
STENCIL = (3 / 256, 0.0, -25 / 256, 0.0, 150 / 256, 0.0, 150 / 256, 0.0, -25 / 256, 0.0, 3 / 256)
ROUGHEST = 0.005  # standard deviations by which a smooth signal differs from polynomials; 8-bit pictures are above
DECIDING = 2**12  # values of the middle of a lattice that decide
SOLVERS: tuple[Solver, ...] = ("closed-form", "gradient")
KINDS: dict[str, type[ComplexEncoding] | type[SimpleEncoding]] = {"complex": ComplexEncoding, "simple": SimpleEncoding}
RATES = {True: 1e-1, False: 5e-3}  # Adam's learning rate for a linear head on a complex encoding, and for others


@dataclass(frozen=True)
class EncoderChoice:
    """An encoder whose scales and features are still to be suited to samples.

    The family is a class of encoders, or ``FourierEncoding``, which is an encoding by itself. The options are arguments
    of its ``like``, such as ``sigma="0.64px"``; an unknown one raises a ``ValueError``.
    """

    family: Family
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = ("padding",) if self.is_fourier else self.family.arguments()  # type: ignore[union-attr]
        for option in self.options:
            if option not in known:
                expected = f"{self.name} with {', '.join(known)}"
                raise _checks.wrong("encoder", expected, labelled(self.name, self.options))

    @property
    def name(self) -> str:
        """The name by which the command line knows the encoder."""
        return getattr(self.family, "name", "fourier")

    @property
    def is_fourier(self) -> bool:
        """Whether the choice is the Fourier encoding of the samples' lattice."""
        return self.name == "fourier"

    @property
    def is_joint(self) -> bool:
        """Whether the encoder maps points of several axes jointly."""
        return getattr(self.family, "joint", False)

    @property
    def label(self) -> str:
        """The name with the options, as in ``gaussian:sigma=0.64px``."""
        return labelled(self.name, self.options)

    def on(self, samples: Samples, kind: str = "complex", generator: torch.Generator | None = None) -> Encoding:
        """Return the encoding of this encoder that suits some samples.

        Their lattice decides the number of features and the default scales. The axes' features are multiplied (the
        Kronecker product) or concatenated ("simple"). The generator is for encoders that draw their parameters. A
        kind that the encoder does not have raises a ``ValueError``.
        """
        family: Any = self.family
        _checks.choice("encoding", kind, KINDS)
        if not self.is_fourier:
            return KINDS[kind].like(family, samples, generator=generator, **self.options)
        if kind != "complex":
            raise _checks.wrong("encoder", "fourier in a complex encoding", f"{self.label} in a {kind} encoding")
        return family.like(samples, **self.options)


@dataclass(frozen=True)
class Method:
    """All that a fit depends on beside the samples: an encoder, and a head, which is the function of the encoding.

    A closed form needs a linear head on a complex encoding; the prior is its assumption on what was not measured.
    """

    encoder: EncoderChoice
    head: Head = Linear()
    solver: Solver = "closed-form"
    prior: Prior | None = None
    encoding: Kind = "complex"

    @property
    def name(self) -> str:
        """A label that differs from those of other methods in a comparison."""
        prior = [] if self.prior is None else [self.prior.name]
        return " · ".join([self.encoder.label, head_label(self.head), self.solver, *prior])

    def encode(self, samples: Samples, generator: torch.Generator | None = None) -> Encoding:
        """Return the encoding, suited to the samples."""
        return self.encoder.on(samples, self.encoding, generator)

    def expected_seconds(self, samples: Samples, epochs: int | None, generator: torch.Generator | None) -> float:
        """Estimate the seconds of training that ``fit`` takes on a processor; a closed form counts as 0."""
        encoding = self.encode(samples, generator)
        if self.solver == "closed-form":
            return 0.0
        network = CoordinateNetwork(encoding, self.head, samples.channels, generator=generator)
        return training_seconds(network, samples, default_epochs(network, samples) if epochs is None else epochs)

    def fit(
        self,
        samples: Samples,
        *,
        epochs: int | None = None,
        lr: float | None = None,
        generator: torch.Generator | None = None,
        callback: Callback | None = None,
        progress: bool = False,
    ) -> Reconstruction:
        """Fit the method to samples.

        The epochs, the learning rate and the callback are those of ``fit_gradient``; a closed form needs none of them.
        The epochs are by default ``default_epochs``; more than ten minutes of them on a processor give a warning.
        The learning rate is by default 0.1 for a linear head on a complex encoding and 0.005 for others. The generator
        draws the encoder's parameters, then the network's first weights and the minibatches.
        """
        encoding = self.encode(samples, generator)
        if self.solver == "closed-form":
            encoding.requires_grad_(False)  # nobody else has it
            return fit_closed_form(encoding, samples, self.prior, progress=progress)
        network = CoordinateNetwork(encoding, self.head, samples.channels, generator=generator)
        epochs = default_epochs(network, samples) if epochs is None else epochs
        warn_if_long(training_seconds(network, samples, epochs))
        flat = self.encoding == "complex" and not self.head.widths
        options: dict[str, Any] = {"generator": generator, "callback": callback, "progress": progress}
        return fit_gradient(network, samples, epochs=epochs, lr=RATES[flat] if lr is None else lr, **options)


def fit(
    samples: Samples,
    *,
    encoder: EncoderChoice | Family | None = None,
    prior: Prior | Literal["auto"] | None = "auto",
    encoding: str | None = None,
    head: Head | None = None,
    solver: str | None = None,
    robust: bool = False,
    epochs: int | None = None,
    lr: float | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Reconstruction:
    """Reconstruct a signal from samples as ``coordnet reconstruct`` does: what is not given suits the samples.

    Samples with gaps get the sum of fits under all priors that suit them (``Stack``), with weights that are least
    squares at hidden samples: the adaptive prior, thin plates of several orders, which weigh the axes of a plane that
    varies more along one, splines where samples form a lattice, and the local prior on pictures and clips where it is
    expected to need less than five minutes on one core. ``report.candidates`` names them with their errors at hidden
    samples and their weights.
    Networks take the simple encoding and are trained for 2,000 epochs, on a processor for as many as fit into about ten
    minutes.

    Channels are fitted together, as colors are, which share what is learned. Groups of channels that do not tell of
    each other (``channel_groups``) are fitted one by one, each as if it were alone, in as many times the processor
    time, and ``report.signals`` has the report of each: columns of ``cn.points``, channels in units of their own, and
    those of unlike roughness whose steps do not correlate. Networks, and priors that learn nothing, take all together.

    The result is one model. The command and ``cn.inpaint`` cut lattices of more than 4 million points into tiles, which
    take less memory and leave no model.

    Gradients flow to the values of closed-form fits, as those of the linear map that a fit is once its prior is chosen:
    what was learned or chosen is held fixed. Local priors, robust fits and fits of least norm raise a ``ValueError``.

    ``encoder`` to ``robust`` are those of ``choose``, the other options those of ``Method.fit``. Choices that do not go
    together, or not with the samples, raise a ``ValueError``.
    """
    if not isinstance(samples, Samples):
        raise _checks.wrong("samples", "those of one signal, from cn.sample(signal, pattern)", type(samples).__name__)
    asked: Any = {"encoding": encoding, "head": head, "solver": solver, "prior": prior, "robust": robust}
    method = choose(samples, encoder, **asked, progress=progress)
    options: Any = {"epochs": epochs, "lr": lr, "generator": generator, "progress": progress}
    if method.prior is None or not method.prior.learns:
        return method.fit(samples, **options)

    def fitted(part: Samples) -> Reconstruction:
        return (method if part is samples else choose(part, method.encoder, **asked)).fit(part, **options)

    return fit_by_channel(samples, fitted)


def choose(
    samples: Samples,
    encoder: EncoderChoice | Family | None = None,
    *,
    encoding: str | None = None,
    head: Head | None = None,
    solver: str | None = None,
    prior: Prior | Literal["auto"] | None = "auto",
    robust: bool = False,
    tunable: bool = False,
    progress: bool = False,
) -> Method:
    """Return the method that suits some samples; what is given is kept.

    - samples: the samples of the signal
    - encoder, encoding, prior: by default ``default_encoder``, ``default_encoding`` and ``choose_prior``; a prior of
      None is no prior. Without an encoder and a prior, whole lattices of smooth fields take splines
      (``splines_instead``). The encoding is "complex" or "simple": whether the features of the axes are multiplied or
      concatenated.
    - head: the function of the encoding; linear if not given
    - solver: A closed form where there is one, for a linear head on a complex encoding, if not given
    - robust: fit in closed form by Huber's loss, which outliers move little. A prior without it raises a
      ``ValueError``, as do a closed form that does not exist, and a prior or a robust fit by the gradient solver.
    - tunable: whether a method with free numbers is preferred, for ``tuned``
    - progress: whether to show the seconds that the choice takes
    """
    check_channels("samples", samples)
    head = head or Linear()
    if isinstance(encoder, type):
        encoder = EncoderChoice(encoder)
    elif not isinstance(encoder, EncoderChoice | None):
        raise _checks.wrong("encoder", "a class such as cn.Gaussian, or an EncoderChoice", type(encoder).__name__)
    kind = default_encoding(head, encoder and encoder.family) if encoding is None else encoding
    kind = cast(Kind, _checks.choice("encoding", kind, KINDS))
    chosen = _solver(kind, head, solver)
    if robust and (samples.geometry.latitude is not None or samples.geometry.drift is not None):
        raise _checks.wrong("robust", "points with no drift, and not on a sphere", "others")
    if encoder is None and prior == "auto" and chosen == "closed-form" and not (robust or tunable):
        if splines := splines_instead(samples, progress=progress):
            return splines
    if chosen == "gradient":
        if robust or prior not in ("auto", None):
            raise _checks.wrong("robust" if robust else "prior", "a fit in closed form", "the gradient solver")
        prior = None
    elif prior == "auto":
        fourier = (encoder is None or encoder.is_fourier) and not tunable
        prior = choose_prior(samples, fourier=fourier, robust=robust)
    elif robust and prior is None:
        raise _checks.wrong("robust", "a smoothness prior", "none")
    elif prior is not None:
        prior = as_prior(prior).robust() if robust else weighed(as_prior(prior), samples)
    encoder = encoder or EncoderChoice(default_encoder(samples.geometry, prior, chosen))
    return Method(encoder, head, chosen, prior, kind)


def _solver(kind: Kind, head: Head, solver: str | None) -> Solver:
    """The solver that was asked for, or a closed form where there is one."""
    linear = kind == "complex" and not head.widths
    if solver is None:
        return "closed-form" if linear else "gradient"
    if _checks.choice("solver", solver, SOLVERS) == "closed-form" and not linear:
        found = f"{kind} with {head_label(head)}"
        raise _checks.wrong("solver", "gradient, unless the encoding is complex and the head linear", found)
    return cast(Solver, solver)


def splines_instead(samples: Samples, *, progress: bool = False) -> Method | None:
    """Return splines through all values of a whole lattice if they suit samples better than the suited prior.

    Both are fitted at every second coordinate of each axis and at the last. Splines are returned if their squared error
    at the others is lower by 6 dB; a smaller gain may be the noise in the others, which splines do not smooth. Nodes at
    equal distances, which the prior has, are too few where the largest distance of coordinates is many times the
    smallest. On lattices of equal distances, the middle decides, and nothing is fitted unless the signal is smooth
    (``is_smooth``): there the derivatives of splines are right up to the borders, and photographs are left as they are.

    Splines are no candidates of ``Stack``: their knots are at the coordinates, not at the nodes on which fits are
    summed. Nor would weights by least squares at those other coordinates do as well: on twelve fields at 32×32 uneven
    coordinates, six of them with noise of a twentieth, the weighted sum is 1.0 dB worse in the mean.
    """
    geometry, samples = samples.geometry, samples.detached()
    if geometry.filled_axes is None or geometry.shape != geometry.grid or max(samples.grid) > LONGEST:
        return None
    if geometry.is_even:
        part = _middle(samples)
        if not (is_smooth(part.values) and is_smooth(samples.values)):
            return None
        samples = part
    with stage("choosing between splines", shown=progress):
        return _splines(samples)


def is_smooth(values: Float[Tensor, "*lattice channels"]) -> bool:
    """Whether a signal is the polynomial of degree 5 through six neighbors at distances of ±1, ±3 and ±5, everywhere.

    The largest difference from it along any axis must be below ``ROUGHEST`` standard deviations; rounding to 8 bits is
    above. Axes of fewer than eleven values are not looked at, and a signal without longer ones is not smooth.
    """
    limit = ROUGHEST * float(values.flatten(0, -2).std(0, correction=0).max())
    long = [axis for axis in range(values.ndim - 1) if values.shape[axis] >= len(STENCIL)]
    return bool(long) and all(_largest_difference(values, axis) < limit for axis in long)


def _largest_difference(values: Tensor, axis: int) -> float:
    count = values.shape[axis] - len(STENCIL) + 1
    difference = values.narrow(axis, len(STENCIL) // 2, count).clone()
    for start, weight in enumerate(STENCIL):
        if weight:
            difference.sub_(values.narrow(axis, start, count), alpha=weight)
    return float(difference.abs().max())


def _middle(samples: Samples) -> Samples:
    """Return the middle of an even lattice, with an odd length along each axis of three values or more."""
    values = samples.values[middle(samples.grid, DECIDING)]
    values = values[tuple(slice(n if n < 3 else n - (n + 1) % 2) for n in values.shape[:-1])]
    return Samples(RectilinearLattice(*(range(n) for n in values.shape[:-1])), values)


def _splines(samples: Samples) -> Method | None:
    """Return splines of the degree with the least error, if that is 6 dB below those of methods on nodes."""
    coordinates = samples.geometry.lattice.coordinates
    kept = [sorted({*range(0, n, 2), n - 1}) for n in samples.grid]
    if math.prod(map(len, kept)) == math.prod(samples.grid):
        return None
    part = RectilinearLattice(*(x[k] for x, k in zip(coordinates, kept, strict=True)))
    inner = torch.meshgrid(*map(torch.tensor, kept), indexing="ij")
    shown, hidden = Samples(part, samples.values[inner]), torch.ones(samples.grid, dtype=torch.bool)
    hidden[inner] = False

    def error(method: Method) -> float:
        between = method.fit(shown).at(*coordinates)
        return float((between - samples.values)[hidden].square().mean())

    errors = {degree: error(Method(EncoderChoice(UnevenSpline, {"degree": degree}))) for degree in SPLINE_DEGREES}
    best = min(errors, key=errors.__getitem__)
    is_clear = errors[best] * SPLINE_GAIN < min(map(error, _on_nodes(shown)))
    return Method(EncoderChoice(UnevenSpline, {"degree": best})) if is_clear else None


def _on_nodes(samples: Samples) -> list[Method]:
    """Return methods on equal distances: at unequal ones plates alone, which tell 6 dB as well as a stack.

    In a row of unequal distances there is kriging, too, on as many nodes as a stack has. Without it splines keep the
    noise of Chebyshev's and random coordinates: of 21 rows that had splines 19 gain without them, 1.9 dB in the median.
    """
    in_rows = (Stack((Kriging(),), weights=(1.0,)),) if len(samples.grid) == 1 else ()
    priors = [choose_prior(samples)] if samples.geometry.is_even else [ThinPlate(), *in_rows]
    return [Method(EncoderChoice(default_encoder(samples.geometry, prior)), prior=prior) for prior in priors]
