"""Bands as windows against their dense twins."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import coordnet as cn
from coordnet.encodings import ComplexEncoding
from coordnet.encodings import designs as banded
from coordnet.encodings.encoders import BSpline, Gaussian, Impulse, Rectangle, Sine, Square, Triangle
from coordnet.linalg.banded import ROWS, BandedMatrix, Block, inverse
from coordnet.linalg.kronecker import KroneckerLeastSquares, RankWarning, mode_product
from coordnet.linalg.operators import Composition
from coordnet.sampling.axes import Axis
from coordnet.sampling.grids import Lattice

LOCAL = {
    "gaussian": (Gaussian, {}),
    "wide gaussian": (Gaussian, {"sigma": "0.9px"}),
    "triangle": (Triangle, {}),
    "padded triangle": (Triangle, {"half_width": "1.7px", "padding": 2}),
    "rectangle": (Rectangle, {}),
    "impulse": (Impulse, {}),
    "cubic spline": (BSpline, {}),
    "box spline": (BSpline, {"degree": 0}),
    "few features": (BSpline, {"features": 131, "spacing": "1.8px"}),
    "many features": (Gaussian, {"features": 350}),
    "padding": (Gaussian, {"padding": 3}),
}


@pytest.fixture(params=LOCAL)
def local(request):
    encoder, options = LOCAL[request.param]
    return lambda axis: encoder.like(axis, **options)


def dense_only(monkeypatch):
    monkeypatch.setattr(banded, "CROSSOVER", 10**9)


@pytest.mark.parametrize("at", [Axis(301), Axis(437, -0.01, 1 / 431), Axis.every(601, 2, 1)])
def test_designs_are_those_of_the_encoder(local, at):
    encoder = local(Axis(257))
    windows = encoder.banded(at)
    assert torch.allclose(windows.dense(), encoder(at.points()), atol=1e-15)
    assert windows.density < 0.5


def test_windows_are_the_matrix_they_stand_for(generator):
    left = Gaussian.like(Axis(150)).banded(Axis(203))
    right = BSpline.like(Axis(170)).banded(Axis(150))
    assert torch.allclose(left.mT.dense(), left.dense().T)
    assert torch.allclose((left @ right).dense(), left.dense() @ right.dense(), atol=1e-14)
    window = left.between(60, 131)
    assert torch.equal(window.entries, left.dense()[60:131, window.columns])
    assert left.infinity_norm() == pytest.approx(float(left.dense().abs().sum(1).max()), rel=1e-12)
    x = torch.randn(2, 150, 7, 170, dtype=torch.float64, generator=generator)
    assert torch.allclose(left.along(x, 1), torch.einsum("mn,bncd->bmcd", left.dense(), x), atol=1e-13)
    assert torch.allclose(right.along(x, -1), x @ right.dense().T, atol=1e-13)


def test_windows_are_sent_whole():
    windows = Gaussian.like(Axis(150)).banded(Axis(203))
    sent = windows.to("meta")
    assert {w.entries.device.type for w in sent.blocks} == {"meta"}
    assert [(w.row, w.column, w.entries.shape) for w in sent.blocks] == [
        (w.row, w.column, w.entries.shape) for w in windows.blocks
    ]


@given(st.data())
@settings(max_examples=60)
def test_windows_anywhere_are_the_matrix_they_stand_for(data):
    rows, columns = data.draw(st.integers(1, 300)), data.draw(st.integers(1, 200))
    blocks = []
    for top in range(0, rows, ROWS):
        width = data.draw(st.integers(1, columns))
        left = data.draw(st.integers(0, columns - width))
        blocks.append(Block(top, left, torch.rand(min(ROWS, rows - top), width) + 1))
    windows = BandedMatrix((rows, columns), blocks)
    assert torch.equal(windows.mT.dense(), windows.dense().T)
    first = data.draw(st.integers(0, rows - 1))
    part = windows.between(first, data.draw(st.integers(first + 1, rows)))
    expected = windows.dense()[part.rows].clone()
    assert torch.equal(part.entries, expected[:, part.columns])
    expected[:, part.columns] = 0
    assert not bool(expected.any())


def test_windows_differentiate_as_the_matrix(generator):
    windows = Gaussian.like(Axis(180)).banded(Axis(170))
    x = torch.randn(3, 180, dtype=torch.float64, generator=generator, requires_grad=True)
    y = torch.randn(180, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    (windows.along(x, -1).square().sum() + windows.along(y, 0).square().sum()).backward()
    twin = windows.dense()
    assert torch.allclose(x.grad, 2 * x.detach() @ twin.T @ twin, atol=1e-12)
    assert torch.allclose(y.grad, 2 * twin.T @ twin @ y.detach(), atol=1e-12)


def test_trimmed_windows_lose_only_what_is_small():
    windows = Gaussian.like(Axis(200)).banded(Axis(200))
    trimmed = windows.trimmed(1e-6)
    assert trimmed.density < windows.density
    assert 0 < (trimmed.dense() - windows.dense()).abs().max() <= 1e-6


@pytest.mark.parametrize("tolerance", [1e-6, 1e-12])
def test_the_inverse_keeps_its_bound(tolerance):
    design = Gaussian.like(Axis(400), sigma="0.9px").banded(Axis(400))
    gram = design.mT @ design
    exact = torch.linalg.inv(gram.dense())
    found = inverse(gram, tolerance)
    assert found is not None
    error = float((found.dense() - exact).abs().sum(1).max() / exact.abs().sum(1).max())
    assert error <= 2 * tolerance


def test_no_inverse_of_what_is_not_positive_definite():
    wide = Triangle.like(Axis(200), features=400).banded(Axis(200))
    assert inverse(wide.mT @ wide, 1e-9) is None
    zero = BandedMatrix.build((200, 200), lambda a, b: Block(a, a, torch.zeros(b - a, b - a).double()))
    assert inverse(zero, 1e-9) is None


def test_pseudo_inverse_and_its_condition(local):
    axis = Axis(259)
    design = local(axis).banded(axis)
    made = banded.pseudo_inverse(design, torch.float64)
    assert made is not None
    twin = torch.linalg.pinv(design.dense())
    assert torch.allclose(made[0].dense(), twin, atol=1e-9 * float(twin.abs().max()))
    exact = float(torch.linalg.cond(design.dense()))
    assert exact * (1 - 1e-9) <= made[1] < 3 * exact


@pytest.mark.parametrize(
    ("grid", "dtype"), [((150, 200), torch.float32), ((150, 200), torch.float64), ((5, 6, 200), torch.float32)], ids=str
)
def test_fits_are_those_of_the_dense_path(local, grid, dtype, monkeypatch, generator):
    samples = Lattice(grid)
    encoding = ComplexEncoding([local(axis) for axis in samples.axes])
    if any(e.columns > 2 * a.count for e, a in zip(encoding.axis_encoders, samples.axes, strict=True)):
        pytest.skip("far more features than samples on the short axes")
    values = torch.rand(*grid, 2, dtype=dtype, generator=generator)
    shape = tuple(2 * n - 3 for n in grid)
    fast = cn.plan(encoding, samples, dtype=dtype)
    assert any(isinstance(a, BandedMatrix) for a in fast.operator.matrices)
    fit, fused = fast.fit(values), fast.renderer(shape)(values)
    dense_only(monkeypatch)
    twin = cn.plan(encoding, samples, dtype=dtype)
    expected = twin.fit(values)
    assert fast.report.ranks == twin.report.ranks
    assert fast.report.degrees_of_freedom == pytest.approx(twin.report.degrees_of_freedom)
    exact = cn.plan(encoding, samples, dtype=torch.float64).fit(values.double()).render(shape)
    rounding = float((expected.render(shape) - exact).abs().max())  # the dense path's own, in float32
    assert (fit.render(shape) - exact).abs().max() <= max(1e-5, 1.5 * rounding)
    assert (fused - exact).abs().max() <= 1e-5


def test_renders_are_those_of_the_dense_path(monkeypatch, generator):
    samples = Lattice((200, 150))
    fit = cn.plan(ComplexEncoding.like(Gaussian, samples), samples).fit(torch.rand(200, 150, 3, generator=generator))
    fast = fit.render((311, 400))
    dense_only(monkeypatch)
    assert torch.allclose(fast, fit.render((311, 400)), atol=1e-5)


def test_a_singular_band_falls_back_with_a_warning(generator):
    samples = Lattice((300, 300))
    encoding = ComplexEncoding.like(Gaussian, samples, sigma="3px")
    values = torch.rand(300, 300, 1, dtype=torch.float64, generator=generator)
    with pytest.warns(RankWarning):
        designs = encoding.matrices(samples.axes)
        twin = KroneckerLeastSquares(designs, rcond=1e-10).inverse((values - values.mean()).movedim(-1, 0))
    with pytest.warns(RankWarning, match="has numerical rank"):
        plan = cn.plan(encoding, samples, cn.LeastSquares(rcond=1e-10), dtype=torch.float64)
    assert isinstance(plan.operator, Composition)
    fitted = mode_product(plan.fit(values).network.first.weight, designs)
    assert torch.allclose(fitted, mode_product(twin, designs), atol=1e-6)  # coefficients are up to 2e7


def test_what_would_be_cut_takes_the_dense_path():
    samples = Lattice((300, 300))
    encoding = ComplexEncoding.like(Gaussian, samples, sigma="1px")  # condition 69 an axis
    assert any(isinstance(a, BandedMatrix) for a in cn.plan(encoding, samples).operator.matrices)
    for method in (cn.LeastSquares(rcond=1e-3), cn.LeastSquares(ridge=0.1)):
        assert isinstance(cn.plan(encoding, samples, method).operator, Composition)


@pytest.mark.parametrize("encoder", [Sine, Square])
def test_bumps_without_an_end_are_dense(encoder):
    assert encoder.like(Axis(300)).banded(Axis(300)) is None


def test_smooth_fits_on_bands_are_those_of_the_dense_path(photograph, monkeypatch, generator):
    samples = cn.sample(cn.load("astronaut")[:160, :140], "random:0.4", generator=generator)
    whole = cn.sample(cn.load("astronaut")[:160, :140], "full")
    encoding = ComplexEncoding.like(Gaussian, samples)
    prior = cn.Smoothness(1.5, 0.03)
    fits = [cn.plan(encoding, s.geometry, prior=prior).fit(s.values) for s in (samples, whole)]
    dense_only(monkeypatch)
    for fit, s in zip(fits, (samples, whole), strict=True):
        twin = cn.plan(encoding, s.geometry, prior=prior).fit(s.values)
        assert fit.report.iterations == twin.report.iterations
        assert torch.allclose(fit.render((200, 200)), twin.render((200, 200)), atol=1e-4)


def test_memory_and_work_grow_with_the_samples():
    shares = []
    for n in (1024, 4096):
        samples = Lattice((n, 8))
        operator = cn.plan(ComplexEncoding.like(Gaussian, samples), samples).renderer((2 * n, 8))
        kept = operator.operator.matrices[0]
        shares.append(kept.density * kept.shape[0] * kept.shape[1] / n)
    assert shares[1] == pytest.approx(shares[0], rel=0.05)
