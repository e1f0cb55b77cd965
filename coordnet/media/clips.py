"""Clips out: H.264 in MP4, MOV, MKV or AVI, and GIF."""

import sys
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.container import OutputContainer
from av.video.stream import VideoStream
from jaxtyping import Float
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from coordnet.media.atomic import atomic_path
from coordnet.media.depths import to_depth
from coordnet.media.errors import MediaError, StrPath, encoding
from coordnet.media.signal import as_numpy

CLIP_SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv", ".avi", ".gif")
_SMPTE_170M = 6  # ITU-T H.273: the colour matrix, primaries and transfer that FFmpeg assumes by default
_LIMITED_RANGE = 1


def write_video(
    signal: Float[Tensor, "frames height width channels"],
    path: StrPath,
    *,
    rate: float | int,
    force: bool = False,
    progress: bool = False,
) -> None:
    """Write a clip of 8 bits a channel, values clipped to [0, 1].

    H.264 at high quality (crf 12): 4:2:0 where height and width are even, which every player shows, and 4:4:4
    otherwise, which fewer do but which holds any size. GIF holds 256 colours a frame: exactly where a frame has
    no more (grey always), by median cut otherwise; it counts time in hundredths of a second.

    Parameters
    ----------
    signal
        Shape (frames, height, width, channels) with 1 (grey, written as RGB) or 3 channels.
    path
        With suffix .mp4, .m4v, .mov, .mkv, .avi or .gif.
    rate
        Frames a second; at most 100 for GIF.
    force
        Whether to replace a file that is already there.
    progress
        Whether to show a bar on standard error.

    Raises
    ------
    MediaError
        If the suffix, channels or rate are not among these, the signal is empty or holds NaN, or the file exists
        or cannot be written.
    """
    _check_holds(signal, path, rate)
    shown = tqdm(
        signal, desc=Path(path).name, unit=" frames", file=sys.stderr, disable=not progress, leave=False
    )
    images = (to_depth(as_numpy(image), "uint8", path) for image in shown)
    write = _write_gif if Path(path).suffix.lower() == ".gif" else _write_h264
    with atomic_path(path, force=force) as temporary, encoding(path, "a video"):
        write(temporary, images, signal.shape, rate)


def _check_holds(signal: Tensor, path: StrPath, rate: float | int) -> None:
    suffix = Path(path).suffix.lower()
    if suffix not in CLIP_SUFFIXES:
        raise MediaError(
            f"{path}: expected a video suffix to write ({' '.join(CLIP_SUFFIXES)}), found {suffix!r}"
        )
    if signal.numel() == 0 or signal.shape[-1] not in (1, 3):
        shape = tuple(signal.shape)
        raise MediaError(
            f"{path}: expected (frames, height, width, 1 or 3 channels), none empty, found {shape}"
        )
    fastest = 100.0 if suffix == ".gif" else 1000.0
    if not 0 < rate <= fastest:
        raise MediaError(
            f"{path}: expected a rate up to {fastest:g} frames a second in {suffix}, found {rate:g}"
        )


def _write_h264(path: Path, images: Iterable[np.ndarray], shape: tuple[int, ...], rate: float | int) -> None:
    _, height, width, _ = shape
    even = height % 2 == 0 and width % 2 == 0
    options = {"movflags": "faststart"} if path.suffix.lower() in (".mp4", ".m4v", ".mov") else {}
    with av.open(str(path), "w", options=options) as container:
        # 1001 is the denominator of broadcast rates such as 30000/1001
        stream = container.add_stream("libx264", Fraction(rate).limit_denominator(1001), {"crf": "12"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p" if even else "yuv444p"
        context = stream.codec_context
        context.colorspace = context.color_primaries = context.color_trc = _SMPTE_170M
        context.color_range = _LIMITED_RANGE
        for image in images:
            rgb = np.ascontiguousarray(np.broadcast_to(image, (height, width, 3)))
            _mux(container, stream, av.VideoFrame.from_ndarray(rgb, format="rgb24"))
        _mux(container, stream, None)


def _write_gif(path: Path, images: Iterable[np.ndarray], shape: tuple[int, ...], rate: float | int) -> None:
    count, height, width, _ = shape
    starts = [round(100 * index / rate) for index in range(count + 1)]
    final_delay = str(starts[-1] - starts[-2])
    with av.open(str(path), "w", options={"final_delay": final_delay}) as container:
        stream = container.add_stream("gif", 100)
        stream.width, stream.height, stream.pix_fmt = width, height, "pal8"
        for start, image in zip(starts, images, strict=False):
            frame = av.VideoFrame.from_ndarray(_paletted(image), format="pal8")  # pyright: ignore
            frame.pts, frame.time_base = start, Fraction(1, 100)
            _mux(container, stream, frame)
        _mux(container, stream, None)


def _mux(container: OutputContainer, stream: VideoStream, frame: av.VideoFrame | None) -> None:
    for packet in stream.encode(frame):
        container.mux(packet)


def _paletted(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the palette index of every pixel (height, width) and the palette (256, alpha red green blue)."""
    rgb = np.ascontiguousarray(np.broadcast_to(image, (*image.shape[:2], 3)))
    packed = rgb.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    colours, indices = np.unique(packed, return_inverse=True)
    palette = np.full((256, 4), 255, np.uint8)
    if len(colours) <= 256:
        palette[: len(colours), 1:] = colours.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 1:]
        return indices.reshape(packed.shape).astype(np.uint8), palette
    reduced = Image.fromarray(rgb).quantize(256, Image.Quantize.MEDIANCUT)
    entries = np.array(reduced.getpalette(), np.uint8).reshape(-1, 3)
    palette[: len(entries), 1:] = entries
    return np.asarray(reduced), palette
