"""Encodings of points: simple and directional (concatenated), complex (Kronecker), joint, modulated, Fourier."""

from coordnet.encodings import encoders
from coordnet.encodings.base import DenseEncoding, Encoding
from coordnet.encodings.complex import ComplexEncoding
from coordnet.encodings.joint import JointEncoding
from coordnet.encodings.modulated import ModulatedEncoding
from coordnet.encodings.padded_fourier import FourierEncoding
from coordnet.encodings.registry import ENCODERS, encoding_from
from coordnet.encodings.simple import DirectionalEncoding, SimpleEncoding

__docformat__ = "numpy"
__all__ = [
    "ENCODERS",
    "ComplexEncoding",
    "DenseEncoding",
    "DirectionalEncoding",
    "Encoding",
    "FourierEncoding",
    "JointEncoding",
    "ModulatedEncoding",
    "SimpleEncoding",
    "encoders",
    "encoding_from",
]
