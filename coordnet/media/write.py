"""A signal into a file of any kind: the suffix decides the format."""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.media.files import StrPath, mismatch
from coordnet.media.pictures import IMAGE_SUFFIXES, write_image
from coordnet.media.signal import Kind, Media
from coordnet.media.sound import AUDIO_SUFFIXES, write_audio
from coordnet.media.tables import ARRAY_SUFFIXES, TABLE_SUFFIXES, write_array, write_table
from coordnet.media.video import CLIP_SUFFIXES, write_video

# .gif is in the first two: an animation is written.
_SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "video": CLIP_SUFFIXES,
    "image": IMAGE_SUFFIXES,
    "audio": AUDIO_SUFFIXES,
    "table": TABLE_SUFFIXES,
    "array": ARRAY_SUFFIXES,
}
_AXES: dict[Kind, int] = {"image": 2, "video": 3, "audio": 1, "table": 1}
_DEFAULT_DEPTHS: dict[Kind, str] = {"image": "uint8", "video": "uint8", "audio": "int16"}


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
    """Write a signal (*grid, channels), whole or not at all, in the format of the path's suffix.

    `kind`, `depth` (the type of the numbers in the file) and `rate` (frames or samples a second) are those of
    `media` by default. A bare tensor has 8 bits in pictures and videos (25 frames a second), 16 bits in sound
    (44100 samples a second), and float32 elsewhere. An existing file is replaced only if `force` is true.
    `progress` shows a bar on standard error while a video is written.
    """
    target = _target(path)
    source = media if isinstance(media, Media) else Media(media.to(torch.float32), kind or target, "", "")
    signal = media.signal if isinstance(media, Media) else media
    _check_axes(signal, path, target)
    same_scale = (source.kind == "audio") == (target == "audio")  # sound scales integers differently
    depth = depth or (source.depth if same_scale else "") or _DEFAULT_DEPTHS.get(target, "float32")
    rate = source.rate if rate is None else rate
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


def _target(path: StrPath) -> Kind:
    suffix = Path(path).suffix.lower()
    for kind, suffixes in _SUFFIXES.items():
        if suffix in suffixes:
            return kind
    raise mismatch(path, "a suffix that can be written (.png, .mp4, .wav …)", repr(suffix))


def _check_axes(signal: Tensor, path: StrPath, target: Kind) -> None:
    axes = _AXES.get(target, signal.ndim - 1)
    if signal.ndim - 1 != axes:
        shape = tuple(signal.shape)
        raise mismatch(path, f"{axes} axes and channels to write this {target}", f"shape {shape}")
