"""The encodings that ``coordnet bench attention`` compares: those of Li et al. (NeurIPS 2021), and their ablations."""

from typing import Any

import torch

from coordnet.bench.classification import OPTIONS, Build, Choices, Row
from coordnet.bench.token_sets import LINE, SQUARE
from coordnet.encodings import DenseEncoding, JointEncoding, ModulatedEncoding, SimpleEncoding
from coordnet.encodings.encoders import DFT, Identity, LearnableFourier, LearnedEmbedding, MultiSine, Sinusoidal

WIDTH = 32  # features of a token
MODULATOR: dict[str, Any] = {"fourier": 64, "hidden": 32, "layer_norm": True}
HIDDEN, NORMED = {"hidden": MODULATOR["hidden"]}, {"hidden": MODULATOR["hidden"], "layer_norm": True}
UNIT = {"norm": 1.0}
FEW = 3  # seeds of the ablations
GRID = 64  # rows of the embeddings of a box's coordinates, and positions of its sinusoids, in the unit interval


def learnable(**parameters: Any) -> Build:
    """Return the construction of learnable Fourier features of a pixel, with 64 features without the MLP."""

    def build(choices: Choices, generator: torch.Generator) -> DenseEncoding:
        options: dict[str, Any] = {"fourier": MODULATOR["fourier"], "hidden": 0, **parameters}
        options |= {"features": WIDTH} if options["hidden"] else {}
        encoder = LearnableFourier.like(SQUARE, gamma=choices["gamma"], **options, generator=generator)
        return JointEncoding(encoder)

    return build


def boxed(**parameters: Any) -> Build:
    """Return the construction of learnable Fourier features of a box, with the MLP."""

    def build(choices: Choices, generator: torch.Generator) -> DenseEncoding:
        options = {**NORMED, **parameters}
        encoder = LearnableFourier(4, WIDTH, choices["gamma"], **options, generator=generator)
        return JointEncoding(encoder)

    return build


def modulated(build: Build, **options: Any) -> Build:
    """Return the construction of an encoding with the MLP of learnable Fourier features after it."""

    def whole(choices: Choices, generator: torch.Generator) -> DenseEncoding:
        encoding = build(choices, generator)
        assert encoding is not None
        return ModulatedEncoding(encoding, WIDTH, **options, generator=generator)

    return whole


def coordinates(count: int) -> Build:
    """Return the construction of the identity of some coordinates."""
    return lambda c, g: SimpleEncoding([Identity()] * count)


