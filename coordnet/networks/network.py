"""Coordinate networks: an encoding, and a head."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings import ComplexEncoding, DenseEncoding, Encoding, FourierEncoding
from coordnet.encodings.designs import designs
from coordnet.linalg.allocation import empty
from coordnet.linalg.kronecker import Operator, mode_product
from coordnet.linalg.scratch import parts
from coordnet.linalg.tracking import tracked
from coordnet.networks.fourier import FourierLinear
from coordnet.networks.heads import MLP, ComplexLinear, Head
from coordnet.sampling.axes import Axes, lattice_points


class KroneckerLinear(nn.Module):
    """f_c(x) = Σ W[c, k₁, …, k_d] ψ₁(x₁)_{k₁} … ψ_d(x_d)_{k_d} (+ b_c), without the product of features.

    Parameters
    ----------
    weight : (channels, K₁, …, K_d)
        An ``nn.Parameter`` if it is to be trained; else kept as a buffer, through which gradients still flow.
    bias : (channels,), optional
        b.
    """

    weight: Tensor

    def __init__(self, weight: Float[Tensor, "channels *modes"], bias: nn.Parameter | None = None) -> None:
        super().__init__()
        if isinstance(weight, nn.Parameter):
            self.weight = weight
        else:
            self.register_buffer("weight", weight)
        self.bias = bias

    def forward(self, factors: Sequence[Float[Tensor, "*points _"]]) -> Float[Tensor, "*points channels"]:
        """Evaluate at points given by the factors of their features, (…, K_j) an axis."""
        points = factors[0].shape[:-1]
        flat = [f.reshape(-1, f.shape[-1]) for f in factors]
        modes = self.weight.shape[1:]
        out = flat[0] @ self.weight.movedim(0, -1).reshape(modes[0], -1)
        for f, k in zip(flat[1:], modes[1:], strict=True):
            out = (f.unsqueeze(1) @ out.reshape(len(f), k, -1)).squeeze(1)
        return self._shifted(out.reshape(*points, -1))

    def on_lattice(self, designs: Sequence[Operator]) -> Float[Tensor, "*lattice channels"]:
        """Evaluate on the lattice whose axes have the designs A_j (N_j, K_j): mode products."""
        if any(tracked(a) for a in (self.weight, *designs) if isinstance(a, Tensor)):
            return self._shifted(mode_product(self.weight, designs).movedim(0, -1))
        weight = self.weight.unsqueeze(0)
        out = empty(weight, (*weight.shape[:2], *(a.shape[0] for a in designs)))
        for part in parts(weight, out):
            mode_product(weight[part], designs, out[part])
        return self._shifted(out[0].movedim(0, -1))

    def _shifted(self, out: Tensor) -> Tensor:
        return out if self.bias is None else out + self.bias


class CoordinateNetwork(nn.Module):
    """A head applied to an encoding: a function of points in [0, 1)^d.

    On a complex encoding the first layer is a ``KroneckerLinear``; further layers act on each point.

    Parameters
    ----------
    encoding : Encoding
        The encoding.
    head : Head
        The choice of a head.
    channels : int
        Of the signal.
    generator : torch.Generator, optional
        Draws the initial weights, uniform within the head's bounds; one seeded with 0 if not given.
    weight : (channels, K₁, …, K_d), optional
        The solution of a closed-form fit, for a linear head on a complex encoding.
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
        if isinstance(encoding, FourierEncoding):
            if weight is None:
                raise _checks.wrong(
                    "weight", "the solution of a closed-form fit, for a Fourier encoding", "none"
                )
            self.first: nn.Module = FourierLinear(encoding, weight)
        elif weight is not None:
            self.first = KroneckerLinear(weight)
        elif isinstance(encoding, ComplexEncoding):
            self.first = _kronecker_linear(encoding.shape, widths[0], head, generator)
        else:
            self.first = _linear(_real, encoding.shape[0], widths[0], head, 0, generator)
        rest: list[nn.Module] = []
        for layer, (fan_in, fan_out) in enumerate(zip(widths, widths[1:], strict=False), 1):
            assert isinstance(head, MLP)
            kind = partial(ComplexLinear, real=layer == head.depth) if head.complex else _real
            rest += [head.activation(), _linear(kind, fan_in, fan_out, head, layer, generator)]
        self.rest = nn.Sequential(*rest)

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points channels"]:
        """Evaluate at points in units of the unit interval."""
        return self.rest(self.first(self.encoding(points)))

    def on_lattice(self, axes: Axes, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Evaluate on the lattice that axes span, (*lattice, channels), by mode products where the encoding allows."""
        if isinstance(self.first, FourierLinear):
            return self.first.on_axes(axes)
        if isinstance(self.encoding, ComplexEncoding):
            assert isinstance(self.first, KroneckerLinear)
            return self.rest(self.first.on_lattice(designs(self.encoding, axes, dtype, device)))
        return self(lattice_points(axes, dtype, device))

    @property
    def parameter_count(self) -> int:
        """Weights and biases of the head, as the papers count them, and the numbers that the encoding trains."""
        layers = (self.first, self.rest)
        head = sum(t.numel() for layer in layers for t in layer.state_dict().values())
        return head + sum(t.numel() for t in self.encoding.parameters())

    def scratch(self) -> int:
        """The widest intermediate of one point, in numbers, to plan chunks by."""
        widest = max((self.channels, *self.head.widths))
        if isinstance(self.encoding, DenseEncoding):
            return self.encoding.shape[0] + 2 * widest
        return math.prod(self.encoding.shape[1:]) * max((self.channels, *self.head.widths[:1])) + 2 * widest


_real = partial(nn.utils.skip_init, nn.Linear)  # drawn below, by the generator


def _linear(
    kind: Callable[[int, int], nn.Module],
    fan_in: int,
    fan_out: int,
    head: Head,
    layer: int,
    generator: torch.Generator,
) -> nn.Module:
    made = kind(fan_in, fan_out)
    for (name, parameter), bound in zip(made.named_parameters(), head.bounds(fan_in, layer), strict=True):
        assert name in ("weight", "bias")
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return made


def _kronecker_linear(
    modes: tuple[int, ...], channels: int, head: Head, generator: torch.Generator
) -> KroneckerLinear:
    draw = [torch.empty(channels, *modes), torch.empty(channels)]
    bounds = head.bounds(math.prod(modes), 0)
    weight, shift = (
        nn.Parameter(t.uniform_(-b, b, generator=generator)) for t, b in zip(draw, bounds, strict=True)
    )
    return KroneckerLinear(weight, shift if head.widths else None)
