"""Texts of the command line to objects, and objects to the texts of records."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, Literal, get_args, get_type_hints

import torch

from coordnet import _checks
from coordnet.cli.common import Common, Fitting, Sampling
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.encodings.encoders import FeatureMap
from coordnet.encodings.kinds import ENCODERS
from coordnet.fitting.fit import EncoderChoice, Method
from coordnet.fitting.uncertainty.folds import SampleTable
from coordnet.media import Media, MediaError, read_mask, read_media
from coordnet.networks.heads import HEADS, Head
from coordnet.priors.base import Prior
from coordnet.priors.denoiser import Denoiser
from coordnet.priors.registry import PRIORS
from coordnet.restore.restored import Tiles
from coordnet.sampling.axes import Bounds
from coordnet.sampling.patterns import PATTERNS, Pattern, default_pattern, parse_pattern
from coordnet.sampling.samples import Samples


def parse_encoder(text: str) -> EncoderChoice:
    """The encoder that a text such as ``gaussian:sigma=0.64px`` or ``fourier`` names."""
    return EncoderChoice(*_parse(text, "encoder", {**ENCODERS, "fourier": FourierEncoding}))


def parse_head(text: str) -> Head:
    """The head that ``linear``, ``mlp:depth=4,width=256`` or ``siren:omega=30`` names."""
    kind, options = _parse(text, "head", HEADS)
    return kind(**options)


def parse_fitting(options: Fitting) -> dict[str, Any]:
    """The arguments of ``choose`` that the options of a command name."""
    asked: dict[str, Any] = {"encoding": options.encoding, "solver": options.solver, "robust": options.robust}
    asked |= {"head": parse_head(options.head), "prior": parse_prior(options.prior, options.denoiser)}
    return asked | {"encoder": None if options.encoder is None else parse_encoder(options.encoder)}


def parse_prior(text: str, denoiser: str | None = None) -> Prior | Literal["auto"] | None:
    """The prior that ``auto``, ``none``, ``smooth:power=1.5``, ``adaptive:rounds=8``, ``local`` or ``plates`` names.

    A ``denoiser`` is one itself, which is weighed beside those that ``auto`` stands for.
    """
    if denoiser is not None:
        if text != "auto":
            raise _checks.wrong("prior", "auto beside a denoiser, which is weighed", repr(text))
        return Denoiser.named(denoiser)
    if text in ("auto", "none"):
        return "auto" if text == "auto" else None
    _checks.choice("prior", text.partition(":")[0], ("auto", "none", *PRIORS))
    kind, options = _parse(text, "prior", PRIORS)
    return kind(**options)


def _parse(text: str, argument: str, kinds: Mapping[str, type]) -> tuple[Any, dict[str, Any]]:
    """The class that NAME:OPTION=VALUE,… names, and the options as the arguments of its constructor.

    An unknown name, an empty value, an option that a dataclass does not have, and a value of another type raise
    ``ValueError``.
    """
    name, _, rest = text.partition(":")
    kind = kinds[_checks.choice(argument, name, kinds)]
    hints, options = _hints(kind), {}
    for part in filter(None, rest.split(",")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not key or (equals and not value):
            raise _checks.wrong(argument, "NAME:OPTION=VALUE,…", repr(text))
        options[key] = _value(key, value, hints.get(key)) if equals else True
    if is_dataclass(kind) and not set(options) <= {f.name for f in fields(kind)}:
        known = ", ".join(f.name for f in fields(kind))
        raise _checks.wrong(argument, f"{name} with {known}" if known else f"{name} without options", repr(text))
    return kind, options


def _hints(kind: type) -> dict[str, Any]:
    """The types of the arguments of a class's constructors; an encoder's scales may be texts such as ``0.64px``."""
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__[:-1]):
        for function in (base.__init__, getattr(base, "like", None)):
            hints |= get_type_hints(function) if hasattr(function, "__annotations__") else {}
    return hints | {parameter.name: float | str for parameter in getattr(kind, "scales", ())}


def _value(key: str, text: str, hint: Any) -> Any:
    """A text as the type of an argument: a whole number, a number, numbers between ``x``, or the text itself."""
    kinds = {hint, *get_args(hint)}
    whole = int in kinds and float not in kinds
    try:
        if tuple[float, ...] in kinds and "x" in text:
            return tuple(float(part) for part in text.split("x"))
        if tuple[int, ...] in kinds:
            return tuple(int(part) for part in text.split("x"))
        return int(text) if whole else float(text)
    except ValueError:
        if hint is None or kinds & {str, text}:
            return text
        raise _checks.wrong(key, "a whole number" if whole else "a number", repr(text)) from None


def read_part(signal: str, sampling: Sampling, common: Common) -> Media:
    """Read the part of a signal that the options choose."""
    part = {name: getattr(sampling, name) for name in ("row", "column", "frames", "size", "crop")}
    with common.stage("reading"):
        return read_media(signal, **part, memory=common.memory_bytes)


def parse_sample(grid: tuple[int, ...], sampling: Sampling, common: Common) -> tuple[str, Pattern | torch.Tensor]:
    """The text of the sampling pattern of a grid, and the pattern, or the mask that ``mask:PATH`` names."""
    text = sampling.sample or default_pattern(grid)
    mask = mask_file(text)
    if mask is not None:
        masking = {"threshold": sampling.threshold, "invert": sampling.invert, "memory": common.memory_bytes}
        with naming("`sample`"):
            return text, read_mask(mask, grid, **masking)
    if text.partition(":")[0] not in PATTERNS:
        raise _checks.wrong("sample", f"{', '.join(PATTERNS.values())} or mask:PATH", repr(text))
    return text, parse_pattern(text)


def mask_file(text: str | None) -> str | None:
    """The file that ``mask:PATH`` names; None for other samples."""
    named = (text or "").startswith("mask:") and text != "mask:"
    return text.removeprefix("mask:") if text and named else None


@contextmanager
def naming(name: object, *, unless: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Put the name of an option or a file before what is wrong with it, ``unless`` the error names its file itself."""
    try:
        yield
    except unless:
        raise
    except ValueError as error:
        raise MediaError(f"{name}: {error}") from None


