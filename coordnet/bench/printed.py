"""The settings and the printed results of the source papers, from ``printed.csv``.

Zheng et al., "Trading Positional Complexity vs Deepness in Coordinate Networks" (ECCV 2022), tables 1 to 3: the scale
of each encoder (σ, half-width, or highest frequency); PSNR on test points in dB, and seconds, on the authors' data.
"""

import csv
from pathlib import Path
from typing import Any

from coordnet.encodings.registry import ENCODERS

Column = dict[Any, tuple[float, str, str]]  # scale, PSNR and seconds by the class of the encoder
SCATTERED_CLIP = {  # what the authors' notebook prints for one clip, by method
    "MLP, simple rff": ("25.10 (one clip)", "279.6"),
    "gradient, complex gaussian": ("23.41 (one clip)", "4.5"),
}


def column(table: str, kind: str) -> Column:
    """Return the rows of a table ("table1" to "table3") of one kind: simple, gradient or closed form."""
    with (Path(__file__).parent / "printed.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (row["table"], row["kind"]) == (table, kind)]
    return {ENCODERS[row["encoder"]]: (float(row["scale"]), row["psnr"], row["seconds"]) for row in rows}
