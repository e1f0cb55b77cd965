"""Pictures of encodings: each function takes an ``ax``, draws what it is given, and returns the ``ax``."""

from collections.abc import Sequence

from jaxtyping import Float
from matplotlib.axes import Axes as Plot
from torch import Tensor

Curve = Sequence[float] | Sequence[int]


def show_stable_rank(
    ax: Plot, at: Curve, measured: Curve, theory: Curve | None = None, *, label: str, colour: str
) -> Plot:
    """Measured stable rank as a line and the theory dashed over it, against a scale or a number of samples."""
    ax.plot(at, measured, color=colour, lw=1.8, label=label)
    if theory is not None:
        ax.plot(at, theory, "--", color="black", lw=1.0, alpha=0.7)
    ax.set_ylabel("stable rank")
    return ax


def show_distance(
    ax: Plot, delta: Curve, measured: Curve, theory: Curve | None = None, *, label: str, colour: str
) -> Plot:
    """Inner product of ψ(x) and ψ(x + δ) against δ, measured as a line and the closed form dashed."""
    ax.plot(delta, measured, color=colour, lw=1.8, label=label)
    if theory is not None:
        ax.plot(delta, theory, "--", color="black", lw=1.0, alpha=0.7)
    ax.set(xlabel="distance δ", ylabel="similarity D(δ)")
    return ax


def show_theory_in_legend(ax: Plot) -> Plot:
    """Name the dashed lines once, below the curves' own labels."""
    ax.plot([], [], "--", color="black", lw=1.0, alpha=0.7, label="theory")
    ax.legend(fontsize=8)
    return ax


def show_similarity(ax: Plot, similarity: Float[Tensor, "height width"], title: str) -> Plot:
    """A heat map of the similarity of one point of a grid to all others."""
    ax.imshow(similarity.cpu().numpy(), vmin=-1, vmax=1, cmap="RdBu_r", interpolation="nearest")
    ax.set_title(title, fontsize=9)
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def show_singular_values(ax: Plot, values: Curve) -> Plot:
    """Singular values, falling, on a logarithmic axis, in units of the largest."""
    relative = [max(v / values[0], 1e-18) for v in values]
    ax.semilogy(range(1, len(values) + 1), relative, color="C0")
    ax.set(xlabel="index", ylabel="singular value / largest", ylim=(min(relative[-1] / 3, 0.03), 3))
    return ax


def show_spectrum(
    ax: Plot, frequencies: Curve, density: Curve, *, label: str, colour: str, below: float
) -> Plot:
    """The density of an encoder's frequencies over DFT bins k, and the frequencies as ticks ``below`` zero."""
    ax.plot(range(len(density)), density, color=colour, lw=1.8, label=label)
    ax.plot(frequencies, [-below] * len(frequencies), "|", color=colour, ms=7, alpha=0.6)
    ax.set(xlabel="DFT bin k", ylabel="density of frequencies")
    return ax


def show_shares(ax: Plot, shares: Curve) -> Plot:
    """The share of each DFT bin k in an encoder's spectrum."""
    ax.plot(range(len(shares)), shares, color="C0", lw=1.5)
    ax.set(xlabel="DFT bin k", ylabel="share of the spectrum", ylim=(0, 1.1 * max(shares)))
    return ax


def show_reconstruction(ax: Plot, values: Curve, position: int, *, label: str, colour: str) -> Plot:
    """What an encoding gives back of the position, and where the position was."""
    ax.plot(range(len(values)), values, color=colour, lw=1.5, label=label)
    ax.axvline(position, color="0.6", ls=":", lw=1)
    ax.set(xlabel="position t", ylabel="reconstructed δ")
    return ax


def show_variance(ax: Plot, variance: Float[Tensor, "..."], title: str, *, signed: bool) -> Plot:
    """Draw learned variances in dB over one axis of modes or two, frequency zero in the middle where signed."""
    values = variance.cpu().numpy()
    low = -(values.shape[-1] // 2) if signed else 0
    label = "signed frequency" if signed else "mode"
    if values.ndim == 1:
        ax.plot(range(low, low + len(values)), values, lw=0.6)
        ax.set(xlabel=label, ylabel="variance (dB, against the noise)", title=title)
        return ax
    bottom = -(values.shape[0] // 2) if signed else 0
    span = (low, low + values.shape[1], bottom + values.shape[0], bottom)
    drawn = ax.imshow(values, cmap="magma", extent=span, aspect="auto")
    ax.set(xlabel=f"horizontal {label}", ylabel=f"vertical {label}", title=title)
    ax.figure.colorbar(drawn, ax=ax, label="variance (dB, against the noise)", fraction=0.046, pad=0.02)
    return ax
