"""Declaring commands: options in groups, as functions take them and help and messages show them, numbers, examples."""

import functools
import inspect
import math
import re
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin

from typer import BadParameter
from typer.core import TyperCommand

from coordnet import _checks

# The group of each option by its name; those not named say what is read, and how.
GROUPS = {
    "Prior and model": "prior denoiser demosaicker robust encoder encoding head solver epochs lr tune criterion folds "
    "blending sigma uncertainty",
    "Output": "out report figures model html force json quiet",
    "Running": "seed seeds device memory workers dask retry help",
}
INPUT = "Input"
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names.split()}

EXAMPLES = {
    "reconstruct": (
        "coordnet reconstruct photo.png --sample random:0.25",
        "coordnet reconstruct clip.mp4 --frames 0:48 --sample mask:mask.gif --out clip",
        "coordnet reconstruct sound.wav --sample every:2 -o half.wav",
    ),
    "compare": (
        "coordnet compare photo.png --sample random:0.25",
        "coordnet compare photo.png --encoder gaussian --encoder triangle --html",
        "coordnet compare camera --size 64x64 --encoder gaussian --head linear --head mlp --epochs 200",
    ),
    "fit": (
        "coordnet fit points.csv --shape 256,256",
        "coordnet fit stations.csv --shape 200,300 --columns lat,lon,t2m --at places.csv",
        "coordnet fit points.csv --shape 64,64 --uncertainty -o field.npy --report how",
    ),
    "grid": (
        "coordnet grid stations.csv --value t2m --spacing 0.1",
        "coordnet grid soundings.csv --x lon --y lat --value depth --spacing 0.05 --out map",
        "coordnet grid stations.csv --value t2m --spacing 1 --period lon=360 --max-distance 5",
    ),
    "fill": (
        "coordnet fill sst.nc --out filled.nc",
        "coordnet fill cube.zarr --out filled.zarr --var sst --max-gap 5D",
        "coordnet fill scenes.tif --out filled.tif --uncertainty",
    ),
    "inpaint": (
        "coordnet inpaint photo.png --mask mask.png -o filled.png",
        "coordnet inpaint photo.png --mask scratches.png --invert --out filled",
        "coordnet inpaint scans/ --mask masks/ --out filled --workers 4",
    ),
    "upscale": (
        "coordnet upscale photo.png --factor 2.5 -o large.png",
        "coordnet upscale thumbnails/ --factor 4 --out large --workers 4",
        "coordnet upscale mosaic.tif --factor 2 --memory 4GiB --prior none",
    ),
    "denoise": (
        "coordnet denoise photo.png -o clean.png",
        "coordnet denoise photo.jpg --noise jpeg --out clean",
        "coordnet denoise - -o - < noisy.wav > clean.wav",
    ),
    "demosaic": (
        "coordnet demosaic raw.tif --pattern RGGB -o color.tiff",
        "coordnet demosaic raw.png --noise camera --out color",
        "coordnet demosaic raws/ --demosaicker demosaicnet:BayerDemosaick,weights=bayer.pth,pattern=GRBG --out color",
    ),
    "bench gpu": (
        "coordnet bench gpu --data data",
        "coordnet bench gpu --data data --only tests,grid,table1 --minutes 2",
        "coordnet bench gpu --data data --dry",
    ),
    "data": (
        "coordnet data --from originals --out data",
        "coordnet data --from originals --out data --crop 256",
        "coordnet data --from originals --out data --force --json",
    ),
    "samples": ("coordnet samples", "coordnet reconstruct astronaut", "coordnet denoise camera -o clean.png"),
    "encoders": (
        "coordnet encoders",
        "coordnet reconstruct photo.png --encoder gaussian:sigma=0.64px",
        "coordnet analyze --encoder bspline:degree=5",
    ),
    "analyze": (
        "coordnet analyze --encoder gaussian:sigma=0.01 --encoder rff",
        "coordnet analyze --figure 3 --out figure3",
        "coordnet analyze results/reconstruct/photo-1/model.safetensors",
    ),
}
PRIOR_NAMES = "{priors}"  # stands in a help for the registered priors, whose import takes seconds
# Options and fields that do not change results, and so are in no record's settings.
UNRECORDED = {"signals", "workers", "dask", "out", "report", "force", "json", "quiet"}
UNRECORDED |= {"settings", "inputs", "is_one_of_many"}


