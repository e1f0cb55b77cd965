"""Encoders of one axis and of several jointly, and the registry that lists them all."""

from coordnet.encodings.encoders.base import Encoder, FeatureMap
from coordnet.encodings.encoders.boxes import Impulse, Rectangle
from coordnet.encodings.encoders.embedding import JointEmbedding, LearnedEmbedding
from coordnet.encodings.encoders.fourier import FourierFeatures, LinearFourier, LogFourier, RandomFourier
from coordnet.encodings.encoders.hash_grid import HashGrid
from coordnet.encodings.encoders.identity import Identity
from coordnet.encodings.encoders.joint import JointEncoder
from coordnet.encodings.encoders.joint_fourier import JointFourier, JointRandomFourier, MultiSine
from coordnet.encodings.encoders.learnable_fourier import LearnableFourier
from coordnet.encodings.encoders.parameters import Parameter
from coordnet.encodings.encoders.positional import DFT, Sinusoidal
from coordnet.encodings.encoders.shifted import Gaussian, ShiftedBasis, Triangle
from coordnet.encodings.encoders.splines import BSpline
from coordnet.encodings.encoders.waves import Sine, Square

_ONE_AXIS: tuple[type[Encoder], ...] = (
    Gaussian,
    Triangle,
    BSpline,
    Rectangle,
    Impulse,
    Sine,
    Square,
    LinearFourier,
    LogFourier,
    RandomFourier,
    Sinusoidal,
    DFT,
    LearnedEmbedding,
    Identity,
)
_JOINT: tuple[type[JointEncoder], ...] = (
    JointRandomFourier,
    MultiSine,
    LearnableFourier,
    JointEmbedding,
    HashGrid,
)

ENCODERS: dict[str, type[Encoder] | type[JointEncoder]] = {e.name: e for e in (*_ONE_AXIS, *_JOINT)}

__all__ = [
    "DFT",
    "ENCODERS",
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
    "Square",
    "Triangle",
]
