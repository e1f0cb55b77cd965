"""The table of all encoders, and encodings from their configurations, as saved models hold them."""

from typing import Any, TypeVar

from coordnet import _checks
from coordnet.encodings.base import Encoding
from coordnet.encodings.complex import ComplexEncoding
from coordnet.encodings.encoders import (
    DFT,
    BSpline,
    Encoder,
    Gaussian,
    HashGrid,
    Identity,
    Impulse,
    JointEmbedding,
    JointEncoder,
    JointRandomFourier,
    LearnableFourier,
    LearnedEmbedding,
    LinearFourier,
    LogFourier,
    MultiSine,
    RandomFourier,
    Rectangle,
    Sine,
    Sinusoidal,
    Square,
    Triangle,
)
from coordnet.encodings.fourier import FourierEncoding
from coordnet.encodings.joint import JointEncoding
from coordnet.encodings.simple import DirectionalEncoding, SimpleEncoding
from coordnet.sampling.axes import Axis

F = TypeVar("F", Encoder, JointEncoder)

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


def encoding_from(configuration: dict[str, Any]) -> Encoding:
    """Construct an encoding from its configuration, without the values of its buffers and parameters.

    Raises
    ------
    ValueError
        If the configuration names an encoding or an encoder that does not exist.
    """
    match configuration:
        case {"kind": "simple", "encoders": [*encoders]}:
            return SimpleEncoding([_construct(e, _ONE_AXIS) for e in encoders])
        case {"kind": "directional", "encoders": [*encoders]}:
            return DirectionalEncoding([_construct(e, _ONE_AXIS) for e in encoders])
        case {"kind": "complex", "encoders": [*encoders]}:
            return ComplexEncoding([_construct(e, _ONE_AXIS) for e in encoders])
        case {"kind": "joint", "encoder": encoder}:
            return JointEncoding(_construct(encoder, _JOINT))
        case {"kind": "fourier", "axes": [*axes], "shape": [*shape]}:
            return FourierEncoding(tuple(Axis(**axis) for axis in axes), tuple(shape))
    raise _checks.wrong(
        "configuration", "one of a simple, directional, joint, complex or fourier encoding", configuration
    )


def _construct(description: dict[str, Any], kinds: tuple[type[F], ...]) -> F:
    arguments, known = dict(description), {encoder.name: encoder for encoder in kinds}
    name = _checks.choice("encoder", str(arguments.pop("name", None)), known)
    return known[name](**arguments)
