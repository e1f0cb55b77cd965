"""Li et al. (NeurIPS 2021), Algorithm 1."""

import math

import pytest
import torch

from coordnet.encodings.encoders import LearnableFourier


def count(psi):
    return sum(p.numel() for n, p in psi.named_parameters() if n != "log_variance")


def test_counts_of_algorithm_1():
    """|F| = 384, |H| = 32, D = 768: W (192×2), W₁ (384×32), B₁, W₂ (32×768), B₂."""
    psi = LearnableFourier(2, 768, 1.0, fourier=384, hidden=32)
    assert count(psi) == 192 * 2 + 384 * 32 + 32 + 32 * 768 + 768 == 38_048
    assert psi.frequencies.shape == (192, 2)
    assert psi(torch.rand(5, 2)).shape == (5, 768)


@pytest.mark.parametrize(("groups", "coordinates"), [(1, 4), (2, 2), (4, 1)])
def test_groups_share_their_weights(groups, coordinates):
    """Boxes in groups 1/4, 2/2, 4/1: shapes (N, G, M) → (N, D), each group from its own coordinates alone."""
    psi = LearnableFourier(4, 768, 100.0, fourier=384, hidden=32, groups=groups).double()
    assert psi.frequencies.shape == (192, coordinates)
    assert count(psi) == 192 * coordinates + 384 * 32 + 32 + 32 * 768 // groups + 768 // groups
    x = torch.rand(3, 4, dtype=torch.float64)
    repeated = x[:, :coordinates].repeat(1, groups)
    parts = psi(repeated).unflatten(-1, (groups, -1))
    assert torch.allclose(parts, parts[:, :1].expand_as(parts))
    moved = x.clone()
    moved[:, -1] += 30.0
    changed = (psi(moved) - psi(x)).unflatten(-1, (groups, -1)).abs().amax((0, 2)) > 1e-9
    assert changed.tolist() == [False] * (groups - 1) + [True]


def test_it_is_algorithm_1():
    """cos XWᵀ ‖ sin XWᵀ over √|F|, a GeLU layer, a linear layer; step by step."""
    torch.manual_seed(0)
    psi = LearnableFourier(2, 10, 0.5, fourier=6, hidden=4).double()
    x = torch.rand(7, 2, dtype=torch.float64)
    first, last = [m for m in psi.modulator if isinstance(m, torch.nn.Linear)]
    phase = x @ (psi.frequencies / 0.5).T
    f = torch.cat([phase.cos(), phase.sin()], -1) / math.sqrt(6)
    y = torch.nn.functional.gelu(f @ first.weight.T + first.bias) @ last.weight.T + last.bias
    assert torch.allclose(psi(x), y)
    torch.manual_seed(0)
    normed = LearnableFourier(2, 10, 0.5, fourier=6, hidden=4, layer_norm=True).double()
    norm = torch.nn.functional.layer_norm
    inner = torch.nn.functional.gelu(norm(f, (6,)) @ first.weight.T + first.bias)
    assert torch.allclose(normed(x), norm(inner, (4,)) @ last.weight.T + last.bias)


def test_the_fourier_features_are_those_before_the_modulator():
    psi = LearnableFourier(4, 10, 0.5, fourier=6, hidden=4, groups=2).double()
    x = torch.rand(7, 4, dtype=torch.float64)
    plain = psi.unmodulated()
    assert torch.equal(plain(x), psi.waves(x).flatten(-2))
    products = (psi.waves(x).unsqueeze(1) * psi.waves(x)).sum(-1).mean(-1)
    phases = (x.unsqueeze(1) - x).unflatten(-1, (2, 2)) @ (psi.frequencies / 0.5).T
    assert torch.allclose(products, phases.cos().mean((-1, -2)) / 2)


def test_fixed_and_uniform_frequencies():
    options = {"fourier": 8, "hidden": 0}
    drawn = [torch.Generator().manual_seed(1) for _ in range(2)]
    fixed, free = (LearnableFourier(2, 8, 1.0, fixed=f, generator=drawn[f], **options) for f in (True, False))
    assert torch.equal(fixed.frequencies, free.frequencies)
    fixed(torch.rand(3, 2, requires_grad=True)).sum().backward()
    assert fixed.frequencies.grad is None and free.frequencies.requires_grad
    uniform = LearnableFourier(2, 20_000, 1.0, fourier=20_000, hidden=0, uniform=True).frequencies
    assert 0 <= float(uniform.detach().min()) and float(uniform.detach().max()) <= 1
    assert float(uniform.detach().mean()) == pytest.approx(0.5, abs=0.02)


def test_dropout_is_of_training_alone():
    psi = LearnableFourier(2, 10, 0.5, fourier=6, hidden=4, dropout=0.5)
    x = torch.rand(50, 2)
    assert not torch.equal(psi.train()(x), psi(x))
    assert torch.equal(psi.eval()(x), psi(x))


def test_inner_product_at_initialisation():
    """½ exp(-‖δ‖² / (2γ²)) to Monte-Carlo error, not the exp(-‖δ‖²/γ²) that the paper writes."""
    psi = LearnableFourier(2, 100_000, 0.7, fourier=100_000, hidden=0)
    delta = torch.tensor([[0.0, 0.0], [0.3, 0.1], [0.2, -0.5], [1.0, 0.4]])
    x = torch.tensor([0.2, 0.6])
    products = psi(x + delta) @ psi(x)
    expected = 0.5 * torch.exp(-delta.square().sum(-1) / (2 * 0.7**2))
    error = 0.5 / math.sqrt(2 * 50_000)  # a standard deviation of a mean of 50,000 cosines
    assert torch.allclose(products, expected, atol=4 * error, rtol=0)
    printed = torch.exp(-delta.square().sum(-1) / 0.7**2)
    assert not torch.allclose(products, printed, atol=0.05)


def test_divergence_is_zero_at_the_prior():
    psi = LearnableFourier(2, 40_000, 0.7, fourier=40_000, hidden=0)
    assert float(psi.divergence().detach()) == pytest.approx(0, abs=1e-3)
    with torch.no_grad():
        psi.frequencies += 1
    assert float(psi.divergence().detach()) == pytest.approx(0.5, abs=0.03)
    with torch.no_grad():
        psi.frequencies.sub_(1).mul_(2)
    assert float(psi.divergence().detach()) == pytest.approx(-0.5 * (1 + math.log(4) - 4), abs=0.1)
    psi.divergence().backward()
    assert float(psi.log_variance.grad) < 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": 3}, "`groups`: expected a divisor of the 4 dimensions"),
        ({"groups": 4, "features": 6}, "`groups`: expected a divisor of the 6 features"),
        ({"groups": 0}, "`groups`: expected an integer of at least 1"),
        ({"fourier": 5}, "`fourier`: expected an even number"),
        ({"hidden": -1}, "`hidden`: expected an integer of at least 0"),
        ({"hidden": 0}, "`features`: expected 384"),
        ({"dropout": 1.0}, "`dropout`: expected a share below 1"),
        ({"gamma": 0.0}, "`gamma`: expected a positive"),
    ],
)
def test_bad_choices_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LearnableFourier(4, **{"features": 8, "gamma": 1.0, **options})
