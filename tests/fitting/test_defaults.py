"""Which prior, encoder, head and solver are chosen for which samples."""

import pytest
import torch

import coordnet as cn
from coordnet.comparison.attempts import combinations
from coordnet.encodings import FourierEncoding
from coordnet.encodings.encoders import BSpline, Gaussian, HashGrid, Triangle
from coordnet.fitting.choice import LONGEST_FIT, default_encoder, suited
from coordnet.fitting.fit import EncoderChoice, Method, choose
from coordnet.networks.heads import MLP, Linear
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import LONGEST_AXIS, Setting
from coordnet.priors.kriging import Kriging
from coordnet.priors.local import Local
from coordnet.priors.plates.prior import LARGEST_UNASKED
from coordnet.priors.smoothness import STRIDED, Smoothness
from coordnet.priors.stack import Stack
from coordnet.sampling.grids import Lattice, MaskedLattice
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import Samples
from coordnet.sampling.scattered import ScatteredPoints
from tests.helpers import synthetic_photograph

GAUSSIAN, HASHED, FOURIER = (EncoderChoice(f) for f in (Gaussian, HashGrid, FourierEncoding))


def sampled(pattern, shape=(8, 8, 3)):
    return sample(torch.rand(shape), pattern)


def default_prior(geometry, **options):
    return suited(Setting(geometry, **options))


def names(geometry, **options):
    """The kinds of all candidates, each once."""
    prior = default_prior(geometry, **options)
    return list(dict.fromkeys(p.name for p in getattr(prior, "priors", [prior])))


@pytest.mark.parametrize("dims", [1, 2, 3, 4])
def test_priors_suit_the_samples(dims):
    shape = (6,) * dims + (1,)
    assert default_prior(sampled("full", shape).geometry) is None
    strided, random = sampled("every:2", shape).geometry, sampled("random:0.5", shape).geometry
    assert default_prior(strided, fourier=False) == Smoothness(*STRIDED[dims])
    assert default_prior(random, fourier=False) == Adaptive()
    plates = ["plates"] * (dims < 4)
    assert names(strided) == ["spline", *plates, *["local"] * (dims == 2), *["kriging"] * (dims in (2, 3))]
    others = [*["local"] * (dims in (2, 3)), *["evolving"] * (dims > 2), *["kriging"] * (dims in (2, 3))]
    assert names(random) == ["adaptive", *plates, *others]
    assert default_prior(random, robust=True).power == {1: 1.0, 2: 1.5}.get(dims, 2.0)
    assert names(ScatteredPoints((6,) * dims, torch.rand(9, dims))) == ["adaptive", *plates, *["kriging"] * (dims < 4)]


def test_encoders_suit_the_prior_and_the_length():
    short, long = Lattice((8,)), Lattice((LONGEST_AXIS + 1,))
    assert default_encoder(short, None) is Gaussian
    assert default_encoder(short, Smoothness()) is Gaussian
    assert default_encoder(short, Adaptive()) is FourierEncoding
    assert default_encoder(long, None) is FourierEncoding
    assert default_encoder(long, None, "gradient") is Gaussian
    assert default_prior(long) == Smoothness(1.0, 1e-3)
    strided = Lattice((8,), (2,))
    assert default_encoder(strided, default_prior(strided)) is FourierEncoding
    assert default_prior(Lattice((LARGEST_UNASKED[1] + 2,), (2,))) == Kriging(nugget=0.0)
    assert default_encoder(Lattice((8, 8), (2, 2)), Smoothness(*STRIDED[2])) is Gaussian


@pytest.mark.parametrize("grid", [(2600, 2600), (180, 180, 180)])
def test_the_local_prior_is_for_pictures_and_clips_that_it_reconstructs_in_minutes(grid):
    few, many = (MaskedLattice(grid, weights=(torch.rand(*grid, 1) < density).float()) for density in (0.03, 0.5))
    assert Local().seconds(Setting(few, 1)) < LONGEST_FIT < Local().seconds(Setting(many, 1))
    assert "local" in names(few, channels=1)
    assert "local" not in names(few, channels=9) and names(many, channels=1) == ["adaptive"]
    assert "local" in names(many, device="cuda")


def test_mosaics_take_the_local_prior_however_long_it_takes():
    mosaic = sampled("bayer:RGGB", (2400, 2400, 3)).geometry
    assert Local().seconds(Setting(mosaic, 3)) > LONGEST_FIT
    assert default_prior(mosaic, channels=3) == Local()


def test_the_local_prior_is_not_for_weights_and_numbers_that_are_tuned():
    assert names(Lattice((2000, 2000), (2, 2))) == ["spline", "local", "kriging"]
    assert names(Lattice((6000, 6000), (2, 2))) == ["kriging"]
    weighted = MaskedLattice((8, 8), weights=torch.rand(8, 8, 1))
    assert names(weighted) == ["adaptive", "plates"]
    assert choose(sampled("every:2"), tunable=True).prior == Smoothness(*STRIDED[2])


