"""Denoisers as functions of lattice signals: channels, ranges, padding, slices, tiles and symmetries."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import avg_pool2d

import coordnet as cn
from coordnet.priors.denoiser import pictures
from coordnet.priors.denoiser.pictures import NEARBY, SYMMETRIES, LatticeDenoiser, surroundings, turned, turned_back
from tests.helpers import synthetic_photograph


def blur(x, sigma):
    return avg_pool2d(nn.functional.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1)


class Recorded:
    """A denoiser that keeps what it is given."""

    def __init__(self):
        self.given = []

    def __call__(self, x, sigma):
        self.given.append((x, sigma))
        return x + sigma


def test_colors_are_given_as_they_are_and_odd_sides_are_padded(generator):
    x, f = torch.rand(3, 7, 10, generator=generator), Recorded()
    torch.testing.assert_close(LatticeDenoiser(cn.Denoiser(f, multiple=4))(x, 0.1), x + 0.1)
    (given, sigma), *_ = f.given
    assert given.shape == (1, 3, 8, 12) and sigma == 0.1
    torch.testing.assert_close(given[0, :, :7, :10], x)
    torch.testing.assert_close(given[0, :, 7, :10], x[:, -1])


def test_gray_is_repeated_with_more_noise(generator):
    x, f = torch.rand(1, 8, 8, generator=generator), Recorded()
    made = LatticeDenoiser(cn.Denoiser(f))(x, 0.1)
    (given, sigma), *_ = f.given
    assert given.shape == (1, 3, 8, 8) and sigma == pytest.approx(math.sqrt(3) * 0.1)
    torch.testing.assert_close(made, x + sigma)


def test_other_numbers_of_channels_are_denoised_one_by_one(generator):
    x = torch.rand(4, 8, 8, generator=generator)
    made = LatticeDenoiser(cn.Denoiser(blur, channels=1))(x, 0.1)
    torch.testing.assert_close(made, blur(x.unsqueeze(0), 0.1)[0])


def test_values_and_noise_are_in_the_denoiser_s_range(generator):
    x, f = torch.rand(3, 8, 8, generator=generator), Recorded()
    made = LatticeDenoiser(cn.Denoiser(f, range=(-1.0, 1.0)))(x, 0.1)
    (given, sigma), *_ = f.given
    torch.testing.assert_close(given[0], 2 * x - 1)
    assert sigma == pytest.approx(0.2)
    torch.testing.assert_close(made, x + 0.1)


def test_clips_are_denoised_in_slices(generator):
    x = torch.rand(3, 5, 8, 6, generator=generator)
    made = LatticeDenoiser(cn.Denoiser(blur))(x, 0.1, 5)
    expected = torch.stack([blur(x[:, t].unsqueeze(0), 0.1)[0] for t in range(5)], 1)
    torch.testing.assert_close(made, expected)


def test_tiles_with_margins_do_not_change_a_local_denoiser(monkeypatch, generator):
    x = torch.rand(3, 50, 41, generator=generator)
    whole = LatticeDenoiser(cn.Denoiser(blur))(x, 0.1)
    monkeypatch.setattr(pictures, "TILE", 16)
    monkeypatch.setattr(pictures, "MARGIN", 2)
    torch.testing.assert_close(LatticeDenoiser(cn.Denoiser(blur))(x, 0.1), whole)


def test_the_eight_symmetries_are_different_and_turned_back(generator):
    x = torch.rand(2, 3, 5, generator=generator)
    seen = {tuple(turned(x, k).flatten().tolist()) for k in SYMMETRIES}
    assert len(seen) == 8
    for k in SYMMETRIES:
        assert torch.equal(turned_back(turned(x, k), k), x)


def test_networks_are_copied_evaluated_and_without_gradients(generator):
    network = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Dropout(0.5)).train()

    class Ignoring(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network

        def forward(self, x, sigma):
            return self.inner(x)

    prior = cn.Denoiser(Ignoring())
    x = torch.rand(3, 8, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    made = LatticeDenoiser(prior)(x, 0.1)
    assert made.dtype == torch.float64 and not made.requires_grad
    torch.testing.assert_close(made, network[0](x.float().unsqueeze(0))[0].double())
    assert prior.f.training and all(p.requires_grad for p in prior.f.parameters())


def test_modules_without_tensors_are_evaluated_and_may_hold_what_cannot_be_copied(generator):
    class Filter(nn.Module):  # as deepinv's BM3D
        def __init__(self):
            super().__init__()
            self.held, self.inner = [pictures], nn.Sequential(nn.Dropout(0.5))

        def forward(self, x, sigma):
            return 2 * x if self.training else self.inner(sigma * x)

    x, f = torch.rand(3, 8, 8, generator=generator), Filter()
    torch.testing.assert_close(LatticeDenoiser(cn.Denoiser(f))(x, 0.5), 0.5 * x)
    assert all(module.training for module in f.modules())


@pytest.mark.parametrize(
    ("f", "found"),
    [
        (lambda x, s: x[..., 1:], "keeps the shape"),
        (lambda x, s: None, "a tensor of real numbers, received NoneType"),
        (lambda x, s: x / 0, "finite"),
        (nn.Identity(), "pictures .1, 3, 8, 8. and σ, received TypeError"),
        (lambda x, s: nn.Conv2d(1, 1, 3)(x), "received RuntimeError"),
        (lambda x, s: {}["weights"], "received KeyError"),
        (lambda x, s: x.to("meta"), "received NotImplementedError"),
        (lambda x, s: 1j * x, "real numbers"),
        (nn.LazyConv2d(3, 3), "copy.deepcopy copies"),
    ],
)
def test_what_is_no_denoiser_of_such_pictures_is_refused(f, found):
    with pytest.raises(ValueError, match=f"`f`: .*{found}"):
        LatticeDenoiser(cn.Denoiser(f))(torch.ones(3, 8, 8), 0.1)


@pytest.mark.parametrize(
    ("argument", "options"),
    [("f", {"f": 3}), ("channels", {"channels": 0}), ("range", {"range": (1.0, 0.0)}), ("multiple", {"multiple": 0})],
)
def test_arguments_out_of_range_are_refused(argument, options):
    with pytest.raises(ValueError, match=f"`{argument}`"):
        cn.Denoiser(**{"f": blur, **options})


def test_layers_of_networks_multiply_bfloat16_from_a_standard_deviation_on(monkeypatch, generator):
    monkeypatch.setattr(pictures, "multiplies_bfloat16", lambda: True)

    class Layer(nn.Conv2d):
        def forward(self, x, sigma):
            return super().forward(x)

    x, prior = torch.rand(3, 8, 8, generator=generator), cn.Denoiser(Layer(3, 3, 1))
    weight, bias = (p.detach().bfloat16().double() for p in prior.f.parameters())
    denoiser = LatticeDenoiser(prior, rounded_from=0.1)
    found, exact = denoiser(x, 0.1), denoiser(x, 0.09)
    y = torch.einsum("oi,ihw->ohw", weight[..., 0, 0], x.bfloat16().double()) + bias[:, None, None]
    assert found.dtype == torch.float32 and not torch.equal(found, exact)
    torch.testing.assert_close(found.double(), y, atol=1e-3, rtol=2**-7)
    torch.testing.assert_close(exact, super(Layer, prior.f).forward(x[None])[0].detach(), atol=1e-6, rtol=1e-6)
    function = cn.Denoiser(blur)
    assert torch.equal(LatticeDenoiser(function, rounded_from=0)(x, 0.1), LatticeDenoiser(function)(x, 0.0))


def test_surroundings_of_gaps_are_windows_that_leave_out_what_is_far():
    sought = torch.zeros(1, 300, 300, dtype=torch.bool)
    sought[0, 10:20, 40:60] = sought[0, 250, 250] = True
    near, far = surroundings(sought)
    assert near == (slice(0, 20 + NEARBY), slice(40 - NEARBY, 60 + NEARBY))
    assert far == (slice(250 - NEARBY, 251 + NEARBY), slice(250 - NEARBY, 251 + NEARBY))
    assert surroundings(sought.expand(2, 4, 300, 300)) == [near, far]  # gaps of any frame
    sought[0, ::45, ::45] = True
    assert surroundings(sought) == [(slice(0, 271 + NEARBY), slice(0, 271 + NEARBY))]
    sought[0, 280, 280] = sought[0, 99] = True
    assert surroundings(sought) == [(slice(None), slice(None))]


def test_what_is_far_from_gaps_is_not_denoised():
    """A hole in the corner of a picture is filled by small windows around it and its copies."""
    shapes, truth = set(), synthetic_photograph(96, 96)
    known = torch.ones(96, 96)
    known[:8, :8] = 0

    def seen(x, sigma):
        shapes.add(tuple(x.shape[2:]))
        return x

    samples = cn.sample(truth, known)
    cn.Denoiser(seen).plan(cn.FourierEncoding.like(samples), samples.geometry).fit(samples.values)
    assert shapes and max(h * w for h, w in shapes) < 96 * 96 / 2
