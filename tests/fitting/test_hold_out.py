"""Which samples are hidden."""

import pytest
import torch

from coordnet.encodings import FourierEncoding
from coordnet.fitting.closed_form import fit_closed_form, plan
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.adaptive.plan import AdaptivePlan
from coordnet.priors.local import Local
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.gap_copies import hide_under_gaps
from coordnet.sampling.patterns import sample
from tests.helpers import seeded, synthetic_photograph


@pytest.mark.parametrize("share", [0.05, 0.1, 0.3])
def test_samples_stay_where_the_mask_was_drawn_from_the_seed_of_the_hidden_ones(share):
    """The first draw would hide each known point, as all numbers below 0.03 are below the share."""
    known = torch.rand(96, 96, generator=seeded()) < 0.03
    measurement = ForwardModel.mask(known.float()[None, None])
    hidden = measurement.hide(share, seeded(), measurement.weights)
    assert hidden is not None
    assert bool((hidden[0, 0] <= known).all())
    assert 0.5 * share < float(hidden.sum()) / int(known.sum()) < 2 * share


def test_the_local_prior_is_weighed_where_the_mask_was_drawn_from_its_seed():
    truth = synthetic_photograph(48, 48, 1)
    samples = sample(truth, (torch.rand(48, 48, generator=seeded()) < 0.03).float())
    prior = Local(rounds=1, stride=4, pilot=Adaptive(rounds=1, seed=0))
    report = fit_closed_form(FourierEncoding.like(samples), samples, prior=prior).report
    assert set(report.hold_out_psnr) == {"pilot", "local"}


@pytest.mark.parametrize("end", [0, 30])
def test_gaps_at_one_end_of_a_row_are_hidden_at_the_opposite_one(end):
    known = torch.ones(37, dtype=torch.bool)
    known[end : end + 7] = False
    weights = known.float()[None, None]
    hidden = ForwardModel.mask(weights).hide(0.1, seeded(), weights)
    assert torch.equal(hidden[0, 0] > 0, ~known.flip(0))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("smoother", ["inside", "outside"])
def test_copies_of_a_hole_lie_where_the_signal_varies_as_around_the_hole(seed, smoother):
    """A square of a quarter of the nodes has a tenth of the amplitude of the rest, or ten times that."""
    values = torch.randn(1, 2, 96, 96, generator=seeded(seed))
    values[..., 48:, 48:] *= 0.1 if smoother == "inside" else 10.0
    weights = torch.ones(1, 1, 96, 96)
    weights[..., 64:76, 60:74] = 0
    values[(weights == 0).expand_as(values)] = torch.nan
    hidden = ForwardModel.mask(weights).hide(0.1, seeded(seed), values)
    assert hidden is not None
    assert bool((hidden * (1 - weights) == 0).all())
    assert float(hidden[..., 48:, 48:].sum()) > 0.85 * float(hidden.sum()) >= 0.85 * 0.8 * 12 * 14


@pytest.mark.parametrize(("size", "fewest", "most"), [(8, 3, 3), (16, 2, 3), (24, 1, 1)])
def test_copies_of_a_hole_are_hidden_where_they_leave_most_points(size, fewest, most):
    """The largest hole has a seventh of the points, so that two copies would take three tenths of the others."""
    known = torch.ones(64, 64, dtype=torch.bool)
    known[20 : 20 + size, 24 : 24 + size] = False
    values = torch.randn(1, 1, 64, 64, generator=seeded())
    hidden = ForwardModel.mask(known.float()[None, None]).hide(0.1, seeded(), values)
    assert hidden is not None
    assert 0.8 * fewest <= float(hidden.sum()) / size**2 <= most


@pytest.mark.parametrize("seed", range(8))
def test_whole_frames_are_hidden_between_others_or_at_the_ends_as_they_are_missing(seed):
    known = torch.ones(1, 12, 5, 6, dtype=torch.bool)
    known[:, [2, 5, 6]] = False
    inner = hide_under_gaps(known, seeded(seed))
    known = torch.ones(1, 12, 5, 6, dtype=torch.bool)
    known[:, 9:] = False
    outer = hide_under_gaps(known, seeded(seed))
    assert inner is not None and outer is not None
    assert 0 < int(inner.sum()) and not bool(inner[:, [0, 11]].any())
    assert 0 < int(outer.sum()) and not bool(outer[:, 1:8].any())


@pytest.mark.parametrize("last", [16, 17])
def test_every_second_frame_is_hidden_where_frames_are_missing_at_equal_steps(last):
    known = torch.zeros(1, last + 1, 5, 6, dtype=torch.bool)
    known[:, 1::3] = known[:, last] = True
    drawn = [hide_under_gaps(known, seeded(seed)) for seed in range(8)]
    assert all(
        hidden is not None and bool((hidden.flatten(2).all(-1) == hidden.flatten(2).any(-1)).all()) for hidden in drawn
    )
    frames = {tuple(hidden[0].flatten(1).any(1).nonzero().flatten().tolist()) for hidden in drawn}
    assert frames == {(4, 10), (7, 13)} if last == 16 else {(4, 10, 16), (7, 13)}


def test_what_is_hidden_has_the_shape_of_holes_and_not_of_the_padding():
    """The lattice is padded to an even length or more, so that the border of the padding is unknown too."""
    known = torch.ones(40, 44)
    known[5:12, 6:14] = known[22:30, 25:35] = 0
    samples = sample(synthetic_photograph(40, 44, 1), known)
    made = plan(FourierEncoding.like(samples), samples.geometry, Adaptive())
    assert isinstance(made, AdaptivePlan)
    held = made.solve_and_hold_out(made.centered(samples.values).subtracted())[1]
    assert held is not None
    assert 0 < int(held.hidden.sum()) <= 3 * int((known == 0).sum())
    assert bool((held.hidden[0] <= (known > 0)).all())
