"""How many steps of conjugate gradients random masks take, over the size of the picture and its density."""

from functools import partial
from pathlib import Path
from typing import Any

from coordnet.bench.cases import Row
from coordnet.bench.cubes import crop, reflected
from coordnet.encodings import ComplexEncoding
from coordnet.encodings.encoders import Triangle
from coordnet.fit.closed_form import fit_closed_form
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.metrics.stopwatch import once
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.patterns import sample

SIZES = (128, 256, 512, 1024)
DENSITIES = (0.5, 0.25, 0.1, 0.05, 0.02)
POWERS = (1.0, 1.5)
TOLERANCE = 1e-4


def table(photograph: Path, sizes: tuple[int, ...] = SIZES) -> list[Row]:
    """The steps to a relative residual of 1e-4 with λ = 0.01, a row for each power, density and size.

    A photograph reflected about its borders is a picture of any size with the same detail a pixel.
    """
    rows = []
    for power in POWERS:
        for density in DENSITIES:
            for size in sizes:
                picture = reflected(crop(photograph), size)
                samples = sample(picture, f"random:{density}")
                encoding, prior = ComplexEncoding.like(Triangle, samples), Smoothness(power, 0.01)
                options: dict[str, Any] = {"prior": prior, "solver": ConjugateGradients(TOLERANCE)}
                fit, seconds = once(partial(fit_closed_form, encoding, samples, **options))
                task = f"random {100 * density:g} %, p = {power:g}"
                name = f"{photograph.stem}, {size}²"
                steps = float(fit.report["iterations"])
                rows.append(Row(task, name, f"{size}²", "steps", steps, seconds))
    return rows
