"""Prepare a data folder for the experiments: cut every file to the part that is measured, and write checksums."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

from coordnet.bench.signals import CROP, SOUND, center, cube
from coordnet.media import Media, MediaError, read_media, write_media
from coordnet.media.read import KIND_BY_SUFFIX
from coordnet.media.video import is_video

MANIFEST = "SHA256SUMS"  # in the format of ``sha256sum``, which checks it


def sources(folder: Path, out: Path) -> dict[Path, str]:
    """Return the kind of each file by its place in a folder: picture, clip, sound, or "" for any other file.

    Hidden files and those in ``out`` are ignored. A folder that is missing, or without a file that can be prepared,
    raises MediaError.
    """
    if not folder.is_dir():
        raise MediaError(f"--from {folder}: expected a folder of pictures, clips or sound, found none")
    final = Path(os.path.realpath(out))  # a loop of links raises nothing here
    if Path(os.path.realpath(folder)) == final:
        raise MediaError(f"--out {out}: expected another folder than --from, found the same")
    files = (p for p in folder.rglob("*") if p.is_file() and not p.resolve().is_relative_to(final))
    places = sorted(path.relative_to(folder) for path in files)
    kinds = {p: _kind(folder / p) for p in places if not any(part.startswith(".") for part in p.parts)}
    if not any(kinds.values()):
        raise MediaError(f"--from {folder}: expected pictures, clips or sound, found none in {len(kinds)} files")
    return kinds


def _kind(path: Path) -> str:
    kind = "video" if is_video(path) else KIND_BY_SUFFIX.get(path.suffix.lower())
    return {"video": "clip", "image": "picture", "audio": "sound"}.get(kind or "", "")


def prepare(folder: Path, kinds: dict[Path, str], out: Path, *, side: int = CROP) -> list[Path]:
    """Write the measured part of every file, and their checksums, into a folder; return the places of the files.

    Pictures become center crops of ``side`` pixels at their own depth; clips become cubes of 128 frames, 128×128
    each, as float32 arrays; of sound the first 131,072 samples are kept.

    A file that cannot be read, or two files that would have the same place, raise MediaError.
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
