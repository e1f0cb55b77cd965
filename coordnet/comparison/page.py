"""The HTML of a comparison: a table for notebooks, and a page with a sortable table and a slider for each method."""

import base64
from typing import Any

import imageio.v3 as iio
import numpy as np
from jinja2 import Environment, PackageLoader


def render(template: str, **context: Any) -> str:
    """Return the HTML of a template of this folder; texts of the context are escaped."""
    loader = PackageLoader("coordnet", "comparison")
    return Environment(loader=loader, autoescape=True, trim_blocks=True).get_template(template).render(context)


def inlined(pixels: np.ndarray) -> str:
    """A picture as the address of its own WebP file, lossless, so that a page needs nothing beside it."""
    file = iio.imwrite("<bytes>", pixels, extension=".webp", lossless=True)
    return "data:image/webp;base64," + base64.b64encode(file).decode("ascii")
