"""Encoders of one axis and of several jointly."""

from coordnet.encodings.encoders.b_splines import BSpline, Rectangle, Triangle, UnevenSpline
from coordnet.encodings.encoders.feature_map import Encoder, FeatureMap, JointEncoder
from coordnet.encodings.encoders.fourier_features import (
    DFT,
    FourierFeatures,
    Identity,
    JointRandomFourier,
    LinearFourier,
    LogFourier,
    MultiSine,
    RandomFourier,
    Sinusoidal,
)
from coordnet.encodings.encoders.learnable_fourier import LearnableFourier
from coordnet.encodings.encoders.scale_parameters import Parameter, Spacings
from coordnet.encodings.encoders.shifted import Gaussian, Impulse, ShiftedBasis, Sine, Square
from coordnet.encodings.encoders.trained_tables import HashGrid, JointEmbedding, LearnedEmbedding

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
