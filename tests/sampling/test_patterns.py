import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coordnet.sampling.grids import Lattice, MaskedLattice
from coordnet.sampling.patterns import Bayer, Every, Random, Scattered, parse_pattern, sample
from coordnet.sampling.samples import Samples
from coordnet.sampling.scattered import ScatteredPoints


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 4), st.integers(0, 3))
def test_every_takes_the_slice_and_knows_it(height, width, down, across, offset):
    signal = torch.rand(height, width, 2)
    offsets = (offset % height, offset % width)
    samples = sample(signal, Every((down, across), offsets))
    assert torch.equal(samples.values, signal[offsets[0] :: down, offsets[1] :: across])
    known = samples.geometry.known(2)
    assert torch.equal(signal[known], samples.values.flatten())


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("full", Every()),
        ("every:3", Every(3)),
        ("every:2x1", Every((2, 1))),
        ("every:2+1", Every(2, 1)),
        ("every:2x4+1x3", Every((2, 4), (1, 3))),
        ("random:0.25", Random(0.25)),
        ("entries:0.3", Random(0.3, by_channel=True)),
        ("bayer:rggb", Bayer("RGGB")),
        ("scattered:0.25", Scattered(0.25)),
    ],
)
def test_texts_name_patterns(text, pattern):
    assert parse_pattern(text) == pattern


def test_scattered_samples_are_the_signal_between_its_samples():
    """A cubic, which its spline reproduces away from the ends, where the second derivative is not zero."""
    x = torch.arange(60, dtype=torch.float64) / 60
    samples = sample((x - 0.5).pow(3).unsqueeze(-1), "scattered:0.5")
    points = samples.geometry.points
    assert len(points) == 30 and bool(((points * 60).frac() > 1e-6).all()) and float(points.max()) <= 59 / 60
    inside = (points > 0.3) & (points < 0.7)
    assert torch.allclose(samples.values[inside], (points - 0.5).pow(3)[inside], atol=1e-7)


BAD_TEXTS = ["", "half", "every", "every:0", "every:x", "every:2+", "random:0", "random:2", "random:nan"]


@pytest.mark.parametrize("text", [*BAD_TEXTS, "random:one", "bayer:RGB", "full:2"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="`sample`: expected"):
        parse_pattern(text)


def test_random_takes_the_fraction_and_is_seeded():
    signal = torch.rand(20, 30, 3)
    draws = [sample(signal, "random:0.25", generator=torch.Generator().manual_seed(s)) for s in (5, 5, 6)]
    known = [d.geometry.known(3) for d in draws]
    assert torch.equal(known[0], known[1])
    assert not torch.equal(known[0], known[2])
    assert int(known[0].sum()) == 150 * 3
    assert torch.equal(draws[0].values, torch.where(known[0], signal, 0))
    assert draws[0].geometry.weights.mean().item() == pytest.approx(0.25)


def test_entries_differ_by_channel():
    geometry = sample(torch.rand(20, 30, 3), "entries:0.25").geometry
    assert geometry.weights.shape[-1] == 3
    assert not torch.equal(geometry.weights[..., 0], geometry.weights[..., 1])
    assert int(geometry.weights.sum()) == 450


def test_bayer_tiles():
    weights = sample(torch.rand(4, 6, 3), "bayer:GRBG").geometry.weights
    assert weights[:2, :2].argmax(-1).tolist() == [[1, 0], [2, 1]]
    assert torch.equal(weights.sum(-1), torch.ones(4, 6))
    assert torch.equal(weights[:2, :2], weights[2:, 4:])


def test_nan_is_unknown():
    signal = torch.rand(6, 5, 2)
    signal[2, 3] = torch.nan
    samples = sample(signal, "every:1")
    assert isinstance(samples.geometry, MaskedLattice)
    assert samples.geometry.weights.shape == (6, 5, 1)
    assert samples.geometry.weights[2, 3] == 0
    signal[0, 0, 1] = torch.nan
    assert sample(signal, "full").geometry.weights.shape == (6, 5, 2)
    strided = sample(signal, "every:2+1")
    assert type(strided.geometry) is Lattice


def test_masks_by_grid_or_by_entry():
    signal = torch.rand(6, 5, 2)
    mask = torch.zeros(6, 5, dtype=torch.bool)
    mask[1, 2] = True
    samples = sample(signal, mask)
    assert torch.equal(samples.values[1, 2], signal[1, 2])
    assert float(samples.values.abs().sum()) == pytest.approx(float(signal[1, 2].sum()))
    assert sample(signal, mask.unsqueeze(-1).expand(6, 5, 2)).geometry.weights.shape == (6, 5, 2)


def test_means_are_weighted():
    values = torch.tensor([[1.0], [5.0], [9.0]])
    geometry = ScatteredPoints((4,), torch.tensor([[0.1], [0.2], [0.3]]), torch.tensor([[1.0], [1.0], [2.0]]))
    assert Samples(geometry, values).mean().item() == pytest.approx(6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: sample(s, torch.zeros(6, 5)), "none: the mask is empty"),
        (lambda s: sample(s, torch.ones(5, 5)), r"`mask`: expected shape \(6, 5\) or \(6, 5, 2\)"),
        (lambda s: sample(s * torch.nan, "full"), "`signal`: expected a value that is not NaN"),
        (lambda s: sample(s[0, 0, 0], "full"), "`signal`: expected "),
        (lambda s: sample(s.half(), "full"), "`signal`: expected numbers of uint8, uint16, bool, float32 or float64"),
        (lambda s: sample(s, "bayer:RGGB"), "three channels"),
        (lambda s: sample(s, "every:2+7"), "`offsets`: expected at least 0 and below the axis's 6 samples"),
        (lambda s: sample(s, Every((2, 2, 2))), "`steps`: expected one number, or 2"),
        (lambda s: sample(s * torch.nan, "scattered:1"), "`signal`: expected one without NaN"),
        (lambda s: sample(s / 0, "full"), "`values`: expected finite values"),
        (lambda s: ScatteredPoints((4, 4), torch.rand(3, 1)), "`points`: expected 2 coordinates"),
        (lambda s: ScatteredPoints((4,), torch.rand(0, 1)), "`points`: expected at least one number"),
        (lambda s: ScatteredPoints((4,), torch.tensor([[torch.nan]])), "`points`: expected finite"),
        (lambda s: MaskedLattice((4,), weights=-torch.ones(4, 1)), "`weights`: expected finite numbers"),
        (lambda s: Samples(Lattice((4,)), torch.ones(3, 1)), r"`values`: expected shape \(4, 'channels'\)"),
    ],
)
def test_bad_samples_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make(torch.rand(6, 5, 2) + 0.1)
