"""Blank figures for the tests of commands, most of whose time the drawing would take."""

import pytest
from matplotlib.figure import Figure


@pytest.fixture(autouse=True)
def blank_figures(request, monkeypatch, coarse):
    """Commands write blank figures, unless the test is marked ``figures``; and coarse ones."""
    if "figures" not in request.keywords:
        write = Figure.savefig
        monkeypatch.setattr(Figure, "savefig", lambda _, path, **__: write(Figure((1, 1)), path))
