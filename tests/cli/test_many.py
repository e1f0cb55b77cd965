import json
import os
from pathlib import Path

import numpy as np
import pytest

from coordnet.media import read_media, write_media
from tests.helpers import synthetic_photograph


@pytest.fixture
def folder(tmp_path):
    """A folder of three pictures, one of them broken, and of something that is no signal."""
    folder = tmp_path / "in"
    folder.mkdir()
    for k in (1, 3):
        write_media(synthetic_photograph(20, 16 + k), folder / f"{k}.png")
    (folder / "2.png").write_text("no picture")
    (folder / "notes.txt").write_text("no signal")
    return folder


@pytest.mark.filterwarnings("ignore:`sigma`. .* is used as given")
@pytest.mark.parametrize("workers", [1, 2])
def test_one_that_fails_is_reported_at_the_end_and_stops_no_other(run, folder, forked, workers):
    options = ("--sigma", 0.05, "--prior", "adaptive", "--workers", workers)
    status, out, err = run("denoise", folder, *options, "--out", "out")
    assert status == 2
    assert [line for line in err.splitlines() if line.startswith("coordnet: ")] == [err.splitlines()[-1]]
    assert "2.png: " in err.splitlines()[-1]
    assert "2 of 3 written to" in out
    for k in (1, 3):
        assert read_media(f"out/{k}/restored.png").grid == (20, 16 + k)
        assert f"{k}.png: expected PSNR" in out


def test_figures_and_models_of_several_files_are_drawn_where_asked_for(run, folder):
    (folder / "2.png").unlink()
    cases = {"plain": set(), "--figures": {"figure.png", "model.safetensors"}, "--model": {"model.safetensors"}}
    for option, more in cases.items():
        options = [] if option == "plain" else [option]
        assert run("upscale", folder, "--prior", "none", "--quiet", "--out", option.strip("-"), *options)[0] == 0
        found = {path.name for path in Path(option.strip("-"), "1").iterdir()}
        assert found == {"restored.png", "record.json"} | more


def test_a_second_run_does_what_is_left(run, folder):
    files = (folder / "1.png", folder / "2.png", folder / "3.png")
    command = ("upscale", *files, "--prior", "none", "--out", "out", "--quiet")
    assert run(*command)[0] == 2
    before = os.stat("out/1/record.json").st_mtime_ns
    write_media(synthetic_photograph(9, 9), folder / "new.png")
    (folder / "new.png").replace(folder / "2.png")
    status, out, _ = run(*command[:-1])
    assert status == 0
    assert "1 of 1 written to" in out
    assert "2 done before" in out
    assert os.stat("out/1/record.json").st_mtime_ns == before
    assert read_media("out/2/restored.png").grid == (18, 18)
    assert run(*command, "--force")[0] == 0
    assert os.stat("out/1/record.json").st_mtime_ns > before


def test_several_files_give_what_each_gives_alone(run, folder):
    assert run("reconstruct", folder, "--sample", "full", "--json")[0] == 2
    status, out, _ = run("reconstruct", folder / "3.png", "--sample", "full", "--out", "alone", "--json")
    assert status == 0
    together = json.loads(Path("results/reconstruct/3/record.json").read_text())
    assert together["psnr"] == json.loads(out)["psnr"]


def test_every_file_finds_its_mask_in_a_folder(run, folder, tmp_path):
    (folder / "2.png").unlink()
    (tmp_path / "masks").mkdir()
    for k in (1, 3):
        np.save(tmp_path / "masks" / f"{k}.npy", np.random.default_rng(k).random((20, 16 + k)) < 0.5)
    options = ("--mask", "masks", "--prior", "smooth", "--quiet")
    assert run("inpaint", folder, *options, "--out", "out") == (0, "", "")
    for gone in (tmp_path / "masks" / "1.npy", folder / "3.png"):
        gone.unlink()
    status, _, err = run("inpaint", folder, *options, "--out", "again")
    assert (status, err.count("\n")) == (2, 1)
    assert "1.png: --mask: " in err and "mask of the name 1" in err


UPSCALE = ("upscale", "--prior", "none", "--quiet", "--out", "out")


