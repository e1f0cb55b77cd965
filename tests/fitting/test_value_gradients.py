"""Gradients of closed-form fits with respect to the values: exact where a fit is linear in them, refused elsewhere."""

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import LinearOperator

import coordnet as cn
from coordnet.fitting import ConjugateGradients

PATTERNS = ("full", "every:2", "random:0.5", "entries:0.5", "scattered:0.6", "area:2", "hole")
REACHED = {"hole": 1e-8}  # below, rounding hides the energy of the points in a hole


def signal(*shape, seed=0):
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def sampled(picture, pattern):
    """Sample a picture; a hole is a mask whose unknown part is clustered."""
    if pattern != "hole":
        return cn.sample(picture, pattern)
    mask = torch.ones(picture.shape[:-1])
    mask[1:4, 1:3] = 0
    return cn.sample(picture, mask)


def made(samples, prior, *, fourier, tolerance=1e-13):
    kind = cn.FourierEncoding.like(samples) if fourier else cn.ComplexEncoding.like(cn.Triangle, samples)
    solver = ConjugateGradients(tolerance, 2000)
    return cn.plan(kind, samples.geometry, prior, dtype=torch.float64, solver=solver)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("form", "fourier"), [("smooth", True), ("smooth", False), ("adaptive", True)])
def test_gradients_are_finite_differences_while_the_prior_is_fixed(fourier, pattern, form):
    samples = sampled(signal(6, 4, 1), pattern)
    start = cn.Smoothness(1.5, 0.1)
    prior = start if form == "smooth" else cn.Adaptive(starts=(start,), rounds=0, hold_out=0.0)
    plan = made(samples, prior, fourier=fourier, tolerance=REACHED.get(pattern, 1e-13))
    assert torch.autograd.gradcheck(
        lambda v: plan.fit(v).render((5, 7)), samples.values.clone().requires_grad_(), fast_mode=True
    )


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_learned_prior_is_held_fixed(pattern):
    """A map with a fixed prior is linear: its gradient times the values is its result."""
    samples = sampled(signal(12, 10, 2), pattern)
    values = samples.values.clone().requires_grad_()
    fit = made(samples, cn.Adaptive(rounds=1), fourier=True, tolerance=1e-8).fit(values)
    found, weights = fit.render(), signal(12, 10, 2, seed=1)
    (gradient,) = torch.autograd.grad((found * weights).sum(), values)
    assert (gradient * values).sum().item() == pytest.approx((found * weights).sum().item(), rel=1e-5)
    assert not any(tensor.requires_grad for tensor in fit.learned.values())


@pytest.mark.parametrize("grid", [(13,), (6, 5)])
@pytest.mark.parametrize("pattern", ["every:2", "random:0.7", "entries:0.7", "scattered:0.9"])
@pytest.mark.parametrize("prior", [cn.ThinPlate(1, np.inf), cn.ThinPlate(2, np.inf), cn.ThinPlate(2, 1.0, corner=0.5)])
def test_gradients_flow_through_plates(grid, pattern, prior):
    """Also beyond the samples, and through natural splines, which plates of rows are."""
    samples = cn.sample(signal(*grid, 2), pattern)
    plan = cn.plan(cn.FourierEncoding.like(samples), samples.geometry, prior, dtype=torch.float64)
    values = samples.values.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: plan.fit(v).render(), values, fast_mode=True)


@pytest.mark.slow
def test_plates_that_are_chosen_are_held_fixed():
    x = torch.linspace(0, 1, 24, dtype=torch.float64)
    samples = cn.sample((torch.sin(5 * x)[:, None] * torch.cos(3 * x)).unsqueeze(-1), "random:0.5")
    values = samples.values.clone().requires_grad_()
    fit = cn.fit(cn.Samples(samples.geometry, values))
    assert "thin plates" in fit.report.method
    found = fit(torch.tensor([0.4, 0.7], dtype=torch.float64)).sum()
    (gradient,) = torch.autograd.grad(found, values)
    assert (gradient * values).sum().item() == pytest.approx(found.item(), rel=1e-6)


