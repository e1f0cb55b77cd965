"""What a linear fit on a whole lattice does to its values: mode products, with a gain between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.linalg.kronecker import Operator
from coordnet.linalg.precision import Precision, multiply, prepared
from coordnet.linalg.scratch import scratch


@dataclass(frozen=True)
class Stages:
    """y ↦ (C₁ ⊗ … ⊗ C_d) diag(g) (A₁ ⊗ … ⊗ A_d) y, the gain and C left out where the whole is separable.

    Attributes
    ----------
    analysis : d operators
        A_j.
    gain : tensor, optional
        g.
    synthesis : d operators, optional
        C_j, with a gain.
    precision : "float32", "tf32" or "bf16"
        Of the products.
    """

    analysis: Sequence[Operator]
    gain: Tensor | None = None
    synthesis: Sequence[Operator] = ()
    precision: Precision = "float32"

    def __call__(
        self, values: Float[Tensor, "..."], out: Float[Tensor, "..."] | None = None
    ) -> Float[Tensor, "..."]:
        """The result for values (*batch, N₁, …, N_d): in ``out`` if given, what comes between in scratch memory."""
        if self.gain is None:
            return multiply(values, self.analysis, self.precision, out)
        batch = values.shape[: values.ndim - len(self.analysis)]
        kept = None if out is None else scratch(values, (*batch, *self.gain.shape), values)
        z = multiply(values, self.analysis, self.precision, kept).mul_(self.gain)
        return multiply(z, self.synthesis, self.precision, out)

    def then(self, operators: Sequence[Operator]) -> "Stages":
        """The same followed by a further operator an axis: fused, so that it costs no further product."""
        if self.gain is None:
            return Stages(_composed(operators, self.analysis))
        return Stages(self.analysis, self.gain, _composed(operators, self.synthesis))

    def ready(self, precision: Precision, dtype: torch.dtype) -> "Stages":
        """The same for values of ``dtype``, in a precision."""
        analysis = _each(self.analysis, precision, dtype)
        synthesis = _each(self.synthesis, precision, dtype)
        gain = None if self.gain is None else self.gain.to(dtype)
        return Stages(analysis, gain, synthesis, precision)


def _composed(after: Sequence[Operator], before: Sequence[Operator]) -> list[Operator]:
    """Every axis's matrix product b a, of equal axes once."""
    made: list[Operator] = []
    for j, (b, a) in enumerate(zip(after, before, strict=True)):
        same = next((i for i in range(j) if after[i] is b and before[i] is a), None)
        made.append(compose(b, a) if same is None else made[same])
    return made


def _each(operators: Sequence[Operator], precision: Precision, dtype: torch.dtype) -> list[Operator]:
    ready = {id(a): prepared(a, precision, dtype) for a in operators}
    return [ready[id(a)] for a in operators]


def compose(after: Operator, before: Operator) -> Operator:
    """The matrix product of two operators: windows where both are."""
    if isinstance(after, Tensor) and isinstance(before, Tensor):
        return after @ before
    if isinstance(after, Tensor) or isinstance(before, Tensor):
        return _dense(after) @ _dense(before)
    return after @ before


def _dense(operator: Operator) -> Tensor:
    return operator if isinstance(operator, Tensor) else operator.dense()
