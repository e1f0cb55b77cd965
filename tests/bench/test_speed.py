"""The harness of ``coordnet bench speed``: peers that do what they say, limits, targets, table."""

import json
import os
import time

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.bench import enlarging, speed, speed_peers, speed_report, speed_tasks
from coordnet.bench.speed import Settings
from coordnet.bench.speed_report import BEGIN, END, Target
from coordnet.encodings import ComplexEncoding
from coordnet.encodings.encoders import Gaussian
from coordnet.linalg.kronecker import mode_product
from coordnet.sampling.samples import Lattice
from tests.helpers import refused

CPU = torch.device("cpu")


def test_bare_products_are_mode_products(generator, monkeypatch):
    values = torch.rand(2, 5, 4, 6, 3, generator=generator)
    drawn = []
    monkeypatch.setattr(
        torch, "rand", lambda *shape, **_: drawn.append(torch.ones(shape).cumsum(0)) or drawn[-1]
    )
    made = speed_peers.bare_products(values, (7, 8, 9))()
    expected = mode_product(values.movedim(-1, 1).flatten(0, 1), drawn)
    assert torch.allclose(made, expected)


def test_the_papers_procedure_is_the_fit(generator):
    geometry = Lattice((24, 20), (2, 2))
    encoding = ComplexEncoding.like(Gaussian, geometry)
    values = torch.rand(12, 10, 3, dtype=torch.float64, generator=generator)
    made = speed_peers.papers_procedure(encoding, values, geometry)
    plan = cn.plan(encoding, geometry, dtype=torch.float64, center=False)
    assert torch.allclose(made.movedim(0, -1), plan.renderer()(values), atol=1e-10)
    dense = speed_tasks._dense(encoding, geometry, CPU)
    assert torch.allclose(dense(values.movedim(-1, 0).float()), made.float(), atol=1e-5)


