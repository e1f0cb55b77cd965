"""Seeded masks of structured damage: holes, scratches and text."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

Known = Bool[Tensor, "height width"]
HOLES, HOLE = 3, 40
SCRATCHES, SCRATCH_WIDTH = 60, 3
SENTENCE = "The quick brown fox jumps over the lazy dog. "
LETTERS, LEADING = 16, 1.5  # the font's size in pixels, and the distance of lines in font sizes


def holes(shape: tuple[int, ...], seed: int = 0) -> Known:
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


def scratches(shape: tuple[int, ...], seed: int = 0) -> Known:
    """Mark sixty straight lines, three pixels wide, between random points as unknown."""
    generator, picture = torch.Generator().manual_seed(seed), Image.new("1", list(shape[::-1]), 1)
    draw = ImageDraw.Draw(picture)
    for _ in range(SCRATCHES):
        top, left, bottom, right = (_integer(generator, 0, n) for n in (*shape, *shape))
        draw.line((left, top, right, bottom), fill=0, width=SCRATCH_WIDTH)
    return torch.from_numpy(np.array(picture))


def text(shape: tuple[int, ...], seed: int = 0) -> Known:
    """Mark lines of text over the whole picture as unknown; each line begins at a random letter."""
    generator, picture = torch.Generator().manual_seed(seed), Image.new("1", list(shape[::-1]), 1)
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(LETTERS)
    line = SENTENCE * (2 + shape[1] // (4 * len(SENTENCE)))
    for top in range(LETTERS // 2, shape[0] - LETTERS, round(LEADING * LETTERS)):
        draw.text((0, top), line[_integer(generator, 0, len(SENTENCE)) :], fill=0, font=font)
    return torch.from_numpy(np.array(picture))


def _integer(generator: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high, (), generator=generator))


DAMAGE: dict[str, Callable[[tuple[int, ...], int], Known]] = {"holes": holes, "scratches": scratches, "text": text}
