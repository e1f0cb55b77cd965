"""The errors to expect far inside gaps."""

import pytest
import torch

import coordnet as cn
from coordnet.plans.gap_depths import FAR_STEPS, WIDE, are_wide, depths, error_in_gaps


def square(side, lattice=(60, 80), corner=(10, 10)):
    """All points but those of a square."""
    known = torch.ones(1, *lattice, dtype=torch.bool)
    known[:, corner[0] : corner[0] + side, corner[1] : corner[1] + side] = False
    return known


def test_depths_are_steps_to_the_nearest_known_point():
    expected = [min(k, 8 - k) for k in range(1, 8)]
    assert depths(square(7))[0, 13, 10:17].tolist() == expected
    assert are_wide(square(24)) and not are_wide(square(17))
    assert not are_wide(torch.rand(1, 60, 80, generator=torch.Generator().manual_seed(0)) < 0.3)


@pytest.mark.parametrize("shape", [(1, 400), (2, 50, 60), (1, 30, 33, 28)])
def test_gaps_are_wide_by_the_share_of_their_depths(shape):
    """Compare with the depths themselves, for masks from all known to none, on both sides of the limit."""
    generator, answers = torch.Generator().manual_seed(0), set()
    for power in torch.linspace(0, 4, 41).tolist():
        known = torch.rand(shape, generator=generator) < 10**-power
        inside = depths(known)[~known.numpy()]
        answers.add(are_wide(known))
        assert are_wide(known) == (inside.size > 0 and (inside > FAR_STEPS).mean() > WIDE)
    assert answers == {True, False}


def test_the_error_in_a_gap_is_the_mean_of_a_hidden_copy_and_unknown_where_the_copy_is_narrower():
    known, copy = square(24), ~square(24, corner=(20, 45))
    squared = torch.rand(3, 60, 80, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mean = float(squared[:, copy[0]].mean())
    assert error_in_gaps(known, known & ~copy, squared, copy) == pytest.approx(mean)
    narrow = ~square(9, corner=(20, 45))
    assert error_in_gaps(known, known & ~narrow, squared, narrow) is None


def test_errors_grow_with_the_depth_and_are_weighed_by_the_depths_of_the_gap():
    """A copy that the border cuts has fewer deep points than the gap."""
    known, copy = square(24), ~square(24, corner=(20, 65))
    error = torch.from_numpy(depths(known & ~copy)).double()
    expected = float(depths(known)[~known.numpy()].mean())
    found = error_in_gaps(known, known & ~copy, error, copy)
    assert found == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("prior", [cn.Adaptive(), cn.Local(rounds=1)])
def test_inpainting_expects_the_error_inside_holes_or_says_that_it_is_unknown(prior):
    """The picture is alike everywhere, as a lawn is."""
    noise = torch.randn(1, 108, 112, generator=torch.Generator().manual_seed(0))
    lawn = 0.5 + torch.nn.functional.avg_pool2d(noise, 13, 1).movedim(0, -1)
    known = square(30, (96, 100), (33, 35))[0]
    made = cn.inpaint(lawn, known, prior=prior)
    assert made.report.wide_holes and made.report.prior == "adaptive"
    assert made.expected_psnr == pytest.approx(cn.psnr(made.signal[~known][None], lawn[~known][None]), abs=2.5)
    most = square(88, (96, 100), (4, 6))[0]
    assert cn.inpaint(torch.where(most.unsqueeze(-1), lawn, 0.0), most, prior=prior).expected_psnr is None
