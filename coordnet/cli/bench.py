"""``coordnet bench``: the experiments, each a command with some of the same options."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from coordnet import _checks
from coordnet.cli.options import Device, Quiet

bench = typer.Typer(help="Measure coordnet against its peers.", rich_markup_mode=None)

ESTIMATION = ("data", "quick", "images", "methods", "device", "workers", "dask", "retry")
PAPER = (*ESTIMATION, "epochs", "seeds")
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "speed": (
        "Time closed-form fits beside SciPy, PyTorch and bare matrix products, and say which targets hold. --only: "
        "some of grid, video, batch, random, memory; all but memory if not given.",
        ("only", "sizes", "quick", "device"),
    ),
    "quality": (
        "Measure reconstructions against their signals, beside SciPy, scikit-image and demosaicing filters. --only: "
        "some of random, density, video, audio, entries, bayer, structured, noise, denoise, iterations, hindsight, "
        "memory; all but the last two, which are slow, if not given.",
        ("only", *ESTIMATION),
    ),
    "attention": (
        "Compare encodings of position in a small Transformer on scikit-learn's digits.",
        ("seeds", "epochs", "workers", "dask", "retry"),
    ),
    "table1": ("Pictures on every second pixel: Zheng et al. (2022), table 1.", PAPER),
    "table2": ("Pictures on a random quarter of the pixels: Zheng et al. (2022), table 2.", PAPER),
    "table3": ("Video cubes, separable and scattered: Zheng et al. (2022), table 3.", PAPER),
    "figure7": ("Rows of pictures, rank against depth: Zheng et al. (2022), figure 7.", PAPER),
    "rethinking": (
        "Gaussian against random Fourier features of equal stable rank: Zheng et al. (2021).",
        PAPER,
    ),
    "encoders": ("Every encoder, simple and complex, linear and MLP, at one setting.", PAPER),
    "noise": ("PSNR against the noise on pictures.", PAPER),
    "sampling": ("PSNR against the fraction of pixels known.", PAPER),
}


def _number(text: str) -> Any:
    return typer.Option(min=1, help=text, show_default=False)


OPTIONS: dict[str, tuple[Any, Any]] = {
    "data": (
        Annotated[
            Path | None,
            typer.Option(
                help="Folder with kodak/ (or images/, or pictures), video/ and audio/.", show_default=False
            ),
        ],
        None,
    ),
    "only": (
        Annotated[
            str | None, typer.Option(help="The parts to run, separated by commas.", show_default=False)
        ],
        None,
    ),
    "sizes": (
        Annotated[
            str | None,
            typer.Option(
                help="Samples along a side of the pictures, such as 128,256; 128 to 4096 (rendered at 8192) if not "
                "given.",
                show_default=False,
            ),
        ],
        None,
    ),
    "quick": (Annotated[bool, typer.Option("--quick", help="Small signals and few epochs: minutes.")], False),
    "images": (Annotated[int | None, _number("Run the first so many files only.")], None),
    "epochs": (
        Annotated[int | None, _number("Epochs of trained methods; the experiment's if not given.")],
        None,
    ),
    "seeds": (Annotated[int | None, _number("Seeds 0 … SEEDS - 1 of whatever is drawn.")], None),
    "methods": (
        Annotated[
            list[str] | None,
            typer.Option(
                help="baseline, 'closed form', gradient, or a name with * and ?; may be repeated.",
                show_default=False,
            ),
        ],
        None,
    ),
    "device": (Device, "auto"),
    "workers": (
        Annotated[int, typer.Option(min=1, help="Local processes that share the processor's threads.")],
        1,
    ),
    "dask": (
        Annotated[
            str | None,
            typer.Option(help="Address of a Dask scheduler whose workers run the cells.", show_default=False),
        ],
        None,
    ),
    "retry": (
        Annotated[bool, typer.Option("--retry", help="Run cells again that are recorded as failed.")],
        False,
    ),
    "out": (
        Annotated[
            Path | None,
            typer.Option(help="Folder of the records; results/NAME if not given.", show_default=False),
        ],
        None,
    ),
    "report": (
        Annotated[
            bool,
            typer.Option("--report", help="Only write the tables and figures of the records that are there."),
        ],
        False,
    ),
    "quiet": (Quiet, False),
}


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()


def _sizes(text: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(name) for name in _names(text))
    except ValueError:
        raise _checks.wrong("sizes", "numbers separated by commas", repr(text)) from None


def _device(text: str) -> str:
    from coordnet.cli.devices import choose_device

    return choose_device(text).type


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "only": _names,
    "sizes": _sizes,
    "device": _device,
    "methods": lambda given: tuple(given or ()),
}


def _run(name: str, out: Path | None, report: bool, quiet: bool, given: dict[str, Any]) -> None:
    from coordnet.bench import catalog

    options = None
    if not report:
        options = catalog.Options(
            **{key: CONVERSIONS.get(key, lambda value: value)(value) for key, value in given.items()}
        )
    text = catalog.run(name, options, out or Path("results") / name, progress=not quiet)
    if not quiet:
        print(text)


def _command(name: str, options: tuple[str, ...]) -> Callable[..., None]:
    """Return a function whose parameters are the options of a command, for Typer to read."""

    def command(*, out: Path | None, report: bool, quiet: bool, **given: Any) -> None:
        _run(name, out, report, quiet, given)

    parameters = [
        inspect.Parameter(
            key, inspect.Parameter.KEYWORD_ONLY, default=OPTIONS[key][1], annotation=OPTIONS[key][0]
        )
        for key in (*options, "out", "report", "quiet")
    ]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    setattr(command, "__signature__", inspect.Signature(parameters))  # noqa: B010
    return command


for _name, (_help, _options) in COMMANDS.items():
    bench.command(_name, help=_help)(_command(_name, _options))
