"""One file for a result, and standard input and output."""

import contextlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from coordnet.cli import main
from coordnet.cli.common import Output
from coordnet.cli.folders import results
from coordnet.media import read_media, write_media
from tests.helpers import synthetic_photograph


@pytest.fixture(autouse=True)
def inputs(tmp_path):
    """A picture and a mask of it."""
    write_media(synthetic_photograph(20, 24), tmp_path / "photo.png")
    known = np.ones((20, 24), np.uint8)
    known[8:10, 5:12] = 0
    Image.fromarray(known * 255).save(tmp_path / "mask.png")


FILL = ("inpaint", "photo.png", "--mask", "mask.png", "--prior", "smooth")


def names():
    return {str(path) for path in Path().rglob("*") if path.is_file()} - {"photo.png", "mask.png"}


@pytest.mark.parametrize("option", ["--out", "-o"])
def test_a_file_is_written_alone(option, run):
    status, out, _ = run(*FILL, option, "made/filled.png")
    assert status == 0
    assert names() == {"made/filled.png"}
    assert "written to made/filled.png" in out
    before, after = (np.asarray(Image.open(name)) for name in ("photo.png", "made/filled.png"))
    known = np.asarray(Image.open("mask.png")) > 0
    assert np.array_equal(before[known], after[known])
    assert run(*FILL, "--out", "folder", "--quiet")[0] == 0
    assert np.array_equal(after, np.asarray(Image.open("folder/restored.png")))


@pytest.mark.parametrize(
    "command", [("denoise",), ("upscale", "--prior", "none"), ("reconstruct", "--prior", "smooth")]
)
@pytest.mark.parametrize("suffix", [".tiff", ".npy"])
def test_the_suffix_decides_the_format(command, suffix, run):
    name, *options = command
    if name == "upscale" and suffix == ".npy":
        options += ["--factor", 2]
    assert run(name, "photo.png", *options, "-o", f"made{suffix}", "--quiet")[0] == 0
    assert names() == {f"made{suffix}"}
    assert read_media(f"made{suffix}").signal.shape[-1] == 3


def test_a_report_is_a_folder_beside_it(run):
    assert run(*FILL, "-o", "filled.png", "--report", "how", "--quiet")[0] == 0
    assert names() == {"filled.png", "how/figure.png", "how/record.json", "how/model.safetensors"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*FILL, "-o", "made.wav"), "made.wav: expected a signal of 1 axis to write this audio"),
        ((*FILL, "-o", "made.tga"), "--out made.tga: expected a suffix that is written (.png"),
        ((*FILL, "-o", "made.jpg"), "--out made.jpg: expected a suffix that is written (.png"),
        ((*FILL, "-o", "photo.png", "--force"), "--out photo.png: expected another file than the input"),
        ((*FILL, "-o", "mask.png"), "--out mask.png: expected no file of this name, found one (--force replaces)"),
        ((*FILL, "-o", "a.png", "--model"), "--model: expected --report FOLDER"),
        ((*FILL, "-o", "a.png", "--uncertainty"), "--uncertainty: expected --report FOLDER"),
        ((*FILL, "--report", "how"), "--report how: expected --out with the name of a file"),
        (("denoise", "photo.png", "mask.png", "-o", "a.png"), "expected a folder for the results of several files"),
        ((*FILL, "-o", "-", "--json"), "--json: expected another --out than standard output"),
    ],
)
def test_what_one_file_cannot_hold_is_refused(arguments, message, run):
    status, out, err = run(*arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert names() == set()


def test_a_clear_picture_is_no_animation(run):
    clear = np.dstack([np.asarray(Image.open("photo.png")), np.full((20, 24), 9, np.uint8)])
    Image.fromarray(clear).save("clear.png")
    status, _, err = run("denoise", "clear.png", "-o", "clear.gif")
    assert status == 2 and "clear.gif: expected 1 or 3 channels in a clip (.tiff and .npy hold others), found 4" in err
    Path("clear.png").unlink()
    assert names() == set()


@pytest.mark.parametrize("force", [False, True])
def test_of_two_runs_into_one_file_only_a_forced_one_replaces(force, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [results(Output(out=Path("made.npy"), force=force), "denoise", "photo") for _ in range(2)]
    for run, text in zip(runs, "ab", strict=True):
        (run.__enter__()[0] / "restored.npy").write_text(text)
    runs[0].__exit__(None, None, None)
    with contextlib.nullcontext() if force else pytest.raises(ValueError, match="^--out made.npy: .* another run has"):
        runs[1].__exit__(None, None, None)
    assert Path("made.npy").read_text() == ("b" if force else "a")
    assert names() == {"made.npy"}


def test_an_existing_file_is_replaced_only_when_forced(run):
    Path("filled.png").write_bytes(b"mine")
    assert run(*FILL, "-o", "filled.png")[0] == 2
    assert Path("filled.png").read_bytes() == b"mine"
    assert run(*FILL, "-o", "filled.png", "--force", "--quiet")[0] == 0
    assert read_media("filled.png").signal.shape == (20, 24, 3)


def test_h_is_help(run):
    assert run("inpaint", "-h") == run("inpaint", "--help")


@pytest.mark.parametrize("suffix", [".png", ".npy", ".wav", ".csv"])
def test_standard_input_and_output(suffix, monkeypatch, tmp_path):
    wave = np.sin(np.arange(400) / 9)[:, None]
    if suffix == ".png":
        write_media(read_media(tmp_path / "photo.png"), tmp_path / "in.png")
    elif suffix == ".npy":
        np.save(tmp_path / "in.npy", wave[:20] * wave[:24, 0])
    elif suffix == ".wav":
        write_media(torch.from_numpy(wave).float() * 0.5, tmp_path / "in.wav")
    elif suffix == ".csv":
        np.savetxt(tmp_path / "in.csv", wave)
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    with source.open() as given, target.open("w") as written:
        for name, stream in (("stdin", given), ("stdout", written)):
            monkeypatch.setattr(sys, name, stream)
        monkeypatch.setattr(sys, "argv", ["coordnet", "denoise", "-", "-o", "-"])
        assert main() == 0
    before, after = read_media(source), read_media(target)
    assert after.signal.shape == before.signal.shape
    assert after.depth == before.depth


def test_errors_name_standard_input(monkeypatch, tmp_path, capsys):
    (tmp_path / "words.txt").write_text("no numbers\n")
    with (tmp_path / "words.txt").open() as given:
        monkeypatch.setattr(sys, "stdin", given)
        monkeypatch.setattr(sys, "argv", ["coordnet", "denoise", "-", "-o", "-"])
        assert main() == 2
    assert capsys.readouterr().err.startswith("coordnet: standard input: expected rows of numbers")
