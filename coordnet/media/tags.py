"""What a file holds beside its pixels: color profile, resolution, EXIF, georeference, palette, sound."""

import math
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from PIL import Image

from coordnet._checks import CoordnetWarning
from coordnet.media import files
from coordnet.media.soundtrack import Track

Entry = tuple[int, int, int, Any, bool]  # a tag of a TIFF file as tifffile writes it: code, type, count, value, once

ORIENTATION, EXIF_IFD, EXIF_SIZE = 274, 34665, (40962, 40963)  # codes of EXIF; the last are width and height
# Texts of a TIFF file: description, make, model, date, artist, copyright. GeoTIFF's tags (its standard, annex A) with
# the metadata and the missing value of GDAL; of the first three, the lengths of a pixel and positions in pixels.
TEXTS, PIXEL_SCALE, TIE_POINTS, TRANSFORMATION = (270, 271, 272, 306, 315, 33432), 33550, 33922, 34264
GEO_KEYS, RASTER_TYPE, IS_POINT = 34735, 1025, 2  # the key that says whether positions are those of pixels' centers
PLACED, NODATA = (PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, GEO_KEYS, 34736, 34737, 42112), 42113
COUNTS = ("ImageJ", "images", "channels", "slices", "frames", "hyperstack", "min", "max", "Ranges")  # tags of ImageJ
INCH = {2: 1.0, 3: 2.54}  # multiples of the resolution per inch, by TIFF's unit
SPACES = {b"GRAY": (1, 2), b"RGB ": (3, 4)}  # numbers of channels that a color profile is for, by its data color space


