"""Tables and figures, made from records alone."""

import csv
import math

import pytest

from coordnet.bench.record_tables import sections
from coordnet.bench.records import appending, key_of
from coordnet.bench.runner import STUDIES

TABLE_1 = STUDIES["table1"]
MACHINE = {"device": "cpu", "gpu": None, "threads": 1, "torch": "2", "commit": "abc"}


def record(method, group, signal, score, seconds=1.0, seed=0, epochs=None, depth=0, **more):
    cell = {
        "experiment": "table1",
        "task": "separable",
        "pattern": "every:2",
        "noise": 0.0,
        "signal": {"kind": "picture", "name": signal, "digest": "0" * 8, "size": 480},
        "method": {"name": method, "group": group, **({"head": {"depth": 4}} if depth else {})},
        "seed": seed,
        "epochs": epochs,
        "device": "cpu",
    }
    result = {
        "status": "done",
        "scores": {"held_out": score, "fitted": 50.0, "clean": None, "ssim": 0.5},
        "seconds": {"encode": None, "fit": seconds, "render": None},
        "notes": {"parameters": 10},
    }
    return {"key": key_of(cell), "cell": cell, **result, "machine": MACHINE, **more}


def failed(method, group, signal, reason):
    made = record(method, group, signal, 0.0)
    kept = {k: made[k] for k in ("key", "cell", "machine")}
    return {**kept, "status": "failed", "reason": reason}


RECORDS = [
    record("linear spline (SciPy)", "baseline", "a", 30.0),
    record("linear spline (SciPy)", "baseline", "b", 20.0),
    record("cubic spline (SciPy)", "baseline", "a", 27.0),
    record("cubic spline (SciPy)", "baseline", "b", 17.0),
    record("closed form, complex gaussian", "closed form", "a", 29.0, 0.5),
    record("closed form, complex gaussian", "closed form", "b", 20.0, 0.5),
    record("MLP, simple rff", "gradient", "a", 28.0, 100.0, seed=0, epochs=7),
    record("MLP, simple rff", "gradient", "a", 28.4, 200.0, seed=1, epochs=7),
    failed("bicubic (PyTorch interpolate)", "baseline", "a", "exceeded its limit of 3 s"),
]


@pytest.fixture
def written(tmp_path):
    with appending(tmp_path) as add:
        for one in RECORDS:
            add(one)
    return tmp_path


def markdown(records):
    return TABLE_1.contents(records)[".md"]


def section(records):
    (only,) = sections(TABLE_1.experiment, records)
    return only, {line["name"]: line for _, line in only.lines.iterrows()}


def test_means_and_spreads_are_over_signals_and_draws_apart():
    _, found = section(RECORDS)
    linear, mlp = found["linear spline (SciPy)"], found["MLP, simple rff"]
    assert linear["mean"] == 25 and linear["spread"] == pytest.approx(50**0.5)
    assert mlp["mean"] == pytest.approx(28.2) and math.isnan(mlp["spread"])
    assert mlp["held_out_draws"] == pytest.approx(0.08**0.5)
    assert mlp["fit"] == 150 and mlp["seeds"] == 2 and mlp["signals"] == 1
    assert (mlp["printed_psnr"], mlp["printed_seconds"]) == ("26.58 ± 4.18", "22.62")
    assert mlp["printed_parameters"] == "329,475"


def test_rows_are_compared_on_the_signals_that_both_have():
    """The MLP has the easy picture alone: its mean of 28.2 is below ours there, though above our mean of 24.5."""
    only, found = section(RECORDS)
    assert only.lines["name"][only.best] == "closed form, complex gaussian"
    mlp = found["MLP, simple rff"]
    assert (mlp["gain"], mlp["common"], mlp["times"]) == (pytest.approx(-0.8), 1, pytest.approx(300))
    assert mlp["placed"] == pytest.approx(24.5 - 0.8)
    assert [name.split(",")[0].split(" ")[0] for name in found] == ["linear", "closed", "MLP", "cubic", "bicubic"]


