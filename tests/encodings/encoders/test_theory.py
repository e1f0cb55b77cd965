"""Similarities against quadrature, stable ranks against singular values, formulas against the papers."""

import math

import numpy as np
import pytest
import torch

from coordnet.encodings.encoders import (
    DFT,
    BSpline,
    Encoder,
    Gaussian,
    Identity,
    JointRandomFourier,
    LearnedEmbedding,
    LinearFourier,
    LogFourier,
    MultiSine,
    RandomFourier,
    Rectangle,
    ShiftedBasis,
    Sine,
    Sinusoidal,
    Square,
    Triangle,
)
from coordnet.encodings.encoders.similarity import mean_similarity
from coordnet.encodings.kinds import ENCODERS
from coordnet.sampling.axes import Axis

STEP = 1e-5
CELLS = 60  # kinks of every encoder here are at multiples of 1/60, and so are the offsets
DELTA = torch.tensor([0, 1, -3, 10, 24, -36], dtype=torch.float64) / CELLS


def stable_rank(a):
    squares = torch.linalg.eigvalsh(a @ a.T if a.shape[0] <= a.shape[1] else a.T @ a)
    return float(a.square().sum() / squares.max())


def autocorrelation(psi, delta):
    """∫φ(u) φ(u + δ) du / ∫φ² by midpoints STEP apart, which edges at multiples of STEP never meet."""
    u = -1 + STEP * (torch.arange(round(2 / STEP), dtype=torch.float64) + 0.5)
    base = psi.bump(u)
    return torch.stack([(base * psi.bump(u + d)).mean() for d in delta]) / base.square().mean()


def mean_over_pairs(psi, delta, dimensions):
    """∫ψ(x)·ψ(x + δ) dx over the pairs in the unit cube, over that at δ = 0, by four Gauss nodes in each cell."""
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(4))
    line = (torch.arange(CELLS).unsqueeze(-1) + (nodes + 1) / 2).flatten() / CELLS
    x = torch.cartesian_prod(*[line] * dimensions).reshape(-1, dimensions)
    w = torch.cartesian_prod(*[weights.repeat(CELLS)] * dimensions).reshape(-1, dimensions).prod(-1)

    def mean(offset):
        inside = ((x + offset > 0) & (x + offset < 1)).all(-1)
        pairs = [y if dimensions > 1 else y[:, 0] for y in (x[inside], x[inside] + offset)]
        return (psi(pairs[0]) * psi(pairs[1])).sum(-1) @ w[inside] / w[inside].sum()

    return torch.stack([mean(d) for d in delta]) / mean(torch.zeros(dimensions, dtype=torch.float64))


