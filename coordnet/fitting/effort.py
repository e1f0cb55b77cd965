"""How long gradient fits take: estimates from their work on one core, the same on every machine."""

import math
import warnings

from coordnet._checks import CoordnetWarning
from coordnet.networks.network import CoordinateNetwork
from coordnet.sampling.samples import Samples

EPOCHS = 2000  # default of gradient fits (Zheng et al., ECCV 2022)
LONGEST_TRAINING = 600.0  # seconds that a gradient fit on a processor takes by default at most
# Seconds on one core, forward and backward: measured for MLP, SIREN, WIRE and linear heads, 1,024 to 262,144 points.
PRODUCT = 1e-10  # product of a weight and a feature at one point
FEATURE = 1e-8  # feature or unit at one point
COMPLEX = 3  # times that of a layer whose numbers are complex
TRAINED = 30  # times that of a feature whose encoder is trained: of a hash grid, mostly


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
