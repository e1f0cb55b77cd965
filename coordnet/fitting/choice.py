"""The choice between priors by the errors at hidden samples."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from coordnet.fitting.defaults import Prior
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.plates import ThinPlate
from coordnet.priors.plates.choice import FEWEST, LOWEST, FieldErrors, choose_plate, deciding_part
from coordnet.priors.plates.field import Field, dimensions
from coordnet.priors.smoothness import POWER, Smoothness
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Samples

TRIAL_NODES = ByAxes({1: 2**12, 2: 64**2, 3: 20**3})  # nodes of the part of a lattice that decides on plates at all
SMOOTHED_FOLDS = 3  # for the comparison of plates that smooth with another prior, which may be slow
GAIN = 10**0.6  # 6 dB: of the squared hidden error, by which plates replace another prior
SURE = 2.0  # standard errors by which plates that smooth are better: noise in the hidden samples hides by how much
EARLY_GAIN = 10**0.3  # over a smoothness prior, by the first orders, or nothing more is tried
EARLY_SMOOTHED = 10**0.03, (1.4, 0.7, 0.35)  # the same for the lowest order with these cut-offs, of ``FEWEST`` samples
MOST_NODES = ByAxes({1: 2**20, 2: 2**19, 3: 2**18})  # nodes of the largest lattice on which plates are taken unasked

Fit = Callable[..., Reconstruction]  # of samples, with a prior


def plates_instead(samples: Samples, prior: Prior, fit: Fit) -> ThinPlate | None:
    """Return the plates that suit samples better than a prior, as hidden samples say; None if none does.

    Plates that interpolate must be better by 6 dB. Those that smooth are taken for less if they are better everywhere:
    noise, which is in the hidden samples too, hides by how much. On lattices that skip samples they must be better by
    6 dB as well, for a hidden sample is farther from its neighbors than the points between the samples are.

    The middle of a large lattice decides, and if it is for plates, two of its corners with it. Nothing more than a
    smoothness and a few plates of low orders is fitted where these are close, as they are on photographs. The pilot of
    a local prior is compared first, and the local prior itself only with plates that are better than its pilot.
    """
    geometry = samples.geometry
    if len(geometry.grid) > 3 or math.prod(geometry.grid) > MOST_NODES[dimensions(geometry.grid)]:
        return None
    values = (samples.values - samples.mean()).movedim(-1, 0)
    field = Field.of(geometry, values if geometry.weights is None or geometry.weights.shape[-1] == 1 else values[:1])
    part, plates = deciding_part(field, TRIAL_NODES[field.dims]), ThinPlate()
    first = FieldErrors(part, plates, rounds=1)
    if not first.folds or not part.values.any():
        return None
    rough = float(first.squares_of(partial(fit, prior=Smoothness(POWER[field.dims], 0.01))).mean())
    gain, cutoffs = EARLY_SMOOTHED if len(part.values) >= FEWEST else (1.0, ())
    early = [first.of_plate(order, math.inf) * EARLY_GAIN for order in (LOWEST, LOWEST + 1)]
    if min(early + [first.of_plate(LOWEST, w) * gain for w in cutoffs]) > rough:
        return None
    chosen, _ = choose_plate(field, plates)
    can_smooth = math.isfinite(chosen.cutoff or math.inf) and geometry.filled_axes is None
    rivals = dict.fromkeys((getattr(prior, "pilot", prior), prior))  # the pilot is fitted in a tenth of the time
    better = all(
        _are_better(chosen, rival, fit, (part, *_corners(field, part.lattice)), can_smooth) for rival in rivals
    )
    return chosen if better else None


def _are_better(chosen: ThinPlate, prior: Prior, fit: Fit, parts: Sequence[Field], smooths: bool) -> bool:
    """Whether plates are better than a prior in parts of a lattice: by 6 dB, or surely if they smooth."""
    order, cutoff = chosen.order or LOWEST, chosen.cutoff or math.inf
    ours, theirs = np.empty(0), np.empty(0)
    for compared in parts:
        errors = FieldErrors(compared, ThinPlate(), SMOOTHED_FOLDS if smooths else 1)
        if errors.folds:
            our, their = errors.squares_of_plate(order, cutoff), errors.squares_of(partial(fit, prior=prior))
            smooths = smooths and our.mean() < their.mean()
            ours, theirs = np.append(ours, our), np.append(theirs, their)
        if not smooths and ours.sum() * GAIN > theirs.sum():
            return False
    return bool(ours.sum() * GAIN <= theirs.sum()) or (smooths and _is_surely_less(ours, theirs))


def _is_surely_less(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether the mean of paired errors is less by ``SURE`` standard errors."""
    gain = theirs - ours
    return float(gain.mean()) > SURE * float(gain.std()) / math.sqrt(len(gain))


def _corners(field: Field, lengths: tuple[int, ...]) -> Iterator[Field]:
    """Yield the first and the last part of a lattice, if they are not all of it."""
    if lengths != field.lattice:
        yield field.part(tuple(slice(0, m) for m in lengths))
        yield field.part(tuple(slice(n - m, n) for m, n in zip(lengths, field.lattice, strict=True)))
