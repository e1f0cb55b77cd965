"""Read any file as a signal: its suffix and, for pictures, the number of frames decide how it is read."""

import difflib
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.media.array_files import ARRAY_SUFFIXES, read_array, split_member
from coordnet.media.examples import SAMPLES
from coordnet.media.files import StrPath, mismatch, readable_file
from coordnet.media.pictures import IMAGE_SUFFIXES, read_image
from coordnet.media.signal import Kind, Media, from_depth
from coordnet.media.sound import AUDIO_SUFFIXES, read_audio
from coordnet.media.tables import TABLE_SUFFIXES, read_table
from coordnet.media.video import VIDEO_SUFFIXES, is_video, read_video

KIND_BY_SUFFIX: dict[str, Kind] = {
    **dict.fromkeys(IMAGE_SUFFIXES, "image"),
    **dict.fromkeys(VIDEO_SUFFIXES, "video"),
    **dict.fromkeys(AUDIO_SUFFIXES, "audio"),
    **dict.fromkeys(TABLE_SUFFIXES, "table"),
    **dict.fromkeys(ARRAY_SUFFIXES, "array"),
}
_OPTIONS: dict[Kind, tuple[str, ...]] = {
    "image": ("size", "crop", "row", "column"),
    "video": ("frames", "size", "crop"),
}


def load(path_or_name: StrPath) -> Float[Tensor, "*grid channels"]:
    """Return the signal in any supported file, or a built-in picture, as a tensor of shape (*grid, channels).

    Pictures have shape (height, width, channels), videos (frames, height, width, channels), sound
    (samples, channels) and tables (rows, columns). Integers are scaled to [0, 1], and to [-1, 1) for sound.
    """
    return read_media(path_or_name).signal


def read_media(
    path_or_name: StrPath,
    *,
    frames: str | None = None,
    size: str | None = None,
    crop: str | None = None,
    row: int | None = None,
    column: int | None = None,
    memory: int | None = None,
) -> Media:
    """Read a signal from a file of any supported kind, or from the built-in picture of this name (see ``SAMPLES``).

    An image or a video is resized to ``size`` ("HxW") and then cropped to ``crop`` ("HxW" from the center, or
    "HxW+top+left"). ``frames`` selects frames of a video by a Python slice such as "0:120"; ``row`` or ``column``
    selects one line of an image, after resizing and cropping. An option that does not apply raises a ``MediaError``, as
    does a file that needs more than ``memory`` bytes (see ``refuse_large``).
    """
    path, name = _located(path_or_name)
    suffix = split_member(path)[0].suffix.lower()
    if suffix != ".zarr":
        readable_file(split_member(path)[0], "a signal")
    if suffix not in KIND_BY_SUFFIX:
        raise mismatch(path, f"a known suffix ({' '.join(sorted(KIND_BY_SUFFIX))})", repr(suffix))
    kind = "video" if is_video(path) else KIND_BY_SUFFIX[suffix]
    for option, value in {"frames": frames, "size": size, "crop": crop, "row": row, "column": column}.items():
        if value is not None and option not in _OPTIONS.get(kind, ()):
            raise mismatch(path, f"no option {option} for this {kind}", f"{option}={value}")
    if kind == "image":
        image = replace(read_image(path, size=size, crop=crop, memory=memory), name=name)
        if row is not None and column is not None:
            raise mismatch(path, "a row or a column", "both")
        image = image if row is None else _line(image, 0, "row", row)
        return image if column is None else _line(image, 1, "column", column)
    if kind == "video":
        return read_video(path, frames=frames, size=size, crop=crop, memory=memory)
    if kind == "array":
        return read_array(path, memory=memory)
    readers: dict[Kind, Callable[[Path], Media]] = {"audio": read_audio, "table": _read_table}
    return readers[kind](path)


def _located(path_or_name: StrPath) -> tuple[Path, str]:
    """Return the path and the name of a signal; a file has priority over a built-in picture, and that over a folder."""
    path, text = Path(path_or_name), str(path_or_name)
    bare = not path.suffix and path.name == text
    if bare and text in SAMPLES and not path.is_file():
        return Path(str(files("skimage"))) / "data" / SAMPLES[text][0], text
    if bare and not path.exists():
        near = difflib.get_close_matches(text, SAMPLES, n=1)
        advice = f"did you mean {near[0]}?" if near else f"such as {', '.join(list(SAMPLES)[:3])}"
        raise mismatch(text, f"a file or a built-in picture ({advice})", "neither")
    return path, path.stem


def _line(image: Media, axis: int, word: str, index: int) -> Media:
    """Return one row (width, channels) or column (height, channels) of an image."""
    length = image.signal.shape[axis]
    if not 0 <= index < length:
        raise mismatch(image.name, f"a {word} from 0 to {length - 1}", str(index))
    line = image.signal.select(axis, index).contiguous()
    name = f"{image.name}-{word}{index}"
    return replace(image, signal=line, kind="array", suffix="", name=name, alpha=False, stored=None)


def _read_table(path: Path) -> Media:
    columns, values = read_table(path)
    signal = torch.from_numpy(from_depth(values.numpy(), path))
    return Media(signal, "table", path.stem, "float64", columns=columns, stored=values.numpy())
