"""Choices of a head: how wide, which activation, which initialisation."""

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from coordnet import _checks


@dataclass(frozen=True)
class Head:
    """What every choice of a head tells."""

    name: ClassVar[str]
    complex: ClassVar[bool] = False

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the hidden layers: none."""
        return ()

    def bounds(self, fan_in: int, layer: int) -> tuple[float, float]:
        """Half-widths of the uniform draws of weights and biases: 1/√fan-in, as ``nn.Linear`` has it."""
        return 1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in)


@dataclass(frozen=True)
class Linear(Head):
    """The choice of a linear head: one weight a feature and channel, no bias on a complex encoding."""

    name: ClassVar[str] = "linear"


@dataclass(frozen=True)
class MLP(Head):
    """The choice of a multilayer perceptron with ReLU.

    Attributes
    ----------
    depth : int
        Number of hidden layers; 0 is linear.
    width : int
        Units of each.

    Raises
    ------
    ValueError
        If the depth is negative or the width below 1.
    """

    name: ClassVar[str] = "mlp"

    depth: int = 4
    width: int = 256

    def __post_init__(self) -> None:
        _checks.integer("depth", self.depth, 0)
        _checks.integer("width", self.width, 1)
        for scale in ("omega", "scale", "bias"):
            if hasattr(self, scale):
                _checks.positive(scale, getattr(self, scale))

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the hidden layers."""
        return (self.width,) * self.depth

    def activation(self) -> nn.Module:
        """A layer's activation."""
        return nn.ReLU()


@dataclass(frozen=True)
class Siren(MLP):
    """The choice of sin(ω₀ x) activations, with their initialisation.

    Weights are uniform within ±1/fan-in in the first layer and ±√(6/fan-in)/ω₀ after it, so that ω₀ times the
    pre-activations has variance 1 in every layer but the first.

    Attributes
    ----------
    omega : float
        ω₀.

    Notes
    -----
    Sitzmann et al., "Implicit Neural Representations with Periodic Activation Functions" (NeurIPS 2020), section 3.2
    and theorem 1.8 of its supplement. Its coordinates are in [-1, 1]: ``Identity`` with a gain of 2 has their span.
    """

    name: ClassVar[str] = "siren"

    omega: float = 30.0

    def activation(self) -> nn.Module:
        """A layer's activation."""
        return Activation(siren, self.omega)

    def bounds(self, fan_in: int, layer: int) -> tuple[float, float]:
        """Half-widths of the uniform draws of weights and biases."""
        weight = 1 / fan_in if layer == 0 else math.sqrt(6 / fan_in) / self.omega
        return weight, 1 / math.sqrt(fan_in)


@dataclass(frozen=True)
class Finer(Siren):
    """The choice of sin(ω₀ (|x| + 1) x) activations, with SIREN's weights and wider first biases.

    Attributes
    ----------
    bias : float
        Half-width of the uniform draw of the first layer's biases.

    Notes
    -----
    Liu et al., "FINER: Flexible Spectral-bias Tuning in Implicit Neural Representation by Variable-periodic Activation
    Functions" (CVPR 2024), equations 4 to 6. The factor |x| + 1 is held fixed in the derivative, as their code has it.
    """

    name: ClassVar[str] = "finer"

    bias: float = 1.0

    def activation(self) -> nn.Module:
        """A layer's activation."""
        return Activation(finer, self.omega)

    def bounds(self, fan_in: int, layer: int) -> tuple[float, float]:
        """Half-widths of the uniform draws of weights and biases."""
        weight, bias = super().bounds(fan_in, layer)
        return weight, self.bias if layer == 0 else bias


