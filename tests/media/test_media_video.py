"""Clips: frames, rates and sizes there and back."""

import math

import av
import numpy as np
import pytest
import torch
from PIL import Image

from coordnet.media import MediaError, read_media, read_video, write_media
from coordnet.media.files import DECODED, NEEDED


def moving(frames=9, height=24, width=32):
    """Return a smooth pattern of grey with a tint, drifting to the right."""
    t, rows, columns = np.mgrid[:frames, :height, :width]
    wave = 0.5 + 0.3 * np.sin((columns - t) / 4) * np.cos(rows / 5)
    return torch.from_numpy(np.stack([wave, wave * 0.9, wave * 0.8 + 0.1], -1)).float()


def numbered(path, frames=10):
    """Write a clip, as a video or a GIF, whose frame i is of grey level 20 i."""
    levels = np.arange(frames, dtype=np.uint8) * 20
    if path.suffix == ".gif":
        first, *others = [Image.new("L", (8, 6), int(level)) for level in levels]
        first.save(path, save_all=True, append_images=others, duration=100)
    else:
        write_media(torch.from_numpy(levels / 255)[:, None, None, None].expand(frames, 6, 8, 1), path, rate=10)
    return levels


def levels(media):
    return (media.signal[:, 0, 0, 0] * 255 / 20).round().int().tolist()


def psnr(a, b):
    return -10 * math.log10(((a - b) ** 2).mean())


@pytest.mark.parametrize("size", [(24, 32), (23, 31), (24, 31), (5, 1), (2, 2)])
@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".avi"])
def test_round_trip_of_any_size(tmp_path, size, suffix):
    clip = moving(9, *size)
    write_media(clip, tmp_path / f"a{suffix}", rate=12.5)
    media = read_video(tmp_path / f"a{suffix}")
    assert (media.kind, media.name, media.depth) == ("video", "a", "uint8")
    assert media.signal.shape == clip.shape
    assert media.rate == pytest.approx(12.5)
    assert psnr(media.signal, clip) > 34


@pytest.mark.parametrize("rate", [1, 23.976, 30000 / 1001, 25, 50])
def test_rate_is_kept(tmp_path, rate):
    write_media(moving(12), tmp_path / "a.mp4", rate=rate)
    assert read_video(tmp_path / "a.mp4").rate == pytest.approx(rate, rel=1e-4)


@pytest.mark.parametrize("suffix", [".gif", ".mkv"])
@pytest.mark.parametrize("frames", ["0:4", "3:", ":", "-3:", ":-8", "-6:-2", "::3", "1:9:2", "7:100", "-100:2"])
def test_frames_as_python_slices(tmp_path, frames, suffix):
    clip = numbered(tmp_path / f"a{suffix}")
    media = read_video(tmp_path / f"a{suffix}", frames=frames)
    start, stop, step = ([int(part) if part else None for part in frames.split(":")] + [None])[:3]
    assert levels(media) == list(range(len(clip)))[start:stop:step]
    assert media.rate == pytest.approx(10 / (step or 1))


@pytest.mark.parametrize("frames", ["5:5", "8:2", "20:", "-2:-5"])
def test_no_frames_selected(tmp_path, frames):
    numbered(tmp_path / "a.gif")
    with pytest.raises(MediaError, match="at least one frame"):
        read_video(tmp_path / "a.gif", frames=frames)


@pytest.mark.parametrize("frames", ["5", "a:b", "::0", "::-1", "1:2:3:4", "", "1.5:2"])
def test_frames_that_are_no_slice(tmp_path, frames):
    numbered(tmp_path / "a.gif")
    with pytest.raises(MediaError, match="`frames`: expected"):
        read_video(tmp_path / "a.gif", frames=frames)


def test_frames_then_size_then_crop(tmp_path):
    clip = moving(9, 40, 60)
    write_media(clip, tmp_path / "a.mkv", rate=25)
    media = read_video(tmp_path / "a.mkv", frames="2:5", size="20x30", crop="10x12+0+18")
    assert media.signal.shape == (3, 10, 12, 3)
    pooled = torch.nn.functional.avg_pool2d(clip.movedim(-1, 1), 2).movedim(1, -1)
    assert psnr(media.signal, pooled[2:5, :10, 18:30]) > 30


def test_decoding_has_a_limit_though_the_result_is_small(tmp_path):
    write_media(moving(9, 32, 32), tmp_path / "a.mkv", rate=25)
    frame = 32 * 32 * 3
    memory = NEEDED * 4 * frame // DECODED  # room for four frames
    with pytest.raises(MediaError, match=r"a\.mkv: expected at most .* numbers in the frames to decode .*--frames"):
        read_video(tmp_path / "a.mkv", size="2x2", memory=memory)
    assert len(read_video(tmp_path / "a.mkv", size="2x2", frames="3:7", memory=memory).signal) == 4


