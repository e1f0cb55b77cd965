from itertools import pairwise

import pytest
import torch

from coordnet.encodings import FourierEncoding
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.metrics.scores import psnr
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.local import Local, masks, similar_patches
from coordnet.priors.local.patches import Observed
from coordnet.priors.local.similar_patches import (
    GROUP_FLOOR,
    GROUP_SHARE,
    THINNED,
    condition,
    fill_from_similar,
    where_moved,
)
from coordnet.priors.local.weights import Weight
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.patterns import sample
from tests.helpers import synthetic_photograph


@pytest.mark.parametrize("count, size", [(4, 7), (9, 5)])
def test_the_posterior_is_the_textbook_s(count, size, generator):
    x = torch.randn(3, count, size, generator=generator, dtype=torch.float64)
    y = torch.randn(3, size, generator=generator, dtype=torch.float64)
    known = torch.tensor([[1, 0, 1, 1, 0, 0, 1], [0] * 7, [1] * 7], dtype=torch.bool)[:, :size]
    mean, variance = condition(y, known, x, 0.01)
    for i, o in enumerate(known):
        deviations = x[i] - x[i].mean(0)
        floor = GROUP_FLOOR + GROUP_SHARE * deviations.square().mean()
        groups = deviations, deviations[::THINNED]
        all_of_it, few = (d.T @ d / len(d) + floor * torch.eye(size) for d in groups)
        gains = [s[:, o] @ torch.linalg.inv(s[o][:, o] + 0.01 * torch.eye(int(o.sum()))) for s in (all_of_it, few)]
        unknown = ~o  # a known entry has the noise's and the floor's share of the floor left
        expected = x[i].mean(0) + gains[0] @ (y[i] - x[i].mean(0))[o]
        torch.testing.assert_close(mean[i][unknown], expected[unknown])
        torch.testing.assert_close(variance[i][unknown], (few - gains[1] @ few[o]).diagonal()[unknown])


@pytest.fixture
def stripes(generator):
    """A picture that repeats, its mask, and a pilot that is wrong where it is unknown."""
    y, x = torch.meshgrid(torch.arange(30), torch.arange(34), indexing="ij")
    f = torch.stack([torch.sin(1.1 * x + 0.7 * y), torch.cos(0.9 * x - y)]) / 4
    known = torch.rand(1, 30, 34, generator=generator) < 0.5
    pilot = torch.where(known, f, f + 0.08 * torch.randn(2, 30, 34, generator=generator))
    return f, known, pilot


def test_it_corrects_the_pilot_where_it_is_sought(stripes):
    f, known, pilot = stripes
    made = fill_from_similar(Observed(f * known, known, pilot), ~known, 1e-5)
    before, after = ((g - f)[~known.expand(2, -1, -1)].square().mean() for g in (pilot, made))
    assert float(after) < 0.2 * float(before)
    corner = torch.zeros_like(known)
    corner[:, 0, 0] = True
    part = fill_from_similar(Observed(f * known, known, pilot), corner, 1e-5)
    assert torch.equal(part[:, 6:], pilot[:, 6:]) and torch.equal(part[:, :, 6:], pilot[:, :, 6:])


def test_groups_fill_where_the_estimate_moved():
    step = torch.zeros(2, 30, 40)
    step[:, 12, 20], step[0, 12, 30] = 1.0, 0.1
    sought = torch.ones(1, 30, 40, dtype=torch.bool)
    expected = torch.zeros_like(sought)
    expected[:, 10:16, 18:24] = True  # the patches around these entries have the long step
    assert torch.equal(where_moved(step, sought), expected)
    sought[:, 12:] = False
    assert torch.equal(where_moved(step, sought), sought & expected)
    assert torch.equal(where_moved(0 * step, sought), sought)


def test_groups_pass_again_while_hidden_samples_gain(stripes):
    f, known, pilot = stripes
    signal, hidden = masks.Signal(f * known, known, 1.0), ~known
    weights, made = signal.weigh_groups(pilot, pilot, f, hidden)
    torch.testing.assert_close(made, signal.grouped(pilot, pilot, hidden, weights))
    errors = [(g - f)[hidden.expand(2, -1, -1)].square().mean() for g in (signal.from_similar(pilot, hidden), made)]
    assert len(weights) > 1 and float(errors[1]) < 0.8 * float(errors[0])
    for before, after in pairwise(weights):
        assert before.gain >= masks.PASS_GAIN and after.errors[0] == pytest.approx(before.errors[1])
    assert signal.weigh_groups(f, f, f, hidden)[0] == []


def test_frames_of_a_clip_fill_each_other(generator):
    f = torch.rand(1, 1, 24, 24, generator=generator)  # nothing in it repeats
    f = torch.cat([f.roll(2 * t, -1) for t in range(5)], 1)  # but in the next frame, two pixels further
    known = torch.rand(1, 5, 24, 24, generator=generator) < 0.7
    pilot = torch.where(known, f, f + 0.1 * torch.randn(f.shape, generator=generator))
    made = fill_from_similar(Observed(f * known, known, pilot), ~known, 1e-5)
    before, after = ((g - f)[~known].square().mean() for g in (pilot, made))
    assert float(after) < 0.5 * float(before)


