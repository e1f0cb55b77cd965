"""Safe reading and writing: errors are one line, sizes are checked before decoding, and files are whole or absent."""

import math
import os
import secrets
import struct
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from pathlib import Path

StrPath = str | PathLike[str]
# Pillow's names. Its other readers include one that starts Ghostscript.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "PPM", "TIFF", "TGA", "JPEG2000", "AVIF")
# FFmpeg's names. Its other readers include lists of further files, which it would open.
DEMUXERS = "mov,matroska,avi,mpeg,mpegvideo,mpegts,asf,flv,ogg,yuv4mpegpipe"
HDF5_SUFFIXES = (".nc", ".nc4", ".h5", ".hdf5", ".he5")  # NetCDF and HDF5
MEMBER_SUFFIXES = (".npz", *HDF5_SUFFIXES)  # endings of files with several arrays
LEAST_MEMORY = 2**30  # bytes that reading a signal may always take
MEMORY_SHARE = 1 / 8  # part of the free memory that reading may take: restoring holds up to 16 copies of a signal
UNKNOWN_MEMORY = 2**31  # bytes that are assumed to be free where the system does not say
NEEDED = 8  # bytes that reading takes for each number, of which four are the signal in float32
DECODED = 32  # times as many numbers may be decoded, one frame after another, as may be kept


class MediaError(ValueError):
    """A file cannot be read or written; the message is one line with the file, the expected and the found content.

    Readers raise it for a file that is missing, damaged, of another format, or that has an infinite value; writers for
    a signal that the format cannot hold, and for a file that exists already.
    """


def split_member(path: StrPath) -> tuple[Path, str | None]:
    """Return the file and the array that ``file.npz:NAME`` names; the array is None for any other path."""
    file, mark, member = str(path).rpartition(":")
    if mark and file.lower().endswith(MEMBER_SUFFIXES) and not Path(path).exists():
        return Path(file), member
    return Path(path), None


def mismatch(path: StrPath, expected: str, found: str) -> MediaError:
    """Return the error that says what was expected of a file and what was found."""
    return MediaError(f"{path}: expected {expected}, found {found}")


def readable_file(path: StrPath, expected: str) -> Path:
    """Return the path of a regular file that can be opened and is not empty; raise a ``MediaError`` for any other."""
    path = Path(path)
    try:
        if path.exists() and not path.is_dir() and not path.is_file():  # opening a pipe would wait
            raise mismatch(path, expected, "no regular file")
        with path.open("rb") as file:
            if file.read(1):
                return path
        found = "an empty file"
    except IsADirectoryError:
        found = "a folder"
    except (FileNotFoundError, NotADirectoryError):
        found = "no file of this name"
    except MediaError:
        raise
    except (OSError, ValueError) as error:
        found = f"a file that cannot be opened ({_one_line(error)})"
    raise mismatch(path, expected, found)


@contextmanager
def decoding(path: StrPath, expected: str, found: str = "a file that cannot be decoded") -> Iterator[None]:
    """Turn every error of a decoder into a ``MediaError``, and silence its warnings."""
    # Decoders raise nearly anything for a damaged file (SyntaxError, struct.error, KeyError).
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (MediaError, MemoryError):
        raise
    except Exception as error:
        raise mismatch(path, expected, f"{found} ({_one_line(error)})") from error


def encoding(path: StrPath, content: str) -> AbstractContextManager[None]:
    """Turn every error of an encoder into a ``MediaError``, and silence its warnings."""
    return decoding(path, f"to write {content}", "a failure of its encoder")


def _one_line(error: BaseException) -> str:
    """Return the text of an error on one line of at most 200 characters, without path and number."""
    if isinstance(error, OSError) and error.errno is None and error.__cause__:
        error = error.__cause__  # imageio hides the plugin's error behind one of its own
    if isinstance(error, struct.error | LookupError):
        return "it is damaged or incomplete"  # the decoder's own text says what it unpacked, not what is wrong
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return textwrap.shorten(text, 200, placeholder="…")


@contextmanager
def atomic_path(path: StrPath, *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``, and move the file to ``path`` when the block succeeds.

    The temporary file has the same suffix, so that encoders choose the same format. If the block raises an
    exception, ``KeyboardInterrupt`` included, the temporary file is removed and an earlier file at ``path`` stays.
    A symbolic link is followed: its target is replaced and the link stays. An existing file is replaced only if
    ``force`` is true.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise mismatch(path, "the name of a file to write", "a folder")
    if target.exists() and not force:
        raise mismatch(path, "no file of this name", "one")
    if not target.parent.is_dir():
        raise mismatch(path, "a file in an existing folder", f"no folder {target.parent}")
    temporary = target.with_name(f".tmp-{secrets.token_hex(8)}{target.suffix[:32]}")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        raise mismatch(path, "a file that can be written", f"an error ({_one_line(error)})") from error
    finally:
        temporary.unlink(missing_ok=True)


def refuse_large(path: StrPath, numbers: int, memory: int | None = None) -> None:
    """Raise a ``MediaError`` for a file of more numbers than fit into some bytes, ``readable_memory`` if not given."""
    memory = readable_memory() if memory is None else memory
    if NEEDED * numbers > memory:
        fits = f"which fit into {memory / 2**20:,.0f} MiB (--memory allows more, such as 3GiB)"
        room = f"at most {memory // NEEDED:,} numbers, {fits}"
        raise mismatch(path, room, f"{numbers:,}")


def refuse_long(path: StrPath, numbers: int, memory: int | None = None) -> None:
    """Raise a ``MediaError`` for frames of ``DECODED`` times as many numbers as ``refuse_large`` lets a file keep."""
    limit = DECODED * (readable_memory() if memory is None else memory) // NEEDED
    if numbers > limit:
        advice = "--frames selects fewer, --memory allows more"
        raise mismatch(path, f"at most {limit:,} numbers in the frames to decode ({advice})", f"{numbers:,} and more")


def declared_pictures(path: Path, memory: int | None = None) -> int:
    """Return the number of pictures in a file, without decoding one; refuse other formats, and too large a picture."""
    from PIL import Image  # here, because arithmetic needs no reader of files

    with decoding(path, "an image"), Image.open(path, formats=FORMATS) as image:
        refuse_large(path, math.prod(image.size) * len(image.getbands()), memory)
        return getattr(image, "n_frames", 1)


def readable_memory() -> int:
    """Return the bytes that reading a signal may take unless told otherwise, a share of those that are free."""
    return max(LEAST_MEMORY, int(MEMORY_SHARE * available_memory()))


def available_memory() -> int:
    """Return the bytes of memory that are available without swapping."""
    status = Path("/proc/meminfo")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("MemAvailable"))
        return int(line.split()[1]) * 1024
    return UNKNOWN_MEMORY
