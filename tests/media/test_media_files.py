"""Files that appear whole or not at all, and files that are not what they seem."""

import os
from pathlib import Path

import numpy as np
import pytest
import skimage
import torch
from PIL import Image

from coordnet.media import SAMPLES, MediaError, atomic_path, read_mask, read_media, write_media

DATA = Path(__file__).parents[3] / "shared" / "data"


def photo(path):
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)).save(path)
    return path


@pytest.mark.parametrize("interruption", [RuntimeError, KeyboardInterrupt, MediaError])
@pytest.mark.parametrize("existing", [False, True])
def test_interrupted_write_leaves_what_was_there(tmp_path, interruption, existing):
    target = tmp_path / "record.json"
    if existing:
        target.write_text("before")
    with pytest.raises(interruption), atomic_path(target, force=True) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".json"
        temporary.write_text("half of")
        raise interruption
    assert [path.name for path in tmp_path.iterdir()] == (["record.json"] if existing else [])
    assert not existing or target.read_text() == "before"


def test_finished_write_replaces_only_by_force(tmp_path):
    target = tmp_path / "record.json"
    for text, force in [("one", False), ("two", True)]:
        with atomic_path(target, force=force) as temporary:
            temporary.write_text(text)
            assert not target.exists() or target.read_text() == "one"
        assert target.read_text() == text
    with pytest.raises(MediaError, match="no file of this name, found one"), atomic_path(target):
        pytest.fail("entered")
    assert os.listdir(tmp_path) == ["record.json"]
    assert target.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real.json").write_text("one")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    with atomic_path(tmp_path / "link.json", force=True) as temporary:
        temporary.write_text("two")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "two"


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "folder.png", tmp_path / "none" / "a.png", tmp_path / "file" / "a.png"):
        with pytest.raises(MediaError, match="folder|Not a directory"):
            write_media(torch.zeros(2, 2, 3), path)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.png"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write and read everything")
def test_permissions(tmp_path):
    locked = photo(tmp_path / "locked.png")
    locked.chmod(0)
    with pytest.raises(MediaError, match="Permission denied"):
        read_media(locked)
    tmp_path.chmod(0o500)
    with pytest.raises(MediaError, match="Permission denied"):
        write_media(torch.zeros(2, 2, 3), tmp_path / "a.png")
    tmp_path.chmod(0o700)


def test_refused_by_the_system(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(MediaError, match=r"a\.png: .*Permission denied"):
        write_media(torch.zeros(2, 2, 3), tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".png", ".tif", ".npy", ".wav", ".csv", ".mp4"])
def test_every_writer_leaves_no_other_file_and_replaces_none(tmp_path, suffix):
    axes = {".wav": 1, ".csv": 1, ".mp4": 3}.get(suffix, 2)
    signal = torch.rand(*([8] * axes), 3, generator=torch.Generator().manual_seed(0))
    path = tmp_path / f"a{suffix}"
    write_media(signal, path)
    before = path.read_bytes()
    with pytest.raises(MediaError, match="no file of this name, found one"):
        write_media(signal * 0, path)
    assert path.read_bytes() == before
    assert read_media(path).signal.shape == signal.shape
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_wrong_axes_and_unknown_suffix(tmp_path):
    for name in ("a.png", "a.mp4", "a.wav", "a.csv"):
        with pytest.raises(MediaError, match="a signal of . ax.s to write"):
            write_media(torch.zeros(2, 2, 2, 2, 1), tmp_path / name)
    with pytest.raises(MediaError, match="suffix that can be written"):
        write_media(torch.zeros(2, 2, 1), tmp_path / "a.xyz")


def test_scale_of_sound_stays_apart(tmp_path):
    write_media(torch.tensor([[-0.5], [0.5]]), tmp_path / "a.wav")
    sound = read_media(tmp_path / "a.wav")
    write_media(sound, tmp_path / "b.npy")
    assert np.load(tmp_path / "b.npy").ravel().tolist() == [-0.5, 0.5]


def test_tensors_of_any_precision_and_with_gradients(tmp_path):
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        signal = torch.full((2, 2, 1), 0.5, dtype=dtype, requires_grad=True)
        write_media(signal, tmp_path / f"{dtype}.npy")
        assert (np.load(tmp_path / f"{dtype}.npy") == 0.5).all()


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "bmp", "tif", "gif", "ppm", "tga", "jp2"])
@pytest.mark.parametrize("keep", [0.05, 0.5, 0.9])
def test_truncated_pictures(tmp_path, suffix, keep):
    data = photo(tmp_path / f"whole.{suffix}").read_bytes()
    assert read_media(tmp_path / f"whole.{suffix}").kind == "image"
    (tmp_path / f"cut.{suffix}").write_bytes(data[: int(len(data) * keep)])
    _refused(tmp_path / f"cut.{suffix}", "cannot be decoded")


