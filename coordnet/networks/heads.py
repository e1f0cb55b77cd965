"""Heads: widths, activation and initialization of the layers on an encoding."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Shaped
from torch import Tensor

from coordnet import _checks

__docformat__ = "numpy"
__all__ = ["MLP", "Finer", "GaussianMLP", "Head", "Linear", "Siren", "Wire"]

DEEPEST = 1000  # hidden layers: a network of more cannot be trained


@dataclass(frozen=True)
class Head:
    """The widths, activation and initialization of a network's layers; this one has no hidden layers."""

    name: ClassVar[str]  # the head's name in the registry
    complex: ClassVar[bool] = False  # whether the hidden layers are complex

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the hidden layers."""
        return ()

    def activation(self, x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        """The activation of a layer's output x."""
        return x.relu()

    def bounds(self, fan_in: int, layer: int) -> tuple[float, float]:
        """The half-widths of the uniform draws of weights and biases: 1/√fan-in, as in ``nn.Linear``."""
        return 1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in)


@dataclass(frozen=True)
class Linear(Head):
    """A linear head: one weight per feature and channel, without a bias on a complex encoding.

    A fit by gradient starts from uniform draws within ±1/√fan-in, or with ``init="uniform"`` within ±1/√3, as in the
    code of Zheng et al. (ECCV 2022).
    """

    name: ClassVar[str] = "linear"
    init: Literal["fan-in", "uniform"] = "fan-in"

    def __post_init__(self) -> None:
        _checks.choice("init", self.init, ("fan-in", "uniform"))

    def bounds(self, fan_in: int, layer: int) -> tuple[float, float]:
        return super().bounds(3 if self.init == "uniform" else fan_in, layer)


@dataclass(frozen=True)
class MLP(Head):
    """A multilayer perceptron with ReLU activations: ``depth`` hidden layers of ``width`` units; depth 0 is linear."""

    name: ClassVar[str] = "mlp"
    depth: int = 4
    width: int = 256

    def __post_init__(self) -> None:
        if _checks.integer("depth", self.depth, 0) > DEEPEST:
            raise _checks.wrong("depth", f"at most {DEEPEST}", self.depth)
        _checks.integer("width", self.width, 1)
        for scale in ("omega", "scale", "bias"):
            if hasattr(self, scale):
                _checks.positive(scale, getattr(self, scale))

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.width,) * self.depth


@dataclass(frozen=True)
class Siren(MLP):
    """A multilayer perceptron with sin(ω₀ x) activations and their initialization (SIREN).

    Weights are uniform within ±1/fan-in in the first layer and ±√(6/fan-in)/ω₀ after it, so that ω₀ times the pre-
    activations has variance 1 in every layer but the first. ``omega`` is ω₀. Source: Sitzmann et al., "Implicit Neural
    Representations with Periodic Activation Functions" (NeurIPS 2020), section 3.2 and theorem 1.8 of its supplement.
    Its coordinates are in [-1, 1]: ``Identity`` with a gain of 2 has their span.
    """

    name: ClassVar[str] = "siren"
    omega: float = 30.0

    def activation(self, x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        """sin(ω₀ x)."""
        return torch.sin(self.omega * x)

    def bounds(self, fan_in: int, layer: int) -> tuple[float, float]:
        weight = 1 / fan_in if layer == 0 else math.sqrt(6 / fan_in) / self.omega
        return weight, 1 / math.sqrt(fan_in)


@dataclass(frozen=True)
class Finer(Siren):
    """A multilayer perceptron with sin(ω₀ (|x| + 1) x) activations, SIREN's weights and wider first biases.

    ``bias`` is the half-width of the uniform draw of the first layer's biases. Source: Liu et al., "FINER: Flexible
    Spectral-bias Tuning in Implicit Neural Representation by Variable-periodic Activation Functions" (CVPR 2024),
    equations 4 to 6. The factor |x| + 1 is held fixed in the derivative, as in their code.
    """

    name: ClassVar[str] = "finer"
    bias: float = 1.0

    def activation(self, x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        """sin(ω₀ (|x| + 1) x), with the factor |x| + 1 held fixed in the derivative."""
        return torch.sin(self.omega * (x.detach().abs() + 1) * x)

    def bounds(self, fan_in: int, layer: int) -> tuple[float, float]:
        weight, bias = super().bounds(fan_in, layer)
        return weight, self.bias if layer == 0 else bias


@dataclass(frozen=True)
class GaussianMLP(MLP):
    """A multilayer perceptron with exp(-x² / (2a²)) activations; ``scale`` is a.

    Source: Ramasinghe and Lucey, "Beyond Periodicity: Towards a Unifying Framework for Activations in Coordinate-MLPs"
    (ECCV 2022), table 1.
    """

    name: ClassVar[str] = "gaussian"
    scale: float = 0.1

    def activation(self, x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        """exp(-x² / (2a²))."""
        return torch.exp(-0.5 * (x / self.scale).square())


@dataclass(frozen=True)
class Wire(MLP):
    """Complex layers with Gabor activations exp(iω₀x) exp(-|s₀x|²); the output is the real part (WIRE).

    ``omega`` is the frequency ω₀, ``scale`` the inverse width s₀, and the width that of complex units. Source:
    Saragadam et al., "WIRE: Wavelet Implicit Neural Representations" (CVPR 2023), equation 4.
    """

    name: ClassVar[str] = "wire"
    complex: ClassVar[bool] = True
    omega: float = 10.0
    scale: float = 10.0

    def activation(self, x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        """exp(iω₀x - |s₀x|²) for real or complex x."""
        z = x if x.is_complex() else torch.complex(x, torch.zeros_like(x))
        return torch.exp(1j * self.omega * z - (self.scale * z.abs()).square())


HEADS: dict[str, type[Head]] = {h.name: h for h in (Linear, MLP, Siren, Finer, GaussianMLP, Wire)}


def head_from(configuration: dict[str, Any]) -> Head:
    """Construct a head from its configuration; a ``ValueError`` is raised if it is not that of a head."""
    options = dict(configuration)
    kind = HEADS.get(options.pop("kind", ""))
    if kind is None:
        raise _checks.wrong("configuration", "that of a head: " + ", ".join(HEADS), configuration)
    return kind(**options)


def head_configuration(head: Head) -> dict[str, Any]:
    """Return the configuration that ``head_from`` takes, as JSON holds it."""
    return {"kind": head.name, **asdict(head)}


def labelled(name: str, options: Mapping[str, Any]) -> str:
    """A name with its options, as the command line reads them."""
    parts = [key if value is True else f"{key}={_text(value)}" for key, value in options.items()]
    return f"{name}:{','.join(parts)}" if parts else name


def head_label(head: Head) -> str:
    """The name of a head with the attributes that are not the default ones."""
    values = ((f, getattr(head, f.name)) for f in fields(head))
    return labelled(head.name, {f.name: value for f, value in values if value != f.default})


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
