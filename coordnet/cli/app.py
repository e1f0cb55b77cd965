"""The commands, each declared once; the modules that do their work are imported when they run."""

from pathlib import Path
from typing import Annotated

import typer

from coordnet.cli.bench import bench
from coordnet.cli.common import (
    Common,
    Epochs,
    Fitting,
    Force,
    Json,
    Model,
    Output,
    Part,
    Picture,
    Place,
    Quiet,
    Sample,
    Signal,
    Tuning,
    grouped,
)

app = typer.Typer(
    help="Reconstruct signals from samples with coordinate networks.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=False,
)
app.add_typer(bench, name="bench")


@app.callback()
def _root() -> None:
    """Reconstruct signals from samples with coordinate networks. Add --debug to any command for tracebacks."""


@app.command()
@grouped
def reconstruct(
    *, signal: Signal, sample: Sample = "every:2", fitting: Fitting, tuning: Tuning, part: Part, common: Common
) -> None:
    """Reconstruct a signal from some of its samples, and print how near the result is to the signal."""
    from coordnet.cli.reconstruct import run

    run(signal, sample, fitting, tuning, part, common)


@app.command()
@grouped
def compare(
    *,
    signal: Signal,
    sample: Sample = "every:2",
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME[:OPTION=VALUE,…] (see coordnet encoders), or fourier; may be repeated. "
            "If not given: gaussian, triangle and bspline, or fourier alone where its prior is adaptive."
        ),
    ] = None,
    head: Annotated[
        list[str] | None,
        typer.Option(
            help="linear, mlp[:depth=4,width=256], siren, finer, gaussian or wire; may be repeated. "
            "linear if not given. A linear head is on the complex encoding, others on the simple one."
        ),
    ] = None,
    solver: Annotated[
        list[str] | None,
        typer.Option(help="closed-form or gradient; may be repeated. closed-form where it can be if not given."),
    ] = None,
    epochs: Epochs = 2000,
    html: Annotated[
        bool, typer.Option("--html", help="Write compare.html too: a table to sort, pictures with sliders.")
    ] = False,
    part: Part,
    common: Common,
) -> None:
    """Compare methods, and SciPy's interpolations, on one signal: every encoder with every head and solver.

    The table is sorted by held-out PSNR. Combinations that do not exist are left out and named; a method that fails is
    shown with its reason. Random, masked and mosaicked samples are fitted by fourier with an adaptive and with a
    smoothness prior too.
    """
    from coordnet.cli.compare import run

    run(signal, sample, encoder or [], head or [], solver or [], epochs, html, part, common)


@app.command()
@grouped
def fit(
    *,
    points: Annotated[Path, typer.Argument(metavar="POINTS.csv", help="Columns x, y, …, then the values.")],
    place: Place,
    model: Model,
    common: Common,
) -> None:
    """Reconstruct a signal from scattered points."""
    from coordnet.cli.fit import run

    run(points, place, model, common)


@app.command()
@grouped
def inpaint(
    *,
    signal: Picture,
    mask: Annotated[Path, typer.Option(help="Picture, animation or .npy that is not zero where the signal is known.")],
    common: Common,
) -> None:
    """Fill what is unknown of a picture, a video or another signal; what is known stays as it is, to the bit.

    A video's mask is one frame for all, or a frame for each. Beside the .mp4, whose compression changes every
    pixel, a video's values are written exactly, to reconstruction.npy.
    """
    from coordnet.cli import restore

    restore.inpaint(signal, mask, common)


@app.command()
@grouped
def upscale(
    *,
    image: Picture,
    factor: Annotated[float, typer.Option(help="Factor on the height and the width; any number from 1 on.")] = 2,
    memory: Annotated[
        str | None,
        typer.Option(help="Bytes for an array or a large TIFF file, such as 2GiB; half of what is free if not given."),
    ] = None,
    common: Common,
) -> None:
    """Enlarge a picture; the cells of its pixels keep their place.

    An .npy or .zarr array of any number of axes, or a TIFF file that does not fit into --memory, is read and written in
    blocks of rows, and may be larger than memory; no model is kept of it. It is computed in float32, and written in the
    array's own type.
    """
    from coordnet.cli import restore

    restore.upscale(image, factor, memory, common)


@app.command()
@grouped
def denoise(
    *,
    signal: Picture,
    sigma: Annotated[
        float | None,
        typer.Option(help="Standard deviation of the noise, 1 being the largest value; estimated if not given."),
    ] = None,
    common: Common,
) -> None:
    """Remove white noise from a picture, a video or another signal; alpha stays as it is."""
    from coordnet.cli import restore

    restore.denoise(signal, sigma, common)


@app.command()
@grouped
def demosaic(
    *,
    raw: Annotated[str, typer.Argument(metavar="RAW", help="A gray picture, each pixel of one color.")],
    pattern: Annotated[
        str, typer.Option(help="Colors of the upper left 2 by 2 pixels: RGGB, BGGR, GRBG or GBRG.")
    ] = "RGGB",
    common: Common,
) -> None:
    """Make a color picture of a Bayer mosaic; what each pixel measured stays as it is."""
    from coordnet.cli import restore

    restore.demosaic(raw, pattern, common)


@app.command()
@grouped
def analyze(
    *,
    model: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MODEL]", help="A model.safetensors: its fit, the spectrum it learned or the encoding it trained."
        ),
    ] = None,
    encoder: Annotated[
        list[str] | None, typer.Option(help="NAME[:OPTION=VALUE,…]; may be repeated. gaussian if not given.")
    ] = None,
    figure: Annotated[
        str | None, typer.Option(help="2, 3, 4, spectrum, faithfulness or similarity: a figure of the papers.")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="Samples along an axis that encoders are measured on; 256, or 32 along both of a joint one."),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROW,COLUMN",
            help="A position of the grid whose similarity to all others is drawn; may be repeated.",
        ),
    ] = None,
    output: Output,
) -> None:
    """Measure encoders (ranks, similarity, spectrum, heat maps), draw a figure of the papers, or look into a model."""
    from coordnet.cli.analyze import run

    run(model, encoder or [], figure, samples, at or [], output)


@app.command()
def samples() -> None:
    """List the built-in sample images."""
    from coordnet.media import SAMPLES

    for name, (_, description) in SAMPLES.items():
        print(f"{name:16}{description}")


@app.command()
def encoders() -> None:
    """List the encoders with their parameters, units and defaults."""
    from coordnet.cli.report import encoder_table

    print("\n".join(encoder_table()))


@app.command()
def data(
    source: Annotated[
        Path | None, typer.Option("--from", help="Folder of pictures, clips and sound, as they came.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for what is cut from them.")] = None,
    crop: Annotated[int, typer.Option(help="Height and width of the pictures' centers.")] = 480,
    check: Annotated[Path | None, typer.Option(help="Compare this prepared folder with its checksums instead.")] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Prepare a folder of data for the benches: center crops, video cubes, and their SHA-256 sums."""
    from coordnet.cli.data import run

    run(source, out, check, crop, force, json, quiet)
