"""Clips in: everything that FFmpeg decodes, and animated pictures."""

import sys
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import torch
from av.error import FFmpegError
from tqdm import tqdm

from coordnet.media.animation import ANIMATED_SUFFIXES, animation_frames, animation_rate
from coordnet.media.depths import from_depth
from coordnet.media.errors import MediaError, StrPath, decoding, readable_file
from coordnet.media.framing import counts_from_end, frame_image, parse_frames, select_frames
from coordnet.media.raster import count_pictures
from coordnet.media.signal import Media

VIDEO_SUFFIXES = (
    ".mp4",
    ".m4v",
    ".mov",
    ".mkv",
    ".avi",
    ".webm",
    ".mpg",
    ".mpeg",
    ".wmv",
    ".flv",
    ".ogv",
    ".y4m",
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

    Frames are selected, then resized, then cropped, one at a time as they are decoded. Channels are RGB, or 1
    where the codec stores grey. Frames are turned as the file's rotation says. Sound is ignored, and depths
    beyond 8 bits are reduced to 8. A file that breaks off gives the frames before the break.

    Parameters
    ----------
    path
        MP4, MOV, MKV, AVI, WebM or another container of FFmpeg's; GIF, WebP or APNG.
    frames
        Which frames, as a Python slice: "0:120", "-30:", "::2".
    size, crop
        As for `read_image`.
    progress
        Whether to show a bar on standard error.

    Raises
    ------
    MediaError
        If the file is missing, empty, damaged or no video, no frame is selected, the frames differ in size, or
        `frames`, `size` or `crop` cannot be understood or do not fit.
    """
    path = readable_file(path, "a video")
    wanted = slice(None) if frames is None else parse_frames(frames)
    count = _count(path) if counts_from_end(wanted) else None
    selected = select_frames(_decoded(path), wanted, count)
    bar = tqdm(selected, desc=path.name, unit=" frames", file=sys.stderr, disable=not progress, leave=False)
    clip = [_framed(image, size, crop, path) for image in bar]
    if not clip:
        found = "a video with no frames" if frames is None else f"no frames in {frames!r}"
        raise MediaError(f"{path}: expected at least one frame, found {found}")
    if len({image.shape for image in clip}) > 1:
        raise MediaError(f"{path}: expected frames of one size, found several")
    signal = torch.from_numpy(from_depth(np.stack(clip), path))
    rate = _rate(path) / (wanted.step or 1)
    return Media(signal, "video", path.stem, "uint8", rate, path.suffix.lower())


def is_video(path: Path) -> bool:
    """Return whether a file is a clip by its suffix, or an animation by holding several pictures."""
    suffix = path.suffix.lower()
    return suffix in VIDEO_SUFFIXES or (suffix in ANIMATED_SUFFIXES and count_pictures(path) > 1)


def _framed(image: np.ndarray, size: str | None, crop: str | None, path: Path) -> np.ndarray:
    """Resize and crop a frame; without either it stays uint8, a quarter of the memory."""
    return image if size is None and crop is None else frame_image(from_depth(image, path), size, crop)


def _decoded(path: Path) -> Iterator[np.ndarray]:
    return animation_frames(path) if path.suffix.lower() in ANIMATED_SUFFIXES else _container_frames(path)


def _count(path: Path) -> int:
    return (
        count_pictures(path)
        if path.suffix.lower() in ANIMATED_SUFFIXES
        else sum(1 for _ in _raw_frames(path))
    )


def _rate(path: Path) -> float:
    if path.suffix.lower() in ANIMATED_SUFFIXES:
        return animation_rate(path)
    with decoding(path, "a video"), av.open(str(path)) as container:
        stream = container.streams.video[0]
        return float(stream.average_rate or stream.guessed_rate or 25)


def _raw_frames(path: Path) -> Iterator[av.VideoFrame]:
    """Yield the frames of the first video stream, as far as they decode."""
    with decoding(path, "a video"):
        container = av.open(str(path))
    with container:
        if not container.streams.video:
            raise MediaError(f"{path}: expected a video, found a file without a video stream")
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        try:
            yield from container.decode(stream)
        except FFmpegError:
            return


def _container_frames(path: Path) -> Iterator[np.ndarray]:
    """Yield upright frames of shape (height, width, channels), uint8."""
    for frame in _raw_frames(path):
        grey = frame.format.name.startswith("gray")
        pixels = frame.to_ndarray(format="gray" if grey else "rgb24")
        turned = np.rot90(
            pixels, frame.rotation // 90
        )  # FFmpeg counts degrees counterclockwise, as rot90 does
        yield turned.reshape(*turned.shape[:2], -1)
