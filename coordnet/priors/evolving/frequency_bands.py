"""Bands of spatial frequency: the cosine modes of frames, sorted by frequency, on a lattice and on coarser ones."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy import fft

BANDS_AN_OCTAVE = 3  # bands of spatial frequency from one frequency to its double
COARSENING = 4  # nodes of a lattice along an axis for each node of the next coarser one
SHORTEST_COARSENED = 24  # nodes along an axis from which on it is coarsened
COARSER = 2  # coarser lattices at most
RESOLVED = 0.75  # share of a coarser lattice's highest frequency up to which it has the modes of the lattice
FEWEST_SHARED = 3  # bands that a coarser lattice has at least

scipy_fft: Any = fft  # SciPy annotates its transforms as what their dispatcher returns
Frames = Float[np.ndarray, "frames *space"]
Padded = Float[np.ndarray, "frames *lattice"]
Modes = Float[np.ndarray, "frames modes"]


@dataclass(frozen=True, eq=False)
class Level:
    """The cosine modes of frames on one lattice, in the order of their bands."""

    lattice: tuple[int, ...]  # the lengths of a frame
    order: Int[np.ndarray, " modes"]  # the flat index of every mode in the cosine transform of a frame, sorted by band
    bands: tuple[slice, ...]  # the modes of every band in that order

    def modes(self, f: Frames) -> Modes:
        """Return the coefficients of frames."""
        axes = tuple(range(1, f.ndim))
        return scipy_fft.dctn(f, axes=axes, norm="ortho").reshape(len(f), -1)[:, self.order]

    def frames(self, z: Modes) -> Frames:
        """Return the frames of coefficients; modes that the level lacks are 0."""
        spectrum = np.zeros((len(z), math.prod(self.lattice)), z.dtype)
        spectrum[:, self.order] = z
        spectrum = spectrum.reshape(len(z), *self.lattice)
        return scipy_fft.idctn(spectrum, axes=tuple(range(1, spectrum.ndim)), norm="ortho", overwrite_x=True)


class Bands:
    """The bands of spatial frequency of frames, padded so that coarser lattices divide them.

    Parameters
    ----------
    space : tuple of int
        The lengths of a frame.
    stretch : tuple of float
        Factors of the frequencies along each axis, of product 1: bands are elliptic.

    Attributes
    ----------
    lattice : tuple of int
        The lengths of a padded frame.
    frequency : (modes,)
        The frequency |ω| of every mode, in radians a node, in the order of ``Level``; the constant has half the lowest.
    levels : tuple of Level
        All modes on the lattice, and the lower bands on coarser ones.
    """

    def __init__(self, space: tuple[int, ...], stretch: tuple[float, ...]) -> None:
        steps = _coarsenings(space)
        self.space, self.stretch, self.steps = space, stretch, steps
        whole = [math.prod(step[j] for step in steps) for j in range(len(space))]
        self.lattice = tuple(-(-n // k) * k for n, k in zip(space, whole, strict=True))
        numbers = [k.ravel() for k in np.meshgrid(*map(np.arange, self.lattice), indexing="ij")]
        waves = [np.pi * k / n * s for k, n, s in zip(numbers, self.lattice, stretch, strict=True)]
        frequency = np.sqrt(sum(w**2 for w in waves))
        lowest = float(np.partition(frequency, 1)[1]) if len(frequency) > 1 else 1.0
        frequency = np.maximum(frequency, lowest / 2)
        octave = np.floor(BANDS_AN_OCTAVE * np.log2(frequency / lowest)).astype(int)
        number = np.unique(octave, return_inverse=True)[1].ravel()
        order = np.argsort(number, kind="stable")
        ends = np.cumsum(np.bincount(number))
        bands = tuple(slice(int(a), int(b)) for a, b in zip((0, *ends[:-1]), ends, strict=True))
        self.frequency = frequency[order]
        self.levels = (Level(self.lattice, order, bands), *self._coarser(numbers, order, bands))

    def _coarser(self, numbers: list[np.ndarray], order: np.ndarray, bands: tuple[slice, ...]) -> list[Level]:
        """Return the levels of coarser lattices that have enough of the lower bands."""
        levels, lattice = [], self.lattice
        for step in self.steps:
            lattice = tuple(n // k for n, k in zip(lattice, step, strict=True))
            sorted_numbers = [k[order] for k in numbers]
            resolved = np.all([k < RESOLVED * n for k, n in zip(sorted_numbers, lattice, strict=True)], axis=0)
            held = [bool(resolved[band].all()) for band in bands]
            count = held.index(False) if False in held else len(held)
            if count < FEWEST_SHARED:
                break
            index = np.ravel_multi_index([k[: bands[count - 1].stop] for k in sorted_numbers], lattice)
            levels.append(Level(lattice, index, bands[:count]))
        return levels

    @property
    def parts(self) -> tuple[slice, ...]:
        """The modes of every band."""
        return self.levels[0].bands

    @cached_property
    def counts(self) -> Int[np.ndarray, " bands"]:
        """The number of modes of every band."""
        return np.array([part.stop - part.start for part in self.parts])

    @cached_property
    def middles(self) -> Float[np.ndarray, " bands"]:
        """The geometric mean of every band's frequencies."""
        return np.array([math.exp(float(np.log(self.frequency[part]).mean())) for part in self.parts])

    def padded(self, f: Frames) -> Padded:
        """Return frames with zeros after the end of every spatial axis."""
        return np.pad(f, [(0, 0), *((0, n - m) for n, m in zip(self.lattice, self.space, strict=True))])

    def cropped(self, f: Padded) -> Frames:
        """Return padded frames without their padding."""
        return f[(slice(None), *(slice(0, n) for n in self.space))]

    def masks(self, known: Frames) -> list[np.ndarray]:
        """Return the known share of every node, on the lattice and on the coarser ones: means over blocks."""
        shares = [self.padded(known)]
        for level, step in zip(self.levels[1:], self.steps, strict=False):
            split = [length for pair in zip(level.lattice, step, strict=True) for length in pair]
            blocks = shares[-1].reshape(len(known), *split)
            shares.append(blocks.mean(tuple(range(2, blocks.ndim, 2))))
        return shares


def _coarsenings(space: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the steps of every coarser lattice along each axis."""
    each = []
    for n in space:
        steps = []
        while n >= SHORTEST_COARSENED and len(steps) < COARSER:
            steps.append(COARSENING)
            n = -(-n // COARSENING)
        each.append(steps)
    depth = max(map(len, each))
    return list(zip(*(steps + [1] * (depth - len(steps)) for steps in each), strict=True))
