import itertools
import math

import pytest
import torch

from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.encoders import Gaussian
from coordnet.fitting.closed_form import fit_closed_form, plan
from coordnet.metrics.scores import psnr
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.adaptive import plan as adaptive
from coordnet.priors.adaptive.plan import AdaptivePlan
from coordnet.priors.local import Local, classes, masks
from coordnet.priors.local import gaussians as any_mask
from coordnet.priors.local.classes import Channels, LocalClasses, power_laws
from coordnet.priors.local.gaussians import Gaussians, evidence
from coordnet.priors.local.patches import Patches
from coordnet.priors.local.weights import choose_weight
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import Samples
from coordnet.sampling.scattered import ScatteredPoints
from tests.helpers import synthetic_photograph


def fit(samples, prior=None, **options):
    return fit_closed_form(FourierEncoding.like(samples), samples, prior=prior or Local(), **options)


@pytest.fixture
def gaussians(generator):
    roots = torch.randn(3, 6, 9, generator=generator, dtype=torch.float64)
    return Gaussians(roots @ roots.mT, 0.1)


@pytest.fixture(params=["many masks", "two masks", "no entry", "all entries"])
def observed(request, generator):
    """Seven patches of six entries in two columns, what is known of them, and pairs with classes."""
    y = torch.randn(7, 2, 6, generator=generator, dtype=torch.float64)
    known = torch.rand(7, 6, generator=generator) < 0.5
    if request.param == "two masks":
        known = known[torch.arange(7) % 2]
    if request.param == "no entry":
        known[3] = False
    if request.param == "all entries":
        known[2:5] = True
    labels = torch.stack([torch.randperm(3, generator=generator) for _ in range(7)])
    return y, known, labels


def pairs_of(labels):
    """The patch and the class of every pair."""
    return torch.arange(7).repeat_interleave(3), labels.flatten()


@pytest.fixture(params=["one by one", "together", "full masks in blocks", "few masks in blocks"])
def limits(request, monkeypatch):
    """Only full masks are shared, or always where there are few; on a GPU in blocks."""
    shares_few = request.param in ("together", "few masks in blocks")
    monkeypatch.setattr(any_mask, "FEW_MASKS", 3 if shares_few else 0)
    monkeypatch.setattr(any_mask, "FACTORIZED", 24 * 10**6 if shares_few else 24)
    if "blocks" in request.param:
        monkeypatch.setattr(any_mask, "bound_by_launches", lambda device: True)
        monkeypatch.setattr(any_mask, "BLOCK_ON_GPU", 2)
        monkeypatch.setattr(any_mask, "ROUNDED_ON_GPU", 4)


def textbook(gaussians, y, known, label):
    """The posterior mean and covariance of one column by the formulas, and its log density by PyTorch."""
    s, o = gaussians.covariances[label], known.nonzero()[:, 0]
    c = s[o][:, o] + gaussians.noise * torch.eye(len(o), dtype=s.dtype)
    gain = s[:, o] @ torch.linalg.inv(c)
    density = torch.zeros((), dtype=s.dtype)
    if len(o):
        density = torch.distributions.MultivariateNormal(torch.zeros(len(o)).to(s), c).log_prob(y[o])
    return gain @ y[o], s - gain @ s[o], density


def test_evidence_is_the_log_density_of_a_multivariate_normal(gaussians, observed, limits):
    y, known, candidates = observed
    rows, labels = pairs_of(candidates)
    weights = torch.tensor([1.0, 0.4], dtype=torch.float64)
    expected = [
        sum(w * textbook(gaussians, y[i, c], known[i], k)[2] for c, w in enumerate(weights))
        for i, k in zip(rows, labels, strict=True)
    ]
    found = evidence(gaussians.groups(y, known, candidates), weights, len(rows))
    torch.testing.assert_close(found, torch.stack(expected))


def test_the_posterior_is_the_textbook_s(gaussians, observed, limits):
    y, known, candidates = observed
    rows, labels = pairs_of(candidates)
    seen = torch.zeros(len(rows))
    kept = torch.arange(len(rows)) % 4 != 0
    for group in gaussians.groups(y, known, candidates):
        group = group.only(kept)
        mean, variance = gaussians.posterior(group)
        for (g, m), c in itertools.product(itertools.product(*map(range, group.pairs.shape)), range(2)):
            pair = group.pairs[g, m]
            expected = textbook(gaussians, y[rows[pair], c], known[rows[pair]], labels[pair])
            torch.testing.assert_close(mean[g, m, c], expected[0])
            torch.testing.assert_close(variance[g, 0, 0], expected[1].diagonal())
            seen[pair] += 0.5 * group.of(kept.double())[g, m]  # blocks keep all pairs, and repeat some
    assert torch.equal(seen, kept.to(seen))


