"""The free numbers of a fit, chosen by hidden samples or by generalised cross-validation."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.encoders import Encoder
from coordnet.fit.blending import measure
from coordnet.fit.closed_form import fit_closed_form
from coordnet.fit.hold_out import hide
from coordnet.fit.smooth import TOLERANCE, modes_of
from coordnet.fit.systems import penalized_system
from coordnet.priors.modes import Modes
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.measurements import Measurement
from coordnet.sampling.samples import Lattice, MaskedLattice, Samples

POWERS = (0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5)
STRENGTHS = tuple(10.0**e for e in (-3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1))
ANISOTROPIES = (0.1, 0.3, 1.0, 3.0, 10.0)
SCALES = (0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.5)  # of an encoder's default
LARGE = 2**19  # points of a lattice beyond which its middle decides


@dataclass(frozen=True)
class Tuned:
    """What was chosen, and all that was tried.

    Attributes
    ----------
    choice : Smoothness or float
        The prior, or the factor on the encoder's default scales.
    criterion : str
        ``hold-out mean squared error`` or ``generalised cross-validation``.
    table : list of dict
        A row for each candidate, with its score; lower is better.
    """

    choice: Any
    criterion: str
    table: list[dict[str, Any]]


def tune_smoothness(
    encoding: ComplexEncoding | FourierEncoding,
    samples: Samples,
    *,
    criterion: str = "hold-out",
    share: float = 0.1,
    folds: int = 1,
    seed: int = 0,
    progress: bool = False,
) -> Tuned:
    """Choose power, strength and anisotropy of a smoothness prior, coarse to fine, one number after another.

    Parameters
    ----------
    encoding : ComplexEncoding or FourierEncoding
        Its modes are factorised once for all candidates.
    samples : Samples
        What is known; of a large lattice its middle decides.
    criterion : "hold-out" or "gcv"
        Hide a share of the samples, or generalised cross-validation: for whole, noisy lattices alone. It oversmooths
        clean, aliased ones.
    share : float
        Of the samples, to be hidden in each fold.
    folds : int
        How often other samples are hidden; scores are averaged.
    seed : int
        Of the hidden samples.
    progress : bool
        Show a bar.

    Raises
    ------
    ValueError
        If the criterion does not go with the samples, or there are too few of them to hide any.

    Notes
    -----
    Golub, Heath and Wahba, "Generalized cross-validation as a method for choosing a good ridge parameter" (1979).
    """
    _checks.choice("criterion", criterion, ("hold-out", "gcv"))
    _checks.integer("folds", folds, 1)
    if criterion == "gcv":
        score, name = _gcv(encoding, samples), "generalised cross-validation"
    else:
        score, name = _hold_out(encoding, _middle(samples), share, folds, seed), "hold-out mean squared error"
    return _search(score, name, len(samples.grid), progress)


def tune_scale(encoder: type[Encoder], samples: Samples, *, progress: bool = False, **options: Any) -> Tuned:
    """Choose the factor on an encoder's default scales: fit every second sample of a lattice, score on the others.

    Raises
    ------
    ValueError
        If the samples are no whole lattice, or it is too short to leave every second sample out.
    """
    geometry = samples.geometry
    if type(geometry) is not Lattice or min(samples.values.shape[:-1]) < 4:
        raise _checks.wrong(
            "samples", "a whole lattice of at least four samples an axis", type(geometry).__name__
        )
    inner = Lattice(tuple(samples.values.shape[:-1]), (2,) * len(samples.grid))
    half = Samples(inner, samples.values[inner.slices])
    hidden = ~inner.known(samples.channels).to(samples.values.device)
    table = []
    for factor in tqdm(SCALES, "tuning", disable=not progress, dynamic_ncols=True):
        scales = {p.name: p.widened(factor) for p in encoder.scales if p.name not in options}
        made = fit_closed_form(ComplexEncoding.like(encoder, half, **scales, **options), half)
        error = (made.render() - samples.values)[hidden].square().mean()
        table.append({"factor": factor, "score": float(error)})
    best = min(table, key=lambda row: row["score"])
    return Tuned(best["factor"], "hold-out mean squared error", table)


Score = Callable[[Smoothness], float]


def _search(score: Score, criterion: str, dims: int, progress: bool) -> Tuned:
    """Powers, then strengths, then each axis's anisotropy, then powers and strengths between the best ones."""
    seen: dict[Smoothness, float] = {}
    with tqdm(desc="tuning", disable=not progress, dynamic_ncols=True) as bar:

        def best_of(candidates: Iterable[Smoothness]) -> Smoothness:
            for prior in candidates:
                if prior not in seen:
                    seen[prior] = score(prior)
                    bar.set_postfix_str(f"score {min(seen.values()):.3e}", refresh=False)
                    bar.update()
            return min(seen, key=seen.__getitem__)

        best = best_of(Smoothness(1.5, strength, (1.0,) * dims, "modes") for strength in STRENGTHS[::2])
        best = best_of(replace(best, power=power) for power in POWERS)
        best = best_of(replace(best, strength=strength) for strength in _near(best.strength, STRENGTHS))
        if dims > 1:
            for axis in range(dims - 1):
                best = best_of(_with_axis(best, axis, a) for a in ANISOTROPIES)
        best = best_of(replace(best, power=best.power + step) for step in (-0.25, -0.125, 0.125, 0.25))
        best = best_of(replace(best, strength=best.strength * factor) for factor in (0.5, 0.75, 1.33, 2.0))
    rows = [
        {"power": p.power, "strength": p.strength, "anisotropy": list(_tuple(p)), "score": value}
        for p, value in sorted(seen.items(), key=lambda item: item[1])
    ]
    return Tuned(replace(best, form="auto"), criterion, rows)


