"""Encoders of one axis, and the registry that lists them."""

from coordnet.encoders.base import Encoder, Parameter
from coordnet.encoders.fourier import FourierFeatures, LinearFourier, LogFourier, RandomFourier
from coordnet.encoders.shifted import Gaussian, ShiftedBasis, Triangle

ENCODERS: dict[str, type[Encoder]] = {
    encoder.name: encoder for encoder in (Gaussian, Triangle, LinearFourier, LogFourier, RandomFourier)
}

__all__ = [
    "ENCODERS",
    "Encoder",
    "FourierFeatures",
    "Gaussian",
    "LinearFourier",
    "LogFourier",
    "Parameter",
    "RandomFourier",
    "ShiftedBasis",
    "Triangle",
]
