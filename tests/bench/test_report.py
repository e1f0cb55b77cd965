"""Tables and figures, made from records alone."""

import csv

import pytest

from coordnet.bench.protocols import report
from coordnet.bench.protocols.records import Records, key_of
from coordnet.bench.protocols.run import Options, run
from coordnet.bench.protocols.summary import gain, lines, our_best, placed, sections, times

MACHINE = {"device": "cpu", "gpu": None, "threads": 1, "torch": "2", "commit": "abc"}


def record(method, group, signal, score, seconds=1.0, seed=0, epochs=None, **more):
    cell = {
        "experiment": "table1",
        "task": "separable",
        "pattern": "every:2",
        "noise": 0.0,
        "signal": {"kind": "picture", "name": signal, "digest": "0" * 8, "size": 480},
        "method": {"name": method, "group": group},
        "seed": seed,
        "epochs": epochs,
        "device": "cpu",
    }
    result = {
        "status": "done",
        "psnr": {"held_out": score, "fitted": 50.0, "clean": None},
        "ssim": 0.5,
        "parameters": 10,
        "seconds": {"encode": None, "fit": seconds, "render": None},
        "notes": {},
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
    with Records(tmp_path) as records:
        for one in RECORDS:
            records.add(one)
    return tmp_path


def test_means_and_spreads_are_over_signals_and_draws_apart():
    found = {line.name: line for line in lines(RECORDS)}
    linear, mlp = found["linear spline (SciPy)"], found["MLP, simple rff"]
    assert linear.mean("held_out") == 25 and linear.spread("held_out") == pytest.approx(50**0.5)
    assert mlp.mean("held_out") == pytest.approx(28.2) and mlp.spread("held_out") is None
    assert mlp.spread_of_draws("held_out") == pytest.approx(0.08**0.5)
    assert mlp.seconds("fit") == 150 and mlp.seeds == 2 and mlp.signals == 1
    assert mlp.printed == ("26.58 ± 4.18", "22.62")


def test_rows_are_compared_on_the_signals_that_both_have():
    """The MLP has the easy picture alone: its mean of 28.2 is below ours there, though above our mean of 24.5."""
    ((_, _, ordered),) = sections(RECORDS, "held_out")
    best = our_best(ordered, "held_out")
    assert best.name == "closed form, complex gaussian"
    mlp = next(line for line in ordered if line.name == "MLP, simple rff")
    assert gain(mlp, best, "held_out") == (pytest.approx(-0.8), 1)
    assert [line.name.split(",")[0].split(" ")[0] for line in ordered] == [
        "linear",
        "closed",
        "MLP",
        "cubic",
        "bicubic",
    ]


def test_the_report_says_what_loses_what_failed_and_what_was_printed(written):
    text = report.text("table1", written)
    assert "**It loses to** linear spline (SciPy) by 0.50 dB (on 2)." in text
    assert (
        "The best trained row, *MLP, simple rff* (7 epochs, on 1), is -0.80 dB from it there in 300 times its seconds."
        in text
    )
    assert "Every trained row takes 300 times its seconds or more." in text
    assert "linear head by gradient: 1 of 2 signals, 7 epochs" in text
    assert (
        "The best of 1 closed forms, by this score, is **closed form, complex gaussian**, 24.50 dB." in text
    )
    assert "Not run: nearest sample, closed form, complex linf" in text
    assert "The protocol has 2000 epochs" in text
    assert "- bicubic (PyTorch interpolate) (separable), 1 cells: exceeded its limit of 3 s" in text
    row = next(line for line in text.splitlines() if line.startswith("| MLP, simple rff"))
    assert row.endswith("| 26.58 ± 4.18 | 22.62 |")
    assert "| printed PSNR (other data) | printed s (other GPU) |" in text


def test_the_best_trained_row_and_the_best_mlp_are_held_against_our_best():
    name = "gradient, complex gaussian"
    longer = [record(name, "gradient", signal, 28.9, 10.0, epochs=2000) for signal in ("a", "b")]
    ((_, _, ordered),) = sections([*RECORDS, *longer], "held_out")
    said = report._verdict(("separable", 480, ordered), "held_out")
    assert (
        f"The best trained row, *{name}* (2000 epochs, on 2), is +4.40 dB from it there in 20 times" in said
    )
    assert "MLP among them" not in said  # the row above has no depth, but its name is no matter
    deep = [{**r, "cell": {**r["cell"], "method": {**r["cell"]["method"], "depth": 4}}} for r in RECORDS]
    ((_, _, ordered),) = sections([*RECORDS[:6], *deep[6:8], *longer], "held_out")
    said = report._verdict(("separable", 480, ordered), "held_out")
    assert "The best MLP among them, *MLP, simple rff* (7 epochs, on 1), is -0.80 dB" in said
    assert "Every trained row takes 20 times its seconds or more." in said


def test_a_line_on_fewer_signals_is_placed_by_its_gain():
    ((_, _, ordered),) = sections(RECORDS, "held_out")
    best, line = our_best(ordered, "held_out"), next(one for one in ordered if one.name.startswith("MLP"))
    assert line.mean("held_out") == pytest.approx(28.2)
    assert placed(line, best, "held_out") == pytest.approx(24.5 - 0.8)
    assert times(line, best) == pytest.approx(300)


def test_fits_beyond_rounding_are_exact():
    made = [record("cubic spline (SciPy)", "baseline", signal, 20.0) for signal in ("a", "b", "c")]
    for one, fitted in zip(made, (None, 372.0, 100.0), strict=True):
        one["psnr"]["fitted"] = fitted
    assert lines(made)[0].exact
    made[0]["psnr"]["fitted"] = 99.0
    assert not lines(made)[0].exact


def test_a_mean_over_fewer_signals_says_over_how_many():
    found = sections(RECORDS, "held_out")
    rows = {row.split(" | ")[0]: row for row in report._pivot(found, "held_out").splitlines()}
    assert rows["| linear spline (SciPy)"].endswith("| 25.00 |")
    assert rows["| MLP, simple rff"].endswith("| 28.20 (1) |")


def test_warnings_are_told_once_a_row_with_their_number(written):
    with Records(written) as records:
        for signal, residual in (("c", 0.1), ("d", 2e-5)):
            one = record("closed form, complex rff", "closed form", signal, 20, 1.0)
            records.add({**one, "warnings": [f"stopped after 500 steps at {residual}"]})
    text = report.text("table1", written)
    assert "- closed form, complex rff (separable), 2 cells: stopped after 500 steps at 0.1" in text


def test_tables_and_figures_are_written_from_records_alone(written):
    paths = report.write("table1", written)
    assert [path.name for path in paths] == ["table1.md", "table1.csv", "table1.png"]
    with open(paths[1]) as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert float(rows["linear spline (SciPy)"]["held_out"]) == 25
    assert float(rows["MLP, simple rff"]["gain_over_our_best"]) == pytest.approx(-0.8)
    assert rows["bicubic (PyTorch interpolate)"]["reason"] == "exceeded its limit of 3 s"
    assert rows["MLP, simple rff"]["commit"] == "abc"
    before = paths[0].read_text()
    report.write("table1", written)
    assert paths[0].read_text() == before


def test_a_report_without_records_is_refused_in_one_line(run, tmp_path):
    status, out, err = run("bench", "noise", "--report")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "coordnet bench noise" in err


@pytest.mark.parametrize("name", ["rethinking", "noise", "sampling", "figure7"])
def test_figures_against_a_quantity_have_a_curve_for_each_method(name, folder, tmp_path):
    from coordnet.bench.protocols import charts
    from coordnet.bench.protocols.records import read

    chosen = ("baseline", "closed form*, smooth*", "closed form, *σ*", "gaussian σ*, depth 0")
    chosen = tuple(p for p in chosen if not (p.startswith("gaussian") and name != "figure7"))
    chosen = chosen[:1] if name in ("noise", "sampling") else chosen[:1] + chosen[2:][-1:]
    run(name, Options(folder, quick=True, epochs=1, methods=chosen), tmp_path / name, progress=False)
    figure = charts.draw(name, read(tmp_path / name))
    labels = {line.get_label() for ax in figure.axes for line in ax.get_lines()}
    expected = {
        r["cell"]["method"]["name"]
        for r in read(tmp_path / name)
        if r["cell"]["method"]["group"] == "baseline"
    }
    assert expected <= labels
    (path,) = (p for p in report.write(name, tmp_path / name) if p.suffix == ".md")
    assert all(method in path.read_text() for method in expected)