def test_moments_are_sums_of_posterior_covariances_and_products_of_means(gaussians, observed, limits, generator):
    y, known, candidates = observed
    rows, labels = pairs_of(candidates)
    weights = torch.rand(len(rows), generator=generator, dtype=torch.float64)
    channel_weights = torch.tensor([1.0, 3.0], dtype=torch.float64)
    expected = torch.zeros_like(gaussians.covariances)
    for i, k, w in zip(rows, labels, weights, strict=True):
        for c, share in enumerate((0.25, 0.75)):
            mean, covariance, _ = textbook(gaussians, y[i, c], known[i], k)
            expected[k] += w * share * (mean.outer(mean) + covariance - gaussians.covariances[k])
    moments = gaussians.moments(gaussians.groups(y, known, candidates), weights, channel_weights)
    torch.testing.assert_close(moments, expected)


def test_classes_without_patches_have_no_moments(gaussians, observed):
    y, known, candidates = observed
    groups = gaussians.groups(y, known, torch.ones_like(candidates[:, :1]))
    ones = torch.ones(len(y), dtype=torch.float64)
    moments = gaussians.moments(groups, ones, torch.ones(2, dtype=torch.float64))
    assert moments.abs().amax((1, 2)).gt(0).nonzero().tolist() == [[1]]


def test_patches_that_a_class_misses_leave_its_covariance_positive_definite(generator):
    """A moving edge in a still clip: y is a thousand times the standard deviation in the class's directions."""
    vectors = torch.linalg.qr(torch.randn(24, 24, generator=generator, dtype=torch.float64)).Q
    covariance = (vectors * torch.logspace(0, -6, 24, dtype=torch.float64)) @ vectors.T
    y, known = torch.randn(40, 1, 24, generator=generator), torch.rand(40, 24, generator=generator) < 0.9
    gaussians = Gaussians(covariance.unsqueeze(0).float(), 1e-5)
    groups = gaussians.groups(y, known, torch.zeros(40, 1, dtype=torch.long))
    moments = gaussians.moments(groups, torch.ones(40), torch.ones(1))
    assert float(torch.linalg.eigvalsh((gaussians.covariances + moments / 40).double()).min()) > -1e-6


def test_adaptation_does_not_lower_the_likelihood_with_labels_held(generator):
    """The evidence plus the log of the inverse Wishart prior, from round to round."""
    strength, truth = 5.0, torch.randn(4, 4, generator=generator, dtype=torch.float64)
    x = torch.randn(60, 1, 4, generator=generator, dtype=torch.float64) @ truth
    known = torch.rand(60, 4, generator=generator) < 0.6
    candidates, ones = torch.zeros(60, 1, dtype=torch.long), torch.ones(60, dtype=torch.float64)
    start = torch.eye(4, dtype=torch.float64).unsqueeze(0)
    gaussians, objectives = Gaussians(start, 0.01), []
    for _ in range(8):
        s = gaussians.covariances
        penalty = -0.5 * strength * (torch.logdet(s[0]) + torch.trace(torch.linalg.solve(s[0], start[0])))
        groups = list(gaussians.groups(x, known, candidates))
        objectives.append(float(evidence(groups, ones[:1], 60).sum() + penalty))
        moments = gaussians.moments(groups, ones, ones[:1])
        gaussians = Gaussians((strength * start + 60 * s + moments) / (strength + 60), 0.01)
    assert all(later > earlier for earlier, later in itertools.pairwise(objectives))
    assert objectives[-1] > objectives[0] + 1


