"""What a saved model learned: its spectrum as a figure, its fit as numbers."""

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from coordnet.analysis import condition_number, linear_fit_rank, similarity_map, singular_values, stable_rank
from coordnet.analysis.sweeps import known
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.encodings import show_similarity, show_singular_values, show_variance
from coordnet.sampling.axes import Axis, lattice_points

WINDOW = 64  # neighbouring samples along each axis of a heat map
RANK = 1e-5  # singular values of a rendered channel below this share of the largest count as zero


def model_figure(model: Reconstruction) -> tuple[Figure, dict[str, Any]]:
    """What an adaptive prior learned, a panel for each channel; of other models the encoding as it is fitted.

    Raises
    ------
    ValueError
        If the model has nothing to show: a Fourier encoding without a learned spectrum.
    """
    numbers: dict[str, Any] = {
        "grid": list(model.grid),
        "channels": model.channels,
        "parameters": model.network.parameter_count,
        "report": model.report,
    }
    if len(model.grid) == 2:
        numbers["rank of each channel"] = list(linear_fit_rank(model, RANK))
    if "penalty" in model.learned:
        drawn, found = _spectrum_figure(model)
    elif isinstance(model.network.encoding, FourierEncoding):
        raise ValueError(
            "`model`: expected one with an adaptive prior or another encoder, received a Fourier one without a spectrum"
        )
    else:
        drawn, found = _encoding_figure(model)
    return drawn, {**numbers, **found}


def _spectrum_figure(model: Reconstruction) -> tuple[Figure, dict[str, Any]]:
    variance = 10 * torch.log10(1 / model.learned["penalty"][0].clamp(min=1e-6))
    figure = Figure(figsize=(4.6 * len(variance), 4.2), layout="constrained")
    signed = isinstance(model.network.encoding, FourierEncoding)
    for c, ax in enumerate(figure.subplots(1, len(variance), squeeze=False)[0]):
        show_variance(
            ax, plane(variance[c], signed), f"rotated channel {c + 1} of {len(variance)}", signed=signed
        )
    return figure, {"variance_db": {"least": float(variance.min()), "most": float(variance.max())}}


def _encoding_figure(model: Reconstruction) -> tuple[Figure, dict[str, Any]]:
    """Singular values of its matrices, and the similarity of two positions to all others where there are two axes."""
    encoding, axes = model.network.encoding, tuple(Axis(min(n, WINDOW), 0.0, 1 / n) for n in model.grid)
    if isinstance(encoding, ComplexEncoding):
        matrices = encoding.designs(tuple(Axis(n) for n in model.grid))
    else:
        matrices = [encoding(lattice_points(axes)).flatten(0, -2)]
    plane_nodes = [tuple(a.count // part for a in axes) for part in (4, 2)] if len(axes) == 2 else []
    figure = Figure(figsize=(4.2 * (len(matrices) + len(plane_nodes)), 3.8), layout="constrained")
    panels = figure.subplots(1, len(matrices) + len(plane_nodes), squeeze=False)[0]
    for j, (ax, matrix) in enumerate(zip(panels, matrices, strict=False)):
        show_singular_values(ax, singular_values(matrix).tolist()).set_title(f"matrix {j + 1}", fontsize=9)
    if plane_nodes:
        maps = similarity_map(encoding, axes, torch.tensor(plane_nodes))
        for ax, values, node in zip(panels[len(matrices) :], maps, plane_nodes, strict=True):
            show_similarity(ax, values, f"similarity, at {node}")
        figure.colorbar(panels[-1].images[0], ax=panels[-1], shrink=0.8)
    measured = [{"stable_rank": stable_rank(a), "condition": known(condition_number(a))} for a in matrices]
    return figure, {"matrices": measured}


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