@pytest.mark.parametrize("prior", [cn.Smoothness(), cn.Adaptive(rounds=1)])
def test_gradients_pass_operators_of_other_libraries(prior):
    """SciPy's has no autograd: its adjoint is the derivative."""
    matrix = signal(9, 12).numpy()
    operator = LinearOperator((9, 12), matvec=lambda x: matrix @ x, rmatvec=lambda y: matrix.T @ y, dtype=np.float64)
    values = signal(9, 1, seed=2).requires_grad_()
    samples = cn.Measurements(operator, values, grid=(12,))
    plan = made(samples, prior, fourier=True)
    found = plan.fit(values).render()
    (gradient,) = torch.autograd.grad(found[3, 0], values)
    assert (gradient * values).sum().item() == pytest.approx(found[3, 0].item(), rel=1e-6)
    if prior == cn.Smoothness():
        assert torch.autograd.gradcheck(lambda v: plan.fit(v).render(), values, fast_mode=True)


@pytest.mark.parametrize("pattern", ["random:0.5", "every:2", "area:2"])
@pytest.mark.parametrize("prior", [cn.Smoothness(), cn.Adaptive(rounds=0, hold_out=0.0)])
def test_fit_follows_the_picture_that_was_sampled(pattern, prior):
    image, points = signal(8, 8, 1), signal(5, 2, seed=3) * 0.8

    def result(picture):
        generator = torch.Generator().manual_seed(0)
        return cn.fit(cn.sample(picture, pattern, generator=generator), prior=prior)(points).sum()

    (gradient,) = torch.autograd.grad(result(image.requires_grad_()), image)
    for at in [(0, 0, 0), (2, 4, 0), (7, 1, 0)]:
        step = torch.zeros(8, 8, 1).double()
        step[at] = 0.5
        with torch.no_grad():
            change = result(image + step) - result(image - step)
        assert gradient[at].item() == pytest.approx(change.item(), abs=5e-3)


@pytest.mark.filterwarnings("ignore:`prior`. with None")
@pytest.mark.parametrize("prior", [cn.Stack((cn.Local(),)), cn.Local(), cn.Smoothness(loss="huber"), None])
def test_what_has_no_gradient_says_so(prior):
    """The fits learn their maps from the values, or their systems are singular."""
    samples = cn.sample(signal(12, 12, 1).requires_grad_(), "random:0.5")
    with pytest.raises(ValueError, match=r"`prior`: expected .* where gradients are followed, or `values\.detach\(\)`"):
        cn.fit_closed_form(cn.FourierEncoding.like(samples), samples, prior)
    with torch.no_grad():
        assert not cn.fit(samples, prior=prior).render().requires_grad


def test_training_has_no_gradient_to_its_values():
    samples = cn.sample(signal(6, 6, 1).requires_grad_(), "random:0.5")
    with pytest.raises(ValueError, match=r"`samples`: expected `samples.detached\(\)`, or a closed-form fit"):
        cn.fit(samples, encoder=cn.Gaussian, solver="gradient", epochs=1)


def test_transforms_of_fits_that_iterate_say_so():
    samples = cn.sample(signal(12, 12, 1), "random:0.5")
    plan = made(samples, cn.Smoothness(), fourier=True)
    for transformed in (torch.func.grad(lambda v: plan.fit(v).render().sum()), torch.func.vmap(plan.fit)):
        with pytest.raises(ValueError, match="`values`: expected a tensor outside of torch.func"):
            transformed(samples.values)


def test_scattered_samples_of_a_followed_picture_say_so():
    with pytest.raises(ValueError, match=r"`signal`: expected `signal.detach\(\)`"):
        cn.sample(signal(8, 8, 1).requires_grad_(), "scattered:0.5")


def test_uncertainty_of_a_fit_that_is_followed():
    samples = cn.sample(signal(16, 16, 1).requires_grad_(), "random:0.5")
    plain, followed = (cn.fit(s, prior=cn.Smoothness()) for s in (samples.detached(), samples))
    assert torch.allclose(followed.std(), plain.std())
    assert torch.allclose(followed.render(), plain.render()) and followed.render().requires_grad
