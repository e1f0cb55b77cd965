"""How far a denoiser is trusted in gaps, by hidden samples."""

import pytest
import torch

import coordnet as cn
from coordnet.plans.hold_out import HeldOut
from coordnet.priors.denoiser.prior import DenoiserPlan
from coordnet.priors.denoiser.trust import BLOCK, LEAST_WEIGHT, count_blocks, relative_step, weight_at_hidden
from coordnet.priors.local.weights import BY_CHANCE, least_squares_weight
from tests.helpers import synthetic_photograph

SIDE = 6 * BLOCK


def held_out(hidden, truth, estimate):
    """An estimate of hidden entries where all others are shown."""
    return HeldOut((slice(0, SIDE), slice(0, SIDE)), truth, ~hidden, hidden, estimate)


def in_blocks(generator):
    """A field that is constant in blocks."""
    return (
        torch.randn(1, SIDE // BLOCK, SIDE // BLOCK, generator=generator)
        .repeat_interleave(BLOCK, 1)
        .repeat_interleave(BLOCK, 2)
    )


@pytest.fixture
def hole():
    hidden = torch.zeros(1, SIDE, SIDE, dtype=torch.bool)
    hidden[:, :, : 2 * BLOCK] = True
    return hidden


def test_errors_that_are_alike_in_a_hole_count_once_a_block(hole, generator):
    """The steps have nothing to do with the errors, which 768 independent ones would show but for chance."""
    weights, counted = [], []
    for _ in range(100):
        error, step = in_blocks(generator), in_blocks(generator)
        known = held_out(hole, torch.zeros_like(error), error)
        weights.append(weight_at_hidden(known, error + step, has_noise=False))
        counted.append(least_squares_weight(known.errors(error), known.errors(error + step), 1))
    assert sum(counted) > 8
    assert sum(weights) < sum(counted) / 2


def test_a_hole_in_one_block_gives_no_weight_and_the_truth_has_all_of_it(hole, generator):
    truth, error = torch.zeros(1, SIDE, SIDE), torch.randn(1, SIDE, SIDE, generator=generator)
    assert weight_at_hidden(held_out(hole, truth, error), truth, has_noise=False) == 1
    small = torch.zeros_like(hole)
    small[:, :BLOCK, :BLOCK] = True
    assert weight_at_hidden(held_out(small, truth, error), truth, has_noise=False) == 0


def test_in_holes_the_gain_is_to_be_more_than_chance_explains_for_as_many_errors_as_blocks(hole, generator):
    """A step by a part of the error lowers its square by what is planted, whatever the error is."""
    truth, error = torch.zeros(1, SIDE, SIDE), torch.randn(1, SIDE, SIDE, generator=generator)
    known, least = held_out(hole, truth, error), BY_CHANCE / (2 * SIDE // BLOCK)
    for fall, weight in ((0.8 * least, 0), (1.2 * least, 1)):
        assert weight_at_hidden(known, (1 - fall) ** 0.5 * error, has_noise=False) == weight
    single = held_out(torch.rand(1, SIDE, SIDE, generator=generator) < 0.3, truth, error)
    assert weight_at_hidden(single, (1 - 0.8 * least) ** 0.5 * error, has_noise=False) == 1


def test_a_small_share_of_large_steps_has_no_weight(generator):
    """The best share of a step, -s times the error and t times what nothing relates to it, is s / (s² + t²)."""
    truth, (error, other) = torch.zeros(1, SIDE, SIDE), torch.randn(2, 1, SIDE, SIDE, generator=generator)
    known = held_out(torch.rand(1, SIDE, SIDE, generator=generator) < 0.5, truth, error)
    for s, share in ((2.0, 0.8 * LEAST_WEIGHT), (2.0, 1.5 * LEAST_WEIGHT)):
        second = error - s * error + (s / share - s**2) ** 0.5 * other
        errors = known.errors(error), known.errors(second)
        assert least_squares_weight(*errors, 1) == pytest.approx(share, rel=0.15)
        given = weight_at_hidden(known, second, has_noise=False)
        assert given == (0 if share < LEAST_WEIGHT else least_squares_weight(*errors, 1))


@pytest.mark.parametrize(("factor", "expected"), [(0.5, 0.5), (1.0, 1.0), (2.0, 1.0)])
def test_a_denoiser_has_less_weight_where_it_changes_less_than_at_hidden_samples(factor, expected, monkeypatch):
    """Its steps are 0.8 of what the estimate without it lacks in hidden gaps, and a multiple of 1 elsewhere."""
    truth, known = synthetic_photograph(48, 48), torch.ones(48, 48)
    known[20:28, 18:28] = 0
    samples = cn.sample(truth, known)
    plan = cn.Denoiser(lambda x, sigma: x).plan(cn.FourierEncoding.like(samples), samples.geometry)
    signal = samples.values.movedim(-1, 0).unsqueeze(0)
    before = cn.Local().plan(cn.FourierEncoding.like(samples), samples.geometry).solve_and_hold_out(signal)
    held_out = before[1]
    size = float(
        (held_out.values - held_out.estimate)[held_out.hidden.expand_as(held_out.values)].square().mean().sqrt()
    )
    steps = iter([0.8 * (held_out.values - held_out.estimate), torch.full_like(held_out.values, 0.8 * factor * size)])
    monkeypatch.setattr(DenoiserPlan, "_filled", lambda _, start, *others: start + next(steps))
    report = plan.solve_and_hold_out(signal, {"local": before})[0].report
    assert report.weight == pytest.approx(expected, rel=1e-3)
    assert relative_step(torch.zeros(3), torch.ones(3)) == 1


def test_channels_share_blocks_and_frames_do_not():
    hidden = torch.zeros(2, 3, 2 * BLOCK, BLOCK, dtype=torch.bool)
    hidden[:, 0, :BLOCK] = hidden[:, 2, 0, 0] = hidden[0, 2, BLOCK, 0] = True
    assert count_blocks(hidden) == 3
