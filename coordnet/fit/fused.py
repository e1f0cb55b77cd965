"""Fit and render at once, where the coefficients between them are not wanted."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.fit.centred import Centred, Chain
from coordnet.fit.cuda_graphs import CudaGraph
from coordnet.sampling.axes import Axes


class Renderer:
    """Values on a plan's geometry to the fitted signal on a lattice.

    Parameters
    ----------
    centred : function
        Of values (*batch, *samples, channels): see ``Plan.centred``.
    apply : Chain
        Centred values (signals, channels, *samples) to the centred signal (signals, channels, *lattice).
    axes : tuple of Axis
        The lattice.
    """

    def __init__(self, centred: Callable[[Tensor], Centred], apply: Chain, axes: Axes) -> None:
        self.centred, self.apply, self.axes = centred, apply, axes

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the lattice."""
        return tuple(axis.count for axis in self.axes)

    @torch.no_grad()
    def __call__(self, values: Float[Tensor, "*batch_samples channels"]) -> Float[Tensor, "*result channels"]:
        """Fit a signal, or a batch of them, and evaluate it: ``plan.fit(values).render(shape)``.

        Parameters
        ----------
        values : (*batch, *samples, channels)
            On the plan's geometry.

        Returns
        -------
        (*batch, *shape, channels)
            The values there.

        Raises
        ------
        ValueError
            If the values' shape does not end in the geometry's and the channels, or they are not of the plan's
            ``dtype``.
        """
        centred = self.centred(values)
        out = centred.through(self.apply, self.shape, shifted=True)
        return out.movedim(1, -1).reshape(*centred.batch, *self.shape, values.shape[-1])

    def capture(self, values: Float[Tensor, "*batch_samples channels"]) -> CudaGraph:
        """Record this for values of one shape as a CUDA graph; see ``CudaGraph``."""
        return CudaGraph(self, values)
