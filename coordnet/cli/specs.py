"""Texts of the command line, made into objects once."""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from coordnet import _checks
from coordnet.encodings import ComplexEncoding, Encoding, FourierEncoding, JointEncoding, SimpleEncoding
from coordnet.encodings.encoders import Encoder, FeatureMap, JointEncoder
from coordnet.encodings.registry import ENCODERS
from coordnet.networks.heads import HEADS, Head
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Lattice, Samples

SUITED_POWER = ByAxes({1: 1.0, 2: 1.5, 3: 2.0})  # the smoothness of natural signals by the number of axes
LONGEST = 8192  # samples along an axis of which a factorised design is made without being asked for
Prior = Smoothness | Adaptive
_INTEGERS = (
    "rounds",
    "features",
    "padding",
    "depth",
    "width",
    "degree",
    "rows",
    "fourier",
    "hidden",
    "groups",
    "levels",
    "table",
    "coarsest",
)


@dataclass(frozen=True)
class Spec:
    """A name with options, as in ``gaussian:sigma=0.64px,features=256``."""

    name: str
    options: dict[str, Any]


def parse_spec(text: str, argument: str) -> Spec:
    """Split a text into a name and its options; numbers become numbers, a bare word becomes true.

    Raises
    ------
    ValueError
        If an option is empty or a whole number was expected.
    """
    name, _, rest = text.partition(":")
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not key or (equals and not value):
            raise _checks.wrong(argument, "NAME:OPTION=VALUE,…", repr(text))
        options[key] = _value(key, value) if equals else True
    return Spec(name, options)


def _value(key: str, value: str) -> Any:
    if key in _INTEGERS:
        try:
            return int(value)
        except ValueError:
            raise _checks.wrong(key, "a whole number", repr(value)) from None
    try:
        return float(value)
    except ValueError:
        return value


def parse_encoder(text: str) -> tuple[type[Encoder] | type[JointEncoder], dict[str, Any]]:
    """The encoder class and the options that a text such as ``gaussian:sigma=0.64px`` names.

    Raises
    ------
    ValueError
        If there is no such encoder, or it is ``fourier``, which is a whole encoding.
    """
    spec = parse_spec(text, "encoder")
    if _checks.choice("encoder", spec.name, [*ENCODERS, "fourier"]) == "fourier":
        raise _checks.wrong("encoder", "another than fourier, which has no matrix and no scale", repr(text))
    return ENCODERS[spec.name], spec.options


def check_encoder(text: str) -> None:
    """Refuse a text that names no encoder.

    Raises
    ------
    ValueError
        If there is no such encoder.
    """
    if text.partition(":")[0] != "fourier":
        parse_encoder(text)


def parse_head(text: str) -> Head:
    """The head that ``linear``, ``mlp:depth=4,width=256`` or ``siren:omega=30`` names.

    Raises
    ------
    ValueError
        If there is no such head or it has no such option.
    """
    spec = parse_spec(text, "head")
    kind = HEADS[_checks.choice("head", spec.name, HEADS)]
    known = [field.name for field in fields(kind)]
    if not set(spec.options) <= set(known):
        expected = f"{spec.name} with {', '.join(known)}" if known else f"{spec.name} without options"
        raise _checks.wrong("head", expected, repr(text))
    return kind(**spec.options)


def parse_prior(text: str) -> Prior | str | None:
    """The prior that a text names: "auto", None for ``none``, a smoothness, or an adaptive prior.

    Parameters
    ----------
    text : str
        ``auto``, ``none``, ``smooth[:power=1.5,strength=0.01,anisotropy=0.3x1x1,form=modes]``, or
        ``adaptive[:rounds=8,hold_out=0.1]``.

    Raises
    ------
    ValueError
        If there is no such prior or it has no such option.
    """
    spec = parse_spec(text, "prior")
    _checks.choice("prior", spec.name, ("auto", "none", "smooth", "adaptive"))
    options = dict(spec.options)
    if isinstance(options.get("anisotropy"), str):
        options["anisotropy"] = _per_axis(options["anisotropy"])
    kinds = {"smooth": Smoothness, "adaptive": Adaptive}
    try:
        if spec.name in kinds:
            return kinds[spec.name](**options)
        if options:
            raise TypeError
    except TypeError:
        known = "smooth with power, strength, anisotropy and form; adaptive with rounds and hold_out"
        raise _checks.wrong("prior", known, repr(text)) from None
    return None if spec.name == "none" else spec.name


