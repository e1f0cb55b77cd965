"""Coordinate networks: a head on an encoding."""

import math
from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.networks.fourier import FourierLinear
from coordnet.networks.heads import Head
from coordnet.networks.layers import Activation, ComplexLinear, KroneckerLinear
from coordnet.sampling.axes import Axes, lattice_points


class CoordinateNetwork(nn.Module):
    """A head applied to an encoding: a function of points in [0, 1)^d.

    On a complex encoding the first layer is a ``KroneckerLinear``; further layers act on each point.

    Parameters
    ----------
    encoding, head, channels
        The function is head(encoding(x)), with ``channels`` outputs.
    generator : torch.Generator, optional
        The source of the initial weights, uniform within the head's bounds; by default one with seed 0.
    weight : (channels, K₁, …, K_d), optional
        The solution of a closed-form fit, for a linear head on a complex or Fourier encoding.

    Raises
    ------
    ValueError
        If a Fourier encoding has no weight, or the number of channels is below 1.
    """

    def __init__(
        self,
        encoding: Encoding,
        head: Head,
        channels: int = 3,
        *,
        generator: torch.Generator | None = None,
        weight: Float[Tensor, "..."] | None = None,
    ) -> None:
        super().__init__()
        self.encoding = encoding
        self.head = head
        self.channels = _checks.integer("channels", channels, 1)
        widths = (*head.widths, channels)
        generator = generator or torch.Generator().manual_seed(0)
        self.first = self._first_layer(widths[0], weight, generator)
        rest: list[nn.Module] = []
        for layer, (fan_in, fan_out) in enumerate(zip(widths, widths[1:], strict=False), 1):
            kind = partial(ComplexLinear, real=layer == len(head.widths)) if head.complex else _real
            rest += [Activation(head), _linear(kind, fan_in, fan_out, head, layer, generator)]
        self.rest = nn.Sequential(*rest)

    def _first_layer(self, width: int, weight: Tensor | None, generator: torch.Generator) -> nn.Module:
        encoding = self.encoding
        if isinstance(encoding, FourierEncoding):
            if weight is None:
                raise _checks.wrong("weight", "the solution of a closed-form fit, for a Fourier encoding", "none")
            return FourierLinear(weight)
        if weight is not None:
            return KroneckerLinear(weight)
        if encoding.is_factored:
            return _kronecker_linear(encoding.shape, width, self.head, generator)
        return _linear(_real, encoding.shape[0], width, self.head, 0, generator)

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points channels"]:
        """Evaluate at points in units of the unit interval."""
        return self.rest(self.first(self.encoding(points)))

    def on_lattice(self, axes: Axes, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Evaluate on the lattice that axes span, (*lattice, channels), by mode products if the encoding allows it."""
        if not self.encoding.is_factored:
            return self(lattice_points(axes, dtype, device))
        return self.rest(self.first.on_axes(self.encoding, axes))  # type: ignore[operator]

    @property
    def is_separable(self) -> bool:
        """Whether the network is linear in the product of one encoding per axis, so that lattices need no points."""
        return self.encoding.is_factored and not self.head.widths

    @property
    def parameter_count(self) -> int:
        """The weights and biases of the head, as the papers count them, and the trainable numbers of the encoding."""
        layers = (self.first, self.rest)
        head = sum(t.numel() for layer in layers for t in layer.state_dict().values())
        return head + sum(t.numel() for t in self.encoding.parameters())

    @property
    def floats_per_point(self) -> int:
        """The number of floats in the widest intermediate result of one point."""
        features, *others = self.encoding.shape
        widest = max((self.channels, *self.head.widths))
        if not self.encoding.is_factored:
            return features + 2 * widest
        return math.prod(others) * max((self.channels, *self.head.widths[:1])) + 2 * widest


_real = partial(nn.utils.skip_init, nn.Linear)  # initialized below, by the generator


def _linear(
    kind: Callable[[int, int], nn.Module], fan_in: int, fan_out: int, head: Head, layer: int, generator: torch.Generator
) -> nn.Module:
    linear = kind(fan_in, fan_out)
    for parameter, bound in zip((linear.weight, linear.bias), head.bounds(fan_in, layer), strict=True):
        nn.init.uniform_(cast(Tensor, parameter), -bound, bound, generator=generator)
    return linear


def _kronecker_linear(modes: tuple[int, ...], channels: int, head: Head, generator: torch.Generator) -> KroneckerLinear:
    bounds = head.bounds(math.prod(modes), 0)
    shapes = ((channels, *modes), (channels,))
    draws = (torch.empty(s).uniform_(-b, b, generator=generator) for s, b in zip(shapes, bounds, strict=True))
    weight, bias = map(nn.Parameter, draws)
    return KroneckerLinear(weight, bias if head.widths else None)
