"""Measurements: what they accept, and what they refuse in one sentence."""

import numpy as np
import pytest
import scipy.sparse
import torch

import coordnet as cn
from coordnet.linalg.operators import LinearOperator
from tests.helpers import synthetic_photograph

PSF = torch.tensor([[0.1, 0.2, 0.1], [0.1, 0.3, 0.2]])
BLUR = cn.operators.Blur(PSF, (8, 6))


def blurred(channels=3):
    operator = cn.operators.Blur(PSF, (8, 6))
    image = synthetic_photograph(8, 6)[..., :channels]
    return operator, image, cn.Measurements.of(operator, image)


def test_values_are_those_of_the_operator_on_every_channel():
    operator, image, measured = blurred()
    assert measured.grid == (8, 6) and measured.channels == 3
    for channel in range(3):
        assert torch.allclose(measured.values[..., channel], operator(image[..., channel]))


def test_noise_is_drawn_and_remembered(generator):
    operator, image, clean = blurred()
    noisy = cn.Measurements.of(operator, image, sigma=0.1, generator=generator)
    assert noisy.geometry.sigma == 0.1
    assert float((noisy.values - clean.values).std()) == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("channels", [0, 1, 2])
def test_complex_values_become_pairs(channels, generator):
    image = synthetic_photograph(8, 6)[..., :2].double()
    mask = torch.rand(8, 6, generator=generator) < 0.4
    spectrum = np.fft.fft2(image.numpy(), axes=(0, 1), norm="ortho")[mask.numpy()]
    operator, spectrum = cn.operators.FourierSamples(mask), spectrum[..., :channels] if channels else spectrum[..., 0]
    expected = cn.Measurements.of(operator, image[..., : max(channels, 1)]).values
    assert torch.allclose(cn.Measurements(operator, spectrum).values, expected)


def test_weights_are_arrays_too():
    weights = np.arange(48.0).reshape(8, 6, 1)
    measured = cn.Measurements(cn.operators.Blur(PSF, (8, 6)), torch.zeros(8, 6, 1), weights=weights)
    assert np.array_equal(measured.geometry.weights, weights)


def test_a_signal_of_integers_is_refused():
    with pytest.raises(ValueError, match="`signal`: expected a tensor of torch.float32 or torch.float64"):
        cn.Measurements.of(cn.operators.Blur(PSF, (8, 6)), np.zeros((8, 6, 1), np.uint8))


def test_the_mean_is_that_of_the_signal_not_of_the_values():
    constant = torch.tensor([0.2, -3.0]).expand(8, 6, 2)
    for operator in (cn.operators.Blur(5 * PSF, (8, 6)), cn.operators.Projections([0, 40], (8, 6))):
        measured = cn.Measurements.of(operator, constant)
        assert torch.allclose(measured.mean(), torch.tensor([0.2, -3.0]), rtol=1e-4)
        assert float(measured.centered().abs().max()) < 1e-4


class Scaled(LinearOperator):
    """A blur whose adjoint is twice as large as it should be."""

    def __init__(self, blur):
        self.blur, self.domain, self.codomain = blur, blur.domain, blur.codomain

    def __call__(self, x, out=None):
        return self.blur(x, out)

    def adjoint(self, y, out=None):
        return 2 * self.blur.adjoint(y, out)

    def to(self, device=None, dtype=None):
        return Scaled(self.blur.to(device, dtype))


class Correlated(Scaled):
    """A blur whose adjoint is a convolution too."""

    def adjoint(self, y, out=None):
        return self.blur(y, out)


@pytest.mark.parametrize("wrong", [Scaled, Correlated])
@pytest.mark.parametrize("size", [16, 128])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_adjoint_that_is_none_is_refused(wrong, size, dtype):
    blur = cn.operators.Blur(PSF.to(dtype), (size, size))
    values = torch.zeros(size, size, 1, dtype=dtype)
    cn.Measurements(blur, values)
    with pytest.raises(ValueError, match="`operator`: expected one whose adjoint has ⟨A x, y⟩ = ⟨x, Aᵀ y⟩"):
        cn.Measurements(wrong(blur), values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": torch.full((8, 6, 1), torch.nan)}, "`values`: expected finite values"),
        ({"values": torch.zeros(8, 5, 1)}, r"`values`: expected shape \(8, 6, 'channels'\)"),
        ({"grid": (8, 5)}, "`grid`: expected that of the operator"),
        ({"sigma": 0.0}, "`sigma`: expected a positive finite number"),
        ({"weights": torch.ones(8, 5, 1)}, r"`weights`: expected shape \(8, 6, 1\)"),
        ({"weights": -torch.ones(8, 6, 1)}, "`weights`: expected finite numbers of at least 0"),
        ({"values": torch.zeros(8, 6, dtype=torch.complex64)}, "`values`: expected real numbers"),
        ({"operator": scipy.sparse.eye_array(48), "grid": (-8, 6)}, "`grid`: expected an integer of at least 1"),
        ({"operator": "blur"}, "`operator`: expected an operator of cn.operators"),
        ({"operator": scipy.sparse.eye_array(48)}, "`grid`: expected the signal's lengths"),
        ({"operator": scipy.sparse.eye_array(48), "grid": (8, 5)}, "`operator`: expected 48 rows and 40 columns"),
        (
            {"operator": scipy.sparse.linalg.aslinearoperator(np.eye(48)), "grid": (8, 5)},
            r"`operator`: expected 40 columns for the grid \(8, 5\), received 48",
        ),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    given = {"operator": cn.operators.Blur(PSF, (8, 6)), "values": torch.zeros(8, 6, 1), **change}
    with pytest.raises(ValueError, match=message):
        cn.Measurements(given.pop("operator"), given.pop("values"), **given)


def test_an_operator_without_an_adjoint_is_refused():
    operator = scipy.sparse.linalg.LinearOperator((48, 48), matvec=lambda v: v, dtype=float)
    with pytest.raises(ValueError, match=r"`operator`: expected an adjoint to the grid \(8, 6\), received none"):
        cn.Measurements(operator, torch.zeros(48, 1), grid=(8, 6))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cn.operators.Blur(torch.ones(9, 1), (8, 6)), "`psf`: expected at most the lengths"),
        (lambda: cn.operators.Blur(torch.full((3, 3), torch.nan), (8, 6)), "`psf`: expected finite numbers"),
        (lambda: cn.operators.Projections([], (8, 6)), "`angles`: expected finite numbers of degrees"),
        (lambda: cn.operators.Projections([0.0, np.nan], (8, 6)), "`angles`: expected finite numbers of degrees"),
        (lambda: cn.operators.Projections([0.0], (8,)), "`grid`: expected at least 2 lengths"),
        (lambda: cn.operators.FourierSamples(torch.zeros(8, 6)), "`mask`: expected at least one frequency"),
        (lambda: cn.operators.Blur(torch.ones(3, 3), (-8, 6)), "`grid`: expected an integer of at least 1"),
        (lambda: cn.operators.Blur(torch.ones(3, 3), (2**40, 2**40)), "`grid`: expected at most 9223.* points in all"),
        (lambda: cn.Measurements.of(BLUR, torch.ones(8, 6, 0)), "`signal`: expected at least one number"),
        (lambda: cn.Measurements.of(BLUR, torch.ones(8, 6, 1), sigma=-1.0), "`sigma`: expected a positive finite"),
        (lambda: cn.operators.Derivatives(()), "`grid`: expected lengths, one for each axis"),
    ],
)
def test_operators_refuse_what_they_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()
