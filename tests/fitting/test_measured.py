"""Fits of what linear operators measure, against dense solutions and planted answers."""

import math

import pytest
import scipy.ndimage
import scipy.sparse
import torch

import coordnet as cn
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.plans.modes import EncodingModes
from tests.helpers import synthetic_photograph

DOUBLE = torch.float64


def matrix_of(operator):
    size = math.prod(operator.domain)
    units = torch.eye(size, dtype=DOUBLE).reshape(size, *operator.domain)
    return operator(units).reshape(size, -1).T


def operators(lattice, generator):
    psf = torch.rand((3,) * len(lattice), dtype=DOUBLE, generator=generator)
    yield cn.operators.Blur(psf / psf.sum(), lattice)
    yield cn.operators.FourierSamples(torch.rand(lattice, generator=generator) < 0.6)
    yield cn.operators.Derivatives(lattice)
    if len(lattice) > 1:
        yield cn.operators.Projections([0, 30, 75, 120], lattice)


@pytest.mark.parametrize("lattice", [(16,), (6, 5), (3, 4, 3)])
def test_a_smooth_fit_is_the_dense_solution(lattice, generator):
    prior = cn.Smoothness(1.5, 0.1)
    signal = torch.randn(*lattice, 2, dtype=DOUBLE, generator=generator)
    encoding = ComplexEncoding.like(cn.Gaussian, cn.Lattice(lattice))
    modes = EncodingModes(encoding, cn.Lattice(lattice).axes, dtype=DOUBLE)
    unit = torch.eye(math.prod(lattice), dtype=DOUBLE).reshape(-1, 1, *lattice)
    penalty = modes.filter(unit, prior.penalty(modes)).flatten(1)
    for operator in operators(lattice, generator):
        measured = cn.Measurements.of(operator, signal, sigma=0.1, generator=generator)
        s, y = matrix_of(operator), measured.values.flatten(0, -2)
        # A constant costs nothing: the least squares have it beside the penalized signal.
        expected = torch.linalg.lstsq(s.T @ s + penalty, s.T @ y, driver="gelsd").solution.reshape(signal.shape)
        solver = cn.fitting.ConjugateGradients(tolerance=1e-10)
        found = cn.fit_closed_form(encoding, measured, prior, solver=solver).render()
        assert torch.allclose(found, expected, atol=1e-6), type(operator)


def test_operators_of_other_libraries_give_the_same_fit(generator):
    image = synthetic_photograph(8, 7)[..., :1].double()
    blur = cn.operators.Blur(torch.rand(3, 3, dtype=DOUBLE, generator=generator) / 4.5, (8, 7))
    values = cn.Measurements.of(blur, image, sigma=0.01, generator=generator).values
    dense = matrix_of(blur).numpy()

    class Physics:
        A = staticmethod(blur)
        A_adjoint = staticmethod(blur.adjoint)

    prior = cn.Adaptive(rounds=2)
    expected = cn.fit(cn.Measurements(blur, values), prior=prior).render()
    for other in (scipy.sparse.csr_array(dense), scipy.sparse.linalg.aslinearoperator(dense)):
        found = cn.fit(cn.Measurements(other, values.flatten(0, 1), grid=(8, 7)), prior=prior).render()
        assert torch.allclose(found, expected, atol=1e-3)
    physics = cn.fit(cn.Measurements(Physics(), values, grid=(8, 7)), prior=prior).render()
    assert torch.allclose(physics, expected, atol=1e-6)


def planted(lattice, generator, channels=2):
    """A smooth random signal: white noise through a Gaussian."""
    white = torch.randn(channels, *lattice, dtype=DOUBLE, generator=generator)
    k = torch.meshgrid(*(torch.fft.fftfreq(n, dtype=DOUBLE) for n in lattice), indexing="ij")
    kernel = torch.exp(-60 * sum(f.square() for f in k))
    dims = tuple(range(-len(lattice), 0))
    smooth = torch.fft.ifftn(torch.fft.fftn(white, dim=dims) * kernel, dim=dims).real
    return (smooth / smooth.std()).movedim(0, -1)


@pytest.mark.parametrize(("lattice", "dtype"), [((300,), DOUBLE), ((16, 14), torch.float32), ((8, 7, 6), DOUBLE)])
def test_the_adaptive_prior_finds_the_noise_and_beats_a_smooth_one(lattice, dtype, generator):
    signal = planted(lattice, generator).to(dtype)
    psf = torch.ones((3,) * len(lattice), dtype=dtype) / 3 ** len(lattice)
    operator = cn.operators.Blur(psf, lattice, "periodic")
    noisy = cn.Measurements.of(operator, signal, sigma=0.2, generator=generator)
    blind = cn.fit(cn.Measurements(operator, noisy.values))
    assert blind.report.sigma == pytest.approx(0.2, rel=0.25)
    assert blind.render().dtype == dtype

    def error(fit):
        return float((fit.render() - signal).square().mean())

    strengths = (0.03, 0.3)
    given = cn.fit(noisy)
    assert given.report.sigma == pytest.approx(0.2, rel=1e-5)
    assert error(given) < 1.25 * min(error(cn.fit(noisy, prior=cn.Smoothness(1.5, s))) for s in strengths)
    assert error(given) < error(blind) < 4 * error(given)


