import itertools

import pytest
import torch

from coordnet.encodings import FourierEncoding
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.media import load
from coordnet.metrics.scores import psnr
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.local import Local
from coordnet.priors.local import mixture as mixtures
from coordnet.priors.local.classes import COLORFULNESS, joint_shapes
from coordnet.priors.local.demosaicing import FACTORS, bilinear, colors_of, left_out
from coordnet.priors.local.mixture import Mixture, Moments, SharedPatches
from coordnet.priors.local.patches import Observed, Patches, distinct_masks
from coordnet.sampling.grids import is_mosaic
from coordnet.sampling.patterns import sample
from tests.helpers import synthetic_photograph


@pytest.fixture
def mixture(generator):
    roots = torch.randn(2, 6, 9, generator=generator, dtype=torch.float64)
    made = Mixture.begin(roots @ roots.mT, (0.1, 1.0, 4.0), 0.2)
    weights = torch.rand(2, 3, generator=generator, dtype=torch.float64)
    return Mixture(made.shapes, made.energies, weights / weights.sum(), made.noise)


def rows_of(mask):
    """The rows of the identity that a mask of 0 and 1 chooses."""
    return torch.eye(len(mask), dtype=torch.float64)[torch.tensor(mask, dtype=torch.bool)]


PAIRS = torch.kron(torch.eye(3, dtype=torch.float64), torch.full((1, 2), 0.5, dtype=torch.float64))


def twin(mixture, y, matrix, shape, energy):
    """The posterior mean and covariance by the formulas, and the log density by PyTorch."""
    s = float(mixture.energies[energy]) * mixture.shapes[shape]
    c = matrix @ s @ matrix.T + mixture.noise * torch.eye(len(matrix), dtype=s.dtype)
    gain = s @ matrix.T @ torch.linalg.inv(c)
    density = torch.distributions.MultivariateNormal(torch.zeros(len(matrix)).to(s), c).log_prob(y)
    return gain @ y, s - gain @ matrix @ s, density


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("matrix", [rows_of([1, 0, 1, 1, 0, 0]), rows_of([1] * 6), PAIRS])
def test_evidence_means_variances_and_moments_are_the_textbook_s(mixture, matrix, in_blocks, generator, monkeypatch):
    monkeypatch.setattr(mixtures, "MIN_PROBABILITY", 0.0)  # all six classes count
    monkeypatch.setattr(mixtures, "bound_by_launches", lambda device: in_blocks)
    monkeypatch.setattr(mixtures, "BLOCK_ON_GPU", 4)
    view = mixture.view(matrix)
    y = 2 * torch.randn(5, len(matrix), generator=generator, dtype=torch.float64)
    evidence, moments = mixture.evidence(y, view), Moments.zero(mixture)
    shares = (evidence + mixture.weights.log()).flatten(1).softmax(1).unflatten(1, (2, 3))
    sums, mean, second = torch.zeros_like(mixture.shapes), torch.zeros(5, 6).double(), torch.zeros(5, 6, 6).double()
    for i, j, e in itertools.product(range(5), range(2), range(3)):
        x, covariance, density = twin(mixture, y[i], matrix, j, e)
        torch.testing.assert_close(evidence[i, j, e], density)
        products = x.outer(x) + covariance
        sums[j] += shares[i, j, e] * (products / mixture.energies[e] - mixture.shapes[j])
        mean[i] += shares[i, j, e] * x
        second[i] += shares[i, j, e] * products
    found, variance, classes = mixture.posterior(y, view, moments)
    torch.testing.assert_close(found, mean)
    torch.testing.assert_close(variance, second.diagonal(dim1=1, dim2=2) - mean.square())
    assert torch.equal(classes, shares.flatten(1).argmax(1))
    torch.testing.assert_close(moments.sums, sums)
    torch.testing.assert_close(moments.weights, shares.sum(0))
    torch.testing.assert_close(moments.counts, shares.sum((0, 2)))


