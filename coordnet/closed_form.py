"""Closed-form fits: a plan factorises once for a geometry, then fits any number of signals on it."""

import math
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import ComplexEncoding
from coordnet.kronecker import KroneckerLeastSquares
from coordnet.networks import CoordinateNetwork, Linear
from coordnet.reconstruction import Reconstruction
from coordnet.sampling import Geometry, Lattice, Samples


class Plan(Protocol):
    """What is factorised once for an encoding and a geometry."""

    def fit(self, values: Float[Tensor, "*batch_grid channels"]) -> Reconstruction:
        """Fit a signal, or a batch of signals that share the geometry."""
        ...


class LeastSquaresPlan:
    """Least squares (or ridge) of a complex encoding on a whole lattice; see ``KroneckerLeastSquares``.

    Parameters
    ----------
    encoding : ComplexEncoding
        The encoding.
    geometry : Lattice
        Where the values will be.
    ridge, rcond
        See ``KroneckerLeastSquares``.
    center : bool
        Fit each channel's mean apart.
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
        self.encoding, self.geometry, self.center = encoding, geometry, center
        designs = encoding.designs(geometry.axes, device=device)
        self.system = KroneckerLeastSquares(designs, ridge=ridge, rcond=rcond, dtype=dtype)
        self.report = {
            "method": "least squares",
            "ranks": list(self.system.ranks),
            "degrees_of_freedom": self.system.degrees_of_freedom,
        }

    def fit(self, values: Float[Tensor, "*batch_grid channels"]) -> Reconstruction:
        """Fit values (*batch, *lattice, channels).

        Raises
        ------
        ValueError
            If the values' shape does not end in the lattice and the channels.
        """
        shape, dims = self.geometry.shape, len(self.geometry.shape)
        batch = tuple(values.shape[: values.ndim - dims - 1])
        if tuple(values.shape[len(batch) : -1]) != shape:
            raise _checks.wrong("values", f"shape (*batch, {shape}, channels)", tuple(values.shape))
        channels = values.shape[-1]
        stack = values.movedim(-1, len(batch))  # (*batch, channels, *lattice)
        offset = stack.flatten(-dims).mean(-1) if self.center else stack.new_zeros(*batch, channels)
        centered = stack - offset.reshape(*offset.shape, *(1,) * dims)
        weight = self.system.weights(centered.flatten(0, len(batch)))
        network = CoordinateNetwork(self.encoding, Linear(), math.prod(batch) * channels, weight=weight)
        offset = offset.reshape(*batch, *(1,) * dims, channels) if batch else offset
        return Reconstruction(network, offset, self.geometry.grid, batch, dict(self.report))


def plan(
    encoding: ComplexEncoding,
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
    encoding: ComplexEncoding,
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