@torch.no_grad()
def test_similarity_is_its_integral(variant):
    """D of every encoder to 1e-6: over t of a shifted basis, over whole positions of the DFT, else over pairs."""
    encoder, options = variant
    if issubclass(encoder, ShiftedBasis):
        made = encoder.like(Axis(25), **options).configuration()
        psi, delta = (encoder(**{**made, "features": 4000}), torch.tensor([0, 0.002, -0.01, 0.026, 0.05, -0.24]))
        delta = delta.double()
        expected = autocorrelation(psi, delta)
    elif issubclass(encoder, DFT):
        psi, delta = encoder.like(Axis(options["features"]), **options), torch.linspace(-1, 1, 37).double()
        s = Axis(options["features"]).points()
        expected = torch.stack([(psi(s) * psi(s + u)).sum(-1).mean() for u in delta])
    elif issubclass(encoder, Encoder):
        psi, delta = encoder.like(Axis(12), **options).double(), DELTA
        expected = mean_over_pairs(psi, delta.unsqueeze(-1), 1)
    else:
        axes = (Axis(5), Axis(4))
        psi, delta = encoder.like(axes, **options).double(), torch.stack([DELTA, DELTA.flip(0)], dim=-1)
        expected = mean_over_pairs(psi, delta, 2)
    assert torch.allclose(psi.similarity(delta), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("psi", [Sine(10**4, 3.0), Square(10**4, 4.0)], ids=lambda p: p.name)
def test_similarity_of_faster_waves(psi):
    delta = torch.tensor([0.0, 0.002, -0.01, 0.026, 0.05, -0.24], dtype=torch.float64)
    assert torch.allclose(psi.similarity(delta), autocorrelation(psi, delta), atol=1e-6, rtol=0)


def test_quadrature_refines_until_it_holds():
    """A fast wave, which few nodes would alias, and a kink, up to the result of the rule's most nodes."""
    wave = mean_similarity(lambda x: torch.cat([(300 * x).cos(), (300 * x).sin()], -1), DELTA.unsqueeze(-1))
    assert torch.allclose(wave, (300 * DELTA).cos(), atol=1e-10)
    psi = LinearFourier(64, 9.0)
    assert torch.allclose(Encoder.similarity(psi, DELTA), psi.similarity(DELTA), atol=1e-10)
    kinked = LearnedEmbedding(5, 12).double()
    blind = mean_similarity(lambda x: kinked(x[..., 0]), DELTA.unsqueeze(-1))
    assert torch.allclose(blind, kinked.similarity(DELTA), atol=1e-4)


def test_tables_at_the_ends_of_their_offsets():
    """One row is constant; at |δ| = 1 there is the pair (0, 1) alone."""
    assert LearnedEmbedding(3, 1).double().similarity(DELTA).tolist() == pytest.approx([1.0] * len(DELTA))
    psi = LearnedEmbedding(3, 4).double().requires_grad_(False)
    first, last = psi(torch.tensor([0.0, 1.0], dtype=torch.float64))
    mean = psi((torch.arange(10**5).double() + 0.5) / 10**5).square().sum(-1).mean()
    ends = psi.similarity(torch.tensor([1.0, -1.0], dtype=torch.float64))
    assert ends.tolist() == pytest.approx([float(first @ last / mean)] * 2, rel=1e-6)


def test_theoretical_stable_rank(variant):
    """Within 3 % of the measured one at 500 points and 1,000 features; from below where features are drawn."""
    encoder, options = variant
    if not issubclass(encoder, Encoder):
        assert math.isnan(encoder.like((Axis(8), Axis(8)), **options).stable_rank(64))
        return
    options = {k: v for k, v in options.items() if k == "degree"}
    many = {} if encoder is Identity else {"features": 4000 if encoder.random else 1000}
    wide = {p.name: "5px" if p.unit == "length" else "0.01/px" for p in encoder.scales}
    made = [encoder.like(Axis(500), **many, **options, **scales) for scales in (wide, {})]
    known = [psi for psi in made if not math.isnan(psi.stable_rank(500))]
    if not known:
        pytest.skip("the papers give no stable rank")
    theory, measured = known[0].stable_rank(500), stable_rank(known[0](Axis(500).points()))
    if encoder.random:
        assert 0.8 * theory < measured < theory
    else:
        assert measured == pytest.approx(theory, rel=0.03)


@pytest.mark.parametrize("psi", [Rectangle(1000, 0.05), Sine(1000, 1.3), Square(1000, 3.0)], ids=lambda p: p.name)
def test_theoretical_stable_rank_elsewhere(psi):
    assert psi.stable_rank(500) == pytest.approx(stable_rank(psi(Axis(500).points())), rel=0.03)


def test_stable_rank_of_the_sine_is_at_most_two():
    ranks = [Sine(500, f).stable_rank(500) for f in (0.3, 1.0, 1.3, 2.5, 7.0)]
    assert max(ranks) <= 2 + 1e-12
    assert ranks[1] == pytest.approx(2)


def test_stable_rank_of_random_fourier_is_approached_from_below():
    """11.7 of 12.5 at σ = 5 with 4,000 features; σ = 80 shows the effect of their number."""
    theory = RandomFourier(2, 5.0).stable_rank(500)
    assert theory == pytest.approx(math.sqrt(2 * math.pi) * 5)
    x = Axis(500).points()
    few, some, many = (stable_rank(RandomFourier(k, 80.0)(x)) for k in (250, 1000, 4000))
    assert few < some < many < RandomFourier(2, 80.0).stable_rank(500)
    assert 0.85 * theory < stable_rank(RandomFourier(4000, 5.0)(x)) < theory


def test_stable_rank_is_at_most_the_number_of_points():
    for psi in (Gaussian(8, 1e-4), Triangle(8, 1e-4), Rectangle(8, 1e-4), RandomFourier(8, 1e4)):
        assert psi.stable_rank(10) == 10


@pytest.mark.parametrize("d", [2, 3, 8, 255, 256])
def test_dft_rows_are_orthonormal(d):
    rows = DFT(d, 1 / d)(Axis(d).points())
    assert rows.shape == (d, d)
    assert float((rows @ rows.T - torch.eye(d)).abs().max()) < 1e-12


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
    assert torch.allclose(LinearFourier(8, 7.0).frequencies, torch.tensor([1.0, 3, 5, 7], dtype=torch.float64))
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
        (lambda: Sinusoidal(4, 0.1, rho=1.0), "`rho`: expected a number above 1"),
        (lambda: BSpline(4, 0.1, degree=6), "`degree`: expected 0 to 5"),
        (lambda: BSpline(4, 0.1, degree=0, learnable=True), "`learnable`: expected a degree"),
        (
            lambda: ENCODERS["learnable-fourier"].like((Axis(4), Axis(4)), groups=3),
            "a divisor of the 2 dimensions, received 3",
        ),
        (lambda: Identity(2), "`features`: expected 1"),
        (lambda: Gaussian(4, 0.1, start=1.0), "`stop`: expected a number above"),
        (lambda: Gaussian(4, 0.1, padding=-1), "`padding`: expected an integer"),
        (lambda: LearnedEmbedding(4, 0), "`rows`: expected an integer"),
        (lambda: LearnedEmbedding(4, 2, 1.0, 0.0), "`stop`: expected a number above"),
        (lambda: JointRandomFourier(2, 4, (1.0, 2.0, 3.0)), "`sigma`: expected one number, or 2"),
        (lambda: MultiSine(2, 4, 1.0)(torch.rand(5, 3)), "`points`: expected 2 coordinates"),
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
