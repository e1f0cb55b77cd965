"""Plans and their renderers: memory, batches, derivatives and CUDA graphs."""

import functools
import itertools
import tracemalloc

import pytest
import torch

import coordnet as cn
from coordnet.encodings import ComplexEncoding
from coordnet.encodings.encoders import DFT, Gaussian, Triangle
from coordnet.linalg import machine as buffers
from coordnet.sampling.grids import Lattice, MaskedLattice
from tests.helpers import synthetic_photograph


def gaussian(*grid, **options):
    samples = Lattice(grid)
    return ComplexEncoding.like(Gaussian, samples, **options), samples


@pytest.mark.parametrize(
    "options",
    [{}, {"prior": cn.LeastSquares(ridge=0.1)}, {"prior": cn.Smoothness(1.5, 0.01)}, {"center": False}],
    ids=["plain", "ridge", "smooth", "uncentred"],
)
@pytest.mark.parametrize("features", [None, 9])
@pytest.mark.parametrize("alignment", ["pixel", "sample"])
def test_a_renderer_is_fit_and_render(options, features, alignment, generator):
    encoding, samples = gaussian(14, 17, features=features)
    plan = cn.plan(encoding, samples, dtype=torch.float64, **options)
    batch = torch.rand(2, 3, 14, 17, 4, dtype=torch.float64, generator=generator)
    made = plan.renderer((23, 30), alignment)(batch)
    assert torch.allclose(made, plan.fit(batch).render((23, 30), alignment), atol=1e-10)
    alone = plan.renderer((23, 30), alignment)(batch[1, 2])
    assert torch.allclose(alone, made[1, 2], atol=1e-12)
    assert torch.allclose(plan.renderer()(batch), plan.fit(batch).render(), atol=1e-10)


@pytest.mark.parametrize(("encoder", "features"), [(Gaussian, None), (DFT, 9)])
@pytest.mark.parametrize(
    "options",
    [{}, {"prior": cn.LeastSquares(ridge=0.1)}, {"prior": cn.Smoothness()}, {"center": False}],
    ids=["plain", "ridge", "smooth", "uncentred"],
)
@pytest.mark.parametrize("grid", [(50,), (150, 140), (12, 14, 10)], ids=str)
def test_nothing_is_allocated_but_the_result(encoder, features, options, grid):
    geometry = Lattice(grid)
    plan = cn.plan(ComplexEncoding.like(encoder, geometry, features=features), geometry, **options)
    values = torch.rand(2, *grid, 3)
    render, fit = plan.renderer(tuple(2 * n for n in grid)), plan.fit(values)
    offset, extremes = 4 * 2 * 3, 4 * 2  # the extremes say whether the result is finite
    scales = sum(buffer.nbytes for buffer in fit.network.encoding.buffers())
    assert _peak(lambda: plan.fit(values)) == 4 * fit.network.first.weight.numel() + offset + extremes + scales
    assert _peak(lambda: render(values)) == 4 * 2 ** len(grid) * values.numel() + offset


def test_a_render_allocates_its_result_and_makes_its_bands_once(monkeypatch, generator):
    encoding, geometry = gaussian(150, 140)
    plan, batch = cn.plan(encoding, geometry), torch.rand(2, 150, 140, 3, generator=generator)
    fit = plan.fit(batch)
    expected = fit.render((300, 280))
    assert _peak(lambda: fit.render((300, 280))) == 4 * expected.numel()
    with monkeypatch.context() as patch:
        patch.setattr(Gaussian, "banded", None)
        assert torch.equal(plan.fit(batch).render((300, 280)), expected)
        with pytest.raises(TypeError):
            fit.render((301, 280))
    fit.network.encoding.encoders[0].gain = 2.0
    offset = fit.offset.reshape(2, 1, 1, 3)
    assert torch.allclose(fit.render((300, 280)) - offset, 2 * (expected - offset), atol=1e-5)


@pytest.mark.parametrize("most", [0, 2000, 4000, 20000])
def test_pieces_that_are_not_kept_change_nothing(most, monkeypatch, generator):
    geometry = Lattice((30, 24))
    encoding = ComplexEncoding.like(DFT, geometry, features=9)
    plan = cn.plan(encoding, geometry, cn.LeastSquares(ridge=1e-3))
    values = torch.rand(30, 24, 2, generator=generator)
    expected = plan.fit(values).network.first.weight.clone()
    buffers.clear_scratch()
    monkeypatch.setattr(buffers, "MAX_KEPT", most)
    assert torch.allclose(plan.fit(values).network.first.weight, expected)


