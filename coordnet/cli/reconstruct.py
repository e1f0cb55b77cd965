"""The command ``coordnet reconstruct``."""

from dataclasses import dataclass
from typing import Any

import torch

from coordnet import _checks
from coordnet.cli.common import Common
from coordnet.cli.devices import choose_device
from coordnet.cli.methods import Method, fit
from coordnet.cli.outputs import staged_folder
from coordnet.cli.report import Outcome, print_outcome, record, write_outcome
from coordnet.cli.specs import (
    Prior,
    check_encoder,
    choose_encoder,
    choose_prior,
    describe_encoder,
    describe_prior,
    make_encoding,
    parse_encoder,
    parse_head,
    parse_prior,
)
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.encoders import Encoder
from coordnet.fit.tuning import tune_scale, tune_smoothness
from coordnet.media import read_mask, read_media
from coordnet.metrics.stopwatch import once
from coordnet.networks.heads import Head
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.patterns import parse_pattern, sample
from coordnet.sampling.samples import Samples


@dataclass(frozen=True)
class Options(Common):
    """The command's own options, in their order."""

    signal: str
    sample: str
    encoder: str | None
    encoding: str
    head: str
    solver: str | None
    epochs: int
    lr: float | None
    prior: str
    robust: bool
    tune: str | None
    folds: int
    part: dict[str, Any]


def run(options: Options) -> None:
    """Read, sample, fit, render, score, write."""
    head, prior = parse_head(options.head), parse_prior(options.prior)
    pattern = None if options.sample.startswith("mask:") else parse_pattern(options.sample)
    if options.encoder is not None:
        check_encoder(options.encoder)
    solver = choose_solver(options, head)
    device = choose_device(options.device)
    media = read_media(options.signal, **options.part, progress=options.progress)
    with staged_folder(options.out, command="reconstruct", name=media.name, force=options.force) as (
        staging,
        final,
    ):
        generator = torch.Generator().manual_seed(options.seed)
        mask = pattern or read_mask(options.sample.removeprefix("mask:"), media.grid)
        samples = sample(media.signal.to(device), mask, generator=generator)
        prior = choose_prior(prior, samples, robust=options.robust) if solver == "closed-form" else None
        encoder = choose_encoder(options.encoder, prior, samples)
        tuning: dict[str, Any] = {}
        if options.tune is not None:
            encoder, prior, tuning = tuned(options, solver, encoder, prior, samples)
        method = Method(encoder, options.encoding, options.head, solver, prior)
        encoding = method.encode(samples, generator)
        fitting: dict[str, Any] = {"epochs": options.epochs, "lr": options.lr, "robust": options.robust}
        fitting |= {"generator": generator, "progress": options.progress}
        made_fit, fit_seconds = once(lambda: fit(method, encoding, samples, **fitting))
        estimate, render_seconds = once(made_fit.render)
        outcome = Outcome(media, samples, made_fit, estimate.cpu(), fit_seconds, render_seconds)
        settings = {
            "sample": options.sample,
            "encoder": describe_encoder(encoder, made_fit.network.encoding),
            "encoding": options.encoding,
            "head": options.head,
            "solver": solver,
            "prior": describe_prior(prior),
            "device": str(device),
            "seed": options.seed,
            **tuning,
        }
        made = record(outcome, settings)
        write_outcome(staging, outcome, made)
    print_outcome(made, final, json_only=options.json, quiet=options.quiet)


def choose_solver(options: Options, head: Head) -> str:
    """Closed form where the head is linear and the encoding complex, unless one is named.

    Raises
    ------
    ValueError
        If the closed form is asked for where there is none.
    """
    possible = options.encoding == "complex" and not head.widths
    if options.solver is None:
        return "closed-form" if possible else "gradient"
    if (
        _checks.choice("solver", options.solver, ("closed-form", "gradient")) == "closed-form"
        and not possible
    ):
        combination = f"{options.encoding} with {options.head}"
        raise _checks.wrong(
            "solver", "gradient, unless the encoding is complex and the head linear", combination
        )
    return options.solver


def tuned(
    options: Options, solver: str, encoder: str, prior: Prior | None, samples: Samples
) -> tuple[str, Prior | None, dict[str, Any]]:
    """The encoder and the prior with their free numbers chosen, and how, for the record.

    Raises
    ------
    ValueError
        If the method has no free numbers to choose: it is trained, or its prior is adaptive.
    """
    if solver != "closed-form" or isinstance(prior, Adaptive):
        raise _checks.wrong("tune", "a closed-form fit with a smooth prior or none", describe_prior(prior))
    if isinstance(prior, Smoothness):
        encoding = make_encoding(
            encoder, options.encoding, samples, torch.Generator().manual_seed(options.seed)
        )
        assert isinstance(encoding, ComplexEncoding | FourierEncoding)
        made = tune_smoothness(
            encoding,
            samples,
            criterion=options.tune or "hold-out",
            folds=options.folds,
            seed=options.seed,
            progress=options.progress,
        )
        return encoder, made.choice, {"tuning": {"criterion": made.criterion, "tried": made.table}}
    kind, chosen = parse_encoder(encoder)
    if not issubclass(kind, Encoder) or options.tune == "gcv":
        raise _checks.wrong("tune", "hold-out, and an encoder of one axis", f"{options.tune} with {encoder}")
    if options.folds > 1:
        raise _checks.wrong("folds", "1 where the scale of an encoder is chosen", options.folds)
    made = tune_scale(kind, samples, progress=options.progress, **chosen)
    scales = [f"{p.name}={p.widened(made.choice)}" for p in kind.scales if p.name not in chosen]
    text = encoder + ("," if ":" in encoder else ":") + ",".join(scales) if scales else encoder
    return text, prior, {"tuning": {"criterion": made.criterion, "tried": made.table}}