@pytest.mark.parametrize("frames", [0, 3])
def test_chunks_do_not_change_it(frames, monkeypatch, stripes):
    f, known, pilot = (torch.stack([x.roll(t, -1) for t in range(frames)], 1) if frames else x for x in stripes)
    observed = Observed(f * known, known, pilot)
    expected = fill_from_similar(observed, ~known, 1e-5)
    monkeypatch.setattr(similar_patches, "FILL_BAND", dict.fromkeys((2, 3), 25 * 4 * 17**2))
    monkeypatch.setattr(similar_patches, "BYTES_AT_ONCE", 7 * 4 * 48 * 2 * 36)
    torch.testing.assert_close(fill_from_similar(observed, ~known, 1e-5), expected)


def test_far_places_are_filled_as_if_all_were_sought(monkeypatch, stripes):
    f, known, pilot = stripes
    observed, sought, sizes = Observed(f * known, known, pilot), torch.zeros_like(known), []
    sought[:, 12, 0] = sought[:, 12, -1] = True
    expected = fill_from_similar(observed, torch.ones_like(known), 1e-5)
    similar = similar_patches.similar
    monkeypatch.setattr(similar_patches, "similar", lambda f, *rest: sizes.append(f.shape[2]) or similar(f, *rest))
    found = fill_from_similar(observed, sought, 1e-5)
    torch.testing.assert_close(found[sought.expand(2, -1, -1)], expected[sought.expand(2, -1, -1)])
    assert len(sizes) == 2 and max(sizes) < 34 / 2 + 8  # places between them cost nothing


def test_the_local_prior_weighs_groups_by_hidden_samples():
    samples = sample(synthetic_photograph(56, 48), "random:0.5")
    prior = Local(rounds=1, stride=4, pilot=Adaptive((Smoothness(1.5, 0.01),), rounds=1))
    made = fit_closed_form(FourierEncoding.like(samples), samples, prior=prior)
    groups = made.report.groups
    assert [passed.against for passed in groups] == ["the patches", "the groups before"][: len(groups)]
    for passed in groups:
        assert 0 < passed.alpha <= 1.2 and passed.hold_out_psnr["local"] > passed.hold_out_psnr["pilot"]


def test_groups_are_weighed_where_patches_gain_nothing(monkeypatch):
    samples = sample(synthetic_photograph(56, 48), "random:0.5")
    prior = Local(rounds=1, stride=4, pilot=Adaptive((Smoothness(1.5, 0.01),), rounds=1))
    nothing, weigh = iter([Weight()]), masks.choose_weight
    monkeypatch.setattr(
        masks, "choose_weight", lambda *given, **options: next(nothing, None) or weigh(*given, **options)
    )
    made = fit_closed_form(FourierEncoding.like(samples), samples, prior=prior)
    pilot = fit_closed_form(FourierEncoding.like(samples), samples, prior=prior.pilot)
    assert made.report.alpha == 0 and made.report.groups[0].against == "the adaptive prior"
    assert made.report.used("local") == "local"
    truth, known = synthetic_photograph(56, 48), samples.geometry.known(3)
    renders = [fit.render(alignment="sample") for fit in (made, pilot)]
    better, before = (psnr(render, truth, ~known) for render in renders)
    assert better > before + 0.1


@pytest.mark.parametrize("pattern", ["every:2", "bayer:RGGB"])
def test_groups_correct_the_patches_of_lattices_and_mosaics(pattern, monkeypatch):
    """A picture that repeats gains; without groups it is what the patches alone say."""
    y, x = torch.meshgrid(torch.arange(40), torch.arange(36), indexing="ij")
    waves = torch.stack([(0.3 * x + 0.2 * y).sin().sign(), (0.2 * x - 0.35 * y).cos().sign(), (x * y / 200).sin()])
    truth = 0.5 + (torch.tensor([[0.9, 0.1, 0.2], [0.8, 0.2, 0.1], [0.9, 0.0, 0.2]]) @ waves.flatten(1)).T / 3
    truth = truth.reshape(40, 36, 3)
    samples = sample(truth, pattern)
    known = samples.geometry.known(3)

    def score():
        made = fit_closed_form(FourierEncoding.like(samples), samples, prior=Local((4, 4), rounds=1))
        render = made.render(alignment="sample")
        torch.testing.assert_close(render[known], truth[known], atol=1e-5, rtol=0)
        return psnr(render, truth, ~known)

    corrected = score()
    monkeypatch.setattr("coordnet.priors.local.masks.fill_from_similar", lambda observed, *_: observed.pilot)
    assert corrected > score() + 0.1
