"""Learnable Fourier features of multi-dimensional positions."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders.base import Parameter, Spacings
from coordnet.encodings.encoders.joint import AxisScales, JointEncoder
from coordnet.sampling.axes import Axes

_ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU}


class LearnableFourier(JointEncoder):
    """PE = concat over groups of act(F W₁ + B₁) W₂ + B₂ with F = (1/√|F|) [cos XWᵀ, sin XWᵀ].

    The d coordinates are G groups of M; the weights are shared by the groups, each of which gives K/G features. W
    is drawn from N(0, γ⁻²) or from γ⁻¹ U[0, 1], and kept in units of γ⁻¹.

    Parameters
    ----------
    dimensions, features : int
        d and K (the paper's D), multiples of the groups; without the modulator K is G |F|.
    gamma : float or tuple of float
        γ, the width of the similarity, in units of the unit interval; ``learnable`` trains it beside W.
    fourier, hidden, groups : int
        |F|, even, twice the number of rows of W; |H|, the width of the modulator, 0 for none; and G.
    activation, initial : str
        "gelu" or "relu" for the modulator, and "normal" or "uniform" for W, which is drawn with seed 0 by default.
    fixed, layer_norm : bool
        Whether W is not trained, and whether each dense projection has a normalized input.
    dropout : float
        The rate after the activation while training; it draws from torch's global generator.

    Raises
    ------
    ValueError
        If an argument is out of its range or the groups do not divide.

    Notes
    -----
    Li et al., "Learnable Fourier Features for Multi-Dimensional Spatial Positional Encoding" (NeurIPS 2021),
    Algorithm 1; dropout and LayerNorm are in its appendix. F·F' is ½ exp(-‖δ‖² / (2γ²)) in the mean over W.
    """

    name = "learnable-fourier"
    summary = "trained Fourier features and a modulating MLP"
    scales = (Parameter("gamma", "length", Spacings(1.0), "width of the similarity"),)
    random = True

    def __init__(
        self,
        dimensions: int,
        features: int,
        gamma: AxisScales,
        fourier: int = 384,
        hidden: int = 32,
        groups: int = 1,
        activation: str = "gelu",
        initial: str = "normal",
        fixed: bool = False,
        layer_norm: bool = False,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(dimensions, features, gamma=gamma, **rest)
        _checks.choice("activation", activation, _ACTIVATIONS)
        _checks.choice("initial", initial, ("normal", "uniform"))
        if not 0 <= _checks.nonnegative("dropout", dropout) < 1:
            raise _checks.wrong("dropout", "a rate of at least 0 and below 1", dropout)
        _check_groups(dimensions, features, fourier, hidden, groups)
        self.fourier, self.hidden, self.groups, self.dropout = fourier, hidden, groups, float(dropout)
        self.activation, self.initial, self.fixed = activation, initial, bool(fixed)
        self.layer_norm = bool(layer_norm)
        generator = generator or torch.Generator().manual_seed(0)
        draw = torch.randn if initial == "normal" else torch.rand
        draws = draw(fourier // 2, dimensions // groups, generator=generator)
        self.frequencies = nn.Parameter(draws, requires_grad=not fixed)
        self.log_variance = nn.Parameter(torch.zeros(()))
        self.modulator = _modulator(self, features // groups, generator) if hidden else nn.Sequential()

    def waves(self, x: Float[Tensor, "*points d"]) -> Float[Tensor, "*points g f"]:
        """F of each group, before the modulator."""
        scaled = x / self.per_axis("gamma", x)
        phase = scaled.unflatten(-1, (self.groups, -1)) @ self.frequencies.to(x).T
        return torch.cat([phase.cos(), phase.sin()], dim=-1) / math.sqrt(self.fourier)

    def encode(self, x: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """ψ at points x, before the gain."""
        weights = {name: value.to(x) for name, value in self.modulator.named_parameters()}
        return torch.func.functional_call(self.modulator, weights, (self.waves(x),)).flatten(-2)

    def similarity(self, delta: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape"]:
        """The mean of cos w·δ/γ over the groups and the rows of W; with a modulator, by quadrature."""
        if self.hidden:
            return super().similarity(delta)
        scaled = (delta / self.per_axis("gamma", delta)).unflatten(-1, (self.groups, -1))
        return (scaled @ self.frequencies.to(delta).T).cos().mean((-1, -2))

    def divergence(self) -> Float[Tensor, ""]:
        """L_KL = -½ (1 - log σ̄² + log σ² - (σ² + μ²)/σ̄²), with the mean μ and the variance σ² of W's entries.

        It is zero where W has mean 0 and variance σ̄², whose logarithm is trained from 0 on, in units of γ⁻².
        """
        mean, variance = self.frequencies.mean(), self.frequencies.var(correction=0)
        prior = self.log_variance.to(variance)
        return -0.5 * (1 - prior + variance.log() - (variance + mean.square()) / prior.exp())

    @classmethod
    def for_axes(cls, axes: Axes, features: int | None, **arguments: Any) -> "LearnableFourier":
        """Construct with 768 features by default, or the G |F| that there are without a modulator."""
        if features is None and arguments.get("hidden") == 0:
            features = arguments.get("groups", 1) * arguments.get("fourier", 384)
        return cls(len(axes), features or 768, **arguments)


def _check_groups(dimensions: int, features: int, fourier: int, hidden: int, groups: int) -> None:
    _checks.integer("groups", groups, 1)
    _checks.integer("hidden", hidden, 0)
    if _checks.integer("fourier", fourier, 2) % 2:
        raise _checks.wrong("fourier", "an even number, a cosine and a sine for each frequency", fourier)
    if dimensions % groups:
        raise _checks.wrong("groups", f"a divisor of the {dimensions} dimensions", groups)
    if features % groups:
        raise _checks.wrong("groups", f"a divisor of the {features} features", groups)
    if not hidden and features != groups * fourier:
        raise _checks.wrong("features", f"{groups * fourier}, groups × fourier, without a modulator", features)


def _modulator(encoder: LearnableFourier, outputs: int, generator: torch.Generator) -> nn.Sequential:
    layers: list[nn.Module] = []
    for fan_in, fan_out in ((encoder.fourier, encoder.hidden), (encoder.hidden, outputs)):
        if layers:
            layers.append(_ACTIVATIONS[encoder.activation]())
            layers.append(nn.Dropout(encoder.dropout))
        if encoder.layer_norm:
            layers.append(nn.LayerNorm(fan_in))
        linear = nn.utils.skip_init(nn.Linear, fan_in, fan_out)
        for parameter in linear.parameters():
            bound = 1 / math.sqrt(fan_in)
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        layers.append(linear)
    return nn.Sequential(*layers)
