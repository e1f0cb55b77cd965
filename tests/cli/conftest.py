"""Blank figures for the tests of commands, most of whose time the drawing would take."""

import pytest
from matplotlib.figure import Figure

import coordnet.cli.fit
import coordnet.cli.reconstruct
import coordnet.cli.restore
import coordnet.cli.sureness
import coordnet.comparison.table  # noqa: F401

FIGURES = (
    "cli.reconstruct.reconstruction_figure",
    "cli.fit.reconstruction_figure",
    "cli.restore.restoration_figure",
    "cli.sureness.uncertainty_figure",
    "comparison.table.comparison_figure",
)


@pytest.fixture(autouse=True)
def blank_figures(request, monkeypatch, coarse):
    """Commands draw blank figures, unless the test is marked ``figures``; and coarse ones."""
    if "figures" not in request.keywords:
        for name in FIGURES:
            monkeypatch.setattr(f"coordnet.{name}", lambda *_, **__: Figure((1, 1)))
