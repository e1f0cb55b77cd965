"""Sound in and out: WAV."""

import struct
import wave
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from scipy.io import wavfile
from torch import Tensor

from coordnet.media.atomic import atomic_path
from coordnet.media.depths import from_depth
from coordnet.media.errors import MediaError, StrPath, decoding, encoding, readable_file
from coordnet.media.signal import Media, as_numpy

AUDIO_SUFFIXES = (".wav", ".wave")
_DEPTHS = ("uint8", "int16", "int24", "int32", "int64", "float32", "float64")


def read_audio(path: StrPath) -> Media:
    """Read a WAV file into a signal of shape (samples, channels).

    Integers are scaled to [-1, 1) by 2^(bits − 1), which is exact to 24 bits; 8-bit samples are unsigned about
    128. Floats are as the file has them. `Media.depth` is "int24" for samples of three bytes.

    Raises
    ------
    MediaError
        If the file is missing, empty, damaged, truncated or no WAV file of 8 to 64 bits, or holds no sample or
        an infinite one.
    """
    path = readable_file(path, "a WAV file")
    with decoding(path, "a WAV file"):
        _check_whole(path)
        rate, samples = wavfile.read(path)
        three_bytes = samples.dtype == np.int32 and _bytes_per_sample(path) == 3
    if samples.size == 0:
        raise MediaError(f"{path}: expected at least one sample, found none")
    signal = torch.from_numpy(_from_pcm(samples.reshape(len(samples), -1), path))
    depth = "int24" if three_bytes else samples.dtype.name
    return Media(signal, "audio", path.stem, depth, float(rate), path.suffix.lower())


def write_audio(
    signal: Float[Tensor, "samples channels"],
    path: StrPath,
    *,
    rate: float | int,
    depth: str = "int16",
    force: bool = False,
) -> None:
    """Write a WAV file; integers are rounded and clipped to [-1, 1).

    Parameters
    ----------
    signal
        Shape (samples, channels).
    path
        With suffix .wav.
    rate
        Samples a second, a whole number.
    depth
        uint8, int16, int24, int32, int64, float32 or float64.
    force
        Whether to replace a file that is already there.

    Raises
    ------
    MediaError
        If the depth, the suffix or the rate is not among these, the signal is empty or has a NaN that would have
        to become an integer, or the file exists or cannot be written.
    """
    _check_holds(signal, path, rate, depth)
    samples = _to_pcm(as_numpy(signal), depth, path)
    with atomic_path(path, force=force) as temporary, encoding(path, "sound"):
        if depth == "int24":
            _write_three_bytes(temporary, round(rate), samples)
        else:
            wavfile.write(temporary, round(rate), samples)


def _check_holds(signal: Tensor, path: StrPath, rate: float | int, depth: str) -> None:
    suffix = Path(path).suffix.lower()
    if suffix not in AUDIO_SUFFIXES:
        raise MediaError(f"{path}: expected the suffix .wav for sound, found {suffix!r}")
    if depth not in _DEPTHS:
        raise MediaError(f"{path}: expected a depth among {', '.join(_DEPTHS)}, found {depth}")
    if signal.numel() == 0:
        raise MediaError(f"{path}: expected at least one sample, found shape {tuple(signal.shape)}")
    if rate < 1 or rate != round(rate):
        raise MediaError(f"{path}: expected a whole number of samples a second, found {rate:g}")


def _from_pcm(samples: np.ndarray, path: StrPath) -> np.ndarray:
    if samples.dtype.kind == "f":
        return from_depth(samples, path)
    half = 2.0 ** (8 * samples.dtype.itemsize - 1)
    centred = samples.astype(np.float64) - (half if samples.dtype.kind == "u" else 0)
    return (centred / half).astype(np.float32)


def _to_pcm(values: np.ndarray, depth: str, path: StrPath) -> np.ndarray:
    """Return samples to write: three-byte samples in int32, unjustified."""
    if depth.startswith("float"):
        return values.astype(depth)
    if np.isnan(values).any():
        raise MediaError(f"{path}: expected numbers to write as {depth}, found NaN (float depths keep it)")
    bits = int(depth.removeprefix("u").removeprefix("int"))
    half = 2.0 ** (bits - 1)
    top = half - 1 if bits < 64 else np.nextafter(half, 0)
    scaled = np.clip(np.rint(values.astype(np.float64) * half), -half, top)
    return (scaled + (half if depth == "uint8" else 0)).astype("int32" if depth == "int24" else depth)


def _write_three_bytes(path: Path, rate: int, samples: np.ndarray) -> None:
    """Write 24-bit samples, which SciPy reads but does not write."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(samples.shape[-1])
        file.setsampwidth(3)
        file.setframerate(rate)
        bytes_of_four = np.ascontiguousarray(samples.astype("<i4")).view(np.uint8).reshape(-1, 4)
        file.writeframes(bytes_of_four[:, :3].tobytes())


def _chunks(path: Path) -> dict[bytes, tuple[int, int]]:
    """Return where the first chunk of each name starts in a RIFF file, and the length it announces."""
    found: dict[bytes, tuple[int, int]] = {}
    with path.open("rb") as file:
        order = ">" if file.read(12)[:4] == b"RIFX" else "<"
        while len(header := file.read(8)) == 8:
            name, length = struct.unpack(f"{order}4sI", header)
            found.setdefault(name, (file.tell(), length))
            file.seek(length + length % 2, 1)
    return found


def _check_whole(path: Path) -> None:
    """Raise if a RIFF file ends before its samples do, which SciPy does not tell."""
    with path.open("rb") as file:
        if file.read(4) not in (b"RIFF", b"RIFX"):
            return
    chunks, size = _chunks(path), path.stat().st_size
    if b"fmt " not in chunks or b"data" not in chunks:
        raise MediaError(f"{path}: expected a WAV file, found a header without samples")
    start, length = chunks[b"data"]
    held = size - start
    if length > held:
        raise MediaError(f"{path}: expected {length} bytes of samples, as its header says, found {held}")


def _bytes_per_sample(path: Path) -> int:
    """Return the width of a sample in the file, from the block size and channels that its header states."""
    with path.open("rb") as file:
        order = ">" if file.read(4) == b"RIFX" else "<"
        file.seek(_chunks(path)[b"fmt "][0] + 2)
        channels, _, _, block = struct.unpack(f"{order}HIIH", file.read(12))
    return block // channels
