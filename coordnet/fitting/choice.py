"""The choice of a prior for some samples, the one that suits or a stack of all that do, and of an encoder for it."""

from dataclasses import replace
from functools import partial
from typing import Literal

from coordnet.encodings import FourierEncoding
from coordnet.encodings.encoders import Encoder, Gaussian, JointEncoder
from coordnet.fitting.channel_groups import channel_groups
from coordnet.networks.heads import Head
from coordnet.plans.nugget import nugget
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Prior, Setting
from coordnet.priors.kriging import Kriging
from coordnet.priors.local import Local
from coordnet.priors.plates import ThinPlate
from coordnet.priors.plates.errors import LOWEST
from coordnet.priors.plates.search import anisotropies
from coordnet.priors.registry import PRIORS
from coordnet.priors.smoothness import Smoothness
from coordnet.priors.snapped import NearestNodes, Snapped
from coordnet.priors.stack import Stack
from coordnet.sampling.grids import is_mosaic
from coordnet.sampling.samples import Geometry, Samples

LONGEST_FIT = 300.0  # seconds of one core that a prior takes unasked at most, by its own estimate
FEWEST_SNAPPED = 1_000  # points whose nearest nodes are fitted unasked at least: fewer are to take a second
BY_ENCODERS = ("similarity", "printed")  # blends of points along encoders of the axes, which Fourier's has not
Solver = Literal["closed-form", "gradient"]
Kind = Literal["complex", "simple"]
Family = type[Encoder] | type[JointEncoder] | type[FourierEncoding]


def suited(setting: Setting, *, skips: bool = True) -> Prior | None:
    """Return what "auto" stands for: the stack for a lattice that skips nodes where the gaps are these nodes.

    Where only one prior suits that lattice, and where the fit does not ``skip`` nodes, priors are for the gaps.
    """
    even = setting.geometry.without_gaps
    if skips and even is not setting.geometry and setting.fourier and not setting.robust:
        if isinstance(stack := _suited(replace(setting, geometry=even)), Stack):
            return replace(stack, skips=True)
    return _suited(setting)


def _suited(setting: Setting) -> Prior | None:
    """Return what "auto" stands for: the ``Stack`` of all priors that suit a setting, or the only one, or None.

    Priors that take longer than ``LONGEST_FIT`` are left out, and so is smoothness where another one suits: its fits to
    lattices have frequencies of their own, so that they cannot be summed with others. Some samples take no stack:

    - a whole lattice with every sample needs no prior, unless an axis is too long for its design matrix to be
      factorized;
    - a mosaic takes the local prior, however long it takes: with hidden samples it would be no mosaic, and the adaptive
      prior is 8 dB behind on a photograph;
    - means over cells, of which none can be hidden in the way that others are missing, take the last prior that suits,
      and so do measurements: total variation, which is weighed against the adaptive prior;
    - points on nodes that were laid for them take plates, in a row those of fixed orders too. They are weighed against
      kriging, unless there are more than ``MOST_KRIGED`` points, and in a plane, from ``FEWEST_SNAPPED`` points on,
      against the local fit of the nearest nodes (``Snapped``): plates on these nodes would tell no more.
    """
    dims, sampled = len(setting.geometry.grid), setting.sampled
    kinds = [kind for kind in PRIORS.values() if dims in kind.axes and sampled in kind.samples]
    kinds = [Smoothness] if setting.robust else kinds
    suiting = [prior for kind in kinds for prior in kind.candidates(setting)]
    if is_mosaic(setting.geometry.weights) and (local := [prior for prior in suiting if isinstance(prior, Local)]):
        return local[0]
    suiting = [prior for prior in suiting if prior.seconds(setting) <= LONGEST_FIT]
    suiting = [prior for prior in suiting if not isinstance(prior, Smoothness)] or suiting
    geometry = setting.geometry
    if geometry.is_laid:
        weighs = ThinPlate() in suiting and len(geometry.nodes) >= FEWEST_SNAPPED
        near = NearestNodes.of(geometry) if weighs else None
        local = Local.candidates(replace(setting, geometry=near.geometry)) if near else ()
        if local:
            return Snapped(local[0])
        suiting = [prior for prior in suiting if isinstance(prior, Kriging | ThinPlate) or prior is suiting[-1]]
    if len(suiting) > 1 and geometry.hides_alike:
        # Kriging of gaps in planes and volumes is last: plates that search are left out where one before is far better.
        last = Kriging if setting.has_plain_gaps else ()
        ordered = sorted(suiting, key=lambda prior: (prior.searches, isinstance(prior, last)))
        return Stack(tuple(ordered), nugget=setting.nugget)
    return suiting[-1] if suiting else None


def choose_prior(
    samples: Samples, *, fourier: bool = True, robust: bool = False, learned: bool = False, skips: bool = True
) -> Prior | None:
    """Return the prior that suits some samples.

    - samples: the samples of one signal
    - fourier, robust: those of ``Setting``. Plates and splines need Fourier's encoding, and have no loss for outliers.
    - skips: whether a mask of every k-th node may be fitted as that lattice
    - learned: whether samples must change the prior, as for inpainting: the adaptive one is taken in the place of
      others
    """
    fourier = fourier and samples.geometry.blending not in BY_ENCODERS
    geometry = samples.on_even_nodes(finer=True).geometry if fourier else samples.geometry
    weighs = not is_mosaic(geometry.weights)  # mosaics are not weighed by hidden samples
    weights = anisotropies(samples) if weighs and fourier and not robust else {}
    seen = samples.without_gaps() if skips else samples
    noise = nugget(seen, weights.get(LOWEST, ())) if weighs else 0.0
    if noise and len(channel_groups(samples)) > 1:  # groups of channels have no noise in common
        noise = 0.0
    geometry = geometry if geometry.is_strided or not fourier else geometry.with_gaps
    among = 0.0 if seen.geometry.is_strided else noise
    setting = Setting(geometry, samples.channels, samples.values.device, fourier, robust, among, weights)
    prior = suited(setting, skips=skips)
    if isinstance(prior, Stack) and seen.geometry.is_strided:
        prior = replace(prior, lattice_noise=noise)
    return Adaptive() if learned and not (prior and prior.learns) else prior


def weighed(prior: Prior, samples: Samples) -> Prior:
    """Return the prior of a fit that names one: with those that suit the samples, if it is to be weighed among them."""
    return prior.among(partial(choose_prior, samples, skips=not prior.noise), samples.geometry)


def default_encoder(geometry: Geometry, prior: Prior | None, solver: Solver = "closed-form") -> Family:
    """The encoder that suits a prior: Gaussians, or Fourier's where a closed form needs its fast transforms.

    Fourier's is for priors that learn from the samples, for axes that are too long for a matrix, for smooth rows that
    skip samples, and for priors at unequal coordinates, by blending.
    """
    smooth_row = len(geometry.grid) == 1 and geometry.is_strided and prior is not None
    if geometry.blending in BY_ENCODERS:
        return Gaussian
    blends = not geometry.is_even and prior is not None
    fourier = blends or (prior is not None and prior.learns) or Setting(geometry).is_long or smooth_row
    return FourierEncoding if fourier and solver == "closed-form" else Gaussian


def default_encoding(head: Head, family: Family | None = None) -> Kind:
    """The complex encoding for a linear head, unless the encoder is of several axes jointly; the simple one else."""
    return "simple" if head.widths or getattr(family, "joint", False) else "complex"
