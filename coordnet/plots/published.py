"""The papers' figures of encodings: each function returns the drawn figure and its numbers.

Those of positions and frequencies are of Li et al., "Learnable Fourier Features" (NeurIPS 2021).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from matplotlib.axes import Axes as Plot
from torch import Tensor

from coordnet.analysis import measures
from coordnet.analysis.measures import stable_rank
from coordnet.encodings import ComplexEncoding, Encoding, JointEncoding, SimpleEncoding, encoders
from coordnet.encodings.blending import similarity_weights
from coordnet.fitting.gradient import fit_gradient
from coordnet.media import load
from coordnet.networks.heads import MLP
from coordnet.networks.network import CoordinateNetwork
from coordnet.plots import encodings as plots
from coordnet.plots.panels import Drawn, Figure
from coordnet.sampling.axes import Axis
from coordnet.sampling.patterns import sample

GAMMA, FOURIER, FIGURE_EPOCHS = 0.1, 128, 150
PUBLISHED_GROUPS = {"1/4": (1, 128), "2/2": (2, 64), "4/1": (4, 32)}  # groups and |F| in table 6 of Li et al.
BOX = (0.3, 0.2, 0.5, 0.6)  # top, left, bottom, right
LENGTH, SHOWN, POSITIONS = 256, 80, (5, 40, 75)  # Idé et al. (2024): d, S and the positions of their figure


def figure_2(counts: tuple[int, ...] = (64, 128, 256, 512)) -> Drawn:
    """Stable rank of the Gaussian against σ for several N, with min(N, 1/(2√π σ)) dashed (Zheng et al., 2022)."""
    figure = Figure(6.5, 4.5)
    ax, numbers = figure.subplots(), {}
    sigmas = torch.logspace(-3.3, -1, 24, dtype=torch.float64).tolist()
    for i, count in enumerate(counts):
        bases = {sigma: encoders.Gaussian(2 * count, sigma) for sigma in sigmas}
        numbers[f"N={count}"] = _draw_ranks_over_scale(ax, bases, count, f"N = {count}", f"C{i}")
    plots.show_theory_in_legend(ax).set_title("Stable rank of the Gaussian encoder")
    return figure, numbers


def _draw_ranks_over_scale(
    ax: Plot, bases: Mapping[float, encoders.Encoder], count: int, label: str, color: str
) -> dict[str, Any]:
    x, sigmas = Axis(count).points(), list(bases)
    measured, theory = [stable_rank(b(x)) for b in bases.values()], [b.stable_rank(count) for b in bases.values()]
    plots.show_stable_rank(ax, sigmas, measured, theory, label=label, color=color)
    ax.set(xscale="log", yscale="log", xlabel="σ")
    return {"sigma": sigmas, "measured": measured, "theory": theory}


def figure_3(features: int = 1024) -> Drawn:
    """Stable rank against N, and distance preservation, of seven encoders (Zheng et al., 2022)."""
    made: dict[str, encoders.Encoder] = {
        "impulse": encoders.Impulse(features),
        "rectangle d = 0.02": encoders.Rectangle(features, 0.02),
        "triangle d = 0.02": encoders.Triangle(features, 0.01),
        "sine": encoders.Sine(features, 1.0),
        "square": encoders.Square(features, 1.0),
        "Gaussian σ = 0.01": encoders.Gaussian(features, 0.01),
        "RFF σ = 11.3": encoders.RandomFourier(features, measures.matched_scale(0.01), generator=seeded()),
    }
    counts = [8, 16, 24, 32, 48, 64, 96, 128, 192, 256]
    delta = torch.linspace(-0.05, 0.05, 201, dtype=torch.float64)
    figure = Figure(12, 4.5)
    (left, right), numbers = figure.subplots(1, 2), {}
    for i, (label, encoder) in enumerate(made.items()):
        measured = [stable_rank(encoder(Axis(n).points())) for n in counts]
        theory = [encoder.stable_rank(n) for n in counts]
        plots.show_stable_rank(left, counts, measured, theory, label=label, color=f"C{i}")
        numbers[label] = {"N": counts, "measured": measured, "theory": theory}
        numbers[label] |= _draw_distance(right, encoder, delta, encoder.similarity(delta), label, f"C{i}")
    left.set(xlabel="number of samples N", yscale="log", title="Stable rank")
    plots.show_theory_in_legend(right).legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    right.set(title="Distance preservation")
    return figure, numbers


def _draw_distance(
    ax: Plot, encoder: encoders.Encoder, delta: Tensor, theory: Tensor, label: str, color: str
) -> dict[str, Any]:
    numbers = {"delta": delta, "distance": measures.distance_preservation(encoder, delta), "D": theory}
    plain = {name: values.tolist() for name, values in numbers.items()}
    plots.show_distance(ax, *plain.values(), label=label, color=color)
    return plain


def figure_4(count: int = 256, features: int = 1024) -> Drawn:
    """Stable rank against σ, and distance preservation, of Gaussian and RFF (Zheng et al., 2022)."""
    delta, numbers = torch.linspace(-0.1, 0.1, 201, dtype=torch.float64), {}
    figure = Figure(11, 8)
    families: list[tuple[str, Any, list[float], tuple[float, ...]]] = [
        ("Gaussian", encoders.Gaussian, torch.logspace(-3, -1, 24).tolist(), (0.003, 0.01, 0.03)),
        ("RFF", encoders.RandomFourier, torch.logspace(0, 2.2, 24).tolist(), (37.5, 11.25, 3.75)),
    ]
    for (left, right), (name, family, sigmas, chosen) in zip(figure.subplots(2, 2), families, strict=True):
        bases = {sigma: family(features, sigma) for sigma in sigmas}
        numbers[name] = _draw_ranks_over_scale(left, bases, count, f"{name}, N = {count}", "C0")
        plots.show_theory_in_legend(left).set_title(f"{name}: stable rank")
        for i, sigma in enumerate(chosen):
            encoder = family(features, sigma)
            limit = encoder.similarity(delta)
            if name == "RFF":  # the limit of infinitely many frequencies
                limit = torch.exp(-2 * math.pi**2 * sigma**2 * delta.square())
            numbers[name][f"D at {sigma}"] = _draw_distance(right, encoder, delta, limit, f"σ = {sigma}", f"C{i}")
        plots.show_theory_in_legend(right).set_title(f"{name}: distance preservation")
    return figure, numbers


def figure_6(spacing: float = 1 / 256) -> Drawn:
    """Weight α₀ of the node before a point at the fraction β of a spacing, with the scales of Zheng et al., table 2."""
    triangle, beta = encoders.Triangle(256, 2.5 / 256), torch.linspace(0, 1, 101, dtype=torch.float64)
    similarities = {
        "Gaussian σ = 0.005": encoders.Gaussian(256, 0.005).similarity,
        "triangle": triangle.similarity,
        "triangle, printed D": triangle.printed_similarity,
        "RFF σ = 30": encoders.RandomFourier(256, 30.0, generator=seeded()).similarity,
    }
    numbers: dict[str, Any] = {"beta": beta.tolist(), "linear": (1 - beta).tolist()}
    numbers |= {name: similarity_weights(d, spacing, beta)[:, 0].tolist() for name, d in similarities.items()}
    figure = Figure(6.5, 4.5)
    ax = figure.subplots()
    for name in [*similarities, "linear"]:
        ax.plot(numbers["beta"], numbers[name], ":" if name == "linear" else "-", label=name)
    ax.set(xlabel="β", ylabel="α₀", title="Blending weight of the left node")
    ax.legend()
    return figure, numbers


def figure_spectrum(length: int = LENGTH) -> Drawn:
    """Density of sinusoidal and DFT frequencies over DFT bins (Idé et al., 2024)."""
    sinusoidal, dft = _angular(length)
    figure = Figure(6.5, 4.5)
    ax, numbers = figure.subplots(), {}
    first = 2 * math.pi / length
    for i, (label, w) in enumerate({"sinusoidal": sinusoidal, "DFT": dft}.items()):
        density, bins = measures.frequency_density(w, length).tolist(), (w / first).tolist()
        plots.show_spectrum(ax, bins, density, label=label, color=f"C{i}", below=0.004 * (i + 1))
        numbers[label] = {"bins": bins, "density": density}
    below, printed = int((sinusoidal < first).sum()), round(length / 4 * math.log10(length / (2 * math.pi)))
    counted = {"sinusoidal": below, "of": len(sinusoidal), "paper's count of entries": printed}
    numbers["below the first DFT frequency"] = counted
    share = f"{below} of {len(sinusoidal)} sinusoidal frequencies lie below bin 1; the paper counts {printed} entries"
    ax.set_title(f"Frequencies over DFT bins, d = {length}\n{share}", fontsize=10)
    ax.legend()
    return figure, numbers


def figure_faithfulness(length: int = LENGTH) -> Drawn:
    """Positions 5, 40 and 75 reconstructed from the sinusoidal and the DFT encoding (Idé et al., 2024).

    The DFT encoding is there with flat weights, by which it is exact, and with those that their Eq. 22 prints. The
    numbers have the largest error of each at position 5.
    """
    sinusoidal, _ = _angular(length)
    weights = {
        "DFT": torch.ones(length // 2 + 1),
        "sinusoidal": measures.frequency_density(sinusoidal, length),
        "DFT, Eq. 22 as printed": measures.printed_weights(length),
    }
    figure = Figure(7, 7)
    numbers: dict[str, Any] = {}
    for ax, position in zip(figure.subplots(len(POSITIONS), 1, sharex=True), POSITIONS, strict=True):
        for i, (label, g) in enumerate(weights.items()):
            back = measures.position_reconstruction(g, position, length)[:SHOWN].tolist()
            if i < 2:  # the printed weights differ by 1/256, which cannot be seen
                plots.show_reconstruction(ax, back, position, label=label, color=f"C{1 - i}")
            numbers.setdefault(label, {})[str(position)] = back
            error = max(abs(value - (t == position)) for t, value in enumerate(back))
            numbers.setdefault("largest error", {}).setdefault(label, error)
        ax.set_title(f"position {position}", fontsize=10)
        ax.label_outer()
    figure.axes[0].legend(fontsize=8, loc="upper right")  # position 5 leaves it free
    return figure, numbers


def _angular(length: int) -> tuple[Tensor, Tensor]:
    w = 2 * math.pi * encoders.Sinusoidal(length, 1.0).frequencies
    return w, 2 * math.pi / length * torch.arange(length // 2 + 1, dtype=torch.float64)


def figure_similarity(side: int = 64, epochs: int = FIGURE_EPOCHS) -> Drawn:
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
    figure = Figure(9.5, 11.6)
    panels, numbers = figure.subplots(len(rows), len(nodes)), {}
    for line, (label, encoding) in zip(panels, rows.items(), strict=True):
        numbers[label] = {"nodes": nodes, **plots.show_similarities(line, encoding, axes, nodes)}
        line[0].set_ylabel(label.replace(", ", ",\n"), fontsize=9)
    figure.colorbar(panels[0, 0].images[0], ax=panels, shrink=0.5, label="cosine similarity")
    return figure, numbers


def seeded() -> torch.Generator:
    """Return the generator of seed 0: a figure draws the same numbers each time."""
    return torch.Generator().manual_seed(0)


def drawn(side: int, hidden: int) -> encoders.LearnableFourier:
    """Return learnable Fourier features of a grid, with an MLP of ``hidden`` values or none, as they are drawn."""
    axes, features = (Axis(side), Axis(side)), 64 if hidden else FOURIER
    options = {"gamma": GAMMA, "fourier": FOURIER, "hidden": hidden, "features": features, "generator": seeded()}
    return encoders.LearnableFourier.like(axes, **options)


def trained(encoder: encoders.LearnableFourier, side: int, epochs: int) -> encoders.LearnableFourier:
    """Return a trained copy of an encoder, below an MLP that fits the astronaut on a grid."""
    step = 512 // side
    pixels = load("astronaut")[: step * side, : step * side].unflatten(0, (side, step)).unflatten(2, (side, step))
    network = CoordinateNetwork(JointEncoding(encoder), MLP(1, 32), channels=3, generator=seeded())
    fit: Any = fit_gradient(network, sample(pixels.mean((1, 3)), "full"), epochs=epochs)
    return fit.network.encoding.encoder


@torch.no_grad()
def figure_boxes(side: int = 42, gamma: float = 0.3) -> Drawn:
    """Similarity of one box to others, by the Fourier features of its four coordinates in 1, 2 and 4 groups.

    A box is (top, left, bottom, right). On the left the other boxes have its size and move over a grid; on the right
    they have its center, and their height and width vary. The features are as drawn, with width ``gamma``.
    """
    figure = Figure(6.5, 8.8)
    panels, numbers = figure.subplots(len(PUBLISHED_GROUPS), 2), {}
    top, left, bottom, right = BOX
    at = (torch.arange(side, dtype=torch.float64) + 0.5) / side
    first, second = torch.meshgrid(at, at, indexing="ij")
    center, size = ((top + bottom) / 2, (left + right) / 2), (bottom - top, right - left)
    moved = _boxes((first, second), [torch.full_like(first, extent) for extent in size])
    resized = _boxes([torch.full_like(first, c) for c in center], (first, second))
    for line, (label, (groups, fourier)) in zip(panels, PUBLISHED_GROUPS.items(), strict=True):
        encoder = encoders.LearnableFourier(4, groups * fourier, gamma, fourier, 0, groups, generator=seeded())
        own = encoder(torch.tensor(BOX, dtype=at.dtype))  # the features of every box have the norm √(G/2)
        maps = [encoder(boxes) @ own / own.square().sum() for boxes in (moved, resized)]
        for ax, values, title in zip(line, maps, ("boxes of its size", "boxes at its center"), strict=True):
            plots.show_similarity(ax, values, title)
        line[0].set(xlabel="center, horizontal", ylabel=f"groups {label}\ncenter, vertical")
        line[1].set(xlabel="width", ylabel="height")
        numbers[label] = {name: float(values.min()) for name, values in zip(("moved", "resized"), maps, strict=True)}
    figure.colorbar(panels[0, 0].images[0], ax=panels, shrink=0.5, label="cosine similarity")
    return figure, numbers


def _boxes(center: Sequence[Tensor], size: Sequence[Tensor]) -> Tensor:
    """Return (top, left, bottom, right) of boxes by their centers and sizes."""
    pairs = list(zip(center, size, strict=True))
    return torch.stack([c - s / 2 for c, s in pairs] + [c + s / 2 for c, s in pairs], -1)


def figure_frequencies(side: int = 64, epochs: int = FIGURE_EPOCHS) -> Drawn:
    """Histograms of the entries of W, in units of 1/γ: as drawn and trained, without and with the MLP.

    The dashed curve is the density from which they are drawn. The training is that of ``figure_similarity``.
    """
    figure, bins = Figure(9.5, 3.4), torch.linspace(-5, 5, 41)
    numbers: dict[str, Any] = {}
    for ax, (label, hidden) in zip(figure.subplots(1, 2, sharey=True), {"no MLP": 0, "MLP": 32}.items(), strict=True):
        before = drawn(side, hidden)
        after = trained(before, side, epochs)
        numbers[label] = {}
        for name, encoder in {"drawn": before, "trained": after}.items():
            w = encoder.frequencies.detach().flatten()
            ax.hist(w.tolist(), bins.tolist(), density=True, alpha=0.5, label=name)
            numbers[label][name] = {"mean": float(w.mean()), "deviation": float(w.std())}
        ax.plot(bins, torch.exp(-bins.square() / 2) / (2 * torch.pi) ** 0.5, "k--", lw=1, label="N(0, 1)")
        ax.set(xlabel="entry of W, in units of 1/γ", title=label)
    figure.axes[0].set_ylabel("density")
    figure.axes[0].legend(fontsize=8)
    return figure, numbers


FIGURES: dict[str, Callable[[], Drawn]] = {
    "2": figure_2,
    "3": figure_3,
    "4": figure_4,
    "6": figure_6,
    "spectrum": figure_spectrum,
    "faithfulness": figure_faithfulness,
    "similarity": figure_similarity,
    "similarity-42": partial(figure_similarity, side=42),
    "boxes": figure_boxes,
    "frequencies": figure_frequencies,
}
