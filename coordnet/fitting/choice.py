"""The choice of a prior for some samples: the first that suits them, or thin plates if hidden samples say so."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch

from coordnet.encodings import FourierEncoding
from coordnet.linalg.waiting import stage
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Prior, Setting
from coordnet.priors.plates import ThinPlate
from coordnet.priors.plates.choice import FEWEST, LOWEST, FieldErrors, choose_plate, deciding_part
from coordnet.priors.plates.field import Field, dimensions
from coordnet.priors.registry import PRIORS
from coordnet.priors.smoothness import Smoothness
from coordnet.priors.smoothness.parameters import POWER
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Samples

LONGEST_FIT = 60.0  # seconds that a prior takes unasked at most, by its own estimate

TRIAL_NODES = ByAxes({1: 2**12, 2: 64**2, 3: 20**3})  # nodes of the part of a lattice that decides on plates at all
SMOOTHED_FOLDS = 3  # for the comparison of plates that smooth with another prior, which may be slow
GAIN = 10**0.6  # 6 dB: of the squared hidden error, by which plates replace another prior
SURE = 2.0  # standard errors by which plates that smooth are better: noise in the hidden samples hides by how much
EARLY_GAIN = 10**0.3  # over a smoothness prior, by the first orders, or nothing more is tried
EARLY_SMOOTHED = 10**0.03, (1.4, 0.7, 0.35)  # the same for the lowest order with these cut-offs, of ``FEWEST`` samples
MOST_NODES = ByAxes({1: 2**20, 2: 2**19, 3: 2**18})  # nodes of the largest lattice on which plates are taken unasked

Fit = Callable[..., Reconstruction]  # of samples, with a prior


def suited(setting: Setting) -> Prior | None:
    """Return the first prior of the registry that suits a setting within ``LONGEST_FIT`` seconds, or None.

    A whole lattice with every sample needs none, unless an axis is too long for its design matrix to be factorized.
    """
    found = (kind.suited(setting) for kind in PRIORS.values())
    return next((prior for prior in found if prior and prior.seconds(setting) <= LONGEST_FIT), None)


def choose_prior(
    samples: Samples, *, fourier: bool = True, robust: bool = False, learned: bool = False, progress: bool = False
) -> Prior | None:
    """Return the prior that "auto" stands for: what is ``suited``, or thin plates (see ``_plates_instead``).

    Parameters
    ----------
    samples : Samples
        The samples of one signal.
    fourier, robust : bool
        Those of ``Setting``. Plates need Fourier's encoding, and have no loss for outliers.
    learned : bool
        Whether samples must change the prior, as for inpainting: the adaptive one is taken in the place of others.
    progress : bool
        Whether to show the seconds that the choice takes.
    """
    samples = samples.detached().on_even_nodes() if fourier else samples.detached()
    prior = suited(Setting(samples.geometry, samples.channels, samples.values.device, fourier, robust))
    is_point = samples.geometry.operator is None and not samples.geometry.has_cells
    if prior is not None and not isinstance(prior, ThinPlate) and fourier and not robust and is_point:
        with stage("choosing the prior", shown=progress):
            prior = _plates_instead(samples, prior) or prior
    return Adaptive() if learned and not (prior and prior.learns) else prior


def _fit_on(device: torch.device, part: Samples, prior: Prior) -> Reconstruction:
    values = part.values.to(device)
    made = prior.plan(FourierEncoding.like(part), part.geometry, dtype=values.dtype, device=device)
    return made.fit(values)


def _plates_instead(samples: Samples, prior: Prior) -> ThinPlate | None:
    """Return the plates that suit samples better than a prior, as hidden samples say; None if none does.

    Plates that interpolate must be better by 6 dB. Those that smooth are taken for less if they are better everywhere:
    noise, which is in the hidden samples too, hides by how much. On lattices that skip samples they must be better by
    6 dB as well, for a hidden sample is farther from its neighbors than the points between the samples are.

    The middle of a large lattice decides, and if it is for plates, two of its corners with it. Nothing more than a
    smoothness and a few plates of low orders is fitted where these are close, as they are on photographs. The pilot of
    a local prior is compared first, and the local prior itself only with plates that are better than its pilot.
    """
    geometry, fit = samples.geometry, partial(_fit_on, samples.values.device)
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
    rivals = dict.fromkeys((prior.stationary, prior))  # the pilot is fitted in a tenth of the time
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