def check_uncertainty(samples: Samples, method: Method) -> None:
    """Raise ``ValueError`` for samples or a method whose fits have no intervals, which ``--uncertainty`` asks for."""
    with naming("`uncertainty`"):
        SampleTable(samples)  # refuses samples of which none can be hidden
    if method.solver != "closed-form":
        raise _checks.wrong("uncertainty", "a fit in closed form", "the gradient solver")
    if len(Tiles(samples.grid)) > 1:
        raise _checks.wrong("uncertainty", "a signal that is fitted as a whole", "one in tiles")


def parse_shape(text: str) -> tuple[int, ...]:
    """One to four lengths from a text such as ``256,256``."""
    shape = _numbers(text.replace("x", ","), int, "shape", "whole numbers such as 256,256")
    for length in shape:
        _checks.integer("shape", length, 1)
    if len(shape) > 4:
        raise _checks.wrong("shape", "one to four axes", repr(text))
    return shape


def parse_bounds(text: str, dims: int) -> Bounds:
    """The bounds of a text such as ``0,1,0,2``: the first and the last coordinate of each axis."""
    pairs = _numbers(text, float, "bounds", f"{2 * dims} numbers x0,x1,y0,y1,…", count=2 * dims)
    return Bounds(*torch.tensor(pairs, dtype=torch.float64).reshape(dims, 2).unbind(1))


def parse_node(text: str) -> tuple[int, int]:
    """The row and the column of a text such as ``16,48``."""
    row, column = _numbers(text, int, "at", "a row and a column, as in 16,48", count=2)
    return row, column


def parse_numbers(text: str, argument: str) -> list[float]:
    """The numbers of a text such as ``0.1`` or ``0.1,0.2``."""
    return list(_numbers(text, float, argument, "numbers such as 0.1 or 0.1,0.2"))


def _numbers(text: str, kind: type, argument: str, expected: str, count: int | None = None) -> tuple[Any, ...]:
    """The numbers between commas; a part that is no number, or another count of them, raises ``ValueError``."""
    try:
        numbers = tuple(kind(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or count not in (None, len(numbers)):
        raise _checks.wrong(argument, expected, repr(text))
    return numbers


def choose_device(name: str) -> torch.device:
    """The device of a name such as ``cuda:1``; ``auto`` is CUDA where there is one, and an absent one is refused."""
    _checks.choice("device", name.partition(":")[0], ("auto", "cpu", "cuda"))
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kind, _, number = name.partition(":")
    if kind == "cuda" and not (count and (name == kind or (number.isdecimal() and int(number) < count))):
        found = f"CUDA devices 0 to {count - 1}" if count else "no CUDA device"
        raise _checks.wrong("device", "a device that is present", f"{name!r} ({found})")
    return torch.device("cuda" if name == "auto" and count else name.replace("auto", "cpu"))


def describe_encoder(text: str, encoding: Encoding) -> str:
    """The name of an encoder's text with the scales and features of its encoding, as records have it."""
    name = text.partition(":")[0]
    encoders = [module for module in encoding.modules() if isinstance(module, FeatureMap)]
    if not encoders:  # a Fourier encoding
        return f"{name}:features={'x'.join(map(str, encoding.shape))}"
    parts = []
    for parameter in encoders[0].scales:
        values = [e.scale(parameter.name) for e in encoders]
        each = values[0] if isinstance(values[0], tuple) else values
        parts.append(f"{parameter.name}={'x'.join(dict.fromkeys(f'{value:.6g}' for value in each))}")
    parts.append(f"features={'x'.join(dict.fromkeys(str(e.columns) for e in encoders))}")
    return f"{name}:" + ",".join([*parts, *(["learnable"] if encoders[0].learnable else [])])


def encoder_table() -> list[str]:
    """A line for each encoder, and below it one for each of its scale parameters and one for its options."""
    lines = [f"{'encoder':20}{'parameter':14}{'unit':12}{'default':12}meaning"]
    for name, encoder in ENCODERS.items():
        axes = "several axes jointly: " if encoder.joint else ""
        lines.append(f"{name:58}{axes}{encoder.summary}")
        lines += [f"{'':20}{p.name:14}{p.unit:12}{p.default!s:12}{p.meaning}" for p in encoder.scales]
        lines += [f"{'':20}also {', '.join(encoder.options())}"] if encoder.options() else []
    return [
        *lines,
        "",
        "lengths are in units of the unit interval or in sample spacings (0.64px); frequencies in cycles",
        "over it or a spacing (0.25/px); learnable trains them with the gradient solver; every encoder also",
        "takes features=K and normalize",
    ]
