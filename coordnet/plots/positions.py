"""The figures of Li et al., "Learnable Fourier Features" (NeurIPS 2021): similarity of positions, and frequencies."""

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.axes import Axes as Plot
from torch import Tensor

from coordnet.encodings import ComplexEncoding, Encoding, JointEncoding, SimpleEncoding, encoders
from coordnet.fitting.gradient import fit_gradient
from coordnet.media import load
from coordnet.networks.heads import MLP
from coordnet.networks.network import CoordinateNetwork
from coordnet.plots.encodings import show_similarities, show_similarity
from coordnet.plots.figure import Drawn, Figure
from coordnet.sampling.axes import Axis
from coordnet.sampling.patterns import sample

GAMMA, FOURIER, EPOCHS = 0.1, 128, 150
GROUPS = {"1/4": (1, 128), "2/2": (2, 64), "4/1": (4, 32)}  # their table 6: groups and |F|
BOX = (0.3, 0.2, 0.5, 0.6)  # top, left, bottom, right


def figure_similarity(side: int = 64, epochs: int = EPOCHS) -> Drawn:
    """Similarity of five positions to all others: simple, complex, learnable Fourier before and after training.

    The positions are the paper's, (4, 4), (4, 57), (31, 31), (57, 4) and (57, 57) of a 64² grid, and in proportion on
    others. With the MLP the similarity is still that of the Fourier features (Eq. 2), as in the paper, not of the
    MLP's output. The training fits scikit-image's astronaut, reduced to the grid; the paper trains on other tasks.
    """
    axes = (Axis(side), Axis(side))
    low, middle, high = (round(at * (side - 1) / 63) for at in (4, 31, 57))
    nodes = [[low, low], [low, high], [middle, middle], [high, low], [high, high]]
    plain, modulated = drawn(side, 0), drawn(side, 32)
    rows: dict[str, Encoding] = {
        "sinusoidal, simple": SimpleEncoding([encoders.Sinusoidal(128, 1 / side)] * 2),
        "Gaussian, simple": SimpleEncoding([encoders.Gaussian(128, 0.05, padding=16)] * 2),
        "Gaussian, complex": ComplexEncoding([encoders.Gaussian(128, 0.05, padding=16)] * 2),
        "learnable Fourier, drawn": JointEncoding(plain.unmodulated()),
        "the same, trained": JointEncoding(trained(plain, side, epochs).unmodulated()),
        "below an MLP, trained": JointEncoding(trained(modulated, side, epochs).unmodulated()),
    }
    figure = Figure(figsize=(9.5, 11.6), layout="constrained")
    panels, numbers = figure.subplots(len(rows), len(nodes)), {}
    for line, (label, encoding) in zip(panels, rows.items(), strict=True):
        numbers[label] = {"nodes": nodes, **show_similarities(line, encoding, axes, nodes)}
        line[0].set_ylabel(label.replace(", ", ",\n"), fontsize=9)
    figure.colorbar(panels[0, 0].images[0], ax=panels, shrink=0.5, label="cosine similarity")
    return figure, numbers


def drawn(side: int, hidden: int) -> encoders.LearnableFourier:
    """Return learnable Fourier features of a grid, with an MLP of ``hidden`` values or none, as they are drawn."""
    axes, features = (Axis(side), Axis(side)), 64 if hidden else FOURIER
    return encoders.LearnableFourier.like(axes, gamma=GAMMA, fourier=FOURIER, hidden=hidden, features=features)


def trained(encoder: encoders.LearnableFourier, side: int, epochs: int) -> encoders.LearnableFourier:
    """Return a trained copy of an encoder, below an MLP that fits the astronaut on a grid."""
    step = 512 // side
    pixels = load("astronaut")[: step * side, : step * side].unflatten(0, (side, step)).unflatten(2, (side, step))
    network = CoordinateNetwork(JointEncoding(encoder), MLP(1, 32), channels=3)
    fit: Any = fit_gradient(network, sample(pixels.mean((1, 3)), "full"), epochs=epochs)
    return fit.network.encoding.encoder


