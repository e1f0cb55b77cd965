"""Sound in and out: WAV files, by SciPy."""

import warnings
from pathlib import Path

import numpy as np
import torch
from scipy.io import wavfile

from coordnet.media.files import StrPath, atomic_path, decoding, encoding, mismatch, readable_file
from coordnet.media.signal import Media, as_numpy, from_depth, refuse_nan, rounded_by_float32

AUDIO_SUFFIXES = (".wav", ".wave")
# SciPy's warnings about a file that is shorter than its header announces.
_TRUNCATED = "Reached EOF prematurely|Incomplete chunk ID"


def read_audio(path: StrPath) -> Media:
    """Read a WAV file into a signal of shape (samples, channels).

    Integers are divided by 2^(bits − 1) to [-1, 1), exactly up to 24 bits. 8-bit samples are unsigned with zero at 128,
    and 24-bit samples are the upper bytes of int32. Floats keep their values.
    """
    path = readable_file(path, "a WAV file")
    with decoding(path, "a whole WAV file"):
        warnings.filterwarnings("error", _TRUNCATED, wavfile.WavFileWarning)
        rate, samples = wavfile.read(path)
    if samples.size == 0:
        raise mismatch(path, "at least one sample", "none")
    values = samples.reshape(len(samples), -1)
    if values.dtype.kind == "f":
        values = from_depth(values, path)
    else:
        half = 2.0 ** (8 * values.dtype.itemsize - 1)
        zero = half if values.dtype.kind == "u" else 0
        values = ((values.astype(np.float64) - zero) / half).astype(np.float32)
    stored = rounded_by_float32(samples.reshape(values.shape))
    return Media(torch.from_numpy(values), "audio", path.stem, samples.dtype.name, float(rate), stored=stored)


def write_audio(media: Media, path: Path) -> list[str]:
    """Write sound as a WAV file; values written as integers are clipped to [-1, 1) and rounded.

    The rate is a whole number of samples per second, the depth uint8, int16, int32, int64, float32 or float64. The tags
    that the file does not hold are returned.
    """
    rate, depth, values = media.rate or 0, media.depth, as_numpy(media.signal)
    if values.size == 0:
        raise mismatch(path, "at least one sample", f"shape {values.shape}")
    if rate < 1 or rate != round(rate):
        raise mismatch(path, "a whole number of samples per second", f"{rate:g}")
    if not depth.startswith("float"):
        refuse_nan(values, depth, path)
        half = 2.0 ** (8 * np.dtype(depth).itemsize - 1)
        top = half - 1 if depth != "int64" else np.nextafter(half, 0)
        values = np.clip(np.rint(values.astype(np.float64) * half), -half, top)
        values += half if depth == "uint8" else 0
    values = values.astype(depth) if media.exact is None else media.exact.over(values.astype(depth))
    with atomic_path(path) as temporary, encoding(path, "sound"):
        wavfile.write(temporary, round(rate), values)
    return media.tags.for_others()
