"""Encodings of d-dimensional points: simple (concatenated), complex (Kronecker), joint, and the FFT's."""

from coordnet.encodings.base import DenseEncoding, Encoding
from coordnet.encodings.complex import ComplexEncoding
from coordnet.encodings.dense import DirectionalEncoding, JointEncoding, SimpleEncoding
from coordnet.encodings.fourier import FourierEncoding
from coordnet.encodings.registry import encoding_from

__all__ = [
    "ComplexEncoding",
    "DenseEncoding",
    "DirectionalEncoding",
    "Encoding",
    "FourierEncoding",
    "JointEncoding",
    "SimpleEncoding",
    "encoding_from",
]