@pytest.mark.parametrize("kept", [60, 100])
def test_a_cut_picture_is_called_incomplete_without_the_words_of_its_decoder(tmp_path, kept):
    (tmp_path / "cut.png").write_bytes(photo(tmp_path / "whole.png").read_bytes()[:kept])
    _refused(tmp_path / "cut.png", r"found a file that cannot be decoded \(it is damaged or incomplete\)")


@pytest.mark.parametrize("suffix", [".png", ".tif"])
@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_truncated_deep_pictures(tmp_path, suffix, keep):
    path = tmp_path / f"whole{suffix}"
    write_media(torch.rand(40, 50, 3), path, depth="uint16")
    (tmp_path / f"cut{suffix}").write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    _refused(tmp_path / f"cut{suffix}", "cannot be decoded")


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif", ".webp", ".gif", ".mp4", ".mkv", ".wav", ".npy"])
def test_what_is_not_what_it_says(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_text("Dear diary,\ntoday I was renamed.\n")
    _refused(path, "cannot be decoded")
    path.write_bytes(b"")
    _refused(path, "empty file")
    path.unlink()
    _refused(path, "no file of this name")
    path.mkdir()
    _refused(path, "found a folder")


def test_other_refusals(tmp_path):
    (tmp_path / "a.xyz").write_text("text")
    (tmp_path / "noext").write_text("text")
    _refused(tmp_path / "a.xyz", "known suffix .* found '.xyz'")
    _refused(tmp_path / "noext", "known suffix")
    _refused("astronot", "did you mean astronaut")
    _refused("zzz", "such as astronaut")
    _refused("bad\0name.png", "null byte")


def _refused(path, message):
    with pytest.raises(MediaError, match=message) as caught:
        read_media(path)
    assert str(caught.value).startswith(f"{path}: expected")
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 600


def test_options_that_do_not_apply(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(9))
    picture = photo(tmp_path / "a.png")
    for path, option in [
        (tmp_path / "a.npy", {"row": 1}),
        (tmp_path / "a.npy", {"size": "4x4"}),
        (picture, {"frames": "0:1"}),
    ]:
        with pytest.raises(MediaError, match=f"no option {next(iter(option))} for this"):
            read_media(path, **option)


def test_upper_case_suffix_and_wrong_but_known_content(tmp_path):
    photo(tmp_path / "a.jpg")
    os.rename(tmp_path / "a.jpg", tmp_path / "A.PNG")
    media = read_media(tmp_path / "A.PNG")
    assert media.name == "A"


def test_samples_are_read_without_the_network(monkeypatch):
    import socket

    monkeypatch.setattr(socket, "socket", None)
    for name in SAMPLES:
        media = read_media(name)
        height, width = media.grid
        assert (media.kind, media.name) == ("image", name)
        assert f"{height}×{width}" in SAMPLES[name][1]
    expected = torch.from_numpy(skimage.data.astronaut()) / 255
    torch.testing.assert_close(read_media("astronaut").signal, expected)


def test_a_file_comes_before_a_sample_and_a_folder_after(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("camera").mkdir()
    assert read_media("camera").signal.shape == (512, 512, 1)
    Path("coins").write_text("a file")
    _refused("coins", "known suffix")


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no measuring data at {DATA}")
def test_measuring_data():
    photograph = read_media(DATA / "kodak" / "kodim05.png", crop="480x480")
    assert (photograph.name, photograph.grid) == ("kodim05", (480, 480))
    clip = read_media(DATA / "video" / "carphone_pristine.mp4", frames="-4:", crop="128x128")
    assert clip.grid == (4, 128, 128)
    assert clip.rate == pytest.approx(29.97, abs=0.01)
    sound = read_media(DATA / "audio" / "bach.wav")
    assert sound.signal.shape[-1] == 1 and sound.signal.abs().max() <= 1


def test_masks_refuse_damaged_files(tmp_path):
    (tmp_path / "m.png").write_text("no mask")
    with pytest.raises(MediaError, match="cannot be decoded"):
        read_mask(tmp_path / "m.png", (4, 4))
