"""The table of all encoders, and encodings from their configurations, as saved models hold them."""

from dataclasses import fields
from typing import Any

import coordnet.encodings.encoders as e
from coordnet import _checks
from coordnet.encodings.base import Encoding
from coordnet.encodings.complex import ComplexEncoding
from coordnet.encodings.joint import JointEncoding
from coordnet.encodings.modulated import ModulatedEncoding
from coordnet.encodings.padded_fourier import FourierEncoding
from coordnet.encodings.simple import DirectionalEncoding, SimpleEncoding
from coordnet.sampling.axes import Axis

_SHIFTED = (e.Gaussian, e.Triangle, e.BSpline, e.Rectangle, e.Impulse, e.Sine, e.Square)
_WAVES = (e.LinearFourier, e.LogFourier, e.RandomFourier, e.Sinusoidal, e.DFT)
_JOINT = (e.JointRandomFourier, e.MultiSine, e.LearnableFourier, e.JointEmbedding, e.HashGrid)

ENCODERS: dict[str, type[e.Encoder] | type[e.JointEncoder]] = {
    encoder.name: encoder for encoder in (*_SHIFTED, e.UnevenSpline, *_WAVES, e.LearnedEmbedding, e.Identity, *_JOINT)
}
_BY_AXIS = {kind.kind: kind for kind in (SimpleEncoding, DirectionalEncoding, ComplexEncoding)}


def encoding_from(configuration: dict[str, Any]) -> Encoding:
    """Construct an encoding, with initial tensors; a ``ValueError`` is raised if its configuration is wrong."""
    match configuration:
        case {"kind": kind, "encoders": [*encoders]} if kind in _BY_AXIS:
            return _BY_AXIS[kind]([_construct(encoder) for encoder in encoders])
        case {"kind": "joint", "encoder": encoder}:
            return JointEncoding(_construct(encoder, joint=True))
        case {"kind": "modulated", "encoding": inner, **options}:
            for name in options:
                _checks.choice("encoding", name, ("features", "hidden", "layer_norm", "dropout"))
            return ModulatedEncoding(encoding_from(inner), **options)
        case {"kind": "fourier", "axes": [*axes], "shape": [*shape]}:
            for axis in axes:
                _checks.positive("spacing", axis["spacing"])  # 0 stands for a default in code, not in a file
            return FourierEncoding(tuple(Axis(**axis) for axis in axes), tuple(shape))
    expected = "one of a simple, directional, joint, modulated, complex or fourier encoding"
    raise _checks.wrong("configuration", expected, configuration)


def _construct(description: dict[str, Any], joint: bool = False) -> Any:
    arguments = dict(description)
    known = {name: encoder for name, encoder in ENCODERS.items() if encoder.joint == joint}
    family = known[_checks.choice("encoder", str(arguments.pop("name", None)), known)]
    for name in arguments:
        _checks.choice("encoder", name, (f.name for f in fields(family)))
    return family(**arguments)
