"""What a saved model learned: its spectrum as a figure, its fit as numbers."""

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from coordnet.encodings import FourierEncoding
from coordnet.plots_analysis import show_variance
from coordnet.reconstruction import Reconstruction


def model_figure(model: Reconstruction) -> tuple[Figure, dict[str, Any]]:
    """A panel for each channel's learned variances; its render where nothing was learned.

    Raises
    ------
    ValueError
        If the model has no spectrum to show: it was not fitted with an adaptive prior.
    """
    if "precision" not in model.learned:
        raise ValueError(
            "`model`: expected one fitted with an adaptive prior, received one without a spectrum"
        )
    variance = 10 * torch.log10(1 / model.learned["precision"][0].clamp(min=1e-6))
    figure = Figure(figsize=(4.6 * len(variance), 4.2), layout="constrained")
    signed = isinstance(model.network.encoding, FourierEncoding)
    for c, ax in enumerate(figure.subplots(1, len(variance), squeeze=False)[0]):
        show_variance(
            ax, plane(variance[c], signed), f"rotated channel {c + 1} of {len(variance)}", signed=signed
        )
    numbers = {
        "grid": list(model.grid),
        "channels": model.channels,
        "parameters": model.network.parameter_count,
        "report": model.report,
        "variance_db": {"least": float(variance.min()), "most": float(variance.max())},
    }
    return figure, numbers


def plane(variance: Tensor, signed: bool) -> Tensor:
    """The spectrum over its last two axes (its only one), the others at frequency zero, zero in the middle.

    A half spectrum, which has the last axis's frequencies from zero on, is completed by its mirror image.
    """
    while variance.ndim > 2:
        variance = variance[0]
    if not signed:
        return variance
    mirrored = variance[..., 1:].flip(-1)
    if variance.ndim == 2:
        mirrored = mirrored.flip(0).roll(1, 0)
        variance, mirrored = (torch.fft.fftshift(part, dim=0) for part in (variance, mirrored))
    return torch.cat([mirrored, variance], dim=-1)
