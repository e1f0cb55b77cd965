"""The papers' figures, and the command that draws them."""

import json
import sys

import pytest

from coordnet.cli import main
from coordnet.experiments.analysis_figures import FIGURES


def command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["coordnet", "analyze", *arguments])
    return main()


def test_gaussian_rank_follows_its_theory():
    for curves in FIGURES["2"]()[1].values():
        for measured, theory in zip(curves["measured"], curves["theory"], strict=True):
            assert measured == pytest.approx(theory, rel=0.12)  # the corner of min(N, …) is round


def test_only_the_impulse_has_full_rank_in_figure_3():
    numbers = FIGURES["3"]()[1]
    assert numbers["impulse"]["measured"][-1] == pytest.approx(256)
    assert max(v["measured"][-1] for k, v in numbers.items() if k != "impulse") < 70
    assert numbers["sine"]["measured"][-1] == pytest.approx(2, rel=0.01)


def test_figure_4_has_both_families():
    _, numbers = FIGURES["4"]()
    gaussian, rff = (numbers[name]["measured"] for name in ("Gaussian", "RFF"))
    assert gaussian == sorted(gaussian, reverse=True)
    assert rff[-1] > rff[0]


def test_dashed_theory_is_drawn_and_named():
    for name in ("2", "3", "4"):
        axes = FIGURES[name]()[0].axes
        assert all(any(line.get_linestyle() == "--" for line in ax.lines) for ax in axes)
        assert any(
            "theory" in [t.get_text() for t in ax.get_legend().texts] for ax in axes if ax.get_legend()
        )
        assert all(ax.get_xlabel() and ax.get_ylabel() for ax in axes)


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_is_written(figure, monkeypatch, tmp_path, capsys):
    assert command(monkeypatch, "--figure", figure, "--out", str(tmp_path / "f"), "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((tmp_path / "f" / "record.json").read_text())
    assert record["seconds"] < 30
    assert (tmp_path / "f" / "figure.png").read_bytes()[:4] == b"\x89PNG"
    assert command(monkeypatch, "--figure", figure, "--out", str(tmp_path / "f")) == 2


def test_frequencies_below_the_first_are_counted():
    counted = FIGURES["spectrum"]()[1]["below the first DFT frequency"]
    assert counted == {"sinusoidal": 76, "of": 128, "paper's count of entries": 103}


def test_encoders_are_measured(monkeypatch, capsys):
    options = ["--encoder", "gaussian:sigma=0.02", "--encoder", "rff", "--samples", "64", "--json"]
    assert command(monkeypatch, *options) == 0
    numbers = json.loads(capsys.readouterr().out)["numbers"]
    gaussian = numbers["gaussian:sigma=0.02,features=64"]
    assert gaussian["stable_rank"] == pytest.approx(gaussian["theory"], rel=0.03)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--figure", "9"], "`figure`: expected one of 2, 3, 4"),
        (["--encoder", "x"], "`encoder`: expected one of gaussian"),
        (["--encoder", "md-sine"], "`encoder`: expected one of a single axis"),
        (["--figure", "2", "--encoder", "rff"], "`figure`: expected no --encoder"),
        (["--samples", "1", "--json"], "`samples`: expected an integer of at least 2"),
    ],
)
def test_bad_usage_is_one_line(arguments, message, monkeypatch, capsys):
    assert command(monkeypatch, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
