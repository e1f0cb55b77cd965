"""The modulator of Li et al. (NeurIPS 2021) on any encoding."""

import pytest
import torch
from torch.nn.functional import gelu, layer_norm, linear

from coordnet.encodings import ComplexEncoding, JointEncoding, ModulatedEncoding, SimpleEncoding, encoding_from
from coordnet.encodings.encoders import Gaussian, Identity, LearnableFourier, MultiSine, Sinusoidal

ENCODINGS = [
    SimpleEncoding([Identity(), Identity()]),
    SimpleEncoding([Sinusoidal(6, 0.1), Gaussian(5, 0.2)]),
    JointEncoding(MultiSine(2, 8, 0.1)),
    ComplexEncoding([Gaussian(3, 0.2), Gaussian(4, 0.2)]),
]


def drawn():
    return torch.Generator().manual_seed(3)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_it_is_two_dense_layers_after_the_encoding(encoding, norm):
    psi = ModulatedEncoding(encoding, 7, 4, layer_norm=norm, generator=drawn())
    x = torch.rand(9, 2, dtype=torch.float64)
    first, last = [m.double() for m in psi.modulator.modules() if isinstance(m, torch.nn.Linear)]
    f = encoding(x)
    inner = gelu(linear(layer_norm(f, f.shape[-1:]) if norm else f, first.weight, first.bias))
    expected = linear(layer_norm(inner, (4,)) if norm else inner, last.weight, last.bias)
    assert psi.shape == (7,)
    assert torch.allclose(psi(x), expected)


def test_on_fourier_features_it_is_learnable_fourier():
    whole = LearnableFourier(2, 10, 0.5, fourier=6, hidden=4, layer_norm=True)
    parts = ModulatedEncoding(JointEncoding(whole.unmodulated()), 10, 4, layer_norm=True)
    parts.modulator.load_state_dict(whole.modulator.state_dict())
    x = torch.rand(9, 2)
    assert torch.equal(parts(x), whole(x))


def test_bad_choices_are_refused():
    with pytest.raises(ValueError, match="`features`"):
        ModulatedEncoding(ENCODINGS[0], 0)
    with pytest.raises(ValueError, match="`encoding`: expected one of features"):
        encoding_from(ModulatedEncoding(ENCODINGS[0], 7).configuration() | {"depth": 2})
