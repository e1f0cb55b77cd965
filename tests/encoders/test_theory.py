"""Similarities against quadrature, stable ranks against singular values, formulas against the papers."""

import math

import pytest
import torch
from scipy.integrate import quad

from coordnet.coordinates import Axis
from coordnet.encoders import (
    DFT,
    ENCODERS,
    BSpline,
    Gaussian,
    Identity,
    Impulse,
    JointRandomFourier,
    LearnableFourier,
    LearnedEmbedding,
    LinearFourier,
    LogFourier,
    MultiSine,
    RandomFourier,
    Rectangle,
    Sine,
    Sinusoidal,
    Square,
    Triangle,
)

MANY = 10**9  # nodes so close that how ties fall does not show
STEP = 2e-6


def stable_rank(a):
    squares = torch.linalg.eigvalsh(a @ a.T if a.shape[0] <= a.shape[1] else a.T @ a)
    return float(a.square().sum() / squares.max())


def autocorrelation(psi, delta, low, high):
    """∫φ(u) φ(u + δ) du / ∫φ² by midpoints STEP apart, which edges at multiples of STEP never meet."""
    u = low + STEP * (torch.arange(round((high - low) / STEP), dtype=torch.float64) + 0.5)
    base = psi.bump(u)
    return torch.stack([(base * psi.bump(u + d)).mean() for d in delta]) / base.square().mean()


@pytest.mark.parametrize(
    ("psi", "low", "high"),
    [
        (Gaussian(MANY, 0.03), -0.5, 0.5),
        (Triangle(MANY, 0.06), -0.3, 0.3),
        (Rectangle(MANY, 0.04), -0.3, 0.3),
        *((BSpline(MANY, 0.04, degree), -0.4, 0.4) for degree in range(6)),
        (Sine(MANY, 3.0), 0.0, 1.0),
        (Square(MANY, 4.0), 0.0, 1.0),
    ],
    ids=lambda p: f"{p.name}{getattr(p, 'degree', '')}" if isinstance(p, torch.nn.Module) else "",
)
def test_similarity_of_shifted_bases(psi, low, high):
    delta = torch.tensor([0.0, 0.002, -0.01, 0.026, 0.05, -0.09, 0.13, 0.24], dtype=torch.float64)
    assert torch.allclose(psi.similarity(delta), autocorrelation(psi, delta, low, high), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "psi",
    [LinearFourier(64, 9.0), LogFourier(64, 20.0), RandomFourier(64, 7.0), Sinusoidal(64, 0.01)],
    ids=lambda p: p.name,
)
def test_similarity_of_fourier_families(psi):
    delta = torch.linspace(-0.4, 0.4, 41, dtype=torch.float64)
    base = psi(torch.tensor(0.3, dtype=torch.float64))
    expected = psi(0.3 + delta) @ base / (base @ base)
    assert torch.allclose(psi.similarity(delta), expected, atol=1e-12)


@pytest.mark.parametrize("d", [9, 16])
def test_similarity_of_the_dft(d):
    psi, s = DFT(d, 1 / d), Axis(d).points()
    delta = torch.linspace(-1, 1, 37, dtype=torch.float64)
    expected = torch.stack([(psi(s) * psi(s + u)).sum(-1).mean() for u in delta])
    assert torch.allclose(psi.similarity(delta), expected, atol=1e-12)
    if d % 2:
        assert torch.allclose(psi.similarity(delta), psi(0.25 + delta) @ psi(torch.tensor(0.25).double()))


def test_similarity_of_joint_fourier_maps():
    maps = [JointRandomFourier(2, 64, (3.0, 7.0)), MultiSine(2, 64, 0.01)]
    maps.append(LearnableFourier(2, 64, (0.1, 0.2), fourier=64, hidden=0))
    maps.append(LearnableFourier(4, 64, 0.3, fourier=32, hidden=0, groups=2))
    for psi in maps:
        delta = torch.randn(30, psi.dimensions, dtype=torch.float64) * 0.1
        base = psi(torch.full((psi.dimensions,), 0.4, dtype=torch.float64))
        assert torch.allclose(psi.similarity(delta), psi(0.4 + delta) @ base / (base @ base), atol=1e-6)


def test_similarity_of_impulse_identity_and_embedding():
    delta = torch.tensor([0.0, 0.3, -0.7], dtype=torch.float64)
    assert Impulse(8).similarity(delta).tolist() == [1, 0, 0]
    table = LearnedEmbedding(5, 12).double()
    for psi in (Identity(), table):
        for u in (0.3, 0.7):

            def integrand(x, u=u, psi=psi):
                pair = psi(torch.tensor([x, x + u], dtype=torch.float64)).detach()
                return float(pair[0] @ pair[1])

            kinks = sorted({k / 12 for k in range(12)} | {k / 12 - u for k in range(12) if k / 12 > u})
            at_zero = quad(lambda x: integrand(x, 0.0), 0, 1, points=kinks, limit=60)[0]
            below = [k for k in kinks if k < 1 - u]
            expected = quad(integrand, 0, 1 - u, points=below, limit=60)[0] / (1 - u) / at_zero
            ours = psi.similarity(torch.tensor([u, -u], dtype=torch.float64)).detach()
            assert ours.tolist() == pytest.approx([expected] * 2, abs=1e-5)


