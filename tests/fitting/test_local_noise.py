import pytest
import torch

from coordnet.encodings import FourierEncoding
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.metrics.scores import psnr
from coordnet.priors.local import Local, denoising, similar_patches
from coordnet.priors.local import mixture as mixtures
from coordnet.priors.local.denoising import filter_groups, smoothed, wiener
from coordnet.priors.local.mixture import Mixture, SharedPatches
from coordnet.priors.local.patches import Observed, Patches
from coordnet.priors.local.similar_patches import similar
from coordnet.sampling.patterns import sample
from tests.helpers import synthetic_photograph


def fit(noisy, sigma, **options):
    samples = sample(noisy, "full")
    return fit_closed_form(FourierEncoding.like(samples), samples, prior=Local(noise=sigma, **options))


@pytest.mark.parametrize(
    "lattice, starts, patch, reach",
    [
        ((20, 23), ([0, 9, 16], [0, 11, 19]), (4, 4), (12, 12)),
        ((6, 9, 10), ([0, 4], [0, 3, 6], [5, 7]), (2, 3, 3), (2, 4, 3)),
    ],
)
def test_similar_patches_are_those_of_least_squared_difference(lattice, starts, patch, reach, generator):
    guide = torch.randn(2, *lattice, generator=generator)
    starts = [torch.tensor(at) for at in starts]
    found = similar(guide, starts, patch, reach)
    patches = Patches.every(1, lattice, patch)
    corners = torch.stack(torch.unravel_index(patches.corners, lattice), 1)
    entries = patches.of(guide).flatten(1)
    for reference, group in zip(torch.cartesian_prod(*starts), found, strict=True):
        own = entries[(corners == reference).all(1)]
        distance = (entries - own).square().sum(1)
        distance[((corners - reference).abs() > torch.tensor(reach)).any(1)] = torch.inf
        assert set(patches.corners[distance.argsort()[: similar_patches.GROUP]].tolist()) == set(group.tolist())


@pytest.mark.parametrize("count, size", [(5, 9), (9, 5)])
def test_the_filter_is_wiener_s(count, size, generator):
    y, x = torch.randn(2, 3, count, size, generator=generator, dtype=torch.float64)
    noise = torch.tensor([0.49, 0.1, 2.0], dtype=torch.float64)
    found, weight = wiener(y, x, noise)
    for i in range(3):
        covariance = torch.cov(x[i].T, correction=0)
        gain = torch.linalg.solve(covariance + noise[i] * torch.eye(size), covariance)
        torch.testing.assert_close(found[i], x[i].mean(0) + (y[i] - x[i].mean(0)) @ gain)
        torch.testing.assert_close(weight[i], 1 / (1 + gain.trace()))


@pytest.mark.parametrize("lattice, patch", [((60, 30), (5, 5)), ((7, 40, 12), (3, 4, 4))])
def test_bands_do_not_change_the_filter(lattice, patch, monkeypatch, generator):
    noisy = torch.rand(1, *lattice, generator=generator)
    variance = 0.01 + 0.02 * torch.rand(lattice, generator=generator)
    whole = filter_groups(noisy, noisy, variance, patch)
    monkeypatch.setattr(denoising, "BAND", dict.fromkeys((2, 3), 500 * 4 * 25**2 // 16))
    torch.testing.assert_close(filter_groups(noisy, noisy, variance, patch), whole)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("sigma", [0.05, 0.2])
def test_it_removes_noise_from_pictures(channels, sigma, generator):
    truth = synthetic_photograph(64, 60, 1).expand(-1, -1, channels)
    noisy = truth + sigma * torch.randn(truth.shape, generator=generator)
    made = fit(noisy, sigma)
    assert psnr(made.render(), truth) > psnr(noisy, truth) + 9
    assert "groups" in made.report.method


@pytest.mark.parametrize("shape, channels", [((200,), 2), ((12, 14, 16), 1), ((30, 20), 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_shape_works(shape, channels, dtype, generator):
    points = torch.stack(torch.meshgrid(*[torch.linspace(0, 1, n) for n in shape], indexing="ij"), -1)
    truth = torch.sin(points @ torch.randn(len(shape), channels, generator=generator) * 4).to(dtype)
    noisy = truth + 0.2 * torch.randn(truth.shape, generator=generator, dtype=dtype)
    render = fit(noisy, 0.2, rounds=1).render()
    assert render.dtype == dtype
    assert float((render - truth).square().mean()) < float((noisy - truth).square().mean())


@pytest.mark.parametrize("shape", [(5, 4), (1, 1), (8, 1)])
def test_a_small_picture_works(shape, generator):
    render = fit(torch.rand(*shape, 3, generator=generator), 0.2).render()
    assert bool(torch.isfinite(render).all())


def test_a_constant_is_found_below_its_noise(generator):
    render = fit(0.4 + 0.1 * torch.randn(40, 40, 3, generator=generator), 0.1).render()
    assert float((render - 0.4).square().mean().sqrt()) < 0.02


def mixture_of(patch, count, noise, generator):
    """A mixture of random shapes, of which no class is ever neglected."""
    factors = torch.randn(count, patch, patch, generator=generator, dtype=torch.float64)
    return Mixture.begin(factors @ factors.mT / patch, (0.2, 1.0), noise)


def observed(values, pilot):
    return Observed(values, torch.ones_like(values[:1], dtype=torch.bool), pilot)


def test_a_signal_with_less_noise_is_the_scaled_problem(generator):
    mixture = mixture_of(9, 3, 0.3, generator)
    y, pilot = torch.randn(2, 1, 10, 11, generator=generator, dtype=torch.float64)
    patches = Patches.every(2, (10, 11), (3, 3))
    quarter = torch.full_like(y, 0.3 / 4)
    found = SharedPatches(observed(y, pilot), patches, quarter).estimate(mixture)
    twin = SharedPatches(observed(2 * y, 2 * pilot), patches).estimate(mixture)
    torch.testing.assert_close(2 * found.f, twin.f)
    torch.testing.assert_close(4 * found.spread, twin.spread)


def test_the_spread_is_the_derivative_times_the_variance(monkeypatch, generator):
    monkeypatch.setattr(mixtures, "MIN_PROBABILITY", 0.0)
    mixture = mixture_of(6, 3, 0.3, generator)
    y = torch.randn(1, 2, 3, generator=generator, dtype=torch.float64)

    def estimate(y):
        return SharedPatches(observed(y, torch.zeros_like(y)), Patches.every(1, (2, 3), (2, 3))).estimate(mixture)

    step = 1e-5 * torch.eye(6, dtype=torch.float64).reshape(6, 1, 2, 3)
    derivative = [(estimate(y + h).f - estimate(y - h).f)[h > 0] / 2e-5 for h in step]
    torch.testing.assert_close(estimate(y).spread.flatten(), 0.3 * torch.cat(derivative), rtol=1e-6, atol=1e-8)


def test_means_of_neighbors_keep_lines_inside_and_short_axes():
    line = torch.arange(9.0).expand(1, 2, 9)
    assert torch.equal(smoothed(line)[..., 2:-1], line[..., 2:-1] - 0.5)
    assert smoothed(torch.ones(2, 4, 5, 1)).eq(1).all()
