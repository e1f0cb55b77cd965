"""Coordinate networks: a head on an encoding, and the layers that it consists of."""

import copy
import math
from collections.abc import Sequence
from functools import partial
from typing import cast

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings import ComplexEncoding, Encoding, FourierEncoding
from coordnet.encodings.blending import Blending
from coordnet.linalg.kronecker import Matrix, mode_product
from coordnet.linalg.machine import as_generator, chunks, empty, is_tracked
from coordnet.networks.heads import Head
from coordnet.sampling.axes import Axes, Axis, lattice_points


class Held(nn.Module):
    """A layer with a ``weight`` of one number for each channel and feature.

    An ``nn.Parameter`` is trained. A tensor that autograd follows is a buffer, through which gradients flow; another
    one is a parameter that is not trained before ``requires_grad_()``.
    """

    weight: Tensor

    def __init__(self, weight: Float[Tensor, "channels *features"]) -> None:
        super().__init__()
        if isinstance(weight, nn.Parameter):
            self.weight = weight
        elif is_tracked(weight) or weight.requires_grad:
            self.register_buffer("weight", weight)
        else:
            self.weight = nn.Parameter(weight, requires_grad=False)

    def extra_repr(self) -> str:
        """Return the shape of the weight, for ``repr``."""
        return f"weight={tuple(self.weight.shape)}"


class KroneckerLinear(Held):
    """f_c(x) = Σ W[c, k₁, …, k_d] ψ₁(x₁)_{k₁} … ψ_d(x_d)_{k_d} (+ b_c), without forming the product of features."""

    def __init__(self, weight: Float[Tensor, "channels *features"], bias: nn.Parameter | None = None) -> None:
        super().__init__(weight)
        self.bias = bias

    def forward(self, factors: Sequence[Float[Tensor, "*points _"]]) -> Float[Tensor, "*points channels"]:
        """Evaluate at points given by the factors of their features, (…, K_j) per axis."""
        return self._add_bias(contract(factors, self.weight))

    def on_axes(self, encoding: ComplexEncoding, axes: Axes) -> Float[Tensor, "*lattice channels"]:
        """Evaluate on the lattice of some axes, whose designs are those of the encoding."""
        return self.on_lattice(encoding.designs(encoding, axes, self.weight.dtype, self.weight.device))

    def on_lattice(self, matrices: Sequence[Matrix]) -> Float[Tensor, "*lattice channels"]:
        """Evaluate on the lattice whose axes have the designs A_j (N_j, K_j), by mode products."""
        if any(is_tracked(a) for a in (self.weight, *matrices) if isinstance(a, Tensor)):
            return self._add_bias(mode_product(self.weight, matrices).movedim(0, -1))
        weight = self.weight.unsqueeze(0)
        out = empty(weight, (*weight.shape[:2], *(a.shape[0] for a in matrices)))
        for part in chunks(weight, out):
            mode_product(weight[part], matrices, out[part])
        return self._add_bias(out[0].movedim(0, -1))

    def _add_bias(self, out: Tensor) -> Tensor:
        return out if self.bias is None else out + self.bias


def contract(factors: Sequence[Tensor], weight: Shaped[Tensor, "channels *features"]) -> Tensor:
    """Return Σ W[c, k₁, …, k_d] ψ₁[…, k₁] … ψ_d[…, k_d], one axis after another: (…, channels)."""
    points = factors[0].shape[:-1]
    flat = [f.reshape(-1, f.shape[-1]) for f in factors]
    features = weight.shape[1:]
    out = flat[0] @ weight.movedim(0, -1).reshape(features[0], -1)
    for f, k in zip(flat[1:], features[1:], strict=True):
        out = (f.unsqueeze(1) @ out.unflatten(1, (k, -1))).squeeze(1)
    return out.reshape(*points, len(weight))


class ComplexLinear(nn.Module):
    """W z + b, or its real part, with complex W and b stored as real and imaginary parts so that casts keep both."""

    def __init__(self, fan_in: int, fan_out: int, real: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, fan_out, fan_in))
        self.bias = nn.Parameter(torch.empty(2, fan_out))
        self.real = real

    def forward(self, z: Tensor) -> Tensor:
        """Evaluate at complex z."""
        out = nn.functional.linear(z, torch.complex(*self.weight), torch.complex(*self.bias))
        return out.real if self.real else out


class Activation(nn.Module):
    """A head's activation as a layer."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of x."""
        return self.head.activation(x)


