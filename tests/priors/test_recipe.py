"""README's recipe for a prior: one file as this one, and one entry in the registry."""

import json
import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.cli import main
from coordnet.cli.specs import parse_prior
from coordnet.fitting.choice import suited
from coordnet.linalg.borders import make_periodic
from coordnet.networks.fit_reports import FitReport
from coordnet.plans.plan import Fitted, Plan
from coordnet.priors.base import Prior, Setting
from coordnet.priors.registry import PRIORS
from coordnet.restore.upscale_choice import fitted as interpolated
from coordnet.sampling.samples import units_of

SMOOTH = torch.linspace(0, 1, 12).square().expand(12, 12).unsqueeze(-1)
KNOWN = torch.rand(12, 12, generator=torch.Generator().manual_seed(0)) < 0.5
SIGNAL = torch.rand(12, 12, 1, generator=torch.Generator().manual_seed(1))


@dataclass(frozen=True)
class Flat(Prior):
    """Unknown samples are the mean of the known ones plus a step; noise moves samples toward the mean."""

    name: ClassVar[str] = "flat"
    usage: ClassVar[str] = "[:step=0.25]"
    learns: ClassVar[bool] = True
    step: float = 0.25
    noise: float = 0.0

    def plan(self, encoding, geometry, **options):
        return FlatPlan(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting):
        return (cls(step=0.5),)

    def with_noise(self, sigma):
        return replace(self, noise=sigma)


class FlatPlan(Plan):
    """The lattice signal itself, as the coefficients of Fourier's encoding; means over cells are repeated in them."""

    def __init__(self, encoding, geometry, prior, **options):
        super().__init__(encoding, geometry, **options)
        self.prior = prior

    def solve(self, values):
        filled = values.subtracted() / (1 + self.prior.noise)
        if self.geometry.shape != self.geometry.grid:
            filled = repeated(filled)
        else:
            known = self.geometry.known(values.values.shape[1]).movedim(-1, 0)
            filled = torch.where(known, filled, self.prior.step)
        return Fitted(make_periodic(filled, self.encoding.shape), FitReport(method="flat"))


def repeated(cells):
    return cells.repeat_interleave(2, -1).repeat_interleave(2, -2)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """The recipe's last step, the entry in the registry."""
    monkeypatch.setitem(PRIORS, "flat", Flat)


def filled(step):
    mean = SIGNAL[KNOWN].mean()
    return torch.where(KNOWN.unsqueeze(-1), SIGNAL, mean + step)


def test_fits_and_inpainting_take_it():
    samples = cn.sample(SIGNAL, KNOWN.float())
    for step in (0.25, -1.0):
        fit = cn.fit(samples, prior=Flat(step))
        torch.testing.assert_close(fit.render(alignment="sample"), filled(step))
        made = cn.inpaint(SIGNAL, KNOWN, prior=Flat(step))
        torch.testing.assert_close(made.signal, filled(step))
        assert made.report.prior == "flat" and "Flat(" in fit.report.prior


def test_denoising_takes_it():
    """The fit is of values in units of their size, a power of two, in which the noise is as large."""
    units = units_of(SIGNAL.unsqueeze(0)).item()
    expected = SIGNAL.mean() + (SIGNAL - SIGNAL.mean()) / (1 + 0.2 / units)
    made = cn.denoise(SIGNAL, 0.2, prior=Flat())
    torch.testing.assert_close(made.signal, expected)
    assert made.report.prior == "flat" and np.isfinite(made.expected_psnr)
    with pytest.raises(ValueError, match="`prior`: expected auto, or cn.Local"):
        cn.denoise(SIGNAL, 0.2, prior=cn.ThinPlate())
    with pytest.raises(ValueError, match="`prior`: expected cn.Adaptive.. as it is"):
        cn.denoise(SIGNAL, 0.2, prior=cn.Adaptive(rounds=2))


def test_enlarging_takes_it():
    """Splines go through the parts into which it divides pixels; a picture in blocks is enlarged alike."""
    made, mean = cn.upscale(SMOOTH, prior=Flat()), SMOOTH.mean()
    parts = repeated((SMOOTH.movedim(-1, 0) - mean) / (1 + made.report.noise) + mean).movedim(0, -1)
    torch.testing.assert_close(made.signal, interpolated(parts).render((24, 24)))
    assert made.report.prior == "flat" and made.report.division == 2 and made.expected_psnr is None
    with pytest.raises(ValueError, match="`prior`: expected auto or none for points"):
        cn.upscale(SMOOTH, samples="point", prior=Flat())


