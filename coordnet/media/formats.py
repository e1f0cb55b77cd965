"""Read any file as a signal, and write a signal to any file: its suffix decides the format.

Some pictures come with scikit-image, and are read by their names from its folder without any download.
"""

import difflib
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.media.array_files import ARRAY_SUFFIXES, read_array, write_array
from coordnet.media.columns import TABLE_SUFFIXES, Table, read_table, write_table
from coordnet.media.files import MEMBER_SUFFIXES, StrPath, mismatch, readable_file, split_member
from coordnet.media.picture_files import IMAGE_SUFFIXES, TIFF_SUFFIXES, is_animated, is_stack, read_image, write_image
from coordnet.media.signal import Kind, Media, from_depth
from coordnet.media.sound import AUDIO_SUFFIXES, read_audio, write_audio
from coordnet.media.stacks import read_stack, write_stack
from coordnet.media.tags import Tags, warn_of_lost
from coordnet.media.video import CLIP_SUFFIXES, VIDEO_SUFFIXES, read_video, write_video

KIND_BY_SUFFIX: dict[str, Kind] = {
    **dict.fromkeys(IMAGE_SUFFIXES, "image"),
    **dict.fromkeys(VIDEO_SUFFIXES, "video"),
    **dict.fromkeys(AUDIO_SUFFIXES, "audio"),
    **dict.fromkeys(TABLE_SUFFIXES, "table"),
    **dict.fromkeys(ARRAY_SUFFIXES, "array"),
}
WRITTEN = (".png", *TIFF_SUFFIXES, *CLIP_SUFFIXES, *AUDIO_SUFFIXES, *TABLE_SUFFIXES, ".npy")  # suffixes of results
_AXES: dict[Kind, int] = {"image": 2, "video": 3, "audio": 1, "table": 1}
_OPTIONS: dict[Kind, tuple[str, ...]] = {
    "image": ("size", "crop", "row", "column"),
    "video": ("frames", "size", "crop"),
}

