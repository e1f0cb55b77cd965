"""The choice of a prior for some samples: the one that suits them, or a stack of all that do."""

from coordnet.plans.nugget import nugget
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Prior, Setting
from coordnet.priors.local import Local
from coordnet.priors.local.mosaics import is_mosaic
from coordnet.priors.registry import PRIORS
from coordnet.priors.smoothness import Smoothness
from coordnet.priors.stack import Stack
from coordnet.sampling.samples import Samples

LONGEST_FIT = 60.0  # seconds that a prior takes unasked at most, by its own estimate


def suited(setting: Setting) -> Prior | None:
    """Return what "auto" stands for: the ``Stack`` of all priors that suit a setting, or the only one, or None.

    Priors that take longer than ``LONGEST_FIT`` are left out, and so is smoothness where another one suits: its fits to
    lattices have frequencies of their own, so that they cannot be summed with others. Means over cells and
    measurements, of which none can be hidden in the way that others are missing, take the last that suits, and so do
    points on nodes that were laid for them, of which a stack is no better. Mosaics take the local prior, since one with
    hidden samples is none. A whole lattice with every sample needs none, unless an axis is too long for its design
    matrix to be factorized.
    """
    found = [prior for kind in PRIORS.values() for prior in kind.candidates(setting)]
    found = [prior for prior in found if prior.seconds(setting) <= LONGEST_FIT]
    found = [prior for prior in found if not isinstance(prior, Smoothness)] or found
    geometry = setting.geometry
    if geometry.weights is not None and is_mosaic(geometry.weights.movedim(-1, 0) > 0):
        found = [prior for prior in found if isinstance(prior, Local)] or found
    if len(found) > 1 and not (geometry.has_cells or geometry.operator is not None or geometry.is_laid):
        return Stack(tuple(sorted(found, key=lambda prior: prior.searches)), nugget=setting.nugget)
    return found[-1] if found else None


def choose_prior(
    samples: Samples, *, fourier: bool = True, robust: bool = False, learned: bool = False
) -> Prior | None:
    """Return the prior that suits some samples.

    Parameters
    ----------
    samples : Samples
        The samples of one signal.
    fourier, robust : bool
        Those of ``Setting``. Plates and splines need Fourier's encoding, and have no loss for outliers.
    learned : bool
        Whether samples must change the prior, as for inpainting: the adaptive one is taken in the place of others.
    """
    geometry = samples.on_even_nodes().geometry if fourier else samples.geometry
    setting = Setting(geometry, samples.channels, samples.values.device, fourier, robust, nugget(samples))
    prior = suited(setting)
    return Adaptive() if learned and not (prior and prior.learns) else prior


def weighed(prior: Prior, samples: Samples) -> Prior:
    """Return the prior of a fit that names one: with those that suit the samples, if it is to be weighed among them."""
    return prior.among(suited(Setting(samples.geometry, samples.channels, samples.values.device)), samples.geometry)
