import warnings

import pytest
import torch

from coordnet.encodings import ComplexEncoding, SimpleEncoding
from coordnet.encodings.encoders import Encoder, Gaussian, LogFourier, Triangle
from coordnet.encodings.kinds import ENCODERS
from coordnet.fitting.closed_form import fit_closed_form, plan
from coordnet.linalg.kronecker import RankWarning
from coordnet.media import load
from coordnet.metrics.scores import psnr
from coordnet.priors.least_squares import LeastSquares
from coordnet.sampling.grids import Lattice
from coordnet.sampling.patterns import sample
from tests.helpers import dense_least_squares


def fit(encoder, samples, prior=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)
        return fit_closed_form(ComplexEncoding.like(encoder, samples), samples, prior, **options)


ONE_AXIS = [name for name, encoder in ENCODERS.items() if issubclass(encoder, Encoder)]


@pytest.mark.parametrize("name", ONE_AXIS)
@pytest.mark.parametrize("grid", [(17,), (6, 5, 7), (2, 3, 2, 3, 2)])
def test_fits_equal_the_dense_solve(name, grid, generator):
    """The same system, formed and solved in float64, in one to five axes."""
    signal = torch.rand(*grid, 2, generator=generator, dtype=torch.float64)
    samples = sample(signal, "every:2")
    encoding = ComplexEncoding.like(ENCODERS[name], samples)
    if not all(bool(a.any()) for a in encoding.matrices(samples.geometry.axes)):
        with pytest.raises(ValueError, match="no feature reaches a sample"):
            fit(ENCODERS[name], samples)
        return
    made = fit(ENCODERS[name], samples, LeastSquares(rcond=1e-9))
    designs = made.network.encoding.matrices(samples.geometry.axes)
    mean = samples.values.flatten(0, -2).mean(0)
    weights = dense_least_squares(designs, (samples.values - mean).movedim(-1, 0), rcond=1e-9)
    fine = made.network.encoding.matrices(tuple(Lattice(grid).axes))
    dense = torch.stack([_lattice(w, fine) for w in weights], dim=-1) + mean
    assert torch.allclose(made.render(), dense, atol=1e-7)


def _lattice(weights, designs):
    letters = "abcde"[: len(designs)]
    terms = ",".join(f"{letter.upper()}{letter}" for letter in letters)
    return torch.einsum(f"{letters},{terms}->{letters.upper()}", weights, *designs)


@pytest.mark.parametrize("name", ["gaussian", "linf", "logf", "rff"])
def test_wide_bases_stay_finite_and_warn(name):
    """Far beyond the spacing every basis is ill-conditioned; the answer is finite and the axis named."""
    encoder = ENCODERS[name]
    parameter = encoder.scales[0]
    wide = "30px" if parameter.unit == "length" else "0.03/px"
    samples = sample(torch.rand(64, 64, 1), "full")
    encoding = ComplexEncoding.like(encoder, samples, **{parameter.name: wide})
    with pytest.warns(RankWarning, match=r"axis \d has numerical rank \d+ of 64 samples by 64 features"):
        made = fit_closed_form(encoding, samples)
    estimate = made.render((128, 128))
    assert bool(torch.isfinite(estimate).all())
    assert float(estimate.abs().max()) < 10


def test_a_plan_fits_many_signals_at_once(generator):
    signals = torch.rand(2, 3, 8, 6, 2, generator=generator)
    geometry = Lattice((16, 12), (2, 2))
    made = plan(ComplexEncoding.like(Gaussian, geometry), geometry)
    together = made.fit(signals)
    assert together.render().shape == (2, 3, 16, 12, 2)
    points = torch.rand(5, 2, generator=generator)
    for i in range(2):
        for j in range(3):
            alone = made.fit(signals[i, j])
            assert torch.allclose(together.render()[i, j], alone.render(), atol=1e-5)
            assert torch.allclose(together(points)[i, j], alone(points), atol=1e-5)


def test_gradients_flow_from_the_values_to_the_render(generator):
    geometry = Lattice((6, 4))
    made = plan(ComplexEncoding.like(Gaussian, geometry), geometry, dtype=torch.float64)
    values = torch.rand(6, 4, 1, dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: made.fit(v).render((7, 9)), (values,))


def test_triangles_on_the_samples_are_linear_interpolation(generator):
    row = torch.rand(9, 1, dtype=torch.float64, generator=generator)
    made = fit(Triangle, sample(row, "full"))
    between = (torch.arange(8, dtype=torch.float64) + 0.3) / 9
    expected = 0.7 * row[:-1] + 0.3 * row[1:]
    assert torch.allclose(made(between.unsqueeze(-1)), expected)


def test_the_mean_fitted_apart_returns_a_constant_exactly():
    signal = torch.full((12, 10, 3), 0.37)
    made = fit(Gaussian, sample(signal, "every:3"))
    assert torch.allclose(made.render(), signal, atol=1e-6)
    darkened = fit(Gaussian, sample(signal, "every:3"), center=False).render()
    assert float((darkened - signal).abs().max()) > 1e-3


def test_axes_may_differ(generator):
    signal = torch.rand(12, 9, 1, dtype=torch.float64, generator=generator)
    samples = sample(signal, "full")
    axes = samples.geometry.axes
    encoding = ComplexEncoding([Gaussian.like(axes[0]), LogFourier.like(axes[1], features=8)])
    made = fit_closed_form(encoding, samples)
    assert made.report.ranks == [12, 8]
    assert made.report.degrees_of_freedom == pytest.approx(96)


def test_one_pixel_wide(generator):
    signal = torch.rand(9, 1, 3, generator=generator)
    assert torch.allclose(fit(Gaussian, sample(signal, "full")).render(), signal, atol=1e-5)


def test_a_simple_encoding_has_no_closed_form():
    geometry = Lattice((4, 4))
    with pytest.raises(ValueError, match="`encoding`: expected a ComplexEncoding"):
        plan(SimpleEncoding.like(Gaussian, geometry), geometry)


def test_values_of_another_shape_are_refused():
    geometry = Lattice((4, 4))
    made = plan(ComplexEncoding.like(Gaussian, geometry), geometry)
    with pytest.raises(ValueError, match="`values`: expected shape"):
        made.fit(torch.ones(4, 5, 3))


@pytest.mark.slow
@pytest.mark.parametrize(("encoder", "least"), [(Gaussian, 27.3), (Triangle, 27.5)])
def test_photographs(encoder, least, data):
    """Mean held-out PSNR over the sixteen 480×480 crops, every second pixel an axis."""
    scores = []
    for path in sorted((data / "kodak").glob("*.png")):
        image = load(path)
        top, left = ((n - 480) // 2 for n in image.shape[:2])
        crop = image[top : top + 480, left : left + 480]
        samples = sample(crop, "every:2")
        scores.append(psnr(fit(encoder, samples).render(), crop, ~samples.geometry.known(3)))
    assert sum(scores) / len(scores) >= least
    small = sample(crop[:40, :40], "every:2")
    made = fit(encoder, small)
    designs = made.network.encoding.double().matrices(small.geometry.axes)
    mean = small.values.double().mean((0, 1))
    weights = dense_least_squares(designs, (small.values.double() - mean).movedim(-1, 0))
    fine = made.network.encoding.matrices(Lattice((40, 40)).axes)
    dense = torch.stack([_lattice(w, fine) for w in weights], dim=-1) + mean
    held_out = ~small.geometry.known(3)
    truth = crop[:40, :40]
    assert psnr(made.render(), truth, held_out) == pytest.approx(psnr(dense, truth.double(), held_out), abs=0.01)
