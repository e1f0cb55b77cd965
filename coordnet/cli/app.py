"""The commands, each declared once; each imports what does its work, which takes seconds, when it runs."""

import functools
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

import coordnet.cli.common as options
from coordnet.cli.bench import bench
from coordnet.cli.common import grouped, number

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False, no_args_is_help=False)
app.add_typer(bench, name="bench")


def command(declared: Callable[..., None]) -> Callable[..., None]:
    """Declare a command, whose options are checked and recorded before it runs."""

    @functools.wraps(declared)
    def run(**given: Any) -> None:
        signals = given.get("signals", ["-"])
        shared = len(signals) > 1 or options.is_folder(signals[0])
        for key, group in given.items():
            if isinstance(group, options.Output):
                group.check(shared=shared)
                given[key] = replace(group, settings=options.settings(given))
        declared(**given)

    return app.command()(grouped(run))


def _print_version(wanted: bool) -> bool:
    if wanted:
        print(f"coordnet {version('coordnet')}")
        raise typer.Exit
    return False


@app.callback()
def _root(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Reconstruct signals from samples with coordinate networks. Add --debug to any command for tracebacks."""


@command
def reconstruct(
    *,
    signals: options.Signals,
    sampling: options.Sampling,
    fitting: options.Fitting,
    tuning: options.Tuning,
    uncertainty: options.Uncertainty = False,
    many: options.Many,
    common: options.Common,
) -> None:
    """Reconstruct a signal from some of its samples, and print how near the result is to the signal."""
    from coordnet.cli.reconstruct import run

    run(signals, sampling, fitting, tuning, uncertainty, many, common)


@command
def compare(*, sampled: options.Sampled, compared: options.Compared, common: options.Common) -> None:
    """Compare methods, and SciPy's interpolations, on one signal: every encoder with every head and solver.

    The table is sorted by held-out PSNR. Combinations that do not exist are left out and named; a method that fails is
    shown with its reason. Samples with gaps are fitted by fourier with a local, an adaptive and a
    smoothness prior too.
    """
    from coordnet.cli.compare import run

    run(sampled, compared, common)


@command
def fit(
    *,
    points: Annotated[
        Path, Argument(metavar="POINTS.csv", help="Columns named x, y, …, others for values; unnamed in that order.")
    ],
    place: options.Place,
    fitting: options.Fitting,
    uncertainty: options.Uncertainty = False,
    common: options.Common,
) -> None:
    """Reconstruct a signal from scattered points.

    A fit in closed form, or one with a --blending, is evaluated between the nodes as the points were: by the blend of
    the nodes around. Other networks are evaluated at the points themselves.
    """
    from coordnet.cli.fit import run

    run(points, place, fitting, uncertainty, common)


@command
def inpaint(
    *,
    signals: options.Pictures,
    mask: Annotated[
        Path,
        Option(help="Picture, animation or array that is not zero where the signal is known; or a folder of them."),
    ],
    threshold: options.Threshold = None,
    invert: options.Invert = False,
    prior: options.Prior = "auto",
    uncertainty: options.Uncertainty = False,
    many: options.Many,
    common: options.Common,
) -> None:
    """Fill the unknown part of a picture, a video or another signal; the known part stays the same to the bit.

    A video's mask is one frame for all, or a frame for each. Beside the .mp4, whose compression changes every
    pixel, a video's values are written exactly, to reconstruction.npy.
    """
    from coordnet.cli import restore

    restore.inpaint(signals, mask, threshold, invert, prior, uncertainty, many, common)


@command
def upscale(
    *,
    signals: options.Pictures,
    factor: Annotated[
        float, Option(parser=number, help="Factor on the height and the width; any number from 1 on.")
    ] = 2,
    samples: Annotated[
        str,
        Option(
            metavar="[area|point]",
            help="What a pixel is: the mean over its cell, as of cameras and of pictures that were reduced with care, "
            "or the value at its center, as of pictures that were decimated.",
        ),
    ] = "area",
    prior: Annotated[
        str,
        Option(
            metavar="[auto|local|none]",
            help="What is within a pixel: as the local prior has it, which auto takes where less than a minute is "
            "expected, or smooth splines, which take a fraction of a second.",
        ),
    ] = "auto",
    many: options.Many,
    common: options.Common,
) -> None:
    """Enlarge a picture; the cells of its pixels keep their place.

    A .zarr array, an .npy array of other than two axes, and a picture that does not fit into --memory are read and
    written in blocks of rows, and may be larger than memory. They take no prior, and no model is kept of them. They are
    computed in float32, and written in the array's own type.
    """
    from coordnet.cli import restore

    restore.upscale(signals, factor, samples, prior, many, common)


@command
def denoise(
    *,
    signals: options.Pictures,
    sigma: Annotated[
        float | None,
        Option(parser=number, help="Standard deviation of the noise, for values in [0, 1]; estimated if not given."),
    ] = None,
    prior: Annotated[
        str,
        Option(
            metavar="[auto|local|adaptive]",
            help="The assumption about the signal: with auto the better one on the middle of a picture, or adaptive, "
            "which is faster, for large pictures and other signals.",
        ),
    ] = "auto",
    many: options.Many,
    common: options.Common,
) -> None:
    """Remove white noise from a picture, a video or another signal; alpha stays as it is."""
    from coordnet.cli import restore

    restore.denoise(signals, sigma, prior, many, common)


@command
def demosaic(
    *,
    signals: Annotated[
        list[str], Argument(metavar="RAW…", help="Gray pictures, each pixel of one color, or folders of them.")
    ],
    pattern: Annotated[str, Option(help="Colors of the upper left 2 by 2 pixels: RGGB, BGGR, GRBG or GBRG.")] = "RGGB",
    sigma: Annotated[
        float | None,
        Option(parser=number, help="Standard deviation of the mosaic's noise, to remove it; no noise if not given."),
    ] = None,
    prior: options.Prior = "auto",
    many: options.Many,
    common: options.Common,
) -> None:
    """Turn a Bayer mosaic into a color picture; without --sigma, the color that each pixel measured stays the same."""
    from coordnet.cli import restore

    restore.demosaic(signals, pattern, sigma, prior, many, common)


@command
def analyze(
    *,
    model: Annotated[
        Path | None,
        Argument(
            metavar="[MODEL]", help="A model.safetensors: its fit, the spectrum it learned or the encoding it trained."
        ),
    ] = None,
    encoder: Annotated[
        list[str] | None, Option(help="NAME[:OPTION=VALUE,…]; may be repeated. gaussian if not given.")
    ] = None,
    figure: Annotated[
        str | None,
        Option(
            help="2, 3, 4, 6, spectrum, faithfulness, similarity, similarity-42, boxes, frequencies: a paper's figure."
        ),
    ] = None,
    samples: Annotated[
        int | None,
        Option(help="Samples along an axis that encoders are measured on; 256, or 32 along both of a joint one."),
    ] = None,
    at: Annotated[
        list[str] | None,
        Option(metavar="ROW,COLUMN", help="A position whose similarity to all others is drawn; may be repeated."),
    ] = None,
    output: options.Output,
) -> None:
    """Measure encoders (ranks, similarity, spectrum, heat maps), draw a figure of the papers, or look into a model."""
    from coordnet.cli.analyze import run

    run(model, encoder, figure, samples, at, output)


@app.command()
def samples() -> None:
    """List the built-in sample images."""
    from coordnet.media import SAMPLES

    width = max(map(len, SAMPLES)) + 2
    for name, (_, description) in SAMPLES.items():
        print(f"{name:{width}}{description}")


@app.command()
def encoders() -> None:
    """List the encoders with their parameters, units and defaults."""
    from coordnet.cli.report import encoder_table

    print("\n".join(encoder_table()))


@command
def data(
    *,
    source: Annotated[Path, Option("--from", help="Folder of original pictures, clips and sound.")],
    out: Annotated[Path, Option(help="Folder for the parts that are cut from them.")],
    crop: Annotated[int, Option(min=1, help="Height and width of the pictures' centers.")] = 480,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Prepare a folder of data for the benches: center crops, video cubes, and their SHA-256 sums."""
    from coordnet.cli.data import run

    run(source, out, crop, force, as_json, quiet)