def test_single_frame_gif_is_an_image(tmp_path):
    numbered(tmp_path / "one.gif", frames=1)
    numbered(tmp_path / "two.gif", frames=2)
    assert read_media(tmp_path / "one.gif").kind == "image"
    assert read_media(tmp_path / "two.gif").kind == "video"


@pytest.mark.parametrize("suffix", ["webp", "png"])
def test_animated_pictures_are_videos(tmp_path, suffix):
    clip = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), np.uint8)
    first, *others = [Image.fromarray(frame) for frame in clip]
    options = {"lossless": True} if suffix == "webp" else {}
    first.save(tmp_path / f"a.{suffix}", save_all=True, append_images=others, duration=50, **options)
    media = read_media(tmp_path / f"a.{suffix}")
    assert media.kind == "video"
    assert media.rate == pytest.approx(20)
    np.testing.assert_array_equal((media.signal * 255).round().byte().numpy(), clip)


def test_rotation_of_phones_is_applied(tmp_path):
    clip = torch.zeros(3, 24, 32, 1)
    clip[:, :, :16] = 1.0
    path = tmp_path / "a.mp4"
    write_media(clip, path, rate=25)
    data = path.read_bytes()
    header = data.index(b"tkhd")
    ones = [1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30]
    clockwise = [0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30]  # as a phone held upright writes it
    before, after = (np.array(matrix, ">i4").tobytes() for matrix in (ones, clockwise))
    where = data.index(before, header)
    path.write_bytes(data[:where] + after + data[where + len(after) :])
    signal = read_video(path).signal
    assert signal.shape == (3, 32, 24, 3)
    assert signal[:, :12].min() > 0.9 > 0.1 > signal[:, 20:].max()


def test_truncated_video_gives_the_frames_before_the_break(tmp_path):
    clip = torch.rand(20, 32, 32, 3, generator=torch.Generator().manual_seed(0))
    write_media(clip, tmp_path / "a.mp4", rate=25)
    data = (tmp_path / "a.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(data[: len(data) * 3 // 4])
    found = read_video(tmp_path / "cut.mp4").signal
    assert 0 < len(found) < 20
    torch.testing.assert_close(found[0], read_video(tmp_path / "a.mp4").signal[0])
    (tmp_path / "head.mp4").write_bytes(data[:200])
    with pytest.raises(MediaError):
        read_video(tmp_path / "head.mp4")


@pytest.mark.parametrize("channels", [1, 3])
def test_an_animation_gives_one_of_its_rate(tmp_path, channels):
    clip = (torch.arange(3)[:, None, None, None] * 0.3 + 0.1).expand(3, 8, 9, channels)
    write_media(clip, tmp_path / "a.gif", rate=20)
    media = read_media(tmp_path / "a.gif")
    assert (media.kind, media.rate, media.lossless_suffix) == ("video", 20, ".gif")
    assert torch.allclose(media.signal, clip.expand(3, 8, 9, 3), atol=2 / 255)


def test_a_gif_of_one_frame_comes_back_as_one(tmp_path):
    image = torch.zeros(16, 16, 3)
    image[4:9, 5:11] = torch.tensor([1.0, 0.0, 0.2])  # two colors need no quantization
    write_media(image, tmp_path / "a.gif")
    media = read_media(tmp_path / "a.gif")
    assert (media.kind, media.lossless_suffix) == ("image", ".gif")
    torch.testing.assert_close(media.signal, image)


def test_truncated_gif_is_refused(tmp_path):
    numbered(tmp_path / "a.gif")
    data = (tmp_path / "a.gif").read_bytes()
    (tmp_path / "cut.gif").write_bytes(data[: len(data) // 2])
    with pytest.raises(MediaError, match="cannot be decoded"):
        read_video(tmp_path / "cut.gif")


def test_sound_alone_is_no_video(tmp_path):
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("aac", 44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 4096), np.float32), format="fltp", layout="mono")
        frame.rate = 44100
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    with pytest.raises(MediaError, match="without a video stream"):
        read_video(tmp_path / "a.mp4")


@pytest.mark.parametrize(
    ("name", "shape", "rate"),
    [
        ("a.mp4", (3, 4, 4, 4), 25),
        ("a.mp4", (0, 4, 4, 3), 25),
        ("a.mkv", (3, 4, 4, 3), 1200),
        ("a.mp4", (3, 4, 4, 3), 0),
        ("a.webp", (3, 4, 4, 3), 25),
    ],
)
def test_what_a_video_cannot_hold(tmp_path, name, shape, rate):
    with pytest.raises(MediaError):
        write_media(torch.zeros(shape), tmp_path / name, rate=rate)
    assert not list(tmp_path.iterdir())


def test_video_of_nan_is_refused_and_leaves_nothing(tmp_path):
    clip = moving()
    clip[5, 0, 0, 0] = torch.nan
    with pytest.raises(MediaError, match="NaN"):
        write_media(clip, tmp_path / "a.mp4")
    assert not list(tmp_path.iterdir())