class FourierLinear(Held):
    """f_c(x) = Σ_k F_c[k] exp(2πi k·u(x)), where F is the DFT of the weight: values on the padded lattice."""

    def forward(self, factors: list[Tensor]) -> Float[Tensor, "*points channels"]:
        """Evaluate at points given by the complex factors of their features, (…, P_j) per axis."""
        dims = tuple(range(1, self.weight.ndim))
        return contract(factors, torch.fft.fftn(self.weight, dim=dims, norm="forward")).real

    def on_axes(self, encoding: FourierEncoding, axes: Axes) -> Float[Tensor, "*lattice channels"]:
        """Evaluate on the lattice of some axes: values at its own nodes are copied, others take a chirp transform."""
        out = self.weight
        for dim, (axis, own) in enumerate(zip(axes, encoding.axes, strict=True), 1):
            if axis == own:
                out = out.narrow(dim, 0, own.count)
            elif axis.even is not axis:  # its positions are no chirp
                factor = encoding.factor(dim - 1, axis.points(device=out.device))
                spectrum = torch.fft.fft(out.movedim(dim, -1), norm="forward")
                out = (spectrum @ factor.T.to(spectrum)).real.movedim(-1, dim)
            else:
                out = resample(out.movedim(dim, -1), own, axis).movedim(-1, dim)
        return (out.clone() if axes == encoding.axes else out).movedim(0, -1)


def resample(values: Float[Tensor, "*rows p"], own: Axis, onto: Axis) -> Float[Tensor, "*rows m"]:
    """Evaluate the Fourier series through the P nodes own.start + i own.spacing at the positions of ``onto``.

    These are u₀ + m δ in periods, so that Σ_k F[k] exp(2πi k (u₀ + m δ)) is a chirp-z transform: with
    k m = (k² + m² - (m - k)²) / 2 it is a convolution, which takes three FFTs for any number of positions. Means over
    cells multiply the frequency f of the series by sinc(f width). Phases are reduced in float64.

    Source: Bluestein, "A linear filtering approach to the computation of the discrete Fourier transform" (1970).
    """
    length, count = values.shape[-1], onto.count
    start = (onto.start - own.start) / (own.spacing * length)
    step = onto.spacing / (own.spacing * length)
    series = torch.fft.rfft(values) / length
    series[..., 1 : (length + 1) // 2] *= 2  # frequencies with a mirror image: neither 0 nor the highest of an even P
    half = series.shape[-1]
    f = torch.arange(half, dtype=torch.float64, device=values.device) / (own.spacing * length)
    series = series * (torch.sinc(f * onto.width) / torch.sinc(f * own.width)).to(values)
    k = torch.arange(max(half, count), dtype=torch.float64, device=values.device)
    chirp = _phase_factor(k * k / 2 * step, series.dtype)
    shifted = series * _phase_factor(k[:half] * start, series.dtype) * chirp[:half]
    size = 1 << (half + count - 2).bit_length() if half + count > 2 else 1
    kernel = torch.zeros(size, dtype=series.dtype, device=values.device)
    kernel[:count] = chirp[:count].conj()
    kernel[size - half + 1 :] = chirp[1:half].conj().flip(0)
    product = torch.fft.ifft(torch.fft.fft(shifted, size) * torch.fft.fft(kernel))[..., :count]
    return (product * chirp[:count]).real


def _phase_factor(cycles: Float[Tensor, " n"], dtype: torch.dtype) -> Tensor:
    """exp(2πi cycles)."""
    return torch.polar(torch.ones_like(cycles), 2 * math.pi * (cycles - cycles.round())).to(dtype)


class CoordinateNetwork(nn.Module):
    """A head applied to an encoding: a function of points in [0, 1)^d.

    With a ``blending``, as fits of scattered points have it, the first layer is evaluated at the nodes of a lattice and
    blended between them; ``exact`` evaluates the encoding itself.

    The initial weights are uniform within the head's bounds, drawn by the ``generator``, by default that of
    ``torch.manual_seed``. A linear head on a complex encoding can have the ``weight`` (channels, K₁, …,
    K_d) of a closed-form fit; on a Fourier encoding it must, else a ``ValueError`` is raised.
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

    def scaled(self, factor: float) -> "CoordinateNetwork":
        """Return a copy whose values are those of this network times a factor, by the weights of its last layer."""
        network = copy.deepcopy(self)
        for tensor in [network.first, *network.rest][-1].state_dict().values():
            tensor.mul_(factor)
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
            factors = self.encoding.factors(points)
            return self.rest(self.first(factors if self.encoding.is_factored else factors[0]))
        nodes = self.first.on_axes(self.encoding, self.blending.lattice)  # type: ignore[operator]
        return self.rest(self.blending.at_points(nodes, points, self.encoding.axis_encoders))

    def on_lattice(self, axes: Axes, dtype: torch.dtype, device: torch.device, *, exact: bool = False) -> Tensor:
        """Evaluate on the lattice that axes span, (*lattice, channels), by mode products if the encoding allows it."""
        blending = None if exact else self.blending
        if any(axis.width for axis in axes) and (blending or not self.is_separable):
            found = "a blend of nodes (exact=True has none)" if self.is_separable else "another network"
            raise _checks.wrong("footprint", "point, unless a linear head is on a complex or Fourier encoding", found)
        if not self.encoding.is_factored:
            return self(lattice_points(axes, dtype, device))
        nodes = self.first.on_axes(self.encoding, blending.lattice if blending else axes)  # type: ignore[operator]
        return self.rest(blending.on_axes(nodes, axes, self.encoding.axis_encoders) if blending else nodes)

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
