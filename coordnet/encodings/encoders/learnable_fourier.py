"""Learnable Fourier features of multi-dimensional positions, and the small network that modulates them."""

import itertools
import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders.feature_map import AxisScales, JointEncoder
from coordnet.encodings.encoders.scale_parameters import Parameter, Spacings
from coordnet.sampling.axes import Axes


class Modulator(nn.Sequential):
    """GeLU(F W₁ + B₁) W₂ + B₂ for rows F of ``inputs`` features; the result has ``features`` columns.

    ``hidden`` is the number of columns of W₁. ``layer_norm`` normalizes the input of each dense layer, and ``dropout``
    drops a share of the hidden values in training, both as in the authors' experiments on images. The weights and
    biases are uniform within ±1/√(rows), drawn by the ``generator``. A ``ValueError`` is raised if an argument is out
    of its range.

    Source: Li et al. (NeurIPS 2021), algorithm 1, lines 2 and 3; their first version has ReLU.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        features: int,
        generator: torch.Generator,
        *,
        layer_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        if not 0 <= _checks.nonnegative("dropout", dropout) < 1:
            raise _checks.wrong("dropout", "a share below 1", dropout)
        sizes = (inputs, _checks.integer("hidden", hidden, 1), _checks.integer("features", features, 1))
        first, last = [_drawn(fan_in, fan_out, generator) for fan_in, fan_out in itertools.pairwise(sizes)]
        if layer_norm:
            first, last = nn.Sequential(nn.LayerNorm(inputs), first), nn.Sequential(nn.LayerNorm(hidden), last)
        super().__init__(first, nn.Sequential(nn.GELU(), nn.Dropout(dropout)), last)


def _drawn(fan_in: int, fan_out: int, generator: torch.Generator) -> nn.Module:
    layer = nn.utils.skip_init(nn.Linear, fan_in, fan_out)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -(fan_in**-0.5), fan_in**-0.5, generator=generator)
    return layer


def cast_to_input(module: nn.Module, x: Tensor) -> Tensor:
    """Return a module's output for rows x, with its parameters in the dtype and on the device of x."""
    weights = {name: value.to(x) for name, value in module.named_parameters()}
    return torch.func.functional_call(module, weights, (x,))


class LearnableFourier(JointEncoder):
    """PE = concat over groups of GeLU(F W₁ + B₁) W₂ + B₂ with F = (1/√|F|) [cos XWᵀ, sin XWᵀ].

    The d coordinates are G ``groups`` of M; the weights are shared by the groups, each of which gives K/G features. W
    is drawn from N(0, γ⁻²), and stored in units of γ⁻¹; ``gamma``, the width of the similarity in units of the unit
    interval, is trained too if ``learnable``. ``fourier`` is |F|, which is even: twice the number of rows of W.
    ``hidden`` is the width |H| of the modulator, or 0 for none, which requires K = G |F|; ``layer_norm`` and
    ``dropout`` are those of ``Modulator``.

    For comparison, ``fixed`` keeps W as it was drawn, and ``uniform`` draws it from U[0, 1], in units of γ⁻¹.

    Source: Li et al., "Learnable Fourier Features for Multi-Dimensional Spatial Positional Encoding" (NeurIPS 2021),
    Algorithm 1. F·F' is ½ exp(-‖δ‖² / (2γ²)) in the mean over W.
    """

    usual_features = 768
    name = "learnable-fourier"
    summary = "trained Fourier features and a modulating MLP"
    scales = (Parameter("gamma", "length", Spacings(1.0), "width of the similarity"),)
    random = True
    gamma: AxisScales
    fourier: int = 384
    hidden: int = 32
    groups: int = 1
    layer_norm: bool = False
    dropout: float = 0.0
    fixed: bool = False
    uniform: bool = False

    def _draw(self, generator: torch.Generator) -> None:
        self._check_groups()
        draw = torch.rand if self.uniform else torch.randn
        draws = draw(self.fourier // 2, self.dimensions // self.groups, generator=generator)
        self.frequencies = nn.Parameter(draws, requires_grad=not self.fixed)
        self.log_variance = nn.Parameter(torch.zeros(()))
        norm: dict[str, Any] = {"layer_norm": self.layer_norm, "dropout": self.dropout}
        sizes = (self.fourier, self.hidden, self.features // self.groups)
        self.modulator = Modulator(*sizes, generator, **norm) if self.hidden else nn.Sequential()

    def _check_groups(self) -> None:
        groups = _checks.integer("groups", self.groups, 1)
        if _checks.integer("fourier", self.fourier, 2) % 2:
            raise _checks.wrong("fourier", "an even number, a cosine and a sine for each frequency", self.fourier)
        if self.dimensions % groups:
            raise _checks.wrong("groups", f"a divisor of the {self.dimensions} dimensions", groups)
        if self.features % groups:
            raise _checks.wrong("groups", f"a divisor of the {self.features} features", groups)
        if not _checks.integer("hidden", self.hidden, 0) and self.features != groups * self.fourier:
            expected = f"{groups * self.fourier}, groups × fourier, without a modulator"
            raise _checks.wrong("features", expected, self.features)

    def _phases(self, x: Tensor) -> Float[Tensor, "*points g m"]:
        scaled = x / self.per_axis("gamma", x)
        return scaled.unflatten(-1, (self.groups, -1)) @ self.frequencies.to(x).T

    def waves(self, x: Float[Tensor, "*points d"]) -> Float[Tensor, "*points g f"]:
        """The Fourier features F of each group of coordinates (Eq. 2), which the modulator follows."""
        phases = self._phases(x)
        return torch.cat([phases.cos(), phases.sin()], dim=-1) / math.sqrt(self.fourier)

    def encode(self, x: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        return cast_to_input(self.modulator, self.waves(x)).flatten(-2)

    def unmodulated(self) -> "LearnableFourier":
        """A fixed encoder of the Fourier features alone, with the present W and γ: K = G |F|, without the modulator."""
        sizes = self.groups * self.fourier, self.scale("gamma"), self.fourier, 0, self.groups
        other = LearnableFourier(self.dimensions, *sizes, fixed=True)
        other.frequencies.data = self.frequencies.detach().clone()
        return other

    def similarity(self, delta: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape"]:
        """The mean of cos w·δ/γ over the groups and the rows of W; with a modulator, by quadrature."""
        return super().similarity(delta) if self.hidden else self._phases(delta).cos().mean((-1, -2))

    def divergence(self) -> Float[Tensor, ""]:
        """L_KL = -½ (1 - log σ̄² + log σ² - (σ² + μ²)/σ̄²), with the mean μ and the variance σ² of W's entries.

        It is zero where W has mean 0 and variance σ̄², whose logarithm is trained from 0 on, in units of γ⁻².
        """
        mean, variance = self.frequencies.mean(), self.frequencies.var(correction=0)
        prior = self.log_variance.to(variance)
        return -0.5 * (1 - prior + variance.log() - (variance + mean.square()) / prior.exp())

    @classmethod
    def _suited(cls, axes: Axes, features: int | None, given: dict[str, Any]) -> dict[str, Any]:
        if features is None and given.get("hidden") == 0:  # without a modulator there are G |F| features
            features = given.get("groups", 1) * given.get("fourier", 384)
        return super()._suited(axes, features, given)