def test_comparisons_name_it_beside_others():
    table = cn.compare(SIGNAL, KNOWN, encoders=[cn.Gaussian], priors=[Flat()])
    names = [attempt.method.name for attempt in table.attempts if attempt.method]
    assert "fourier · linear · closed-form · flat" in names and len({*names}) == len(names)


def test_it_is_chosen_where_no_other_suits_and_weighed_elsewhere():
    assert suited(Setting(cn.Lattice((12, 12)))) == Flat(0.5)
    weighed = suited(Setting(cn.Lattice((24, 24), (2, 2)))).priors
    assert Flat(0.5) in weighed and cn.Local() in weighed
    assert "flat:step=0.5" in [c.prior for c in cn.fit(cn.sample(SIGNAL, KNOWN.float())).report.candidates]


def test_a_fit_that_names_its_prior_asks_for_no_other(monkeypatch):
    def candidates(setting):
        raise LookupError

    monkeypatch.setattr(Flat, "candidates", candidates)
    samples = cn.sample(SIGNAL, KNOWN.float())
    with pytest.raises(LookupError):
        cn.fit(samples)
    torch.testing.assert_close(cn.fit(samples, prior=Flat()).render(alignment="sample"), filled(0.25))


def test_the_command_reads_and_records_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert parse_prior("flat:step=0.75").text == "flat:step=0.75"
    assert parse_prior("flat").text == "flat"
    np.save("signal.npy", SIGNAL.numpy())
    np.save("mask.npy", KNOWN.numpy().astype(np.float32))
    command = "coordnet inpaint signal.npy --mask mask.npy --prior flat:step=0.75 --out made --quiet"
    monkeypatch.setattr(sys, "argv", command.split())
    assert main() == 0
    folder = next(path.parent for path in (tmp_path / "made").rglob("record.json"))
    np.testing.assert_allclose(np.load(folder / "restored.npy").squeeze(), filled(0.75).squeeze(), atol=1e-6)
    assert json.loads((folder / "record.json").read_text())["prior"] == "flat"
    command = "coordnet denoise signal.npy --sigma 0.2 --prior flat:step=0.75 -o clean.npy --quiet"
    monkeypatch.setattr(sys, "argv", command.split())
    assert main() == 0
    np.testing.assert_allclose(np.load("clean.npy").squeeze(), cn.denoise(SIGNAL, 0.2, prior=Flat()).signal.squeeze())


@pytest.mark.slow
def test_the_commands_that_enlarge_and_compare_read_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    np.save("signal.npy", SMOOTH.numpy())
    monkeypatch.setattr(sys, "argv", "coordnet upscale signal.npy --prior flat -o large.npy --quiet".split())
    assert main() == 0
    np.testing.assert_allclose(np.load("large.npy").squeeze(), cn.upscale(SMOOTH, prior=Flat()).signal.squeeze())
    command = "coordnet compare signal.npy --sample random:0.5 --encoder gaussian --prior flat:step=0.75 --out made"
    monkeypatch.setattr(sys, "argv", [*command.split(), "--prior", "smooth", "--quiet"])
    assert main() == 0
    methods = json.loads(next((tmp_path / "made").rglob("record.json")).read_text())["methods"]
    priors = [method.get("prior") or "" for method in methods]
    assert "flat:step=0.75" in priors and any(prior.startswith("smooth") for prior in priors)


def test_a_further_prior_of_a_comparison_is_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", "coordnet compare cat --prior auto".split())
    assert main() == 2
    assert "--prior: expected the name of a prior" in capsys.readouterr().err


def test_the_help_of_the_command_lists_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["coordnet", "inpaint", "--help"])
    assert main() == 0
    assert "flat[:step=0.25]" in capsys.readouterr().out


def test_an_unknown_name_is_refused_with_all_names():
    with pytest.raises(ValueError, match="`prior`: .*local.*flat"):
        parse_prior("flatter")


def test_a_plan_without_a_solve_is_refused():
    class Empty(Plan):
        pass

    encoding = cn.ComplexEncoding.like(cn.Gaussian, cn.sample(SIGNAL, "full"))
    with pytest.raises(TypeError, match="expected a plan with one of solve, .*, received Empty without"):
        Empty(encoding, cn.Lattice((12, 12)))
