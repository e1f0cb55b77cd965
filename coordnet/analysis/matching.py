"""Scales of equal stable rank."""

import math

from coordnet import _checks

PRODUCT = 1 / (2 * math.sqrt(2) * math.pi)  # σ_g σ_f ≈ 0.1125


def matched_scale(sigma: float) -> float:
    """The RFF σ_f of the Gaussian σ_g of equal stable rank, or the Gaussian one of an RFF: σ_g σ_f = 1/(2√2 π).

    Equating 1/(2√π σ_g) and √(2π) σ_f; lengths in units of the unit interval, frequencies in cycles over it.

    Notes
    -----
    Zheng et al., "Rethinking Positional Encoding" (2021).
    """
    return PRODUCT / _checks.positive("sigma", sigma)