def test_the_last_of_what_passes_is_given_back_only_at_the_end(monkeypatch):
    """Pieces too large to keep come and go with every part."""
    encoding, geometry = gaussian(96, 80)
    plan, values = cn.plan(encoding, geometry), torch.rand(4, 96, 80, 3)
    render = plan.renderer((192, 160))
    monkeypatch.setattr(buffers, "MAX_KEPT", 0)
    monkeypatch.setitem(buffers.CHUNK, "cpu", 1)
    channel = 4 * 96 * 80
    expected = 4 * 4 * values.numel() + 4 * 12 + 3 * channel  # values and their product along one axis
    assert _peak(lambda: render(values)) == expected


def _peak(function):
    """The most bytes that tensors made by a function took at once, its result among them."""
    kept = [function()]  # tensors that are made once are not counted
    tracemalloc.start()
    kept.append(function())
    others = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert others < 2**16, "an array of NumPy's, which the profiler does not see"
    with torch.profiler.profile(profile_memory=True) as profile:
        kept.append(function())
    steps = [e.nbytes() for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    return max(itertools.accumulate(steps))


def test_a_renderer_of_an_incomplete_basis(generator):
    samples = Lattice((12, 10))
    plan = cn.plan(ComplexEncoding.like(DFT, samples), samples, dtype=torch.float64)
    values = torch.rand(12, 10, 1, dtype=torch.float64, generator=generator)
    assert torch.allclose(plan.renderer((20, 20))(values), plan.fit(values).render((20, 20)), atol=1e-10)


def test_results_do_not_depend_on_the_batch(generator):
    encoding, samples = gaussian(150, 140)
    batch = torch.rand(7, 150, 140, 3, generator=generator)
    plan = cn.plan(encoding, samples)
    render, together = plan.renderer((200, 220)), plan.fit(batch).render((200, 220))
    assert render(batch[:0]).shape == (0, 200, 220, 3)
    for one, expected in zip(batch, together, strict=True):
        assert torch.allclose(plan.fit(one).render((200, 220)), expected, atol=1e-5)
        assert torch.allclose(render(one), expected, atol=1e-5)


@pytest.mark.parametrize("encoder", [Gaussian, DFT])
@pytest.mark.parametrize("options", [{}, {"prior": cn.Smoothness()}], ids=["plain", "smooth"])
@pytest.mark.parametrize("channels", [0.5, 2, 3])
def test_results_do_not_depend_on_the_parts(encoder, options, channels, monkeypatch, generator):
    geometry = Lattice((150, 140))
    plan = cn.plan(ComplexEncoding.like(encoder, geometry), geometry, **options)
    batch = torch.rand(3, 150, 140, 3, generator=generator)
    render = plan.renderer((200, 220))
    whole, fitted, rendered = render(batch), plan.fit(batch), plan.fit(batch).render((200, 220))
    monkeypatch.setitem(buffers.CHUNK, "cpu", int(channels * 4 * (150 * 140 + 200 * 220)))
    assert torch.allclose(render(batch), whole, atol=1e-5)
    assert torch.allclose(plan.fit(batch).network.first.weight, fitted.network.first.weight, atol=1e-5)
    assert torch.allclose(fitted.render((200, 220)), rendered, atol=1e-5)


def test_large_results_are_the_small_ones(monkeypatch, generator):
    encoding, geometry = gaussian(150, 140)
    values = torch.rand(2, 150, 140, 3, generator=generator)
    render = cn.plan(encoding, geometry).renderer((300, 280))
    expected = render(values)
    monkeypatch.setattr(buffers, "LARGE", 0)
    assert torch.equal(render(values), expected)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64):
        made = buffers.empty(torch.ones(1, dtype=dtype), (3, 5))
        assert (made.shape, made.dtype, made.is_contiguous()) == ((3, 5), dtype, True)


