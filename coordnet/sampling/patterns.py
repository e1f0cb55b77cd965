"""Sampling patterns: which samples of a signal are kept."""

import math
import re
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.machine import as_generator
from coordnet.sampling.arrays import Array, as_mask, as_signal, count_axes_by_mask
from coordnet.sampling.grids import AreaLattice, Lattice, MaskedLattice
from coordnet.sampling.samples import Geometry, Samples
from coordnet.sampling.scattered import ScatteredPoints


@dataclass(frozen=True)
class Every:
    """Every k-th sample along each axis, from an offset on: one number for all axes, or one per axis.

    ``Every(1)`` is the full lattice. A step below 1 or an offset below 0 raises a ``ValueError``.
    """

    steps: int | tuple[int, ...] = 1
    offsets: int | tuple[int, ...] = 0

    def __post_init__(self) -> None:
        for name, minimum in (("steps", 1), ("offsets", 0)):
            numbers = getattr(self, name)
            for number in numbers if isinstance(numbers, tuple) else (numbers,):
                _checks.integer(name, number, minimum)

    def geometry(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Lattice:
        """Return the strided lattice of a signal of ``shape`` (*grid, channels)."""
        per_axis = []
        for name, numbers in (("steps", self.steps), ("offsets", self.offsets)):
            numbers = numbers if isinstance(numbers, tuple) else (numbers,) * (len(shape) - 1)
            if len(numbers) != len(shape) - 1:
                raise _checks.wrong(name, f"one number, or {len(shape) - 1}, one per axis", numbers)
            per_axis.append(numbers)
        return Lattice(shape[:-1], *per_axis)


@dataclass(frozen=True)
class Random:
    """A random fraction of the points: round(fraction × points), at least one, without replacement.

    With ``by_channel`` entries are drawn instead of points, so that the channels' masks differ. A fraction outside
    (0, 1] raises a ``ValueError``.
    """

    fraction: float
    by_channel: bool = False

    def __post_init__(self) -> None:
        if not 0 < _checks.nonnegative("fraction", self.fraction) <= 1:
            raise _checks.wrong("fraction", "a number above 0 and at most 1", self.fraction)

    def geometry(self, shape: tuple[int, ...], generator: torch.Generator | None) -> MaskedLattice:
        """Draw the mask of a signal of ``shape`` (*grid, channels)."""
        drawn = shape if self.by_channel else (*shape[:-1], 1)
        count = math.prod(drawn)
        generator = as_generator(generator)
        order = torch.randperm(count, generator=generator, device=generator.device)
        weights = torch.zeros(count, device=generator.device)
        weights[order[: max(1, round(self.fraction * count))]] = 1
        return MaskedLattice(shape[:-1], weights=weights.reshape(drawn))


BAYER_PATTERNS = ("RGGB", "BGGR", "GRBG", "GBRG")  # the colors of the upper left 2 by 2 pixels, row by row


@dataclass(frozen=True)
class Bayer:
    """A color mosaic: each pixel of an image has one of red, green and blue, in tiles of 2 by 2.

    The pattern is RGGB, BGGR, GRBG or GBRG. Another one, or a signal that is not an image of three channels, raises a
    ``ValueError``.
    """

    pattern: str = "RGGB"

    def __post_init__(self) -> None:
        _checks.choice("pattern", self.pattern, BAYER_PATTERNS)

    def geometry(self, shape: tuple[int, ...], generator: torch.Generator | None) -> MaskedLattice:
        """Return the mosaic's mask for an image of ``shape`` (height, width, 3)."""
        if len(shape) != 3 or shape[-1] != 3:
            raise _checks.wrong("signal", "an image of three channels for a Bayer mosaic", f"shape {shape}")
        weights = torch.zeros(shape)
        for i, color in enumerate(self.pattern):
            weights[i // 2 :: 2, i % 2 :: 2, "RGB".index(color)] = 1
        return MaskedLattice(shape[:-1], weights=weights)


@dataclass(frozen=True, eq=False)
class WeightedBayer(Bayer):
    """A color mosaic whose samples have weights (height, width, 1), as those of a ``NoiseModel``."""

    weights: Float[Tensor, "height width 1"] | float = 1.0

    def geometry(self, shape: tuple[int, ...], generator: torch.Generator | None) -> MaskedLattice:
        """Return the mosaic's mask, times the weights, for an image of ``shape`` (height, width, 3)."""
        mask = super().geometry(shape, generator)
        return mask.reweighted(self.weights * mask.weights)


@dataclass(frozen=True)
class Area:
    """Means over cells of some pixels along each axis, which tile the signal: one number for all axes, or one per axis.

    A number below 1, and cells that do not tile, raise a ``ValueError``.
    """

    cells: int | tuple[int, ...] = 1

    def geometry(self, shape: tuple[int, ...], generator: torch.Generator | None) -> AreaLattice:
        """Return the cells of a signal of ``shape`` (*grid, channels)."""
        cells = self.cells if isinstance(self.cells, tuple) else (self.cells,) * (len(shape) - 1)
        return AreaLattice(shape[:-1], cells)


@dataclass(frozen=True)
class Scattered:
    """Points drawn uniformly between a signal's samples, not on them: round(fraction × samples), at least one.

    The signal there is its cubic spline, SciPy's ``map_coordinates``. A fraction outside (0, 1] raises a
    ``ValueError``.
    """

    fraction: float

    def __post_init__(self) -> None:
        Random(self.fraction)

    def geometry(self, shape: tuple[int, ...], generator: torch.Generator | None) -> ScatteredPoints:
        """Draw the points of a signal of ``shape`` (*grid, channels), between its first and its last sample."""
        grid = torch.tensor(shape[:-1], dtype=torch.float64)
        count = max(1, round(self.fraction * math.prod(shape[:-1])))
        generator = as_generator(generator)
        points = torch.rand(count, len(grid), dtype=torch.float64, generator=generator, device=generator.device).cpu()
        return ScatteredPoints(shape[:-1], points * (grid - 1) / grid)


Pattern = Every | Random | Bayer | Scattered | Area
PATTERNS = {
    "full": "full",
    "every": "every:K[xK…][+OFFSET]",
    "random": "random:FRACTION",
    "entries": "entries:FRACTION",
    "bayer": "bayer:RGGB",
    "scattered": "scattered:FRACTION",
    "area": "area:N[xN…]",
}


def parse_pattern(text: str) -> Pattern:
    """Return the sampling pattern that a text names; others raise a ``ValueError``.

    The texts are ``full``; ``every:k`` with one k or one per axis (``every:2x1``), an offset after a plus sign
    (``every:2+1``, ``every:2x2+1x0``); ``random:0.25``; ``entries:0.3`` (a mask per channel); ``bayer:RGGB``;
    ``scattered:0.25`` (points between the samples); ``area:2`` or ``area:2x3`` (means over cells of so many pixels).
    """
    kind, _, rest = text.partition(":")
    try:
        match kind:
            case "full" if not rest:
                return Every()
            case "every" if match := re.fullmatch(r"([1-9]\d*(?:x[1-9]\d*)*)(?:\+(\d+(?:x\d+)*))?", rest):
                return Every(_numbers(match[1]), _numbers(match[2] or "0"))
            case "random" | "entries":
                return Random(float(rest), by_channel=kind == "entries")
            case "bayer":
                return Bayer(rest.upper() or "RGGB")
            case "scattered":
                return Scattered(float(rest))
            case "area" if re.fullmatch(r"[1-9]\d*(?:x[1-9]\d*)*", rest):
                return Area(_numbers(rest))
    except ValueError as error:
        raise _checks.wrong("sample", f"a valid {kind} pattern", f"{text!r} ({error})") from None
    raise _checks.wrong("sample", f"one of {', '.join(PATTERNS.values())}", repr(text))


def default_pattern(grid: tuple[int, ...]) -> str:
    """Return the pattern by which the command samples a signal if none is given: rows by halves, others at random."""
    return "every:2" if len(grid) == 1 else "random:0.25"


def sample(
    signal: Array,
    pattern: str | Pattern | Array,
    *,
    dimensions: int | None = None,
    generator: torch.Generator | None = None,
) -> Samples:
    """Sample a signal.

    A ``ValueError`` is raised if the pattern does not fit the signal or leaves no sample, the arrays are of another
    type, or gradients are followed to a signal of which scattered samples are asked.

    Parameters
    ----------
    signal : NumPy array or tensor, (*grid, channels), or (height, width) for a gray picture
        The signal; integers of 8 and 16 bits are scaled to [0, 1]. NaN counts as unknown, and the samples are then on a
        masked lattice.
    pattern : str, Every, Random, Bayer, Scattered, Area, or a mask
        A mask is an array of the signal's grid, or of its shape: true, or a positive weight, where a sample is known.
        Texts are documented in ``parse_pattern``.
    dimensions : int, optional
        The number of axes of the grid, where the shape does not tell; see ``as_signal``.
    generator : torch.Generator, optional
        The source of randomness; by default that of ``torch.manual_seed``.
    """
    dimensions = count_axes_by_mask(signal, pattern) if dimensions is None else dimensions
    signal, _ = as_signal(signal, dimensions=dimensions)
    shape = tuple(signal.shape)
    if isinstance(pattern, np.ndarray | Tensor):
        mask = as_mask(pattern)
        if tuple(mask.shape) not in (shape, shape[:-1], (*shape[:-1], 1)):
            raise _checks.wrong("mask", f"shape {shape[:-1]} or {shape}", tuple(mask.shape))
        weights = mask if mask.ndim == signal.ndim else mask.unsqueeze(-1)
        geometry: Geometry = MaskedLattice(shape[:-1], weights=weights.to(torch.get_default_dtype()))
    else:
        pattern = parse_pattern(pattern) if isinstance(pattern, str) else pattern
        if not isinstance(pattern, Pattern):
            expected = "a text such as 'random:0.25', a pattern, or a mask as a NumPy array or a tensor"
            raise _checks.wrong("pattern", expected, type(pattern).__name__)
        geometry = pattern.geometry(shape, as_generator(generator))
    return geometry.sample(signal)


def _numbers(text: str) -> int | tuple[int, ...]:
    numbers = tuple(int(n) for n in text.split("x"))
    return numbers[0] if len(numbers) == 1 else numbers
