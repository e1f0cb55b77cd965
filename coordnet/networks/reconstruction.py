"""Reconstructions: fitted signals that are evaluated at points, rendered at any resolution, and saved."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.blending import Blending
from coordnet.linalg.machine import is_tracked, may_look
from coordnet.linalg.operators import Device
from coordnet.networks import model_file
from coordnet.networks.fit_reports import FitReport
from coordnet.networks.gridded import Gridded
from coordnet.networks.heads import head_configuration
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.uncertain import Places, Uncertain, Uncertainty
from coordnet.sampling.arrays import as_numbers
from coordnet.sampling.axes import Alignment, Axes, Axis, Footprint
from coordnet.sampling.drift import columns_at
from coordnet.sampling.grids import Lattice
from coordnet.sampling.rectilinear import Coordinates, RectilinearLattice

MEMORY = 2**30  # bytes that an evaluation may take beside its result
LEARNED = "learned_"  # prefix of the buffers that hold what a fit learned
SLACK = 1e-6  # distance by which rounding may move a point beyond the border, in units of the unit interval
EvaluatedOutside = Literal["error", "clamp", "extrapolate"]
Signal = Float[Tensor, "*grid channels"]


class Reconstruction(Gridded, Uncertain, nn.Module):
    """A signal as a function: f(x) = network(x) + offset.

    A fit of scattered points that were tied to a lattice is evaluated as it was fitted: f(x) is the blend of the values
    at the nodes around x, and constant beyond the outermost ones (see ``Blending``). With ``exact`` the encoding is
    evaluated at x itself, which is another function.

    It is a module: ``to`` moves it, its tensors are in its ``state_dict``, and it can be a part of a larger model.
    Gradients flow to points and, where they are followed, to the values that were fitted. The weights of a closed form
    are parameters that are not trained before ``requires_grad_()``.

    The ``network`` has ``channels`` outputs for each signal of a ``batch``, the leading dimensions of the values that
    were fitted together. The ``offset``, (*batch, channels), was subtracted before the fit. The ``grid`` has the
    signal's own lengths: the shape of ``render()``, to which "pixel" alignment is relative. ``report`` says how the fit
    went, and ``learned`` has tensors such as the spectrum of an adaptive prior. The ``footprint`` is the default of
    ``render``. With a ``lattice``, as fits on a ``RectilinearLattice`` have it, points are in the units of its
    coordinates; a ``ValueError`` is raised if it has other lengths than the grid.

    Only a fit of one signal by ``fit`` or ``fit_closed_form`` knows its samples, its ``uncertainty``, which is not
    saved; ``interval``, ``std``, ``expected_psnr``, ``score`` and ``draw`` of others raise a ``ValueError``.

    With a ``drift``, the names of its columns, f(x) = network(x) + offset + Σ β (D(x) - mean of D): the columns D are
    needed wherever the fit is evaluated, and ``learned`` has their coefficients β and their means.
    """

    offset: Tensor

    def __init__(
        self,
        network: CoordinateNetwork,
        offset: Float[Tensor, "*batch channels"],
        grid: tuple[int, ...],
        batch: tuple[int, ...] = (),
        report: FitReport | None = None,
        learned: dict[str, Tensor] | None = None,
        footprint: Footprint = "point",
        lattice: RectilinearLattice | None = None,
        uncertainty: Uncertainty | None = None,
        drift: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.drift_names = tuple(drift)
        self.footprint: Footprint = footprint
        if lattice and lattice.grid != tuple(grid):
            raise _checks.wrong("lattice", f"{' by '.join(map(str, grid))} coordinates", lattice.grid)
        self.lattice = lattice
        self.uncertainty = uncertainty
        self.network, self.lengths, self.batch = network, tuple(grid), tuple(batch)
        self.report = report or FitReport()
        self.register_buffer("offset", offset)
        for name, tensor in (learned or {}).items():
            self.register_buffer(LEARNED + name, tensor)

    @property
    def learned(self) -> dict[str, Tensor]:
        """Tensors that the fit estimated beside the coefficients, such as the spectrum of an adaptive prior."""
        return model_file.without_prefix(LEARNED, dict(self.named_buffers(recurse=False)))

    @property
    def channels(self) -> int:
        """The number of channels of each signal."""
        return self.network.channels // math.prod(self.batch)

    def extra_repr(self) -> str:
        """Return the shape of the signal, the head and the prior, for ``repr``, which has the encoders too."""
        parts = [f"shape={(*self.batch, *self.lengths, self.channels)}", f"head={self.network.head}"]
        return ", ".join([*parts, f"prior={self.report.prior}"] if self.report.prior else parts)

    def forward(
        self,
        points: Places,
        *,
        drift: Any = None,
        memory: int = MEMORY,
        outside: EvaluatedOutside = "error",
        exact: bool = False,
    ) -> Any:
        """Evaluate at points in units of the unit interval: (*batch, *points, channels). Gradients flow to them.

        Values at a tensor are a tensor; at an array, or at columns of a frame, they are an array.

        Parameters
        ----------
        points : (*points, d), or (n,) for an array of a fit with one axis
            Coordinates of any floating-point dtype, from half a sample's spacing before 0 to as much beyond 1. Others
            raise a ``ValueError``.
        drift : (*points, k), or columns by their names
            The drift at the points, where the fit has one; a ``ValueError`` is raised if it is missing.
        memory : int
            Bytes of intermediate results. More points than they allow are evaluated in chunks.
        outside : "error", "clamp" or "extrapolate"
            Whether points beyond that are refused, moved to its border, or evaluated where they are. On a GPU, in
            transforms of ``torch.func`` and under ``torch.compile``, where nothing looks at points, the values at those
            that would be refused are NaN.
        exact : bool
            Whether the encoding is evaluated at the points even if the fit blends a lattice's values.
        """
        if not isinstance(points, Tensor):
            options: Any = {"drift": drift, "memory": memory, "outside": outside, "exact": exact}
            return _as_array(self(self._as_tensor(points), **options))
        d = self.network.encoding.dimensions
        if not points.is_floating_point():
            raise _checks.wrong("points", "a tensor of floating-point coordinates", points.dtype)
        _checks.coordinates("points", points.shape, d)
        _checks.integer("memory", memory, 1)
        unit = (self.lattice.to_unit(points) if self.lattice else points).to(self.offset)
        points = self._inside(unit, _checks.choice("outside", outside, get_args(EvaluatedOutside)), points)
        rows = max(1, memory // (self.network.floats_per_point * self.offset.element_size()))
        parts = [self.network(chunk, exact=exact) for chunk in points.reshape(-1, d).split(rows)]
        values = torch.cat(parts)
        values = self._finish(values.reshape(*points.shape[:-1], values.shape[-1]), points.ndim - 1)
        return self._with_drift(values, drift, tuple(points.shape[:-1]))

    def _as_tensor(self, points: Places) -> Float[Tensor, "*points d"]:
        """Return coordinates that are no tensor as one of float64; those that are no numbers raise a ``ValueError``.

        Columns of a frame that have the names of all axes are taken by their names.
        """
        names = [axis.name for axis in getattr(self.lattice, "named", ())]
        if names and set(names) <= set(getattr(points, "columns", ())):
            points = points[names]  # type: ignore[index,call-overload]
        numbers = torch.tensor(as_numbers("points", points))
        return numbers[:, None] if numbers.ndim == 1 == self.network.encoding.dimensions else numbers

    def _inside(self, points: Tensor, outside: str, given: Tensor) -> Tensor:
        """Return the points within half a spacing of the unit cube; see ``forward``. They were given in other units."""
        if outside == "extrapolate" or points.numel() == 0:
            return points
        margin = points.new_tensor([0.5 / n for n in self.lengths])
        inside = points.clamp(-margin, 1 + margin)
        if outside == "clamp":
            return inside
        beyond = ~((points.detach() - inside.detach()).abs() <= SLACK)  # NaN is beyond too
        if not may_look(points):
            return torch.where(beyond, math.nan, points)
        if bool(beyond.any()):
            span = "coordinates in [0, 1)" if self.lattice is None else f"points of {self.lattice}"
            expected = f"{span}, or up to half a spacing beyond (or outside='clamp' or 'extrapolate')"
            raise _checks.wrong("points", expected, f"{float(given.detach()[beyond][0]):.6g}")
        return points

    def render(
        self,
        shape: int | tuple[int, ...] | None = None,
        alignment: Alignment = "pixel",
        *,
        footprint: Footprint | None = None,
        memory: int = MEMORY,
        exact: bool = False,
    ) -> Float[Tensor, "*result channels"]:
        """Evaluate on a lattice of ``shape`` outputs, the signal's own by default: (*batch, *shape, channels).

        One number is a row or a square. The positions of outputs follow from the alignment, see ``Axis.render``. With
        the footprint "area" each output is the mean over its cell, by integrals of the encoding, so that a render at a
        lower resolution has no aliases; it is the default for fits of area samples, "point" for others. Networks that
        are not separable are rendered in blocks of rows where they need more than ``memory`` bytes of intermediate
        results; ``exact`` is that of ``forward``. A fit on a ``RectilinearLattice`` is rendered at its coordinates, or
        at ``shape`` equally spaced positions from the first to the last, where there is no alignment. A ``ValueError``
        is raised if ``shape`` has another number of axes, or the encoding or the lattice has no integral over cells.
        """
        self._check_no_drift()
        axes = (self.lattice or Lattice(self.lengths)).render_axes(shape, alignment, footprint or self.footprint)
        return self.on_axes(axes, memory=memory, exact=exact)

    def at(self, *coordinates: Coordinates) -> Float[Tensor, "*result channels"]:
        """Evaluate on the lattice that coordinates of each axis span: (*batch, *lengths, channels).

        They have the units of the ``RectilinearLattice`` that was fitted, else those of the unit interval. Coordinates
        that are not increasing, or more than half a spacing beyond the samples, raise a ``ValueError``.
        """
        self._check_no_drift()
        lattice = self.lattice or RectilinearLattice(*(Axis(n).points() for n in self.lengths))
        return self.on_axes(lattice.locate(*coordinates))

    def on_axes(self, axes: Axes, *, memory: int = MEMORY, exact: bool = False) -> Float[Tensor, "*result channels"]:
        """Evaluate on the lattice that ``axes`` span; see ``render``. A drift is that of the columns' means."""
        _checks.integer("memory", memory, 1)
        network, dtype, device = self.network, self.offset.dtype, self.offset.device
        if network.is_separable:
            return self._finish(network.on_lattice(axes, dtype, device, exact=exact), len(axes))
        row = math.prod(a.count for a in axes[1:]) * network.floats_per_point * self.offset.element_size()
        step, (first, *others) = max(1, memory // row), axes
        parts = [first.part(i, min(step, first.count - i)) for i in range(0, first.count, step)]
        blocks = [network.on_lattice((part, *others), dtype, device, exact=exact) for part in parts]
        return self._finish(torch.cat(blocks), len(axes))

    def _with_drift(
        self, field: Tensor, drift: Any, shape: tuple[int, ...], axes: Mapping[str, np.ndarray] | None = None
    ) -> Float[Tensor, "*result channels"]:
        """Add the drift to a field, (*batch, *shape, channels); see ``columns_at`` for how it is given and for errors.

        A fit without a drift refuses one.
        """
        if not self.drift_names:
            if drift is not None:
                raise _checks.wrong("drift", "none, for a fit without one", type(drift).__name__)
            return field
        columns = columns_at(self.drift_names, drift, shape, axes).to(field)
        learned = self.learned
        means = learned["drift_means"].to(field).reshape(-1, *(1,) * len(shape), len(self.drift_names))
        added = torch.einsum("s...k,skc->s...c", columns - means, learned["drift"].to(field))
        return field + added.reshape(field.shape)

    def _between_nodes(self, nodes: Float[Tensor, "*nodes channels"], points: Places) -> Any:
        """Return the linear interpolation of numbers at nodes, at points in the fit's units; see ``forward``.

        The nodes are the fit's own, or for a fit at unequal coordinates those that its samples were tied to.
        """
        if not isinstance(points, Tensor):
            return _as_array(self._between_nodes(nodes, self._as_tensor(points)))
        grid = tuple(nodes.shape[:-1])
        lattice = self.lattice if self.lattice and self.lengths == grid else Lattice(grid)
        unit = self.lattice.to_unit(points) if self.lattice else points
        return Blending("linear", lattice.axes).at_points(nodes, unit.to(nodes), [])

    def _nearest(self, nodes: Float[Tensor, "*nodes channels"]) -> Signal:
        """Return numbers at nodes on the fit's own lattice, at unequal coordinates those of the nearest nodes."""
        for j, (own, count) in enumerate(zip(self.lengths, nodes.shape[:-1], strict=True)):
            if own != count and self.lattice is not None:
                at = self.lattice.axes[j].points(device=nodes.device) * count
                nodes = nodes.index_select(j, at.round().long().clamp(max=count - 1))
        return nodes

    def _finish(self, values: Tensor, dims: int) -> Tensor:
        """Add the offset to the network's output, in place where autograd allows it."""
        values = values.unflatten(-1, (*self.batch, self.channels))
        values = values.movedim(tuple(range(dims, dims + len(self.batch))), tuple(range(len(self.batch))))
        offset = self.offset.reshape(*self.batch, *(1,) * dims, self.channels)
        return values + offset if is_tracked(values) or is_tracked(offset) else values.add_(offset)

    def _check_no_drift(self) -> None:
        """Refuse a fit with a drift where its columns cannot be given with a ``ValueError``."""
        if self.drift_names:
            expected = "a fit without a drift; others are evaluated by fit(points, drift=…) and fit.grid(…, drift=…)"
            raise _checks.wrong("fit", expected, f"one with {', '.join(self.drift_names)}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the reconstruction to a safetensors file, its configuration in the metadata.

        A ``ValueError`` is raised if the file cannot be written, or the report has a number that is not finite.
        """
        network = self.network
        configuration = {
            "encoding": network.encoding.configuration(),  # type: ignore[operator]
            "head": head_configuration(network.head),
            "channels": network.channels,
            "grid": self.lengths,
            "batch": self.batch,
            "blending": network.blending and network.blending.kind,
            "footprint": self.footprint,
            "coordinates": self.lattice and self.lattice.configuration(),
            "drift": self.drift_names,
            "report": self.report.as_dict(),
        }
        tensors = model_file.with_prefix("network.", network.state_dict())
        tensors |= {k: v.clone() for k, v in tensors.items() if ".encoding." in k}  # axes may share an encoder
        tensors |= model_file.with_prefix("learned.", self.learned) | {"offset": self.offset}
        model_file.write(path, configuration, tensors)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: Device = "cpu") -> "Reconstruction":
        """Read a reconstruction that ``save`` wrote; its renders are the same to the bit.

        A ``ValueError`` is raised if the file is missing, damaged or of another kind, or its parts do not fit together.
        """
        return model_file.read(path, lambda *parts: cls(**model_file.arguments(*parts))).to(device)


def _as_array(values: Tensor) -> np.ndarray:
    """Return values without their gradients as an array of NumPy."""
    return values.detach().cpu().numpy()
