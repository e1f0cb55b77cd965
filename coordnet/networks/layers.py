"""Layers of coordinate networks: a linear layer on Kronecker features, complex linear layers, and activations."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from coordnet.encodings import ComplexEncoding
from coordnet.linalg.buffers import chunks, empty, is_tracked
from coordnet.linalg.kronecker import Matrix, mode_product
from coordnet.networks.heads import Head
from coordnet.sampling.axes import Axes


class KroneckerLinear(nn.Module):
    """f_c(x) = Σ W[c, k₁, …, k_d] ψ₁(x₁)_{k₁} … ψ_d(x_d)_{k_d} (+ b_c), without forming the product of features.

    See ``hold`` for the weight.
    """

    weight: Tensor

    def __init__(self, weight: Float[Tensor, "channels *features"], bias: nn.Parameter | None = None) -> None:
        super().__init__()
        hold(self, weight)
        self.bias = bias

    def extra_repr(self) -> str:
        """Return the shape of the weight, for ``repr``."""
        return f"weight={tuple(self.weight.shape)}"

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


def hold(module: nn.Module, weight: Tensor) -> None:
    """Make a tensor the ``weight`` of a module.

    An ``nn.Parameter`` is trained. A tensor that autograd follows is a buffer, through which gradients flow; another
    one is a parameter that is not trained before ``requires_grad_()``.
    """
    if isinstance(weight, nn.Parameter):
        module.weight = weight
    elif is_tracked(weight) or weight.requires_grad:
        module.register_buffer("weight", weight)
    else:
        module.weight = nn.Parameter(weight, requires_grad=False)


def contract(factors: Sequence[Tensor], weight: Shaped[Tensor, "channels *features"]) -> Tensor:
    """Return Σ W[c, k₁, …, k_d] ψ₁[…, k₁] … ψ_d[…, k_d], one axis after another: (…, channels)."""
    points = factors[0].shape[:-1]
    flat = [f.reshape(-1, f.shape[-1]) for f in factors]
    features = weight.shape[1:]
    out = flat[0] @ weight.movedim(0, -1).reshape(features[0], -1)
    for f, k in zip(flat[1:], features[1:], strict=True):
        out = (f.unsqueeze(1) @ out.reshape(len(f), k, -1)).squeeze(1)
    return out.reshape(*points, -1)


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