def _near(value: float, values: tuple[float, ...]) -> list[float]:
    """The values within a decade of one."""
    return [v for v in values if abs(math.log10(v / value)) <= 1.01]


def _with_axis(prior: Smoothness, axis: int, weight: float) -> Smoothness:
    anisotropy = list(_tuple(prior))
    anisotropy[axis] = weight
    return replace(prior, anisotropy=tuple(anisotropy))


def _tuple(prior: Smoothness) -> tuple[float, ...]:
    assert isinstance(prior.anisotropy, tuple)
    return prior.anisotropy


def _middle(samples: Samples) -> Samples:
    """The samples themselves, or the middle of a large lattice."""
    geometry, shape = samples.geometry, samples.values.shape[:-1]
    if not isinstance(geometry, Lattice) or math.prod(shape) <= 2 * LARGE:
        return samples
    scale = (LARGE / math.prod(shape)) ** (1 / len(shape))
    lengths = tuple(min(n, max(16, round(n * scale))) for n in shape)
    part = tuple(slice((n - m) // 2, (n - m) // 2 + m) for n, m in zip(shape, lengths, strict=True))
    if isinstance(geometry, MaskedLattice):
        weights = geometry.weights[part]
        return Samples(MaskedLattice(lengths, weights=weights), samples.values[part])
    return Samples(Lattice(lengths), samples.values[part])


def _centred(samples: Samples) -> Tensor:
    return (samples.values - samples.mean()).movedim(-1, 0).unsqueeze(0)


def _system(
    encoding: ComplexEncoding | FourierEncoding, samples: Samples
) -> tuple[Modes, Measurement, Tensor]:
    values = _centred(samples)
    kind = {"dtype": values.dtype, "device": values.device}
    axes = samples.geometry.axes
    if isinstance(encoding, FourierEncoding):
        encoding = FourierEncoding.on(axes)
    measurement = measure(encoding, samples.geometry, **kind)
    if measurement is None:
        measurement = Measurement.mask(torch.ones_like(values[:, :1]))
    return modes_of(encoding, axes, **kind), measurement, values


def _hold_out(
    encoding: ComplexEncoding | FourierEncoding, samples: Samples, share: float, folds: int, seed: int
) -> Score:
    modes, measurement, values = _system(encoding, samples)
    generator = torch.Generator().manual_seed(seed)
    parts = [hide(measurement, values.shape[2:], share, generator) for _ in range(folds)]
    hidden = [part for part in parts if part is not None]
    if len(hidden) < folds:
        raise _checks.wrong("samples", "enough of them to hide some", "too few")
    tolerance = 10 * TOLERANCE[len(samples.grid)]

    def score(prior: Smoothness) -> float:
        penalty, total = prior.strength * prior.roughness(modes), 0.0
        for part in hidden:
            shown = measurement.reweighted(1 - part)
            z = penalized_system(modes, shown, penalty).solve(values, tolerance=tolerance, steps=200).x
            residual = measurement(modes(z)) - values
            weights = (part * measurement.weights).expand_as(residual)
            total += float((weights * residual.square()).sum() / weights.sum())
        return total / folds

    return score


def _gcv(encoding: ComplexEncoding | FourierEncoding, samples: Samples) -> Score:
    if type(samples.geometry) is not Lattice or isinstance(encoding, FourierEncoding):
        raise _checks.wrong("criterion", "hold-out, unless a ComplexEncoding meets a whole lattice", "gcv")
    modes, _, values = _system(encoding, samples)
    z = modes.adjoint(values)
    energy = z.square().sum((0, 1))
    outside = float(values.square().sum() - energy.sum())
    size, channels = math.prod(values.shape[2:]), values.shape[1]

    def score(prior: Smoothness) -> float:
        penalty = prior.strength * prior.roughness(modes)
        left = penalty / (1 + penalty)
        residual = float((left.square() * energy).sum()) + max(outside, 0.0)
        freedom = size - modes.filter_trace(1 - left)
        return size * residual / (channels * freedom**2)

    return score
