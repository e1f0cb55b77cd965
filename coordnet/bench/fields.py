"""Smooth fields by their formulas, as signals to measure on: nothing is read from a file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.bench.signals import QUICK, Finder, Signal
from coordnet.sampling import Axis, lattice_points


def sines(y: Tensor, x: Tensor) -> Tensor:
    """Return ½ + ½ sin 9x cos 7y."""
    return 0.5 + 0.5 * (9 * x).sin() * (7 * y).cos()


def franke(y: Tensor, x: Tensor) -> Tensor:
    """Return Franke's function, divided by 1.25 so that it is within [0, 1] (Franke, 1979: report NPS-53-79-003)."""
    total = 0.75 * torch.exp(-((9 * x - 2) ** 2 + (9 * y - 2) ** 2) / 4)
    total += 0.75 * torch.exp(-((9 * x + 1) ** 2) / 49 - (9 * y + 1) / 10)
    total += 0.5 * torch.exp(-((9 * x - 7) ** 2 + (9 * y - 3) ** 2) / 4)
    total -= 0.2 * torch.exp(-((9 * x - 4) ** 2) - (9 * y - 7) ** 2)
    return total / 1.25


def peaks(y: Tensor, x: Tensor) -> Tensor:
    """Return two Gaussian hills."""
    first = torch.exp(-40 * ((x - 0.3) ** 2 + (y - 0.6) ** 2))
    return first + 0.5 * torch.exp(-90 * ((x - 0.7) ** 2 + (y - 0.3) ** 2))


def waves(z: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Return a sum of two oblique waves in three dimensions."""
    return 0.5 + 0.25 * (5 * x + 3 * y).sin() + 0.25 * (4 * z - 2 * x).cos()


def tone(x: Tensor) -> Tensor:
    """Return a decaying tone."""
    return 0.5 + 0.5 * torch.exp(-3 * x) * (60 * x).sin()


FIELDS: dict[str, tuple[Callable[..., Tensor], int]] = {  # with the number of axes
    "sines": (sines, 2),
    "franke": (franke, 2),
    "peaks": (peaks, 2),
    "waves": (waves, 3),
    "tone": (tone, 1),
}


@dataclass(frozen=True)
class FieldSignal(Signal):
    """A field on a lattice of ``size`` nodes along each axis, at positions i / size."""

    def load(self) -> Float[Tensor, "*grid channels"]:
        """Evaluate the field in float64."""
        function, dims = FIELDS[self.name]
        points = lattice_points((Axis(self.size),) * dims)
        return function(*points.unbind(-1)).unsqueeze(-1)


@dataclass(frozen=True)
class FieldFinder(Finder):
    """A choice of fields by their names, each in several sizes."""

    def find(self, data: Path, count: int | None = None, *, quick: bool = False) -> list[Signal]:
        """Return the first ``count`` fields, shorter if ``quick``; the folder is not looked at."""
        sizes = [max(16, size // QUICK) if quick else size for size in self.sizes]
        return [FieldSignal("field", name, "", size, Path()) for name in self.names[:count] for size in sizes]
