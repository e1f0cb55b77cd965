"""Any file in, any file out: the suffix decides."""

import difflib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.media.arrays import ARRAY_SUFFIXES, read_array, write_array
from coordnet.media.audio import AUDIO_SUFFIXES, read_audio, write_audio
from coordnet.media.clips import CLIP_SUFFIXES, write_video
from coordnet.media.depths import from_depth
from coordnet.media.errors import MediaError, StrPath, readable_file
from coordnet.media.images import IMAGE_SUFFIXES, read_image, write_image
from coordnet.media.lines import select_line
from coordnet.media.samples import SAMPLES, sample_path
from coordnet.media.signal import Kind, Media
from coordnet.media.tables import TABLE_SUFFIXES, read_table, write_table
from coordnet.media.video import VIDEO_SUFFIXES, is_video, read_video

_SUFFIXES = (*IMAGE_SUFFIXES, *VIDEO_SUFFIXES, *AUDIO_SUFFIXES, *TABLE_SUFFIXES, *ARRAY_SUFFIXES)
_DEFAULT_DEPTHS: dict[Kind, str] = {"image": "uint8", "video": "uint8", "audio": "int16"}
_PHRASES: dict[Kind, str] = {
    "image": "an image",
    "video": "a video",
    "audio": "sound",
    "table": "a table",
    "array": "an array",
}


def read_media(
    path_or_name: StrPath,
    *,
    frames: str | None = None,
    size: str | None = None,
    crop: str | None = None,
    row: int | None = None,
    column: int | None = None,
    progress: bool = False,
) -> Media:
    """Read a signal from a file of any kind that is known, or from a built-in picture.

    Parameters
    ----------
    path_or_name
        A path; or, where no such file exists, the name of a built-in picture (`sample_names`).
    frames
        For a video: which frames, as a Python slice such as "0:120".
    size, crop
        For an image or a video: "HxW" to resize to, then "HxW" or "HxW+top+left" to crop to.
    row, column
        For an image: the one row or column to take, after resizing and cropping.
    progress
        Whether to show a bar on standard error while a video is read.

    Raises
    ------
    MediaError
        If there is no such file or picture, it cannot be read, or an option does not apply to its kind.
    """
    path, name = _located(path_or_name)
    kind = _kind(path)
    _check_options(path, kind, {"frames": frames, "size": size, "crop": crop, "row": row, "column": column})
    if kind == "image":
        return select_line(replace(read_image(path, size=size, crop=crop), name=name), row, column)
    if kind == "video":
        return read_video(path, frames=frames, size=size, crop=crop, progress=progress)
    if kind == "table":
        return _table_media(path)
    return read_audio(path) if kind == "audio" else read_array(path)


def load(path_or_name: StrPath) -> Float[Tensor, "*grid channels"]:
    """Return the signal in any supported file, or a built-in picture, as a tensor of shape (*grid, channels)."""
    return read_media(path_or_name).signal


def write_media(
    media: Media | Float[Tensor, "*grid channels"],
    path: StrPath,
    *,
    kind: Kind | None = None,
    depth: str | None = None,
    rate: float | int | None = None,
    force: bool = False,
    progress: bool = False,
) -> None:
    """Write a signal in the format of the path's suffix, whole or not at all.

    Parameters
    ----------
    media
        A signal of shape (*grid, channels), or one with what is known of its source.
    path
        Its suffix decides the format: images, videos, .wav, .csv and .npy.
    kind, depth, rate
        What the signal is and how to write it; by default as `media` says, and for a bare tensor what fits the
        suffix, 8 bits for pictures and videos (25 frames a second), 16 for sound (44100 samples), float32 else.
    force
        Whether to replace a file that is already there.
    progress
        Whether to show a bar on standard error while a video is written.

    Raises
    ------
    MediaError
        If the format cannot hold the signal, or the file exists or cannot be written.
    """
    target = _target_kind(path)
    bare = not isinstance(media, Media)
    signal = media if bare else media.signal
    source = Media(media.to(torch.float32), kind or target, "", "") if bare else media
    _check_axes(signal, path, target)
    rate = source.rate if rate is None else rate
    depth = depth or _same_scale(source, target) or _DEFAULT_DEPTHS.get(target, "float32")
    if target == "image":
        write_image(signal, path, depth=depth, force=force)
    elif target == "video":
        write_video(signal, path, rate=25.0 if rate is None else rate, force=force, progress=progress)
    elif target == "audio":
        write_audio(signal, path, rate=44100.0 if rate is None else rate, depth=depth, force=force)
    elif target == "table":
        write_table(path, source.columns, signal, force=force)
    else:
        write_array(signal, path, depth=depth, channel_axis=source.channel_axis, force=force)


