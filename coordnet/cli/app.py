"""The commands, each declared once; each imports what does its work, which takes seconds, when it runs."""

import functools
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

import coordnet.cli.common as options
from coordnet.cli import folders
from coordnet.cli.bench import bench
from coordnet.cli.declaring import Helped, grouped, number, settings

HELP = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=False,
    context_settings=HELP,
)
app.add_typer(bench, name="bench")


def command(declared: Callable[..., None]) -> Callable[..., None]:
    """Declare a command, whose options are checked and recorded before it runs."""

    @functools.wraps(declared)
    def run(**given: Any) -> None:
        signals = given.get("signals", ["-"])
        shared = len(signals) > 1 or options.is_folder(signals[0])
        for key, group in given.items():
            if isinstance(group, options.Output):
                given[key] = replace(group, settings=settings(given))
                folders.check(given[key], declared.__name__, shared=shared)
        declared(**given)

    return app.command(cls=Helped)(grouped(run))


def _print_version(wanted: bool) -> bool:
    if wanted:
        try:
            print(f"coordnet {version('coordnet')}")
        except PackageNotFoundError:
            print("coordnet, a checkout that is not installed")
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
    signals: Annotated[list[str], Argument(metavar="SIGNAL…", help=options.FILES)],
    sampling: options.Sampling,
    fitting: options.Fitting,
    tuning: options.Tuning,
    uncertainty: options.Uncertainty = False,
    common: options.Batch,
) -> None:
    """Reconstruct a signal from some of its samples, and print how near the result is to the signal."""
    from coordnet.cli.reconstruct import from_samples

    from_samples(signals, sampling, fitting, tuning, uncertainty, common)


@command
def compare(*, sampling: options.Sampling, compared: options.Compared, common: options.Common) -> None:
    """Compare methods, and SciPy's interpolations, on one signal: every encoder with every head and solver.

    The table is sorted by held-out PSNR. Combinations that do not exist are left out and named; a method that fails is
    shown with its reason. Samples with gaps are fitted by fourier with a local, an adaptive and a
    smoothness prior too.
    """
    from coordnet.cli.compare import run

    run(sampling, compared, common)


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
    """Reconstruct a signal from scattered points on a lattice of given lengths, as the papers' virtual grid.

    Stations, soundings and surveys are for ``coordnet grid``, which lays the nodes beyond the points, keeps their units
    and is more accurate. A fit in closed form, or one with a --blending, is evaluated between the nodes as the points
    were: by the blend of the nodes around. Other networks are evaluated at the points themselves.
    """
    from coordnet.cli.folders import readable
    from coordnet.cli.from_points import from_points

    with readable(str(points)) as path:
        from_points(Path(path), place, fitting, uncertainty, common)


@command
def grid(
    *,
    points: Annotated[Path, Argument(metavar="POINTS.csv", help="Table with commas, semicolons, tabs or spaces.")],
    asked: options.Gridding,
    common: options.Common,
) -> None:
    """Map stations, soundings or a survey onto a grid, in their own units.

    Written are grid.nc (NetCDF, CF conventions), grid.csv, figure.png (the points, the field and its deviation), the
    model and a record with the score by cross-validation; with ``-o field.nc`` or ``field.csv`` the grid alone.
    Comments, units below the names and decimal commas are understood; rows without a coordinate or any value are left
    out.
    """
    from coordnet.cli.folders import readable
    from coordnet.cli.grid import from_table

    with readable(str(points)) as path:
        from_table(Path(path), asked, common)


@command
def inpaint(*, signals: options.Pictures, asked: options.Inpainting, common: options.Batch) -> None:
    """Fill the unknown part of a picture, a video or another signal; the known part stays the same to the bit.

    A video's mask is one frame for all, or a frame for each. Beside the .mp4, whose compression changes every
    pixel, a video's values are written exactly, to restored.npy. A .gif has 256 colors, which changes others too.
    """
    from coordnet.cli import restore

    restore.inpaint(signals, asked, common)