def test_a_head_that_is_not_linear_is_trained_without_a_prior():
    assert choose(sampled("random:0.5"), head=MLP()) == Method(GAUSSIAN, MLP(), "gradient", None, "simple")
    assert choose(sampled("random:0.5"), HashGrid) == Method(HASHED, Linear(), "gradient", None, "simple")
    assert choose(sampled("random:0.5"), head=MLP(), encoding="complex").encoding == "complex"
    with pytest.raises(ValueError, match="`solver`: expected gradient, unless"):
        choose(sampled("full"), encoding="simple", solver="closed-form")
    with pytest.raises(ValueError, match="`encoding`"):
        choose(sampled("full"), encoding="real")


def test_what_goes_together():
    """The rule, spelled out: linear heads on complex encodings, MLPs on simple ones, closed forms for the former."""
    made, left = combinations(
        sampled("every:2"), [GAUSSIAN, HASHED, FOURIER], [Linear(), MLP()], ["closed-form", "gradient"]
    )
    assert made == [
        Method(GAUSSIAN, Linear(), "closed-form", Smoothness(*STRIDED[2]), "complex"),
        Method(GAUSSIAN, Linear(), "gradient", None, "complex"),
        Method(GAUSSIAN, MLP(), "gradient", None, "simple"),
        Method(HASHED, Linear(), "gradient", None, "simple"),
        Method(HASHED, MLP(), "gradient", None, "simple"),
        Method(FOURIER, Linear(), "closed-form", default_prior(sampled("every:2").geometry), "complex"),
    ]
    assert set(left) == {
        "gaussian · mlp · closed-form",
        "hash-grid · linear · closed-form",
        "hash-grid · mlp · closed-form",
        "fourier · linear · gradient",
        "fourier · mlp · closed-form",
        "fourier · mlp · gradient",
    }
    named = [m.encoder.family for m in combinations(sampled("every:2"))[0]]
    assert named == [Gaussian, Triangle, BSpline, FourierEncoding]


def test_priors_join_where_samples_are_random():
    samples = sampled("random:0.5")
    made, left = combinations(samples, [GAUSSIAN, GAUSSIAN], [Linear()], ["closed-form", "gradient"])
    assert [(m.encoder, m.solver, type(m.prior)) for m in made] == [
        (GAUSSIAN, "closed-form", Adaptive),
        (GAUSSIAN, "gradient", type(None)),
        (FOURIER, "closed-form", Stack),
        (FOURIER, "closed-form", Adaptive),
        (FOURIER, "closed-form", Smoothness),
    ]
    assert not left
    assert [m.encoder for m in combinations(samples)[0]] == [FOURIER] * 3


def test_labels_are_what_the_command_line_reads():
    encoder = EncoderChoice(Gaussian, {"sigma": "0.64px", "features": 8, "learnable": True})
    assert encoder.label == "gaussian:sigma=0.64px,features=8,learnable"
    method = Method(encoder, MLP(width=8), "gradient")
    assert method.name == "gaussian:sigma=0.64px,features=8,learnable · mlp:width=8 · gradient"
    assert Method(FOURIER, prior=Adaptive()).name == "fourier · linear · closed-form · adaptive"


def test_fourier_has_one_kind_of_encoding_and_one_option():
    samples = Samples(Lattice((8, 8)), torch.rand(8, 8, 1))
    assert EncoderChoice(FourierEncoding, {"padding": 4}).on(samples).shape == (12, 12)
    with pytest.raises(ValueError, match="expected fourier with padding, received fourier:sigma=3"):
        EncoderChoice(FourierEncoding, {"sigma": 3})
    with pytest.raises(ValueError, match="fourier in a complex encoding, received fourier in a simple encoding"):
        FOURIER.on(samples, "simple")


def test_plans_for_masks_of_every_second_node_are_those_of_the_lattice():
    skips = cn.Lattice((24, 24), (2, 2))
    gaps = cn.MaskedLattice((24, 24), weights=skips.known(1).double())
    values = torch.rand(24, 24, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1
    found, expected = (
        cn.plan(cn.FourierEncoding.like(geometry), geometry, dtype=torch.float64).fit(shown)
        for geometry, shown in ((gaps, values * skips.known(1)), (skips, values[::2, ::2]))
    )
    torch.testing.assert_close(found.render(alignment="sample"), expected.render(alignment="sample"))


def test_priors_that_are_named_are_fitted_to_masks_of_every_second_node():
    samples = sample(synthetic_photograph(32, 32, 3), Lattice((32, 32), (2, 2)).known(1)[..., 0])
    for prior in (cn.Stack((cn.Adaptive(), cn.Local(noise=0.05))), cn.Denoiser(lambda x, sigma: x, noise=0.05)):
        tried = [candidate.prior for candidate in cn.fit(samples, prior=prior).report.candidates]
        assert "adaptive" in tried and "spline" not in tried


@pytest.mark.parametrize("blending", ["similarity", "printed"])
def test_points_that_encoders_blend_are_fitted_by_default(blending, generator):
    points = 0.9 * torch.rand(60, 2, generator=generator, dtype=torch.float64)
    fit = cn.fit(Samples(ScatteredPoints((8, 8), points, blending=blending), points.cos()))
    assert float((fit(points) - points.cos()).abs().max()) < 0.05
    assert "Gaussian" in repr(fit)
