"""Linear operators: maps of tensors that have an adjoint and are composed by ``@``."""

import copy
from abc import ABC
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.machine import scratch

Shape = tuple[int, ...]
Device = torch.device | str


class LinearOperator(ABC):
    """A linear map A of tensors (*batch, *domain) to tensors (*batch, *codomain).

    The domain and the codomain are the trailing dimensions of the argument and of the result. A subclass defines
    ``_apply`` and ``_apply_adjoint``, or ``_write`` and ``_write_adjoint`` where it can write into ``out`` itself.
    """

    domain: Shape
    codomain: Shape
    in_place: bool = False  # whether the result may be written into the argument's memory
    is_portable: bool = False  # whether ``to`` may move it by its attributes
    views: int | None = None  # axis of the codomain along which each slice is a view of its own, such as a projection

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """Return A x; with ``out``, a contiguous tensor, the result is written there, without autograd.

        ``x`` may then be overwritten; operators whose ``in_place`` is true also accept ``x`` itself as ``out``. A
        ``ValueError`` is raised if ``x`` is no tensor whose shape ends in the domain.
        """
        return self._write(_ending("x", x, self.domain), out)

    def adjoint(self, y: Tensor, out: Tensor | None = None) -> Tensor:
        """Return Aᵀ y, with ⟨A x, y⟩ = ⟨x, Aᵀ y⟩; see ``__call__`` for ``out`` and errors."""
        return self._write_adjoint(_ending("y", y, self.codomain), out)

    def _write(self, x: Tensor, out: Tensor | None) -> Tensor:
        result = self._apply(x)
        return result if out is None else out.copy_(result)

    def _write_adjoint(self, y: Tensor, out: Tensor | None) -> Tensor:
        result = self._apply_adjoint(y)
        return result if out is None else out.copy_(result)

    def _apply(self, x: Tensor) -> Tensor:
        """Return A x in memory of its own, or x itself."""
        raise NotImplementedError(f"{type(self).__name__} defines neither _apply nor _write")

    def _apply_adjoint(self, y: Tensor) -> Tensor:
        """Return Aᵀ y in memory of its own, or y itself."""
        raise NotImplementedError(f"{type(self).__name__} defines neither _apply_adjoint nor _write_adjoint")

    @property
    def T(self) -> "LinearOperator":  # noqa: N802 - as tensors have it
        """The adjoint as an operator."""
        return Adjoint(self)

    def to(self, device: Device | None = None, dtype: torch.dtype | None = None) -> "LinearOperator":
        """Return the operator on another device, or for tensors of another dtype.

        An operator that ``is_portable`` is copied with its tensors, operators and sequences of them moved; others raise
        a ``NotImplementedError``.
        """
        if not self.is_portable:
            raise NotImplementedError(f"{type(self).__name__} is constructed for one device and dtype")
        moved = copy.copy(self)
        vars(moved).update({name: _moved(value, device, dtype) for name, value in vars(self).items()})
        return moved

    def __matmul__(self, other: "LinearOperator") -> "LinearOperator":
        """Return the composition x ↦ A (B x); a ``ValueError`` is raised if B's codomain is not A's domain."""
        if other.codomain != self.domain:
            raise _checks.wrong("other", f"an operator with the codomain {self.domain}", other.codomain)
        return Composition.of(self, other)

    def fused(self, other: "LinearOperator") -> "LinearOperator | None":
        """Return A B as one operator where that is cheaper than the two, else None."""
        return None

    def batch_of(self, x: Tensor) -> Shape:
        """Return the dimensions of an argument before the operator's domain."""
        return tuple(x.shape[: x.ndim - len(self.domain)])


def _ending(name: str, x: Any, shape: Shape) -> Tensor:
    """Return a tensor as it is; a ``ValueError`` is raised if it is none, or its shape does not end in another one."""
    if not isinstance(x, Tensor):
        raise _checks.wrong(name, "a tensor", type(x).__name__)
    if x.shape[x.ndim - len(shape) :] != shape:
        raise _checks.wrong(name, f"shape (*batch, {', '.join(map(str, shape))})", tuple(x.shape))
    return x


def _moved(value: Any, device: Device | None, dtype: torch.dtype | None) -> Any:
    """Return the value of an operator's attribute elsewhere; only real numbers change their dtype."""
    if isinstance(value, Tensor):
        return value.to(device=device, dtype=dtype if value.is_floating_point() else None)
    if isinstance(value, list | tuple):
        return type(value)(_moved(part, device, dtype) for part in value)
    return value.to(device, dtype) if isinstance(value, LinearOperator) else value


