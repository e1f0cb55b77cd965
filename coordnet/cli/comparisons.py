"""``coordnet compare``, and ``coordnet data``, which prepares what is compared; what they run is imported then."""

from pathlib import Path
from typing import Annotated

import typer

from coordnet.cli.options import (
    Column,
    Crop,
    Device,
    Epochs,
    Force,
    Frames,
    Json,
    Out,
    Quiet,
    Row,
    Sample,
    Seed,
    Signal,
    Size,
)

comparisons = typer.Typer()


@comparisons.command()
def compare(
    signal: Signal,
    sample: Sample = "every:2",
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME[:OPTION=VALUE,…] (see coordnet encoders), or fourier; may be repeated. "
            "If not given: gaussian, triangle and bspline, or fourier alone where its prior is adaptive.",
            show_default=False,
        ),
    ] = None,
    head: Annotated[
        list[str] | None,
        typer.Option(
            help="linear, mlp[:depth=4,width=256], siren, finer, gaussian or wire; may be repeated. "
            "linear if not given. A linear head is on the complex encoding, others on the simple one.",
            show_default=False,
        ),
    ] = None,
    solver: Annotated[
        list[str] | None,
        typer.Option(
            help="closed-form or gradient; may be repeated. closed-form where it can be if not given.",
            show_default=False,
        ),
    ] = None,
    epochs: Epochs = 2000,
    row: Row = None,
    column: Column = None,
    frames: Frames = None,
    size: Size = None,
    crop: Crop = None,
    html: Annotated[
        bool, typer.Option("--html", help="Write compare.html too: a table to sort, pictures with sliders.")
    ] = False,
    seed: Seed = 0,
    device: Device = "auto",
    out: Out = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare methods, and SciPy's interpolations, on one signal: every encoder with every head and solver.

    The table is sorted by held-out PSNR. What does not go together is left out and named; a method that fails is
    shown with its reason. Random, masked and mosaicked samples are fitted by fourier with an adaptive and with a
    smoothness prior too.
    """
    from coordnet.cli.compare import Options, run

    part = {"row": row, "column": column, "frames": frames, "size": size, "crop": crop}
    given = {name: value for name, value in part.items() if value is not None}
    chosen = (encoder or [], head or [], solver or [], epochs)
    run(Options(seed, device, out, force, json, quiet, signal, sample, *chosen, given, html))


@comparisons.command()
def data(
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Folder of pictures, clips and sound, as they came.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for what is cut from them.", show_default=False)
    ] = None,
    crop: Annotated[int, typer.Option(help="Height and width of the pictures' centres.")] = 480,
    check: Annotated[
        Path | None,
        typer.Option(help="Compare this prepared folder with its checksums instead.", show_default=False),
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Prepare a folder of data for the benches: centre crops, video cubes, and their SHA-256 sums."""
    from coordnet.cli.data import run

    run(source, out, check, crop, force, json, quiet)
