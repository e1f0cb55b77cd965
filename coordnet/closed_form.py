"""Closed-form fits: a plan factorises once for a geometry, then fits any number of signals on it."""

import copy
import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import ComplexEncoding, Encoding
from coordnet.heads import Linear
from coordnet.kronecker import KroneckerLeastSquares
from coordnet.networks import CoordinateNetwork
from coordnet.reconstruction import Reconstruction
from coordnet.sampling import Geometry, Lattice, Samples


class Plan(ABC):
    """What is factorised once for an encoding and a geometry.

    Parameters
    ----------
    encoding : ComplexEncoding
        The encoding; a copy of it is kept, with what it trains held fixed.
    geometry : Geometry
        Where the values will be.
    center : bool
        Fit each channel's mean apart.
    """

    def __init__(self, encoding: ComplexEncoding, geometry: Geometry, *, center: bool) -> None:
        self.encoding = copy.deepcopy(encoding).requires_grad_(False)
        self.geometry, self.center = geometry, center

    @abstractmethod
    def solve(
        self, values: Float[Tensor, "signals channels *samples"]
    ) -> tuple[Float[Tensor, "signals channels *modes"], dict[str, Any]]:
        """Return the weights of centred values, and how the solve went."""

    def means(self, values: Float[Tensor, "signals channels *samples"]) -> Float[Tensor, "signals channels"]:
        """What is fitted apart: the mean of every channel."""
        return values.flatten(2).mean(-1)

    def fit(self, values: Float[Tensor, "*batch_samples channels"]) -> Reconstruction:
        """Fit a signal, or a batch of signals that share the geometry.

        Parameters
        ----------
        values : (*batch, *samples, channels)
            The samples are a lattice, or n points.

        Raises
        ------
        ValueError
            If the values' shape does not end in the geometry's and the channels.
        """
        shape = self.geometry.shape
        batch, channels = tuple(values.shape[: -len(shape) - 1]), values.shape[-1]
        if tuple(values.shape[len(batch) : -1]) != shape:
            raise _checks.wrong("values", f"shape (*batch, {shape}, channels)", tuple(values.shape))
        stack = values.movedim(-1, len(batch)).reshape(math.prod(batch), channels, *shape)
        means = self.means(stack) if self.center else stack.new_zeros(stack.shape[:2])
        weights, report = self.solve(stack - means.reshape(*means.shape, *(1,) * len(shape)))
        network = CoordinateNetwork(
            self.encoding, Linear(), means.numel(), weight=weights.flatten(0, 1).contiguous()
        )
        return Reconstruction(network, means.reshape(*batch, channels), self.geometry.grid, batch, report)


class LeastSquaresPlan(Plan):
    """Least squares (or ridge) of a complex encoding on a whole lattice; see ``KroneckerLeastSquares``.

    Parameters
    ----------
    encoding, geometry, center
        See ``Plan``.
    ridge, rcond
        See ``KroneckerLeastSquares``.
    dtype, device
        Of the values to come.
    """

    def __init__(
        self,
        encoding: ComplexEncoding,
        geometry: Lattice,
        *,
        ridge: float = 0.0,
        rcond: float | None = None,
        center: bool = True,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(encoding, geometry, center=center)
        designs = encoding.designs(geometry.axes, device=device)
        self.system = KroneckerLeastSquares(designs, ridge=ridge, rcond=rcond, dtype=dtype)

    def solve(
        self, values: Float[Tensor, "signals channels *samples"]
    ) -> tuple[Float[Tensor, "signals channels *modes"], dict[str, Any]]:
        """Return the weights of centred values, with ranks and degrees of freedom."""
        report = {
            "method": "least squares",
            "ranks": list(self.system.ranks),
            "degrees_of_freedom": self.system.degrees_of_freedom,
        }
        return self.system.weights(values), report


def plan(
    encoding: Encoding,
    geometry: Geometry,
    *,
    ridge: float = 0.0,
    rcond: float | None = None,
    center: bool = True,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Plan:
    """Factorise what a closed-form fit of an encoding needs on a geometry.

    Parameters
    ----------
    encoding : ComplexEncoding
        The encoding.
    geometry : Lattice
        Where the values will be; ``samples.geometry``.
    ridge : float
        λ of ‖A w - y‖² + λ ‖w‖².
    rcond : float, optional
        Relative cut of singular values.
    center : bool
        Fit each channel's mean apart.
    dtype, device
        Of the values to come.

    Returns
    -------
    Plan
        ``plan.fit(values)`` gives a ``Reconstruction``.

    Raises
    ------
    ValueError
        If the encoding is not complex, or the geometry is not a whole lattice.
    """
    if not isinstance(encoding, ComplexEncoding):
        raise _checks.wrong(
            "encoding", "a ComplexEncoding: others have no closed form", type(encoding).__name__
        )
    if type(geometry) is not Lattice:
        raise _checks.wrong("geometry", "a whole Lattice", type(geometry).__name__)
    return LeastSquaresPlan(
        encoding, geometry, ridge=ridge, rcond=rcond, center=center, dtype=dtype, device=device
    )


def fit_closed_form(
    encoding: Encoding,
    samples: Samples,
    *,
    ridge: float = 0.0,
    rcond: float | None = None,
    center: bool = True,
) -> Reconstruction:
    """Fit a complex encoding with a linear head to samples, exactly; see ``plan`` for the arguments."""
    values = samples.values
    made = plan(
        encoding,
        samples.geometry,
        ridge=ridge,
        rcond=rcond,
        center=center,
        dtype=values.dtype,
        device=values.device,
    )
    return made.fit(values)
