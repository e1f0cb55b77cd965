"""The table of all encoders, and encodings from their configurations, as saved models hold them."""

from typing import Any

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

ENCODERS: dict[str, type[Encoder] | type[JointEncoder]] = {
    encoder.name: encoder
    for encoder in (
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
        JointRandomFourier,
        MultiSine,
        LearnableFourier,
        JointEmbedding,
        HashGrid,
    )
}


def encoding_from(configuration: dict[str, Any]) -> Encoding:
    """Construct an encoding from its configuration, without the values of its buffers and parameters.

    Raises
    ------
    ValueError
        If the configuration names an encoding or an encoder that does not exist.
    """
    match configuration:
        case {"kind": "simple", "encoders": [*encoders]}:
            return SimpleEncoding([_construct(e) for e in encoders])
        case {"kind": "directional", "encoders": [*encoders]}:
            return DirectionalEncoding([_construct(e) for e in encoders])
        case {"kind": "complex", "encoders": [*encoders]}:
            return ComplexEncoding([_construct(e) for e in encoders])
        case {"kind": "joint", "encoder": encoder}:
            return JointEncoding(_construct(encoder, joint=True))
        case {"kind": "fourier", "axes": [*axes], "shape": [*shape]}:
            return FourierEncoding(tuple(Axis(**axis) for axis in axes), tuple(shape))
    raise _checks.wrong(
        "configuration", "one of a simple, directional, joint, complex or fourier encoding", configuration
    )


def _construct(description: dict[str, Any], joint: bool = False) -> Any:
    arguments = dict(description)
    known = {name: encoder for name, encoder in ENCODERS.items() if encoder.joint == joint}
    name = _checks.choice("encoder", str(arguments.pop("name", None)), known)
    return known[name](**arguments)
