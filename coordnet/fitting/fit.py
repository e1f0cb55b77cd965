"""The choice of a method for some samples: what is not given follows from ``fitting.defaults``."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal, cast

import torch

from coordnet import _checks
from coordnet.encodings import FourierEncoding
from coordnet.encodings.encoders import Encoder
from coordnet.fitting.choice import choose_prior, weighed
from coordnet.fitting.defaults import COMPARED, Family, Kind, Solver, default_encoder, default_encoding
from coordnet.fitting.methods import KINDS, SOLVERS, EncoderChoice, Method, head_label
from coordnet.fitting.splines import splines_instead
from coordnet.fitting.tuning import Tuned, tune_scale, tune_smoothness
from coordnet.networks.heads import Head, Linear
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.base import Prior
from coordnet.priors.registry import as_prior
from coordnet.priors.smoothness import POWER, Smoothness
from coordnet.sampling.samples import Samples


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
    squares at hidden samples: the adaptive prior, thin plates of several orders, splines where samples form a lattice,
    and the local prior on pictures and clips where it is expected to need less than a minute on one core.
    ``report.candidates`` names them with their errors at hidden samples and their weights.
    Networks take the simple encoding and are trained for 2,000 epochs, on a processor for as many as fit into about ten
    minutes.

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
    return method.fit(samples, epochs=epochs, lr=lr, generator=generator, progress=progress)


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

    Parameters
    ----------
    samples : Samples
        The samples of the signal.
    encoder, encoding, prior
        By default ``default_encoder``, ``default_encoding`` and ``choose_prior``; a prior of None is no prior. Without
        an encoder and a prior, whole lattices of smooth fields take splines (``splines_instead``). The encoding is
        "complex" or "simple": whether the features of the axes are multiplied or concatenated.
    head : Head, optional
        The function of the encoding; linear if not given.
    solver : "closed-form" or "gradient", optional
        A closed form where there is one, for a linear head on a complex encoding, if not given.
    robust : bool
        Fit in closed form by Huber's loss, which outliers move little. A prior without it raises a ``ValueError``, as
        does a closed form that does not exist.
    tunable : bool
        Whether a method with free numbers is preferred, for ``tuned``.
    progress : bool
        Whether to show the seconds that the choice takes.
    """
    head = head or Linear()
    if isinstance(encoder, type):
        encoder = EncoderChoice(encoder)
    elif not isinstance(encoder, EncoderChoice | None):
        raise _checks.wrong("encoder", "a class such as cn.Gaussian, or an EncoderChoice", type(encoder).__name__)
    kind = default_encoding(head, encoder and encoder.family) if encoding is None else encoding
    kind = cast(Kind, _checks.choice("encoding", kind, KINDS))
    chosen = _solver(kind, head, solver)
    if encoder is None and prior == "auto" and chosen == "closed-form" and not (robust or tunable):
        if splines := splines_instead(samples, progress=progress):
            return splines
    if chosen == "gradient":
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
    if method.solver != "closed-form" or (method.prior is not None and method.prior.learns):
        found = f"{method.prior.name if method.prior else 'no'} prior and solver {method.solver}"
        raise _checks.wrong("tune", "a closed-form fit with a smooth prior or none", found)
    if method.prior is not None:
        encoding: Any = method.encode(samples, torch.Generator().manual_seed(seed))
        options = {"criterion": criterion, "folds": folds, "seed": seed, "progress": progress}
        found = tune_smoothness(encoding, samples, **options)
        return replace(method, prior=replace(found.choice, loss=getattr(method.prior, "loss", "squared"))), found
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
    samples: Samples,
    encoders: Sequence[EncoderChoice] = (),
    heads: Sequence[Head] = (),
    solvers: Sequence[str] = (),
    priors: Sequence[Prior] = (),
    *,
    progress: bool = False,
) -> tuple[list[Method], dict[str, str]]:
    """Every encoder with every head and solver, without those that do not go together.

    A linear head takes the complex encoding, or the encoder itself where that is of several axes jointly; other heads
    take the simple encoding. A closed form needs a linear head on a complex encoding; ``fourier`` has nothing but a
    closed form. Closed forms take the prior that suits the samples and the encoder; where a prior learns from the
    samples, the Fourier encoding is fitted too, with it and the simpler priors that suit. Further ``priors`` are
    fitted with the encoders that suit them.

    Where a sequence is empty, usual encoders, the linear head or the first solver that is possible are taken. Returned
    are the methods, each once, and by the label of every combination that was left out the reason. With ``progress``,
    the seconds are shown that the choice of the priors takes.
    """
    for solver in solvers:
        _checks.choice("solver", solver, SOLVERS)
    prior, plain = choose_prior(samples), choose_prior(samples, fourier=False)
    usual = EncoderChoice(default_encoder(samples.geometry, plain))  # with an adaptive prior fine encoders are alike
    compared = [usual] if usual.is_fourier else [EncoderChoice(family) for family in COMPARED]
    methods: list[Method] = []
    left_out: dict[str, str] = {}
    for encoder, head in product(encoders or compared, heads or [Linear()]):
        possible = _possible(encoder, head)
        for solver in solvers or [s for s in SOLVERS if s in possible][:1] or ["gradient"]:
            if solver in possible:
                suited = prior if encoder.is_fourier else plain
                assumed = suited if solver == "closed-form" else None
                methods.append(Method(encoder, head, cast(Solver, solver), assumed, possible[solver]))
            else:
                reason = "a closed form needs a linear head and an encoder of one axis"
                if encoder.is_fourier:
                    reason = "fourier is fitted in closed form, with a linear head"
                left_out[f"{encoder.label} · {head_label(head)} · {solver}"] = reason
    learned = [p for p in (prior, plain) if p is not None and p.learns]
    if plain is not None and plain.learns:
        learned.append(Smoothness(POWER[len(samples.grid)]))
    methods += [Method(EncoderChoice(FourierEncoding), prior=p) for p in learned]
    methods += [Method(EncoderChoice(default_encoder(samples.geometry, p)), prior=p) for p in priors]
    return [m for i, m in enumerate(methods) if m not in methods[:i]], left_out


def _possible(encoder: EncoderChoice, head: Head) -> dict[str, Kind]:
    """The solvers that an encoder and a head allow, each with the kind of encoding."""
    if encoder.is_fourier:
        return {} if head.widths else {"closed-form": "complex"}
    if head.widths or encoder.is_joint:
        return {"gradient": "simple"}
    return {"closed-form": "complex", "gradient": "complex"}
