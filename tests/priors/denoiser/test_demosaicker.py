"""Functions that demosaic: what they are given, what is made of their results, and the weight of those that suit."""

from dataclasses import replace

import pytest
import torch

import coordnet as cn
from coordnet.priors.denoiser.demosaicker import DemosaickedPlan, demosaicked
from tests.helpers import synthetic_photograph

PATTERNS = ("RGGB", "BGGR", "GRBG", "GBRG")


def mosaic_of(picture, pattern="RGGB"):
    """Return a mosaic of a picture (height, width, 3), and where each color is known, both (3, height, width)."""
    known = cn.sample(picture, f"bayer:{pattern}").geometry.full_weights.movedim(-1, 0) > 0
    return torch.where(known, picture.movedim(-1, 0), 0.0), known


TRUTH = 0.9 * synthetic_photograph(8, 8)
RAW = mosaic_of(TRUTH)[0].sum(0)


def identity(mosaic):
    return mosaic


def constant(mosaic):
    return torch.full_like(mosaic, 0.5)


def gray(mosaic):
    """Give all colors the measured one, which is right for gray pictures."""
    return mosaic.sum(1, keepdim=True).expand_as(mosaic)


def plan_of(prior, known):
    geometry = cn.MaskedLattice(tuple(known.shape[1:]), weights=known.movedim(0, -1).float())
    return prior.plan(cn.FourierEncoding.like(geometry), geometry)


@pytest.mark.parametrize("lost", [0, 31])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("expected", PATTERNS)
def test_a_function_is_shown_its_own_pattern(pattern, expected, lost, generator):
    picture, given = 0.1 + torch.rand(5, 8, 3, generator=generator), []
    mosaic, known = mosaic_of(picture, pattern)

    def f(shown):
        given.append(shown)
        return shown[..., lost : shown.shape[2] - lost, lost : shown.shape[3] - lost]

    assert torch.equal(demosaicked(f, expected, mosaic, known), mosaic)
    _, height, width = given[0][0].shape
    assert height % 2 == width % 2 == 0
    assert torch.equal(given[0][0] > 0, mosaic_of(torch.zeros(height, width, 3), expected)[1])
    assert set(given[0].flatten().tolist()) == set(mosaic.flatten().tolist())  # a reflection has the same values


def test_what_suits_is_exact_and_gets_all_the_weight(generator):
    truth = torch.rand(8, 8, 1, generator=generator).expand(8, 8, 3)
    (mosaic, known), picture = mosaic_of(truth, "GBRG"), truth.movedim(-1, 0)
    plan = plan_of(cn.Demosaicker(gray), known)
    torch.testing.assert_close(plan.refined(picture, mosaic, ()), picture)
    assert plan.weight_for(picture) > 0.999


@pytest.fixture(scope="module")
def ours():
    """What is made of the mosaic without a function."""
    return cn.demosaic(RAW)


@pytest.mark.parametrize("weight", [0.25, 1.0])
def test_the_result_has_the_weighed_part_of_it_and_the_mosaic(monkeypatch, weight, ours):
    colors = []
    refined = DemosaickedPlan.refined
    monkeypatch.setattr(DemosaickedPlan, "weight_for", lambda *_: weight)
    monkeypatch.setattr(DemosaickedPlan, "refined", lambda *given: colors.append(refined(*given)) or colors[-1])
    made = cn.demosaic(RAW, prior=cn.Demosaicker(gray))
    mosaic, known = (f.movedim(0, -1) for f in mosaic_of(TRUTH))
    means = mosaic.sum((0, 1)) / known.sum((0, 1))  # fits are of centered values
    torch.testing.assert_close(made.signal, torch.lerp(ours.signal, colors[0].movedim(0, -1) + means, weight))
    assert torch.equal(made.signal[known], TRUTH[known])
    assert made.report.prior == "demosaicker:gray" and made.report.fit.weight == weight
    assert made.report.fit.method.startswith("demosaicking with gray, after ")


@pytest.mark.parametrize("f", [identity, constant])
def test_what_does_not_suit_changes_nothing(f, ours):
    weighed = cn.demosaic(RAW, prior=cn.Demosaicker(f))
    assert torch.equal(weighed.signal, ours.signal) and weighed.report.prior == ours.report.prior


def test_a_mosaic_with_noise_is_that_of_the_other_estimate():
    found = cn.demosaic(RAW, sigma=0.1, prior=cn.Demosaicker(gray))
    assert torch.equal(found.signal, cn.demosaic(RAW, sigma=0.1).signal)
    pilot = cn.Denoiser(lambda x, _: x)
    assert cn.Demosaicker(gray, pilot=pilot).with_noise(0.1) == pilot.with_noise(0.1)
    assert cn.Demosaicker(gray).takes_noise  # so that it is looked for


@pytest.mark.slow
def test_the_other_estimate_is_that_of_its_pilot():
    picture = synthetic_photograph(8, 8)
    samples = cn.sample(picture, "bayer:RGGB")
    found = cn.fit(samples, prior=cn.Demosaicker(identity, pilot=cn.Denoiser(lambda x, _: x)))
    assert torch.equal(found.render(), cn.fit(samples, prior=cn.Denoiser(lambda x, _: x)).render())


def test_networks_run_in_their_own_dtype_without_changes():
    class Doubtful(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones((), dtype=torch.float64))

        def forward(self, mosaic):
            assert mosaic.dtype == torch.float64 and not self.training
            return self.scale * gray(mosaic)

    network = Doubtful()
    mosaic, known = mosaic_of(synthetic_photograph(8, 8))
    made = plan_of(cn.Demosaicker(network), known).refined(mosaic, mosaic, ())
    assert made.dtype == torch.float32 and not made.requires_grad and network.training


def test_what_it_does_not_suit_is_refused():
    prior, picture = cn.Demosaicker(identity), synthetic_photograph(8, 8)
    for samples in (cn.sample(picture, "random:0.5"), cn.sample(picture, "entries:0.5"), cn.sample(picture, "full")):
        with pytest.raises(ValueError, match="`geometry`: expected a Bayer mosaic"):
            cn.fit(samples, prior=prior)
    samples = cn.sample(picture, "bayer:RGGB")
    with pytest.raises(ValueError, match="`encoding`: expected a FourierEncoding"):
        cn.fit_closed_form(cn.ComplexEncoding.like(cn.Gaussian, samples), samples, prior=prior)
    with pytest.raises(ValueError, match="`pattern`: expected"):
        replace(prior, pattern="RGBG")
    with pytest.raises(ValueError, match=r"`f`: expected a function of \(mosaic\)"):
        cn.Demosaicker(3)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda mosaic: mosaic[:, :1], r"expected colors of mosaics \(1, 3, 72, 72\), at most 32 pixels less"),
        (lambda mosaic: mosaic[..., 1:], "at most 32 pixels less"),
        (lambda mosaic: mosaic[..., 33:-33], "at most 32 pixels less"),
        (lambda mosaic: mosaic / 0, "finite results"),
        (lambda mosaic, sigma: mosaic, "TypeError from it"),
    ],
)
def test_what_functions_return_is_checked(f, message):
    mosaic, known = mosaic_of(synthetic_photograph(8, 8))
    with pytest.raises(ValueError, match=message):
        demosaicked(f, "RGGB", mosaic, known)
