"""Methods of reconstruction: an encoder, a head, a solver and a prior, and how they are fitted."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from coordnet import _checks
from coordnet.cli.specs import (
    SUITED_POWER,
    Prior,
    choose_encoder,
    choose_prior,
    describe_prior,
    make_encoding,
    parse_encoder,
    parse_head,
    robust_prior,
)
from coordnet.encodings import ComplexEncoding, Encoding
from coordnet.encodings.encoders import JointEncoder
from coordnet.fit.closed_form import fit_closed_form
from coordnet.fit.gradient import fit_gradient
from coordnet.networks.heads import Head
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.samples import Samples

SOLVERS = ("closed-form", "gradient")
USUAL = ("gaussian", "triangle", "bspline")  # of which a comparison consists if it names no encoder


@dataclass(frozen=True)
class Method:
    """What ``coordnet reconstruct`` would be told."""

    encoder: str
    encoding: str
    head: str
    solver: str
    prior: Prior | None = None

    @property
    def name(self) -> str:
        """A label that tells it from others."""
        prior = [] if self.prior is None else [describe_prior(self.prior).partition(":")[0]]
        return " · ".join([self.encoder, self.head, self.solver, *prior])

    def encode(self, samples: Samples, generator: torch.Generator) -> Encoding:
        """The encoding, suited to the samples."""
        return make_encoding(self.encoder, self.encoding, samples, generator)


def combinations(
    encoders: Sequence[str], heads: Sequence[str], solvers: Sequence[str], samples: Samples
) -> tuple[list[Method], dict[str, str]]:
    """Every encoder with every head and solver, but for what does not go together.

    A linear head stands on the complex encoding, or on the encoder itself where that is of several axes jointly; an
    MLP on the simple encoding. A closed form needs a linear head on a complex encoding. ``fourier`` has nothing but a
    closed form. Closed forms take the prior that suits the samples; where that is adaptive, ``fourier`` is fitted too,
    with it and with a smoothness prior.

    Parameters
    ----------
    encoders, heads, solvers : sequences of str
        As texts; usual encoders, the linear head, and of the solvers the first that is possible if empty.
    samples : Samples
        What will be fitted.

    Returns
    -------
    list of Method, dict of str
        The methods, each once, and why each combination that was left out is none.

    Raises
    ------
    ValueError
        If a text names nothing.
    """
    for solver in solvers:
        _checks.choice("solver", solver, SOLVERS)
    prior = choose_prior("auto", samples)
    methods: list[Method] = []
    left: dict[str, str] = {}
    for encoder, head in product(encoders or _usual(samples, prior), heads or ["linear"]):
        possible = _possible(encoder, parse_head(head))
        for solver in solvers or [s for s in SOLVERS if s in possible][:1] or ["gradient"]:
            if solver not in possible:
                left[f"{encoder} · {head} · {solver}"] = _why_not(encoder, solver)
                continue
            closed = solver == "closed-form"
            methods.append(Method(encoder, possible[solver], head, solver, prior if closed else None))
    if isinstance(prior, Adaptive):
        smooth = Smoothness(SUITED_POWER[len(samples.grid)])
        methods += [Method("fourier", "complex", "linear", "closed-form", p) for p in (prior, smooth)]
    return list(dict.fromkeys(methods)), left


def _usual(samples: Samples, prior: Prior | None) -> Sequence[str]:
    """Several encoders where they differ: under an adaptive prior all that are as fine as the samples agree."""
    usual = choose_encoder(None, prior, samples)
    return USUAL if usual in USUAL else (usual,)


def _possible(encoder: str, head: Head) -> dict[str, str]:
    """The solvers that an encoder and a head allow, each with the kind of encoding."""
    if encoder.partition(":")[0] == "fourier":
        return {} if head.widths else {"closed-form": "complex"}
    joint = issubclass(parse_encoder(encoder)[0], JointEncoder)
    if joint or head.widths:
        return {"gradient": "simple"}
    return {"closed-form": "complex", "gradient": "complex"}


def _why_not(encoder: str, solver: str) -> str:
    if encoder.partition(":")[0] == "fourier":
        return "fourier is fitted in closed form, with a linear head"
    assert solver == "closed-form"
    return "a closed form needs a linear head and an encoder of one axis"


def fit(
    method: Method,
    encoding: Encoding,
    samples: Samples,
    *,
    epochs: int = 2000,
    lr: float | None = None,
    robust: bool = False,
    generator: torch.Generator,
    **options: Any,
) -> Reconstruction:
    """Fit a method's encoding to samples.

    Parameters
    ----------
    method : Method
        Which head, solver and prior.
    encoding : Encoding
        Made by ``method.encode``.
    samples : Samples
        What is known.
    epochs, lr, generator
        Of the gradient solver; its learning rate is 0.1 for a linear head on a complex encoding, else 0.005.
    robust : bool
        Of the closed form: leave outliers aside.
    **options
        Such as ``progress``, of either solver.
    """
    if method.solver == "closed-form":
        return fit_closed_form(encoding, samples, robust_prior(method.prior, robust), **options)
    head = parse_head(method.head)
    network = CoordinateNetwork(encoding, head, samples.channels, generator=generator)
    flat = isinstance(encoding, ComplexEncoding) and not head.widths
    lr = lr if lr is not None else 1e-1 if flat else 5e-3
    return fit_gradient(network, samples, epochs=epochs, lr=lr, generator=generator, **options)
