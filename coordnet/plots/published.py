"""The papers' figures of encodings: each function returns the drawn figure and its numbers."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from matplotlib.axes import Axes

from coordnet.analysis import (
    distance_preservation,
    frequency_density,
    matched_scale,
    position_reconstruction,
    printed_weights,
    stable_rank,
)
from coordnet.encodings import encoders
from coordnet.encodings.blending import similarity_weights
from coordnet.plots.encodings import (
    show_distance,
    show_reconstruction,
    show_spectrum,
    show_stable_rank,
    show_theory_in_legend,
)
from coordnet.plots.figure import Drawn, Figure
from coordnet.plots.positions import figure_boxes, figure_frequencies, figure_similarity
from coordnet.sampling.axes import Axis

LENGTH, SHOWN, POSITIONS = 256, 80, (5, 40, 75)  # Idé et al. (2024): d, S and the positions of their figure


def figure_2(counts: tuple[int, ...] = (64, 128, 256, 512)) -> Drawn:
    """Stable rank of the Gaussian against σ for several N, with min(N, 1/(2√π σ)) dashed (Zheng et al., 2022)."""
    figure = Figure(figsize=(6.5, 4.5), layout="constrained")
    ax, numbers = figure.subplots(), {}
    sigmas = torch.logspace(-3.3, -1, 24, dtype=torch.float64).tolist()
    for i, count in enumerate(counts):
        bases = {sigma: encoders.Gaussian(2 * count, sigma) for sigma in sigmas}
        numbers[f"N={count}"] = _draw_ranks_over_scale(ax, bases, count, f"N = {count}", f"C{i}")
    show_theory_in_legend(ax).set_title("Stable rank of the Gaussian encoder")
    return figure, numbers


def _draw_ranks_over_scale(
    ax: Axes, bases: Mapping[float, encoders.Encoder], count: int, label: str, color: str
) -> dict[str, Any]:
    x, sigmas = Axis(count).points(), list(bases)
    measured, theory = [stable_rank(b(x)) for b in bases.values()], [b.stable_rank(count) for b in bases.values()]
    show_stable_rank(ax, sigmas, measured, theory, label=label, color=color)
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
        "RFF σ = 11.3": encoders.RandomFourier(features, matched_scale(0.01)),
    }
    counts = [8, 16, 24, 32, 48, 64, 96, 128, 192, 256]
    delta = torch.linspace(-0.05, 0.05, 201, dtype=torch.float64)
    figure = Figure(figsize=(12, 4.5), layout="constrained")
    (left, right), numbers = figure.subplots(1, 2), {}
    for i, (label, encoder) in enumerate(made.items()):
        measured = [stable_rank(encoder(Axis(n).points())) for n in counts]
        theory = [encoder.stable_rank(n) for n in counts]
        show_stable_rank(left, counts, measured, theory, label=label, color=f"C{i}")
        numbers[label] = {"N": counts, "measured": measured, "theory": theory}
        numbers[label] |= _draw_distance(right, encoder, delta, encoder.similarity(delta), label, f"C{i}")
    left.set(xlabel="number of samples N", yscale="log", title="Stable rank")
    show_theory_in_legend(right).legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    right.set(title="Distance preservation")
    return figure, numbers


def _draw_distance(
    ax: Axes, encoder: encoders.Encoder, delta: torch.Tensor, theory: torch.Tensor, label: str, color: str
) -> dict[str, Any]:
    numbers = {"delta": delta, "distance": distance_preservation(encoder, delta), "D": theory}
    found = {name: values.tolist() for name, values in numbers.items()}
    show_distance(ax, *found.values(), label=label, color=color)
    return found


def figure_4(count: int = 256, features: int = 1024) -> Drawn:
    """Stable rank against σ, and distance preservation, of Gaussian and RFF (Zheng et al., 2022)."""
    delta, numbers = torch.linspace(-0.1, 0.1, 201, dtype=torch.float64), {}
    figure = Figure(figsize=(11, 8), layout="constrained")
    families: list[tuple[str, Any, list[float], tuple[float, ...]]] = [
        ("Gaussian", encoders.Gaussian, torch.logspace(-3, -1, 24).tolist(), (0.003, 0.01, 0.03)),
        ("RFF", encoders.RandomFourier, torch.logspace(0, 2.2, 24).tolist(), (37.5, 11.25, 3.75)),
    ]
    for (left, right), (name, family, sigmas, chosen) in zip(figure.subplots(2, 2), families, strict=True):
        bases = {sigma: family(features, sigma) for sigma in sigmas}
        numbers[name] = _draw_ranks_over_scale(left, bases, count, f"{name}, N = {count}", "C0")
        show_theory_in_legend(left).set_title(f"{name}: stable rank")
        for i, sigma in enumerate(chosen):
            encoder = family(features, sigma)
            limit = encoder.similarity(delta)
            if name == "RFF":  # the limit of infinitely many frequencies
                limit = torch.exp(-2 * math.pi**2 * sigma**2 * delta.square())
            numbers[name][f"D at {sigma}"] = _draw_distance(right, encoder, delta, limit, f"σ = {sigma}", f"C{i}")
        show_theory_in_legend(right).set_title(f"{name}: distance preservation")
    return figure, numbers


def figure_6(spacing: float = 1 / 256) -> Drawn:
    """Weight α₀ of the node before a point at the fraction β of a spacing (Zheng et al., 2022).

    The encoders have the scales of their table 2; the printed similarity of the triangle is another than its own.
    """
    triangle, beta = encoders.Triangle(256, 2.5 / 256), torch.linspace(0, 1, 101, dtype=torch.float64)
    similarities = {
        "Gaussian σ = 0.005": encoders.Gaussian(256, 0.005).similarity,
        "triangle": triangle.similarity,
        "triangle, printed D": triangle.printed_similarity,
        "RFF σ = 30": encoders.RandomFourier(256, 30.0).similarity,
    }
    numbers: dict[str, Any] = {"beta": beta.tolist(), "linear": (1 - beta).tolist()}
    numbers |= {name: similarity_weights(d, spacing, beta)[:, 0].tolist() for name, d in similarities.items()}
    figure = Figure(figsize=(6.5, 4.5), layout="constrained")
    ax = figure.subplots()
    for name in [*similarities, "linear"]:
        ax.plot(numbers["beta"], numbers[name], ":" if name == "linear" else "-", label=name)
    ax.set(xlabel="β", ylabel="α₀", title="Blending weight of the left node")
    ax.legend()
    return figure, numbers


def figure_spectrum(length: int = LENGTH) -> Drawn:
    """Density of sinusoidal and DFT frequencies over DFT bins (Idé et al., 2024)."""
    sinusoidal, dft = _angular(length)
    figure = Figure(figsize=(6.5, 4.5), layout="constrained")
    ax, numbers = figure.subplots(), {}
    first = 2 * math.pi / length
    for i, (label, w) in enumerate({"sinusoidal": sinusoidal, "DFT": dft}.items()):
        density, bins = frequency_density(w, length).tolist(), (w / first).tolist()
        show_spectrum(ax, bins, density, label=label, color=f"C{i}", below=0.004 * (i + 1))
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
        "sinusoidal": frequency_density(sinusoidal, length),
        "DFT, Eq. 22 as printed": printed_weights(length),
    }
    figure = Figure(figsize=(7, 7), layout="constrained")
    numbers: dict[str, Any] = {}
    for ax, position in zip(figure.subplots(len(POSITIONS), 1, sharex=True), POSITIONS, strict=True):
        for i, (label, g) in enumerate(weights.items()):
            back = position_reconstruction(g, position, length)[:SHOWN].tolist()
            if i < 2:  # the printed weights differ by 1/256, which cannot be seen
                show_reconstruction(ax, back, position, label=label, color=f"C{1 - i}")
            numbers.setdefault(label, {})[str(position)] = back
            error = max(abs(value - (t == position)) for t, value in enumerate(back))
            numbers.setdefault("largest error", {}).setdefault(label, error)
        ax.set_title(f"position {position}", fontsize=10)
        ax.label_outer()
    figure.axes[0].legend(fontsize=8, loc="upper right")  # position 5 leaves it free
    return figure, numbers


def _angular(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    w = 2 * math.pi * encoders.Sinusoidal(length, 1.0).frequencies
    return w, 2 * math.pi / length * torch.arange(length // 2 + 1, dtype=torch.float64)


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
