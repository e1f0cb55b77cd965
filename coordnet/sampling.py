"""What is known of a signal: sampling patterns, and the samples that they leave."""

import math
import re
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet import _checks
from coordnet.coordinates import Axes, Axis


@dataclass(frozen=True)
class Lattice:
    """A regular part of a signal's grid: every ``steps[j]``-th sample from ``offsets[j]`` on, along each axis.

    Attributes
    ----------
    grid : tuple of int
        The signal's own lengths, one an axis.
    steps, offsets : tuple of int
        The whole grid if left out.

    Raises
    ------
    ValueError
        If a step is below 1 or an offset falls outside the axis.
    """

    grid: tuple[int, ...]
    steps: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", self.steps or (1,) * len(self.grid))
        object.__setattr__(self, "offsets", self.offsets or (0,) * len(self.grid))
        for length, step, offset in zip(self.grid, self.steps, self.offsets, strict=True):
            _checks.integer("grid", length, 1)
            _checks.integer("steps", step, 1)
            if not 0 <= offset < length:
                raise _checks.wrong("offsets", f"at least 0 and below the axis's {length} samples", offset)

    @property
    def axes(self) -> Axes:
        """The positions of the lattice along each axis."""
        parts = zip(self.grid, self.steps, self.offsets, strict=True)
        return tuple(Axis.every(n, k, o) for n, k, o in parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the lattice."""
        return tuple(axis.count for axis in self.axes)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The lattice as an index into the signal's grid."""
        return tuple(slice(o, None, k) for k, o in zip(self.steps, self.offsets, strict=True))

    def known(self, channels: int) -> Bool[Tensor, "*grid channels"]:
        """Return where the signal's own grid was sampled."""
        known = torch.zeros(*self.grid, channels, dtype=torch.bool)
        known[self.slices] = True
        return known


@dataclass(frozen=True)
class MaskedLattice(Lattice):
    """A lattice of which some entries are unknown.

    Attributes
    ----------
    weights : (*lattice, 1) or (*lattice, channels)
        0 where nothing is known, 1 where a sample is, any other positive number to weight its squared error.

    Raises
    ------
    ValueError
        If the weights have not the lattice's shape, are negative or not finite, or are zero everywhere.
    """

    weights: Float[Tensor, "..."] = field(default_factory=lambda: torch.ones(()))

    def __post_init__(self) -> None:
        super().__post_init__()
        if tuple(self.weights.shape[:-1]) != self.shape:
            raise _checks.wrong("weights", f"shape {(*self.shape, 1)}", tuple(self.weights.shape))
        check_weights(self.weights)

    @property
    def density(self) -> float:
        """The mean weight: the fraction of entries that are known where weights are 0 and 1."""
        return float(self.weights.mean())

    @property
    def by_channel(self) -> bool:
        """Whether the channels' masks may differ."""
        return self.weights.shape[-1] > 1

    def known(self, channels: int) -> Bool[Tensor, "*grid channels"]:
        """Return where the signal's own grid was sampled."""
        known = torch.zeros(*self.grid, channels, dtype=torch.bool)
        known[self.slices] = (self.weights > 0).expand(*self.shape, channels).cpu()
        return known


@dataclass(frozen=True)
class ScatteredPoints:
    """Points anywhere in [0, 1)^d, tied to a lattice of the given lengths.

    Attributes
    ----------
    grid : tuple of int
        The lengths of the lattice on which the reconstruction lives.
    points : (n, d)
        In units of the unit interval; repeated points are allowed.
    weights : (n, 1) or (n, channels), optional
        Of the squared errors; 1 if not given.

    Raises
    ------
    ValueError
        If a coordinate is not finite, the number of axes does not fit, there is no point, or a weight is negative.
    """

    grid: tuple[int, ...]
    points: Float[Tensor, "n d"]
    weights: Float[Tensor, "n _"] | None = None

    def __post_init__(self) -> None:
        if self.points.shape[1] != len(self.grid):
            raise _checks.wrong("points", f"{len(self.grid)} coordinates a point", self.points.shape[1])
        if len(self.points) == 0:
            raise _checks.wrong("points", "at least one point", "none")
        if not bool(torch.isfinite(self.points).all()):
            raise _checks.wrong("points", "finite coordinates", "NaN or infinity")
        if self.weights is not None:
            check_weights(self.weights)

    @property
    def axes(self) -> Axes:
        """The whole lattice, j / N along each axis."""
        return tuple(Axis(n) for n in self.grid)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the values: the number of points."""
        return (len(self.points),)


Geometry = Lattice | MaskedLattice | ScatteredPoints


def check_weights(weights: Float[Tensor, "..."]) -> None:
    """Refuse weights that are negative, not finite, or zero everywhere."""
    if not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        raise _checks.wrong("weights", "finite numbers of at least 0", "others")
    if not bool((weights > 0).any()):
        raise _checks.wrong("weights", "at least one known sample", "none: the mask is empty")


@dataclass(frozen=True)
class Samples:
    """Values of a signal where it was sampled.

    Attributes
    ----------
    geometry : Lattice, MaskedLattice or ScatteredPoints
        Where.
    values : (*lattice, channels), or (n, channels) at scattered points
        What; zero where a masked lattice knows nothing.

    Raises
    ------
    ValueError
        If the values do not fit the geometry, or a known one is not finite.
    """

    geometry: Geometry
    values: Float[Tensor, "*lattice channels"]

    def __post_init__(self) -> None:
        expected, shape = self.geometry.shape, tuple(self.values.shape[:-1])
        if shape != expected:
            raise _checks.wrong("values", f"shape {(*expected, 'channels')}", tuple(self.values.shape))
        if not bool(torch.isfinite(self.values).all()):
            raise _checks.wrong("values", "finite values", "NaN or infinity")

    @property
    def channels(self) -> int:
        """The number of channels."""
        return self.values.shape[-1]

    @property
    def grid(self) -> tuple[int, ...]:
        """The lengths of the signal's own grid."""
        return self.geometry.grid

    @property
    def weights(self) -> Tensor | None:
        """The geometry's weights; None where every value counts alike."""
        return (
            None if not isinstance(self.geometry, MaskedLattice | ScatteredPoints) else self.geometry.weights
        )

    def mean(self) -> Float[Tensor, " channels"]:
        """Return the (weighted) mean of every channel."""
        axes = tuple(range(self.values.ndim - 1))
        if self.weights is None:
            return self.values.mean(axes)
        weights = self.weights.to(self.values).expand_as(self.values)
        return (weights * self.values).sum(axes) / weights.sum(axes).clamp(
            min=torch.finfo(weights.dtype).tiny
        )


@dataclass(frozen=True)
class Every:
    """Every k-th sample along each axis, from an offset on; ``Every(1)`` is the full lattice.

    Attributes
    ----------
    steps, offsets : int or tuple of int
        One for all axes, or one an axis.
    """

    steps: int | tuple[int, ...] = 1
    offsets: int | tuple[int, ...] = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("offsets", 0)):
            numbers = getattr(self, name)
            for number in (numbers,) if isinstance(numbers, int) else numbers:
                _checks.integer(name, number, least)

    def geometry(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Lattice:
        """Return the strided lattice of a signal of ``shape`` (*grid, channels)."""
        grid = shape[:-1]
        return Lattice(grid, _per_axis("steps", self.steps, grid), _per_axis("offsets", self.offsets, grid))


@dataclass(frozen=True)
class Random:
    """A random fraction of the points: round(fraction × points), at least one, without replacement.

    Attributes
    ----------
    fraction : float
        In (0, 1].
    by_channel : bool
        Draw entries instead of points, so that the channels' masks differ.

    Raises
    ------
    ValueError
        If the fraction is outside (0, 1].
    """

    fraction: float
    by_channel: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise _checks.wrong("fraction", "a number above 0 and at most 1", self.fraction)

    def geometry(self, shape: tuple[int, ...], generator: torch.Generator | None) -> MaskedLattice:
        """Draw the mask of a signal of ``shape`` (*grid, channels)."""
        drawn = shape if self.by_channel else (*shape[:-1], 1)
        count = math.prod(drawn)
        order = torch.randperm(count, generator=generator or torch.Generator().manual_seed(0))
        weights = torch.zeros(count)
        weights[order[: max(1, round(self.fraction * count))]] = 1
        return MaskedLattice(shape[:-1], weights=weights.reshape(drawn))


@dataclass(frozen=True)
class Bayer:
    """A colour mosaic: each pixel of a picture knows one of red, green and blue, in tiles of 2 by 2.

    Attributes
    ----------
    pattern : str
        The tile's colours, row by row: RGGB, BGGR, GRBG or GBRG.

    Raises
    ------
    ValueError
        If the pattern is another, or the signal is not a picture of three channels.
    """

    pattern: str = "RGGB"

    def __post_init__(self) -> None:
        _checks.choice("pattern", self.pattern, ("RGGB", "BGGR", "GRBG", "GBRG"))

    def geometry(self, shape: tuple[int, ...], generator: torch.Generator | None) -> MaskedLattice:
        """Return the mosaic's mask for a picture of ``shape`` (height, width, 3)."""
        if len(shape) != 3 or shape[-1] != 3:
            raise _checks.wrong("signal", "a picture of three channels for a Bayer mosaic", f"shape {shape}")
        weights = torch.zeros(shape)
        for i, colour in enumerate(self.pattern):
            weights[i // 2 :: 2, i % 2 :: 2, "RGB".index(colour)] = 1
        return MaskedLattice(shape[:-1], weights=weights)


Pattern = Every | Random | Bayer


def parse_pattern(text: str) -> Pattern:
    """The sampling pattern that a text names.

    Parameters
    ----------
    text : str
        ``full``; ``every:k`` with one k or one an axis (``every:2x1``), an offset after a plus sign
        (``every:2+1``, ``every:2x2+1x0``); ``random:0.25``; ``entries:0.3`` (each channel its own mask);
        ``bayer:RGGB``.

    Raises
    ------
    ValueError
        If the text is none of these.
    """
    kind, _, rest = text.partition(":")
    try:
        match kind:
            case "full" if not rest:
                return Every()
            case "every" if match := re.fullmatch(r"(\d+(?:x\d+)*)(?:\+(\d+(?:x\d+)*))?", rest):
                return Every(_numbers(match[1]), _numbers(match[2] or "0"))
            case "random" | "entries":
                return Random(float(rest), by_channel=kind == "entries")
            case "bayer":
                return Bayer(rest.upper() or "RGGB")
    except ValueError as error:
        raise _checks.wrong("sample", f"a valid {kind} pattern", f"{text!r} ({error})") from None
    known = "full, every:K[xK…][+OFFSET], random:FRACTION, entries:FRACTION or bayer:RGGB"
    raise _checks.wrong("sample", known, repr(text))


def sample(
    signal: Float[Tensor, "*grid channels"],
    pattern: str | Pattern | Tensor = "full",
    *,
    generator: torch.Generator | None = None,
) -> Samples:
    """Sample a signal.

    Parameters
    ----------
    signal : (*grid, channels)
        The signal. NaN counts as unknown.
    pattern : str, Every, Random, Bayer, or a mask
        A mask is a tensor of the signal's grid, or of its shape, non-zero (a weight) where a sample is known. For
        texts see ``parse_pattern``.
    generator : torch.Generator, optional
        For random patterns; one seeded with 0 if not given.

    Returns
    -------
    Samples
        On a whole lattice where all of it is known, else on a masked one.

    Raises
    ------
    ValueError
        If the pattern does not fit the signal or leaves no sample.
    """
    if signal.ndim < 2 or signal.numel() == 0:
        raise _checks.wrong("signal", "shape (*grid, channels), nowhere empty", tuple(signal.shape))
    if isinstance(pattern, Tensor):
        geometry = mask_geometry(pattern, signal.shape)
    else:
        pattern = parse_pattern(pattern) if isinstance(pattern, str) else pattern
        geometry = pattern.geometry(tuple(signal.shape), generator)
    values = signal[geometry.slices]
    missing = torch.isnan(values)
    if bool(missing.any()):
        geometry = _without(geometry, missing)
        values = torch.where(missing, 0.0, values)
    if isinstance(geometry, MaskedLattice):
        geometry = MaskedLattice(geometry.grid, geometry.steps, geometry.offsets, geometry.weights.to(values))
        values = values * (geometry.weights > 0)
    return Samples(geometry, values)


def mask_geometry(mask: Tensor, shape: tuple[int, ...]) -> MaskedLattice:
    """The masked lattice of a mask (or of weights) for a signal of ``shape`` (*grid, channels).

    Raises
    ------
    ValueError
        If the mask has neither the signal's grid nor its shape, or is empty.
    """
    shape = tuple(shape)
    if tuple(mask.shape) not in (shape, shape[:-1], (*shape[:-1], 1)):
        raise _checks.wrong("mask", f"shape {shape[:-1]} or {shape}", tuple(mask.shape))
    weights = mask if mask.ndim == len(shape) else mask.unsqueeze(-1)
    return MaskedLattice(shape[:-1], weights=weights.to(torch.get_default_dtype()))


def _without(geometry: Lattice, missing: Bool[Tensor, "*lattice channels"]) -> MaskedLattice:
    known = (~missing).to(torch.get_default_dtype())
    if bool((missing == missing[..., :1]).all()):
        known = known[..., :1]
    if isinstance(geometry, MaskedLattice):
        known = known * geometry.weights.to(known)
    return MaskedLattice(geometry.grid, geometry.steps, geometry.offsets, known)


def _per_axis(name: str, number: int | tuple[int, ...], grid: tuple[int, ...]) -> tuple[int, ...]:
    numbers = (number,) * len(grid) if isinstance(number, int) else number
    if len(numbers) != len(grid):
        raise _checks.wrong(name, f"one number, or {len(grid)}, one an axis", numbers)
    return numbers


def _numbers(text: str) -> int | tuple[int, ...]:
    numbers = tuple(int(n) for n in text.split("x"))
    return numbers[0] if len(numbers) == 1 else numbers
