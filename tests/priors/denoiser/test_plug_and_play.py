"""Plug-and-play with the Gaussian denoiser, whose limit is the posterior mean in closed form."""

import math

import pytest
import torch

import coordnet as cn
from coordnet.priors.denoiser.pictures import turned, turned_back
from coordnet.priors.denoiser.plug_and_play import cell_means, entries, falling, measured, plug_and_play
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.grids import CellMeans

SIDE, STEPS = 8, 3000


@pytest.fixture
def spectrum():
    """Variances of the frequencies of a stationary Gaussian picture that all symmetries of the square leave alike."""
    k = torch.fft.fftfreq(SIDE, dtype=torch.float64)
    return 1 / (0.02 + k[:, None] ** 2 + k**2)


def covariance(spectrum):
    unit = torch.eye(SIDE * SIDE, dtype=torch.float64).reshape(-1, SIDE, SIDE)
    return torch.fft.ifft2(torch.fft.fft2(unit) * spectrum).real.flatten(1)


def gaussian(spectrum):
    """The posterior mean of a Gaussian picture with white noise, S (S + s²)⁻¹."""

    def clean(x, s, symmetry):
        z = torch.fft.fft2(turned(x, symmetry))
        return turned_back(torch.fft.ifft2(z * spectrum / (spectrum + s**2)).real, symmetry)

    return clean


def limit(spectrum, nearest, s=1.0, steps=STEPS, relaxation=1.0):
    start = torch.zeros(1, SIDE, SIDE, dtype=torch.float64)
    return plug_and_play(start, [s] * steps, gaussian(spectrum), nearest, relaxation)


def conditional(spectrum, matrix, y, noise):
    c = covariance(spectrum)
    gram = matrix @ c @ matrix.T + noise**2 * torch.eye(len(matrix), dtype=torch.float64)
    return (c @ matrix.T @ torch.linalg.solve(gram, y)).reshape(1, SIDE, SIDE)


@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_known_entries_give_the_conditional_mean(spectrum, noise, generator):
    known = torch.rand(1, SIDE, SIDE, generator=generator) < 0.4
    values = torch.randn(1, SIDE, SIDE, generator=generator, dtype=torch.float64)
    matrix = torch.eye(SIDE * SIDE, dtype=torch.float64)[known.flatten()]
    found = limit(spectrum, entries(values, known, noise))
    expected = conditional(spectrum, matrix, values[known], noise)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_means_over_cells_give_the_conditional_mean(spectrum, noise, generator):
    means = CellMeans((SIDE, SIDE), (2, 2))
    values = torch.randn(1, SIDE // 2, SIDE // 2, generator=generator, dtype=torch.float64)
    unit = torch.eye(SIDE * SIDE, dtype=torch.float64).reshape(-1, SIDE, SIDE)
    matrix = means(unit).flatten(1).T
    found = limit(spectrum, cell_means(values, (2, 2), noise))
    expected = conditional(spectrum, matrix, values.flatten(), noise)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.slow
def test_measurements_with_weights_give_the_conditional_mean(spectrum, generator):
    blur = cn.operators.Blur(torch.tensor([[0.1, 0.2, 0.1], [0.2, 0.4, 0.0], [0.0, 0.1, 0.1]]).double(), (SIDE, SIDE))
    seen = torch.rand(1, 1, SIDE, SIDE, generator=generator) < 0.8
    values = torch.randn(1, SIDE, SIDE, generator=generator, dtype=torch.float64)
    unit = torch.eye(SIDE * SIDE, dtype=torch.float64).reshape(-1, SIDE, SIDE)
    matrix = blur(unit).flatten(1).T[seen.flatten()]
    found = limit(spectrum, measured(values, ForwardModel(blur, seen.double(), is_general=True), 0.3, 1e-5), steps=150)
    expected = conditional(spectrum, matrix, values[seen[0]], 0.3)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_a_relaxation_of_1_8_takes_as_many_times_fewer_steps_to_the_conditional_mean(spectrum, generator):
    known = torch.rand(1, SIDE, SIDE, generator=generator) < 0.4
    values = torch.randn(1, SIDE, SIDE, generator=generator, dtype=torch.float64)
    matrix = torch.eye(SIDE * SIDE, dtype=torch.float64)[known.flatten()]
    expected, nearest = conditional(spectrum, matrix, values[known], 0.0), entries(values, known)
    plain, relaxed = (limit(spectrum, nearest, steps=n, relaxation=r) for n, r in ((36, 1.0), (20, 1.8)))
    assert float((relaxed - expected).norm()) == pytest.approx(float((plain - expected).norm()), rel=0.05)


def test_the_result_weighs_what_the_denoiser_makes_against_noisy_values():
    values, known = torch.full((1, 2, 2), 2.0), torch.ones(1, 2, 2, dtype=torch.bool)
    for noise in (0.5, torch.tensor([[0.5, 1.0], [2.0, 0.0]])):
        found = plug_and_play(0 * values, [1.0], lambda x, s, symmetry: 0 * x, entries(values, known, noise))
        torch.testing.assert_close(found, values / (1 + noise**2))


def test_levels_fall_by_a_constant_factor():
    assert falling(8.0, 1.0, 4) == pytest.approx([8.0, 4.0, 2.0, 1.0])


def test_the_dual_variable_is_rescaled_with_the_penalty():
    """Its product with 1/s² is Lagrange's multiplier, which does not change where s does."""
    values, seen = torch.full((1, 2, 2), 2.0), []

    def clean(x, s, symmetry):
        seen.append(float(x.mean()))
        return torch.zeros_like(x)

    plug_and_play(torch.zeros(1, 2, 2), [1.0, 0.5], clean, lambda v, s: values)
    assert seen == [2.0, 2.0 + 2.0 * 0.25]
    assert math.isclose(seen[1], 2.5)
