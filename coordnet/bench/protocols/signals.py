"""The signals of the experiments, found in a data folder and named so that a record can tell them apart."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.bench import cubes
from coordnet.media import MediaError
from coordnet.media.pictures import IMAGE_SUFFIXES
from coordnet.media.video import VIDEO_SUFFIXES

Kind = Literal["picture", "clip", "row", "column"]
CLIPS = (*VIDEO_SUFFIXES, cubes.PREPARED)
FOLDERS = {"picture": ("kodak", "images", ""), "clip": ("video", "")}


@dataclass(frozen=True)
class Signal:
    """A part of a file.

    Attributes
    ----------
    kind : "picture", "clip", "row" or "column"
        The centre of a picture or of a clip; the middle row or column of a picture's centre.
    name : str
        The file's, without its folder.
    digest : str
        Eight hexadecimal digits of the file's SHA-256, so that another file of the same name is another signal.
    size : int
        Samples along each axis, at most.
    path : Path
        Where the file is; not part of the configuration.
    """

    kind: Kind
    name: str
    digest: str
    size: int
    path: Path

    def configuration(self) -> dict[str, Any]:
        """What a record keeps."""
        return {"kind": self.kind, "name": self.name, "digest": self.digest, "size": self.size}

    def load(self) -> Float[Tensor, "*grid channels"]:
        """The signal in [0, 1], float32."""
        if self.kind == "clip":
            return cubes.centre(_cube(self.path, self.digest), self.size).to(torch.float32, copy=True)
        picture = cubes.crop(self.path, self.size).to(torch.float32)
        if self.kind == "row":
            return picture[picture.shape[0] // 2].clone()
        if self.kind == "column":
            return picture[:, picture.shape[1] // 2].clone()
        return picture


@lru_cache(maxsize=2)
def _cube(path: Path, digest: str) -> Float[Tensor, "frames height width channels"]:
    """A clip's cube, kept from cell to cell: decoding may take ten seconds."""
    return cubes.cube(path)


def pictures(data: Path, size: int, count: int | None = None) -> Iterator[Signal]:
    """The pictures of DATA/kodak, DATA/images or DATA itself by name, the first ``count`` of them."""
    yield from _signals("picture", _files(data, "picture", IMAGE_SUFFIXES)[:count], size)


def lines(data: Path, size: int, count: int | None = None) -> Iterator[Signal]:
    """The middle row and the middle column of each picture."""
    for path in _files(data, "picture", IMAGE_SUFFIXES)[:count]:
        yield from _signals("row", [path], size)
        yield from _signals("column", [path], size)


def clips(data: Path, size: int, count: int | None = None) -> Iterator[Signal]:
    """The clips of DATA/video or DATA itself by name, the first ``count`` of them."""
    yield from _signals("clip", _files(data, "clip", CLIPS)[:count], size)


def _signals(kind: Kind, paths: list[Path], size: int) -> Iterator[Signal]:
    for path in paths:
        yield Signal(kind, path.name, hashlib.sha256(path.read_bytes()).hexdigest()[:8], size, path)


def _files(data: Path, kind: str, endings: tuple[str, ...]) -> list[Path]:
    for name in FOLDERS[kind]:
        folder = data / name
        found = sorted(p for p in folder.glob("*") if p.suffix.lower() in endings and p.is_file())
        if found:
            return found
    places = " or ".join(str(data / name) for name in FOLDERS[kind])
    raise MediaError(f"{data}: expected {kind}s in {places}, found none")
