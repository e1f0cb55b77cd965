"""``coordnet bench gpu``: each part begins on the pretended device, and runs go on from their records."""

import subprocess
from pathlib import Path

import pytest
import torch

import coordnet as cn
from coordnet.bench import gpu, needed, speed, timings
from coordnet.bench.needed import CHECKOUT
from coordnet.bench.records import Result, Study, read
from tests.helpers import refused
from tests.pretend import pretend_cuda


@pytest.fixture
def few(monkeypatch):
    """Small sizes, one run of each method, no reports; yields the calls of Python that would be processes."""
    quick = cn.Smoothness(1.5, 0.01)
    calls = []

    def called(arguments, cell):
        calls.append(arguments)
        return Result({}, {"run": 1.0}, {"said": "well"})

    for module, name, value in (
        (speed, "QUICK_SIZES", (12,)),
        (timings, "CLIP_SIDES", (4,)),
        (timings, "BATCH_SIDE", 8),
        (timings, "Adaptive", lambda: quick),
        (timings, "Local", lambda: quick),
        (timings, "measure", lambda work, **_: timings.Timing(*[timings.once(work)[1]] * 3, 1)),
        (timings, "enlarge_whole", lambda size, device: {"output_gib": float(torch.ones(1, device=device))}),
        (gpu, "succeeded", called),
        (Study, "write", lambda study, folder: []),
    ):
        monkeypatch.setattr(module, name, value)
    return calls


@pytest.fixture
def pretended(few):
    if torch.version.cuda is not None:
        pytest.skip("a build of PyTorch for CUDA has no pretended device")
    with pretend_cuda() as gpu:
        yield gpu


@pytest.mark.parametrize("part", ["tests", *speed.TASK_GROUPS, "notebooks", "table1"])
def test_each_part_begins(pretended, run, small_data, part, tmp_path):
    status, out, err = run("bench", "gpu", "--dry", "--only", part, "--data", small_data)
    assert status == 0, err
    assert f"{part}: begins" in out
    assert part in ("tests", "notebooks") or pretended.launches > 0
    assert not list(tmp_path.iterdir())


def test_runs_end_in_time_and_go_on(pretended, few, run, tmp_path):
    count = len(list((CHECKOUT / "notebooks").glob("*.ipynb")))
    command = ["bench", "gpu", "--only", "tests,notebooks", "--minutes", "0"]
    for done in range(count + 1):
        assert len(read(tmp_path / "results" / "gpu")) == len(few) == done
        status, out, err = run(*command)
        assert (status, "goes on" in out) == (0, True), err
    status, out, err = run(*command)
    assert "all is recorded" in out and len(few) == count + 1


def test_a_process_that_fails_is_a_failed_cell(monkeypatch, capsys):
    for status, expected in ((0, "two"), (1, "RuntimeError: two")):
        done = subprocess.CompletedProcess([], status, "one\ntwo\n", "")
        monkeypatch.setattr(subprocess, "run", lambda *_, done=done, **__: done)
        (cell,) = next(gpu.Checkout().stages(gpu.Options(only=("tests",)), {}))
        record = cell.run()
        assert record.get("reason", record.get("notes", {}).get("said")) == expected
        assert ("one" in capsys.readouterr().err) == bool(status)
        assert expected in gpu.Checkout().contents([record])[".md"]


def test_its_processes_find_what_this_one_finds(monkeypatch, tmp_path):
    (tmp_path / "carried_along.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = gpu.succeeded(["-c", "import carried_along, coordnet; print(coordnet.__file__)"], None)
    assert Path(done.notes["said"]).parent.parent == gpu.CHECKOUT


def test_what_is_missing_is_named(monkeypatch, run, tmp_path):
    given = {"numpy": "1.0", "torch": "2.11.0+cu130", "pytest": "9.1"}

    def version(name):
        if name not in given:
            raise needed.PackageNotFoundError(name)
        return given[name]

    monkeypatch.setattr(needed, "version", version)
    assert "numpy>=1.26" in needed.missing() and "av>=14" in needed.missing()
    assert not any(text.startswith("torch") for text in needed.missing())
    assert "beartype>=0.19" in needed.missing(["test"]) and "pytest>=8" not in needed.missing(["test"])
    assert "av>=14" in refused(run("bench", "gpu"), tmp_path, ())


def test_bench_gpu_refuses(pretended, run, tmp_path):
    for arguments, said in ((["--only", "walking"], "only"), (["--only", "table1"], "--data"), ([], "--data")):
        assert said in refused(run("bench", "gpu", *arguments), tmp_path, ())
