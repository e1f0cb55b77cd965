import json
import sys

import pytest
import torch

from coordnet.cli import main
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.encoders import BSpline, Gaussian, Triangle
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.fitting.fit import choose
from coordnet.fitting.tuning import tune_scale, tune_smoothness, tuned
from coordnet.media import write_media
from coordnet.metrics.scores import mean_squared_error
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.grids import Lattice
from coordnet.sampling.patterns import sample
from tests.helpers import synthetic_photograph


def noisy(generator):
    clean = synthetic_photograph(48, 40)
    return clean, clean + 0.15 * torch.randn(clean.shape, generator=generator)


@pytest.mark.parametrize("criterion", ["hold-out", "gcv"])
def test_noise_is_smoothed_nearly_as_well_as_with_hindsight(criterion, generator):
    clean, spoiled = noisy(generator)
    samples = sample(spoiled, "full")
    encoding = ComplexEncoding.like(Gaussian, samples)
    made = tune_smoothness(encoding, samples, criterion=criterion)
    grid = [Smoothness(p, s) for p in (1.0, 1.5, 2.0) for s in (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)]
    errors = [
        mean_squared_error(fit_closed_form(encoding, samples, prior=prior).render(), clean)
        for prior in (made.choice, *grid)
    ]
    assert errors[0] < 1.12 * min(errors[1:])
    assert errors[0] < 0.5 * mean_squared_error(spoiled, clean)


def test_anisotropy_is_found(generator):
    """Rows that change slowly down the picture and fast across it."""
    y, x = torch.meshgrid(torch.linspace(0, 1, 60), torch.linspace(0, 1, 60), indexing="ij")
    truth = (torch.sin(3 * y) + torch.sin(60 * x)).unsqueeze(-1)
    samples = sample(truth, "random:0.3", generator=generator)
    made = tune_smoothness(FourierEncoding.like(samples), samples, folds=2)
    assert made.choice.anisotropy[0] > made.choice.anisotropy[1]
    assert made.table == sorted(made.table, key=lambda row: row["score"])


def test_scales_are_tuned_on_every_second_sample():
    wave = torch.sin(torch.linspace(0, 12, 64)).unsqueeze(-1)
    made = tune_scale(Gaussian, sample(wave, "full"))
    assert made.choice > 1
    assert {row["factor"] for row in made.table} >= {1.0}
    assert tune_scale(Triangle, sample(wave, "full")).choice == 1


def test_a_loss_that_outliers_move_little_is_kept():
    samples = sample(synthetic_photograph(24, 20), "random:0.5")
    method = choose(samples, robust=True, tunable=True)
    assert tuned(method, samples)[0].prior.loss == "huber"


@pytest.mark.parametrize("cells", [1, 2])
def test_means_over_cells_are_tuned_with_an_encoding_of_either_lattice(cells):
    samples = sample(synthetic_photograph(32, 28), "area:2")
    encoding = ComplexEncoding.like(BSpline, Lattice((32, 28)) if cells == 2 else samples)
    assert tune_smoothness(encoding, samples).choice.strength > 0
    if cells == 2:
        with pytest.raises(ValueError, match="`criterion`: expected hold-out, where"):
            tune_smoothness(encoding, samples, criterion="gcv")


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda s: tune_smoothness(ComplexEncoding.like(Gaussian, s), s, criterion="gcv"), "`criterion`"),
        (lambda s: tune_smoothness(ComplexEncoding.like(Gaussian, s), s, criterion="luck"), "`criterion`"),
        (lambda s: tune_scale(Gaussian, s), "`samples`: expected a whole lattice"),
    ],
)
def test_what_does_not_go_together_is_refused(work, message):
    with pytest.raises(ValueError, match=message):
        work(sample(synthetic_photograph(12, 12), "random:0.5"))


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (["--sample", "random:0.4", "--prior", "smooth"], "hold-out"),
        (["--sample", "full", "--prior", "smooth", "--criterion", "gcv"], "cross-validation"),
        (["--sample", "every:2"], "hold-out"),
    ],
)
def test_the_command_says_what_was_tried(options, lines, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_media(synthetic_photograph(32, 28), "photo.png", depth="uint8")
    monkeypatch.setattr(sys, "argv", ["coordnet", "reconstruct", "photo.png", "--tune", "--json", *options])
    assert main() == 0
    tuning = json.loads(capsys.readouterr().out)["tuning"]
    assert lines in tuning["criterion"]
    assert len(tuning["tried"]) >= 8


def test_tuning_an_adaptive_prior_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["coordnet", "reconstruct", "camera", "--tune", "--sample", "random:0.1"])
    assert main() == 2
    assert "--tune: expected" in capsys.readouterr().err
