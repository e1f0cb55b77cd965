"""The commands and their options; what they do is imported when they run."""

from pathlib import Path
from typing import Annotated

import typer

from coordnet import _checks
from coordnet.cli.bench import bench
from coordnet.cli.comparisons import comparisons
from coordnet.cli.options import (
    Column,
    Crop,
    Device,
    Encoder,
    Epochs,
    Force,
    Frames,
    Json,
    Out,
    Picture,
    Prior,
    Quiet,
    Row,
    Sample,
    Seed,
    Signal,
    Size,
)

app = typer.Typer(
    help="Reconstruct signals from samples with coordinate networks.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=False,
)
app.add_typer(bench, name="bench")
app.add_typer(comparisons)


@app.callback()
def _root() -> None:
    """Reconstruct signals from samples with coordinate networks. Add --debug to any command for tracebacks."""


@app.command()
def reconstruct(
    signal: Signal,
    sample: Sample = "every:2",
    encoder: Encoder = None,
    encoding: Annotated[str, typer.Option(help="complex or simple.")] = "complex",
    head: Annotated[
        str, typer.Option(help="linear, mlp[:depth=4,width=256], siren, finer, gaussian or wire.")
    ] = "linear",
    solver: Annotated[
        str | None,
        typer.Option(help="closed-form or gradient; closed-form where it can be.", show_default=False),
    ] = None,
    epochs: Epochs = 2000,
    lr: Annotated[
        float | None,
        typer.Option(help="Its learning rate; 0.1 for complex and linear, else 0.005.", show_default=False),
    ] = None,
    prior: Prior = "auto",
    robust: Annotated[bool, typer.Option("--robust", help="Leave outliers aside (Huber's loss).")] = False,
    tune: Annotated[bool, typer.Option("--tune", help="Choose the free numbers by hidden samples.")] = False,
    criterion: Annotated[
        str, typer.Option(help="Of --tune: hold-out, or gcv for noisy lattices.")
    ] = "hold-out",
    folds: Annotated[int, typer.Option(min=1, help="Of --tune: how often other samples are hidden.")] = 1,
    row: Row = None,
    column: Column = None,
    frames: Frames = None,
    size: Size = None,
    crop: Crop = None,
    seed: Seed = 0,
    device: Device = "auto",
    out: Out = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Reconstruct a signal from some of its samples, and say how near it came."""
    from coordnet.cli.reconstruct import Options, run

    part = {"row": row, "column": column, "frames": frames, "size": size, "crop": crop}
    given = {name: value for name, value in part.items() if value is not None}
    _checks.choice("criterion", criterion, ("hold-out", "gcv"))
    method = (encoder, encoding, head, solver, epochs, lr, prior, robust, criterion if tune else None, folds)
    run(Options(seed, device, out, force, json, quiet, signal, sample, *method, given))


@app.command()
def fit(
    points: Annotated[Path, typer.Argument(metavar="POINTS.csv", help="Columns x, y, …, then the values.")],
    shape: Annotated[str, typer.Option(help="Lengths of the lattice, such as 256,256 (height, width).")],
    bounds: Annotated[
        str | None, typer.Option(help="x0,x1,y0,y1,… of the lattice; the points' own range if not given.")
    ] = None,
    at: Annotated[
        Path | None, typer.Option(help="CSV of query points; their values are written too.")
    ] = None,
    encoder: Encoder = None,
    prior: Prior = "auto",
    robust: Annotated[bool, typer.Option("--robust", help="Leave outliers aside (Huber's loss).")] = False,
    clamp: Annotated[
        bool, typer.Option("--clamp", help="Move points outside the bounds to the border.")
    ] = False,
    seed: Seed = 0,
    device: Device = "auto",
    out: Out = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Reconstruct a signal from scattered points."""
    from coordnet.cli.fit import Options, run

    run(
        Options(
            seed, device, out, force, json, quiet, points, shape, bounds, at, encoder, prior, robust, clamp
        )
    )


@app.command()
def inpaint(
    signal: Picture,
    mask: Annotated[
        Path, typer.Option(help="Picture, animation or .npy that is not zero where the signal is known.")
    ],
    seed: Seed = 0,
    device: Device = "auto",
    out: Out = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fill what is unknown of a picture, a video or another signal; what is known stays as it is, to the bit.

    A video's mask is one frame for all, or a frame for each. Beside the .mp4, whose compression changes every
    pixel, a video's values are written exactly, to reconstruction.npy.
    """
    from coordnet.cli.common import Common
    from coordnet.cli.inpaint import run

    run(signal, mask, Common(seed, device, out, force, json, quiet))


@app.command()
def upscale(
    image: Picture,
    factor: Annotated[float, typer.Option(help="Of the height and of the width; any number from 1 on.")] = 2,
    memory: Annotated[
        str | None,
        typer.Option(
            help="For an array or a large TIFF file, such as 2GiB; half of what is free if not given.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    out: Out = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Enlarge a picture, its pixels' cells kept in place.

    An .npy or .zarr array of any number of axes, or a TIFF file that does not fit into --memory, is read and written in
    blocks of rows, and may be larger than memory; no model is kept of it. It is computed in float32, and written in the
    array's own type.
    """
    from coordnet.cli.common import Common
    from coordnet.cli.upscale import run

    run(image, factor, memory, Common(seed, device, out, force, json, quiet))


@app.command()
def denoise(
    signal: Picture,
    sigma: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of the noise, 1 being the largest value; estimated if not given.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    out: Out = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Remove white noise from a picture, a video or another signal; alpha stays as it is."""
    from coordnet.cli.common import Common
    from coordnet.cli.denoise import run

    run(signal, sigma, Common(seed, device, out, force, json, quiet))


@app.command()
def demosaic(
    raw: Annotated[str, typer.Argument(metavar="RAW", help="A grey picture, each pixel of one colour.")],
    pattern: Annotated[
        str, typer.Option(help="Colours of the upper left 2 by 2 pixels: RGGB, BGGR, GRBG or GBRG.")
    ] = "RGGB",
    seed: Seed = 0,
    device: Device = "auto",
    out: Out = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a picture in colour of a Bayer mosaic; what each pixel measured stays as it is."""
    from coordnet.cli.common import Common
    from coordnet.cli.demosaic import run

    run(raw, pattern, Common(seed, device, out, force, json, quiet))


@app.command()
def samples() -> None:
    """List the built-in sample images."""
    from coordnet.cli.listings import print_samples

    print_samples()


@app.command()
def encoders() -> None:
    """List the encoders with their parameters, units and defaults."""
    from coordnet.cli.listings import print_encoders

    print_encoders()


@app.command()
def analyze(
    model: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MODEL]",
            help="A model.safetensors: its fit, the spectrum it learned or the encoding it trained.",
            show_default=False,
        ),
    ] = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME[:OPTION=VALUE,…]; may be repeated. gaussian if not given.", show_default=False
        ),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option(
            help="2, 3, 4, spectrum, faithfulness or similarity: a figure of the papers.", show_default=False
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            help="Samples along an axis that encoders are measured on; 256, or 32 along both of a joint one.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROW,COLUMN",
            help="A position of the grid whose similarity to all others is drawn; may be repeated.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    out: Out = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Measure encoders (ranks, similarity, spectrum, heat maps), draw a figure of the papers, or look into a model."""
    from coordnet.cli.analyze import run

    run(model, encoder or [], figure, samples, at or [], seed, out, force, json)
