import os
import signal
from pathlib import Path

import numpy as np
import pytest

from coordnet.cli.common import Output
from coordnet.cli.folders import RESULTS, UNFINISHED, results, staging_folder
from coordnet.media import write_media
from tests.helpers import synthetic_photograph


def killed(final):
    """Kill a process that writes results into a folder."""
    process = os.fork()
    if process == 0:
        with results(Output(out=final), "reconstruct", "a") as (staging, _):
            (staging / "part.npy").write_text("half of it")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(process, 0)


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("again", ["out", "another"])
def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path, exists, again):
    if exists:
        (tmp_path / "out").mkdir()
        again = "out"
    killed(tmp_path / "out")
    assert [path.name[: len(UNFINISHED)] for path in tmp_path.rglob(UNFINISHED + "*")] == [UNFINISHED]
    with results(Output(out=tmp_path / again), "reconstruct", "a") as (staging, _):
        assert [path for path in tmp_path.rglob(UNFINISHED + "*")] == [staging]
    assert not list(tmp_path.rglob(UNFINISHED + "*"))


def test_what_a_living_run_writes_stays(tmp_path):
    (tmp_path / ".coordnet-notes").mkdir()
    with staging_folder(tmp_path / "a") as first:
        (first / "part").touch()
        with staging_folder(tmp_path / "b") as second:
            assert (first / "part").exists()
            assert second.exists()
    assert [path.name for path in tmp_path.iterdir()] == [".coordnet-notes"]


def test_the_results_of_an_earlier_run_go_with_its_record(tmp_path):
    for files in (("record.json", "uncertainty.npy", "reconstruction.zarr/0"), ("record.json", "figure.png")):
        with results(Output(out=tmp_path / "out", force=True), "inpaint", "a") as (staging, _):
            for file in files:
                (staging / file).parent.mkdir(exist_ok=True)
                (staging / file).write_text(str(len(files)))
        (tmp_path / "out" / "mine.txt").touch()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"record.json", "figure.png", "mine.txt"}
    assert (tmp_path / "out" / "record.json").read_text() == "2"


INPUTS = {
    "reconstruction.png": ("denoise", "reconstruction.png", "--prior", "adaptive", "--sigma", 0.02),
    "figure.png": ("compare", "figure.png", "--sample", "full"),
    "uncertainty.png": ("inpaint", "in.png", "--mask", "w/uncertainty.png", "--prior", "smooth", "--uncertainty"),
    "figure.tif": ("reconstruct", "in.png", "--sample", "mask:w/figure.tif"),
    "query.csv": ("fit", "query.csv", "--shape", "4,4"),
    "grid.csv": ("grid", "grid.csv"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_is_never_replaced(run, tmp_path, name):
    folder = tmp_path / "w"
    folder.mkdir()
    write_media(synthetic_photograph(6, 7), tmp_path / "in.png")
    if name.endswith("csv"):
        np.savetxt(folder / name, np.random.default_rng(0).random((20, 3)), delimiter=",")
    else:
        write_media(synthetic_photograph(6, 7), folder / name)
    before = (folder / name).read_bytes()
    command = [f"w/{name}" if word == name else word for word in INPUTS[name]]
    status, _, err = run(*command, "--out", "w", "--force", "--quiet")
    assert (status, err.count("\n")) == (2, 1)
    assert f"--out w: expected another folder than the input's own, found {name}" in err
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_bytes() == before
    assert not list(tmp_path.glob(UNFINISHED + "*"))


def test_every_result_has_a_name_that_inputs_are_guarded_by(run, tmp_path):
    write_media(synthetic_photograph(12, 12), tmp_path / "in.png")
    assert run("compare", "in.png", "--sample", "full", "--html", "--out", "a", "--quiet")[0] == 0
    options = ("--sample", "random:0.5", "--prior", "smooth", "--uncertainty", "--quiet", "--out", "b")
    assert run("reconstruct", "in.png", *options) == (0, "", "")
    np.savetxt("p.csv", np.random.default_rng(0).random((20, 3)), delimiter=",")
    np.savetxt("q.csv", [[0.5, 0.5]], delimiter=",", header="x,y", comments="")
    assert (
        run("fit", "p.csv", "--shape", "4,4", "--bounds", "0,1,0,1", "--at", "q.csv", "--out", "c", "--quiet")[0] == 0
    )
    assert run("grid", "p.csv", "--out", "d", "--quiet")[0] == 0
    assert run("upscale", "in.png", "--prior", "none", "--out", "e", "--quiet")[0] == 0
    assert {path.stem for folder in "abcde" for path in Path(folder).iterdir()} == set(RESULTS)