@pytest.mark.parametrize("lattice, shape", [((9,), (4,)), ((7, 10), (3, 4)), ((5, 6, 7), (2, 3, 3))])
def test_patches_cover_the_lattice_and_add_is_the_adjoint(lattice, shape, generator):
    every = Patches.every(2, lattice, shape)
    f = torch.randn(2, *lattice, generator=generator, dtype=torch.float64)
    x = torch.randn(len(every), 2, every.size, generator=generator, dtype=torch.float64)
    onto = torch.zeros_like(f)
    every.add((x, onto))
    torch.testing.assert_close((every.of(f) * x).sum(), (f * onto).sum())
    counts = torch.zeros_like(f)
    every.add((torch.ones_like(x), counts))
    assert float(counts.min()) >= 1
    last = f[(0, *(slice(n - p, n) for n, p in zip(lattice, shape, strict=True)))]
    torch.testing.assert_close(every.of(f)[-1, 0], last.flatten())


@pytest.mark.parametrize("shape", [(12,), (4, 5), (2, 3, 3)])
def test_power_laws_are_covariances_without_the_mean(shape):
    laws = power_laws(shape)
    size = math.prod(shape)
    torch.testing.assert_close(laws.diagonal(dim1=1, dim2=2).mean(1), torch.ones(len(laws)).double())
    torch.testing.assert_close(laws.sum(2), torch.zeros(len(laws), size).double(), atol=1e-9, rtol=0)
    assert float(torch.linalg.eigvalsh(laws).min()) > -1e-9


def test_classes_of_a_large_lattice_are_adapted_to_all_of_it_and_not_to_its_middle(monkeypatch):
    """The middle, which decides the weights, has straight edges; waves are around it, which the classes do not know."""
    monkeypatch.setattr(adaptive, "CROP", 576)
    monkeypatch.setattr(masks, "GROUP_SHARES", ())  # groups learn the waves, too
    y, x = torch.meshgrid(torch.arange(72.0), torch.arange(96.0), indexing="ij")
    inner = ((y - 36).abs() < 14) & ((x - 48).abs() < 14)
    truth = 0.5 + 0.4 * torch.where(inner, (0.3 * x).sin().sign(), (1.5 * x - 1.2 * y).sin()).unsqueeze(-1)
    samples = sample(truth, "random:0.5", generator=torch.Generator().manual_seed(2))
    unknown = (samples.weights == 0).squeeze(-1)
    as_begun, adapted = (fit(samples, Local(rounds=n)).render(alignment="sample") for n in (0, 2))
    assert psnr(adapted[unknown], truth[unknown]) > psnr(as_begun[unknown], truth[unknown]) + 0.5


def test_weights_are_the_least_squares_of_hidden_samples(generator):
    hidden = torch.ones(1, 30, 30, dtype=torch.bool)
    hidden[:, ::2, ::2] = False
    values = torch.randn(1, 30, 30, generator=generator)
    first, noise = torch.zeros_like(values), torch.randn(1, 30, 30, generator=generator)
    chosen = choose_weight(hidden, values, first, 2 * values + 0.1 * noise)
    assert chosen.alpha == pytest.approx(0.5, abs=0.02)
    assert chosen.errors[1] < 0.01 * chosen.errors[0]
    assert choose_weight(hidden, values, first, noise).alpha == 0


@pytest.fixture(scope="module")
def quarter():
    truth = synthetic_photograph(72, 60)
    samples = sample(truth, "random:0.25")
    return truth, samples, fit(samples)


def held_out(made, samples, truth):
    return psnr(made.render(alignment="sample"), truth, ~samples.geometry.known(truth.shape[-1]))


def test_it_gains_on_a_picture_with_edges(quarter):
    truth, samples, made = quarter
    assert held_out(made, samples, truth) > held_out(fit(samples, Adaptive()), samples, truth) + 0.3
    assert made.report.hold_out_psnr["local"] > made.report.hold_out_psnr["pilot"]
    assert 0 < made.report.alpha <= 1.2
    known = samples.geometry.known(3)
    torch.testing.assert_close(made.render(alignment="sample")[known], truth[known], atol=1e-5, rtol=0)


def test_it_gains_on_a_clip_in_which_a_picture_moves():
    picture = synthetic_photograph(40, 40, 1)
    truth = torch.stack([picture[5:25, 8 + t : 28 + t] for t in range(8)])
    samples = sample(truth, "random:0.3", generator=torch.Generator().manual_seed(0))
    pilot = Adaptive((Smoothness(2.0, 0.01),), rounds=2)
    made = fit(samples, Local((3, 4, 4), rounds=1, stride=3, pilot=pilot))
    assert held_out(made, samples, truth) > held_out(fit(samples, pilot), samples, truth) + 0.5


