"""``coordnet data``: what it cuts, that benches read it like the raw folder, and its checksums."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import wavfile

from coordnet.bench import signals as cubes
from coordnet.media import read_image, write_media
from tests.helpers import refused


@pytest.fixture
def raw(raw_data, tmp_path):
    """A copy of the raw folder that a test may change."""
    return shutil.copytree(raw_data, tmp_path / "in")


@pytest.fixture(scope="module")
def raw_data(tmp_path_factory):
    """A picture larger than the crop, one smaller, a sound, and a page about them."""
    folder = tmp_path_factory.mktemp("raw") / "in"
    for part in ("kodak", "audio"):
        (folder / part).mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, shape in {"a": (40, 52, 3), "b": (10, 30, 3)}.items():
        Image.fromarray(rng.integers(0, 256, shape).astype(np.uint8)).save(folder / "kodak" / f"{name}.png")
    sound = rng.integers(-9, 9, cubes.SOUND + 5).astype(np.int16)
    wavfile.write(folder / "audio" / "bach.wav", 8000, sound)
    (folder / "README.md").write_text("what this is")
    return folder


def prepared(run, raw, *options):
    return run("data", "--from", raw, "--out", "out", "--crop", 24, *options)


@pytest.mark.slow
def test_benches_read_a_prepared_folder_as_the_raw_one(run, raw, tmp_path):
    (raw / "video").mkdir()
    clip = torch.rand(9, 300, 40, 3, generator=torch.Generator().manual_seed(0))
    write_media(clip, raw / "video" / "c.mp4", rate=10)
    status, printed, err = prepared(run, raw, "--json")
    assert (status, err) == (0, "")
    record = json.loads(printed)
    assert (record["picture"], record["clip"], record["sound"]) == (2, 1, 1)
    assert record["left_out"] == ["README.md"]
    assert set(record["files"]) == {"kodak/a.png", "kodak/b.png", "video/c.npy", "audio/bach.wav"}
    out = tmp_path / "out"
    for raw_path, path in ((raw / "kodak" / name, out / "kodak" / name) for name in ("a.png", "b.png")):
        assert torch.equal(cubes.crop(path), cubes.crop(raw_path, 24))
        assert read_image(path).depth == "uint8"
    assert cubes.crop(out / "kodak" / "a.png").shape == (24, 24, 3)
    assert torch.equal(cubes.crop(out / "kodak" / "a.png"), read_image(raw / "kodak" / "a.png").signal[8:32, 14:38])
    finder = cubes.Finder(("clip",), cubes.CLIPS, sizes=(cubes.CUBE, 64))
    (whole, _), (clip, part) = (finder.find(folder) for folder in (raw, out))
    assert (whole.name, clip.name) == ("c.mp4", "c.npy")
    cube = whole.load()
    assert cube.shape == (9, 128, 128, 3)
    assert torch.equal(clip.load(), cube)
    assert torch.equal(part.load(), cubes.center(cube, 64))
    sound = out / "audio" / "bach.wav"
    assert torch.equal(cubes.sound(sound), cubes.sound(raw / "audio" / "bach.wav"))


def test_checksums_are_sha256sum_s_own(run, raw, tmp_path):
    assert prepared(run, raw, "--quiet") == (0, "", "")
    out = tmp_path / "out"
    lines = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines())
    assert lines["kodak/a.png"] == hashlib.sha256((out / "kodak" / "a.png").read_bytes()).hexdigest()
    assert set(lines) == {p.relative_to(out).as_posix() for p in out.glob("*/*")}


def test_a_second_run_does_not_take_what_the_first_prepared(run, raw):
    def prepare(*options):
        return run("data", "--from", raw, "--out", raw / "prepared", "--json", *options)

    first, second = prepare(), prepare("--force")
    assert json.loads(first[1])["files"] == json.loads(second[1])["files"]
    assert prepare()[0] == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "nowhere", "--out", "out"], "nowhere"),
        (["--from", "in"], "--out"),
        ([], "--from"),
        (["--from", "in", "--out", "in"], "the same"),
        (["--from", "in/empty", "--out", "out"], "found none in 0 files"),
        (["--from", "in", "--out", "out", "--crop", "0"], "crop"),
        (["--from", "in/twins", "--out", "out"], "becomes a.png too"),
        (["--from", "in/broken", "--out", "out"], "bad.png"),
    ],
)
def test_bad_options_give_one_line_and_write_nothing(run, raw, tmp_path, options, said):
    for part in ("empty", "twins", "broken"):
        (raw / part).mkdir()
    picture = Image.open(raw / "kodak" / "a.png")
    picture.save(raw / "twins" / "a.png")
    picture.save(raw / "twins" / "a.jpg")
    (raw / "broken" / "bad.png").write_bytes((raw / "kodak" / "a.png").read_bytes()[:300])
    assert said in refused(run("data", *options, "--quiet"), tmp_path)


@pytest.mark.slow
def test_stand_ins_are_cut_as_their_page_says(data):
    assert cubes.cube(data / "video" / "carphone_pristine.mp4").shape == (120, 128, 128, 3)
    assert cubes.crop(data / "kodak" / "kodim01.png").shape == (480, 480, 3)
