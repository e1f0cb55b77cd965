"""A comparison as one page of HTML that needs nothing beside it: a sortable table, and a slider for each method."""

import base64
from importlib.resources import files
from typing import Any

import imageio.v3 as iio
import numpy as np
from jinja2 import Environment

from coordnet.plots.comparison import Shown, page_pictures


def compose(record: dict[str, Any], shown: Shown) -> str:
    """Return the page of a comparison, as HTML with its style, its script and every picture inside.

    ``record`` is the record that ``coordnet compare`` writes, and ``shown`` the estimates that are drawn.
    """
    pictures = {name: _inlined(pixels) for name, pixels in page_pictures(shown).items()}
    environment = Environment(autoescape=True, trim_blocks=True)
    template = environment.from_string(files("coordnet.cli").joinpath("compare.html").read_text(encoding="utf-8"))
    return template.render({**record, "left_out": left_out(record)}, pictures=pictures)


def left_out(record: dict[str, Any]) -> list[str]:
    """A line for each reason why combinations were left out of a comparison."""
    names: dict[str, list[str]] = {}
    for name, reason in record["left_out"].items():
        names.setdefault(reason, []).append(name)
    return [f"left out: {', '.join(these)} ({reason})" for reason, these in names.items()]


def _inlined(pixels: np.ndarray) -> str:
    """A picture as the address of its own WebP file, lossless."""
    file = iio.imwrite("<bytes>", pixels, extension=".webp", lossless=True)
    return "data:image/webp;base64," + base64.b64encode(file).decode("ascii")
