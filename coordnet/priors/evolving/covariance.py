"""The covariance of frames, by bands of spatial frequencies, and the posterior of frames under it."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import fft

BANDS_AN_OCTAVE = 3  # bands of spatial frequency from one frequency to its double
COARSENING = 4  # nodes of a lattice along an axis for each node of the next coarser one
SHORTEST_COARSENED = 24  # nodes along an axis from which on it is coarsened
COARSER = 2  # coarser lattices at most
RESOLVED = 0.75  # share of a coarser lattice's highest frequency up to which it has the modes of the lattice
FEWEST_SHARED = 3  # bands that a coarser lattice has at least
SMALLEST = 1e-6  # eigenvalue of a band's matrix, relative to its largest, below which it is raised
STEPS_BETWEEN, STEPS_COARSEST = 6, 15  # steps of conjugate gradients on coarser lattices, and on the coarsest one
COARSE_TOLERANCE = 1e-2  # relative residual at which these stop
LEAST_STEPS = 4  # steps on the lattice itself from the solution of another covariance on

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

    - space: the lengths of a frame
    - stretch: factors of the frequencies along each axis, of product 1: bands are elliptic

    - lattice: the lengths of a padded frame
    - frequency: the frequency |ω| of every mode, in radians a node, in the order of ``Level``; the constant has half
      the lowest
    - levels: all modes on the lattice, and the lower bands on coarser ones
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


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance Σ_b diag(s_k, k in b) ⊗ C_b / tr(C_b) T of the cosine modes of T frames.

    The spectrum s is the mean variance tr(C_b) / T, interpolated between the middles of bands in logarithms, times the
    ``tilt`` of every mode.
    """

    bands: Bands
    matrices: Float[np.ndarray, "bands frames frames"]  # the matrices C_b
    tilt: Float[np.ndarray, " modes"]  # the variance of a mode relative to others of its band
    bases: Float[np.ndarray, "bands frames frames"]  # the eigenvectors of every matrix
    variances: Modes  # the variance of every mode along every eigenvector of its band

    @classmethod
    def of(
        cls, bands: Bands, matrices: Float[np.ndarray, "bands frames frames"], tilt: Float[np.ndarray, " modes"]
    ) -> "Covariance":
        """Return the covariance of some symmetric matrices, whose eigenvalues are bounded from below."""
        means = np.trace(matrices, axis1=1, axis2=2) / matrices.shape[1]
        frequencies = np.log(bands.frequency)
        spectrum = np.exp(np.interp(frequencies, np.log(bands.middles), np.log(means))) * tilt
        values, bases = np.linalg.eigh(matrices / means[:, None, None])
        values = np.maximum(values, SMALLEST * values[:, -1:])
        variances = np.empty((matrices.shape[1], len(spectrum)), np.float32)
        for value, part in zip(values, bands.parts, strict=True):
            variances[:, part] = value[:, None] * spectrum[part]
        return cls(bands, matrices, tilt, bases.astype(np.float32), variances)

    def along(self, z: Modes) -> Modes:
        """Return the coefficients of modes along the eigenvectors of their bands; those of lower bands alone, too."""
        return self._rotated(z, self.bases.transpose(0, 2, 1))

    def across(self, u: Modes) -> Modes:
        """Return the modes of coefficients along the eigenvectors."""
        return self._rotated(u, self.bases)

    def _rotated(self, z: Modes, matrices: Float[np.ndarray, "bands frames frames"]) -> Modes:
        rotated = np.empty_like(z)
        for matrix, part in zip(matrices, self.bands.parts, strict=True):
            if part.start >= z.shape[1]:
                break
            rotated[:, part] = matrix @ z[:, part]
        return rotated


class Mean(NamedTuple):
    """A posterior mean on the padded lattice, the steps that it took, and its relative residual."""

    frames: Padded
    steps: int
    residual: float


class FramePosterior:
    """The posterior of frames given some known entries with white noise: (FᵀMF + s²/P) u = FᵀM y.

    u are the coefficients of the modes along the eigenvectors of their bands, F u the frames, M is 1 where an entry is
    known, and P are the variances. The preconditioner is 1/(q + s²/P) with the known share q; modes that a coarser
    lattice has are solved for there, with the known shares of its blocks in the place of M. It changes from step to
    step, so that conjugate gradients are flexible ones.

    Notay, "Flexible conjugate gradients" (SIAM J. Sci. Comput. 2000).
    """

    def __init__(self, covariance: Covariance, known: Bool[np.ndarray, "frames *space"], noise: float) -> None:
        self.covariance, self.bands = covariance, covariance.bands
        self.masks = self.bands.masks(known.astype(np.float32))
        self.penalty = np.float32(noise) / covariance.variances
        self.inverse = 1 / (self.masks[0].mean(dtype=np.float64).astype(np.float32) + self.penalty)

    def mean(self, values: Frames, start: Padded | None, steps: int, tolerance: float) -> Mean:
        """Return the posterior mean for values that are 0 where nothing is known, from other padded frames on."""
        level = self.bands.levels[0]
        right = self.covariance.along(level.modes(self.bands.padded(values)))
        begin = None if start is None else self.covariance.along(level.modes(start))
        u, taken, residual = self._solve(0, right, begin, steps, tolerance, LEAST_STEPS)
        return Mean(level.frames(self.covariance.across(u)), taken, residual)

    def _normal(self, level: int, u: Modes) -> Modes:
        """Return the system's matrix on a level times coefficients."""
        lattice = self.bands.levels[level]
        f = lattice.frames(self.covariance.across(u))
        f *= self.masks[level]
        return self.covariance.along(lattice.modes(f)) + self.penalty[:, : u.shape[1]] * u

    def _solve(
        self, level: int, right: Modes, start: Modes | None, steps: int, tolerance: float, least: int = 0
    ) -> tuple[Modes, int, float]:
        """Return the coefficients, the steps taken and the relative residual, whose square is ⟨r, Mr⟩ / ⟨b, Mb⟩."""
        inverse = self.inverse[:, : right.shape[1]]
        u = np.zeros_like(right) if start is None else start.copy()
        r = right.copy() if start is None else right - self._normal(level, u)
        whole = float(_dot(right, inverse * right)) or 1.0
        z = self._precondition(level, r)
        p, rz = z.copy(), _dot(r, z)
        step, left = 0, float(_dot(r, inverse * r)) / whole
        while step < steps and rz > 0 and (step < least or left > tolerance**2):
            q = self._normal(level, p)
            length = rz / _dot(p, q)
            u += length * p
            change = length * q
            r -= change
            step, left = step + 1, float(_dot(r, inverse * r)) / whole
            if step >= least and left <= tolerance**2:
                break
            z = self._precondition(level, r)
            p *= -_dot(z, change) / rz
            p += z
            rz = _dot(r, z)
        return u, step, max(left, 0.0) ** 0.5

    def _precondition(self, level: int, r: Modes) -> Modes:
        z = self.inverse[:, : r.shape[1]] * r
        if level + 1 < len(self.bands.levels):
            count = self.bands.levels[level + 1].bands[-1].stop
            steps = STEPS_BETWEEN if level + 2 < len(self.bands.levels) else STEPS_COARSEST
            z[:, :count] = self._solve(level + 1, np.ascontiguousarray(r[:, :count]), None, steps, COARSE_TOLERANCE)[0]
        return z


def _dot(a: Float[np.ndarray, "..."], b: Float[np.ndarray, "..."]) -> np.float32:
    return np.float32(np.vdot(a, b))
