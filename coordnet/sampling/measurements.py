"""Observations: how samples depend on the lattice signal, y = S f with weights W."""

import copy
import math
from abc import ABC, abstractmethod

from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.fit.blending import Blending
from coordnet.linalg.conjugate_gradients import among


class Observation(ABC):
    """The parts of the normal equations SᵀWS f = SᵀW y that depend on the samples.

    Attributes
    ----------
    density : float
        Trace of SᵀWS over the lattice's size: the fraction of known points, for a mask.
    weights : (signals or 1, channels or 1, *samples)
        W.
    """

    density: float
    weights: Tensor

    @abstractmethod
    def forward(
        self, f: Float[Tensor, "signals channels *lattice"]
    ) -> Float[Tensor, "signals channels *samples"]:
        """S f."""

    @abstractmethod
    def adjoint(
        self, y: Float[Tensor, "signals channels *samples"]
    ) -> Float[Tensor, "signals channels *lattice"]:
        """SᵀW y."""

    @abstractmethod
    def reweighted(self, factor: Float[Tensor, "signals channels *samples"]) -> "Observation":
        """The same samples, each weight multiplied by a factor."""

    def only(self, kept: Bool[Tensor, "signals channels"]) -> "Observation":
        """The same samples of some signals' channels alone, where channels are not mixed."""
        some = copy.copy(self)
        some.weights = among(self.weights, kept)
        return some

    @abstractmethod
    def diagonal(self) -> Float[Tensor, "signals channels *lattice"]:
        """The diagonal of SᵀWS; where that is not diagonal, its sums over rows."""

    def normal(
        self, f: Float[Tensor, "signals channels *lattice"]
    ) -> Float[Tensor, "signals channels *lattice"]:
        """SᵀWS f."""
        return self.adjoint(self.forward(f))


class Masked(Observation):
    """Some entries of the lattice itself.

    Parameters
    ----------
    weights : (signals or 1, channels or 1, *lattice)
        0 where nothing is known.
    """

    def __init__(self, weights: Float[Tensor, "signals channels *lattice"]) -> None:
        self.weights = weights
        self.density = float(weights.mean())

    def forward(
        self, f: Float[Tensor, "signals channels *lattice"]
    ) -> Float[Tensor, "signals channels *lattice"]:
        """S f, with S the identity; the weights leave out what is not known."""
        return f

    def adjoint(
        self, y: Float[Tensor, "signals channels *lattice"]
    ) -> Float[Tensor, "signals channels *lattice"]:
        """W y."""
        return self.weights * y

    def reweighted(self, factor: Float[Tensor, "signals channels *lattice"]) -> "Masked":
        """The same entries, each weight multiplied by a factor."""
        return Masked(self.weights * factor)

    def diagonal(self) -> Float[Tensor, "signals channels *lattice"]:
        """W."""
        return self.weights


class Scattered(Observation):
    """Points between the nodes, through a blending matrix.

    Parameters
    ----------
    blending : Blending
        S.
    weights : (signals or 1, channels or 1, n)
        W.
    """

    def __init__(self, blending: Blending, weights: Float[Tensor, "signals channels n"]) -> None:
        self.blending, self.weights = blending, weights
        squares = blending.weights.square().sum(1)
        size = math.prod(blending.lattice)
        self.density = float((squares * weights).sum(-1).mean()) / size

    def forward(self, f: Float[Tensor, "signals channels *lattice"]) -> Float[Tensor, "signals channels n"]:
        """S f."""
        return self.blending.forward(f)

    def adjoint(self, y: Float[Tensor, "signals channels n"]) -> Float[Tensor, "signals channels *lattice"]:
        """SᵀW y."""
        return self.blending.adjoint(self.weights * y)

    def reweighted(self, factor: Float[Tensor, "signals channels n"]) -> "Scattered":
        """The same points, each weight multiplied by a factor."""
        return Scattered(self.blending, self.weights * factor)

    def diagonal(self) -> Float[Tensor, "signals channels *lattice"]:
        """SᵀW 1: every row of S sums to 1."""
        return self.blending.adjoint(self.weights).clamp(min=0)


class Rotated(Observation):
    """Samples of channels that are rotations of the unknown ones: y = S (R f).

    Parameters
    ----------
    base : Observation
        S and W, by channel.
    rotation : (signals, channels, channels)
        R, orthonormal.
    """

    def __init__(self, base: Observation, rotation: Float[Tensor, "signals channels channels"]) -> None:
        self.base, self.rotation = base, rotation
        self.weights, self.density = base.weights, base.density

    def forward(
        self, f: Float[Tensor, "signals channels *lattice"]
    ) -> Float[Tensor, "signals channels *samples"]:
        """S R f."""
        return self.base.forward(rotate(self.rotation, f))

    def adjoint(
        self, y: Float[Tensor, "signals channels *samples"]
    ) -> Float[Tensor, "signals channels *lattice"]:
        """Rᵀ SᵀW y."""
        return rotate(self.rotation.mT, self.base.adjoint(y))

    def reweighted(self, factor: Float[Tensor, "signals channels *samples"]) -> "Rotated":
        """The same samples, each weight multiplied by a factor."""
        return Rotated(self.base.reweighted(factor), self.rotation)

    def diagonal(self) -> Float[Tensor, "signals channels *lattice"]:
        """The diagonal of RᵀSᵀWSR."""
        return rotate(self.rotation.square().mT, self.base.diagonal())


def rotate(
    rotation: Float[Tensor, "signals c k"], f: Float[Tensor, "signals k *lattice"]
) -> Float[Tensor, "signals c *lattice"]:
    """R f, over the channels."""
    return (rotation @ f.flatten(2)).reshape(f.shape[0], rotation.shape[1], *f.shape[2:])
