"""Clips in and out: every video that FFmpeg decodes, and animated pictures."""

import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import av
import imageio.v3 as iio
import numpy as np
import torch

from coordnet.media import files
from coordnet.media.files import MediaError, StrPath, atomic_path, decoding, encoding, mismatch
from coordnet.media.picture_files import ANIMATED_SUFFIXES, indexed, resize_and_crop
from coordnet.media.signal import Media, as_numpy, from_depth, to_depth
from coordnet.media.soundtrack import add_sound, find_track
from coordnet.media.tags import Tags

VIDEO_SUFFIXES = (
    *(".mp4", ".m4v", ".mov", ".mkv", ".avi", ".webm"),
    *(".mpg", ".mpeg", ".wmv", ".flv", ".ogv", ".y4m"),
)
CLIP_SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv", ".avi", ".gif")
_SLICE = re.compile(r"(-?\d+)?:(-?\d+)?(?::(\d+)?)?")
# The color matrix, primaries and transfer with which FFmpeg converts; players then need not guess them.
_COLORS = dict.fromkeys(("colorspace", "color_primaries", "color_trc"), "smpte170m")
_H264 = {"crf": "12", "color_range": "tv", **_COLORS}


def read_video(
    path: StrPath,
    *,
    frames: str | None = None,
    size: str | None = None,
    crop: str | None = None,
    memory: int | None = None,
) -> Media:
    """Read a clip into a signal of shape (frames, height, width, channels) in [0, 1].

    ``frames`` ("0:120", "-30:", "::2") selects frames as a Python slice does; then ``size`` and ``crop`` apply as in
    ``read_image``, one frame at a time. Channels are RGB, or 1 if the codec stores gray. Frames are turned by the
    rotation that the file states. Depths beyond 8 bits are reduced to 8, and sound stays in the file until it is copied
    (``Tags``). Reading stops with a ``MediaError`` where the frames need more than ``memory`` bytes, see
    ``refuse_large``, or where decoding them takes too long, see ``refuse_long``.
    """
    path = files.readable_file(path, "a video")
    wanted = slice(None) if frames is None else _parse_frames(frames)
    with decoding(path, "a video"):
        images, rate = open_clip(path, memory)
        if (wanted.start or 0) < 0 or (wanted.stop or 0) < 0:
            wanted = slice(*wanted.indices(clip_length(path)))
        selected = islice(images, wanted.start, wanted.stop, wanted.step)
        clip, decoded = [], 0
        for image in selected:
            decoded += image.size
            files.refuse_long(path, decoded, memory)
            clip.append(resize_and_crop(from_depth(image, path), size, crop, memory))
            files.refuse_large(path, len(clip) * clip[0].size, memory)
    if not clip:
        found = "a video with no frames" if frames is None else f"no frames in {frames!r}"
        raise mismatch(path, "at least one frame", found)
    start, rate, suffix = (wanted.start or 0) / rate, rate / (wanted.step or 1), path.suffix.lower()
    with decoding(path, "a video"):
        sound = None if suffix in ANIMATED_SUFFIXES else find_track(path, start, len(clip) / rate)
    signal, tags = torch.from_numpy(np.stack(clip)), Tags(sound=sound)
    return Media(signal, "video", path.stem, "uint8", rate, suffix=suffix, tags=tags)


def clip_length(path: StrPath) -> int:
    """Return the number of frames of a clip; those of videos are decoded, as what files say of it is often wrong."""
    path = files.readable_file(path, "a video")
    if path.suffix.lower() in ANIMATED_SUFFIXES:
        return files.declared_pictures(path)
    with decoding(path, "a video"):
        return sum(1 for _ in open_clip(path)[0])


def open_clip(path: Path, memory: int | None = None) -> tuple[Iterator[np.ndarray], float]:
    """Return the upright frames of a clip and their number per second, in animations that of the first frame.

    Frames are uint8 of shape (height, width, channels), without alpha, decoded as they are needed.
    """
    if path.suffix.lower() in ANIMATED_SUFFIXES:
        files.declared_pictures(path, memory)
        file: Any
        with iio.imopen(path, "r", plugin="pillow") as file:
            file.read(index=0)  # a WebP file has the duration of a frame only after decoding it
            milliseconds = file.metadata(index=0).get("duration") or 100  # browsers' default
        return iio.imiter(path, plugin="pillow", mode="RGB"), 1000 / milliseconds
    with av.open(str(path), options={"format_whitelist": files.DEMUXERS}) as container:
        if not container.streams.video:
            raise mismatch(path, "a video", "a file without a video stream")
        stream = container.streams.video[0]
        rate = float(stream.average_rate or stream.guessed_rate or 25)
        gray = (stream.codec_context.pix_fmt or "").startswith("gray")
        # FFmpeg counts degrees counterclockwise, as rot90 does
        quarters = next(container.decode(stream)).rotation // 90
    images = iio.imiter(path, plugin="pyav", format="gray" if gray else "rgb24", thread_type="FRAME")
    return (np.rot90(np.atleast_3d(image), quarters) for image in images), rate


