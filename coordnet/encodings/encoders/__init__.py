"""Encoders of one axis and of several jointly."""

from coordnet.encodings.encoders.base import Encoder, FeatureMap, Parameter, Spacings
from coordnet.encodings.encoders.embedding import JointEmbedding, LearnedEmbedding
from coordnet.encodings.encoders.fourier import FourierFeatures, LinearFourier, LogFourier, RandomFourier
from coordnet.encodings.encoders.hash_grid import HashGrid
from coordnet.encodings.encoders.joint import JointEncoder
from coordnet.encodings.encoders.joint_fourier import JointFourier, JointRandomFourier, MultiSine
from coordnet.encodings.encoders.learnable_fourier import LearnableFourier
from coordnet.encodings.encoders.positional import DFT, Identity, Sinusoidal
from coordnet.encodings.encoders.shifted import Gaussian, Impulse, Rectangle, ShiftedBasis, Triangle
from coordnet.encodings.encoders.splines import BSpline
from coordnet.encodings.encoders.waves import Sine, Square

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
    "JointFourier",
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
]
