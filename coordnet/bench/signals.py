"""The signals that coordnet is measured on: found in a data folder, and cut as the folder's page describes.

A folder that ``prepare`` wrote is read like the original one: a signal that was cut is not cut again, and a clip's cube
is an array with the name of the clip.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.media import Media, MediaError, read_array, read_image, read_media, read_video, write_media
from coordnet.media.formats import KIND_BY_SUFFIX, is_video
from coordnet.media.picture_files import IMAGE_SUFFIXES
from coordnet.media.sound import AUDIO_SUFFIXES
from coordnet.media.video import VIDEO_SUFFIXES, clip_length

CROP = 480  # pixels: several photographs have a dark line at the frame's edge
CUBE, FRAME = 128, 256
SOUND = 131_072
QUICK = 6  # times fewer samples along an axis in a quick run
PREPARED = ".npy"  # the suffix of a prepared clip: no codec keeps the values of a resized one
MANIFEST = "SHA256SUMS"  # in the format of ``sha256sum``, which checks it

Files = tuple[tuple[str, ...], tuple[str, ...]]  # folders to look in, in this order, and suffixes
PICTURES: Files = (("kodak", "images", ""), IMAGE_SUFFIXES)
CLIPS: Files = (("video", ""), (*VIDEO_SUFFIXES, PREPARED))
SOUNDS: Files = (("audio", ""), AUDIO_SUFFIXES)


@dataclass(frozen=True)
class Signal:
    """A part of a file, of a kind in ``READERS`` and at most ``size`` samples along each axis."""

    kind: str
    name: str
    digest: str  # begins the file's SHA-256, so that another file of the same name is another signal
    size: int
    path: Path

    def configuration(self) -> dict[str, Any]:
        """Return the attributes that a record keeps."""
        return {"kind": self.kind, "name": self.name, "digest": self.digest, "size": self.size}

    def load(self) -> Float[Tensor, "*grid channels"]:
        """Read the signal as float32."""
        return _read(self).to(torch.float32, copy=True)


@lru_cache(maxsize=4)
def _read(signal: Signal) -> Tensor:
    """The signal, kept from cell to cell because decoding a clip may take ten seconds."""
    return READERS[signal.kind](signal.path, signal.size)


READERS: dict[str, Callable[[Path, int], Tensor]] = {
    "picture": lambda path, size: crop(path, size),
    "clip": lambda path, size: center(cube(path), size),
    "row": lambda path, size: (picture := crop(path, size))[len(picture) // 2],
    "column": lambda path, size: (picture := crop(path, size))[:, picture.shape[1] // 2],
    "reflection": lambda path, size: reflected(crop(path), size),  # a picture of any size
    "sound": lambda path, size: sound(path),
}


@dataclass(frozen=True)
class Finder:
    """A choice of signals in a data folder: the kinds that each file gives, the folders and suffixes of files.

    ``names`` selects files by name without suffix, and each of ``sizes`` is a largest number of samples along an axis.
    """

    kinds: tuple[str, ...] = ("picture",)
    files: Files = PICTURES
    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = (CROP,)

    def find(self, data: Path, count: int | None = None, *, quick: bool = False) -> list[Signal]:
        """Return the signals of the first ``count`` files, shorter if ``quick``; MediaError if there are none."""
        folders, suffixes = self.files
        lengths, signals = [size // QUICK if quick else size for size in self.sizes], []
        for folder in (data / name for name in folders):
            files = sorted(p for p in folder.glob("*") if p.suffix.lower() in suffixes and p.is_file())
            for path in [p for p in files if not self.names or p.stem in self.names][:count]:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
                signals += [Signal(kind, path.name, digest, n, path) for kind in self.kinds for n in lengths]
            if signals:
                return signals
        places, what = " or ".join(str(data / name) for name in folders), " and ".join(self.names)
        raise MediaError(f"{data}: expected {what or f'{self.kinds[0]}s'} in {places}, found none")


def crop(path: Path, side: int = CROP) -> Float[Tensor, "height width channels"]:
    """Read the center of a picture, ``side`` pixels square or less if the picture is smaller."""
    return center(read_image(path).signal, side)


def reflected(picture: Float[Tensor, "height width channels"], side: int) -> Float[Tensor, "side side channels"]:
    """Continue a picture by reflection at its borders, which keeps its detail per pixel at any size."""
    margins = [(0, max(0, side - n)) for n in picture.shape[:2]]
    return torch.from_numpy(np.pad(picture.numpy(), [*margins, (0, 0)], mode="symmetric")[:side, :side]).contiguous()


def center(signal: Float[Tensor, "*grid channels"], side: int) -> Float[Tensor, "*part channels"]:
    """Cut the middle of a signal, at most ``side`` samples along each axis."""
    for axis, length in enumerate(signal.shape[:-1]):
        if length > side:
            signal = signal.narrow(axis, (length - side) // 2, side)
    return signal.contiguous()


def cube(path: Path) -> Float[Tensor, "frames height width channels"]:
    """Read the central 128 frames of a clip, resized to 256×256 if larger, and cut the central 128×128.

    A file that is not a clip, or a prepared array without a clip's axes, raises MediaError.
    """
    if path.suffix == PREPARED:
        array = read_array(path).signal
        if array.ndim != 4:
            shape = tuple(array.shape[:-1])
            raise MediaError(f"{path}: expected frames, rows, columns and channels, found the grid {shape}")
        return array
    sides = read_video(path, frames="0:1").signal.shape[1:3]
    size = f"{FRAME}x{FRAME}" if max(sides) > FRAME else None
    height, width = (CUBE if size else min(CUBE, side) for side in sides)
    first = max(0, clip_length(path) - CUBE) // 2
    return read_video(path, frames=f"{first}:{first + CUBE}", size=size, crop=f"{height}x{width}").signal


def sound(path: Path) -> Float[Tensor, "samples channels"]:
    """Read the first 131,072 samples of a recording."""
    return read_media(path).signal[:SOUND].to(torch.float32)


def sources(folder: Path, out: Path) -> dict[Path, str]:
    """Return the kind of each file by its place in a folder: picture, clip, sound, or "" for any other file.

    Hidden files and those in ``out`` are ignored. A folder without a file that can be prepared raises MediaError.
    """
    if not folder.is_dir():
        raise MediaError(f"--from {folder}: expected a folder of pictures, clips or sound, found none")
    final = Path(os.path.realpath(out))  # a loop of links raises nothing here
    if Path(os.path.realpath(folder)) == final:
        raise MediaError(f"--out {out}: expected another folder than --from, found the same")
    files = (p for p in folder.rglob("*") if p.is_file() and not p.resolve().is_relative_to(final))
    places = sorted(path.relative_to(folder) for path in files)
    words = {"video": "clip", "image": "picture", "audio": "sound"}
    kinds = {}
    for place in places:
        if not any(part.startswith(".") for part in place.parts):
            kind = "video" if is_video(folder / place) else KIND_BY_SUFFIX.get(place.suffix.lower(), "")
            kinds[place] = words.get(kind, "")
    if not any(kinds.values()):
        raise MediaError(f"--from {folder}: expected pictures, clips or sound, found none in {len(kinds)} files")
    return kinds


def prepare(folder: Path, kinds: dict[Path, str], out: Path, *, side: int = CROP) -> list[Path]:
    """Write the measured part of every file, and their checksums, into a folder; return the places of the files.

    Pictures become center crops of ``side`` pixels at their own depth; clips become cubes of 128 frames, 128×128
    each, as float32 arrays; of sound the first 131,072 samples are kept. A file that cannot be read, or two files that
    would have the same place, raise MediaError.
    """
    written: dict[Path, Path] = {}
    for source in (place for place, kind in kinds.items() if kind):
        path = folder / source
        if kinds[source] == "clip":
            media = Media(cube(path), "array", path.stem, "float32")
        else:
            media = read_media(path)
            whole = media.signal
            media = replace(media, signal=center(whole, side) if kinds[source] == "picture" else whole[:SOUND])
        place = source.with_suffix(media.lossless_suffix)
        if place in written:
            other = written[place]
            raise MediaError(f"{path}: expected a name of its own, found {other}, which becomes {place} too")
        written[place] = path
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        write_media(media, out / place)
    sums = {place: hashlib.sha256((out / place).read_bytes()).hexdigest() for place in sorted(written)}
    lines = [f"{digest}  {place.as_posix()}\n" for place, digest in sums.items()]
    (out / MANIFEST).write_text("".join(lines), encoding="utf-8")
    return list(written)
