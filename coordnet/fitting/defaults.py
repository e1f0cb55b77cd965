"""The policy of the library: which prior, encoder, head and solver suit which samples."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal, cast

import torch

from coordnet import _checks
from coordnet.encodings import FourierEncoding
from coordnet.encodings.encoders import BSpline, Encoder, Gaussian, JointEncoder, Triangle
from coordnet.fitting.methods import (
    KINDS,
    SOLVERS,
    EncoderChoice,
    Family,
    Kind,
    Method,
    Prior,
    Solver,
    head_label,
    is_adaptive,
)
from coordnet.fitting.tuning import Tuned, tune_scale, tune_smoothness
from coordnet.networks.heads import Head, Linear
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Lattice, Samples

POWER = ByAxes({1: 1.0, 2: 1.5, 3: 2.0})  # the smoothness of natural signals by the number of axes
LONGEST = 8192  # samples along an axis up to which its design matrix is factorized by default
COMPARED: tuple[Family, ...] = (Gaussian, Triangle, BSpline)  # the encoders of a comparison that names none


def default_prior(samples: Samples, *, robust: bool = False) -> Prior | None:
    """The prior that suits some samples.

    A whole lattice needs none, unless an axis is too long for its design matrix to be factorized: then it is a weak
    smoothness. Other samples take the adaptive prior. Where outliers are expected (``robust``) it is a smoothness with
    Huber's loss, which the adaptive prior has not.
    """
    whole = type(samples.geometry) is Lattice
    smooth = Smoothness(POWER[len(samples.grid)], 1e-3 if whole else 1e-2)
    if robust:
        return replace(smooth, loss="huber")
    if whole:
        return smooth if _is_long(samples) else None
    return Adaptive()


def default_encoder(samples: Samples, prior: Prior | None) -> EncoderChoice:
    """The encoder that suits a prior: Fourier's where the prior is adaptive or an axis is long, else Gaussians."""
    fourier = is_adaptive(prior) or _is_long(samples)
    return EncoderChoice(FourierEncoding if fourier else Gaussian)


def default_solver(encoding: str, head: Head, solver: str | None = None) -> Solver:
    """The solver that was asked for, or a closed form where there is one: a linear head on a complex encoding."""
    linear = encoding == "complex" and not head.widths
    if solver is None:
        return "closed-form" if linear else "gradient"
    if _checks.choice("solver", solver, SOLVERS) == "closed-form" and not linear:
        found = f"{encoding} with {head_label(head)}"
        raise _checks.wrong("solver", "gradient, unless the encoding is complex and the head linear", found)
    return cast(Solver, solver)


def choose(
    samples: Samples,
    encoder: EncoderChoice | type[Encoder] | type[JointEncoder] | None = None,
    *,
    encoding: str = "complex",
    head: Head | None = None,
    solver: str | None = None,
    prior: Prior | Literal["auto"] | None = "auto",
    robust: bool = False,
) -> Method:
    """Return the method that suits some samples; what is given is kept.

    Parameters
    ----------
    samples : Samples
        The samples of the signal.
    encoder, solver, prior
        By default ``default_encoder``, ``default_solver`` and ``default_prior``; None is no prior.
    encoding : "complex" or "simple"
        Whether the features of the axes are multiplied or concatenated.
    head : Head, optional
        The function of the encoding; linear if not given.
    robust : bool
        Fit in closed form by Huber's loss, which outliers move little. A prior without it raises a ``ValueError``, as
        does a closed form that does not exist.
    """
    head = head or Linear()
    kind = cast(Kind, _checks.choice("encoding", encoding, KINDS))
    chosen = default_solver(encoding, head, solver)
    if chosen == "gradient":
        prior = None
    elif prior == "auto":
        prior = default_prior(samples, robust=robust)
    elif robust and hasattr(prior, "loss"):
        prior = replace(cast(Smoothness, prior), loss="huber")
    elif robust:
        raise _checks.wrong("robust", "a smoothness prior", "an adaptive one" if prior else "none")
    if encoder is None:
        encoder = default_encoder(samples, prior)
    elif isinstance(encoder, type):
        encoder = EncoderChoice(encoder)
    return Method(encoder, head, chosen, prior, kind)


def reconstruct(
    samples: Samples,
    encoder: EncoderChoice | type[Encoder] | type[JointEncoder] | None = None,
    *,
    epochs: int = 2000,
    lr: float | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
    **choices: Any,
) -> Reconstruction:
    """Reconstruct a signal from samples as ``coordnet reconstruct`` does: what is not given suits the samples.

    The choices are ``encoding``, ``head``, ``solver``, ``prior`` and ``robust`` of ``choose``; the other options are
    those of ``Method.fit``. Choices that do not go together, or not with the samples, raise a ``ValueError``.
    """
    method = choose(samples, encoder, **choices)
    return method.fit(samples, epochs=epochs, lr=lr, generator=generator, progress=progress)