def _parse_frames(text: str) -> slice:
    """Return the slice of ``start:stop`` or ``start:stop:step``; the step must be positive."""
    match = _SLICE.fullmatch(text.strip())
    parts = [None if part is None else int(part) for part in match.groups()] if match else [None, None, 0]
    if parts[2] == 0:
        raise MediaError(f"`frames`: expected START:STOP such as 0:120, -30: or ::2, found {text!r}")
    return slice(*parts)


def write_video(media: Media, path: Path) -> list[str]:
    """Write a clip as H.264 at high quality (crf 12) 8 bits per channel, or as a GIF; values are clipped to [0, 1].

    Colors are 4:2:0, which every player shows, if height and width are even; otherwise they are 4:4:4, which fewer
    players show. Channels are 1 (gray) or 3 (RGB). The palette of a GIF of one frame has the exact colors, in the order
    of the palette in the tags. The sound in these is copied; what the file does not hold of them is returned.
    """
    signal = media.signal if media.signal.ndim == 4 else media.signal.unsqueeze(0)
    suffix, shape, rate = path.suffix.lower(), tuple(signal.shape), media.rate or 0
    if suffix not in CLIP_SUFFIXES:
        raise mismatch(path, f"a video suffix to write ({' '.join(CLIP_SUFFIXES)})", repr(suffix))
    if shape[-1] not in (1, 3):
        raise mismatch(path, "1 or 3 channels in a clip (.tiff and .npy hold others)", str(shape[-1]))
    if signal.numel() == 0:
        raise mismatch(path, "a clip of at least one pixel", f"shape {shape}")
    if not 0 < rate <= 1000:
        raise mismatch(path, "a rate up to 1000 frames per second", f"{rate:g}")
    images, tags, exact = to_depth(as_numpy(signal), "uint8", path), media.tags, media.exact
    if suffix == ".gif":
        with atomic_path(path) as temporary, encoding(path, "an animation"):
            duration = round(100 / rate) * 10  # a GIF counts hundredths of a second
            frames = images if shape[-1] == 3 else images[..., 0]
            if exact is not None and shape[-1] == 3:
                kept = np.asarray(exact.where.all(-1))
                indexed(exact.over(frames[0]), kept, tags.palette).save(temporary, optimize=False)
            else:
                iio.imwrite(temporary, frames, plugin="pillow", duration=duration, loop=0)
        return tags.for_others()
    muxing = {"movflags": "faststart"} if suffix in (".mp4", ".m4v", ".mov") else {}
    with atomic_path(path) as temporary, encoding(path, "a video"):
        if tags.sound is None:
            _encode(images, temporary, rate, muxing)
            return tags.for_others()
        with tempfile.TemporaryDirectory(dir=temporary.parent, prefix=".tmp-") as folder:
            silent = Path(folder, temporary.name)
            _encode(images, silent, rate, {})
            codec = add_sound(silent, tags.sound, temporary, muxing)
    return replace(tags, sound=None).for_others() + ([] if codec is None else [f"sound of the codec {codec}"])


def _encode(images: np.ndarray, path: Path, rate: float | int, muxing: dict[str, str]) -> None:
    """Write frames as H.264."""
    height, width = images.shape[1:3]
    pixels = "yuv420p" if height % 2 == 0 and width % 2 == 0 else "yuv444p"
    file: Any
    with iio.imopen(path, "w", plugin="pyav", options=muxing) as file:  # type: ignore[arg-type]
        file.init_video_stream("libx264", fps=rate, pixel_format=pixels)
        file._video_stream.options = _H264  # imageio has no argument for the codec's options
        for image in images:
            file.write_frame(np.broadcast_to(image, (height, width, 3)))
