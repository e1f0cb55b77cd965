"""Draws from the posterior, against its mean and covariance in dense matrices."""

import math

import pytest
import torch

import coordnet as cn
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.fitting.closed_form import fit_closed_form, plan
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.plans import posterior
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.local import Local
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.patterns import sample
from tests.helpers import seeded

SMOOTH = Smoothness(1.5, 0.3)
EXACT = {"solver": ConjugateGradients(1e-9)}


def signal(*shape, dtype=torch.float64):
    return torch.rand(*shape, dtype=dtype, generator=seeded(3))


def dense(samples, modes, penalty, rotation):
    """The mean and the covariance (n · channels) of the lattice signal: s² (W + R K Rᵀ)⁻¹, with s² as the fit has it.

    K is the precision of the rotated channels on the padded lattice, R their rotation and W the weights.
    """
    padded, channels = modes.on_padded_grid(), samples.channels
    size = math.prod(padded.lattice)
    inside = (*(slice(0, n) for n in modes.lattice),)
    unit = torch.eye(size, dtype=torch.float64).reshape(size, 1, *padded.lattice)
    penalty = penalty.expand(1, channels, *penalty.shape[2:])
    blocks = [padded.filter(unit, penalty[:, c : c + 1]).reshape(size, size) for c in range(channels)]
    turn = torch.kron(rotation.double().contiguous(), torch.eye(size, dtype=torch.float64))
    precision = turn @ torch.block_diag(*blocks) @ turn.T
    weights, values = torch.zeros(2, channels, *padded.lattice, dtype=torch.float64)
    known = samples.weights if samples.weights is not None else torch.ones(*modes.lattice, 1)
    weights[:, *inside] = known.double().expand_as(samples.values).movedim(-1, 0)
    values[:, *inside] = samples.centered().double() * weights[:, *inside]
    w, y = weights.flatten(), values.flatten()
    covariance = torch.linalg.inv(torch.diag(w) + precision)
    mean = covariance @ (w * y)
    energy = (w * (y - mean).square()) + mean * (precision @ mean)
    kept = torch.zeros_like(weights, dtype=torch.bool)
    kept[:, *inside] = True
    return mean, covariance, energy, w, kept.flatten()


@pytest.fixture
def covariance_of(monkeypatch):
    """The covariance of a fit's draws, which are linear in white noise: the sum over each entry of the noise alone."""

    def covariance_of(fit, *sizes):
        starts = iter((0, sizes[0]))
        count = sum(sizes)

        def entries(shape, like, generator):
            start, size = next(starts), math.prod(shape[1:])
            return torch.eye(count, dtype=like.dtype)[:, start : start + size].reshape(shape)

        monkeypatch.setattr(posterior, "normal", entries)
        deviations = (fit.draw(count) - fit.render(alignment="sample")).movedim(-1, 1).flatten(1)
        return deviations.T @ deviations

    return covariance_of


@pytest.mark.parametrize("pattern", ["full", "random:0.7"])
@pytest.mark.parametrize("fourier", [False, True])
def test_draws_have_the_mean_and_the_covariance_of_the_posterior(pattern, fourier, covariance_of):
    values = signal(9, 1) if fourier else signal(4, 3, 1)
    samples = sample(values, pattern, generator=seeded(1), dimensions=values.ndim - 1)
    encoding = FourierEncoding.like(samples) if fourier else ComplexEncoding.like(cn.Gaussian, samples)
    modes = plan(encoding, samples.geometry, SMOOTH, dtype=torch.float64).modes
    mean, covariance, energy, w, kept = dense(samples, modes, SMOOTH.penalty(modes)[None, None], torch.eye(1))
    fit = fit_closed_form(encoding, samples, SMOOTH, **EXACT)
    assert torch.allclose(fit.render(alignment="sample").flatten(), mean[kept] + samples.mean(), atol=1e-6)
    expected = float(energy.sum() / w.sum()) * covariance[kept][:, kept]
    found = covariance_of(fit, math.prod(modes.on_padded_grid().lattice), values.numel())
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-6 * float(expected.max()))