@app.command(cls=Helped)
@grouped
def fill(
    *,
    cube: Annotated[Path, Argument(metavar="CUBE", help="A .nc, .zarr or .tif file of labeled arrays.")],
    out: Annotated[Path, Option(help="The file for the result, of any of these kinds; a figure and a record beside.")],
    var: Annotated[
        list[str] | None, Option(help="A variable; may be repeated. All with missing values if none.")
    ] = None,
    max_gap: Annotated[
        str | None,
        Option(
            help="The longest gap in time that is filled, such as 5D or 12h, or a number where the coordinate of time "
            "has numbers; all if not given."
        ),
    ] = None,
    prior: options.PriorText = "auto",
    uncertainty: options.Uncertainty = False,
    memory: Annotated[
        str | None,
        Option(
            help="Bytes that a fit takes at most, such as 3GiB; half of what is free if not given. What needs more is "
            "filled in overlapping blocks of space, into a .zarr, and goes on where it was interrupted."
        ),
    ] = None,
    many: options.Many,
    seed: Annotated[int, Option(min=0, max=2**63 - 1, help="Seed of the samples that are hidden.")] = 0,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fill the missing values of fields in time and of maps, such as those under clouds; land stays missing.

    Points that no frame knows are taken for land. Coordinates, attributes and georeference are kept.
    """
    from coordnet.cli.fill_files import run

    asked = {"max_gap": max_gap, "prior": prior, "uncertainty": uncertainty, "memory": memory}
    run(cube, out, var or [], asked, many, options.Output(seed=seed, force=force, json=as_json, quiet=quiet))


@command
def upscale(
    *,
    signals: options.Pictures,
    factor: Annotated[
        float,
        Option(
            parser=number,
            help="Factor on the height and the width, and on every axis of an array of other than two; any number from "
            "1 on.",
        ),
    ] = 2,
    samples: Annotated[
        str,
        Option(
            metavar="[area|point]",
            help="What a pixel is: the mean over its cell, as of cameras and of pictures that were reduced with care, "
            "or the value at its center, as of pictures that were decimated.",
        ),
    ] = "area",
    noise: Annotated[
        str,
        Option(
            metavar="[auto|white|colored|camera|rician|jpeg]",
            help="The noise that is removed before, as the command denoise does; with auto what is found, where it "
            "matters and a prior is taken. With --prior none, and from files read in rows, splines smooth it instead.",
        ),
    ] = "auto",
    prior: Annotated[
        str,
        Option(
            metavar="[auto|local|none|…]",
            help="What is within a pixel: as a prior has it that divides pixels, such as local, which auto takes where "
            "less than five minutes are expected, or smooth splines, which take a fraction of a second.",
        ),
    ] = "auto",
    denoiser: options.DenoiserText = None,
    common: options.Batch,
) -> None:
    """Enlarge a picture; the cells of its pixels keep their place.

    A .zarr array, an .npy array of other than two axes, and a picture that does not fit into --memory are read and
    written in blocks of rows, and may be larger than memory. They take no prior, or a named one in overlapping
    blocks, which --workers or --dask share and an interrupted run goes on with. No model is kept of them. They are
    computed in float32, and written in the array's own type.
    """
    from coordnet.cli.enlarge import upscale as run

    run(signals, factor, samples, noise, prior, denoiser, common)


@command
def denoise(
    *,
    signals: options.Pictures,
    sigma: Annotated[
        float | None,
        Option(parser=number, help="Standard deviation of the noise, for values in [0, 1]; estimated if not given."),
    ] = None,
    noise: Annotated[
        str,
        Option(
            metavar="[auto|white|colored|camera|rician|jpeg]",
            help="The kind of noise to estimate: white, with a spectrum, with a variance that depends on the signal "
            "too, or that of magnitudes, as of magnetic resonance; with auto what a picture shows. Other signals, and "
            "those with --sigma, have white noise unless rician is named. With jpeg what a JPEG file's rounding made "
            "is removed, within its intervals (pip install coordnet[jpeg]).",
        ),
    ] = "auto",
    prior: Annotated[
        str,
        Option(
            metavar="[auto|local|adaptive|…]",
            help="The assumption about the signal, also kriging or any other prior that takes noise: with auto a sum "
            "that the middle of the signal tells, or adaptive, which is faster, for large pictures and long rows.",
        ),
    ] = "auto",
    denoiser: options.DenoiserText = None,
    common: options.Batch,
) -> None:
    """Remove noise from a picture, a video or another signal; alpha stays as it is.

    From a sound, the hum of the mains at 50 or 60 Hz and multiples of it is removed first. Columns of a table
    whose noise differs in size have their own levels; one that never falls or never rises, such as a time, stays.

    A TIFF file, an .npy or a .zarr array that needs more than --memory, or half of what is free, is read, denoised and
    written in overlapping blocks, and so is another picture that needs more than --memory; an interrupted run goes on
    where it was, and --workers or --dask share the blocks.
    """
    from coordnet.cli.clean import denoise as run

    run(signals, sigma, noise, prior, denoiser, common)


@command
def demosaic(
    *,
    signals: Annotated[
        list[str], Argument(metavar="RAW…", help="Gray pictures, each pixel of one color, or folders of them.")
    ],
    pattern: Annotated[str, Option(help="Colors of the upper left 2 by 2 pixels: RGGB, BGGR, GRBG or GBRG.")] = "RGGB",
    sigma: Annotated[
        float | None,
        Option(
            parser=number,
            help="Standard deviation of the mosaic's noise, to remove it; 0 for none, estimated if not given.",
        ),
    ] = None,
    noise: Annotated[
        str,
        Option(
            metavar="[auto|none|camera]",
            help="The noise of the mosaic without --sigma: camera estimates one whose variance may depend on the "
            "signal, auto does so too, but removes only what is surely noise.",
        ),
    ] = "auto",
    prior: options.PriorText = "auto",
    denoiser: options.DenoiserText = None,
    demosaicker: options.DemosaickerText = None,
    common: options.Batch,
) -> None:
    """Turn a Bayer mosaic into a color picture; without noise, the color that each pixel measured stays the same."""
    from coordnet.cli import restore

    asked = {"sigma": sigma, "noise": noise, "prior": restore.mosaic_prior(prior, denoiser, demosaicker)}
    restore.demosaic(signals, pattern, asked, common)


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


@app.command(cls=Helped)
def samples() -> None:
    """List the built-in sample images."""
    from coordnet.media import SAMPLES

    width = max(map(len, SAMPLES)) + 2
    for name, (_, description) in SAMPLES.items():
        print(f"{name:{width}}{description}")


@app.command(cls=Helped)
def encoders() -> None:
    """List the encoders with their parameters, units and defaults."""
    from coordnet.cli.specs import encoder_table

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
    from coordnet.cli.bench import prepare_data

    prepare_data(source, out, crop, options.Output(out=out, force=force, json=as_json, quiet=quiet))
