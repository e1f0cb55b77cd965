"""Plans: what is factorised once for a geometry, to fit any number of signals on it."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.fit.centred import Centred
from coordnet.fit.cuda_graphs import CudaGraph
from coordnet.fit.fused import Renderer
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.sampling.axes import Alignment
from coordnet.sampling.samples import Geometry


@dataclass(frozen=True)
class Solved:
    """What a plan makes of centred values.

    Attributes
    ----------
    weights : (signals, channels, *features)
        Of the linear head.
    report : dict
        How it went, as JSON holds it.
    learned : dict of tensors
        What else was estimated and is worth keeping.
    """

    weights: Float[Tensor, "signals channels *features"]
    report: dict[str, Any]
    learned: dict[str, Tensor] = field(default_factory=dict)


def apart(solve: Callable[[Tensor], Solved], values: Centred) -> Solved:
    """Solve every signal by itself, where something is estimated of it that a batch must not share.

    The report of several has the most iterations, the worst residual, and each one's own under ``signals``.
    """
    each = [solve(signal) for signal in values.whole().split(1)]
    if len(each) == 1:
        return each[0]
    reports = [solved.report for solved in each]
    report = {
        "method": reports[0]["method"],
        "iterations": max(r["iterations"] for r in reports),
        "relative_residual": max(r["relative_residual"] for r in reports),
        "signals": reports,
    }
    learned = {name: torch.cat([solved.learned[name] for solved in each]) for name in each[0].learned}
    return Solved(torch.cat([solved.weights for solved in each]), report, learned)


class Plan(ABC):
    """What is factorised once for an encoding and a geometry.

    Parameters
    ----------
    encoding : ComplexEncoding or FourierEncoding
        The encoding; a copy of it is kept, with what it trains held fixed.
    geometry : Geometry
        Where the values will be.
    center : bool
        Fit each channel's mean apart.
    dtype : torch.dtype
        Of the values to come.

    Attributes
    ----------
    direct : bool
        Whether a fit is a fixed sequence of products, without iteration.

    Notes
    -----
    A direct fit allocates its result and no more, as does a ``renderer``: what one product passes to the next lies in
    memory that each thread keeps (see ``scratch``), some channels at a time, as many as a processor's cache holds. A
    captured graph keeps its own. Beside it autograd takes what a gradient needs, libraries some for products in bf16
    and for FFTs on a GPU, the imitation of TF32 on a CPU its rounded factors; a batch whose dimensions do not lie one
    after another in memory is copied.
    """

    direct: bool = False

    def __init__(
        self,
        encoding: ComplexEncoding | FourierEncoding,
        geometry: Geometry,
        *,
        center: bool,
        dtype: torch.dtype,
    ) -> None:
        self.encoding = copy.deepcopy(encoding)
        self.encoding.requires_grad_(False)
        self.geometry, self.center, self.dtype = geometry, center, dtype

    @abstractmethod
    def solve(self, values: Centred) -> Solved:
        """Return the weights of centred values, and how the solve went."""

    def means(self, values: Float[Tensor, "signals channels *samples"]) -> Float[Tensor, "signals channels"]:
        """What is fitted apart: the mean of every channel, weighted as the geometry is."""
        weights = getattr(self.geometry, "weights", None)
        if weights is None:
            return values.flatten(2).mean(-1)
        weights = weights.movedim(-1, 0).to(values).expand_as(values).flatten(2)
        return (weights * values.flatten(2)).sum(-1) / weights.sum(-1).clamp(
            min=torch.finfo(values.dtype).tiny
        )

    def fit(self, values: Float[Tensor, "*batch_samples channels"]) -> Reconstruction:
        """Fit a signal, or a batch of signals that share the geometry.

        Parameters
        ----------
        values : (*batch, *samples, channels)
            The samples are a lattice, or n points.

        Raises
        ------
        ValueError
            If the values' shape does not end in the geometry's and the channels, or they are not of ``dtype``.
        """
        centred = self.centred(values)
        solved = self.solve(centred)
        encoding = copy.deepcopy(self.encoding)  # the plan's own stays as it is, whatever becomes of the fit
        network = CoordinateNetwork(
            encoding, Linear(), centred.means.numel(), weight=solved.weights.flatten(0, 1).contiguous()
        )
        offset = centred.means.reshape(*centred.batch, values.shape[-1])
        return Reconstruction(
            network, offset, self.geometry.grid, centred.batch, solved.report, solved.learned
        )

    def centred(self, values: Float[Tensor, "*batch_samples channels"]) -> Centred:
        """The values (signals, channels, *samples) less their means, with those; see ``fit`` for what is raised."""
        shape = self.geometry.shape
        batch, channels = tuple(values.shape[: -len(shape) - 1]), values.shape[-1]
        if tuple(values.shape[len(batch) : -1]) != shape:
            raise _checks.wrong("values", f"shape (*batch, {shape}, channels)", tuple(values.shape))
        if values.dtype != self.dtype:
            raise _checks.wrong("values", f"{self.dtype}, as the plan was made for", values.dtype)
        stack = values.movedim(-1, len(batch)).reshape(math.prod(batch), channels, *shape)
        means = self.means(stack) if self.center else stack.new_zeros(stack.shape[:2])
        return Centred(stack, means, batch)

    def renderer(self, shape: tuple[int, ...] | None = None, alignment: Alignment = "pixel") -> Renderer:
        """Return what fits and renders at once, for plans that do not iterate.

        Parameters
        ----------
        shape, alignment
            Of the render; see ``Reconstruction.render``.

        Returns
        -------
        Renderer
            ``renderer(values)`` is ``plan.fit(values).render(shape, alignment)``, in fewer products.

        Raises
        ------
        ValueError
            If the plan iterates.
        """
        raise self._iterates()

    def capture(self, values: Float[Tensor, "*batch_samples channels"]) -> CudaGraph[Reconstruction]:
        """Record the fit of values of one shape as a CUDA graph; see ``CudaGraph``.

        Raises
        ------
        ValueError
            If the plan iterates, or the values are not on a CUDA device.
        """
        if not self.direct:
            raise self._iterates()
        return CudaGraph(self.fit, values)

    def _iterates(self) -> ValueError:
        return _checks.wrong("plan", "one of a whole lattice, which takes no iteration", type(self).__name__)