@pytest.mark.slow
def test_the_seed_fixes_it_and_chunks_and_threads_do_not_change_it(monkeypatch):
    samples = sample(synthetic_photograph(20, 18), "random:0.4")
    prior = Local((4, 4), rounds=1, pilot=Adaptive((Smoothness(1.5, 0.01),), rounds=1))
    expected = fit(samples, prior).render()
    assert torch.equal(fit(samples, prior).render(), expected)
    monkeypatch.setattr(any_mask, "FACTORIZED", 1700)
    monkeypatch.setattr(classes, "COVARIANCES", 4 * 77 * 5 * 16**2)
    chunked = fit(samples, prior).render()
    torch.testing.assert_close(chunked, expected, atol=2e-3, rtol=0)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    threaded = fit(samples, prior).render()
    torch.set_num_threads(before)
    torch.testing.assert_close(threaded, chunked, atol=2e-4, rtol=0)


def test_it_is_saved_with_its_patches(quarter, tmp_path):
    _, _, made = quarter
    made.save(tmp_path / "model.safetensors")
    loaded = Reconstruction.load(tmp_path / "model.safetensors")
    assert torch.equal(loaded.render(), made.render())
    assert torch.equal(loaded.learned["patch_class"], made.learned["patch_class"])
    assert made.learned["patch_deviation"].shape == made.learned["patch_class"].shape
    assert float(made.learned["patch_deviation"].min()) >= 0


def test_the_variance_at_an_entry_is_the_mean_over_its_patches_by_their_precision(generator):
    values = torch.rand(2, 4, 6, generator=generator)
    known = torch.rand(1, 4, 6, generator=generator) < 0.5
    started = LocalClasses.begin((4, 4), Channels.of(values, known), joint=False)
    observed = started.observe(values, known, values)
    parts = [started.estimate(observed, Patches((4, 6), (4, 4), torch.tensor([corner]))) for corner in (0, 2)]
    first, second = (part.spread for part in parts)
    torch.testing.assert_close(first[..., :4].mean(), parts[0].variances[0])
    assert not first[..., 4:].any() and not second[..., :2].any()
    weights = [1 / (part.spread + started.gaussians.noise) for part in parts]
    both = started.estimate(observed, Patches((4, 6), (4, 4), torch.tensor([0, 2]))).spread
    expected = (weights[0] * first + weights[1] * second) / (weights[0] + weights[1])
    torch.testing.assert_close(both[..., 2:4], expected[..., 2:4])
    torch.testing.assert_close(both[..., :2], first[..., :2])


def test_the_second_stage_is_blind_to_hidden_samples(quarter):
    """The estimate that hidden samples judge does not change with their values."""
    _, samples, _ = quarter
    made = plan(FourierEncoding.like(samples), samples.geometry, Adaptive())
    assert isinstance(made, AdaptivePlan)
    values = made.centered(samples.values).subtracted()
    held = made.solve_and_hold_out(values)[1]
    hidden = held.hidden.expand(1, 3, -1, -1)
    assert 0.05 < float(hidden.sum()) / float(samples.geometry.known(3).sum()) < 0.2
    error = (held.estimate - values[0])[hidden[0]].square().mean()
    assert float(error) > 3 * float(
        (held.estimate - values[0])[samples.geometry.known(3).movedim(-1, 0)].square().mean()
    )


@pytest.mark.parametrize(
    ("shape", "pattern", "channels", "dtype"),
    [
        ((30, 20), "random:0.4", 1, torch.float32),
        ((20, 22), "random:0.4", 4, torch.float64),
        ((5, 6), "random:0.8", 3, torch.float32),
        ((1, 40), "random:0.5", 1, torch.float32),
        ((60,), "random:0.5", 2, torch.float64),
        ((6, 9, 8), "random:0.4", 3, torch.float32),
    ],
)
def test_any_shape_works(shape, pattern, channels, dtype, generator):
    points = torch.stack(torch.meshgrid(*[torch.linspace(0, 1, n) for n in shape], indexing="ij"), -1)
    truth = torch.sin(points @ torch.randn(len(shape), channels, generator=generator) * 9).to(dtype)
    samples = sample(truth, pattern, generator=generator)
    made = fit(samples, Local(rounds=1, pilot=Adaptive(rounds=1)))
    render = made.render(alignment="sample")
    assert render.dtype == dtype
    assert bool(torch.isfinite(render).all())
    known = samples.geometry.known(channels)
    torch.testing.assert_close(render[known], truth[known], atol=1e-5, rtol=0)


