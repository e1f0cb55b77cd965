"""A figure that shows itself."""

import io
from typing import Any

from matplotlib import figure


class Figure(figure.Figure):
    """A figure that a notebook shows, whether or not matplotlib's inline backend is active there."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


Drawn = tuple[Figure, dict[str, Any]]  # a figure and its numbers
