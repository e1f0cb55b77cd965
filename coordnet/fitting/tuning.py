"""Choose the numbers of a prior or an encoder by hidden samples or by generalized cross-validation."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import ComplexEncoding, Encoding
from coordnet.encodings.blending import lattice_of, measure
from coordnet.encodings.encoders import Encoder
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.fitting.fit import EncoderChoice, Method
from coordnet.plans.hold_out import hidden_error, middle
from coordnet.plans.modes import Modes
from coordnet.plans.systems import penalized_system
from coordnet.priors.smoothness import SOLVER_TOLERANCE, Smoothness, modes_of
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.grids import Lattice
from coordnet.sampling.samples import Samples

POWERS = (0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5)
STRENGTHS = tuple(10.0**e for e in (-3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1))
ANISOTROPIES = (0.1, 0.3, 1.0, 3.0, 10.0)
SCALES = (0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.5)  # factors on an encoder's default scales
HIDDEN_SHARE = 0.1  # share of the samples that each fold hides
TUNED_NODES = 2**19  # points of the middle that is used instead of a lattice more than twice as large
HOLD_OUT, GCV = "hold-out mean squared error", "generalized cross-validation"

Score = Callable[[Smoothness], float]


@dataclass(frozen=True)
class Tuned:
    """The choice, and the score of every candidate."""

    choice: Any  # the prior, or the factor on the encoder's default scales
    criterion: str  # ``HOLD_OUT`` or ``GCV``
    table: list[dict[str, Any]]  # a row for each candidate, with its score; lower is better


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
        made = tune_smoothness(encoding, samples, **options)
        return replace(method, prior=replace(made.choice, loss=getattr(method.prior, "loss", "squared"))), made
    encoder, family = method.encoder, cast(type[Encoder], method.encoder.family)
    if encoder.is_fourier or encoder.is_joint or criterion == "gcv":
        found = f"{criterion} with {encoder.label}"
        raise _checks.wrong("tune", "hold-out, and an encoder of one axis", found)
    if folds > 1:
        raise _checks.wrong("folds", "1 where the scale of an encoder is chosen", folds)
    made = tune_scale(family, samples, progress=progress, **encoder.options)
    free = [p for p in family.scales if p.name not in encoder.options]
    scales = {p.name: p.widened(made.choice) for p in free}
    return replace(method, encoder=EncoderChoice(encoder.family, {**encoder.options, **scales})), made


def tune_smoothness(
    encoding: Encoding,
    samples: Samples,
    *,
    criterion: str = "hold-out",
    folds: int = 1,
    seed: int = 0,
    progress: bool = False,
) -> Tuned:
    """Choose power, strength and anisotropy of a smoothness prior, coarse to fine, one number after another.

    Parameters
    ----------
    encoding : ComplexEncoding or FourierEncoding
        The encoding, whose modes are factorized once for all candidates.
    samples : Samples
        The samples; hold-out uses only the middle of a large lattice.
    criterion : "hold-out" or "gcv"
        The error at hidden samples, or generalized cross-validation, which suits only whole, noisy lattices: it
        oversmooths clean, aliased ones.
    folds, seed
        The number of folds, each of which hides a tenth of the samples and whose scores are averaged, and the seed by
        which the hidden samples are drawn.
    progress : bool
        Show a bar.

    Raises
    ------
    ValueError
        If the criterion does not suit the samples, or there are too few samples to hide any.

    Notes
    -----
    Golub, Heath and Wahba, "Generalized cross-validation as a method for choosing a good ridge parameter" (1979).
    """
    _checks.choice("criterion", criterion, ("hold-out", "gcv"))
    _checks.integer("folds", folds, 1)
    samples = samples if encoding.axis_encoders else samples.on_even_nodes()
    if criterion == "gcv":
        return _search(_gcv(encoding, samples), GCV, len(samples.grid), progress)
    score = _hold_out(encoding, _middle(samples), folds, seed)
    return _search(score, HOLD_OUT, len(samples.grid), progress)


def tune_scale(encoder: type[Encoder], samples: Samples, *, progress: bool = False, **options: Any) -> Tuned:
    """Choose the factor on an encoder's default scales: fit every second sample of a lattice, score on the others.

    The samples are a whole, equally spaced lattice of at least four along each axis; others raise a ``ValueError``.
    """
    shape = tuple(samples.values.shape[:-1])
    expected = "a whole lattice, equally spaced, of at least four samples along each axis"
    samples.geometry.check_filled("samples", expected)
    if not samples.geometry.is_nodal or min(shape) < 4:
        raise _checks.wrong("samples", expected, type(samples.geometry).__name__)
    every_second = Lattice(shape, (2,) * len(shape))
    half = Samples(every_second, samples.values[every_second.slices])
    hidden = ~every_second.known(samples.channels).to(samples.values.device)
    table = []
    for factor in tqdm(SCALES, "tuning", disable=not progress, dynamic_ncols=True):
        scales = {p.name: p.widened(factor) for p in encoder.scales if p.name not in options}
        encoding = ComplexEncoding.like(encoder, half, **scales, **options).requires_grad_(False)
        fit = fit_closed_form(encoding, half, None)
        error = (fit.render() - samples.values)[hidden].square().mean()
        table.append({"factor": factor, "score": float(error)})
    best = min(table, key=lambda row: row["score"])
    return Tuned(best["factor"], HOLD_OUT, table)


def _search(score: Score, criterion: str, dims: int, progress: bool) -> Tuned:
    """Try every second strength, powers, strengths nearby, and the anisotropy of each axis but the last.

    Powers and strengths between the best ones come last.
    """
    scores: dict[Smoothness, float] = {}
    with tqdm(desc="tuning", disable=not progress, dynamic_ncols=True) as bar:

        def best_of(candidates: Iterable[Smoothness]) -> Smoothness:
            for prior in candidates:
                if prior not in scores:
                    scores[prior] = score(prior)
                    bar.set_postfix_str(f"score {min(scores.values()):.3e}", refresh=False)
                    bar.update()
            return min(scores, key=scores.__getitem__)

        best = best_of(Smoothness(1.5, strength, (1.0,) * dims, "modes") for strength in STRENGTHS[::2])
        best = best_of(replace(best, power=power) for power in POWERS)
        decade = [s for s in STRENGTHS if abs(math.log10(s / best.strength)) <= 1.01]
        best = best_of(replace(best, strength=strength) for strength in decade)
        for axis in range(dims - 1):
            weights = best.axis_weights(dims)
            rows = [(*weights[:axis], weight, *weights[axis + 1 :]) for weight in ANISOTROPIES]
            best = best_of(replace(best, anisotropy=row) for row in rows)
        best = best_of(replace(best, power=best.power + step) for step in (-0.25, -0.125, 0.125, 0.25))
        best = best_of(replace(best, strength=best.strength * factor) for factor in (0.5, 0.75, 1.33, 2.0))
    table = [
        {"power": p.power, "strength": p.strength, "anisotropy": list(p.axis_weights(dims)), "score": value}
        for p, value in sorted(scores.items(), key=lambda item: item[1])
    ]
    return Tuned(replace(best, form="auto"), criterion, table)


def _middle(samples: Samples) -> Samples:
    """Return the samples, or only the middle of a large lattice."""
    shape = samples.values.shape[:-1]
    return samples if math.prod(shape) <= 2 * TUNED_NODES else samples.part(middle(shape, TUNED_NODES)) or samples


def _system(encoding: Encoding, samples: Samples) -> tuple[Modes, ForwardModel, Tensor]:
    """The modes of the samples' lattice, the measurement, and the values without the mean of each channel."""
    values = samples.centered().unsqueeze(0)
    kind = {"dtype": values.dtype, "device": values.device}
    axes = lattice_of(encoding, samples.geometry)
    encoding = encoding.for_lattice(axes)
    return modes_of(encoding, axes, **kind), measure(encoding, samples.geometry, **kind), values


