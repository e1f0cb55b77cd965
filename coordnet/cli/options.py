"""The options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Sample = Annotated[
    str,
    typer.Option(
        help="full, every:K[xK…][+OFFSET], random:FRACTION, entries:FRACTION, bayer:RGGB or mask:PATH."
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        help="NAME[:OPTION=VALUE,…], such as gaussian:sigma=0.64px (see coordnet encoders), or fourier; by "
        "default fourier with an adaptive prior, else gaussian.",
        show_default=False,
    ),
]
Prior = Annotated[
    str,
    typer.Option(
        help="auto, none, adaptive[:rounds=8], or smooth[:power=1.5,strength=0.01,anisotropy=0.3x1x1]."
    ),
]
Signal = Annotated[str, typer.Argument(metavar="SIGNAL", help="A file, or a built-in sample by name.")]
Picture = Annotated[str, typer.Argument(metavar="IMAGE", help="A file, or a built-in sample by name.")]
Out = Annotated[
    Path | None, typer.Option(help="Folder for the results; a fresh one under results/ if not given.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace results that are already there.")]
Json = Annotated[bool, typer.Option("--json", help="Print the record alone, as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing, show no bars.")]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of everything random.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Epochs = Annotated[int, typer.Option(help="Of the gradient solver.")]
Row = Annotated[int | None, typer.Option(help="Of a picture, its row of this number alone.")]
Column = Annotated[int | None, typer.Option(help="Of a picture, its column of this number alone.")]
Frames = Annotated[str | None, typer.Option(help="Of a video, the frames A:B alone.")]
Size = Annotated[str | None, typer.Option(help="Resize to HxW first.")]
Crop = Annotated[str | None, typer.Option(help="Crop to HxW, or HxW+TOP+LEFT, after that.")]
