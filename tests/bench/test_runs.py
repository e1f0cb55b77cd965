"""Runs that are killed, repeated, run twice at once, or spread over processes and machines."""

import json
import multiprocessing
import random
import signal
import time
from dataclasses import replace

import numpy as np
import pytest

from coordnet.bench import runner
from coordnet.bench.estimators import Layout, Trained, complex_
from coordnet.bench.experiment import Method, Peer, Task, estimation
from coordnet.bench.records import NAME, Cell, Options, Result, Study, read
from coordnet.bench.runner import STUDIES
from coordnet.encodings.encoders import Gaussian


def measured(cell):
    time.sleep(0.004)
    return Result({"score": cell.seed / 7}, {"fit": 0.1})


def broken(cell):
    raise ValueError("no result")


def deadly(cell):
    signal.raise_signal(signal.SIGKILL)


class Synthetic(Study):
    """Some cells of one kind of work, and a report without tables."""

    name = "synthetic"

    def __init__(self, count, work=measured):
        subject = {"task": "t", "method": {"name": "m"}}
        self.cells = [Cell(experiment=self.name, subject=subject, work=work, seed=seed) for seed in range(count)]

    def stages(self, options, done):
        yield self.cells

    def contents(self, records):
        return {".md": "a table"}


def cells(options):
    return [cell for stage in STUDIES["table1"].stages(options, {}) for cell in stage]


def run_study(options, folder):
    return runner.run(STUDIES["table1"], options, folder, progress=False)


def by_key(folder):
    """The records but for their times, and but for where they ran; each key is there once."""
    lines = [json.loads(line) for line in (folder / NAME).read_text().splitlines()]
    found = {line["key"]: {k: v for k, v in line.items() if k not in ("seconds", "machine")} for line in lines}
    assert len(found) == len(lines)
    return found


def kill_soon(process, path, delay):
    """Kill a process a moment after it added to a file; whether it was still running then."""
    before = path.stat().st_size if path.exists() else 0
    while process.is_alive() and (path.stat().st_size if path.exists() else 0) == before:
        time.sleep(0.001)
    time.sleep(delay)
    running = process.is_alive()
    process.kill()
    process.join()
    return running


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_run_killed_at_ten_moments_ends_as_an_undisturbed_one(tmp_path):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    study = Synthetic(200)
    assert runner.run(study, Options(), undisturbed, progress=False) == (200, 0)
    moments = random.Random(0)
    for _ in range(10):
        process = multiprocessing.get_context("fork").Process(
            target=runner.run, args=(study, Options(), killed), kwargs={"progress": False}
        )
        process.start()
        assert kill_soon(process, killed / NAME, moments.uniform(0.0, 0.03))
    assert len(read(killed)) < 200
    assert runner.run(study, Options(), killed, progress=False) == (200, 0)
    assert by_key(killed) == by_key(undisturbed)


def test_another_file_of_the_same_name_is_another_signal(folder):
    options = Options(folder, images=2, methods=("*spline*", "nearest*", "closed form, complex rff"))
    before = {cell.key for cell in cells(options)}
    (folder / "images" / "picture1.png").write_bytes((folder / "images" / "picture0.png").read_bytes())
    after = {cell.key for cell in cells(options)}
    assert len(before & after) == len(before) // 2


def test_trained_methods_come_last(folder):
    groups = [cell.subject["method"]["group"] for cell in cells(Options(folder))]
    assert groups == sorted(groups, key=lambda group: group == "gradient")


def test_a_cell_that_raises_is_recorded_and_the_run_goes_on(folder, tmp_path, monkeypatch):
    plain = Peer.__call__

    def ill(peer, case):
        outcome = plain(peer, case)
        kind = getattr(peer.function, "keywords", {}).get("kind")
        if kind == "linear":
            raise RuntimeError("two\nlines")
        if kind == "cubic":
            outcome.estimate[0, 0, 0] = float("nan")
        return outcome

    monkeypatch.setattr(Peer, "__call__", ill)
    chosen, out = Options(folder, images=1, methods=("baseline",)), tmp_path / "out"
    assert run_study(chosen, out) == (4, 2)
    found = {r["cell"]["method"]["name"].split()[0]: r.get("reason") for r in read(out).values()}
    assert found["linear"] == "RuntimeError: two lines"
    assert "NaN" in found["cubic"]
    assert found["nearest"] is None and found["bicubic"] is None
    monkeypatch.undo()
    assert run_study(chosen, out) == (4, 2)
    again = replace(chosen, retry=True)
    assert run_study(again, out) == (4, 0)
    assert {r["status"] for r in read(out).values()} == {"done"}
    size = (out / NAME).stat().st_size
    assert run_study(again, out) == (4, 0)
    assert (out / NAME).stat().st_size == size


def test_divergence_is_a_failure(folder):
    (signal,) = STUDIES["table1"].experiment.finder.find(folder, 1)
    method = Method("m", Trained(Layout(complex_, Gaussian), lr=1e30))
    record = estimation(Task("t", "every:2"), signal, method, experiment="e", epochs=30).run()
    assert record["status"] == "failed"
    assert "`lr`: expected a learning rate at which the loss stays finite" in record["reason"]
    assert "scores" not in record


def test_wrong_options_are_told_in_one_line(run, folder, tmp_path):
    (tmp_path / "file").write_text("no folder")
    for more in (
        ["--methods", "magic"],
        ["--data", tmp_path / "nowhere"],
        ["--device", "abacus"],
        ["--out", tmp_path / "file"],
    ):
        status, out, err = run("bench", "table1", "--data", folder, *more)
        assert (status, out, err.count("\n")) == (2, "", 1)
    status, _, err = run("bench", "table1")
    assert status == 2 and "--data" in err
    assert not (tmp_path / "results").exists()


def test_a_broken_file_ends_a_run_before_it_began(run, folder, tmp_path):
    (folder / "images" / "broken.png").write_text("no picture")
    for name in ("junk", "flat"):
        (tmp_path / name / "video").mkdir(parents=True)
    (tmp_path / "junk" / "video" / "clip.npy").write_text("no array")
    np.save(tmp_path / "flat" / "video" / "clip.npy", np.zeros((5, 6)))
    for name, data, file in (
        ("table1", folder, "broken.png"),
        ("table3", tmp_path / "junk", "clip.npy"),
        ("table3", tmp_path / "flat", "clip.npy"),
    ):
        status, out, err = run("bench", name, "--data", data, "--methods", "nearest*", "--out", tmp_path / "out")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert f"{file}: expected" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("work", "said"), [(measured, ""), (broken, "no result"), (deadly, "its process died")])
def test_a_run_of_which_a_cell_failed_ends_with_status_1(run, monkeypatch, forked, tmp_path, work, said):
    monkeypatch.setitem(STUDIES, "table1", Synthetic(3, work))
    status, out, err = run("bench", "table1", "--out", "records", "--workers", 2 if work is deadly else 1)
    assert (status, "a table" in out, "3 cells failed" in err) == (bool(said), True, bool(said))
    assert all(said in record.get("reason", "") for record in read(tmp_path / "records").values())