def _hold_out(encoding: Encoding, samples: Samples, folds: int, seed: int) -> Score:
    """The mean squared error at hidden samples as a function of the prior."""
    modes, measurement, values = _system(encoding, samples)
    generator = torch.Generator().manual_seed(seed)
    parts = [measurement.hide(HIDDEN_SHARE, generator, values) for _ in range(folds)]
    hidden = [part for part in parts if part is not None]
    if len(hidden) < folds:
        raise _checks.wrong("samples", "enough to hide some", "too few")
    tolerance = 10 * SOLVER_TOLERANCE[len(samples.grid)]

    def score(prior: Smoothness) -> float:
        total = 0.0
        for part in hidden:
            system = penalized_system(modes, measurement.reweighted(1 - part), prior.penalty(modes))
            z = system.solve(values, tolerance=tolerance, steps=200).x
            total += hidden_error(measurement, modes(z), values, part)
        return total / folds

    return score


def _gcv(encoding: Encoding, samples: Samples) -> Score:
    """The criterion of generalized cross-validation as a function of the prior."""
    expected = "hold-out; gcv needs a ComplexEncoding and a whole lattice"
    samples.geometry.check_filled("criterion", expected, "gcv")
    if not encoding.axis_encoders:
        raise _checks.wrong("criterion", expected, "gcv")
    if lattice_of(encoding, samples.geometry) != samples.axes:
        raise _checks.wrong("criterion", "hold-out, where an encoding has a feature for each pixel of a cell", "gcv")
    modes, _, values = _system(encoding, samples)
    energy = modes.adjoint(values).square().sum((0, 1))
    outside = max(float(values.square().sum() - energy.sum()), 0.0)
    size, channels = math.prod(values.shape[2:]), values.shape[1]

    def score(prior: Smoothness) -> float:
        penalty = prior.penalty(modes)
        removed = penalty / (1 + penalty)
        residual = float((removed.square() * energy).sum()) + outside
        freedom = size - modes.filter_trace(1 - removed)
        return size * residual / (channels * freedom**2)

    return score
