"""What makes an encoding good: rank, distance, spectrum, faithfulness."""

from coordnet.analysis.distance import distance_preservation, similarity_map
from coordnet.analysis.faithfulness import frequency_density, position_reconstruction
from coordnet.analysis.matching import matched_scale
from coordnet.analysis.matrices import condition_number, linear_fit_rank, singular_values, stable_rank
from coordnet.analysis.summary import EncoderSummary, summarise

__all__ = [
    "EncoderSummary",
    "condition_number",
    "distance_preservation",
    "frequency_density",
    "linear_fit_rank",
    "matched_scale",
    "position_reconstruction",
    "similarity_map",
    "singular_values",
    "stable_rank",
    "summarise",
]
