import pytest
import torch

from coordnet.encodings import SimpleEncoding
from coordnet.encodings.encoders import DFT
from coordnet.encodings.kinds import ENCODERS
from coordnet.networks.attention import AttentionClassifier, PositionedTokens
from coordnet.sampling.grids import Lattice
from tests.helpers import SMALL_ENCODERS


def encoding_of(encoder):
    return SimpleEncoding.like(encoder, Lattice((6, 5)), **SMALL_ENCODERS.get(encoder.name, {"features": 8}))


@pytest.fixture
def batch(generator):
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 4:] = True
    padding[2, :2] = True
    tokens, positions = (torch.rand(3, 7, n, generator=generator) for n in (4, 2))
    return tokens, positions, padding


@pytest.mark.parametrize("combine", ["add", "concatenate"])
@pytest.mark.parametrize("name", ["gaussian", "learnable-fourier", "hash-grid"])
def test_encodings_have_part_in_attention(name, combine, batch):
    tokens, positions, padding = batch
    encoding = encoding_of(ENCODERS[name])
    placed = PositionedTokens(encoding, 4, combine)
    out = placed(tokens, positions, padding)
    assert out.shape == (3, 7, placed.width)
    assert not out[padding].any()
    if combine == "concatenate":
        assert torch.equal(out[~padding][:, :4], tokens[~padding])
        assert torch.allclose(out[~padding][:, 4:], encoding(positions)[~padding])
    else:
        code = torch.nn.functional.linear(encoding(positions), placed.projection.weight, placed.projection.bias)
        assert torch.allclose(out[~padding], (tokens + code)[~padding], atol=1e-6)
    model = AttentionClassifier(encoding, 4, 3, width=8, depth=1, heads=1, combine=combine)
    model(tokens, positions, padding).square().sum().backward()
    trained = [p for p in model.positioned.parameters() if p.requires_grad]
    assert all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in trained)


def test_padding_has_no_part_in_the_logits(batch):
    tokens, positions, padding = batch
    model = AttentionClassifier(encoding_of(ENCODERS["gaussian"]), 4, 3, width=8).eval()
    with torch.no_grad():
        logits = model(tokens, positions, padding)
        changed = model(torch.where(padding.unsqueeze(-1), 99.0, tokens), positions, padding)
        short = model(tokens[1:2, :4], positions[1:2, :4])
    assert torch.allclose(logits, changed, atol=1e-5)
    assert torch.allclose(logits[1:2], short, atol=1e-5)


def test_order_matters_with_positions_alone(batch):
    tokens, positions, _ = batch
    shuffled = tokens[:, torch.randperm(7, generator=torch.Generator().manual_seed(4))]
    for encoding, same in ((None, True), (encoding_of(ENCODERS["gaussian"]), False)):
        model = AttentionClassifier(encoding, 4, 3, width=8).eval()
        with torch.no_grad():
            outs = model(tokens, positions), model(shuffled, positions)
        assert torch.allclose(*outs, atol=1e-5) is same


def test_weights_follow_the_generator():
    def weights(seed):
        model = AttentionClassifier(None, 4, 3, width=8, generator=torch.Generator().manual_seed(seed))
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    state = torch.random.get_rng_state()
    first = weights(1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first, weights(1))
    assert not torch.equal(first, weights(2))
    assert bool(torch.isfinite(first).all())


def test_an_encoding_may_be_added_as_it_is(batch):
    tokens, positions, padding = batch
    encoding = SimpleEncoding([DFT(2, 0.1)] * 2)
    placed = PositionedTokens(encoding, 4, "unprojected")
    assert torch.equal(placed(tokens, positions, padding)[~padding], (tokens + encoding(positions))[~padding])
    assert not list(placed.parameters())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda e: AttentionClassifier(e, 4, 3, width=8, heads=3), "`heads`: expected a divisor of the width 8"),
        (lambda e: AttentionClassifier(e, 4, 0), "`classes`: expected an integer of at least 1"),
        (lambda e: PositionedTokens(e, 4, "unprojected"), "`encoding`: expected 4 features, the width of the tokens"),
        (lambda e: PositionedTokens(e, 0), "`width`: expected an integer of at least 1"),
        (lambda e: PositionedTokens(e, 4)(torch.rand(2, 3, 4), torch.rand(2, 3, 1)), "`positions`: expected shape"),
    ],
)
def test_what_cannot_be_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build(encoding_of(ENCODERS["gaussian"]))