def choose_prior(prior: Prior | str | None, samples: Samples, *, robust: bool = False) -> Prior | None:
    """The prior itself, or the one that suits the samples.

    None on a whole lattice, but for rows too long to factorise; adaptive elsewhere, or smoothness where outliers are
    left aside.
    """
    if prior is None or not isinstance(prior, str):
        return prior
    power = SUITED_POWER[min(len(samples.grid), 4)]
    if type(samples.geometry) is Lattice:
        return Smoothness(power, 1e-3) if _long(samples) else None
    return Smoothness(power) if robust else Adaptive()


def choose_encoder(text: str | None, prior: Prior | None, samples: Samples) -> str:
    """The encoder that was named, or the one that suits the prior: Fourier's where it is adaptive or rows are long."""
    if text is not None:
        return text
    return "fourier" if isinstance(prior, Adaptive) or _long(samples) else "gaussian"


def robust_prior(prior: Prior | None, robust: bool) -> Prior | None:
    """Return the prior with Huber's loss, if that is asked for."""
    if not robust:
        return prior
    if not isinstance(prior, Smoothness):
        raise _checks.wrong("robust", "a smoothness prior", describe_prior(prior))
    return replace(prior, loss="huber")


def _long(samples: Samples) -> bool:
    return max(axis.count for axis in samples.geometry.axes) > LONGEST


def describe_prior(prior: Prior | None) -> str:
    """The text of a prior, as records have it."""
    if prior is None:
        return "none"
    if isinstance(prior, Adaptive):
        return "adaptive"
    values = prior.anisotropy if isinstance(prior.anisotropy, tuple) else (prior.anisotropy,)
    anisotropy = "x".join(f"{value:g}" for value in values)
    return f"smooth:power={prior.power:g},strength={prior.strength:g},anisotropy={anisotropy}"


def _per_axis(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split("x"))
    except ValueError:
        raise _checks.wrong("anisotropy", "a number, or one an axis as in 0.3x1x1", repr(text)) from None


def make_encoding(text: str, kind: str, samples: Samples, generator: torch.Generator) -> Encoding:
    """The simple or complex encoding that a text names, suited to the samples.

    Raises
    ------
    ValueError
        If there is no such encoder or it has no such option.
    """
    if text.partition(":")[0] == "fourier":
        return FourierEncoding.like(samples, **_fourier_options(text, kind))
    encoder, options = parse_encoder(text)
    family = (
        ComplexEncoding
        if _checks.choice("encoding", kind, ("complex", "simple")) == "complex"
        else SimpleEncoding
    )
    return family.like(encoder, samples, generator=generator, **options)


def _fourier_options(text: str, kind: str) -> dict[str, Any]:
    options = parse_spec(text, "encoder").options
    if kind != "complex" or set(options) - {"padding"}:
        raise _checks.wrong("encoder", "fourier, in a complex encoding, with padding alone", repr(text))
    return options


def describe_encoder(text: str, encoding: Encoding) -> str:
    """The text of an encoder with its scales and features written out, as records have it."""
    name = text.partition(":")[0]
    encoders = (
        [encoding.encoder] if isinstance(encoding, JointEncoding) else getattr(encoding, "encoders", [])
    )
    encoders = [e for e in encoders if isinstance(e, FeatureMap)]
    if not encoders:  # a Fourier encoding
        return f"{name}:features={'x'.join(map(str, encoding.shape))}"
    parts = []
    for parameter in encoders[0].scales:
        values = [e.scale(parameter.name) for e in encoders]
        each = values[0] if isinstance(values[0], tuple) else values
        parts.append(f"{parameter.name}={'x'.join(dict.fromkeys(f'{value:.6g}' for value in each))}")
    parts.append(f"features={'x'.join(dict.fromkeys(str(e.columns) for e in encoders))}")
    return f"{name}:" + ",".join([*parts, *(["learnable"] if encoders[0].learnable else [])])
