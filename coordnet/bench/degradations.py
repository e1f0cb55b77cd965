"""Degradations of pictures: damage, reduction by averaging over cells, and linear measurements."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from PIL import Image, ImageDraw, ImageFont
from skimage import transform
from torch import Tensor

from coordnet.bench.experiment import Task
from coordnet.linalg.kronecker import mode_product
from coordnet.linalg.operators import LinearOperator
from coordnet.sampling import AreaLattice, Measurements, Samples, operators

Grid = tuple[int, ...]
Known = Bool[Tensor, "height width"]
HOLES, HOLE = 3, 40
SCRATCHES, SCRATCH_WIDTH = 60, 3
SENTENCE = "The quick brown fox jumps over the lazy dog. "
LETTERS, LEADING = 16, 1.5  # the font's size in pixels, and the distance of lines in font sizes
WIDTH, HALF = 1.6, 7  # standard deviation and half-width, in pixels, of the Gaussian that blurs
ANGLES = np.linspace(0, 180, 30, endpoint=False)
# The sampled share of Fourier space, and the frequency, in cycles a pixel, beyond which samples are rare.
FOURIER_SHARE, DECAY = 0.25, 0.18


def holes(shape: Grid, seed: int = 0) -> Known:
    """Mark three squares of 40×40 pixels as unknown that touch neither one another nor the border."""
    generator = torch.Generator().manual_seed(seed)
    known = torch.ones(shape, dtype=torch.bool)
    for _ in range(10_000):
        top, left = (_integer(generator, 1, max(2, n - HOLE)) for n in shape)
        place = known[top - 1 : top + HOLE + 1, left - 1 : left + HOLE + 1]
        if tuple(place.shape) == (HOLE + 2, HOLE + 2) and bool(place.all()):
            known[top : top + HOLE, left : left + HOLE] = False
        if int((~known).sum()) == HOLES * HOLE**2:
            return known
    raise ValueError(f"expected a picture with room for {HOLES} holes of {HOLE} pixels, found {shape}")


def scratches(shape: Grid, seed: int = 0) -> Known:
    """Mark sixty straight lines, three pixels wide, between random points as unknown."""
    generator, picture = torch.Generator().manual_seed(seed), Image.new("1", list(shape[::-1]), 1)
    draw = ImageDraw.Draw(picture)
    for _ in range(SCRATCHES):
        top, left, bottom, right = (_integer(generator, 0, n) for n in (*shape, *shape))
        draw.line((left, top, right, bottom), fill=0, width=SCRATCH_WIDTH)
    return torch.from_numpy(np.array(picture))


def text(shape: Grid, seed: int = 0) -> Known:
    """Mark lines of text over the whole picture as unknown; each line begins at a random letter."""
    generator, picture = torch.Generator().manual_seed(seed), Image.new("1", list(shape[::-1]), 1)
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(LETTERS)
    line = SENTENCE * (2 + shape[1] // (4 * len(SENTENCE)))
    for top in range(LETTERS // 2, shape[0] - LETTERS, round(LEADING * LETTERS)):
        draw.text((0, top), line[_integer(generator, 0, len(SENTENCE)) :], fill=0, font=font)
    return torch.from_numpy(np.array(picture))


def _integer(generator: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high, (), generator=generator))


DAMAGE: dict[str, Callable[[Grid, int], Known]] = {"holes": holes, "scratches": scratches, "text": text}


@dataclass(frozen=True)
class Cells(AreaLattice):
    """Means over a number of cells that tile a grid, whose lengths need not be whole numbers of pixels."""

    counts: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.counts


@dataclass(frozen=True)
class Reduction(Task):
    """Pictures reduced by a factor, by averaging over cells, and perhaps with noise after that."""

    factor: int | float = 2.0

    def sampled(self, signal: Tensor, seed: int, device: str) -> tuple[Samples, Tensor]:
        grid = tuple(signal.shape[:-1])
        counts = tuple(max(1, round(n / self.factor)) for n in grid)
        matrices = [cell_matrix(n, m).to(signal) for n, m in zip(grid, counts, strict=True)]
        values = self.noisy(mode_product(signal.movedim(-1, 0), matrices).movedim(0, -1), seed)
        return Samples(Cells(grid, counts=counts), values.contiguous().to(device)), signal


def cell_matrix(pixels: int, cells: int) -> Float[Tensor, "cells pixels"]:
    """Return the matrix that averages pixels over cells which tile them; a pixel between two has a part in each."""
    edges = torch.arange(cells + 1, dtype=torch.float64) * pixels / cells
    i = torch.arange(pixels, dtype=torch.float64)
    low, high = edges[:-1].unsqueeze(1).maximum(i), edges[1:].unsqueeze(1).minimum(i + 1)
    return (high - low).clamp(min=0) * cells / pixels


def blur(grid: Grid, seed: int) -> LinearOperator:
    """Return the blur by a Gaussian."""
    x = torch.arange(-HALF, HALF + 1.0)
    psf = torch.exp(-(x.square().unsqueeze(1) + x.square()) / (2 * WIDTH**2))
    return operators.Blur(psf / psf.sum(), grid)


def projections(grid: Grid, seed: int) -> LinearOperator:
    """Return the projections at 30 angles."""
    return operators.Projections(ANGLES, grid)


def quarter(grid: Grid, seed: int) -> LinearOperator:
    """Return a random quarter of Fourier space, drawn with a density that falls with the frequency as a Gaussian."""
    frequencies = np.meshgrid(*(np.fft.fftfreq(n) for n in grid), indexing="ij")
    density = np.exp(-sum(f**2 for f in frequencies) / DECAY**2)
    low, high = 0.0, 1e6
    for _ in range(100):  # the factor at which min(factor × density, 1) has the mean FOURIER_SHARE
        factor = (low + high) / 2
        low, high = (factor, high) if np.minimum(factor * density, 1).mean() < FOURIER_SHARE else (low, factor)
    drawn = np.random.default_rng(seed).random(density.shape) < np.minimum(high * density, 1)
    return operators.FourierSamples(drawn)


def radon(picture: Tensor) -> Tensor:
    """Return the projections of a picture by scikit-image, which are not quite those of ``projections``."""
    channels = picture.double().numpy().transpose(2, 0, 1)
    return torch.from_numpy(np.stack([transform.radon(c, ANGLES, circle=False) for c in channels], -1)).to(picture)


@dataclass(frozen=True)
class MeasuredTask(Task):
    """Values of a linear map of the picture, with noise; the standard deviation of the noise is not given."""

    operator: Callable[[Grid, int], LinearOperator] = blur
    simulate: Callable[[Tensor], Tensor] | None = None  # another library's map; the operator if not given

    def sampled(self, signal: Tensor, seed: int, device: str) -> tuple[Measurements, Tensor]:
        operator = self.operator(tuple(signal.shape[:-1]), seed)
        clean = Measurements.of(operator, signal).values if self.simulate is None else self.simulate(signal)
        return Measurements(operator, self.noisy(clean, seed).to(device)), signal
