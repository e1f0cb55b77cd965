"""Methods of reconstruction: an encoder, a head, a solver and a prior, and the fit of them to samples."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from coordnet import _checks
from coordnet.encodings import ComplexEncoding, Encoding, SimpleEncoding
from coordnet.fitting.choice import Family, Kind, Solver
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.fitting.gradient import Callback, default_epochs, fit_gradient, training_seconds, warn_if_long
from coordnet.networks.heads import Head, Linear, head_label, labelled
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.base import Prior
from coordnet.sampling.samples import Samples

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
