"""Clips in and out: every video that FFmpeg decodes, and animated pictures."""

import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import av
import imageio.v3 as iio
import numpy as np
import torch
from imageio.plugins.pyav import PyAVPlugin
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet.media.files import MediaError, StrPath, atomic_path, decoding, encoding, mismatch, readable_file
from coordnet.media.pictures import count_pictures, resize_and_crop
from coordnet.media.signal import Media, as_numpy, from_depth, refuse_nan, to_depth

VIDEO_SUFFIXES = (
    *(".mp4", ".m4v", ".mov", ".mkv", ".avi", ".webm"),
    *(".mpg", ".mpeg", ".wmv", ".flv", ".ogv", ".y4m"),
)
ANIMATED_SUFFIXES = (".gif", ".webp", ".apng", ".png", ".avif")
CLIP_SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv", ".avi", ".gif")
T = TypeVar("T")
_DEFAULT_RATE = 10.0  # browsers show frames without a duration at 10 a second
_SLICE = re.compile(r"(-?\d+)?:(-?\d+)?(?::(\d+)?)?")
# The color matrix, primaries and transfer are those that FFmpeg converts with: players need not guess them.
_COLORS = dict.fromkeys(("colorspace", "color_primaries", "color_trc"), "smpte170m")
_H264 = {"crf": "12", "color_range": "tv", **_COLORS}
# FFmpeg's filters that give every frame a palette of its own.
_PALETTE_FILTERS = (
    {
        "split": ("split", ""),
        "palette": ("palettegen", "stats_mode=single:reserve_transparent=0"),
        "indices": ("paletteuse", "new=1:dither=none"),
    },
    [
        ("video_in", "split", 0, 0),
        ("split", "indices", 0, 0),
        ("split", "palette", 1, 0),
        ("palette", "indices", 0, 1),
        ("indices", "video_out", 0, 0),
    ],
)


def read_video(
    path: StrPath,
    *,
    frames: str | None = None,
    size: str | None = None,
    crop: str | None = None,
    progress: bool = False,
) -> Media:
    """Read a clip into a signal of shape (frames, height, width, channels) in [0, 1].

    `frames` ("0:120", "-30:", "::2") selects frames as a Python slice does; then `size` and `crop` apply as in
    `read_image`, one frame at a time. Channels are RGB, or 1 if the codec stores gray. Frames are turned by the
    rotation that the file states. Sound is ignored, and depths beyond 8 bits are reduced to 8. A file that breaks
    off yields the frames before the break. `progress` shows a bar on standard error.
    """
    path = readable_file(path, "a video")
    wanted = slice(None) if frames is None else _parse_frames(frames)
    with decoding(path, "a video"):
        images, rate = open_clip(path)
        if (wanted.start or 0) < 0 or (wanted.stop or 0) < 0:
            wanted = slice(*wanted.indices(sum(1 for _ in open_clip(path)[0])))
        selected = islice(images, wanted.start, wanted.stop, wanted.step)
        bar = tqdm(selected, desc=path.name, unit=" frames", file=sys.stderr, disable=not progress, leave=False)
        if size is None and crop is None:
            clip = list(bar)  # in uint8, a quarter of the memory
        else:
            clip = [resize_and_crop(from_depth(image, path), size, crop) for image in bar]
    if not clip:
        found = "a video with no frames" if frames is None else f"no frames in {frames!r}"
        raise mismatch(path, "at least one frame", found)
    if len({image.shape for image in clip}) > 1:
        raise mismatch(path, "frames of one size", "several")
    signal = torch.from_numpy(from_depth(np.stack(clip), path))
    return Media(signal, "video", path.stem, "uint8", rate / (wanted.step or 1))


def is_video(path: Path) -> bool:
    """Return whether a file is a clip by its suffix, or an animation because it holds several pictures."""
    suffix = path.suffix.lower()
    return suffix in VIDEO_SUFFIXES or (suffix in ANIMATED_SUFFIXES and count_pictures(path) > 1)


def open_clip(path: Path) -> tuple[Iterator[np.ndarray], float]:
    """Return the upright frames of a clip and their number a second.

    Frames are uint8 of shape (height, width, channels), without alpha, decoded as they are needed; a file that
    breaks off yields the frames before the break. The rate is the mean over the clip.
    """
    if path.suffix.lower() in ANIMATED_SUFFIXES:
        frames = list(_until_break(_animation(path)))
        duration = sum(milliseconds for _, milliseconds in frames)
        rate = 1000 * len(frames) / duration if duration else _DEFAULT_RATE
        return (image for image, _ in frames), rate
    with av.open(str(path)) as container:
        if not container.streams.video:
            raise mismatch(path, "a video", "a file without a video stream")
        stream = container.streams.video[0]
        rate = float(stream.average_rate or stream.guessed_rate or 25)
        gray = (stream.codec_context.pix_fmt or "").startswith("gray")
        # FFmpeg counts degrees counterclockwise, as rot90 does
        quarters = next(container.decode(stream)).rotation // 90
    images = iio.imiter(path, plugin="pyav", format="gray" if gray else "rgb24", thread_type="FRAME")
    turned = (np.rot90(np.atleast_3d(image), quarters) for image in images)
    return _until_break(turned), rate


