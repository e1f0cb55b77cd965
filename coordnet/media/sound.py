"""Sound in and out: WAV files, by SciPy."""

import warnings
import wave
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from scipy.io import wavfile
from torch import Tensor

from coordnet.media.files import StrPath, atomic_path, decoding, encoding, mismatch, readable_file
from coordnet.media.signal import Media, as_numpy, from_depth, refuse_nan

AUDIO_SUFFIXES = (".wav", ".wave")
_DEPTHS = ("uint8", "int16", "int24", "int32", "int64", "float32", "float64")
# SciPy's warnings about a file that is shorter than its header announces.
_TRUNCATED = "Reached EOF prematurely|Incomplete chunk ID"


def read_audio(path: StrPath) -> Media:
    """Read a WAV file into a signal of shape (samples, channels).

    Integers are scaled to [-1, 1) by 2^(bits − 1), which is exact to 24 bits; 8-bit samples are unsigned about
    128. Floats keep their values. `Media.depth` is "int24" if no sample needs more than three bytes of int32.
    """
    path = readable_file(path, "a WAV file")
    with decoding(path, "a WAV file"):
        warnings.filterwarnings("error", _TRUNCATED, wavfile.WavFileWarning)
        try:
            rate, samples = wavfile.read(path)
        except wavfile.WavFileWarning as warning:
            raise mismatch(path, "a whole WAV file", f"a truncated one ({warning})") from None
    if samples.size == 0:
        raise mismatch(path, "at least one sample", "none")
    signal = torch.from_numpy(_from_pcm(samples.reshape(len(samples), -1), path))
    three_bytes = samples.dtype == np.int32 and not (samples & 0xFF).any()  # SciPy fills int32 from the top
    depth = "int24" if three_bytes else samples.dtype.name
    return Media(signal, "audio", path.stem, depth, float(rate))


def _from_pcm(samples: np.ndarray, path: StrPath) -> np.ndarray:
    if samples.dtype.kind == "f":
        return from_depth(samples, path)
    half = 2.0 ** (8 * samples.dtype.itemsize - 1)
    zero = half if samples.dtype.kind == "u" else 0
    return ((samples.astype(np.float64) - zero) / half).astype(np.float32)


def write_audio(
    signal: Float[Tensor, "samples channels"],
    path: StrPath,
    *,
    rate: float | int,
    depth: str = "int16",
    force: bool = False,
) -> None:
    """Write sound as a WAV file; integers are rounded and clipped to [-1, 1).

    `rate` is a whole number of samples a second. `depth` is uint8, int16, int24, int32, int64, float32 or float64.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in AUDIO_SUFFIXES:
        raise mismatch(path, "the suffix .wav for sound", repr(suffix))
    if depth not in _DEPTHS:
        raise mismatch(path, f"a depth among {', '.join(_DEPTHS)}", depth)
    if signal.numel() == 0:
        raise mismatch(path, "at least one sample", f"shape {tuple(signal.shape)}")
    if rate < 1 or rate != round(rate):
        raise mismatch(path, "a whole number of samples a second", f"{rate:g}")
    samples = _to_pcm(as_numpy(signal), depth, path)
    with atomic_path(path, force=force) as temporary, encoding(path, "sound"):
        if depth == "int24":
            _write_three_bytes(temporary, round(rate), samples)
        else:
            wavfile.write(temporary, round(rate), samples)


def _to_pcm(values: np.ndarray, depth: str, path: StrPath) -> np.ndarray:
    """Return the samples to write; those of 24 bits are in the lower three bytes of int32."""
    if depth.startswith("float"):
        return values.astype(depth)
    refuse_nan(values, depth, path)
    bits = int(depth.removeprefix("u").removeprefix("int"))
    half = 2.0 ** (bits - 1)
    top = half - 1 if bits < 64 else np.nextafter(half, 0)
    scaled = np.clip(np.rint(values.astype(np.float64) * half), -half, top)
    return (scaled + (half if depth == "uint8" else 0)).astype("int32" if depth == "int24" else depth)


def _write_three_bytes(path: Path, rate: int, samples: np.ndarray) -> None:
    """Write 24-bit samples, which SciPy reads but does not write."""
    with wave.open(str(path), "wb") as file:
        file.setparams((samples.shape[-1], 3, rate, 0, "NONE", ""))
        four_bytes = np.ascontiguousarray(samples.astype("<i4")).view(np.uint8).reshape(-1, 4)
        file.writeframes(four_bytes[:, :3].tobytes())