def test_what_takes_too_long_is_stopped():
    start = time.perf_counter()
    assert speed_peers.limited(lambda: time.sleep(60), 0.3, expected=1.0) == "over 0.3 s"
    assert speed_peers.limited(lambda: os._exit(3), 9.0, expected=9.0) == "failed with status 3"
    assert time.perf_counter() - start < 60
    timing = speed_peers.limited(lambda: time.sleep(0.05), 30.0, expected=20.0)
    assert isinstance(timing, speed_tasks.Timing)
    assert (timing.repeats, timing.median > 0.05) == (1, True)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run of every group but the slow ones, at a tiny size."""
    settings = Settings(CPU, ("grid", "precision"), (12, 20), quick=True)
    rows = speed.run(settings)
    folder = tmp_path_factory.mktemp("speed")
    speed.write(rows, settings, folder)
    return rows, folder


def test_rows_are_timed_beside_their_peers(small):
    rows, folder = small
    records = speed_report.load(folder)["cpu"]["rows"]
    assert {row.task for row in rows} >= {"12²×3 → 24²", "20²×3 → 40²"}
    for row in records:
        assert 0 < row["low"] <= row["median"] <= row["high"]
        if row["peer"]:
            expected = next(
                r["median"] for r in records if (r["task"], r["method"]) == (row["task"], row["peer"])
            )
            assert speed.ratio_to_peer(row, records) == row["median"] / expected
    psnr = {r["method"]: r["psnr"] for r in records if "psnr" in r}
    assert psnr["float32"] > psnr["tf32"] > psnr["bf16"] > 40


def test_random_samples_and_clips_and_batches(monkeypatch):
    def only_run(work, *_, **__):
        work()
        return "over 120 s"

    monkeypatch.setattr(speed_tasks, "measure", only_run)
    monkeypatch.setattr(speed_peers, "limited", only_run)
    rows = [
        *speed_tasks.random_samples((24, 24), 0.25, CPU),
        *speed_tasks.random_samples((8, 8, 8), 0.125, CPU),
        *speed_tasks.video(4, CPU),
        *speed_tasks.batch(3, CPU, size=8),
    ]
    tasks = {row.task for row in rows}
    assert tasks == {
        "random quarter of 24²×3",
        "random eighth of 8³×3",
        "4³×3 → 8³",
        "3 of 8²×3 → 16²",
    }
    assert all(row.as_json()["median"] is None for row in rows)
    assert "over 120 s" in speed.line(rows[0].as_json(), [])


@pytest.mark.slow
def test_memory_is_measured_in_a_process_of_its_own():
    for row in speed_tasks.enlarging(64, 64):
        assert isinstance(row.timing, speed_tasks.Timing)
        assert row.measured is not None
        assert 0.05 < row.measured["peak_gib"] < 2
        channels = 3 if row.method == "in memory" else 1
        assert row.measured["output_gib"] * 2**30 == 128 * 128 * channels * 4
    assert enlarging.MEMORY in row.method


def test_targets_are_held_against_what_was_measured():
    def record(seconds, peer, stopped=None):
        rows = [
            {"task": "t", "method": "ours", "peer": "theirs, slow", "median": seconds},
            {"task": "t", "method": "theirs, slow", "peer": None, "median": peer, "stopped": stopped},
        ]
        return {"cpu": {"rows": rows}}

    target = Target("cpu", "t", "ours", 0.5, "theirs, slow")
    assert target.found(record(1.0, 4.0)) == 0.25
    assert "0.25 × theirs: holds" in target.line(record(1.0, 4.0))
    assert "DOES NOT HOLD" in target.line(record(3.0, 4.0))
    assert "not measured" in target.line({})
    assert target.found(record(6.0, None, "over 120 s")) == 6.0 / speed_tasks.LIMIT
    assert target.found(record(6.0, None, "failed with status 1")) is None
    assert "3e+03 ms: DOES NOT HOLD" in Target("cpu", "t", "ours", 0.5).line(record(3.0, 4.0))
    beside = record(3.0, 4.0)
    beside["cpu"]["rows"].append({"task": "t", "method": speed_tasks.FLOOR, "peer": None, "median": 2.0})
    told = Target("cpu", "t", "ours", 5.0).line(beside)
    assert told.endswith("3e+03 ms: holds (1.5 × bare matrix products)")


def test_every_target_is_a_row_that_is_measured():
    """The names of tasks and methods in the targets are those that the harness writes."""
    from inspect import getsource

    source = getsource(speed_tasks)
    for target in speed_report.TARGETS:
        assert target.method.split(",")[0].split(" prior")[0] in source, target.method


def test_the_table_comes_from_the_records_alone(run, small, tmp_path):
    _, folder = small
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nstale\n{END}\nafter\n")
    records = json.loads((folder / "cpu.json").read_text())
    for row in records["rows"]:
        row["task"] = row["task"].replace("20²×3 → 40²", speed_report.SMALL)
    (folder / "cpu.json").write_text(json.dumps(records))
    status, out, err = run("bench", "speed", "--report", "--out", folder, "--readme", readme)
    assert (status, err) == (0, "")
    assert "cuda 256²×3 → 512²" in out
    text = readme.read_text()
    assert text.startswith(f"before\n{BEGIN}\n| task |")
    assert text.endswith(f"{END}\nafter\n")
    assert "stale" not in text
    row = next(
        r for r in records["rows"] if (r["task"], r["method"]) == (speed_report.SMALL, speed_tasks.COLD)
    )
    assert f"| {speed_tasks.COLD} | {1e3 * row['median']:.2f} ms |" in text
    assert "CUDA: not measured." in text
    picture = cn.load(folder / "speed.png")
    assert float(picture.std()) > 0.05


def test_tasks_measured_before_stay(tmp_path):
    def row(task, outputs, median):
        timing = speed_tasks.Timing(median, median, median, 1)
        return speed_tasks.Row(task, speed_tasks.REUSED, outputs, timing)

    settings = Settings(CPU)
    speed.write([row("256²×3 → 512²", 512**2, 1.0), row("a", 1, 1.0)], settings, tmp_path)
    speed.write([row("512²×3 → 1024²", 1024**2, 6.0), row("a", 1, 2.0)], settings, tmp_path)
    rows = speed_report.load(tmp_path)["cpu"]["rows"]
    assert sorted((r["task"], r["median"]) for r in rows) == [
        ("256²×3 → 512²", 1.0),
        ("512²×3 → 1024²", 6.0),
        ("a", 2.0),
    ]
    assert speed_report.work_spread(rows) == pytest.approx(1.5)
    assert speed_report.work_spread(rows[:1]) is None


def test_bench_speed_refuses(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "cpu.json").write_text('{"machine": {}, "rows": []}')
    for arguments, said in (
        (["--only", "walking"], "only"),
        (["--sizes", "many"], "sizes"),
        (["--report", "--out", "none"], "--out none"),
    ):
        assert said in refused(run("bench", "speed", *arguments), tmp_path)
    np.testing.assert_equal(speed.parse_sizes("32,64", False), (32, 64))
