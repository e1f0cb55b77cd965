import math

import pytest
import torch

from coordnet.analysis import (
    condition_number,
    distance_preservation,
    encoder_spectrum,
    frequency_density,
    is_faithful,
    least_distance,
    linear_fit_rank,
    matched_scale,
    position_reconstruction,
    printed_weights,
    rank_over_samples,
    rank_over_scale,
    similarity_map,
    singular_values,
    stable_rank,
    summarize,
)
from coordnet.encodings import ComplexEncoding, JointEncoding, SimpleEncoding
from coordnet.encodings.encoders import (
    DFT,
    Gaussian,
    Identity,
    JointRandomFourier,
    LearnableFourier,
    RandomFourier,
    Sine,
    Sinusoidal,
)
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.fitting.gradient import fit_gradient
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.sampling.axes import Axis, lattice_points
from coordnet.sampling.grids import Lattice
from coordnet.sampling.patterns import sample
from tests.helpers import kron


@pytest.mark.parametrize("shape", [(9, 5), (5, 9)])
def test_numbers_of_a_matrix(shape, generator):
    a = torch.randn(shape, generator=generator, dtype=torch.float64)
    s = torch.linalg.svdvals(a)
    assert torch.allclose(singular_values(a), s)
    assert stable_rank(a) == pytest.approx(float(s.square().sum() / s[0] ** 2))
    assert condition_number(a) == pytest.approx(float(s[0] / s[-1]))
    assert condition_number(torch.zeros(2, 2).fill_diagonal_(0) + torch.tensor([1.0, 0])) == math.inf
    with pytest.raises(ValueError, match="`matrix`: expected an entry that is not zero"):
        stable_rank(torch.zeros(3, 2))


def test_matched_scales_have_equal_stable_rank():
    assert 0.01 * matched_scale(0.01) == pytest.approx(0.1125, abs=1e-4)
    for sigma in (0.003, 0.02):
        pair = Gaussian(8, sigma), RandomFourier(8, matched_scale(sigma))
        ranks = [encoder.stable_rank(10**6) for encoder in pair]
        assert ranks[0] == pytest.approx(ranks[1], rel=1e-12)


def test_distance_is_the_similarity_in_the_interior():
    delta = torch.linspace(-0.1, 0.1, 9, dtype=torch.float64)
    encoder = Gaussian(400, 0.03)
    assert torch.allclose(distance_preservation(encoder, delta), encoder.similarity(delta), atol=1e-6)


@pytest.mark.parametrize("kind", [SimpleEncoding, ComplexEncoding])
def test_similarity_map_is_the_cosine(kind):
    axes, nodes = (Axis(5), Axis(4)), torch.tensor([[1, 2], [4, 0]])
    encoding = kind.like(Gaussian, Lattice((5, 4)), sigma=0.2)
    if kind is ComplexEncoding:
        features = kron(encoding.matrices(axes))
    else:
        features = encoding(lattice_points(axes)).flatten(0, 1)
    rows = torch.nn.functional.normalize(features, dim=-1)
    maps = similarity_map(encoding, axes, nodes)
    assert torch.allclose(maps.flatten(1), rows[[6, 16]] @ rows.T)
    with pytest.raises(ValueError, match="`nodes`: expected 2 indices"):
        similarity_map(encoding, axes, nodes[:, :1])


def test_concatenated_sinusoids_show_a_cross_and_learnable_fourier_a_ball():
    axes, node = (Axis(64), Axis(64)), torch.tensor([[32, 32]])
    cross = similarity_map(SimpleEncoding([Sinusoidal(64, 1 / 64)] * 2), axes, node)[0]
    ball = LearnableFourier(2, 512, 0.1, fourier=512, hidden=0)
    round_ = similarity_map(JointEncoding(ball), axes, node)[0]
    assert float(cross[32, 52] - cross[46, 46]) > 0.1  # as far from the node, on its row and off it
    assert abs(float(round_[32, 52] - round_[46, 46])) < 0.1


