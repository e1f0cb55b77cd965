import pytest
import torch

import coordnet as cn
from tests.helpers import synthetic_photograph

deepinv = pytest.importorskip("deepinv", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # deepinv's own


def operators():
    psf = torch.tensor([[0.1, 0.2, 0.1], [0.2, 0.4, 0.2], [0.0, 0.1, 0.1]])
    yield cn.operators.Blur(psf, (12, 10))
    yield cn.operators.Projections([0.0, 45.0, 90.0], (12, 12))
    yield cn.operators.FourierSamples(torch.rand(12, 10, generator=torch.Generator().manual_seed(0)) < 0.5)


@pytest.mark.parametrize("operator", list(operators()), ids=lambda operator: type(operator).__name__)
def test_operators_are_physics_with_an_exact_adjoint(operator, generator):
    made = cn.interop.deepinv.physics(operator, channels=2)
    assert float(made.adjointness_test(dtype=torch.float64)) < 1e-6
    x = torch.rand(3, 2, *operator.domain, generator=generator)
    torch.testing.assert_close(made.A(x), operator(x))
    assert cn.interop.deepinv.operator(made) is operator


def test_physics_are_operators(generator):
    kernel = torch.rand(1, 1, 3, 3, generator=generator)
    blur = deepinv.physics.BlurFFT(img_size=(1, 12, 10), filter=kernel)
    operator = cn.interop.deepinv.operator(blur)
    x = torch.rand(2, 3, 12, 10, generator=generator)
    torch.testing.assert_close(operator(x), torch.cat([blur.A(x[:, k : k + 1]) for k in range(3)], 1))
    colored = cn.interop.deepinv.operator(deepinv.physics.BlurFFT(img_size=(3, 12, 10), filter=kernel))
    torch.testing.assert_close(colored(x), operator(x))
    y = torch.rand(2, 3, *operator.codomain, generator=generator)
    torch.testing.assert_close((operator(x) * y).sum(), (x * operator.T(y)).sum())
    with pytest.raises(ValueError, match="`grid`"):
        cn.interop.deepinv.operator(deepinv.physics.LinearPhysics(A=lambda x: x, A_adjoint=lambda y: y))
    with pytest.raises(ValueError, match="expected one that maps all channels alike, received MRI"):
        cn.interop.deepinv.operator(deepinv.physics.MRI(img_size=(12, 10)))


@pytest.mark.parametrize("channels", [1, 3])
def test_reconstructors_fit_whatever_maps_all_channels_alike(channels):
    size = (channels, 24, 20)
    truth = synthetic_photograph(24, 20, channels).movedim(-1, 0).unsqueeze(0)
    physics = [
        deepinv.physics.Downsampling(img_size=size, factor=2, filter="gaussian"),
        deepinv.physics.CompressedSensing(m=200, img_size=size, channelwise=True),
        *([deepinv.physics.CompressedSensing(m=200, img_size=size)] if channels == 1 else []),
    ]
    for made in physics:
        y = made.A(truth)
        found = cn.interop.deepinv.reconstructor()(y, made)
        assert found.shape == truth.shape
        assert float((made.A(found) - y).norm()) < 0.02 * float(y.norm())


def test_reconstructors_fit_with_our_priors(generator):
    truth = synthetic_photograph(24, 20, 1)
    mask = (torch.rand(24, 20, generator=generator) < 0.5).float()
    inpainting = deepinv.physics.Inpainting(img_size=(1, 24, 20), mask=mask)
    y = inpainting.A(truth.movedim(-1, 0).unsqueeze(0))
    found = cn.interop.deepinv.reconstructor(cn.Adaptive())(y, inpainting)
    expected = cn.fit(cn.sample(truth, mask), prior=cn.Adaptive()).render(alignment="sample")
    torch.testing.assert_close(found[0].movedim(0, -1), expected)
    blur = cn.operators.Blur(torch.full((3, 3), 1 / 9), (24, 20))
    y = blur(truth.movedim(-1, 0)).unsqueeze(0)
    found = cn.interop.deepinv.reconstructor()(y, cn.interop.deepinv.physics(blur))
    expected = cn.fit(cn.Measurements(blur, y[0].movedim(0, -1))).render(alignment="sample")
    torch.testing.assert_close(found[0].movedim(0, -1), expected)
