import pytest
import torch

from coordnet.encodings import FourierEncoding
from coordnet.fitting.closed_form import fit_closed_form, plan
from coordnet.metrics import baselines
from coordnet.metrics.scores import psnr
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.local import Local, classes
from coordnet.priors.local.lattices import interpolated
from coordnet.sampling.patterns import sample
from tests.helpers import synthetic_photograph


def fit(samples, prior=None):
    return fit_closed_form(FourierEncoding.like(samples), samples, prior=prior or Local())


@pytest.mark.parametrize("pattern", ["every:2", "every:3+1", "every:1x2"])
def test_it_beats_linear_interpolation_and_keeps_the_samples(pattern):
    truth = synthetic_photograph(72, 60)
    samples = sample(truth, pattern)
    made = fit(samples)
    render = made.render(alignment="sample")
    known = samples.geometry.known(3)
    torch.testing.assert_close(render[known], truth[known], atol=1e-5, rtol=0)
    assert (
        psnr(render, truth, ~known, data_range=1.0)
        > psnr(baselines.linear(samples), truth, ~known, data_range=1.0) + 0.3
    )
    assert made.render((144, 120)).shape == (144, 120, 3)
    assert made.report.hold_out_psnr["local"] > made.report.hold_out_psnr["pilot"]


def test_parts_of_patches_do_not_change_it(monkeypatch):
    samples = sample(synthetic_photograph(40, 36), "every:2")
    expected = fit(samples).render()
    monkeypatch.setattr(classes, "SHARED", 29 * 4 * 8 * 3 * 64)
    torch.testing.assert_close(fit(samples).render(), expected, atol=1e-4, rtol=0)


def test_noise_is_left_to_linear_interpolation(generator):
    """White noise has no edges that patches could follow."""
    truth = torch.rand(64, 64, 1, generator=generator)
    samples = sample(truth, "every:2")
    known = samples.geometry.known(1)
    render = fit(samples).render(alignment="sample")
    assert (
        psnr(render, truth, ~known, data_range=1.0)
        > psnr(baselines.linear(samples), truth, ~known, data_range=1.0) - 0.02
    )


def test_a_short_lattice_is_interpolated_linearly():
    truth = synthetic_photograph(10, 6)
    samples = sample(truth, "every:3")
    made = fit(samples)
    torch.testing.assert_close(made.render(alignment="sample"), baselines.linear(samples), atol=1e-5, rtol=0)
    assert made.report.alpha == 0


@pytest.mark.parametrize("shape, channels", [((40, 30), 4), ((10, 20, 20), 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_number_of_axes_and_channels(shape, channels, dtype, generator):
    points = torch.stack(torch.meshgrid(*[torch.linspace(0, 1, n) for n in shape], indexing="ij"), -1)
    truth = torch.sin(points @ torch.randn(len(shape), channels, generator=generator) * 9).to(dtype)
    samples = sample(truth, "every:2")
    render = fit(samples, Local(stride=3)).render(alignment="sample")
    known = samples.geometry.known(channels)
    assert render.dtype == dtype
    assert (
        psnr(render, truth, ~known, data_range=1.0)
        > psnr(baselines.linear(samples), truth, ~known, data_range=1.0) - 0.05
    )


def test_a_batch_is_fitted_one_by_one():
    pictures = [synthetic_photograph(40, 36, seed=s) for s in (0, 1)]
    samples = [sample(p, "every:2") for p in pictures]
    made = plan(FourierEncoding.like(samples[0]), samples[0].geometry, Local())
    batch = made.fit(torch.stack([s.values for s in samples])).render()
    torch.testing.assert_close(batch[1], fit(samples[1]).render(), atol=1e-5, rtol=0)


def test_a_strided_row_is_left_to_the_pilot(generator):
    samples, pilot = sample(torch.randn(32, 2, generator=generator), "every:2"), Adaptive(rounds=1)
    assert torch.equal(fit(samples, Local(pilot=pilot)).render(), fit(samples, pilot).render())


def test_noise_on_a_strided_lattice_is_refused():
    samples = sample(synthetic_photograph(24, 24), "every:2")
    with pytest.raises(ValueError, match="`prior`: expected cn.Local.. without noise on a lattice that skips samples"):
        fit(samples, Local(noise=0.1))


@pytest.mark.parametrize("pattern", ["every:2", "every:3+1", "every:5x20"])
@pytest.mark.parametrize("degree, peer", [(1, baselines.linear), (3, baselines.cubic)])
def test_the_splines_that_patches_start_from_are_scipys(pattern, degree, peer):
    signal = torch.rand(41, 40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    samples = sample(signal, pattern)
    torch.testing.assert_close(interpolated(samples, degree).movedim(0, -1), peer(samples), atol=1e-12, rtol=0)