@dataclass(frozen=True)
class GaussianMLP(MLP):
    """The choice of exp(-x² / (2a²)) activations.

    Attributes
    ----------
    scale : float
        a.

    Notes
    -----
    Ramasinghe and Lucey, "Beyond Periodicity: Towards a Unifying Framework for Activations in Coordinate-MLPs"
    (ECCV 2022), table 1.
    """

    name: ClassVar[str] = "gaussian"

    scale: float = 0.1

    def activation(self) -> nn.Module:
        """A layer's activation."""
        return Activation(gaussian, self.scale)


@dataclass(frozen=True)
class Wire(MLP):
    """The choice of complex Gabor activations, exp(iω₀x) exp(-|s₀x|²), on complex layers; the real part is the output.

    Attributes
    ----------
    omega, scale : float
        ω₀ and s₀.

    Notes
    -----
    Saragadam et al., "WIRE: Wavelet Implicit Neural Representations" (CVPR 2023), equation 4. A complex unit has twice
    the parameters of a real one; the width is that of complex units.
    """

    name: ClassVar[str] = "wire"
    complex: ClassVar[bool] = True

    omega: float = 10.0
    scale: float = 10.0

    def activation(self) -> nn.Module:
        """A layer's activation."""
        return Activation(gabor, self.omega, self.scale)


HEADS: dict[str, type[Head]] = {h.name: h for h in (Linear, MLP, Siren, Finer, GaussianMLP, Wire)}


def head_from(configuration: dict[str, Any]) -> Head:
    """Construct the choice of a head from its configuration.

    Raises
    ------
    ValueError
        If the configuration is no head's.
    """
    options = dict(configuration)
    kind = HEADS.get(options.pop("kind", ""))
    if kind is None:
        raise _checks.wrong("configuration", "of a head: " + ", ".join(HEADS), configuration)
    return kind(**options)


def head_configuration(head: Head) -> dict[str, Any]:
    """What ``head_from`` needs, as JSON holds it."""
    return {"kind": head.name, **asdict(head)}


def siren(x: Float[Tensor, "*shape"], omega: float) -> Float[Tensor, "*shape"]:
    """sin(ω₀ x)."""
    return torch.sin(omega * x)


def finer(x: Float[Tensor, "*shape"], omega: float) -> Float[Tensor, "*shape"]:
    """sin(ω₀ (|x| + 1) x), the factor held fixed in the derivative."""
    return torch.sin(omega * (x.detach().abs() + 1) * x)


def gaussian(x: Float[Tensor, "*shape"], scale: float) -> Float[Tensor, "*shape"]:
    """exp(-x² / (2a²))."""
    return torch.exp(-0.5 * (x / scale).square())


def gabor(x: Shaped[Tensor, "*shape"], omega: float, scale: float) -> Shaped[Tensor, "*shape"]:
    """exp(iω₀x - |s₀x|²) of real or complex x."""
    z = x if x.is_complex() else torch.complex(x, torch.zeros_like(x))
    return torch.exp(1j * omega * z - (scale * z.abs()).square())


class Activation(nn.Module):
    """A function of a layer's output and its scales.

    Parameters
    ----------
    function : function
        Of the output and the scales.
    *scales : float
        Positive.
    """

    def __init__(self, function: Any, *scales: float) -> None:
        super().__init__()
        self.function, self.scales = function, scales

    def forward(self, x: Tensor) -> Tensor:
        """The function at x."""
        return self.function(x, *self.scales)


class ComplexLinear(nn.Module):
    """W z + b with complex W and b, kept as real and imaginary parts so that casts of a module leave them whole.

    Parameters
    ----------
    fan_in, fan_out : int
        Complex numbers in and out.
    real : bool
        Return the real part alone.
    """

    def __init__(self, fan_in: int, fan_out: int, real: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, fan_out, fan_in))
        self.bias = nn.Parameter(torch.empty(2, fan_out))
        self.real = real

    def forward(self, z: Tensor) -> Tensor:
        """Evaluate at complex z."""
        out = nn.functional.linear(z, torch.complex(*self.weight), torch.complex(*self.bias))
        return out.real if self.real else out
