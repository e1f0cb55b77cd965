"""deepinv both ways: operators as physics, physics as operators, and fits as a ``Reconstructor``.

It needs deepinv when it is used: ``pip install coordnet[interop]``. Signals are (batch, channels, *grid) there; every
channel is mapped alike.
"""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.fitting.fit import fit
from coordnet.linalg.operators import LinearOperator
from coordnet.priors.base import Prior
from coordnet.sampling.grids import MaskedLattice
from coordnet.sampling.measurements import Measurements
from coordnet.sampling.operators.foreign import PhysicsOperator, said_size
from coordnet.sampling.samples import Samples

__docformat__ = "numpy"
__all__ = ["operator", "physics", "reconstructor"]


def physics(operator: LinearOperator, channels: int = 1, **options: Any) -> Any:
    """Return a linear operator of this library as a ``deepinv.physics.LinearPhysics``.

    - operator: such as one of ``cn.operators``. Its device and dtype follow those of the signals.
    - channels: the number of channels, which deepinv's tests take from here
    - options: those of ``LinearPhysics``, such as ``noise_model``
    """
    return _physics()(operator, _checks.integer("channels", channels, 1), **options)


def operator(physics: Any, grid: tuple[int, ...] | None = None) -> LinearOperator:
    """Return deepinv's linear physics as an operator of this library, on a grid, by default that of its ``img_size``.

    A ``ValueError`` is raised if it has no ``A`` and ``A_adjoint``, does not say its size, or does not map all channels
    alike, as MRI of complex pictures and masks that differ by color.
    """
    if isinstance(physics, _physics()):
        return physics.operator
    if not (hasattr(physics, "A") and hasattr(physics, "A_adjoint")):
        raise _checks.wrong("physics", "a deepinv.physics.LinearPhysics", type(physics).__name__)
    if grid is None and (size := said_size(physics)) is not None:
        grid = size[1:]
    if grid is None:
        raise _checks.wrong("grid", f"the signal's lengths, which a {type(physics).__name__} does not say", None)
    return PhysicsOperator(physics, grid)


def reconstructor(prior: Prior | str = "auto") -> Any:
    """Return fits with a prior as a ``deepinv.models.Reconstructor``: ``model(y, physics)`` returns signals.

    Pictures that deepinv's ``Inpainting`` masked are fitted as samples with gaps, others as ``Measurements``. The noise
    of a ``GaussianNoise`` is taken as it is, other noise is estimated. The prior is that of ``cn.fit``.
    """
    return _reconstructor()(prior)


@cache
def _physics() -> Any:
    from deepinv.physics import LinearPhysics  # pyright: ignore[reportMissingImports]

    class OperatorPhysics(LinearPhysics):
        """A linear operator of coordnet, for signals (batch, channels, *grid)."""

        def __init__(self, operator: Any, channels: int, **options: Any) -> None:
            super().__init__(img_size=(channels, *operator.domain), **options)
            self.operator: Any = operator

        def A(self, x: Tensor, **_: Any) -> Tensor:  # noqa: N802
            return self.operator.to(x.device, x.dtype)(x)

        def A_adjoint(self, y: Tensor, **_: Any) -> Tensor:  # noqa: N802
            return self.operator.to(y.device, y.dtype).T(y)

    return OperatorPhysics


@cache
def _reconstructor() -> Any:
    from deepinv.models import Reconstructor  # pyright: ignore[reportMissingImports]

    class PriorReconstructor(Reconstructor):
        """Fits with a prior of coordnet."""

        def __init__(self, prior: Any) -> None:
            super().__init__()
            self.prior: Any = prior

        @torch.no_grad()
        def forward(self, y: Tensor, physics: Any, **_: Any) -> Tensor:
            """Return a signal for each of the batch, (batch, channels, *grid)."""
            fits = [fit(_samples(one, physics), prior=self.prior) for one in y]
            return torch.stack([found.render(alignment="sample").movedim(-1, 0) for found in fits])

    return PriorReconstructor


def _samples(y: Float[Tensor, "channels *values"], physics: Any) -> Samples:
    """Return what a physics measured of one signal."""
    from deepinv.physics import Inpainting  # pyright: ignore[reportMissingImports]

    if isinstance(physics, Inpainting):
        values, mask = y.movedim(0, -1), physics.mask
        weights = mask.expand(1, *y.shape)[0].movedim(0, -1).to(y)
        known = weights[..., :1] if bool((weights == weights[..., :1]).all()) else weights
        return Samples(MaskedLattice(tuple(y.shape[1:]), weights=known), torch.where(known > 0, values, 0.0))
    sigma: Any = getattr(physics.noise_model, "sigma", None)
    channels, *grid = physics.A_adjoint(y.unsqueeze(0)).shape[1:]
    measuring = operator(physics, tuple(grid))
    values = y.reshape(channels, *measuring.codomain).movedim(0, -1)
    return Measurements(measuring, values, sigma=float(sigma) if sigma is not None and sigma > 0 else None)
