"""Colour images of 16 bits a channel, which Pillow cuts to 8: decoded and encoded by FFmpeg."""

from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext

from coordnet.media.errors import MediaError

# FFmpeg's names for big-endian pixels of 1 to 4 channels, as PNG stores them.
_FORMATS = {1: "gray16be", 2: "ya16be", 3: "rgb48be", 4: "rgba64be"}
_CHANNELS = {"gray16": 1, "ya16": 2, "rgb48": 3, "rgba64": 4}


def decode_deep(path: Path, codec: str) -> np.ndarray:
    """Return a file's pixels as FFmpeg's decoder of this name ("png", "tiff", "ppm") gives them.

    Returns
    -------
    ndarray
        Shape (height, width, channels), uint16.

    Raises
    ------
    MediaError
        If the pixels are not 16-bit grey or RGB with or without alpha.
    """
    context = cast(VideoCodecContext, VideoCodecContext.create(codec, "r"))
    frames = context.decode(av.Packet(path.read_bytes())) or context.decode(None)
    if not frames:
        raise MediaError(f"{path}: expected an image, found no picture in the file")
    return _pixels(frames[0], path)


def _pixels(frame: av.VideoFrame, path: Path) -> np.ndarray:
    """Read a packed 16-bit frame from its plane, whose lines are padded."""
    name, order = frame.format.name[:-2], frame.format.name[-2:]
    if name not in _CHANNELS or order not in ("le", "be"):
        raise MediaError(f"{path}: expected 8 or 16 bits a channel, found pixels of type {frame.format.name}")
    channels, plane = _CHANNELS[name], frame.planes[0]
    lines = np.frombuffer(memoryview(plane), np.uint8)[: frame.height * plane.line_size].reshape(
        frame.height, -1
    )
    values = np.ascontiguousarray(lines[:, : frame.width * channels * 2]).view(
        ">u2" if order == "be" else "<u2"
    )
    return values.reshape(frame.height, frame.width, channels).astype(np.uint16)


def encode_deep_png(pixels: np.ndarray) -> bytes:
    """Return a PNG file of 16 bits a channel.

    Parameters
    ----------
    pixels
        Shape (height, width, channels) with 1 to 4 channels, uint16.
    """
    height, width, channels = pixels.shape
    context = cast(VideoCodecContext, VideoCodecContext.create("png", "w"))
    context.width, context.height, context.pix_fmt = width, height, _FORMATS[channels]
    context.time_base = Fraction(1, 1)
    frame = av.VideoFrame(width, height, _FORMATS[channels])
    plane = frame.planes[0]
    lines = np.zeros((plane.buffer_size // plane.line_size, plane.line_size), np.uint8)
    lines[:height, : width * channels * 2] = pixels.astype(">u2").reshape(height, -1).view(np.uint8)
    plane.update(lines.tobytes())
    return b"".join(bytes(packet) for packet in [*context.encode(frame), *context.encode(None)])
