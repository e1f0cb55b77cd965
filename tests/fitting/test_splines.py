"""Splines in the place of other defaults: on fields that are smooth, and on nothing else."""

import numpy as np
import pytest
import torch
from scipy.interpolate import RectBivariateSpline

import coordnet as cn
from coordnet.encodings.encoders import Gaussian, UnevenSpline
from coordnet.fitting.fit import choose, is_smooth
from tests.helpers import synthetic_photograph


def lattice(*lengths, dtype=torch.float64):
    axes = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) / n for n in lengths), indexing="ij")
    return [x.to(dtype) for x in axes]


def field(x, y):
    return torch.sin(5 * x) * torch.cos(3 * y)


def chosen(values):
    return choose(cn.sample(values.unsqueeze(-1), "full")).encoder.family


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_derivatives_of_a_smooth_field_are_as_good_as_scipys(dtype):
    """Anywhere between the first and the last sample: the value, d/dx and the Laplacian."""
    fit = cn.fit(cn.sample(field(*lattice(64, 64, dtype=dtype)).unsqueeze(-1), "full"))
    points = torch.rand(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 63 / 64
    x = points.to(dtype, copy=True).requires_grad_()
    value = fit(x)[:, 0]
    (slope,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    laplacian = sum(torch.autograd.grad(slope[:, j].sum(), x, retain_graph=True)[0][:, j] for j in range(2))
    at = np.arange(64) / 64
    peer = RectBivariateSpline(at, at, field(*lattice(64, 64)).numpy())
    a, b = points.T.numpy()
    truth = np.sin(5 * a) * np.cos(3 * b)
    peers = [peer.ev(a, b), peer.ev(a, b, dx=1), peer.ev(a, b, dx=2) + peer.ev(a, b, dy=2)]
    truths = [truth, 5 * np.cos(5 * a) * np.cos(3 * b), -34 * truth]
    for found, other, true in zip([value, slope[:, 0], laplacian], peers, truths, strict=True):
        error = np.abs(found.detach().double().numpy() - true).max()
        assert error <= max(np.abs(other - true).max(), (1e-3 if dtype == torch.float32 else 0) * np.abs(true).max())


@pytest.mark.parametrize("lengths", [(200,), (16, 15), (2, 40), (130, 140), (12, 14, 16)])
def test_smooth_fields_of_any_shape_take_splines(lengths):
    x = lattice(*lengths)
    values = torch.sin(3 * x[-1]) * (1 + x[0])
    samples = cn.sample(values.unsqueeze(-1), "full")
    assert choose(samples).encoder.family is UnevenSpline
    assert torch.allclose(cn.fit(samples).render()[..., 0], values, atol=1e-10)


def test_what_is_not_smooth_keeps_what_it_had():
    """Photographs, noise, steps, 8-bit pictures even of smooth fields, constants, and short rows."""
    generator = torch.Generator().manual_seed(0)
    smooth = 0.5 + 0.5 * field(*lattice(96, 80))
    noise = torch.randn(smooth.shape, generator=generator, dtype=torch.float64)
    edge = smooth.clone()
    edge[20, 30] += 0.1
    photograph = synthetic_photograph(64, 64)[..., 0]
    for values in (photograph, smooth + 1e-2 * noise, (255 * smooth).round() / 255, edge, torch.ones(40, 40)):
        assert chosen(values) is Gaussian
    assert chosen(torch.arange(10.0).square()) is Gaussian
    assert chosen(smooth) is UnevenSpline and is_smooth(smooth.unsqueeze(-1)) and not is_smooth(edge.unsqueeze(-1))


def test_splines_are_for_defaults_alone():
    samples = cn.sample(field(*lattice(32, 32)).unsqueeze(-1), "full")
    assert choose(samples, Gaussian).encoder.family is Gaussian
    assert choose(samples, prior=None).encoder.family is Gaussian
    assert choose(samples, tunable=True).encoder.family is Gaussian
    assert choose(samples, robust=True).prior.loss == "huber"


def test_bands_of_splines_are_their_dense_matrices():
    """Also on finer lattices, on parts of them, and for degrees that few sites lower."""
    for sites, count, degree in ((200, 200, 5), (150, 470, 3), (300, 130, 1)):
        axis = cn.Lattice((sites,)).axes
        encoder = UnevenSpline.for_axes(axis, None, degree=degree)
        (finer,) = cn.Lattice((count,)).axes
        assert torch.allclose(encoder.banded(finer).dense(), encoder.on_axis(finer), rtol=0, atol=1e-12)
    assert encoder.banded(cn.RectilinearLattice([0.0, 1.0, 3.0]).axes[0]) is None