class Helped(TyperCommand):
    """A command whose help has its options in groups, and examples after them."""

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first paragraph of the help, whole, for the list of commands."""
        return " ".join((self.help or "").strip().split("\n\n")[0].split())

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options of each group."""
        sections: dict[str, list[Any]] = defaultdict(list)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                argument = parameter.param_type_name == "argument"
                option = max(parameter.opts, key=len).lstrip("-")
                shown = record[0], _with_priors(record[1])
                sections["Arguments" if argument else GROUP_OF.get(option, INPUT)].append(shown)
        for title in ("Arguments", INPUT, *GROUPS):
            if sections[title]:
                with formatter.section(title):
                    formatter.write_dl(sections[title])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write three lines to copy; those of an experiment have its data, a folder of its own, and its report."""
        data = " --data data" if any(parameter.name == "data" for parameter in self.params) else ""
        experiment = [f"coordnet bench {self.name}{rest}" for rest in (data, f"{data} --out mine", " --report")]
        with formatter.section("Examples"):
            group = "bench " if ctx.parent is not None and ctx.parent.info_name == "bench" else ""
            for line in EXAMPLES.get(f"{group}{self.name}", experiment):
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def _with_priors(text: str) -> str:
    """Return the help of an option with the registered priors in the place of ``PRIOR_NAMES``."""
    if PRIOR_NAMES not in text:
        return text
    from coordnet.priors.registry import PRIORS

    return text.replace(PRIOR_NAMES, ", ".join(f"{name}{kind.usage}" for name, kind in PRIORS.items()))


def settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that change the results of a command, by their names, as a record holds them."""
    flat: dict[str, Any] = {}
    for name, value in given.items():
        flat |= vars(value) if is_dataclass(value) else {name: value}
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in flat.items()}
    return {name: value for name, value in plain.items() if name not in UNRECORDED and value is not None}


def grouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let typer see the fields of a command's dataclass arguments as options of the command itself."""
    parameters = inspect.signature(command).parameters
    groups: dict[str, Any] = {name: p.annotation for name, p in parameters.items() if is_dataclass(p.annotation)}
    flat: list[inspect.Parameter] = []
    for name, parameter in parameters.items():
        options = _options(groups[name]) if name in groups else [parameter]
        flat += [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]

    @functools.wraps(command)
    def called(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{option.name: given.pop(option.name) for option in _options(group)})
        return command(**given)

    called.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in flat}
    return called


def _options(group: Any) -> list[inspect.Parameter]:
    """Return the fields of a dataclass that are options; the others have no ``Annotated`` type."""
    return [p for p in inspect.signature(group).parameters.values() if get_origin(p.annotation) is Annotated]


def number(text: object) -> float:
    """Return a number; ``1_000``, which Python reads too, is refused, since it may be a slip for ``1.000``."""
    try:
        if "_" not in str(text):
            return float(str(text))
    except ValueError:
        pass
    raise BadParameter(f"expected a number, found {text!r}")


def parse_bytes(text: str | None) -> int | None:
    """Return the bytes that a text such as ``2GiB``, ``500 MB`` or ``1e9`` names; None for None."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+\.?\d*(?:[eE]\d+)?|\.\d+)\s*(?:([kKMGT]?)(i?)B)?\s*", text)
    number = float(match[1]) if match else math.nan
    if match is None or not 1 <= number < math.inf:
        raise _checks.wrong("memory", "a number of bytes such as 2GiB or 500MB", repr(text))
    power = " KMGT".index((match[2] or " ").upper())
    return int(number * (1024 if match[3] else 1000) ** power)


def as_typed(message: str, arguments: list[str]) -> str:
    """Name the option as it was typed in a message that begins with the name of an argument of the library.

    ```sigma`: expected …`` becomes ``--sigma: expected …`` if that option was typed, after the name of a file too, and
    ``--encoder gaussian:sigma=-1: `sigma`: expected …`` if it stood within another one.
    """
    match = re.match(r"((?:[^`]+: )?)`(\w+)`: ", message)
    if match is None:
        return message
    file, name = match.groups()
    option = "--" + name.replace("_", "-")
    if any(a == option or a.startswith(f"{option}=") for a in arguments):
        return f"{file}{option}: {message[match.end() :]}"
    for before, text in zip(arguments, arguments[1:], strict=False):
        if before.startswith("--") and re.search(rf"[:,]{name}(=|,|$)", text):
            return f"{before} {text}: {message}"
    return message


def plain_warnings() -> None:
    """Print the warnings of this process as lines of the command."""
    warnings.formatwarning = lambda message, *_, **__: f"coordnet: {message}\n"