def test_seconds_are_compared_on_the_same_device_alone():
    """On a GPU, where ours took 0.1 s for the picture that both have, the network took 8 s and another's nothing."""

    def on_gpu(*arguments, **options):
        made = record(*arguments, **options)
        cell = made["cell"] | {"device": "cuda"}
        return made | {"cell": cell, "key": key_of(cell)}

    network, spline = ("MLP, simple rff", "gradient"), ("linear spline (SciPy)", "baseline")
    ours = on_gpu("closed form, complex gaussian", "closed form", "a", 29.0, 0.1)
    lines = sections(TABLE_1.experiment, [*RECORDS, ours, on_gpu(*network, "a", 28.0, 8.0, epochs=7)])[0].lines
    found = {(line["name"], line["cell.device"]): line["times"] for _, line in lines.iterrows()}
    assert found[(network[0], "cpu")] == pytest.approx(300) and found[(network[0], "cuda")] == pytest.approx(80)
    lines = sections(TABLE_1.experiment, [*RECORDS, on_gpu(*spline, "a", 30.0)])[0].lines
    assert math.isnan(next(line["times"] for _, line in lines.iterrows() if line["cell.device"] == "cuda"))


def test_the_report_says_what_loses_what_failed_and_what_was_printed(written):
    text = markdown(TABLE_1.records(written))
    assert "**It loses to** linear spline (SciPy) by 0.50 dB (on 2)." in text
    best = "**closed form, complex gaussian**, 24.50 dB."
    assert f"The best of 1 closed forms, by this score, is {best}" in text
    assert "Not run: nearest sample; closed form, complex linf;" in text
    assert "The protocol trains networks for 2000 epochs" in text
    assert "- bicubic (PyTorch interpolate) (separable), 1 cells: exceeded its limit of 3 s" in text
    row = next(line for line in text.splitlines() if line.startswith("| MLP, simple rff"))
    assert "| -0.80 | 50.00 | 0.500 |  | 150 |  | 300 | 10 | 1 | 2 | 7 | cpu |" in row
    assert row.endswith("| 26.58 ± 4.18 | 22.62 | 329,475 |")
    assert "| printed PSNR (other data) | printed s (other GPU) | printed parameters |" in text


def test_fits_beyond_rounding_are_exact():
    made = [record("cubic spline (SciPy)", "baseline", signal, 20.0) for signal in ("a", "b", "c")]
    for one, fitted in zip(made, (None, 372.0, 100.0), strict=True):
        one["scores"]["fitted"] = fitted
    assert section(made)[1]["cubic spline (SciPy)"]["exact"]
    made[0]["scores"]["fitted"] = 99.0
    assert not section(made)[1]["cubic spline (SciPy)"]["exact"]


def test_a_mean_over_fewer_signals_says_over_how_many():
    noisy = [{**r, "cell": {**r["cell"], "task": task}} for task in ("x", "y", "z") for r in RECORDS]
    rows = {row.split(" | ")[0]: row for row in reversed(markdown(noisy).splitlines())}
    assert rows["| linear spline (SciPy)"].endswith("| 25.00 | 25.00 | 25.00 |")
    assert rows["| MLP, simple rff"].endswith("| 28.20 (1) | 28.20 (1) | 28.20 (1) |")


def test_warnings_are_told_once_a_row_with_their_number():
    told = []
    for signal, residual in (("c", 0.1), ("d", 2e-5)):
        one = record("closed form, complex rff", "closed form", signal, 20, 1.0)
        told.append({**one, "warnings": [f"stopped after 500 steps at {residual}"]})
    text = markdown([*RECORDS, *told])
    assert "- closed form, complex rff (separable), 2 cells: stopped after 500 steps at 0.1" in text


def test_tables_and_figures_are_written_from_records_alone(written):
    paths = TABLE_1.write(written)
    assert [path.name for path in paths] == ["table1.md", "table1.csv", "table1.png"]
    with open(paths[1]) as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert float(rows["linear spline (SciPy)"]["held_out"]) == 25
    assert float(rows["MLP, simple rff"]["gain_over_our_best"]) == pytest.approx(-0.8)
    assert rows["bicubic (PyTorch interpolate)"]["reason"] == "exceeded its limit of 3 s"
    assert rows["MLP, simple rff"]["commit"] == "abc"
    before = paths[0].read_text()
    TABLE_1.write(written)
    assert paths[0].read_text() == before


def test_a_report_without_records_is_refused_in_one_line(run, tmp_path):
    status, out, err = run("bench", "noise", "--report")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "coordnet bench noise" in err