def tuned(
    method: Method,
    samples: Samples,
    *,
    criterion: str = "hold-out",
    folds: int = 1,
    seed: int = 0,
    progress: bool = False,
) -> tuple[Method, Tuned]:
    """Choose the free numbers of a method: those of a smoothness prior, or without one the encoder's scales.

    The options are those of ``tune_smoothness``; a scale is chosen by one hold-out. The result is the method with the
    numbers that were chosen, and all that were tried. A method without free numbers to choose, or a criterion that does
    not go with it, raises a ``ValueError``.
    """
    if method.solver != "closed-form" or is_adaptive(method.prior):
        found = "an adaptive prior" if method.solver == "closed-form" else "a gradient fit"
        raise _checks.wrong("tune", "a closed-form fit with a smooth prior or none", found)
    if method.prior is not None:
        encoding: Any = method.encode(samples, torch.Generator().manual_seed(seed))
        options = {"criterion": criterion, "folds": folds, "seed": seed, "progress": progress}
        found = tune_smoothness(encoding, samples, **options)
        return replace(method, prior=found.choice), found
    encoder, family = method.encoder, cast(type[Encoder], method.encoder.family)
    if encoder.is_fourier or encoder.is_joint or criterion == "gcv":
        found = f"{criterion} with {encoder.label}"
        raise _checks.wrong("tune", "hold-out, and an encoder of one axis", found)
    if folds > 1:
        raise _checks.wrong("folds", "1 where the scale of an encoder is chosen", folds)
    found = tune_scale(family, samples, progress=progress, **encoder.options)
    free = [p for p in family.scales if p.name not in encoder.options]
    scales = {p.name: p.widened(found.choice) for p in free}
    return replace(method, encoder=EncoderChoice(encoder.family, {**encoder.options, **scales})), found


def combinations(
    samples: Samples, encoders: Sequence[EncoderChoice] = (), heads: Sequence[Head] = (), solvers: Sequence[str] = ()
) -> tuple[list[Method], dict[str, str]]:
    """Every encoder with every head and solver, without those that do not go together.

    A linear head takes the complex encoding, or the encoder itself where that is of several axes jointly; other heads
    take the simple encoding. A closed form needs a linear head on a complex encoding; ``fourier`` has nothing but a
    closed form. Closed forms take the prior that suits the samples; where that is adaptive, the Fourier encoding is
    fitted too, with it and with a smoothness prior.

    Where a sequence is empty, usual encoders, the linear head or the first solver that is possible are taken. Returned
    are the methods, each once, and by the label of every combination that was left out the reason.
    """
    for solver in solvers:
        _checks.choice("solver", solver, SOLVERS)
    prior = default_prior(samples)
    usual = default_encoder(samples, prior)  # under an adaptive prior all fine encoders give the same reconstruction
    compared = [usual] if usual.is_fourier else [EncoderChoice(family) for family in COMPARED]
    methods: list[Method] = []
    left_out: dict[str, str] = {}
    for encoder, head in product(encoders or compared, heads or [Linear()]):
        possible = _possible(encoder, head)
        for solver in solvers or [s for s in SOLVERS if s in possible][:1] or ["gradient"]:
            if solver in possible:
                assumed = prior if solver == "closed-form" else None
                methods.append(Method(encoder, head, cast(Solver, solver), assumed, possible[solver]))
            else:
                reason = "a closed form needs a linear head and an encoder of one axis"
                if encoder.is_fourier:
                    reason = "fourier is fitted in closed form, with a linear head"
                left_out[f"{encoder.label} · {head_label(head)} · {solver}"] = reason
    if is_adaptive(prior):
        priors = (prior, Smoothness(POWER[len(samples.grid)]))
        methods += [Method(EncoderChoice(FourierEncoding), prior=p) for p in priors]
    return [m for i, m in enumerate(methods) if m not in methods[:i]], left_out


def _possible(encoder: EncoderChoice, head: Head) -> dict[str, Kind]:
    """The solvers that an encoder and a head allow, each with the kind of encoding."""
    if encoder.is_fourier:
        return {} if head.widths else {"closed-form": "complex"}
    if head.widths or encoder.is_joint:
        return {"gradient": "simple"}
    return {"closed-form": "complex", "gradient": "complex"}


def _is_long(samples: Samples) -> bool:
    return max(axis.count for axis in samples.geometry.axes) > LONGEST