def _located(path_or_name: StrPath) -> tuple[Path, str]:
    """Return the file to read and the name of what is in it; a file comes before a built-in picture."""
    path, text = Path(path_or_name), str(path_or_name)
    bare = not path.suffix and path.name == text
    sample = sample_path(text) if bare else None
    if path.is_file() or not bare or (sample is None and path.exists()):
        return path, path.stem
    if sample is None:
        near = difflib.get_close_matches(text, SAMPLES, n=1)
        advice = f"did you mean {near[0]}?" if near else f"such as {', '.join(list(SAMPLES)[:3])}"
        raise MediaError(f"{text}: expected a file or a built-in picture ({advice}), found neither")
    return sample, text


def _kind(path: Path) -> Kind:
    """Return what a file holds, by its suffix and, for pictures, by whether it is animated."""
    readable_file(path, "a signal")
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise MediaError(f"{path}: expected a known suffix ({_listed(_SUFFIXES)}), found {suffix!r}")
    if suffix in AUDIO_SUFFIXES:
        return "audio"
    if suffix in TABLE_SUFFIXES:
        return "table"
    if suffix in ARRAY_SUFFIXES:
        return "array"
    return "video" if is_video(path) else "image"


def _target_kind(path: StrPath) -> Kind:
    """Return what the suffix of a file to write holds."""
    suffix = Path(path).suffix.lower()
    kinds: dict[Kind, tuple[str, ...]] = {
        "video": CLIP_SUFFIXES,
        "image": IMAGE_SUFFIXES,
        "audio": AUDIO_SUFFIXES,
        "table": TABLE_SUFFIXES,
        "array": ARRAY_SUFFIXES,
    }
    for kind, suffixes in kinds.items():
        if suffix in suffixes:
            return kind
    raise MediaError(f"{path}: expected a suffix that can be written (.png, .mp4, .wav …), found {suffix!r}")


def _check_options(path: Path, kind: Kind, options: dict[str, object]) -> None:
    applicable = {"image": ("size", "crop", "row", "column"), "video": ("frames", "size", "crop")}.get(
        kind, ()
    )
    for option, value in options.items():
        if value is not None and option not in applicable:
            raise MediaError(
                f"{path}: expected no option {option} for {_PHRASES[kind]}, found {option}={value}"
            )


def _check_axes(signal: Tensor, path: StrPath, target: Kind) -> None:
    axes = {"image": 2, "video": 3, "audio": 1, "table": 1}.get(target)
    if axes is not None and signal.ndim - 1 != axes:
        found = f"{signal.ndim - 1} in shape {tuple(signal.shape)}"
        raise MediaError(
            f"{path}: expected {axes} axes and channels to write {_PHRASES[target]}, found {found}"
        )


def _table_media(path: Path) -> Media:
    table = read_table(path)
    signal = torch.from_numpy(from_depth(table.values.numpy(), path))
    return Media(signal, "table", path.stem, "float64", suffix=path.suffix.lower(), columns=table.columns)


def _same_scale(source: Media, target: Kind) -> str:
    """Return the source's depth if the target scales integers alike: sound is apart from all the rest."""
    return source.depth if (source.kind == "audio") == (target == "audio") else ""


def _listed(suffixes: Iterable[str]) -> str:
    return " ".join(sorted(set(suffixes)))