def test_the_dft_is_faithful():
    for length in (16, 255, 256):
        for position in (0, 5, length - 1):
            back = position_reconstruction(torch.ones(length // 2 + 1), position, length)
            assert float((back - torch.nn.functional.one_hot(torch.tensor(position), length)).abs().max()) < 1e-12
            rows = DFT(length, 1 / length)(Axis(length).points())
            assert float((rows @ rows[position] - back).abs().max()) < 1e-12


@pytest.mark.parametrize("length", [8, 9, 256])
def test_the_printed_weights_miss_half_of_the_constant_and_of_the_nyquist_term(length):
    """Eq. 22 of Idé et al.: δ less ½ (1 + (-1)^(t - s)) / d, or ½ / d without a Nyquist term, scaled to norm 1."""
    t = torch.arange(length)
    missing = torch.where((t - 3) % 2 == 0, 1.0, 0.0) if length % 2 == 0 else torch.full((length,), 0.5)
    expected = (t == 3).double() - missing / length
    back = position_reconstruction(printed_weights(length), 3, length)
    assert torch.allclose(back, expected / expected.norm(), atol=1e-12)
    assert float(printed_weights(length).sum()) == pytest.approx(1)
    assert not torch.allclose(back, (t == 3).double(), atol=0.4 / length)


def test_faithfulness_is_injectivity():
    """A planted repetition is found; the distance is that of all pairs; sinusoids are injective on whole positions."""
    line, square = (Axis(12),), (Axis(6), Axis(6))
    waves = {f: SimpleEncoding([Sine(5, f)]) for f in (1.0, 2.0)}
    assert is_faithful(waves[1.0], line) and not is_faithful(waves[2.0], line)  # two periods repeat
    assert not is_faithful(ComplexEncoding([Sine(5, 1.0), Sine(5, 2.0)]), square)
    assert is_faithful(SimpleEncoding([Sinusoidal(256, 1 / 256)]), (Axis(256),))
    assert least_distance(SimpleEncoding([DFT(12, 1 / 12)]), line) == pytest.approx(2**0.5)
    for encoding in (ComplexEncoding([Gaussian(5, 0.2)] * 2), SimpleEncoding([Gaussian(5, 0.2)] * 2)):
        rows = encoding.matrices(square)
        dense = torch.kron(*rows) if len(rows) == 2 else rows[0]
        expected = torch.pdist(dense).min() / dense.square().sum(-1).mean().sqrt()
        assert least_distance(encoding, square) == pytest.approx(float(expected), rel=1e-6)
    with pytest.raises(ValueError, match="`axes`: expected at least two points"):
        is_faithful(waves[1.0], (Axis(1),))


def test_the_sinusoid_is_broad():
    """Algorithm 1 at d = 256: the norm is kept, the peak stays at the position, and it reaches 30 positions."""
    g = frequency_density(2 * math.pi * Sinusoidal(256, 1.0).frequencies, 256)
    back = position_reconstruction(g, 40, 256)
    assert float(g.sum()) == pytest.approx(1)
    assert float(back.norm()) == pytest.approx(1)
    assert int(back.argmax()) == 40
    assert float(back[40]) < 0.4
    assert int((back > 0.05 * back[40]).sum()) >= 30


def test_density_is_the_kernel_sum():
    w = torch.tensor([0.3, 1.0])
    sigma = 4 * 2 * math.pi / 32
    bins = [2 * math.pi * k / 32 for k in range(17)]
    sums = [sum(math.exp(-((b - float(v)) ** 2) / (2 * sigma**2)) for v in w) for b in bins]
    expected = torch.tensor([v / sum(sums) for v in sums], dtype=torch.float64)
    assert torch.allclose(frequency_density(w, 32), expected, atol=1e-7)
    assert frequency_density(torch.tensor([1e9]), 32).tolist() == [0.0] * 16 + [1.0]  # far from all bins


def test_rank_of_linear_fits(photograph):
    samples = sample(photograph[:, :, :2], "every:2")
    simple = CoordinateNetwork(SimpleEncoding.like(Gaussian, samples), Linear(), 2)
    assert max(linear_fit_rank(fit_gradient(simple, samples, epochs=100), rcond=1e-5)) <= 2
    full = fit_closed_form(ComplexEncoding.like(Gaussian, samples), samples)
    assert min(linear_fit_rank(full)) > 10
    with pytest.raises(ValueError, match="`fit`: expected one of an image"):
        row = sample(photograph[:, 0], "full")
        linear_fit_rank(fit_closed_form(ComplexEncoding.like(Gaussian, row), row))


def test_summary():
    found = summarize(Gaussian(128, 0.02), Axis(128))
    assert found.stable_rank == pytest.approx(found.theory, rel=0.03)
    assert found.measured == pytest.approx(found.similarity, abs=1e-3)
    assert found.rank < 128
    assert summarize(Identity(), Axis(9)).theory == 1
    assert summarize(RandomFourier(8, 2.0), Axis(9)).condition >= 1


def test_sweeps_are_the_ranks_of_encoders_built_there():
    axes = (Axis(32),)
    scales = rank_over_scale(Gaussian(64, 0.02), axes, [0.5, 1.0, 4.0])
    built = [Gaussian(64, sigma) for sigma in (0.01, 0.02, 0.08)]
    assert (scales.name, scales.at) == ("sigma", pytest.approx([0.01, 0.02, 0.08]))
    assert scales.measured == pytest.approx([stable_rank(b(Axis(32).points())) for b in built])
    assert scales.theory == pytest.approx([b.stable_rank(32) for b in built])
    counts = rank_over_samples(built[1], axes, [4, 16])
    assert counts.measured == pytest.approx([stable_rank(built[1](Axis(n).points())) for n in (4, 16)])
    assert rank_over_scale(Identity(), axes, [1.0]) is None
    joint = JointRandomFourier(2, 16, 2.0)
    square = rank_over_samples(joint, (Axis(8), Axis(8)), [4])
    assert square.at == [16.0]
    assert square.measured == pytest.approx([stable_rank(joint(lattice_points((Axis(4),) * 2)).flatten(0, 1))])
    assert square.theory == [None]


def test_spectra_of_encoders():
    """Flat for the DFT, one bin of a sine, |φ̂|² of a Gaussian, the paper's density of sinusoids."""
    axis = Axis(64)
    assert torch.allclose(encoder_spectrum(DFT(64, 1 / 64), axis), torch.full((33,), 1 / 33).double(), atol=1e-12)
    assert int(encoder_spectrum(Sine(64, 5.0), axis).argmax()) == 5
    k = torch.arange(33, dtype=torch.float64)
    expected = torch.exp(-((2 * math.pi * k * 0.05) ** 2))
    found = encoder_spectrum(Gaussian(64, 0.05, padding=64), axis)
    assert torch.allclose(found[:6] / found[0], expected[:6], atol=0.15)
    w = 2 * math.pi * Sinusoidal(64, 1.0).frequencies
    assert torch.allclose(encoder_spectrum(Sinusoidal(64, 1 / 64), axis), frequency_density(w, 64))
    assert summarize(DFT(64, 1 / 64), axis).reconstruction[32] == pytest.approx(1)


def test_distance_of_a_joint_encoder():
    delta = torch.tensor([[0.1, 0.0], [0.05, -0.2]], dtype=torch.float64)
    psi = JointRandomFourier(2, 64, (3.0, 5.0))
    assert torch.allclose(distance_preservation(psi, delta, (0.3, 0.6)), psi.similarity(delta), atol=1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: position_reconstruction(torch.ones(5), 9, 8), "`position`: expected at least 0 and below 8"),
        (lambda: position_reconstruction(torch.ones(4), 1, 8), "`weights`: expected 5 numbers"),
        (lambda: frequency_density(torch.ones(2), 1), "`length`: expected an integer"),
        (lambda: frequency_density(torch.ones(2), 8, 0.0), "`width`: expected a positive"),
        (lambda: matched_scale(0.0), "`sigma`: expected a positive"),
    ],
)
def test_what_cannot_be_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
