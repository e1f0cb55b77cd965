"""Encodings of points: simple and directional (concatenated), complex (Kronecker), joint, modulated, Fourier."""

from coordnet.encodings import encoders
from coordnet.encodings.encoding import DenseEncoding, Encoding, FourierEncoding
from coordnet.encodings.kinds import (
    ENCODERS,
    ComplexEncoding,
    DirectionalEncoding,
    JointEncoding,
    ModulatedEncoding,
    SimpleEncoding,
    encoding_from,
)

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