@pytest.fixture
def two(run, tmp_path):
    """Two pictures in a folder, and the names and bytes of what ``UPSCALE`` made of them."""
    for k in (1, 2):
        (tmp_path / "two").mkdir(exist_ok=True)
        write_media(synthetic_photograph(6, 6 + k), tmp_path / "two" / f"{k}.png")
    assert run(*UPSCALE, "two") == (0, "", "")
    return lambda: {path: path.read_bytes() for path in Path("out").rglob("*.*")}


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (("upscale", "--factor", 3), "another factor"),
        (("upscale", "--seed", 1, "--model"), "another keep_model, seed"),
        (("denoise", "--sigma", 0.1), "the result of upscale on"),
        (("reconstruct", "--sample", "full"), "the result of upscale on"),
    ],
)
def test_results_by_others_are_not_done_before(run, two, command, found):
    before = two()
    status, _, err = run(*command, "--prior", "none" if command[0] == "upscale" else "adaptive", "--out", "out", "two")
    assert (status, err.count("\n"), err.count(f"{found}"), err.count("--force")) == (2, 2, 2, 2)
    assert two() == before


def test_a_file_that_changed_is_not_done_before(run, two, tmp_path):
    before = two()
    write_media(synthetic_photograph(6, 9), tmp_path / "two" / "new.png")
    (tmp_path / "two" / "new.png").replace(tmp_path / "two" / "2.png")
    status, _, err = run(*UPSCALE, "two")
    assert (status, err.count("\n")) == (2, 1)
    assert "2.png: --out" in err
    assert "from before a file changed (--force" in err
    assert two() == before
    assert run(*UPSCALE, "two", "--force") == (0, "", "")
    assert read_media("out/2/restored.png").grid == (12, 18)


def test_a_mask_that_changed_makes_its_results_others(run, two, tmp_path):
    np.save("m.npy", np.eye(6, 7) < 1)
    command = ("inpaint", "two/1.png", "two/1.png", "two", "--mask", "m.npy", "--prior", "smooth", "--out", "filled")
    (tmp_path / "two" / "2.png").unlink()
    assert run(*command, "--quiet") == (0, "", "")
    assert "0 of 0 written" in run(*command)[1]
    np.save("m.npy", np.eye(6, 7, 1) < 1)
    os.utime("m.npy", (1, 1))
    assert run(*command)[0] == 2


def test_the_place_of_results_depends_on_their_own_file_alone(run, two, tmp_path):
    """A second file of the name is refused before and after the first is done, whatever their order."""
    before = two()
    write_media(synthetic_photograph(6, 7), tmp_path / "two" / "1.tiff")
    (tmp_path / "other").mkdir()
    write_media(synthetic_photograph(6, 5), tmp_path / "other" / "1.png")
    for signals, name in (
        (["two"], "1.tiff"),
        (["other/1.png", "two/1.png"], "other/1.png"),
        (["other"], "other/1.png"),
    ):
        for order in (signals, signals[::-1]):
            status, _, err = run(*UPSCALE, *order)
            assert (status, err.count("\n")) == (2, 1)
            assert f"{name}: " in err
            assert two() == before
    status, _, err = run(*UPSCALE[:-1], "fresh", "other", "two")
    assert (status, [p.name for p in Path("fresh").iterdir()]) == (2, ["2"])
    assert [f"{name}: expected files of different names, found 3" in err for name in ("1.png", "1.tiff")] == [
        True,
        True,
    ]


def test_arrays_of_one_file_have_results_of_their_own(run):
    np.savez("x.npz", a=np.eye(6), b=np.ones((5, 5)))
    assert run(*UPSCALE, "x.npz:a", "x.npz:b") == (0, "", "")
    assert sorted(path.name for path in Path("out").iterdir()) == ["x-a", "x-b"]


def test_files_of_others_are_replaced_only_when_forced(run, two, tmp_path):
    (tmp_path / "o" / "1").mkdir(parents=True)
    (tmp_path / "o" / "1" / "figure.png").write_text("mine")
    status, _, err = run(*UPSCALE[:-1], "o", "two")
    assert (status, err.count("\n")) == (2, 1)
    assert "1.png: --out" in err
    assert (tmp_path / "o" / "1" / "figure.png").read_text() == "mine"
    assert (tmp_path / "o" / "2" / "record.json").exists()


def test_an_empty_folder_is_refused(run, tmp_path):
    (tmp_path / "empty").mkdir()
    status, _, err = run("demosaic", "empty")
    assert (status, err.count("\n")) == (2, 1)
    assert "empty" in err