def test_joint_similarity_is_the_mean_over_pairs():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(200_000, 2, dtype=torch.float64, generator=generator)
    delta = torch.tensor([0.1, -0.05], dtype=torch.float64)
    for name in ("joint-embedding", "hash-grid", "learnable-fourier"):
        psi = ENCODERS[name].like((Axis(8), Axis(8)), features=32)
        inside = x[((x + delta) >= 0).all(-1) & ((x + delta) < 1).all(-1)]
        with torch.no_grad():
            mean = (psi(inside) * psi(inside + delta)).sum(-1).mean() / psi(x).square().sum(-1).mean()
            assert float(psi.similarity(delta)) == pytest.approx(float(mean), abs=0.01)


def test_the_triangle_as_the_paper_printed_it():
    """With d = 0.1 at δ = 0.03 it is 0.49, the true autocorrelation 0.622."""
    psi = Triangle(8, 0.05)
    delta = torch.tensor(0.03, dtype=torch.float64)
    assert float(psi.printed_similarity(delta)) == pytest.approx(0.49, abs=1e-12)
    assert float(psi.similarity(delta)) == pytest.approx(0.622, abs=1e-12)


@pytest.mark.parametrize(
    "psi",
    [
        Gaussian(4000, 0.01),
        Triangle(4000, 0.02),
        Rectangle(4000, 0.01),
        Rectangle(4000, 0.05),
        *(BSpline(4000, 0.01, degree) for degree in range(6)),
        Impulse(4000),
        Sine(4000, 3.0),
        Sine(4000, 1.3),
        Square(4000, 3.0),
        DFT(4000, 1 / 2000),
        Identity(),
    ],
    ids=lambda p: f"{p.name}{getattr(p, 'degree', '')}",
)
def test_theoretical_stable_rank(psi):
    """Within 3 % of the measured one at 2,000 points and 4,000 features."""
    assert psi.stable_rank(2000) == pytest.approx(stable_rank(psi(Axis(2000).points())), rel=0.03)


def test_stable_rank_of_the_sine_is_at_most_two():
    ranks = [Sine(500, f).stable_rank(500) for f in (0.3, 1.0, 1.3, 2.5, 7.0)]
    assert max(ranks) <= 2 + 1e-12
    assert ranks[1] == pytest.approx(2)


def test_stable_rank_of_random_fourier_is_approached_from_below():
    """11.7 of 12.5 at σ = 5 with 4,000 features; σ = 80 shows the effect of their number."""
    theory = RandomFourier(2, 5.0).stable_rank(2000)
    assert theory == pytest.approx(math.sqrt(2 * math.pi) * 5)
    x = Axis(2000).points()
    few, some, many = (stable_rank(RandomFourier(k, 80.0)(x)) for k in (250, 1000, 4000))
    assert few < some < many < RandomFourier(2, 80.0).stable_rank(2000)
    assert 0.85 * theory < stable_rank(RandomFourier(4000, 5.0)(x)) < theory


def test_stable_rank_is_at_most_the_number_of_points():
    for psi in (Gaussian(8, 1e-4), Triangle(8, 1e-4), Rectangle(8, 1e-4), RandomFourier(8, 1e4)):
        assert psi.stable_rank(10) == 10


def test_stable_rank_has_no_theory_elsewhere():
    assert math.isnan(LinearFourier(8, 3.0).stable_rank(10))
    assert math.isnan(DFT(8, 0.5).stable_rank(10))


@pytest.mark.parametrize("d", [2, 3, 8, 255, 256])
def test_dft_rows_are_orthonormal(d):
    rows = DFT(d, 1 / d)(Axis(d).points())
    assert rows.shape == (d, d)
    assert float((rows @ rows.T - torch.eye(d)).abs().max()) < 1e-12


def test_most_sinusoidal_frequencies_are_below_the_first_of_the_dft():
    """76 of 128 at K = 256, 59 %; the paper counts the 103 of 256 entries below the crossing, on its other side."""
    frequencies = 2 * math.pi * Sinusoidal(256, 1.0).frequencies
    first = 2 * math.pi / 256
    assert int((frequencies < first).sum()) == 76
    assert round(256 / 4 * math.log10(256 / (2 * math.pi))) == 103
    assert int((frequencies >= first).sum()) == 52  # 104 entries: a cosine and a sine each


def test_random_fourier_tends_to_a_gaussian():
    delta = torch.linspace(0, 0.1, 11, dtype=torch.float64)
    expected = torch.exp(-2 * math.pi**2 * 25 * delta.square())
    assert torch.allclose(RandomFourier(200_000, 5.0).similarity(delta), expected, atol=0.01)