@dataclass(frozen=True)
class Tags:
    """The properties of a picture's or a clip's file that its result keeps; ``lost`` names those that none has."""

    profile: bytes | None = None  # ICC
    dpi: tuple[float, float] | None = None  # dots per inch, across and down
    exif: bytes | None = None  # without the orientation, which is applied to the pixels
    entries: tuple[Entry, ...] = ()  # texts, georeference and missing value of a TIFF file
    nodata: float | None = None  # the number that stands for a missing value
    palette: np.ndarray | None = None  # (colors, 3), uint8
    sound: Track | None = None
    imagej: dict[str, Any] | None = None  # ImageJ's metadata with its resolution, in pixels per unit of its lengths
    lost: tuple[str, ...] = ()

    def enlarged(self, down: float | int, across: float | int) -> "Tags":
        """Return the tags of a picture with more pixels on the same ground; dots per inch stay, as in photo editors."""
        if down == across == 1:
            return self
        changed = {
            PIXEL_SCALE: lambda v: (v[0] / across, v[1] / down, *v[2:]),
            TIE_POINTS: lambda v: _tied(v, (across, down), self._center),
            TRANSFORMATION: lambda v: _transformed(v, (across, down), self._center),
        }
        entries = [(c, t, n, changed[c](v) if c in changed else v, once) for c, t, n, v, once in self.entries]
        x, y = self.imagej["resolution"] if self.imagej else (0.0, 0.0)
        imagej = self.imagej and {**self.imagej, "resolution": (x * across, y * down)}
        return replace(self, entries=tuple(entries), imagej=imagej)

    def cut(self) -> "Tags":
        """Return the tags of a part of a picture, or of one that was resized: its place is no longer known."""
        left = tuple(entry for entry in self.entries if entry[0] not in PLACED)
        return replace(self, entries=left, lost=(*self.lost, *self._place))

    def missing(self, pixels: np.ndarray) -> np.ndarray | None:
        """Return where pixels (*grid, channels) have the number of a missing value, None where none can have it.

        One channel of an integer picture may have any number from zero on: a pixel is missing if all channels have it.
        """
        if self.nodata is None:
            return None
        if pixels.dtype.kind == "f":
            return pixels == pixels.dtype.type(self.nodata)
        holds = self.nodata.is_integer() and abs(self.nodata) < 2**63
        if not holds or pixels.dtype.kind not in "iu":
            return None
        lacks = pixels == int(self.nodata)
        return lacks if self.nodata < 0 else np.broadcast_to(lacks.all(-1, keepdims=True), lacks.shape)

    def for_png(self, channels: int) -> tuple[dict[str, Any], list[str]]:
        """Return Pillow's options to write a PNG file with these tags, and what it does not hold."""
        fits = self._fits(channels)
        options = {"icc_profile": self.profile if fits else None, "dpi": self.dpi, "exif": self.exif}
        texts = ["the texts of TIFF tags"] if any(entry[0] in TEXTS for entry in self.entries) else []
        imagej = [] if self.imagej is None else ["ImageJ's metadata"]
        lost = [*self._mismatched(channels), *texts, *imagej, *self._place]
        return {name: value for name, value in options.items() if value is not None}, [*self.lost, *lost]

    def for_tiff(self, channels: int) -> tuple[dict[str, Any], list[str]]:
        """Return tifffile's options to write a TIFF file with these tags, and what it does not hold."""
        options: dict[str, Any] = {"iccprofile": self.profile} if self._fits(channels) else {}
        if self.dpi is not None:
            options |= {"resolution": self.dpi, "resolutionunit": "INCH"}
        if self.entries:
            options["extratags"] = self.entries
        others = {"EXIF": self.exif, "ImageJ's metadata": self.imagej}
        lost = [name for name, value in others.items() if value is not None]
        return options, [*self.lost, *self._mismatched(channels), *lost, *self.lost_palette]

    def for_others(self) -> list[str]:
        """Return what a file of numbers, or an animation, does not hold."""
        held = {"the color profile": self.profile, "the resolution": self.dpi, "EXIF": self.exif, "sound": self.sound}
        held |= {"ImageJ's metadata": self.imagej}
        return [*self.lost, *(name for name, value in held.items() if value is not None), *self._place]

    @property
    def _center(self) -> float:
        """The distance of a pixel's position from its corner: half a pixel if positions are those of centers."""
        keys = next((value for code, _, _, value, _ in self.entries if code == GEO_KEYS), ())
        return 0.5 if (RASTER_TYPE, 0, 1, IS_POINT) in zip(*(iter(keys),) * 4, strict=False) else 0.0

    def _fits(self, channels: int) -> bool:
        return self.profile is not None and channels in SPACES.get(self.profile[16:20], ())

    def _mismatched(self, channels: int) -> list[str]:
        space = (self.profile or b"")[16:20].decode("ascii", "replace").strip()
        return [] if self.profile is None or self._fits(channels) else [f"the color profile, which is for {space}"]

    @property
    def _place(self) -> list[str]:
        return ["the georeference"] if any(entry[0] in PLACED for entry in self.entries) else []

    @property
    def lost_palette(self) -> list[str]:
        """The palette in words, for a file that has none."""
        return [] if self.palette is None else [f"the palette of {len(self.palette)} colors"]


def _tied(points: Sequence[float], factors: tuple[float | int, ...], center: float) -> tuple[float, ...]:
    """Return tie points for more pixels, whose positions are this far from the corners of pixels."""
    added = [(center, factors[0]), (center, factors[1]), *[(0.0, 1)] * 4]
    return tuple((x + added[i % 6][0]) * added[i % 6][1] - added[i % 6][0] for i, x in enumerate(points))


def _transformed(matrix: Sequence[float], factors: tuple[float | int, ...], center: float) -> tuple[float, ...]:
    """Return the transformation, a matrix in rows, for more pixels with positions this far from their corners."""
    made = np.array(matrix, np.float64).reshape(-1, 4)
    made[:, :2] /= factors
    made[:, 3] += made[:, :2] @ (center * (1 - np.array(factors, np.float64)))
    return tuple(made.ravel().tolist())


