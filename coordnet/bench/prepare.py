"""Prepare a data folder for the experiments: cut every file to the part that is measured, and write checksums."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from coordnet.bench.data import CROP, SOUND, center, cube
from coordnet.media import Media, MediaError, read_audio, read_image, write_media
from coordnet.media.pictures import IMAGE_SUFFIXES
from coordnet.media.sound import AUDIO_SUFFIXES
from coordnet.media.video import is_video

MANIFEST = "SHA256SUMS"  # in the format of ``sha256sum``


@dataclass(frozen=True)
class Source:
    """A file to prepare: its path, its place relative to the folder, and its kind (picture, clip or sound)."""

    path: Path
    place: Path
    kind: str


def sources(folder: Path, out: Path) -> tuple[list[Source], list[Path]]:
    """List the files of a folder that can be prepared, in order, and the places of the others; ignore those in ``out``.

    A folder that is missing, or of which nothing can be prepared, raises MediaError.
    """
    if not folder.is_dir():
        raise MediaError(f"--from {folder}: expected a folder of pictures, clips or sound, found none")
    if folder.resolve() == out.resolve():
        raise MediaError(f"--out {out}: expected another folder than --from, found the same")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not _hidden(path, folder))
    files = [path for path in files if not path.resolve().is_relative_to(out.resolve())]
    kinds = {path: _kind(path) for path in files}
    found = [Source(path, path.relative_to(folder), kind) for path, kind in kinds.items() if kind]
    if not found:
        raise MediaError(f"--from {folder}: expected pictures, clips or sound, found none in {len(files)} files")
    return found, [path.relative_to(folder) for path, kind in kinds.items() if not kind]


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _kind(path: Path) -> str:
    if is_video(path):
        return "clip"
    if path.suffix.lower() in IMAGE_SUFFIXES:
        return "picture"
    return "sound" if path.suffix.lower() in AUDIO_SUFFIXES else ""


def prepare(found: list[Source], out: Path, *, side: int = CROP, progress: bool = False) -> list[Path]:
    """Write the measured part of every file, and their checksums, into a folder; return the places of the files.

    Pictures become center crops of ``side`` pixels at their own depth; clips become cubes of 128 frames, 128×128
    each, as float32 arrays; of sound the first 131,072 samples are kept.

    A file that cannot be read, or two files that would have the same place, raise MediaError.
    """
    written: dict[Path, Path] = {}
    with tqdm(found, "preparing", unit=" files", disable=not progress, dynamic_ncols=True) as bar:
        for source in bar:
            bar.set_postfix_str(source.place.as_posix())
            media = _cut(source, side)
            place = source.place.with_suffix(media.lossless_suffix)
            if place in written:
                other = written[place]
                raise MediaError(f"{source.path}: expected a name of its own, found {other}, which becomes {place} too")
            written[place] = source.path
            (out / place).parent.mkdir(parents=True, exist_ok=True)
            write_media(media, out / place)
    lines = [f"{_sum(out / place)}  {place.as_posix()}\n" for place in sorted(written)]
    (out / MANIFEST).write_text("".join(lines), encoding="utf-8")
    return list(written)


def _cut(source: Source, side: int) -> Media:
    if source.kind == "clip":
        return Media(cube(source.path), "array", source.path.stem, "float32")
    if source.kind == "picture":
        media = read_image(source.path)
        return replace(media, signal=center(media.signal, side))
    media = read_audio(source.path)
    return replace(media, signal=media.signal[:SOUND])


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(folder: Path, *, progress: bool = False) -> int:
    """Compare a prepared folder with its checksums, and return the number of files, all of which agree.

    A file that is missing, changed, or without a checksum raises MediaError.
    """
    sums = _read_manifest(folder / MANIFEST)
    present = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    wrong = [f"{place} missing" for place in sums if place not in present]
    bar = tqdm(sums.items(), "checking", unit=" files", disable=not progress, dynamic_ncols=True, leave=False)
    wrong += [f"{place} changed" for place, sum_ in bar if place in present and _sum(folder / place) != sum_]
    wrong += [f"{place} without a checksum" for place in sorted(present - set(sums) - {MANIFEST})]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise MediaError(f"{folder}: expected the files of {MANIFEST}, found {', '.join(wrong[:3])}{more}")
    return len(sums)


def _read_manifest(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise MediaError(f"{path}: expected checksums (see coordnet data), found none") from None
    pairs = [line.split("  ", 1) for line in lines]
    if not pairs or any(len(pair) != 2 or len(pair[0]) != 64 for pair in pairs):
        raise MediaError(f"{path}: expected a line SHA256, two spaces and a file for each, found another")
    return {place: total for total, place in pairs}
