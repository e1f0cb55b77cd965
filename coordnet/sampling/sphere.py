"""The sphere: places by longitude and latitude in degrees, distances between them, and maps of its parts."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial import KDTree

from coordnet import _checks

Vectors = Float[np.ndarray, "*places 3"]
LONGITUDES = ("lon", "longitude", "degrees_east", "degree_east", "degrees east")  # names and units of longitudes


def vectors(longitude: Float[np.ndarray, "*places"], latitude: Float[np.ndarray, "*places"]) -> Vectors:
    """Return the unit vectors of places in degrees."""
    east, north = np.radians(longitude), np.radians(latitude)
    return np.stack([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)], -1)


def doubt_seams(columns: Mapping[str, Float[np.ndarray, " n"]]) -> None:
    """Warn of longitudes of one part of the globe that a cut between 0° and 360°, or -180° and 180°, puts apart."""
    for name, x in columns.items():
        degrees = -180 <= x.min() <= x.max() <= 180 or 0 <= x.min() <= x.max() <= 360
        if name.lower() not in LONGITUDES or not degrees or len(x) == 1:
            continue
        ordered = np.sort(x)
        i = int(np.diff(ordered).argmax())
        if ordered[i + 1] - ordered[i] > 180:
            found = f"{name} has nothing between {ordered[i]:g} and {ordered[i + 1]:g}, more than half of the globe"
            advice = f"is it a circle (period={{{name!r}: 360}} in Python, --period {name}=360 for the command)?"
            warnings.warn(f"{found}: {advice}", _checks.CoordnetWarning, stacklevel=3)  # the caller of ``points``


def nearest_angles(places: Vectors, queries: Float[np.ndarray, "*queries 3"]) -> Float[np.ndarray, "*queries"]:
    """Return the angle in degrees between each query and the nearest place."""
    chords = np.asarray(KDTree(places.reshape(-1, 3)).query(queries.reshape(-1, 3))[0])
    return np.degrees(2 * np.arcsin(np.minimum(chords / 2, 1))).reshape(queries.shape[:-1])


def spread(count: int) -> Float[np.ndarray, "count 3"]:
    """Return unit vectors that are spread evenly.

    González, "Measurement of areas on a sphere using Fibonacci and latitude-longitude lattices" (2010).
    """
    at = np.arange(count) + 0.5
    return vectors(360 * at / ((1 + 5**0.5) / 2), np.degrees(np.arcsin(1 - 2 * at / count)))


def over_poles(nodes: Float[np.ndarray, "latitudes longitudes *columns"]) -> np.ndarray:
    """Return the values of all meridians as full circles: after the north pole come those of the opposite meridian.

    The latitudes are (i + 1/2) 180° / m - 90° for i = 0 … m - 1, and the longitudes 2m; the result is (2m, 2m). It is
    periodic and smooth in both, as in the double Fourier method (Orszag, "Fourier series on spheres", 1974).
    """
    return np.concatenate([nodes, np.roll(nodes[::-1], nodes.shape[1] // 2, axis=1)])


@dataclass(frozen=True)
class EqualAreaMap:
    """Lambert's azimuthal map of the sphere's part around a unit vector: areas are those of the sphere."""

    center: Float[np.ndarray, " 3"]

    @property
    def _tangents(self) -> Float[np.ndarray, "2 3"]:
        first = np.cross(self.center, np.eye(3)[np.argmin(np.abs(self.center))])
        first /= np.linalg.norm(first)
        return np.stack([first, np.cross(self.center, first)])

    def onto_plane(self, places: Vectors) -> Float[np.ndarray, "*places 2"]:
        """Return the coordinates of places in radians; those of the opposite point are far away."""
        height = np.maximum(1 + places @ self.center, 1e-12)
        return np.sqrt(2 / height)[..., None] * (places @ self._tangents.T)

    def from_plane(self, x: Float[np.ndarray, "*places 2"]) -> Vectors:
        """Return the unit vectors of coordinates; those beyond the opposite point are taken for it."""
        square = np.square(x).sum(-1, keepdims=True)
        x = x * np.minimum(1, 2 / np.sqrt(np.maximum(square, 1e-12)))
        square = np.minimum(square, 4.0)
        return (1 - square / 2) * self.center + np.sqrt(1 - square / 4) * (x @ self._tangents)
