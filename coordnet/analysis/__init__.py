"""Measures of an encoding: rank, distance preservation, spectrum, faithfulness."""

from coordnet.analysis.distance import distance_preservation, similarity_map
from coordnet.analysis.faithfulness import (
    encoder_spectrum,
    frequency_density,
    is_faithful,
    least_distance,
    position_reconstruction,
    printed_weights,
)
from coordnet.analysis.matrices import condition_number, linear_fit_rank, singular_values, stable_rank
from coordnet.analysis.spectra import Sweep, matched_scale, rank_over_samples, rank_over_scale
from coordnet.analysis.summary import EncoderSummary, summarize

__docformat__ = "numpy"
__all__ = [
    "EncoderSummary",
    "Sweep",
    "condition_number",
    "distance_preservation",
    "encoder_spectrum",
    "frequency_density",
    "is_faithful",
    "least_distance",
    "linear_fit_rank",
    "matched_scale",
    "position_reconstruction",
    "printed_weights",
    "rank_over_samples",
    "rank_over_scale",
    "similarity_map",
    "singular_values",
    "stable_rank",
    "summarize",
]
