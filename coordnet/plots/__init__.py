"""Figures of reconstructions, restorations, comparisons, encodings and models."""

from coordnet.plots.comparison import Shown, comparison_figure
from coordnet.plots.encodings import (
    encoder_figure,
    show_distance,
    show_reconstruction,
    show_shares,
    show_similarity,
    show_singular_values,
    show_spectrum,
    show_stable_rank,
    show_theory_in_legend,
)
from coordnet.plots.model import model_figure, plane, show_variance
from coordnet.plots.reconstruction import (
    reconstruction_figure,
    sampled_picture,
    show_error,
    show_image,
    show_row,
)
from coordnet.plots.restoration import restoration_figure

__all__ = [
    "Shown",
    "comparison_figure",
    "encoder_figure",
    "model_figure",
    "plane",
    "reconstruction_figure",
    "restoration_figure",
    "sampled_picture",
    "show_distance",
    "show_error",
    "show_image",
    "show_reconstruction",
    "show_row",
    "show_shares",
    "show_similarity",
    "show_singular_values",
    "show_spectrum",
    "show_stable_rank",
    "show_theory_in_legend",
    "show_variance",
]