# The file of each picture inside scikit-image's wheel, and one line about it.
SAMPLES = {
    "astronaut": ("astronaut.png", "portrait of Eileen Collins, 512×512 RGB"),
    "brick": ("brick.png", "brick wall, a regular texture, 512×512 gray"),
    "camera": ("camera.png", "man with a camera, 512×512 gray"),
    "cell": ("cell.png", "a cell under the microscope, 660×550 gray"),
    "chelsea": ("chelsea.png", "a cat's face with fine fur, 300×451 RGB"),
    "checkerboard": ("chessboard_GRAY.png", "checkerboard with sharp edges, 200×200 gray"),
    "clock": ("clock_motion.png", "clock blurred by motion, 300×400 gray"),
    "coffee": ("coffee.png", "cup of coffee on a table, 400×600 RGB"),
    "coins": ("coins.png", "Greek coins from Pompeii, 303×384 gray"),
    "colorwheel": ("color.png", "color wheel, 370×371 RGB"),
    "grass": ("grass.png", "grass, an irregular texture, 512×512 gray"),
    "gravel": ("gravel.png", "gravel, an irregular texture, 512×512 gray"),
    "horse": ("horse.png", "black silhouette of a horse, 328×400 RGBA"),
    "hubble_deep_field": ("hubble_deep_field.jpg", "galaxies on black, 872×1000 RGB"),
    "ihc": ("ihc.png", "immunohistochemical staining of colonic glands, 512×512 RGB"),
    "logo": ("logo.png", "scikit-image's logo, 500×500 RGBA"),
    "microaneurysms": ("microaneurysms.png", "detail of a retina, 102×102 gray"),
    "moon": ("moon.png", "surface of the moon, low contrast, 512×512 gray"),
    "motorcycle": ("motorcycle_left.png", "motorcycle in a workshop, 500×741 RGB"),
    "page": ("page.png", "scanned page of text, 191×384 gray"),
    "phantom": ("phantom.png", "Shepp-Logan phantom, piecewise constant, 400×400 RGB"),
    "retina": ("retina.jpg", "fundus of an eye, 1411×1411 RGB"),
    "rocket": ("rocket.jpg", "Falcon 9 on its launch pad, 427×640 RGB"),
    "text": ("text.png", "handwriting in uneven light, 172×448 gray"),
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
    kind = "video" if is_video(path) else "stack" if is_stack(path) else KIND_BY_SUFFIX[suffix]
    for option, value in {"frames": frames, "size": size, "crop": crop, "row": row, "column": column}.items():
        if value is not None and option not in _OPTIONS.get(kind, ()):
            raise mismatch(path, f"no option {option} for this {kind}", f"{option}={value}")
    if kind == "image":
        image = replace(read_image(path, size=size, crop=crop, memory=memory), name=name)
        if row is not None and column is not None:
            raise mismatch(path, "a row or a column", "both")
        image = image if row is None else _line(image, 0, "row", row)
        return image if column is None else _line(image, 1, "column", column)
    if kind == "stack":
        return read_stack(path, memory)
    if kind == "video":
        return read_video(path, frames=frames, size=size, crop=crop, memory=memory)
    if kind == "array":
        return read_array(path, memory=memory)
    if kind == "audio":
        return read_audio(path)
    columns, values = read_table(path)
    signal, texts = torch.from_numpy(from_depth(values.numpy(), path)), Table(path).texts(len(values))
    return Media(signal, "table", path.stem, "float64", columns=columns, stored=values.numpy(), texts=texts)


def is_video(path: Path) -> bool:
    """Return whether a file is a clip by its suffix, or an animation because it holds several pictures."""
    return path.suffix.lower() in VIDEO_SUFFIXES or is_animated(path)


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
    return replace(image, signal=line, kind="array", suffix="", name=name, alpha=False, stored=None, tags=Tags())


def write_media(
    media: Media | Float[Tensor, "*grid channels"],
    path: StrPath,
    *,
    depth: str | None = None,
    rate: float | int | None = None,
) -> None:
    """Write a signal (*grid, channels) completely or not at all, in the format of the path's suffix.

    ``depth`` (the type of the numbers in the file) and ``rate`` (frames or samples per second) are by default those of
    ``media``. A tensor is written with 8 bits in pictures and videos (25 frames per second), with 16 bits in sound
    (44100 samples per second), and as float32 elsewhere. A file that exists, or a signal that the format cannot hold,
    raises a ``MediaError``. Numbers that ``media.known`` keeps are those of the file that ``media`` was read from. A
    ``CoordnetWarning`` names the ``media.tags`` that the format does not hold.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in KIND_BY_SUFFIX or suffix in (*MEMBER_SUFFIXES, ".zarr"):
        raise mismatch(path, "a suffix that can be written (.png, .mp4, .wav …)", repr(suffix))
    signal = media.signal if isinstance(media, Media) else media
    target: Kind = "video" if suffix == ".gif" else KIND_BY_SUFFIX[suffix]
    source = media if isinstance(media, Media) else Media(media, target, "", "", alpha=True)
    if suffix in TIFF_SUFFIXES and (signal.ndim > 3 or source.tags.imagej is not None):
        target = "stack"
    is_picture = suffix == ".gif" and signal.ndim == 3  # an animation of one frame
    axes = 2 if is_picture else _AXES.get(target, signal.ndim - 1)
    if signal.ndim - 1 != axes:
        noun = "axis" if axes == 1 else "axes"
        raise mismatch(path, f"a signal of {axes} {noun} to write this {target} (.npy holds any)", str(signal.ndim - 1))
    same_scale = (source.kind == "audio") == (target == "audio")  # sound scales integers differently
    rate = source.rate if rate is None else rate
    is_exact = depth in (None, source.depth) and (target == source.kind or suffix == ".gif")
    written = replace(
        source,
        depth=depth or (source.depth if same_scale else "") or _DEPTHS.get(target, ""),
        rate=_RATES.get(target) if rate is None else rate,
        alpha=source.alpha and (source is media or target == "image"),
        stored=source.stored if is_exact else None,
    )
    warn_of_lost(source.name, suffix, _WRITERS[target](written, Path(path)))


def _write_columns(media: Media, path: Path) -> list[str]:
    write_table(path, media.columns, media.signal, exact=media.exact, texts=media.texts)
    return media.tags.for_others()


_DEPTHS: dict[Kind, str] = {"image": "uint8", "stack": "float32", "audio": "int16", "array": "float32"}
_RATES: dict[Kind, float | int] = {"video": 25, "audio": 44100}  # frames and samples per second
_WRITERS: dict[Kind, Callable[[Media, Path], list[str]]] = {
    "image": write_image,
    "stack": write_stack,
    "video": write_video,
    "audio": write_audio,
    "table": _write_columns,
    "array": write_array,
}