def test_channels_with_masks_of_their_own_are_drawn_together(covariance_of):
    first = signal(8, 1)
    both = torch.cat([first, 0.7 * first + 0.1 * first.flip(0)], -1)
    samples = sample(both, "entries:0.8", dimensions=1, generator=seeded(1))
    encoding, prior = FourierEncoding.like(samples), Adaptive((Smoothness(1.0, 0.1),), rounds=1, hold_out=0.0)
    fit = fit_closed_form(encoding, samples, prior, **EXACT)
    modes = plan(encoding, samples.geometry, prior, dtype=torch.float64).modes
    _, covariance, energy, w, kept = dense(samples, modes, fit.learned["penalty"], fit.learned["rotation"][0])
    expected = float(energy.sum() / w.sum()) * covariance[kept][:, kept]
    found = covariance_of(fit, 2 * math.prod(modes.on_padded_grid().lattice), both.numel())
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5 * float(expected.max()))


def test_perturbed_solves_have_the_covariance_of_independent_modes(covariance_of):
    values = signal(4, 5, 2)
    encoding = ComplexEncoding.like(cn.Gaussian, sample(values, "full"))
    exact, perturbed = (
        covariance_of(fit_closed_form(encoding, cn.Samples(geometry, values), SMOOTH, **EXACT), 40, 40)
        for geometry in (cn.Lattice((4, 5)), cn.MaskedLattice((4, 5), weights=torch.ones(4, 5, 1)))
    )
    assert torch.allclose(exact, perturbed, atol=1e-6 * float(exact.max()))


def test_known_samples_beside_holes_are_drawn_as_they_are():
    known = torch.ones(16, 16)
    known[4:10, 5:11] = 0
    samples = sample(signal(16, 16, 1), known)
    fit = fit_closed_form(FourierEncoding.like(samples), samples, Adaptive(rounds=1))
    assert "constrained" in fit.report.method
    draws = fit.draw(3)
    assert torch.allclose(draws[:, known > 0], fit.render(alignment="sample")[known > 0], atol=1e-9)
    assert float((draws - fit.render(alignment="sample"))[:, known == 0].std()) > 0.01


@pytest.mark.parametrize(
    ("shape", "pattern", "prior", "dtype"),
    [
        ((20, 2), "random:0.5", SMOOTH, torch.float64),
        ((6, 6, 3), "scattered:0.8", Adaptive((SMOOTH,), rounds=1, hold_out=0.0), torch.float32),
        ((5, 4, 6, 1), "every:2", SMOOTH, torch.float32),
    ],
)
def test_draws_are_signals_on_the_lattice(shape, pattern, prior, dtype):
    samples = sample(signal(*shape, dtype=dtype), pattern, dimensions=len(shape) - 1, generator=seeded())
    fit = cn.fit(samples, prior=prior)
    draws = fit.draw(2, generator=seeded(1))
    assert draws.shape == (2, *shape) and draws.dtype == dtype and not torch.equal(draws[0], draws[1])
    assert torch.equal(draws, fit.draw(2, generator=seeded(1)))


def test_a_local_prior_draws_by_the_spectrum_of_its_pilot():
    samples = sample(signal(16, 16, 1), "random:0.6", generator=seeded())
    pilot = Adaptive((SMOOTH,), rounds=1)
    encoding = FourierEncoding.like(samples)
    local, adaptive = (fit_closed_form(encoding, samples, p) for p in (Local(rounds=0, pilot=pilot), pilot))
    deviations = [fit.draw(2, generator=seeded()) - fit.render(alignment="sample") for fit in (local, adaptive)]
    assert torch.allclose(*deviations, atol=1e-12)


@pytest.mark.filterwarnings("ignore:`prior`. with None:coordnet.CoordnetWarning")
@pytest.mark.parametrize("pattern", ["full", "random:0.5"])
@pytest.mark.parametrize("prior", [None, cn.ThinPlate(2, 1.0), Smoothness(loss="huber")])
def test_a_prior_without_a_normal_stationary_posterior_is_refused(prior, pattern):
    samples = sample(signal(8, 8, 1), pattern)
    with pytest.raises(ValueError, match="`prior`: expected"):
        cn.fit(samples, prior=prior).draw(1)


def test_a_number_of_draws_below_one_is_refused():
    with pytest.raises(ValueError, match="`count`: expected an integer of at least 1"):
        cn.fit(sample(signal(8, 8, 1), "full"), prior=SMOOTH).draw(0)
