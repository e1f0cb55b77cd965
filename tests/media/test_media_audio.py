"""Sound: every depth bit for bit, and files that break off."""

import wave

import numpy as np
import pytest
import torch
from scipy.io import wavfile

from coordnet.media import MediaError, read_audio, read_media, write_media


def samples(dtype, channels, count=101):
    generator = np.random.default_rng(0)
    if np.dtype(dtype).kind == "f":
        return generator.uniform(-1, 1, (count, channels)).astype(dtype)
    bounds = np.iinfo(dtype)
    values = generator.integers(bounds.min, bounds.max, (count, channels), dtype, endpoint=True)
    values[0], values[1] = bounds.min, bounds.max
    return values


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_scipys_files_return_bit_for_bit(tmp_path, dtype, channels):
    original = samples(dtype, channels)
    wavfile.write(tmp_path / "a.wav", 8000, original)
    media = read_media(tmp_path / "a.wav")
    assert (media.kind, media.depth, media.rate) == ("audio", dtype, 8000.0)
    assert media.signal.shape == (101, channels)
    if dtype != "float32":
        assert media.signal.min() == -1 and 0.99 < media.signal.max() < 1
    write_media(media, tmp_path / "b.wav")
    rate, found = wavfile.read(tmp_path / "b.wav")
    assert rate == 8000
    assert found.dtype == original.dtype
    np.testing.assert_array_equal(found.reshape(original.shape), original)


@pytest.mark.parametrize("channels", [1, 2])
def test_three_byte_samples_return_bit_for_bit(tmp_path, channels):
    original = samples("int32", channels) >> 8
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(3)
        file.setframerate(48000)
        file.writeframes(original.astype("<i4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes())
    media = read_audio(tmp_path / "a.wav")
    assert media.depth == "int32"
    np.testing.assert_array_equal(media.signal.double().numpy() * 2**23, original)
    write_media(media, tmp_path / "b.wav")
    np.testing.assert_array_equal(wavfile.read(tmp_path / "b.wav")[1].reshape(original.shape) >> 8, original)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_wider_samples_return_to_float32_precision(tmp_path, dtype):
    original = samples(dtype, 2)
    wavfile.write(tmp_path / "a.wav", 44100, original)
    media = read_audio(tmp_path / "a.wav")
    assert media.depth == dtype
    write_media(media, tmp_path / "b.wav")
    _, found = wavfile.read(tmp_path / "b.wav")
    scale = 1.0 if dtype == "float64" else 2.0 ** (8 * original.dtype.itemsize - 1)
    assert found.dtype == original.dtype
    np.testing.assert_allclose(found / scale, original / scale, atol=1e-7)


def test_zero_is_silence_and_loud_is_clipped(tmp_path):
    for depth, quiet, low, high in [("uint8", 128, 0, 255), ("int16", 0, -32768, 32767)]:
        path = tmp_path / f"{depth}.wav"
        write_media(torch.tensor([0.0, -3.0, 3.0])[:, None], path, rate=100, depth=depth)
        assert wavfile.read(path)[1].tolist() == [quiet, low, high]


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.6, 0.99])
@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_truncated_file_is_refused(tmp_path, dtype, keep):
    wavfile.write(tmp_path / "a.wav", 8000, samples(dtype, 2))
    data = (tmp_path / "a.wav").read_bytes()
    body = data.index(b"data") + 8
    frame = 2 * np.dtype(dtype).itemsize
    end = body + int(keep * 101) * frame
    for cut in range(end, end + frame):
        (tmp_path / "cut.wav").write_bytes(data[:cut])
        with pytest.raises(MediaError, match="a whole WAV file, found a file that cannot be decoded"):
            read_audio(tmp_path / "cut.wav")


def test_header_alone_and_no_samples(tmp_path):
    wavfile.write(tmp_path / "a.wav", 8000, np.zeros(0, np.int16))
    with pytest.raises(MediaError, match="at least one sample"):
        read_audio(tmp_path / "a.wav")
    (tmp_path / "b.wav").write_bytes((tmp_path / "a.wav").read_bytes()[:20])
    with pytest.raises(MediaError, match="cannot be decoded"):
        read_audio(tmp_path / "b.wav")


def test_further_chunks_do_no_harm(tmp_path):
    original = samples("int16", 1)
    wavfile.write(tmp_path / "a.wav", 8000, original)
    (tmp_path / "a.wav").write_bytes((tmp_path / "a.wav").read_bytes() + b"abcd\x03\x00\x00\x00xyz\x00")
    assert read_audio(tmp_path / "a.wav").signal.shape == (101, 1)


@pytest.mark.parametrize("options", [{"depth": "int8"}, {"depth": "complex64"}, {"rate": 0.5}, {"rate": 44100.5}])
def test_what_a_wav_file_cannot_hold(tmp_path, options):
    with pytest.raises(MediaError):
        write_media(torch.zeros(4, 1), tmp_path / "a.wav", **{"rate": 8000, **options})
    with pytest.raises(MediaError):
        write_media(torch.full((4, 1), torch.nan), tmp_path / "a.wav", rate=8000)
    assert not list(tmp_path.iterdir())
