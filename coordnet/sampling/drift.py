"""Drifts: columns such as an elevation on which values at points depend linearly, beside a smooth field."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks

EDGE = 0.01  # distance beyond the outermost node of a drift that is taken for rounding, in distances of its nodes


@dataclass(frozen=True)
class Drift:
    """The columns of a drift at points, (n, k) in the user's units, and their names."""

    names: tuple[str, ...]
    columns: Float[np.ndarray, "n k"]

    def __post_init__(self) -> None:
        for name, low, high in zip(self.names, self.columns.min(0), self.columns.max(0), strict=True):
            if not high > low:
                raise _checks.wrong("drift", f"different numbers in {name}", f"{low:g} at all points")

    @property
    def means(self) -> Float[np.ndarray, " k"]:
        """The mean of each column."""
        return self.columns.mean(0)

    @property
    def scales(self) -> Float[np.ndarray, " k"]:
        """The standard deviation of each column."""
        return self.columns.std(0)

    @property
    def standardized(self) -> Float[np.ndarray, "n k"]:
        """The columns with the mean 0 and the standard deviation 1."""
        return (self.columns - self.means) / self.scales


def drift_names(given: Any, count: int) -> tuple[str, ...]:
    """Return the names of columns: those of a mapping or a frame, the name of a series, or drift1 and so on."""
    if isinstance(given, Mapping):
        return tuple(map(str, given))
    named = getattr(given, "columns", [given.name] if getattr(given, "name", None) else None)
    return tuple(map(str, named)) if named is not None else tuple(f"drift{j + 1}" for j in range(count))


def columns_at(
    names: Sequence[str], given: Any, shape: tuple[int, ...], axes: Mapping[str, np.ndarray] | None = None
) -> Float[Tensor, "*shape k"]:
    """Return the columns of a drift, (*shape, k), at points or on the grid that ``axes`` span.

    They are given as one array of that shape, or by their names in a mapping or a frame. On a grid each may be a
    function of its coordinates or an ``xarray.DataArray`` that is interpolated between its nodes; a single column needs
    no name.

    A ``ValueError`` is raised if there is no drift, a column is missing, or one has another shape.
    """
    wanted = f"{', '.join(names)} where the fit is evaluated"
    if given is None:
        raise _checks.wrong("drift", wanted, "none")
    if isinstance(given, Mapping) or hasattr(given, "columns") or hasattr(given, "data_vars"):
        for name in names:
            if name not in given:
                raise _checks.wrong("drift", wanted, f"no {name}")
        return torch.stack([_column(name, given[name], shape, axes) for name in names], -1)
    if len(names) == 1 and (callable(given) or hasattr(given, "interp") or np.shape(given) == shape):
        return _column(names[0], given, shape, axes)[..., None]
    columns = torch.as_tensor(given) if isinstance(given, Tensor) else torch.from_numpy(np.array(given, np.float64))
    if tuple(columns.shape) != (*shape, len(names)):
        raise _checks.wrong("drift", f"shape {(*shape, len(names))}, for {', '.join(names)}", tuple(columns.shape))
    return columns


def _column(name: str, given: Any, shape: tuple[int, ...], axes: Mapping[str, np.ndarray] | None) -> Tensor:
    """Return one column; see ``columns_at``."""
    if isinstance(given, Tensor) and tuple(given.shape) == shape:
        return given
    labelled: Any = given
    if axes is not None and hasattr(labelled, "interp"):
        if set(labelled.dims) != set(axes):
            found = ", ".join(map(str, labelled.dims))
            raise _checks.wrong("drift", f"{name} along {', '.join(axes)}", f"along {found}")
        inside = {axis: moved_inside(x, np.asarray(labelled[axis])) for axis, x in axes.items()}
        given = labelled.interp(inside).transpose(*axes)
    elif axes is not None and callable(given):
        given = given(*np.meshgrid(*axes.values(), indexing="ij"))
    try:
        numbers = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise _checks.wrong("drift", f"numbers for {name}", type(given).__name__) from None
    if numbers.shape not in (shape, ()):
        raise _checks.wrong("drift", f"shape {shape} for {name}", numbers.shape)
    return torch.from_numpy(np.broadcast_to(numbers, shape).copy())


def moved_inside(x: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return coordinates, those that rounding alone puts beyond the outermost nodes moved onto these."""
    low, high = nodes.min(), nodes.max()
    nearest = x.clip(low, high)
    return np.where(np.abs(x - nearest) <= EDGE * (high - low) / max(len(nodes) - 1, 1), nearest, x)
