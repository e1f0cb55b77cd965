"""The harness of ``coordnet bench speed``: peers that do what they say, limits, targets, table."""

import time
from functools import partial

import pytest
import torch

import coordnet as cn
from coordnet.bench import speed, timings
from coordnet.bench.records import NAME, Options, read
from coordnet.bench.runner import STUDIES
from coordnet.bench.runner import run as run_study
from coordnet.bench.speed import Target
from coordnet.bench.timings import Rows
from coordnet.encodings import ComplexEncoding
from coordnet.encodings.encoders import Gaussian
from coordnet.sampling.grids import Lattice
from coordnet.sampling.samples import Samples
from tests.helpers import kron, refused


def test_products_are_kronecker_products(generator):
    values = torch.rand(2, 5, 4, 6, 3, generator=generator)
    matrices = [torch.rand(m, n, generator=generator) for m, n in zip((7, 8, 9), (5, 4, 6), strict=True)]
    made = timings.products(values, matrices)()
    expected = values.movedim(-1, 1).reshape(6, -1) @ kron(matrices).T
    assert torch.allclose(made.reshape(6, -1), expected, atol=1e-4)
    assert timings.bare_products(values, (7, 8, 9))().shape == (2, 3, 7, 8, 9)


def test_the_papers_procedure_is_the_fit(generator):
    geometry = Lattice((24, 20), (2, 2))
    encoding = ComplexEncoding.like(Gaussian, geometry)
    values = torch.rand(12, 10, 3, dtype=torch.float64, generator=generator)
    samples = Samples(geometry, values)
    made = timings.papers_procedure(encoding, samples)
    plan = cn.plan(encoding, geometry, None, dtype=torch.float64, center=False)
    assert torch.allclose(made.movedim(0, -1), plan.renderer()(values), atol=1e-10)
    dense = timings.products(values.float(), timings.dense(encoding, samples))()
    assert torch.allclose(dense, made.float(), atol=1e-5)


def test_what_takes_too_long_is_stopped(forked):
    rows = Rows(limit=0.2)
    rows.time("slow", partial(time.sleep, 60), 1, expected=9.0)
    rows.time("ill", partial(int, "none"), 1, expected=9.0)
    rows.time("quick", partial(time.sleep, 0.05), 1)
    assert rows.seconds["slow"] is None and rows.notes["slow"]["stopped"] == "over 0.2 s"
    assert "invalid literal" in rows.notes["ill"]["stopped"]
    assert rows.seconds["quick"] > 0.05


@pytest.fixture(scope="module", autouse=True)
def brief():
    """Repeat short work a few times, and not for half a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timings, "LEAST_SECONDS", 0.0)
        yield


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run of pictures at tiny sizes."""
    folder = tmp_path_factory.mktemp("speed")
    run_study(STUDIES["speed"], Options(only=("grid",), sizes=(12, 20)), folder, progress=False)
    return folder


def test_rows_are_timed_beside_their_peers(small):
    records = read(small).values()
    assert {r["cell"]["task"] for r in records} == {"12²×3 → 24²", "20²×3 → 40²"}
    for record in records:
        assert record["status"] == "done"
        for method, seconds in record["seconds"].items():
            notes = record["notes"][method]
            assert 0 < notes["low"] <= seconds <= notes["high"]
            if notes["peer"]:
                expected = seconds / record["seconds"][notes["peer"]]
                assert speed.ratio(record, method, notes["peer"]) == expected


def test_every_run_measures_anew_and_the_latest_timing_counts(small):
    before = (small / NAME).read_bytes()
    run_study(STUDIES["speed"], Options(only=("grid",), sizes=(12,)), small, progress=False)
    assert (small / NAME).read_bytes().startswith(before)
    assert [r["cell"]["task"] for r in read(small).values()] == ["20²×3 → 40²", "12²×3 → 24²"]


@pytest.mark.slow
def test_memory_is_measured_in_a_process_of_its_own():
    held, rows = torch.ones(2**27), Rows()  # half a GiB, which is not theirs
    timings.large(rows, "cpu", timings.IN_ROWS, 64)
    assert held.sum() > 0 and 0.05 < rows.scores["peak_gib"] < 1
    assert rows.scores["output_gib"] * 2**30 == 128 * 128 * 4
    assert timings.enlarge_whole(64)["output_gib"] * 2**30 == 128 * 128 * 3 * 4


def test_targets_are_held_against_what_was_measured():
    def tasks(seconds, peer, stopped=None):
        notes = {"theirs, slow": {"stopped": stopped}}
        return {("cpu", "t"): {"seconds": {"ours": seconds, "theirs, slow": peer}, "notes": notes, "scores": {}}}

    target = Target("cpu", "t", "ours", 0.5, "theirs, slow")
    assert target.found(tasks(1.0, 4.0)) == 0.25
    assert list(target.line(tasks(1.0, 4.0)).values())[-2:] == ["0.25 × theirs", "holds"]
    assert target.line(tasks(3.0, 4.0))[""] == "DOES NOT HOLD"
    assert target.line({})[""] == "not measured"
    assert target.found(tasks(6.0, None, timings.over(timings.LIMIT))) == 6.0 / timings.LIMIT
    assert target.found(tasks(6.0, None, "RuntimeError: no")) is None
    assert Target("cpu", "t", "ours", 0.5).line(tasks(3.0, 4.0))["found"] == "3e+03 ms"


def test_records_of_an_earlier_machine_are_left_out(small):
    one, other = list(read(small).values())[:2]
    assert len(speed.latest([one, other])) == 2
    assert len(speed.latest([{**one, "machine": {**one["machine"], "threads": 99}}, other])) == 1


def test_bench_speed_refuses(run, tmp_path):
    for arguments, said in (
        (["--only", "walking"], "only"),
        (["--sizes", "many"], "sizes"),
        (["--sizes", "4"], "sizes"),
        (["--report", "--out", "none"], "none"),
    ):
        assert said in refused(run("bench", "speed", *arguments), tmp_path, ())
