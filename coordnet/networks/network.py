"""Coordinate networks: a head on an encoding."""

import copy
import math
from functools import partial
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.encodings.blending import Blending
from coordnet.linalg.randomness import as_generator
from coordnet.networks.fourier import FourierLinear
from coordnet.networks.heads import Head
from coordnet.networks.layers import Activation, ComplexLinear, KroneckerLinear
from coordnet.sampling.axes import Axes, lattice_points


class CoordinateNetwork(nn.Module):
    """A head applied to an encoding: a function of points in [0, 1)^d.

    On a complex encoding the first layer is a ``KroneckerLinear``; further layers act on each point. With a
    ``blending``, as fits of scattered points have it, the first layer is evaluated at the nodes of a lattice and
    blended between them; ``exact`` evaluates the encoding itself.

    The initial weights are uniform within the head's bounds, by default drawn with seed 0. A linear head on a complex
    encoding can have the ``weight`` (channels, K₁, …, K_d) of a closed-form fit; on a Fourier encoding it must, else a
    ``ValueError`` is raised.
    """

    def __init__(
        self,
        encoding: Encoding,
        head: Head,
        channels: int = 3,
        *,
        generator: torch.Generator | None = None,
        weight: Float[Tensor, "..."] | None = None,
        blending: Blending | None = None,
    ) -> None:
        super().__init__()
        self.encoding, self.head, self.blending = encoding, head, blending
        self.channels = _checks.integer("channels", channels, 1)
        widths = (*head.widths, channels)
        generator = as_generator(generator)
        self.first = self._first_layer(widths[0], weight, generator)
        rest: list[nn.Module] = []
        for layer, (fan_in, fan_out) in enumerate(zip(widths, widths[1:], strict=False), 1):
            kind = partial(ComplexLinear, real=layer == len(head.widths)) if head.complex else _real
            rest += [Activation(head), _drawn(kind(fan_in, fan_out), fan_in, head, layer, generator)]
        self.rest = nn.Sequential(*rest)

    def blended(self, blending: Blending | None) -> "CoordinateNetwork":
        """Return a copy whose first layer is blended between the nodes of a lattice, or evaluated at points."""
        network = copy.deepcopy(self)
        network.blending = blending
        return network

    def _first_layer(self, width: int, weight: Tensor | None, generator: torch.Generator) -> nn.Module:
        encoding, shape = self.encoding, (width, *self.encoding.shape)
        if weight is not None and tuple(weight.shape) != shape:
            raise _checks.wrong("weight", f"shape {shape}", tuple(weight.shape))
        if isinstance(encoding, FourierEncoding):
            if weight is None:
                raise _checks.wrong("weight", "the solution of a closed-form fit, for a Fourier encoding", "none")
            return FourierLinear(weight)
        if weight is not None:
            return KroneckerLinear(weight)
        features = math.prod(encoding.shape)
        if not encoding.is_factored:
            return _drawn(_real(features, width), features, self.head, 0, generator)
        bias = nn.Parameter(torch.empty(width)) if self.head.widths else None
        first = KroneckerLinear(nn.Parameter(torch.empty(width, *encoding.shape)), bias)
        return _drawn(first, features, self.head, 0, generator)

    def forward(self, points: Float[Tensor, "*points d"], *, exact: bool = False) -> Float[Tensor, "*points channels"]:
        """Evaluate at points in units of the unit interval."""
        if self.blending is None or exact:
            return self.rest(self.first(self.encoding(points)))
        nodes = self.first.on_axes(self.encoding, self.blending.lattice)  # type: ignore[operator]
        return self.rest(self.blending.at_points(nodes, points, self.encoding.axis_encoders))

    def on_lattice(self, axes: Axes, dtype: torch.dtype, device: torch.device, *, exact: bool = False) -> Tensor:
        """Evaluate on the lattice that axes span, (*lattice, channels), by mode products if the encoding allows it."""
        if any(axis.width for axis in axes) and not (self.is_separable and (self.blending is None or exact)):
            found = "a blend of nodes (exact=True has none)" if self.is_separable else "another network"
            raise _checks.wrong("footprint", "point, unless a linear head is on a complex or Fourier encoding", found)
        if not self.encoding.is_factored:
            return self(lattice_points(axes, dtype, device))
        if self.blending is None or exact:
            return self.rest(self.first.on_axes(self.encoding, axes))  # type: ignore[operator]
        nodes = self.first.on_axes(self.encoding, self.blending.lattice)  # type: ignore[operator]
        return self.rest(self.blending.on_axes(nodes, axes, self.encoding.axis_encoders))

    @property
    def is_separable(self) -> bool:
        """Whether the network is linear in the product of one encoding per axis, so that lattices need no points."""
        return self.encoding.is_factored and not self.head.widths

    @property
    def parameter_count(self) -> int:
        """The weights and biases of the head, as the papers count them, and the trainable numbers of the encoding."""
        head = sum(t.numel() for layer in (self.first, self.rest) for t in layer.state_dict().values())
        return head + sum(t.numel() for t in self.encoding.parameters())

    @property
    def floats_per_point(self) -> int:
        """The number of floats in the widest intermediate result of one point."""
        features, *others = self.encoding.shape
        widest = max((self.channels, *self.head.widths))
        if not self.encoding.is_factored:
            return features + 2 * widest
        return math.prod(others) * max((self.channels, *self.head.widths[:1])) + 2 * widest


def _real(fan_in: int, fan_out: int) -> nn.Module:
    """Return a layer whose weights are not drawn yet."""
    return nn.utils.skip_init(nn.Linear, fan_in, fan_out, device=torch.get_default_device())


def _drawn(module: nn.Module, fan_in: int, head: Head, layer: int, generator: torch.Generator) -> nn.Module:
    """Draw the weights and biases of a layer uniformly within the head's bounds."""
    for parameter, bound in zip((module.weight, module.bias), head.bounds(fan_in, layer), strict=True):
        if parameter is not None:
            nn.init.uniform_(cast(Tensor, parameter), -bound, bound, generator=generator)
    return module