def test_adaptation_does_not_lower_the_likelihood_of_one_class(generator):
    strength, truth = 5.0, torch.randn(4, 4, generator=generator, dtype=torch.float64)
    x = torch.randn(80, 4, generator=generator, dtype=torch.float64) @ truth
    start = torch.eye(4, dtype=torch.float64).unsqueeze(0)
    mixture, objectives = Mixture.begin(start, (1.0,), 0.01), []
    masks = torch.tensor([[1, 1, 0, 1], [0, 1, 1, 0]], dtype=torch.bool)
    for _ in range(8):
        s, moments, objective = mixture.shapes, Moments.zero(mixture), 0.0
        for mask, part in zip(masks, x.split(40), strict=True):
            view = mixture.view(torch.eye(4, dtype=torch.float64)[mask])
            y = part[:, mask]
            objective += float(mixture.evidence(y, view).sum())
            mixture.posterior(y, view, moments)
        objective -= 0.5 * strength * float(torch.logdet(s[0]) + torch.trace(torch.linalg.solve(s[0], start[0])))
        objectives.append(objective)
        mixture = mixture.updated(moments, start, strength)
    assert all(later > earlier for earlier, later in itertools.pairwise(objectives))


def test_chunks_do_not_change_the_estimate(monkeypatch, generator):
    samples = sample(synthetic_photograph(24, 28), "bayer:RGGB")
    values, known = samples.values.movedim(-1, 0), samples.geometry.known(3).movedim(-1, 0)
    shapes = joint_shapes((4, 4)).float()
    patches = SharedPatches(Observed(values, known, bilinear(values, known)), Patches.every(3, (24, 28), (4, 4)))
    mixture = Mixture.begin(shapes, (1e-3, 1e-2), 1e-5)
    whole = patches.estimate(mixture)
    monkeypatch.setattr("coordnet.priors.local.mixture.EVIDENCE", 7 * 4 * mixture.weights.numel())
    parts = patches.estimate(mixture)
    torch.testing.assert_close(whole.f, parts.f, atol=1e-5, rtol=0)
    torch.testing.assert_close(whole.variances, parts.variances)


def test_every_phase_of_a_mosaic_comes():
    known = sample(torch.zeros(30, 34, 3), "bayer:GRBG").geometry.known(3).movedim(-1, 0)
    for patches in (Patches.every(4, (30, 34), (8, 8)), Patches.shifted(4, ((2, 1), (1, 2), (3, 3)), (30, 34), (8, 8))):
        masks, which = distinct_masks(patches.of(known).flatten(1))
        assert torch.equal(masks[which], patches.of(known).flatten(1))
    assert len(masks) == 4


def test_shapes_are_covariances_and_luma_has_variance_three():
    shapes = joint_shapes((3, 4))
    assert float(torch.linalg.eigvalsh(shapes).min()) > -1e-9
    luma = shapes.unflatten(2, (3, 12)).unflatten(1, (3, 12)).sum((1, 3)) / 3
    variances = (luma - 3 * 0.1).diagonal(dim1=1, dim2=2).mean(1)
    torch.testing.assert_close(variances, torch.full_like(variances, 3))


def test_what_a_mosaic_is(generator):
    bayer = sample(torch.zeros(8, 10, 3), "bayer:RGGB").geometry.weights
    random = (torch.rand(8, 10, 3, generator=generator) < 0.5).float()
    assert is_mosaic(bayer)
    for other in (None, bayer[..., :1], random, torch.zeros(8, 10, 3)):
        assert not is_mosaic(other)


def test_it_gains_over_bilinear_interpolation_and_keeps_the_mosaic():
    truth = synthetic_photograph(33, 40, 1) * torch.tensor([1.0, 0.9, 0.7])
    samples = sample(truth, "bayer:GBRG")
    known = samples.geometry.known(3)
    made = fit_closed_form(FourierEncoding.like(samples), samples, prior=Local())
    render = made.render(alignment="sample")
    simple = bilinear(samples.values.movedim(-1, 0), known.movedim(-1, 0)).movedim(0, -1)
    assert psnr(render, truth, ~known) > psnr(simple, truth, ~known) + 6
    torch.testing.assert_close(render[known], truth[known], atol=1e-5, rtol=0)
    assert made.learned["patch_class"].shape == made.learned["patch_deviation"].shape
    assert made.report.classes == 3 * 26 * 8


