"""Clouds of points with a known truth: smooth functions, terrain, photographs, volumes and a row with gaps."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from scipy.ndimage import map_coordinates

from coordnet.bench import fields
from coordnet.bench.best_peer import Places, Values
from coordnet.bench.package_fields import FIELDS, WHOLE_TERRAIN, Field

HIDDEN = 2000  # points at which estimates are scored
NOISE_LEVEL = 0.01  # standard deviation of the noise, of the range of a function
CROP_SIDE = 160  # pixels along the sides of the middle of a photograph

FIELDS_OF_POINTS = {"terrain": WHOLE_TERRAIN} | {name: FIELDS[name] for name in ("topobathy", "camera", "moon", "co2")}


@dataclass(frozen=True)
class Given:
    """The points of a cloud with their values, and the hidden ones with the truth."""

    places: Places
    values: Values
    hidden: Places
    truth: Values
    noise: float = 0.0

    @property
    def span(self) -> float:
        """The range of the truth."""
        return float(np.ptp(self.truth))


@dataclass(frozen=True)
class Cloud:
    """A cloud of points: its kind, a function that draws it, and the field that it is drawn from, if any."""

    kind: str
    draw: Callable[[], Given]
    field: Field | None = None

    @property
    def is_there(self) -> bool:
        """Whether the package that ships its values is installed."""
        return self.field is None or self.field.is_installed


def waves(x: Places) -> Values:
    """Return sin 9x cos 7y."""
    return np.sin(9 * x[:, 0]) * np.cos(7 * x[:, 1])


def franke(x: Places) -> Values:
    """Return Franke's function, "Scattered data interpolation: tests of some methods" (1982)."""
    u, v = torch.from_numpy(x).T
    return 1.25 * fields.franke(v, u).numpy()


def peaks(x: Places) -> Values:
    """Return MATLAB's peaks on [-3, 3]²."""
    u, v = 6 * x.T - 3
    return (
        3 * (1 - u) ** 2 * np.exp(-(u**2) - (v + 1) ** 2)
        - 10 * (u / 5 - u**3 - v**5) * np.exp(-(u**2) - v**2)
        - np.exp(-((u + 1) ** 2) - v**2) / 3
    )


def hills(x: Places) -> Values:
    """Return two hills of different widths."""
    wide = np.exp(-((x[:, 0] - 0.3) ** 2 + (x[:, 1] - 0.4) ** 2) / 0.08)
    return wide + 0.6 * np.exp(-((x[:, 0] - 0.7) ** 2 + (x[:, 1] - 0.65) ** 2) / 0.01)


def bubble(x: Places) -> Values:
    """Return a smooth function in space."""
    return np.sin(5 * x[:, 0]) * np.cos(4 * x[:, 1]) * np.exp(-2 * x[:, 2]) + x[:, 2] ** 2


FUNCTIONS: dict[str, tuple[Callable[[Places], Values], int]] = {
    "waves": (waves, 2),
    "Franke": (franke, 2),
    "peaks": (peaks, 2),
    "hills": (hills, 2),
    "bubble": (bubble, 3),
}


def of_function(name: str, count: int, noise: float) -> Given:
    """Draw uniform points of a function in the unit cube, with noise of a share of its range."""
    (function, dims), generator = FUNCTIONS[name], np.random.default_rng(count)
    places, hidden = generator.random((count, dims)), generator.random((HIDDEN, dims))
    truth = function(hidden)
    sigma = noise * float(np.ptp(truth))
    return Given(places, function(places) + sigma * generator.standard_normal(count), hidden, truth, sigma)


def of_field(name: str, count: int) -> Given:
    """Draw uniform points between the nodes of a field, whose cubic spline has their values; in steps of the field."""
    values, generator = np.asarray(FIELDS_OF_POINTS[name].load(), float), np.random.default_rng(count)
    lengths = np.array(values.shape)
    places, hidden = (generator.uniform(0.02, 0.98, (n, 2)) * (lengths - 1) for n in (count, HIDDEN))
    known, truth = (map_coordinates(values, x.T, order=3, mode="mirror") for x in (places, hidden))
    return Given(places, known, hidden, truth)


def of_photograph(name: str, share: float) -> Given:
    """Draw pixels of the middle of a photograph in [0, 1]; the others are hidden."""
    pixels = FIELDS_OF_POINTS[name].middle(CROP_SIDE) / 255
    known = np.random.default_rng(7).random(pixels.shape) < share
    at = [np.stack(np.nonzero(where), 1).astype(float) for where in (known, ~known)]
    return Given(at[0], pixels[known], at[1], pixels[~known])


def of_row(name: str, share: float) -> Given:
    """Draw a share of the values of a row, and hide the others."""
    values = np.asarray(FIELDS_OF_POINTS[name].load(), float)
    there = np.isfinite(values)
    known = there & (np.random.default_rng(7).random(len(values)) < share)
    at = [np.flatnonzero(where)[:, None].astype(float) for where in (known, there & ~known)]
    return Given(at[0], values[known], at[1], values[there & ~known])


def _clouds() -> dict[str, Cloud]:
    clouds = {}
    for name in ("waves", "Franke", "peaks", "hills"):
        for count in (500, 3000):
            draw = partial(of_function, name, count)
            clouds[f"{name} {count}"] = Cloud(f"smooth, {count}", partial(draw, 0.0))
            clouds[f"{name} {count} noise"] = Cloud("noisy", partial(draw, NOISE_LEVEL))
    for name in ("terrain", "topobathy"):
        for count in (2000, 20000):
            clouds[f"{name} {count}"] = Cloud("terrain", partial(of_field, name, count), FIELDS_OF_POINTS[name])
    for name in ("camera", "moon"):
        clouds[f"{name} quarter"] = Cloud("photograph", partial(of_photograph, name, 0.25), FIELDS_OF_POINTS[name])
    for noise, word in ((0.0, ""), (NOISE_LEVEL, " noise")):
        clouds[f"bubble 2000{word}"] = Cloud("volume", partial(of_function, "bubble", 2000, noise))
    clouds["co2 half"] = Cloud("row", partial(of_row, "co2", 0.5), FIELDS_OF_POINTS["co2"])
    return clouds


CLOUDS = _clouds()