def test_gaussian_and_triangle_are_their_formulas():
    x = torch.tensor([0.31], dtype=torch.float64)
    nodes = torch.arange(-2, 12, dtype=torch.float64) / 10
    gaussian = Gaussian(10, 0.07, padding=2)(x)
    triangle = Triangle(10, 0.15, padding=2)(x)
    assert torch.allclose(gaussian[0], torch.exp(-((nodes - 0.31) ** 2) / (2 * 0.07**2)))
    assert torch.allclose(triangle[0], (1 - (nodes - 0.31).abs() / 0.15).clamp(min=0))


def test_frequencies_are_their_rows():
    assert torch.allclose(
        LinearFourier(8, 7.0).frequencies, torch.tensor([1.0, 3, 5, 7], dtype=torch.float64)
    )
    assert torch.allclose(LogFourier(8, 8.0).frequencies, torch.tensor([1.0, 2, 4, 8], dtype=torch.float64))
    b = RandomFourier(20000, 5.0, generator=torch.Generator().manual_seed(3)).frequencies
    assert float(b.std()) == pytest.approx(5, rel=0.02)
    x = torch.tensor([0.2], dtype=torch.float64)
    row = LinearFourier(4, 3.0)(x)[0]
    phases = 2 * math.pi * 0.2 * torch.tensor([1.0, 3], dtype=torch.float64)
    assert torch.allclose(row, torch.cat([phases.cos(), phases.sin()]))


def test_multi_sine_is_its_formula():
    """sin(x / 10000^(2k/K) + y / 5000^(2k/K)) of Li et al., with 2k/K of the half-length rows."""
    psi = MultiSine(2, 6, 0.1)
    x, y = 3.0, 4.0
    k = torch.arange(3, dtype=torch.float64)
    phase = x / 10000 ** (2 * k / 6) + y / 5000 ** (2 * k / 6)
    assert torch.allclose(psi(torch.tensor([0.3, 0.4]).double()), torch.cat([phase.cos(), phase.sin()]))


def test_spacings_are_units():
    axis = Axis.every(100, 2)
    assert Gaussian.like(axis, sigma="0.64px").sigma == pytest.approx(0.64 * 2 / 100)
    assert Gaussian.like(axis).sigma == pytest.approx(0.64 / 50)
    assert Gaussian.like(axis, sigma=0.3).sigma == 0.3
    assert Gaussian.like(axis, sigma="0.3").sigma == 0.3
    assert LinearFourier.like(axis, f_max="0.25/px").f_max == pytest.approx(12.5)
    assert JointRandomFourier.like((Axis(10), Axis(20)), sigma="0.5/px").sigma == pytest.approx((5, 10))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        *(((lambda e=e: e(5, 3.0)), "`features`: expected an even") for e in (LinearFourier, RandomFourier)),
        (lambda: Sinusoidal(5, 0.1), "`features`: expected an even"),
        (lambda: JointRandomFourier(2, 5, 1.0), "`features`: expected an even"),
        (lambda: MultiSine(2, 5, 1.0), "`features`: expected an even"),
        (lambda: LogFourier(4, 0.5), "`f_max`: expected at least 1 cycle"),
        (lambda: Sinusoidal(4, 0.1, rho=1.0), "`rho`: expected a number above 1"),
        (lambda: BSpline(4, 0.1, degree=6), "`degree`: expected 0 to 5"),
        (lambda: BSpline(4, 0.1, degree=0, learnable=True), "`learnable`: expected a degree"),
        (lambda: Identity(2), "`features`: expected 1"),
        (lambda: Gaussian(4, 0.1, start=1.0), "`stop`: expected a number above"),
        (lambda: Gaussian(4, 0.1, padding=-1), "`padding`: expected an integer"),
        (lambda: LearnedEmbedding(4, 0), "`rows`: expected an integer"),
        (lambda: LearnedEmbedding(4, 2, 1.0, 0.0), "`stop`: expected a number above"),
        (lambda: JointRandomFourier(2, 4, (1.0, 2.0, 3.0)), "`sigma`: expected one number, or 2"),
        (lambda: MultiSine(2, 4, 1.0)(torch.rand(5, 3)), "`points`: expected last axis of 2"),
        (lambda: ENCODERS["joint-embedding"](2, 4, (3,)), "`grid`: expected 2 lengths"),
        (lambda: ENCODERS["hash-grid"](4, 32), "`dimensions`: expected 1 to 3"),
        (lambda: ENCODERS["hash-grid"].like((Axis(8),), levels=0), "`levels`: expected an integer"),
        (lambda: ENCODERS["hash-grid"](2, 30), "`features`: expected a multiple of the 16 levels"),
        (lambda: ENCODERS["hash-grid"](2, 32, growth=0.5), "`growth`: expected a number of at least 1"),
    ],
)
def test_what_cannot_be_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
