"""Fields in time for ``coordnet bench cubes``, and what is hidden of them."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.ndimage import gaussian_filter

from coordnet import _checks
from coordnet.bench.package_fields import netcdf
from coordnet.media import read_media

Cube = Float[np.ndarray, "frames height width"]
Mask = Bool[np.ndarray, "frames height width"]
Times = Float[np.ndarray, " frames"]

ALBORAN = Path("sst", "alboranSST_small.nc")  # DINEOF's own example, in the data folder
CLIP_FILE = Path("video", "carphone_pristine.mp4")
CLIP_PART = slice(28, 92), slice(40, 104), slice(56, 120)  # its middle, 64³
COVER = 0.3, 0.6  # least and largest share of a frame under clouds
POINTS = 2258  # points of the sea that are hidden at random, as DINEOF's example has them
# Frames of the sea whose values are hidden, each with the frame whose clouds hide them, in three draws.
DRAWS = (((0, 8), (1, 9), (3, 7)), ((0, 4), (1, 5), (3, 2), (6, 4)), ((2, 8), (5, 9), (6, 4), (4, 2)))


@dataclass(frozen=True)
class Given:
    """A field in time of which some values are hidden: the rest, the times of its frames, and where it is scored."""

    truth: Cube
    known: Cube  # NaN where nothing is known
    times: Times
    hidden: Mask

    @classmethod
    def of(cls, truth: Cube, times: Times, hidden: Mask) -> "Given":
        """Hide some of the finite values."""
        hidden = hidden & np.isfinite(truth)
        return cls(truth, np.where(hidden, np.nan, truth), times, hidden)

    @property
    def wanted(self) -> Bool[np.ndarray, "height width"]:
        """Where a frame has a value: at least one does."""
        return np.any(np.isfinite(self.truth), axis=0)


@lru_cache(maxsize=4)
def cube(name: str, data: Path | None) -> tuple[Cube, Times]:
    """Return a cube by its name, and the times of its frames."""
    if name == "alboran":
        import netCDF4  # pyright: ignore[reportMissingImports]

        with netCDF4.Dataset(_file(data, ALBORAN)) as file:
            return np.ma.filled(file["SST"][:].astype(float), np.nan), np.array(file["time"][:], float)
    if name == "clip":
        frames = read_media(str(_file(data, CLIP_FILE))).signal.mean(-1).double().numpy()[CLIP_PART]
        return frames, np.arange(float(len(frames)))
    file, variable = {
        "ocean": ("ostia_monthly", "surface_temperature"),
        "air": ("A1B_north_america", "air_temperature"),
    }[name]
    frames = netcdf(file, variable)
    return frames, np.arange(float(len(frames)))


def _file(data: Path | None, path: Path) -> Path:
    if data is None or not (data / path).is_file():
        raise _checks.wrong("data", f"a folder with {path} (--data DIR)", "none" if data is None else str(data))
    return data / path


class Origin(NamedTuple):
    """The package, or the file in the data folder, that has a cube, and what it is."""

    origin: str | Path
    content: str


CUBES: Mapping[str, Origin] = {
    "alboran": Origin(ALBORAN, "sea-surface temperature of ten days, Alborán sea, °C (DINEOF's example; CMEMS)"),
    "ocean": Origin("iris_sample_data", "sea-surface temperature of 54 months, a strip of the tropics, K (OSTIA)"),
    "air": Origin("iris_sample_data", "air temperature of 240 years, North America, K (scenario A1B)"),
    "clip": Origin(CLIP_FILE, "64 frames of 64×64 pixels of a clip, in [0, 1] (carphone)"),
}


def clouds_of_other_days(truth: Cube, name: str, draw: int) -> Mask:
    """Hide in some frames what is under the clouds of others, in one of three draws."""
    hidden = np.zeros(truth.shape, bool)
    for frame, other in DRAWS[draw]:
        hidden[frame] = ~np.isfinite(truth[other])
    return hidden


def points(truth: Cube, name: str) -> Mask:
    """Hide a number of values at random."""
    hidden, known = np.zeros(truth.shape, bool), np.argwhere(np.isfinite(truth))
    hidden[tuple(known[np.random.default_rng(0).choice(len(known), POINTS, replace=False)].T)] = True
    return hidden


def random(truth: Cube, name: str, share: float) -> Mask:
    """Hide all but a random share."""
    return _generator(name, f"random{100 * share:g}").random(truth.shape) >= share


def frames(truth: Cube, name: str) -> Mask:
    """Hide one whole frame in eight, neither the first nor the last."""
    hidden, count = np.zeros(truth.shape, bool), len(truth)
    inner = np.arange(1, count - 1)
    hidden[_generator(name, "frames").choice(inner, max(1, count // 8), replace=False)] = True
    return hidden


def clouds(truth: Cube, name: str) -> Mask:
    """Hide areas of three scales that drift and change from frame to frame, 30 to 60 % of each."""
    generator, (_, height, width) = _generator(name, "clouds"), truth.shape
    scale = max(2.0, 0.06 * min(height, width))
    noise = gaussian_filter(generator.standard_normal(truth.shape), (1.0, 0, 0))
    drift = generator.uniform(-0.05, 0.05, 2) * [height, width]
    moved = np.stack([np.roll(f, (round(k * drift[0]), round(k * drift[1])), (0, 1)) for k, f in enumerate(noise)])
    total = np.zeros(truth.shape)
    for weight, size in ((1.0, 2.0), (0.7, 1.0), (0.3, 0.4)):
        part = gaussian_filter(moved, (0, size * scale, 1.5 * size * scale), mode="wrap")
        total += weight * part / part.std()
    return np.stack([f > np.quantile(f, 1 - generator.uniform(*COVER)) for f in total])


def _generator(name: str, kind: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32((name + kind).encode()))


SEA: dict[str, Callable[[Cube, str], Mask]] = {
    **{f"clouds of other days {k + 1}": partial(clouds_of_other_days, draw=k) for k in range(len(DRAWS))},
    "random points": points,
}
OTHERS: dict[str, Callable[[Cube, str], Mask]] = {
    "clouds": clouds,
    "whole frames": frames,
    "a tenth known": partial(random, share=0.1),
    "half known": partial(random, share=0.5),
}


HIDINGS = {name: SEA if name == "alboran" else OTHERS for name in CUBES}


def given(name: str, hiding: str, data: Path | None) -> Given:
    """Return a cube by its name of which values are hidden."""
    truth, times = cube(name, data)
    return Given.of(truth, times, HIDINGS[name][hiding](truth, name))


def rmse(estimate: Cube, case: Given) -> float:
    """Return the root mean square of the errors at hidden values, in the cube's units."""
    return float(np.sqrt(np.square(estimate - case.truth)[case.hidden].mean()))