def test_a_constant_stays_one():
    samples = sample(torch.full((20, 20, 3), 0.3), "random:0.3")
    render = fit(samples).render()
    torch.testing.assert_close(render, torch.full_like(render, 0.3), atol=1e-4, rtol=0)


@pytest.mark.parametrize("pattern", ["full", "random:0.5", "bayer", "area:2"])
def test_noise_below_rounding_and_beyond_any_range_is_that_of_the_limits(pattern):
    """Float32 tells no noise below a millionth of the range, and none above a million ranges, from these."""
    samples = sample(synthetic_photograph(16, 16), pattern)
    pilot = Adaptive((Smoothness(1.5, 0.01),), rounds=1)
    for extreme, limit in ((1e-300, 1e-30), (1e300, 1e30)):
        priors = (Local((4, 4), rounds=1, pilot=pilot, noise=noise) for noise in (extreme, limit))
        one, other = (fit(samples, prior).render() for prior in priors)
        assert bool(torch.isfinite(one).all())
        torch.testing.assert_close(one, other, atol=1e-4, rtol=0)


def test_one_known_sample_and_all_known_samples():
    truth = synthetic_photograph(16, 16)
    known = torch.zeros(16, 16)
    known[3, 4] = 1
    one = fit(sample(truth, known)).render(alignment="sample")
    torch.testing.assert_close(one, truth[3, 4].expand_as(one), atol=1e-3, rtol=0)
    torch.testing.assert_close(fit(sample(truth, "full")).render(alignment="sample"), truth, atol=1e-5, rtol=0)


def test_masks_that_differ_by_channel(generator):
    truth = synthetic_photograph(32, 32, 1) * torch.tensor([1.0, 0.9, 0.8])
    samples = sample(truth, (torch.rand(32, 32, 3, generator=generator) < 0.5).float())
    pilot = Adaptive((Smoothness(1.5, 0.01),), rounds=2)
    made, adaptive = fit(samples, Local(rounds=1, pilot=pilot)), fit(samples, pilot)
    assert held_out(made, samples, truth) > held_out(adaptive, samples, truth) + 0.1


def test_what_it_refuses():
    samples = sample(synthetic_photograph(16, 16), "random:0.5")
    with pytest.raises(ValueError, match="`encoding`: expected a FourierEncoding"):
        fit_closed_form(ComplexEncoding.like(Gaussian, samples), samples, prior=Local())
    points = Samples(ScatteredPoints((16, 16), torch.rand(40, 2) * 0.9), torch.rand(40, 3))
    with pytest.raises(ValueError, match="`geometry`: expected samples on a lattice"):
        fit(points)
    with pytest.raises(ValueError, match="`patch`: expected 2 lengths"):
        fit(samples, Local(patch=(8,)))
    with pytest.raises(ValueError, match="`strength`"):
        Local(strength=0.0)


def test_channels_are_uncorrelated(generator):
    values = torch.randn(4, 50, generator=generator) * torch.tensor([1.0, 3.0, 0.1, 1.0]).unsqueeze(1)
    channels = Channels.of(values, torch.ones(1, 50, dtype=torch.bool))
    torch.testing.assert_close(channels.basis.T @ channels.basis, torch.eye(4), atol=1e-5, rtol=0)
    assert bool((channels.energies.diff() <= 0).all())
    classes = LocalClasses.begin((4,), channels, joint=True)
    assert classes.gaussians.covariances.shape[1:] == (16, 16)


def test_signals_of_a_batch_may_have_no_use_for_patches():
    pictures = torch.stack([synthetic_photograph(40, 40, 1), torch.full((40, 40, 1), 0.5)])
    samples = sample(pictures[0], "random:0.5", dimensions=2, generator=torch.Generator().manual_seed(0))
    encoding = FourierEncoding.like(samples)
    made = plan(encoding, samples.geometry, Local(rounds=1)).fit(pictures)
    assert "patch_class" not in made.learned
    torch.testing.assert_close(made.render(alignment="sample")[1], pictures[1], atol=1e-5, rtol=0)
