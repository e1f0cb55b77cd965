"""The data of ``coordnet bench attention``: scikit-learn's digits, halves of their pixels, and synthetic boxes."""

from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from coordnet.bench.classification import Part, Parts
from coordnet.sampling import Axis, lattice_points
from coordnet.sampling.axes import Axes

SIDE = 8
LINE, SQUARE = (Axis(SIDE * SIDE),), (Axis(SIDE), Axis(SIDE))  # axes of the pixels of a digit
TEST, VALIDATION = 0.3, 0.2  # shares of the digits
TEST_SEED, VALIDATION_SEED = 2026, 2027
BOXES, RELATIONS = 6, ("inside", "around", "left of", "right of", "above", "below")
SCENES = (600, 300, 600)  # that train, validate and test


@cache
def digits() -> tuple[Tensor, Tensor]:
    """Load the 1,797 digits as tokens (n, 64, 1) in [0, 1], and their classes; ValueError without scikit-learn."""
    try:
        from sklearn.datasets import load_digits  # pyright: ignore[reportMissingImports]  (the extra "attention")
    except ImportError:
        raise ValueError("expected scikit-learn, found none: pip install 'coordnet[attention]'") from None
    images, labels = load_digits(return_X_y=True)
    return torch.from_numpy(images).float().unsqueeze(-1) / 16, torch.from_numpy(labels)


def split(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the digits that train, that validate (2/7 of the first, drawn by the seed), and 30 % that always test."""
    fixed = torch.randperm(count, generator=torch.Generator().manual_seed(TEST_SEED))
    held, validating = round(TEST * count), round(VALIDATION * count)
    others, test = fixed.split([count - held, held])
    others = others[torch.randperm(len(others), generator=torch.Generator().manual_seed(seed))]
    return others[validating:], others[:validating], test


def digit_parts(seed: int, axes: Axes) -> Parts:
    """Return the digits with a token for each pixel, at its position on the square or on the ``LINE``."""
    return Parts(*_digits(seed, axes, torch.arange(SIDE * SIDE)))


def half_parts(seed: int, axes: Axes) -> Parts:
    """Return the digits by half of their pixels, which the seed draws; ``unseen`` has the test digits by the others."""
    drawn = torch.randperm(SIDE * SIDE, generator=torch.Generator().manual_seed(seed))
    seen, others = drawn.chunk(2)
    return Parts(*_digits(seed, axes, seen), _digits(seed, axes, others)[-1])


def _digits(seed: int, axes: Axes, pixels: Tensor) -> tuple[Part, Part, Part]:
    tokens, labels = digits()
    where = lattice_points(axes or SQUARE, torch.float32).flatten(0, -2)[pixels]
    training, validation, test = (
        Part(tokens[index][:, pixels], where.expand(len(index), -1, -1), labels[index])
        for index in split(len(tokens), seed)
    )
    return training, validation, test


def relation(a: Float[Tensor, "n 4"], b: Float[Tensor, "n 4"]) -> Int[Tensor, " n"]:
    """Return the index in ``RELATIONS`` of each box a (top, left, bottom, right) to its box b, or -1 if none holds."""
    first, last = a[:, :2] < b[:, :2], a[:, 2:] < b[:, 2:]
    before, after = a[:, 2:] < b[:, :2], a[:, :2] > b[:, 2:]
    apart = before | after
    relations = torch.full((len(a),), -1)
    relations[(~first & last).all(1)] = 0
    relations[(first & ~last).all(1)] = 1
    for axis, labels in ((1, (2, 3)), (0, (4, 5))):
        for side, label in zip((before, after), labels, strict=True):
            relations[side[:, axis] & ~apart[:, 1 - axis]] = label
    return relations


def scenes(count: int, seed: int) -> Part:
    """Draw scenes of six boxes in the unit square, two of them marked; the class is the relation of these two.

    The top and the bottom of a box are two uniform numbers in order, its left and its right two others. A token has two
    numbers, which mark the first and the second box, and its position is (top, left, bottom, right). Pairs are drawn
    until every relation has its share of the scenes; the four boxes without a mark are drawn freely. Neither marked box
    tells the relation by itself, except that small ones are more often inside.
    """
    generator = torch.Generator().manual_seed(seed)

    def drawn(n: int) -> Tensor:
        return torch.rand(n, 2, 2, generator=generator).sort(1).values.flatten(1)

    labels = torch.arange(count) % len(RELATIONS)
    pair = torch.empty(count, 2, 4)
    for label in range(len(RELATIONS)):
        places, pairs = (labels == label).nonzero()[:, 0], torch.empty(0, 2, 4)
        while len(pairs) < len(places):
            a, b = drawn(64 * len(places)), drawn(64 * len(places))
            pairs = torch.cat([pairs, torch.stack([a, b], 1)[relation(a, b) == label]])
        pair[places] = pairs[: len(places)]
    others = drawn(count * (BOXES - 2)).unflatten(0, (count, -1))
    marks = torch.eye(BOXES)[:, :2].expand(count, -1, -1)
    return Part(marks, torch.cat([pair, others], 1), labels)


def box_parts(seed: int, axes: Axes) -> Parts:
    """Return scenes of boxes: those that train are drawn by the seed, those that validate and test once for all."""
    return Parts(*map(scenes, SCENES, (seed, VALIDATION_SEED, TEST_SEED)))