def warn_of_lost(name: str, suffix: str, lost: Sequence[str]) -> None:
    """Say in a ``CoordnetWarning`` what a result in the format of a suffix does not have of its source."""
    if lost:
        warnings.warn(f"{name}: the {suffix} file does not keep {', '.join(lost)}", CoordnetWarning, stacklevel=3)


def read_tags(path: Path) -> Tags:
    """Read what a picture's file says beside its pixels; damaged tags are lost, not refused."""
    with suppress(Exception), warnings.catch_warnings(action="ignore"):
        return _of_tiff(path) if path.suffix.lower() in (".tif", ".tiff") else _of_raster(path)
    return Tags(lost=("tags that cannot be read",))


def _of_raster(path: Path) -> Tags:
    with Image.open(path, formats=files.FORMATS) as image:
        info, palette = image.info, None
        if image.mode == "P" and "transparency" not in info:
            palette = np.array(image.getpalette("RGB"), np.uint8).reshape(-1, 3)
        exif, lost = None, ["XMP"] if "xmp" in info else []
        try:
            exif = _upright(image.getexif(), image.size)
        except Exception:  # Pillow raises nearly anything for damaged EXIF
            lost.append("EXIF that cannot be read")
    return Tags(_profile(info.get("icc_profile")), _dots(info.get("dpi")), exif, palette=palette, lost=tuple(lost))


def _upright(exif: Image.Exif, size: tuple[int, int]) -> bytes | None:
    """Return EXIF for pixels that are turned upright, without the small picture that it may have."""
    turned = exif.pop(ORIENTATION, 1) > 4
    shot = exif.get_ifd(EXIF_IFD)
    for code, length in zip(EXIF_SIZE, size[::-1] if turned else size, strict=True):
        if code in shot:
            shot[code] = length
    return exif.tobytes() if len(exif) else None


def _of_tiff(path: Path) -> Tags:
    with tifffile.TiffFile(path) as file:
        tags, lost = file.pages.first.tags, []
        own = TEXTS[1:] if file.is_imagej or file.is_ome or file.is_shaped else TEXTS
        entries = tuple(
            (tag.code, int(tag.dtype), tag.count, tag.value, True)
            for tag in tags
            if tag.code in (*own, *PLACED, NODATA)
        )
        lost = [name for code, name in ((EXIF_IFD, "EXIF"), (700, "XMP")) if code in tags]
        lost += ["OME's metadata"] if file.is_ome else []
        palette = tags.valueof("ColorMap")
        colors = None if palette is None else (np.asarray(palette).T // 257).astype(np.uint8)
        found = [tags.valueof(name) for name in ("XResolution", "YResolution")]
        ratios = tuple(pair[0] / pair[1] if isinstance(pair, tuple) and pair[1] else 0.0 for pair in found)
        dpi, per_inch = _dots(ratios), INCH.get(tags.valueof("ResolutionUnit", 2), 0)
        imagej = {key: value for key, value in (file.imagej_metadata or {}).items() if key not in COUNTS}
        return Tags(
            profile=_profile(tags.valueof("InterColorProfile")),
            dpi=_dots((dpi[0] * per_inch, dpi[1] * per_inch)) if dpi else None,
            entries=entries,
            nodata=_number(tags.valueof(NODATA)),
            palette=colors,
            imagej={**imagej, "resolution": ratios} if file.is_imagej else None,
            lost=tuple(lost),
        )


def _profile(found: bytes | None) -> bytes | None:
    """Return a color profile that has a header, without which no color space is known."""
    return found if found is not None and len(found) >= 128 else None


def _dots(found: tuple[Any, ...] | None) -> tuple[float, float] | None:
    """Return the dots per inch if they are two positive numbers; without a unit, files have a ratio of one there."""
    pair = tuple(float(x) for x in found or ())
    return (pair[0], pair[1]) if len(pair) == 2 and all(1 < x < math.inf for x in pair) else None


def _number(text: str | None) -> float | None:
    try:
        number = float((text or "").strip("\x00 "))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
