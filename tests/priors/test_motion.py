"""Missing frames of clips: against planted motion, and how frames follow from the flow."""

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter, map_coordinates

import coordnet as cn
from coordnet.encodings import FourierEncoding
from coordnet.priors import motion
from tests.helpers import synthetic_photograph


def pan(step, frames=9, side=32):
    """Return a gray clip of a camera that moves by a step (rows, columns) a frame."""
    picture = synthetic_photograph(96, 96, 1)[..., 0].double().numpy()
    at = np.indices((side, side)) + 32.0
    shifts = [np.multiply(step, t - frames // 2)[:, None, None] for t in range(frames)]
    clip = np.stack([map_coordinates(picture, at + shift, order=5) for shift in shifts])
    return torch.from_numpy(clip).float().unsqueeze(-1)


def missing(clip, frames):
    known = torch.ones(clip.shape[:3])
    known[list(frames)] = 0
    return cn.sample(clip, known)


def error(clip, found, frames, margin=4):
    inner = (list(frames), slice(margin, -margin), slice(margin, -margin))
    return float((found[inner] - clip[inner]).square().mean().sqrt())


def test_frames_of_a_pan_are_moved_halfway_and_on_beyond_the_last():
    clip, frames = pan((0.4, 1.7)), (1, 3, 5, 8)
    samples = missing(clip, frames)
    found = cn.fit(samples, prior=cn.Motion()).render(alignment="sample")
    torch.testing.assert_close(found[0], clip[0])
    for frame in frames:
        assert error(clip, found, [frame]) < 0.01
    assert error(clip, (clip[0] + clip[2]).expand_as(clip) / 2, [1]) > 0.02


def test_frames_of_a_pan_are_good_at_the_borders_too():
    clip = pan((0.0, 2.6), frames=15)
    found = cn.fit(cn.sample(clip, "every:2x1x1"), prior=cn.Motion()).render(alignment="sample")
    at_border = (found - clip)[1::2, :, [0, 1, -2, -1]]
    assert float(at_border.square().mean().sqrt()) < 0.025  # 0.045 without regard to what is in view


def test_frames_follow_from_the_flow_at_uneven_times(monkeypatch):
    """A planted flow of whole nodes: frames are shifted by their share of the way, where that leads to a place in view.

    So are the two as they are, and each pair counts by the inverse of its mean squared difference nearby.
    """
    monkeypatch.setattr(motion, "_flow", lambda f, g: np.full((2, 6, 8), 4.0 if f.mean() < g.mean() else -4.0))
    f = torch.zeros(1, 4, 6, 8, dtype=torch.float64)
    f[0, 0], f[0, 2] = (
        torch.rand(6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + k for k in (0, 5)
    )
    seen = np.array([True, False, True, False])
    made, _ = motion.moved(f, seen, np.array([0.0, 1.0, 4.0, 5.0]))
    first, last = f[0, 0].numpy(), f[0, 2].numpy()
    rows, columns = np.indices((6, 8))

    def shifted(g, by):
        return g[np.clip(rows + by, 0, 5), np.clip(columns + by, 0, 7)]

    starts, ends = shifted(first, -1), shifted(last, 3)
    in_first, in_last = (rows >= 1) & (columns >= 1), (rows <= 2) & (columns <= 4)
    inside = np.where(in_first & in_last, 1.0, motion.OUT_OF_VIEW)
    differ = gaussian_filter(inside * (starts - ends) ** 2, 2.0) / gaussian_filter(inside, 2.0)
    weights = 1 / np.where(inside == 1, differ, 4 * differ), 1 / gaussian_filter((first - last) ** 2, 2.0)
    share = np.where(in_first == in_last, 0.25, in_last)
    pairs = (1 - share) * starts + share * ends, 0.75 * first + 0.25 * last
    between = sum(w * pair for w, pair in zip(weights, pairs, strict=True)) / sum(weights)
    np.testing.assert_allclose(made[0, 1], between, atol=1e-9)
    np.testing.assert_allclose(made[0, 3], shifted(last, -1), atol=1e-9)
    assert torch.equal(made[:, [0, 2]], f[:, [0, 2]])


def test_a_flow_follows_what_comes_into_view():
    clip = pan((0.0, 3.0), frames=2)[..., 0].double().numpy()
    flow = motion._flow(clip[0], clip[1])
    np.testing.assert_allclose(flow[1], -3.0, atol=0.5)
    np.testing.assert_allclose(flow[0], 0.0, atol=0.5)


@pytest.mark.parametrize(("near", "farther", "reduction"), [(0.1, 0.4, 0.5), (0.1, 0.05, 1.0), (0.3, 0.4, 1.0)])
def test_hidden_errors_are_reduced_as_differences_of_moved_frames_are(monkeypatch, near, farther, reduction):
    def planted(f, seen, times):
        return f + 1, near if len(seen) == 9 else farther

    monkeypatch.setattr(motion, "moved", planted)
    samples = cn.sample(torch.rand(9, 8, 8, 1), "every:2x1x1")
    plan = cn.Motion().plan(FourierEncoding.like(samples), samples.geometry)
    held = plan.solve_and_hold_out(samples.values.movedim(-1, 0).unsqueeze(0))[1]
    torch.testing.assert_close(held.errors(held.estimate), torch.full((128,), reduction, dtype=torch.float64))


def test_differences_of_moved_frames_are_a_small_part_of_those_of_a_pan():
    f = pan((0.3, 1.4), frames=5).movedim(-1, 0)
    seen = np.array([True, False, True, False, True])
    assert 0 < motion.moved(f, seen, np.arange(5.0))[1] < 0.05
    assert motion.moved(f[:, [0, 1, 0, 1, 0]], seen, np.arange(5.0))[1] == 0


def test_frames_across_a_cut_are_not_moved():
    before, after = pan((0.0, 0.0), frames=3)[0, ..., 0].double(), torch.rand(32, 32, dtype=torch.float64)
    f = torch.stack([before, torch.zeros_like(before), after]).unsqueeze(0)
    made = motion.moved(f, np.array([True, False, True]), np.arange(3.0))[0][0, 1]
    errors = [float((x - before).square().mean()) for x in (made, (before + after) / 2)]
    assert errors[0] < 1.1 * errors[1]


def test_a_clip_that_skips_frames_is_as_one_with_these_missing():
    clip = pan((0.3, 2.6), frames=15)
    skips, gaps = cn.sample(clip, "every:2x1x1"), missing(clip, range(1, 15, 2))
    found, expected = (cn.fit(samples, prior=cn.Motion()).render(alignment="sample") for samples in (skips, gaps))
    assert float((found - expected).square().mean().sqrt()) < 1e-3  # a flow near a border hangs on rounding
    fit = cn.fit(skips)
    assert [candidate.prior for candidate in fit.report.candidates if candidate.weight > 0.5] == ["motion"]
    assert error(clip, fit.render(alignment="sample"), range(1, 15, 2)) < 0.02


@pytest.mark.parametrize("known", [3, 5])
def test_the_default_takes_motion_where_few_frames_of_a_pan_are_known(known):
    clip = pan((0.3, 1.4), frames=3 * known - 2)
    fit = cn.fit(cn.sample(clip, "every:3x1x1"))
    assert [candidate.prior for candidate in fit.report.candidates if candidate.weight > 0.5] == ["motion"]


def test_the_default_takes_motion_where_frames_of_a_pan_are_missing():
    clip, frames = pan((0.3, 2.6), frames=15), (1, 3, 5, 7, 9, 11, 13)
    found = cn.inpaint(clip, missing(clip, frames).geometry.weights[..., 0])
    weights = {candidate.prior: candidate.weight for candidate in found.report.fit.candidates}
    assert weights["motion"] > 0.5 and error(clip, found.signal, frames) < 0.02


def test_what_does_not_suit_is_refused():
    plane, clip = cn.sample(torch.rand(6, 6, 1), "random:0.5"), pan((0.0, 0.0), frames=5, side=8)
    with pytest.raises(ValueError, match="`geometry`: expected frames of two axes in time"):
        cn.fit(plane, prior=cn.Motion())
    with pytest.raises(ValueError, match="`geometry`: expected frames of two axes in time"):
        cn.fit(cn.sample(clip, "every:2"), prior=cn.Motion())
    with pytest.raises(ValueError, match="`geometry`: expected two frames with samples"):
        cn.fit(missing(clip, range(1, 5)), prior=cn.Motion())
    with pytest.raises(ValueError, match="`times`: expected increasing"):
        cn.Motion(times=(0.0, 0.0))
