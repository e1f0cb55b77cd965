"""Encoders of one axis and of several jointly."""

from coordnet.encodings.encoders.base import Encoder, FeatureMap, JointEncoder, Parameter, Spacings
from coordnet.encodings.encoders.embedding import JointEmbedding, LearnedEmbedding
from coordnet.encodings.encoders.fourier_features import (
    FourierFeatures,
    JointRandomFourier,
    LinearFourier,
    LogFourier,
    MultiSine,
    RandomFourier,
    Sinusoidal,
)
from coordnet.encodings.encoders.hash_grid import HashGrid
from coordnet.encodings.encoders.learnable_fourier import LearnableFourier
from coordnet.encodings.encoders.positional import DFT, Identity
from coordnet.encodings.encoders.shifted import Gaussian, Impulse, ShiftedBasis
from coordnet.encodings.encoders.splines import BSpline, Rectangle, Triangle
from coordnet.encodings.encoders.uneven import UnevenSpline
from coordnet.encodings.encoders.waves import Sine, Square

__docformat__ = "numpy"
__all__ = [
    "DFT",
    "BSpline",
    "Encoder",
    "FeatureMap",
    "FourierFeatures",
    "Gaussian",
    "HashGrid",
    "Identity",
    "Impulse",
    "JointEmbedding",
    "JointEncoder",
    "JointRandomFourier",
    "LearnableFourier",
    "LearnedEmbedding",
    "LinearFourier",
    "LogFourier",
    "MultiSine",
    "Parameter",
    "RandomFourier",
    "Rectangle",
    "ShiftedBasis",
    "Sine",
    "Sinusoidal",
    "Spacings",
    "Square",
    "Triangle",
    "UnevenSpline",
]