def _animation(path: Path) -> Iterator[tuple[np.ndarray, float]]:
    """Yield the frames of an animation and their durations in milliseconds, 0 if none is stated."""
    file: Any
    with iio.imopen(path, "r", plugin="pillow") as file:
        for index, image in enumerate(file.iter(mode="RGB")):
            yield image, file.metadata(index=index).get("duration") or 0.0


def _until_break(items: Iterator[T]) -> Iterator[T]:
    """Yield items until their decoder fails; its error is raised only if it fails at the first."""
    decoded = False
    try:
        for item in items:
            yield item
            decoded = True
    except MemoryError:
        raise
    except Exception:
        if not decoded:
            raise


def _parse_frames(text: str) -> slice:
    """Return the slice of `start:stop` or `start:stop:step`; the step must be positive."""
    match = _SLICE.fullmatch(text.strip())
    parts = [None if part is None else int(part) for part in match.groups()] if match else [None, None, 0]
    if parts[2] == 0:
        raise MediaError(f"frames: expected START:STOP such as 0:120, -30: or ::2, found {text!r}")
    return slice(*parts)


def write_video(
    signal: Float[Tensor, "frames height width channels"],
    path: StrPath,
    *,
    rate: float | int,
    force: bool = False,
    progress: bool = False,
) -> None:
    """Write a clip of 8 bits a channel, values clipped to [0, 1].

    H.264 at high quality (crf 12) goes into .mp4, .m4v, .mov, .mkv and .avi: 4:2:0 if height and width are even,
    which every player shows, and 4:4:4 otherwise, which fewer players show but which holds any size. A .gif holds
    256 colors a frame: gray exactly, colors by a palette of the frame's own. `rate` is in frames a second; GIF
    counts time in hundredths of a second, so that it holds 100 at most. Channels are 1 (gray) or 3 (RGB).
    `progress` shows a bar on standard error.
    """
    suffix, shape = Path(path).suffix.lower(), tuple(signal.shape)
    if suffix not in CLIP_SUFFIXES:
        raise mismatch(path, f"a video suffix to write ({' '.join(CLIP_SUFFIXES)})", repr(suffix))
    if signal.numel() == 0 or shape[-1] not in (1, 3):
        raise mismatch(path, "(frames, height, width, 1 or 3 channels), none empty", str(shape))
    fastest = 100.0 if suffix == ".gif" else 1000.0
    if not 0 < rate <= fastest:
        raise mismatch(path, f"a rate up to {fastest:g} frames a second in {suffix}", f"{rate:g}")
    refuse_nan(as_numpy(signal), "uint8", path)
    bar = tqdm(signal, desc=Path(path).name, unit=" frames", file=sys.stderr, disable=not progress, leave=False)
    images = (to_depth(as_numpy(image), "uint8", path) for image in bar)
    with atomic_path(path, force=force) as temporary, encoding(path, "a video"):
        _encode(temporary, images, shape, rate)


class _Encoder(PyAVPlugin):
    """imageio's writer by FFmpeg, with two settings that it lacks: the frame size and the codec's options."""

    def configure(self, shape: tuple[int, ...], options: dict[str, str]) -> None:
        """Set the size before the first frame, as a graph of filters needs it."""
        stream: Any = self._video_stream
        stream.height, stream.width = shape[1:3]
        stream.options = options


def _encode(path: Path, images: Iterable[np.ndarray], shape: tuple[int, ...], rate: float | int) -> None:
    count, height, width, _ = shape
    codec, options, filters, muxing = "libx264", _H264, None, {}
    pixels = "yuv420p" if height % 2 == 0 and width % 2 == 0 else "yuv444p"
    if path.suffix.lower() == ".gif":
        codec, pixels, options, filters = "gif", "pal8", {}, _PALETTE_FILTERS
        muxing = {"final_delay": str(round(100 * count / rate) - round(100 * (count - 1) / rate))}
    elif path.suffix.lower() in (".mp4", ".m4v", ".mov"):
        muxing = {"movflags": "faststart"}
    file: Any
    with iio.imopen(path, "w", plugin=_Encoder, options=muxing) as file:
        file.init_video_stream(codec, fps=rate, pixel_format=pixels)
        file.configure(shape, options)
        file.set_video_filter(filter_graph=filters)
        for image in images:
            file.write_frame(np.broadcast_to(image, (height, width, 3)))