@pytest.mark.filterwarnings("ignore:`prior`. with None")
@pytest.mark.parametrize("prior", [None, cn.Smoothness(), cn.Smoothness(loss="huber"), cn.Adaptive()])
def test_iterated_fits_do_not_depend_on_the_batch(prior, generator):
    pictures = torch.stack([synthetic_photograph(24, 20, seed=seed) for seed in range(3)])
    pictures[1] *= 0.1
    geometry = cn.sample(pictures[0], "random:0.4", generator=generator).geometry
    encoding = ComplexEncoding.like(Triangle, geometry)
    plan = cn.plan(encoding, geometry, prior=prior)
    batch = pictures * geometry.weights
    together = plan.fit(batch)
    for values, expected in zip(batch, together.render(), strict=True):
        assert torch.allclose(plan.fit(values).render(), expected, atol=1e-5)
    assert together.report.relative_residual < 1e-3


@pytest.mark.parametrize("form", ["modes", "constrained"])
def test_iterated_fits_do_not_depend_on_the_other_channels(form, generator):
    picture = synthetic_photograph(40, 36, seed=1) * torch.tensor([1.0, 0.01, 0.3])
    mask = (torch.rand(40, 36, 3, generator=generator) > torch.tensor([0.2, 0.9, 0.5])).float()

    def fitted(channels):
        geometry = MaskedLattice((40, 36), weights=mask[..., channels])
        encoding = ComplexEncoding.like(Triangle, geometry)
        prior, solver = cn.Smoothness(1.5, 0.1, form=form), cn.fitting.ConjugateGradients(1e-6)
        plan = cn.plan(encoding, geometry, prior, solver=solver)
        return plan.fit(picture[..., channels] * mask[..., channels]).render()

    together = fitted(slice(0, 3))
    for i in range(3):
        assert torch.allclose(fitted(slice(i, i + 1))[..., 0], together[..., i], atol=1e-5)


@pytest.mark.filterwarnings("ignore:`prior`. with None")
@pytest.mark.parametrize("prior", [None, cn.Smoothness(), cn.Adaptive()], ids=["plain", "smooth", "adaptive"])
@pytest.mark.parametrize("grid", [(20,), (150,)], ids=["dense", "windows"])
@pytest.mark.parametrize("kind", ["full", "random:0.6"])
def test_learnable_encoders_are_fitted_as_they_are(prior, grid, kind, generator):
    samples = cn.sample(torch.rand(*grid, 1, generator=generator), kind, generator=generator)
    encodings = [ComplexEncoding.like(Gaussian, samples, learnable=learnable) for learnable in (False, True)]
    fits = [cn.plan(e.requires_grad_(False), samples.geometry, prior=prior).fit(samples.values) for e in encodings]
    assert torch.allclose(fits[0].render((30,)), fits[1].render((30,)), atol=1e-4)
    assert not fits[1].render().requires_grad


@pytest.mark.parametrize("grid", [(8, 8), (5, 130)], ids=["equal axes", "windows"])
def test_gradients_flow_to_scales_through_least_squares(grid, generator):
    values = torch.rand(*grid, 1, generator=generator, dtype=torch.float64)
    encoding = ComplexEncoding.like(Gaussian, Lattice(grid), learnable=True)
    logs = [encoder.log_sigma for encoder in encoding.encoders]
    starts, down = [log.detach().clone() for log in logs], torch.rand(11, 13, 1, generator=generator)

    def score(*numbers):
        with torch.no_grad():
            for log, number in zip(logs, numbers, strict=True):
                log.copy_(number)
        fit = cn.plan(encoding, Lattice(grid), dtype=torch.float64).fit(values)
        return (down * fit.render((11, 13))).sum() + fit(torch.full((2,), 0.3, dtype=torch.float64)).sum()

    gradients = torch.autograd.grad(score(*starts), logs)
    for axis, gradient in enumerate(gradients):
        steps = [[s + sign * 1e-5 * (i == axis) for i, s in enumerate(starts)] for sign in (1, -1)]
        assert gradient.item() == pytest.approx((score(*steps[0]) - score(*steps[1])).item() / 2e-5, rel=1e-5)


@pytest.mark.parametrize("prior", [cn.Smoothness(), cn.Adaptive(), cn.LeastSquares(ridge=0.1)])
def test_scales_that_a_fit_would_drop_are_refused(prior):
    encoding = ComplexEncoding.like(Gaussian, Lattice((6, 6)), learnable=True)
    with pytest.raises(
        ValueError, match=r"`encoding`: expected `encoding.requires_grad_\(False\)`, or solver='gradient'"
    ):
        cn.plan(encoding, Lattice((6, 6)), prior)
    with torch.no_grad():
        assert not cn.plan(encoding, Lattice((6, 6)), prior).fit(torch.rand(6, 6, 1)).render().requires_grad