@pytest.mark.slow
def test_a_photograph_gains_over_the_adaptive_prior(data):
    truth = load(data / "kodak" / "kodim05.png")[208:240, 308:340].float()
    samples = sample(truth, "bayer:RGGB")
    encoding, known = FourierEncoding.like(samples), samples.geometry.known(3)
    local, adaptive = (fit_closed_form(encoding, samples, prior=prior).render() for prior in (Local(), Adaptive()))
    assert psnr(local, truth, ~known) > psnr(adaptive, truth, ~known) + 2


def test_noise_in_the_mosaic_is_removed(generator):
    truth = synthetic_photograph(24, 24, 1) * torch.tensor([1.0, 0.9, 0.7])
    noisy = truth + 0.03 * torch.randn(truth.shape, generator=generator)
    samples = sample(noisy, "bayer:RGGB")
    encoding = FourierEncoding.like(samples)
    exact, told = (fit_closed_form(encoding, samples, prior=Local((4, 4), noise=s)).render() for s in (0.0, 0.03))
    assert psnr(told, truth) > psnr(exact, truth) + 2


@pytest.mark.parametrize("shape", [(6, 5), (2, 2), (9, 40)])
def test_a_small_mosaic_works(shape):
    samples = sample(synthetic_photograph(*shape), "bayer:RGGB")
    render = fit_closed_form(FourierEncoding.like(samples), samples, prior=Local(rounds=1)).render()
    assert bool(torch.isfinite(render).all())


def test_a_constant_stays_one():
    samples = sample(torch.full((12, 12, 3), 0.3, dtype=torch.float64), "bayer:RGGB")
    render = fit_closed_form(FourierEncoding.like(samples), samples, prior=Local((4, 4))).render()
    torch.testing.assert_close(render, torch.full_like(render, 0.3), atol=1e-6, rtol=0)


def test_errors_of_samples_left_out_are_those_of_refits_without_them(mixture, generator):
    y = 2 * torch.randn(5, 6, generator=generator, dtype=torch.float64)
    found = left_out(mixture, y, mixture.view(torch.eye(6, dtype=torch.float64)))
    classes = mixture.posterior(y, mixture.view(torch.eye(6, dtype=torch.float64)))[2]
    for i, k in itertools.product(range(5), range(6)):
        others = [j for j in range(6) if j != k]
        shape, energy = divmod(int(classes[i]), 3)
        c = mixture.energies[energy] * mixture.shapes[shape] + mixture.noise * torch.eye(6, dtype=torch.float64)
        predicted = c[k, others] @ torch.linalg.solve(c[others][:, others], y[i, others])
        torch.testing.assert_close(found[i, k], y[i, k] - predicted)


def saturated(generator):
    """Luma of a photograph, with colors of their own: smooth noise that is as fine as luma."""
    colors = torch.randn(3, 32, 32, generator=generator)
    fine = torch.nn.functional.avg_pool2d(colors, 3, 1, 1) * 0.25
    return (0.5 + 0.3 * synthetic_photograph(32, 32, 1) + fine.movedim(0, -1)).clamp(0, 1)


@pytest.mark.slow
def test_fine_colors_are_followed_and_those_of_photographs_stay(generator, monkeypatch):
    fine, plain = saturated(generator), synthetic_photograph(32, 32, 1) * torch.tensor([1.0, 0.9, 0.7])
    made, scores = {}, {}
    for name, truth in (("fine", fine), ("plain", plain)):
        samples = sample(truth, "bayer:RGGB")
        made[name] = fit_closed_form(FourierEncoding.like(samples), samples, prior=Local((6, 6)))
        with monkeypatch.context() as context:
            context.setattr("coordnet.priors.local.demosaicing.color_factor", lambda *_: 1.0)
            before = fit_closed_form(FourierEncoding.like(samples), samples, prior=Local((6, 6))).render()
        known = samples.geometry.known(3)
        scores[name] = psnr(made[name].render(), truth, ~known) - psnr(before, truth, ~known)
    assert made["fine"].report.colors > 1 and scores["fine"] > 0.7
    assert made["plain"].report.colors is None and scores["plain"] == 0


def test_colors_as_fine_as_luma_are_no_less_coarse():
    assert colors_of(1.0) == COLORFULNESS
    assert all(low >= high and high <= 1 for factor in FACTORS for low, high in colors_of(10 * factor))