class Adjoint(LinearOperator):
    """The adjoint of an operator."""

    is_portable = True

    def __init__(self, operator: LinearOperator) -> None:
        self.operator = operator
        self.domain, self.codomain = operator.codomain, operator.domain
        self.in_place = operator.in_place

    def _write(self, x: Tensor, out: Tensor | None) -> Tensor:
        return self.operator.adjoint(x, out)

    def _write_adjoint(self, y: Tensor, out: Tensor | None) -> Tensor:
        return self.operator(y, out)

    @property
    def T(self) -> LinearOperator:
        """The operator itself."""
        return self.operator


class Composition(LinearOperator):
    """The product A₁ A₂ … A_n of operators; with ``out`` the intermediates are in scratch memory."""

    is_portable = True

    def __init__(self, factors: Sequence[LinearOperator]) -> None:
        self.factors = tuple(factors)
        self.domain, self.codomain = self.factors[-1].domain, self.factors[0].codomain

    @classmethod
    def of(cls, *operators: LinearOperator) -> LinearOperator:
        """Return the product of operators, with neighbors fused where that is cheaper."""
        factors: list[LinearOperator] = []
        for operator in operators:
            for factor in operator.factors if isinstance(operator, Composition) else [operator]:
                fused = factors[-1].fused(factor) if factors else None
                factors[-1:] = [*factors[-1:], factor] if fused is None else [fused]
        return factors[0] if len(factors) == 1 else cls(factors)

    def _write(self, x: Tensor, out: Tensor | None) -> Tensor:
        return _chain(self.factors[::-1], x, out)

    def _write_adjoint(self, y: Tensor, out: Tensor | None) -> Tensor:
        return _chain([Adjoint(factor) for factor in self.factors], y, out)


def _chain(operators: Sequence[LinearOperator], x: Tensor, out: Tensor | None) -> Tensor:
    *inner, last = operators
    batch = operators[0].batch_of(x)
    for operator in inner:
        between = None
        if out is not None:
            between = x if operator.in_place else scratch(x, (*batch, *operator.codomain), x, out)
        x = operator(x, between)
    return last(x, out)


class _Followed(torch.autograd.Function):
    """A x for autograd, with the operator's own adjoint as the derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, operator: LinearOperator) -> Tensor:
        ctx.operator = operator
        return operator(x).clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return followed(ctx.operator.T, gradients[0].contiguous()), None


def followed(operator: LinearOperator, x: Tensor) -> Tensor:
    """Return A x; gradients flow to x by the adjoint, also where A is computed outside of PyTorch."""
    return _Followed.apply(x, operator) if x.requires_grad and torch.is_grad_enabled() else operator(x)


class Identity(LinearOperator):
    """The identity on tensors (*batch, *shape)."""

    in_place = is_portable = True

    def __init__(self, shape: Shape) -> None:
        self.domain = self.codomain = tuple(shape)

    def _apply(self, x: Tensor) -> Tensor:
        return x

    def _apply_adjoint(self, y: Tensor) -> Tensor:
        return y


class Diagonal(LinearOperator):
    """Elementwise multiplication by the values of a diagonal, (*domain); it is self-adjoint."""

    in_place = is_portable = True

    def __init__(self, values: Float[Tensor, "..."]) -> None:
        self.values = values
        self.domain = self.codomain = tuple(values.shape)

    def _write(self, x: Tensor, out: Tensor | None) -> Tensor:
        return x * self.values if out is None else torch.mul(x, self.values, out=out)

    def _write_adjoint(self, y: Tensor, out: Tensor | None) -> Tensor:
        return self._write(y, out)


class ChannelRotation(LinearOperator):
    """The multiplication of the channels at every lattice point by an orthonormal matrix R, one for each signal.

    It maps tensors (signals, channels, *lattice); its domain is the lattice, without the channels that it mixes.
    """

    is_portable = True

    def __init__(self, rotation: Float[Tensor, "signals c c"], lattice: Shape) -> None:
        self.rotation = rotation
        self.domain = self.codomain = tuple(lattice)

    def _apply(self, x: Float[Tensor, "signals channels *lattice"]) -> Tensor:
        return rotate(self.rotation, x)

    def _apply_adjoint(self, y: Float[Tensor, "signals channels *lattice"]) -> Tensor:
        return rotate(self.rotation.mT, y)


def rotate(
    rotation: Float[Tensor, "#signals c k"], f: Float[Tensor, "signals k *lattice"]
) -> Float[Tensor, "signals c *lattice"]:
    """Multiply the channels at every lattice point by a matrix, one for each signal or one for all."""
    return (rotation @ f.flatten(2)).reshape(f.shape[0], rotation.shape[1], *f.shape[2:])