def figure_boxes(side: int = 42, gamma: float = 0.3) -> Drawn:
    """Similarity of one box to others, by the Fourier features of its four coordinates in 1, 2 and 4 groups.

    A box is (top, left, bottom, right). On the left the other boxes have its size and move over a grid; on the right
    they have its center, and their height and width vary. The features are as drawn, with width ``gamma``.
    """
    figure = Figure(figsize=(6.5, 8.8), layout="constrained")
    panels, numbers = figure.subplots(len(GROUPS), 2), {}
    top, left, bottom, right = BOX
    at = (torch.arange(side, dtype=torch.float64) + 0.5) / side
    first, second = torch.meshgrid(at, at, indexing="ij")
    center, size = ((top + bottom) / 2, (left + right) / 2), (bottom - top, right - left)
    moved = _boxes((first, second), [torch.full_like(first, extent) for extent in size])
    resized = _boxes([torch.full_like(first, c) for c in center], (first, second))
    for line, (label, (groups, fourier)) in zip(panels, GROUPS.items(), strict=True):
        encoder = encoders.LearnableFourier(4, groups * fourier, gamma, fourier, 0, groups)
        maps = [_similarity(encoder, boxes) for boxes in (moved, resized)]
        for ax, values, title in zip(line, maps, ("boxes of its size", "boxes at its center"), strict=True):
            show_similarity(ax, values, title)
        line[0].set(xlabel="center, horizontal", ylabel=f"groups {label}\ncenter, vertical")
        line[1].set(xlabel="width", ylabel="height")
        numbers[label] = {name: float(values.min()) for name, values in zip(("moved", "resized"), maps, strict=True)}
    figure.colorbar(panels[0, 0].images[0], ax=panels, shrink=0.5, label="cosine similarity")
    return figure, numbers


def _boxes(center: Sequence[Tensor], size: Sequence[Tensor]) -> Tensor:
    """Return (top, left, bottom, right) of boxes by their centers and sizes."""
    pairs = list(zip(center, size, strict=True))
    return torch.stack([c - s / 2 for c, s in pairs] + [c + s / 2 for c, s in pairs], -1)


@torch.no_grad()
def _similarity(encoder: encoders.LearnableFourier, boxes: Tensor) -> Tensor:
    """Return the cosine of the features of ``BOX`` and of other boxes, all of which have the norm √(G/2)."""
    own = encoder(torch.tensor(BOX, dtype=boxes.dtype))
    return encoder(boxes) @ own / own.square().sum()


def figure_frequencies(side: int = 64, epochs: int = EPOCHS) -> Drawn:
    """Histograms of the entries of W, in units of 1/γ: as drawn and trained, without and with the MLP.

    The dashed curve is the density from which they are drawn. The training is that of ``figure_similarity``.
    """
    figure = Figure(figsize=(9.5, 3.4), layout="constrained")
    numbers = {}
    for ax, (label, hidden) in zip(figure.subplots(1, 2, sharey=True), {"no MLP": 0, "MLP": 32}.items(), strict=True):
        before = drawn(side, hidden)
        after = trained(before, side, epochs)
        entries = {"drawn": before.frequencies, "trained": after.frequencies}
        numbers[label] = _show_histogram(ax, {k: w.detach().flatten() for k, w in entries.items()})
        ax.set(xlabel="entry of W, in units of 1/γ", title=label)
    figure.axes[0].set_ylabel("density")
    figure.axes[0].legend(fontsize=8)
    return figure, numbers


def _show_histogram(ax: Plot, entries: dict[str, Tensor]) -> dict[str, dict[str, float]]:
    bins = torch.linspace(-5, 5, 41)
    for name, values in entries.items():
        ax.hist(values.tolist(), bins.tolist(), density=True, alpha=0.5, label=name)
    ax.plot(bins, torch.exp(-bins.square() / 2) / (2 * torch.pi) ** 0.5, "k--", lw=1, label="N(0, 1)")
    return {name: {"mean": float(w.mean()), "deviation": float(w.std())} for name, w in entries.items()}