def sinusoids(c: Choices, g: torch.Generator) -> DenseEncoding:
    """Return sinusoids of the row beside those of the column."""
    return SimpleEncoding([Sinusoidal.like(axis, features=WIDTH // 2) for axis in SQUARE])


def multi_sine(c: Choices, g: torch.Generator) -> DenseEncoding:
    """Return MD-sine of a pixel."""
    return JointEncoding(MultiSine.like(SQUARE, features=WIDTH))


def one_dimensional(kind: Any, **parameters: Any) -> Build:
    """Return the construction of an encoding of a pixel's place on the line."""

    def build(c: Choices, generator: torch.Generator) -> DenseEncoding:
        drawn = {"generator": generator} if kind.random else {}
        return SimpleEncoding([kind.like(LINE, **parameters, **drawn)])

    return build


def embeddings(c: Choices, g: torch.Generator) -> DenseEncoding:
    """Return a learned embedding of the row beside that of the column."""
    return SimpleEncoding([LearnedEmbedding.like(axis, features=WIDTH // 2, generator=g) for axis in SQUARE])


FULL = "learnable Fourier + MLP"
DIGITS = (
    Row("none", lambda c, g: None, ("rate",)),
    Row("learned embedding", one_dimensional(LearnedEmbedding, features=WIDTH), axes=LINE),
    Row("sinusoidal, 1-D", one_dimensional(Sinusoidal, features=WIDTH), axes=LINE),
    Row("sinusoidal, 2-D", sinusoids),
    Row("DFT, 1-D", one_dimensional(DFT), axes=LINE),
    Row("MD-sine", multi_sine),
    Row("learnable Fourier", learnable(), OPTIONS),
    Row(FULL, learnable(**MODULATOR), OPTIONS, MODULATOR),
    Row("fixed Fourier", learnable(fixed=True), (), {"fixed": True}, like="learnable Fourier", seeds=FEW),
    Row(
        "fixed Fourier + MLP", learnable(**MODULATOR, fixed=True), (), MODULATOR | {"fixed": True}, like=FULL, seeds=FEW
    ),
    Row("MLP of the coordinates", modulated(coordinates(2), **HIDDEN), ("rate",), UNIT | HIDDEN, seeds=FEW),
    Row("learned embedding, 2-D", embeddings, ("rate",), UNIT, seeds=FEW),
    Row("sinusoidal, 2-D + MLP", modulated(sinusoids, **NORMED), ("rate",), UNIT | NORMED, seeds=FEW),
    Row("MD-sine + MLP", modulated(multi_sine, **NORMED), ("rate",), UNIT | NORMED, seeds=FEW),
    Row(
        f"{FULL}, W from U[0, 1]",
        learnable(**MODULATOR, uniform=True),
        ("gamma",),
        {"rate": 3e-3, **UNIT, **MODULATOR, "uniform": True},
        seeds=FEW,
    ),
    Row(f"{FULL}, KL term", learnable(**MODULATOR), (), MODULATOR, alpha=1.0, like=FULL, seeds=FEW),
    Row(
        f"{FULL}, dropout", learnable(**MODULATOR, dropout=0.1), (), MODULATOR | {"dropout": 0.1}, like=FULL, seeds=FEW
    ),
)
ABLATED = ("none", "sinusoidal, 1-D", "MD-sine", "MD-sine + MLP", "fixed Fourier")  # on all pixels alone
UNSEEN = tuple(
    Row(row.name, row.build, (), row.parameters, like=row.like or row.name, seeds=FEW, axes=row.axes)
    for row in DIGITS
    if row.name not in ABLATED and not row.name.startswith(f"{FULL},")
)


def groups(count: int, fourier: int) -> Row:
    """Return the row of boxes in groups of coordinates that share their weights: Li et al., table 6."""
    parameters = {"fourier": fourier, "groups": count}
    name = f"{FULL}, {count}/{4 // count}"
    return Row(name, boxed(**parameters), ("rate", "gamma"), UNIT | NORMED | parameters, seeds=FEW)


def box_embeddings(c: Choices, g: torch.Generator) -> DenseEncoding:
    """Return a learned embedding of each coordinate of a box."""
    return SimpleEncoding([LearnedEmbedding(WIDTH // 4, GRID, generator=g) for _ in range(4)])


def box_sinusoids(c: Choices, g: torch.Generator) -> DenseEncoding:
    """Return sinusoids of each coordinate of a box."""
    return SimpleEncoding([Sinusoidal(WIDTH // 4, 1 / GRID)] * 4)


def box_multi_sine(c: Choices, g: torch.Generator) -> DenseEncoding:
    """Return MD-sine of a box."""
    return JointEncoding(MultiSine(4, WIDTH, 1 / GRID))


BOXES = (
    Row("none", lambda c, g: None, ("rate",), seeds=FEW),
    Row("MLP of the coordinates", modulated(coordinates(4), **HIDDEN), ("rate",), UNIT | HIDDEN, seeds=FEW),
    Row("learned embedding, 4 × 1-D", box_embeddings, ("rate",), UNIT, seeds=FEW),
    Row("sinusoidal, 4 × 1-D", box_sinusoids, ("rate",), UNIT, seeds=FEW),
    Row("MD-sine", box_multi_sine, ("rate",), UNIT, seeds=FEW),
    groups(1, 128),
    groups(2, 64),
    groups(4, 32),
)
