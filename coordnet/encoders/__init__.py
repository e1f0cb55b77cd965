"""Encoders of one axis and of several jointly, and the registry that lists them all."""

from coordnet.encoders.base import Encoder, FeatureMap
from coordnet.encoders.boxes import Impulse, Rectangle
from coordnet.encoders.embedding import JointEmbedding, LearnedEmbedding
from coordnet.encoders.fourier import FourierFeatures, LinearFourier, LogFourier, RandomFourier
from coordnet.encoders.hash_grid import HashGrid
from coordnet.encoders.identity import Identity
from coordnet.encoders.joint import JointEncoder
from coordnet.encoders.joint_fourier import JointFourier, JointRandomFourier, MultiSine
from coordnet.encoders.learnable_fourier import LearnableFourier
from coordnet.encoders.parameters import Parameter
from coordnet.encoders.positional import DFT, Sinusoidal
from coordnet.encoders.shifted import Gaussian, ShiftedBasis, Triangle
from coordnet.encoders.splines import BSpline
from coordnet.encoders.waves import Sine, Square

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
