"""What a file declares of itself, looked at before anything is decoded: its format by content, and its size."""

import math
from pathlib import Path

from PIL import Image

from coordnet.media.files import StrPath, decoding, mismatch

# Pillow's names. Its other readers include one that starts Ghostscript.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "PPM", "TIFF", "TGA", "JPEG2000", "AVIF")
# FFmpeg's names. Its other readers include lists of further files, which it would open.
DEMUXERS = "mov,matroska,avi,mpeg,mpegvideo,mpegts,asf,flv,ogg,yuv4mpegpipe"
LEAST_MEMORY = 2**30  # bytes that reading a signal may always take
SHARE = 1 / 8  # part of the free memory that reading may take: restoring holds up to 16 copies of a float32 signal
UNKNOWN_MEMORY = 2**31  # bytes that are assumed to be free where the system does not say
NEEDED = 8  # bytes that reading takes for each number, of which four are the signal in float32
DECODED = 32  # times as many numbers may be decoded, one frame after another, as may be kept


def refuse_large(path: StrPath, numbers: int, memory: int | None = None) -> None:
    """Raise a ``MediaError`` for a file of more numbers than fit into some bytes, ``readable_memory`` if not given."""
    memory = readable_memory() if memory is None else memory
    if NEEDED * numbers > memory:
        room = f"at most {memory // NEEDED:,} numbers, which fit into {memory / 2**30:.3g} GiB (--memory allows more)"
        raise mismatch(path, room, f"{numbers:,}")


def refuse_long(path: StrPath, numbers: int, memory: int | None = None) -> None:
    """Raise a ``MediaError`` for frames of ``DECODED`` times as many numbers as ``refuse_large`` lets a file keep."""
    limit = DECODED * (readable_memory() if memory is None else memory) // NEEDED
    if numbers > limit:
        advice = "--frames selects fewer, --memory allows more"
        raise mismatch(path, f"at most {limit:,} numbers in the frames to decode ({advice})", f"{numbers:,} and more")


def declared_pictures(path: Path, memory: int | None = None) -> int:
    """Return the number of pictures in a file, without decoding one; refuse other formats, and too large a picture."""
    with decoding(path, "an image"), Image.open(path, formats=FORMATS) as image:
        refuse_large(path, math.prod(image.size) * len(image.getbands()), memory)
        return getattr(image, "n_frames", 1)


def readable_memory() -> int:
    """Return the bytes that reading a signal may take unless told otherwise, a share of those that are free."""
    return max(LEAST_MEMORY, int(SHARE * available_memory()))


def available_memory() -> int:
    """Return the bytes of memory that are available without swapping."""
    status = Path("/proc/meminfo")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("MemAvailable"))
        return int(line.split()[1]) * 1024
    return UNKNOWN_MEMORY