def test_values_without_channels_are_refused():
    plan = cn.plan(*gaussian(8, 8))
    with pytest.raises(ValueError, match="`values`: expected at least one signal and one channel"):
        plan.fit(torch.zeros(8, 8, 0))
    assert plan.renderer((9, 9))(torch.zeros(8, 8, 0)).shape == (9, 9, 0)


def test_a_plan_keeps_its_mask(generator):
    mask = (torch.rand(12, 12, 1, generator=generator) < 0.5).float()
    values = torch.rand(12, 12, 1, generator=generator) * mask
    geometry = MaskedLattice((12, 12), weights=mask)
    plan = cn.plan(ComplexEncoding.like(Triangle, geometry), geometry, prior=cn.Smoothness())
    before = plan.fit(values).render()
    mask.fill_(1.0)
    assert torch.equal(plan.fit(values).render(), before)


def test_a_plan_that_iterates_has_no_renderer():
    samples = MaskedLattice((4, 4), weights=torch.eye(4).unsqueeze(-1))
    plan = cn.plan(ComplexEncoding.like(Triangle, samples), samples)
    with pytest.raises(ValueError, match="takes no iteration, received AdaptivePlan"):
        plan.renderer((8, 8))
    with pytest.raises(ValueError, match="takes no iteration"):
        plan.capture(torch.zeros(4, 4, 1))


@pytest.mark.parametrize("prior", [None, cn.Smoothness(1.0, 0.1), cn.Adaptive()])
def test_values_have_the_plan_s_type(prior):
    plan = cn.plan(*gaussian(8, 8), prior=prior)
    for work in (plan.fit, *([plan.renderer()] if plan.direct else [])):
        with pytest.raises(ValueError, match="`values`: expected a tensor of torch.float32, .* received torch.float64"):
            work(torch.zeros(8, 8, 1, dtype=torch.float64))


def test_graphs_need_a_gpu():
    encoding, samples = gaussian(8, 8)
    plan = cn.plan(encoding, samples)
    for record in (plan.capture, plan.renderer().capture):
        with pytest.raises(ValueError, match="`values`: expected a tensor on a CUDA device"):
            record(torch.zeros(8, 8, 1))


def test_axes_are_told_apart_by_what_their_encoders_hold(generator):
    class Own(Gaussian):
        def bump(self, distance):
            return super().bump(distance) * self.factor

    geometry = Lattice((150, 150))
    encoding = ComplexEncoding.like(Own, geometry)
    for encoder, factor in zip(encoding.encoders, (1.0, 4.0), strict=True):
        encoder.factor = factor
    values = torch.rand(150, 150, 1, generator=generator)
    fit = cn.plan(encoding, geometry).fit(values)
    assert torch.allclose(fit.render(alignment="sample"), values, atol=1e-3)


def test_a_changed_encoder_is_evaluated_anew(generator):
    class Own(Triangle):
        def bump(self, distance):
            return super().bump(distance) * self.factor()

    encoding = ComplexEncoding([Own.like(Lattice((12,)).axes[0])])
    encoder, values = encoding.encoders[0], torch.rand(12, 1, generator=generator)
    encoder.factor = lambda: 1.0
    fit = cn.plan(encoding, Lattice((12,)), center=False).fit(values)
    own, before = fit.network.encoding.encoders[0], fit.render((20,))
    own.factor = lambda: 2.0
    assert torch.allclose(fit.render((20,)), 2 * before)
    own.register_buffer("times", torch.ones(1), persistent=False)
    own.factor = functools.partial(torch.Tensor.item, own.times)
    for power in (1, 2):
        own.times *= 3
        assert torch.allclose(fit.render((20,)), 3**power * before)


def test_what_inference_made_serves_gradients(generator):
    samples = cn.sample(torch.rand(12, 9, 3, generator=generator), "full")
    encoding = ComplexEncoding.like(Gaussian, samples)
    with torch.inference_mode():
        expected = cn.fit_closed_form(encoding, samples).render((20, 20))
    values = samples.values.clone().requires_grad_()
    fit = cn.fit_closed_form(encoding, cn.Samples(samples.geometry, values))
    assert torch.allclose(fit.render((20, 20)), expected, atol=1e-5)
    fit.render((20, 20)).sum().backward()
    assert values.grad is not None
