"""Measurements: values of any linear map of a lattice signal, such as a blur, projections or Fourier coefficients."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.operators import Device, LinearOperator, Shape
from coordnet.sampling.arrays import Array, as_tensor, check_values, check_weights
from coordnet.sampling.axes import Axes
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.operators.foreign import as_operator
from coordnet.sampling.samples import Geometry, Interpolate, Samples

MISMATCH = 2e-5  # largest difference of ⟨A x, y⟩ and ⟨x, Aᵀ y⟩, relative to the norms of A x and y


@dataclass(frozen=True, eq=False, repr=False)
class OperatorGeometry(Geometry):
    """A whole lattice of which a linear operator was measured; see ``Measurements``."""

    operator: LinearOperator
    weights: Float[Tensor, "..."] | None = None
    sigma: float | None = None
    is_nodal = hides_alike = False  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.sigma is not None:
            _checks.positive("sigma", self.sigma)
        if self.weights is not None:
            check_weights(self.weights, self.shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.operator).__name__}, {self.grid} to {self.shape})"

    @property
    def grid(self) -> Shape:  # type: ignore[override]
        """The lengths of the lattice."""
        return self.operator.domain

    @property
    def density(self) -> float:
        """The number of values for each node of the lattice."""
        return math.prod(self.shape) / math.prod(self.grid)

    @property
    def shape(self) -> Shape:
        return self.operator.codomain

    @property
    def gaps(self) -> None:
        """None: the values are no entries of a lattice."""

    def forward(self, lattice: Axes, interpolate: Interpolate, dtype: torch.dtype, device: Device) -> ForwardModel:
        """Return the operator, with the weights of the values."""
        return ForwardModel(self.operator.to(device, dtype), self.stacked_weights(dtype, device), is_general=True)

    def check_point_values(self, argument: str, expected: str, found: str) -> None:
        """Refuse measurements with a ``ValueError``."""
        raise _checks.wrong(argument, f"{expected} for measurements", found)

    def check_trainable(self, *, integrates: bool) -> None:
        """Refuse measurements with a ``ValueError``."""
        expected = "values of the signal itself: measurements have closed forms alone"
        raise _checks.wrong("samples", expected, repr(self))

    def sample(self, signal: Float[Tensor, "*grid channels"]) -> Samples:
        """Return the values of the operator for a signal."""
        operator = self.operator.to(signal.device, signal.dtype)
        return Samples(self, operator(signal.movedim(-1, 0)).movedim(0, -1))

    def known(self, channels: int) -> Bool[Tensor, "*grid channels"]:
        """Return zeros: no point of the grid was sampled by itself."""
        return torch.zeros(*self.grid, channels, dtype=torch.bool)

    def put(self, values: Tensor, onto: Float[Tensor, "*grid channels"]) -> None:
        """Write nothing: no value belongs to one node."""

    def of_constant(self, like: Tensor) -> Tensor:
        """Return the values of the constant signal 1, (*samples), with the dtype and device of another tensor."""
        return self.operator.to(like.device, like.dtype)(like.new_ones(1, 1, *self.grid))[0, 0]


class Measurements(Samples):
    """Values y = A f + noise of a linear map A of a lattice signal f, from which ``cn.fit`` reconstructs f.

    A ``ValueError`` is raised if the operator is of another kind, its adjoint is not one, the values are NaN, infinite,
    of another shape or no floating-point numbers, or the grid, weights or sigma do not fit.

    Parameters
    ----------
    operator : LinearOperator, or one of another library
        One of ``cn.operators``, or any ``LinearOperator`` of this library; a SciPy ``LinearOperator`` or sparse matrix
        of the flattened grid; or an object with ``A(x)`` and ``A_adjoint(y)`` of tensors (batch, channels, *grid), as
        deepinv's are. Every channel of the signal is mapped alike.
    values : NumPy array or tensor, (*codomain, channels) or (*codomain)
        Complex values are taken as pairs of a real and an imaginary part, in an axis before that of the channels.
    grid : tuple of int, optional
        The lengths of the signal, where the operator does not say them.
    weights : NumPy array or tensor, (*codomain, 1 or channels), optional
        Weights of the squared errors, 0 where a value is unknown.
    sigma : float, optional
        The standard deviation of the noise of values with weight 1. The adaptive prior estimates it if not given.
    """

    def __init__(
        self,
        operator: LinearOperator | Any,
        values: Array,
        *,
        grid: Shape | None = None,
        weights: Array | None = None,
        sigma: float | None = None,
    ) -> None:
        operator = as_operator(operator, grid)
        values = as_tensor(values, "values")
        dims = len(operator.codomain)
        if values.is_complex():
            if operator.codomain[-1:] != (2,):
                raise _checks.wrong("values", "real numbers, which this operator gives", f"numbers of {values.dtype}")
            pairs = torch.view_as_real(values.resolve_conj())
            values = pairs if values.ndim == dims - 1 else pairs.movedim(-1, -2)
        if tuple(values.shape) == operator.codomain:
            values = values.unsqueeze(-1)
        weights = None if weights is None else as_tensor(weights, "weights")
        super().__init__(OperatorGeometry(operator, weights, sigma), values)
        _check_adjoint(operator.to(values.device, values.dtype), values)

    @classmethod
    def of(
        cls,
        operator: LinearOperator | Any,
        signal: Array,
        *,
        sigma: float | None = None,
        generator: torch.Generator | None = None,
    ) -> "Measurements":
        """Return the measurements of a signal (*grid, channels), with normal noise if ``sigma`` is given.

        A signal without a channel, or with numbers that are not finite, and another sigma raise a ``ValueError``.
        """
        signal = as_tensor(signal, "signal")
        check_values("signal", signal)
        operator = as_operator(operator, tuple(signal.shape[:-1]))
        values = operator.to(signal.device, signal.dtype)(signal.movedim(-1, 0)).movedim(0, -1)
        _checks.instance("generator", generator, torch.Generator | None, "a torch.Generator")
        if sigma is not None:
            noise = torch.randn(values.shape, generator=generator, dtype=values.dtype)
            values = values + _checks.positive("sigma", sigma) * noise.to(values.device)
        return cls(operator, values, sigma=sigma)


def _check_adjoint(operator: LinearOperator, like: Tensor) -> None:
    """Refuse an operator for which ⟨A x, y⟩ is not ⟨x, Aᵀ y⟩ for random x, and random y or y = A x."""
    generator = torch.Generator().manual_seed(0)

    def draw(shape: Shape) -> Tensor:
        return torch.randn(1, 1, *shape, dtype=like.dtype, generator=generator).to(like.device)

    x = draw(operator.domain)
    ax = operator(x)
    for y in (draw(operator.codomain), ax):
        try:
            aty = operator.adjoint(y)
        except (NotImplementedError, RuntimeError, TypeError) as error:
            raise _checks.wrong("operator", f"an adjoint to the grid {operator.domain}", f"none: {error}") from error
        if aty.shape != x.shape:
            raise _checks.wrong("operator", f"an adjoint to the grid {operator.domain}", tuple(aty.shape[2:]))
        left, right = float((ax.double() * y.double()).sum()), float((x.double() * aty.double()).sum())
        norms = max(float(ax.norm() * y.norm()), float(x.norm() * aty.norm()))
        if not abs(left - right) <= MISMATCH * norms:
            expected = "one whose adjoint has ⟨A x, y⟩ = ⟨x, Aᵀ y⟩"
            raise _checks.wrong("operator", expected, f"{left:.6g} and {right:.6g} for random x and y")
