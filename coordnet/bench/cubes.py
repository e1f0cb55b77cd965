"""The signals that coordnet is measured on, cut from the files of a data folder as its page has it.

A folder that ``coordnet data`` prepared is read like the raw one: what was cut is not cut again, and a clip's cube
stands in its place as an array of the same name.
"""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.media import MediaError, read_array, read_image, read_media, read_video

CROP = 480  # pixels: several photographs have a dark line at the frame's edge
CUBE, FRAME = 128, 256
SOUND = 131_072
PREPARED = ".npy"  # of a clip: no codec keeps the values of a resized one


def photographs(data: Path, count: int | None = None) -> list[Path]:
    """The files of DATA/kodak by name, the first ``count`` of them.

    Raises
    ------
    MediaError
        If there are none.
    """
    found = sorted((data / "kodak").glob("*.png"))[:count]
    if not found:
        raise MediaError(f"{data}: expected photographs kodak/*.png in the data folder, found none")
    return found


def photograph(data: Path, name: str) -> Path:
    """The file of one photograph of DATA/kodak."""
    return data / "kodak" / f"{name}.png"


def crop(path: Path, side: int = CROP) -> Float[Tensor, "height width channels"]:
    """The centre of a picture, ``side`` pixels square, or less where it is smaller."""
    return centre(read_image(path).signal, side)


def reflected(
    picture: Float[Tensor, "height width channels"], side: int
) -> Float[Tensor, "side side channels"]:
    """A picture of any size with the same detail a pixel: reflected about its borders, and cut."""
    while min(picture.shape[:2]) < side:
        for axis in (0, 1):
            picture = torch.cat([picture, picture.flip(axis)], dim=axis)
    return picture[:side, :side].contiguous()


def centre(signal: Float[Tensor, "*grid channels"], side: int) -> Float[Tensor, "*part channels"]:
    """The middle of a signal, at most ``side`` samples along each axis."""
    for axis, length in enumerate(signal.shape[:-1]):
        if length > side:
            signal = signal.narrow(axis, (length - side) // 2, side)
    return signal.contiguous()


def cube(path: Path) -> Float[Tensor, "frames height width channels"]:
    """The central 128 frames of a clip, resized to 256×256 if larger, and of those the central 128×128.

    Raises
    ------
    MediaError
        If the file is no clip, or the array in its place has not a clip's axes.
    """
    prepared = path.with_suffix(PREPARED)
    if prepared.is_file():
        made = read_array(prepared, channels="last").signal
        if made.ndim != 4:
            shape = tuple(made.shape[:-1])
            raise MediaError(
                f"{prepared}: expected frames, rows, columns and channels, found the grid {shape}"
            )
        return made
    height, width = read_video(path, frames="0:1").signal.shape[1:3]
    size = None
    if max(height, width) > FRAME:
        size, height, width = f"{FRAME}x{FRAME}", FRAME, FRAME
    clip = read_video(path, size=size, crop=f"{min(CUBE, height)}x{min(CUBE, width)}").signal
    first = max(0, len(clip) - CUBE) // 2
    return clip[first : first + CUBE].clone()


def sound(path: Path) -> Float[Tensor, "samples channels"]:
    """The first 131,072 samples of a recording."""
    return read_media(path).signal[:SOUND].to(torch.float32)
