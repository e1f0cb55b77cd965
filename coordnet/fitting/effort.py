"""How long gradient fits and local priors take: estimates from their work on one core, the same on every machine."""

import math
import warnings

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet._checks import CoordnetWarning
from coordnet.networks.network import CoordinateNetwork
from coordnet.priors.local import Local
from coordnet.sampling.samples import Geometry, Samples

EPOCHS = 2000  # of a gradient fit (Zheng et al., ECCV 2022)
LONGEST_TRAINING = 600.0  # seconds that a gradient fit on a processor takes by default at most
# Seconds on one core, forward and backward: measured for MLP, SIREN, WIRE and linear heads, 1,024 to 262,144 points.
PRODUCT = 1e-10  # of a product of a weight and a feature at one point
FEATURE = 1e-8  # of a feature or a unit at one point
COMPLEX = 3  # times that of a layer whose numbers are complex
TRAINED = 30  # times that of a feature whose encoder is trained: of a hash grid, mostly
# Seconds of a local prior on one core for each point of the lattice: measured for pictures of one and three channels of
# which 5 to 80 % are known at random, for every second pixel, and for clips of which an eighth is known.
PILOT = 8e-6  # of one channel of the adaptive prior before it
CLASSES = 14e-6  # of the choice of classes
SOLVED = 2e-9  # of a product in the solves of a patch
SIMILAR = 4e-6  # of one channel of the groups of similar patches, in pictures
ON_LATTICE = 1e-5  # of a strided lattice, all of whose patches share a factorization
WITHIN_CELLS = 3e-6  # of means over cells, times the pixels along a side of a cell
DENOISED = 1.5e-5  # of a sample from which the local prior removes noise
GPU = 10  # times that a graphics processor is taken to be faster; this is an assumption, not a measurement


def default_epochs(network: CoordinateNetwork, samples: Samples) -> int:
    """The epochs of a gradient fit: ``EPOCHS``, or on a processor no more than take ``LONGEST_TRAINING`` seconds."""
    if samples.values.device.type != "cpu":
        return EPOCHS
    return max(1, min(EPOCHS, int(LONGEST_TRAINING / epoch_seconds(network, samples))))


def epoch_seconds(network: CoordinateNetwork, samples: Samples) -> float:
    """Estimate the seconds that one pass over all samples takes on one core."""
    weights, geometry = samples.weights, samples.geometry
    layers = [*network.head.widths, network.channels]
    features = network.encoding.shape
    blended = geometry.blending is not None
    on_lattice = network.encoding.is_factored and (blended or not geometry.is_scattered)
    points = math.prod(geometry.shape) + (math.prod(geometry.grid) if blended else 0)
    if weights is not None and not on_lattice:
        points = int((weights > 0).any(-1).sum())
    # Mode products on a lattice multiply each axis's features alone, at most as often as there are points.
    products = layers[0] * (sum(features) if on_lattice else math.prod(features))
    products += sum(a * b for a, b in zip(layers, layers[1:], strict=False))
    trained = any(p.requires_grad for p in network.encoding.parameters())
    floats = sum(layers) + (0 if on_lattice else sum(features) * (TRAINED if trained else 1))
    return points * (PRODUCT * products + FEATURE * floats) * (COMPLEX if network.head.complex else 1)


def training_seconds(network: CoordinateNetwork, samples: Samples, epochs: int) -> float:
    """Estimate the seconds of a gradient fit on a processor; on other devices they are not known and count as 0."""
    return epochs * epoch_seconds(network, samples) if samples.values.device.type == "cpu" else 0.0


def warn_if_long(seconds: float) -> None:
    """Say how long training is going to take, if that is more than ``LONGEST_TRAINING``."""
    if seconds > 1.01 * LONGEST_TRAINING:
        long = f"{seconds / 3600:.2g} hours" if seconds > 5400 else f"{seconds / 60:.2g} minutes"
        text = f"training takes about {long} on a processor; fewer epochs take less"
        warnings.warn(text, CoordnetWarning, stacklevel=3)


def local_seconds(geometry: Geometry, channels: int, device: torch.device | str = "cpu") -> float:
    """Estimate the seconds of a fit with the default local prior on one core, or on a graphics processor."""
    points, weights, prior = math.prod(geometry.grid), geometry.weights, Local()
    if geometry.has_cells:
        work = WITHIN_CELLS * math.sqrt(points / math.prod(geometry.shape))
    elif weights is None:
        work = ON_LATTICE
    else:
        patch = prior.patch_on(geometry.grid)
        products = _squared_counts(weights, patch) * math.prod(patch)
        work = PILOT * channels + CLASSES + SOLVED * products / prior.stride ** len(patch)
        work += SIMILAR * channels * (len(patch) == 2)
    return points * work / (1 if torch.device(device).type == "cpu" else GPU)


def _squared_counts(weights: Float[Tensor, "*lattice channels"], patch: tuple[int, ...]) -> float:
    """Return the mean square of the known entries of a patch, with 0 for a patch without an unknown entry.

    Patches side by side stand for all, and a channel for all.
    """
    counts = (weights > 0).float().mean(-1)
    for axis, length in enumerate(patch):
        counts = counts.unfold(axis, length, length).sum(-1)
    return float((counts.square() * (counts < math.prod(patch))).mean())


def denoising_seconds(points: int, channels: int, device: torch.device | str = "cpu") -> float:
    """Estimate the seconds in which the local prior removes noise, on one core or on a graphics processor."""
    return points * channels * DENOISED / (1 if torch.device(device).type == "cpu" else GPU)
