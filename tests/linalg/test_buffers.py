"""Scratch memory: what may share a piece and what may not."""

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import forward_ad

import coordnet as cn
from coordnet.encodings import ComplexEncoding
from coordnet.encodings.encoders import Gaussian, RandomFourier
from coordnet.linalg import machine as memory
from coordnet.linalg.kronecker import mode_product
from coordnet.linalg.machine import chunks, clear_scratch, is_tracked, scratch
from coordnet.sampling.grids import Lattice

ONE = torch.zeros(1)
# What PyTorch itself gives when it makes its rules for forward derivatives.
JVP = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


@pytest.fixture(autouse=True)
def nothing_kept():
    clear_scratch()
    yield
    clear_scratch()


def piece(tensor):
    return tensor.untyped_storage().data_ptr()


def test_pieces_lie_beside_those_named():
    first = scratch(ONE, (4, 5))
    second = scratch(ONE, (20,), first)
    third = scratch(ONE, (20,), first, None, second)
    assert len({piece(first), piece(second), piece(third)}) == 3
    assert piece(scratch(ONE, (20,), second, third)) == piece(first)
    assert piece(scratch(ONE, (3,), first)) == piece(second)


def test_a_piece_is_kept_and_grows():
    first = scratch(ONE, (4, 5))
    assert (first.shape, first.dtype, first.is_contiguous()) == ((4, 5), torch.float32, True)
    assert piece(scratch(ONE.double(), (10,))) == piece(first)
    grown = scratch(ONE.double(), (11,))
    assert piece(grown) != piece(first)
    assert piece(scratch(ONE, (4, 5))) == piece(grown)
    clear_scratch()
    assert piece(scratch(ONE, (4, 5))) != piece(grown)


def test_large_pieces_are_not_kept(monkeypatch):
    monkeypatch.setattr(memory, "MAX_KEPT", 79)
    first = scratch(ONE, (20,))
    assert piece(scratch(ONE, (20,))) != piece(first)


def test_what_inference_kept_serves_others():
    with torch.inference_mode():
        scratch(ONE, (20,)).fill_(1)
    assert scratch(ONE, (20,)).add_(1).sum() == 40


def test_threads_do_not_share_pieces():
    geometry = Lattice((60, 50))
    plan = cn.plan(ComplexEncoding.like(Gaussian, geometry), geometry)
    render = plan.renderer((150, 100))
    pictures = torch.rand(16, 60, 50, 3, generator=torch.Generator().manual_seed(0))
    expected = [render(picture) for picture in pictures]
    start, wrong = threading.Barrier(4), []

    def work(i):
        start.wait()
        for _ in range(20):
            for j in range(i, 16, 4):
                if not torch.allclose(render(pictures[j]), expected[j], atol=1e-6):
                    wrong.append(j)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 6), st.integers(1, 6), st.integers(1, 400))
def test_parts_are_every_channel_once(signals, channels, before, after, size):
    values, results = torch.zeros(signals, channels, before), torch.zeros(signals, channels, after)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(memory.CHUNK, "cpu", size)
        for part in chunks(values, results):
            results[part] += 1
            worked = 4 * (values[part].numel() + results[part].numel())
            assert worked <= size or results[part][:, :, 0].numel() == 1
    assert (results == 1).all()


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=5), st.integers(0, 2**31))
def test_a_product_in_scratch_is_the_product(shapes, seed):
    generator = torch.Generator().manual_seed(seed)
    matrices = [torch.rand(shape, generator=generator) for shape in shapes]
    tensor = torch.rand(2, *(k for _, k in shapes), generator=generator)
    expected = mode_product(tensor, matrices)
    assert torch.allclose(mode_product(tensor, matrices, torch.empty_like(expected)), expected)
    inside = scratch(tensor, tuple(tensor.shape)).copy_(tensor)
    result = scratch(tensor, tuple(expected.shape), inside)
    mode_product(inside, matrices, result)
    assert torch.allclose(result, expected)


@JVP
def test_what_derivatives_are_wanted_of_is_tracked():
    x = torch.rand(3)
    assert not is_tracked(x)
    assert is_tracked(x.clone().requires_grad_())
    with torch.no_grad():
        assert not is_tracked(x.clone().requires_grad_())
    seen = []

    def double(y):
        seen.append(is_tracked(y))
        return 2 * y

    torch.vmap(double)(x)
    torch.func.vjp(double, x)
    torch.func.jvp(double, (x,), (x,))
    with forward_ad.dual_level():
        double(forward_ad.make_dual(x, x))
    assert seen == [True, True, True, True]


@JVP
@pytest.mark.parametrize(("encoder", "features"), [(Gaussian, None), (RandomFourier, 6)])
@pytest.mark.parametrize("prior", [None, cn.Smoothness()], ids=["plain", "smooth"])
@pytest.mark.parametrize("size", [20, 150])
def test_derivatives_are_those_of_the_linear_map(encoder, features, prior, size, generator):
    geometry = Lattice((size, 16))
    plan = cn.plan(
        ComplexEncoding.like(encoder, geometry, features=features), geometry, prior=prior, dtype=torch.float64
    )
    values, change = torch.rand(2, size, 16, 1, dtype=torch.float64, generator=generator)

    def render(x):
        return plan.fit(x).render((30, 30))

    forward = torch.func.jvp(render, (values,), (change,))[1]
    backwards = torch.func.grad(lambda x: render(x).sum())(values)
    expected = render(values + change) - render(values)
    assert torch.allclose((backwards * change).sum(), expected.sum(), rtol=1e-6, atol=1e-8)
    assert torch.allclose(forward, expected, atol=1e-8)
    down = torch.rand(30, 30, 1, dtype=torch.float64, generator=generator)
    backward = torch.func.grad(lambda x: (down * render(x)).sum())(values)
    assert torch.allclose((backward * change).sum(), (down * expected).sum(), rtol=1e-6)
    both = torch.vmap(render)(torch.stack([values, change]))
    assert torch.allclose(both, torch.stack([render(values), render(change)]), atol=1e-8)


@pytest.mark.parametrize("grid", [(12, 10), (150, 10)], ids=["dense", "windows"])
def test_derivatives_by_a_scale_are_those_before_a_render(grid, generator):
    geometry = Lattice(grid)
    encoding = ComplexEncoding.like(Gaussian, geometry, learnable=True)
    fit = cn.plan(encoding, geometry).fit(torch.rand(*grid, 1, generator=generator))
    encoder = fit.network.encoding.encoders[0]

    def slope():
        scale = encoder.log_sigma.detach()
        with forward_ad.dual_level():
            encoder._parameters["log_sigma"] = forward_ad.make_dual(scale, torch.ones_like(scale))
            made = forward_ad.unpack_dual(fit.render((160, 20))).tangent
        encoder._parameters["log_sigma"] = scale
        return made

    first = slope()
    assert first is not None
    fit.render((160, 20))
    assert torch.equal(slope(), first)
