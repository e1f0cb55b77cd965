"""Encodings from their configurations, as saved models hold them."""

from typing import Any, TypeVar

from coordnet import _checks
from coordnet.encodings.base import Encoding
from coordnet.encodings.complex import ComplexEncoding
from coordnet.encodings.dense import DirectionalEncoding, JointEncoding, SimpleEncoding
from coordnet.encodings.encoders import ENCODERS, Encoder, JointEncoder
from coordnet.encodings.fourier import FourierEncoding
from coordnet.sampling.axes import Axis

F = TypeVar("F", Encoder, JointEncoder)


def encoding_from(configuration: dict[str, Any]) -> Encoding:
    """Construct an encoding from its configuration; buffers and parameters are loaded apart.

    Raises
    ------
    ValueError
        If the configuration names an encoding or an encoder that does not exist.
    """
    match configuration:
        case {"kind": "simple", "encoders": [*encoders]}:
            return SimpleEncoding([_construct(e, Encoder) for e in encoders])
        case {"kind": "directional", "encoders": [*encoders]}:
            return DirectionalEncoding([_construct(e, Encoder) for e in encoders])
        case {"kind": "complex", "encoders": [*encoders]}:
            return ComplexEncoding([_construct(e, Encoder) for e in encoders])
        case {"kind": "joint", "encoder": encoder}:
            return JointEncoding(_construct(encoder, JointEncoder))
        case {"kind": "fourier", "axes": [*axes], "shape": [*shape]}:
            return FourierEncoding(tuple(Axis(**axis) for axis in axes), tuple(shape))
    raise _checks.wrong(
        "configuration", "of a simple, directional, joint, complex or fourier encoding", configuration
    )


def _construct(description: dict[str, Any], kind: type[F]) -> F:
    arguments = dict(description)
    known = {name: encoder for name, encoder in ENCODERS.items() if issubclass(encoder, kind)}
    name = _checks.choice("encoder", str(arguments.pop("name", None)), known)
    return known[name](**arguments)