def test_the_noise_on_few_projections_of_a_smooth_field_is_found(generator):
    """A spectrum that is no power law, and fewer values than nodes: noise may be taken for signal there."""
    white = torch.randn(32, 32, 1, dtype=DOUBLE, generator=generator).numpy()
    smooth = torch.from_numpy(scipy.ndimage.gaussian_filter(white, (1.5, 1.5, 0)))
    operator = cn.operators.Projections([15 * k for k in range(12)], (32, 32))
    noisy = cn.Measurements.of(operator, smooth / smooth.std(), sigma=0.3, generator=generator)
    assert cn.fit(cn.Measurements(operator, noisy.values)).report.sigma == pytest.approx(0.3, rel=0.2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [0, 1])
def test_channels_of_zero_stay_zero(channels, dtype):
    picture = torch.zeros(8, 8, 2, dtype=dtype)
    picture[..., :channels] = synthetic_photograph(8, 8)[..., :channels].to(dtype)
    fit = cn.fit(cn.Measurements.of(cn.operators.Blur(torch.ones(3, 3, dtype=dtype) / 9, (8, 8)), picture))
    assert 0 <= fit.report.sigma < 0.1
    assert not fit.render()[..., channels:].any()


def test_a_lattice_of_one_node_is_refused():
    with pytest.raises(ValueError, match="`grid`: expected more than one node"):
        cn.fit(cn.Measurements(scipy.sparse.eye_array(1), torch.ones(1), grid=(1, 1)))


def test_a_prior_that_was_taught_keeps_its_spectrum(generator):
    blur = cn.operators.Blur(torch.full((3, 3), 1 / 9, dtype=DOUBLE), (12, 10))
    measured = cn.Measurements.of(blur, synthetic_photograph(12, 10).double(), sigma=0.01, generator=generator)
    encoding = FourierEncoding.like(measured)
    solver = cn.fitting.ConjugateGradients(tolerance=1e-9)
    fit = cn.fit_closed_form(encoding, measured, prior=cn.Adaptive(rounds=3), solver=solver)
    taught = cn.Adaptive().taught([(fit.report, fit.learned)])
    again = cn.fit_closed_form(encoding, measured, prior=taught, solver=solver)
    assert again.report.rounds == 0
    torch.testing.assert_close(again.render(), fit.render(), atol=1e-4, rtol=0)


@pytest.mark.slow
def test_weights_leave_values_out(generator):
    """Bad detectors with another mask for each channel; what they say does not matter."""
    signal = planted((16, 14), generator)
    operator = cn.operators.Projections(range(0, 180, 10), (16, 14))
    values = cn.Measurements.of(operator, signal, sigma=0.05, generator=generator).values
    weights = (torch.rand(values.shape, generator=generator) < 0.8).double()
    found = [
        cn.fit(cn.Measurements(operator, torch.where(weights > 0, values, wrong), weights=weights)).render()
        for wrong in (0.0, 9.0)
    ]
    assert torch.allclose(found[0], found[1], atol=1e-9)
    assert float((found[0] - signal).square().mean()) < 0.05


@pytest.mark.slow
def test_a_plan_takes_a_batch(generator):
    signals = torch.stack([planted((12, 10), generator) for _ in range(2)])
    operator = cn.operators.Blur(torch.ones(3, 3, dtype=DOUBLE) / 9, (12, 10))
    each = [cn.Measurements.of(operator, signal, sigma=0.1, generator=generator) for signal in signals]
    encoding = FourierEncoding.like(each[0])
    options = {"solver": cn.fitting.ConjugateGradients(tolerance=1e-5), "dtype": DOUBLE}
    for prior in (cn.Smoothness(1.5, 0.1), cn.Adaptive(rounds=2)):
        plan = cn.plan(encoding, each[0].geometry, prior, **options)
        batch = plan.fit(torch.stack([m.values for m in each])).render()
        for found, m in zip(batch, each, strict=True):
            assert torch.allclose(found, cn.fit_closed_form(encoding, m, prior, **options).render(), atol=2e-3)


def test_a_fit_is_saved_and_loaded(tmp_path, generator):
    measured = cn.Measurements.of(cn.operators.Derivatives((12, 10)), planted((12, 10), generator))
    fit = cn.fit(measured)
    fit.save(tmp_path / "fit.safetensors")
    assert torch.equal(cn.Reconstruction.load(tmp_path / "fit.safetensors").render(), fit.render())


def test_a_strength_is_tuned_by_hidden_values(generator):
    signal = planted((24, 20), generator, 1)
    operator = cn.operators.Blur(torch.ones(3, 3, dtype=DOUBLE) / 9, (24, 20))
    noisy = cn.Measurements.of(operator, signal, sigma=0.2, generator=generator)
    choice = cn.fitting.tune_smoothness(FourierEncoding.like(noisy), noisy).choice
    errors = {p: (cn.fit(noisy, prior=p).render() - signal).square().mean() for p in (choice, cn.Smoothness())}
    assert errors[choice] < errors[cn.Smoothness()]


@pytest.mark.parametrize("options", [{"prior": cn.ThinPlate()}, {"prior": cn.Local()}, {"solver": "gradient"}])
def test_what_cannot_take_an_operator_says_so(options):
    measured = cn.Measurements(cn.operators.Blur(torch.ones(1, 1), (8, 8)), torch.rand(8, 8, 1))
    with pytest.raises(ValueError, match="measurements|samples on a lattice"):
        cn.fit(measured, **options)
