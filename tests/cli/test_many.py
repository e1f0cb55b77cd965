import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from coordnet.cli import many as module
from coordnet.cli.common import Many
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
@pytest.mark.parametrize("threads", [1, 2])
def test_one_that_fails_is_reported_at_the_end_and_stops_no_other(run, folder, monkeypatch, threads):
    monkeypatch.setattr(module, "_executor", lambda many: ThreadPoolExecutor(many.workers))
    status, out, err = run("denoise", folder, "--sigma", 0.05, "--workers", threads, "--out", "out")
    assert status == 2
    assert [line for line in err.splitlines() if line.startswith("coordnet: ")] == [err.splitlines()[-1]]
    assert "2.png: " in err.splitlines()[-1]
    assert "2 of 3 written to" in out
    for k in (1, 3):
        assert read_media(f"out/{k}/reconstruction.png").grid == (20, 16 + k)
        assert f"{k}.png: expected PSNR" in out


def test_a_second_run_does_what_is_left(run, folder):
    command = ("upscale", folder / "1.png", folder / "2.png", folder / "3.png", "--out", "out", "--quiet")
    assert run(*command)[0] == 2
    before = os.stat("out/1/record.json").st_mtime_ns
    write_media(synthetic_photograph(9, 9), folder / "new.png")
    (folder / "new.png").replace(folder / "2.png")
    status, out, _ = run(*command[:-1])
    assert status == 0
    assert "1 of 1 written to" in out
    assert "2 done before" in out
    assert os.stat("out/1/record.json").st_mtime_ns == before
    assert read_media("out/2/reconstruction.png").grid == (18, 18)
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
    assert "mask of the name 1" in err


def test_files_of_one_name_go_to_places_of_their_own(tmp_path):
    files = ["a/x.png", "b/x.png", "b/x.tif", "c/x.png", "y.png"]
    places = module._places(files, tmp_path)
    assert [places[file].name for file in files] == ["x", "x-png", "x-tif", "x-2", "y"]


def test_an_empty_folder_is_refused(run, tmp_path):
    (tmp_path / "empty").mkdir()
    status, _, err = run("demosaic", "empty")
    assert (status, err.count("\n")) == (2, 1)
    assert "empty" in err


def test_local_processes_do_the_work():
    assert dict(module._outcomes({"a": partial(str, "a")}, Many(workers=2))) == {"a": "a"}


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_worker_that_dies_takes_no_other_with_it(monkeypatch):
    monkeypatch.setattr(module, "get_context", lambda _: get_context("fork"))  # which imports nothing anew
    jobs = {"deadly": partial(signal.raise_signal, signal.SIGKILL), "b": partial(str, "b")}
    assert dict(module._outcomes(jobs, Many(workers=2))) == {"b": "b", "deadly": module.DIED}


def test_the_workers_of_a_dask_cluster_do_the_work():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        jobs = {name: partial(str, name) for name in "abc"}
        assert dict(module._outcomes(jobs, Many(dask=cluster.scheduler_address))) == {n: n for n in "abc"}
