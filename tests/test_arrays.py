"""What people have: NumPy arrays and tensors, integers and floats, gray and color, batches; and what is refused."""

from functools import partial

import jaxtyping
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import coordnet as cn
from coordnet.sampling.arrays import as_tensor
from tests.helpers import synthetic_photograph

PICTURE = synthetic_photograph(24, 20)
GRAY = PICTURE[..., 0]
KNOWN = np.random.default_rng(0).random((24, 20)) < 0.6
INTEGERS = {"uint8": 255, "uint16": 65535}
DENOISED = partial(cn.denoise, sigma=0.1, prior=cn.Adaptive())
ENLARGED = partial(cn.upscale, prior=None)


def stored(signal, dtype, numpy):
    """The signal as an array of a type."""
    array = (signal.double() * INTEGERS.get(dtype, 1)).numpy()
    array = (array.round() if dtype in INTEGERS else array).astype(dtype)
    return array if numpy else torch.from_numpy(array)


def dtype_of(array):
    return str(array.dtype).removeprefix("torch.")


@pytest.mark.parametrize(
    ("signal", "numpy", "dtype"),
    [
        (PICTURE, True, "uint8"),
        (GRAY, True, "uint16"),
        (GRAY, True, "float64"),
        (GRAY, False, "uint8"),
        (PICTURE, False, "float32"),
    ],
    ids=["color-uint8", "gray-uint16", "gray-float64", "gray-tensor-uint8", "color-tensor-float32"],
)
def test_what_is_known_comes_back_to_the_bit_as_it_was_given(signal, numpy, dtype):
    given = stored(signal, dtype, numpy)
    made = cn.inpaint(given, KNOWN if numpy else torch.from_numpy(KNOWN), prior=cn.Adaptive(rounds=2))
    assert type(made.signal) is type(given)
    assert made.signal.shape == given.shape
    assert dtype_of(made.signal) == dtype
    assert np.array_equal(np.asarray(made.signal)[KNOWN], np.asarray(given)[KNOWN])
    assert cn.psnr(made.signal, given) > 22
    assert made.report.known == pytest.approx(KNOWN.mean())


@pytest.mark.filterwarnings("ignore:`sigma`. .* is used as given")
@pytest.mark.parametrize(("dtype", "numpy"), [("uint8", True), ("uint16", False), ("float64", True)])
def test_every_restoration_gives_back_what_it_was_given(dtype, numpy):
    given, gray = stored(PICTURE, dtype, numpy), stored(GRAY, dtype, numpy)
    for made, shape in (
        (cn.upscale(given), (48, 40, 3)),
        (ENLARGED(gray, 1.5), (36, 30)),
        (cn.denoise(given, 0.05, prior=cn.Adaptive()), (24, 20, 3)),
        (cn.denoise(gray, 0.05, prior=cn.Adaptive()), (24, 20)),
        (cn.demosaic(gray, prior=cn.Smoothness()), (24, 20, 3)),
    ):
        assert type(made.signal) is type(given)
        assert tuple(made.signal.shape) == shape
        assert dtype_of(made.signal) == dtype


@pytest.mark.filterwarnings("ignore:`sigma`. .* is used as given")
def test_integers_are_restored_as_their_values_in_the_unit_interval():
    given = stored(PICTURE, "uint8", numpy=True)
    unit = torch.from_numpy(given).float() / 255
    for work in (lambda x: cn.inpaint(x, KNOWN, prior=cn.Smoothness()), ENLARGED, DENOISED):
        expected = (work(unit).signal.clamp(0, 1) * 255).round().byte().numpy()
        assert np.array_equal(work(given).signal, expected)


@pytest.mark.slow
def test_a_batch_is_restored_signal_by_signal():
    picture, known = PICTURE[:10, :8], KNOWN[:10, :8]
    batch = torch.stack([picture, 0.2 * picture.flip(0)])
    prior = cn.Local((4, 4), rounds=1, pilot=cn.Adaptive(rounds=1))
    made = cn.inpaint(batch, known, prior=prior)
    for one, signal in zip(made.signal, batch, strict=True):
        assert torch.allclose(one, cn.inpaint(signal, known, prior=prior).signal, atol=2e-3)
    assert made.fit.batch == (2,)
    assert made.expected_psnr is not None
    gray = cn.inpaint(batch[..., 0].numpy(), known, prior=prior)
    assert np.array_equal(gray.signal, cn.inpaint(batch[..., :1].numpy(), known, prior=prior).signal[..., 0])
    levels = (batch * 255).byte()
    large = cn.upscale(levels.numpy())
    assert (large.signal.shape, large.signal.dtype) == ((2, 20, 16, 3), np.uint8)
    assert large.report.strength == cn.upscale(levels / 255).report.strength


@pytest.mark.filterwarnings("ignore:`sigma`. .* is used as given")
def test_the_fourth_channel_of_a_picture_is_opacity():
    opacity = torch.ones(24, 20, 1)
    opacity[:, :7] = 0
    picture = torch.cat([PICTURE, opacity], dim=-1)
    assert torch.equal(cn.upscale(picture).signal, cn.upscale(picture, alpha=True).signal)
    assert torch.equal(DENOISED(picture).signal[..., 3:], opacity)
    assert not torch.equal(ENLARGED(picture).signal, ENLARGED(picture, alpha=False).signal)


@pytest.mark.filterwarnings("ignore:`sigma`")  # clean pictures have less noise
def test_two_or_four_channels_beyond_the_unit_interval_are_no_opacity():
    field = torch.cat([PICTURE, GRAY.unsqueeze(-1)], dim=-1)[..., :4] * 8 - 4
    for work in (ENLARGED, lambda x, **options: cn.denoise(x, 0.4, prior=cn.Adaptive(), **options)):
        assert torch.equal(work(field).signal, work(field, alpha=False).signal)
        assert torch.equal(work(field[..., 2:]).signal, work(field[..., 2:], alpha=False).signal)


@pytest.mark.parametrize("scale", [1.0, 0.25, 255.0])
def test_a_mask_is_known_where_it_is_not_zero(scale):
    prior = cn.Smoothness()
    made = cn.inpaint(PICTURE, (KNOWN * scale).astype(np.float32), prior=prior)
    assert torch.equal(made.signal, cn.inpaint(PICTURE, KNOWN, prior=prior).signal)


@pytest.mark.filterwarnings("ignore:`sigma`")  # clean pictures have less noise
def test_gradients_are_not_followed_through_a_restoration():
    followed = PICTURE.clone().requires_grad_()
    filled = partial(cn.inpaint, known=KNOWN, prior=cn.Local((4, 4), rounds=1, pilot=cn.Adaptive(rounds=1)))
    for work in (ENLARGED, DENOISED, filled):
        made = work(followed).signal
        assert not made.requires_grad
        assert torch.equal(made, work(PICTURE).signal)
    assert not cn.demosaic(followed[..., 0], prior=cn.Smoothness()).signal.requires_grad


def test_samples_of_arrays():
    given = stored(PICTURE, "uint8", numpy=True)
    samples = cn.sample(given, KNOWN)
    assert torch.equal(samples.geometry.known(3).all(-1), torch.from_numpy(KNOWN))
    assert cn.sample(stored(GRAY, "uint16", numpy=True), "every:2").values.shape == (12, 10, 1)
    assert cn.sample(np.arange(12.0), "full").grid == (12,)
    assert cn.sample(np.zeros((12, 5)), "full", dimensions=1).channels == 5


@pytest.fixture
def unchecked(monkeypatch):
    """Users have no annotations executed."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


LATTICE = cn.Lattice((8, 8))
ENCODING = cn.ComplexEncoding.like(cn.Gaussian, LATTICE)
MASK = cn.sample(torch.rand(8, 8, 1), "random:0.5").geometry
NETWORK = cn.CoordinateNetwork(ENCODING, cn.heads.Linear(), 3)
FIT = cn.fit_closed_form(ENCODING, cn.Samples(LATTICE, torch.rand(8, 8, 3)))


def test_nan_is_unknown_without_a_mask():
    lacking = torch.where(torch.from_numpy(KNOWN).unsqueeze(-1), PICTURE, torch.nan)
    alone, masked = (cn.inpaint(lacking, *given, prior=cn.Adaptive()).signal for given in ((), (KNOWN,)))
    assert torch.equal(alone, masked) and not alone.isnan().any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cn.fit(torch.rand(2, 8, 8, 3)), "`samples`: expected those of one signal, from cn.sample"),
        (
            lambda: cn.Samples(LATTICE, torch.rand(2, 8, 8, 3)),
            r"`values`: expected shape \(8, 8, 'channels'\), one signal \(a batch goes to `cn.plan.*\(2, 8, 8, 3\)",
        ),
        (lambda: cn.sample(torch.rand(2, 8, 8, 3), "full", dimensions=2), "`signal`: expected 2 axes, and channels"),
        (lambda: cn.demosaic(torch.rand(2, 8, 8, 1)), "`raw`: expected 2 axes, and channels in the last"),
        (lambda: cn.demosaic(PICTURE), "`raw`: expected a gray picture of one channel, received 3 channels"),
        (lambda: cn.inpaint(PICTURE, [[True, False]]), "`known`: expected a mask as a NumPy array .*, received list"),
        (lambda: cn.inpaint(PICTURE, np.ones((20, 24), bool)), r"`mask`: expected shape \(24, 20\) or"),
        (lambda: cn.inpaint(PICTURE, np.zeros((24, 20), bool)), "`known`: expected at least one known sample"),
        (lambda: cn.inpaint(PICTURE, np.full((24, 20), np.nan)), "`known`: expected finite numbers of at least 0"),
        (lambda: cn.inpaint(PICTURE, KNOWN, prior=None), "`prior`: expected auto, or a prior such as"),
        (lambda: cn.inpaint(PICTURE, np.ones((24, 20), complex)), "`mask`: expected bool, integers, float32"),
        (lambda: cn.inpaint(PICTURE.tolist(), KNOWN), "`signal`: expected a NumPy array or a tensor, received list"),
        (lambda: cn.inpaint(PICTURE), "`known`: expected a mask, or a signal with NaN where it is unknown"),
        (lambda: cn.denoise(pd.Series([1.0, 2.0])), r"`signal`: expected a NumPy array or a tensor \(`to_numpy"),
        (lambda: cn.upscale(PICTURE.half()), "`image`: expected numbers of uint8, uint16, bool, float32 or"),
        (lambda: cn.denoise(PICTURE * 1j), "`signal`: expected numbers of uint8, .* received complex64"),
        (
            lambda: cn.denoise(np.full((8, 8), np.nan)),
            r"`signal`: expected finite values \(see inpaint\), received NaN",
        ),
        (lambda: cn.sample(np.zeros((8, 8), int), "full"), "`signal`: expected numbers of .* received int64"),
        (lambda: cn.sample(PICTURE, KNOWN.tolist()), "`pattern`: expected a text .* or a tensor, received list$"),
        (
            lambda: cn.fit_gradient(NETWORK, torch.rand(2, 8, 8, 3)),
            "`samples`: expected those of one .* received Tensor",
        ),
        (lambda: FIT.render(5.5), "`shape`: expected lengths, one for each axis, received 5.5"),
        (lambda: FIT.render(0), "`shape`: expected an integer of at least 1, received 0"),
        (lambda: FIT(["here"]), "`points`: expected numbers, received list"),
        (
            lambda: cn.plan(ENCODING, LATTICE).fit(np.zeros((8, 8, 3), np.float32)),
            "`values`: expected a tensor of torch.float32, the dtype of the plan, received ndarray",
        ),
        (lambda: cn.Samples(LATTICE, torch.zeros(8, 8, 1).half()), "`values`: expected a tensor of torch.float32 or"),
        (
            lambda: cn.ScatteredPoints((8, 8), torch.zeros(3, 2).long()),
            "`points`: expected a tensor of torch.float32 or torch.float64, received torch.int64",
        ),
        (lambda: cn.plan(ENCODING, LATTICE, dtype=torch.float16), "`dtype`: expected torch.float32 or torch.float64"),
        (lambda: cn.plan(ENCODING, LATTICE, "smooth"), "`prior`: expected 'auto', None, or a prior"),
        (lambda: cn.fit(cn.sample(PICTURE, "full"), encoder="gaussian"), "`encoder`: expected a class such as cn.Gau"),
        (lambda: cn.fit(cn.sample(PICTURE, "full"), prior="smooth"), "`prior`: expected 'auto', None, or a prior"),
        (lambda: cn.Gaussian(32, "0.64px"), "`sigma`: expected a number in units of the unit interval .*'0.64px'"),
        (lambda: cn.Gaussian.like(LATTICE), r"`axes`: expected one axis \(ComplexEncoding.like\(Gaussian, samples\)"),
        (lambda: cn.psnr(PICTURE, GRAY), r"`estimate`: expected shape \(24, 20\), the truth's, received \(24, 20, 3\)"),
        (lambda: cn.psnr(PICTURE, PICTURE, KNOWN.T), r"`mask`: expected bool of shape \(24, 20, 3\) or \(24, 20\)"),
        (lambda: cn.psnr(PICTURE * 1j, PICTURE), "`estimate`: expected real numbers, received torch.complex64"),
        (lambda: cn.psnr(PICTURE, PICTURE * 1j), "`truth`: expected real numbers, received torch.complex64"),
        (lambda: cn.denoise(PICTURE.to("meta")), "`signal`: expected a dense tensor with values .* 'meta'"),
        (lambda: cn.inpaint(PICTURE, GRAY.to_sparse()), "`mask`: expected a dense tensor with values"),
        (lambda: cn.Samples(LATTICE, torch.rand(8, 8, 3).to_sparse()), "`values`: expected a dense tensor with values"),
        (lambda: cn.denoise(PICTURE, seed=1.5), "`seed`: expected an integer of at least 0, received 1.5"),
        (lambda: cn.ThinPlate(seed=1.5), "`seed`: expected an integer of at least 0, received 1.5"),
        (lambda: cn.ThinPlate(2.5, 1.0, corner=0.5), "`order`: expected a whole one beside a corner, received 2.5"),
        (lambda: cn.ThinPlate(cutoff=1e-300), "`cutoff`: expected a number from 1e-09 to 1e.09, received 1e-300"),
        (lambda: cn.Local(strength=1e300), "`strength`: expected a number from 1e-09 to 1e.09, received 1e.300"),
        (lambda: cn.Local(rounds=1000), "`rounds`: expected an integer of at most 50, received 1000"),
        (lambda: cn.Local(pilot=cn.Smoothness()), "`pilot`: expected a prior such as cn.Adaptive.*received Smoothness"),
        (lambda: cn.Local(patch=4), "`patch`: expected lengths, one for each axis, received 4"),
        (lambda: cn.LeastSquares(rcond=2.0), "`rcond`: expected a number from 0 to 1, received 2.0"),
        (lambda: cn.plan(ENCODING, MASK, solver="cg"), "`solver`: expected a stopping rule, .* received 'cg'"),
        (lambda: FIT.draw(2, generator=5), "`generator`: expected a torch.Generator, received 5"),
        (lambda: cn.denoise(GRAY, largest=1.5), "`largest`: expected an integer of at least 1, received 1.5"),
        (lambda: cn.denoise(GRAY, dimensions="a"), "`dimensions`: expected an integer of at least 1, received 'a'"),
        (lambda: cn.psnr(PICTURE, PICTURE - 1), "`data_range`: expected a number, for a truth that is not in"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(make, message, unchecked):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_joint_encoder_takes_samples():
    samples = cn.sample(PICTURE, "every:2")
    assert cn.encoders.HashGrid.like(samples).dimensions == 2
    assert cn.encoders.HashGrid.like(samples).configuration() == cn.encoders.HashGrid.like(samples.axes).configuration()


def test_samples_show_their_geometry_and_density():
    texts = [
        repr(cn.sample(PICTURE, "every:2")),
        repr(cn.sample(PICTURE, "random:0.25")),
        repr(cn.Samples(cn.ScatteredPoints((8, 8), torch.rand(16, 2)), torch.rand(16, 1))),
    ]
    assert texts == [
        "Samples(Lattice((24, 20), steps=(2, 2), density=0.25), channels=3, dtype=torch.float32)",
        "Samples(MaskedLattice((24, 20), density=0.25), channels=3, dtype=torch.float32)",
        "Samples(ScatteredPoints((8, 8), points=16, density=0.25), channels=1, dtype=torch.float32)",
    ]


def test_what_was_restored_shows_its_shape_and_not_its_numbers():
    made = cn.inpaint(stored(GRAY, "uint8", numpy=True), KNOWN, prior=cn.Smoothness())
    assert repr(made) == "Restored(<ndarray of uint8 and shape (24, 20)>, prior=smooth, expected_psnr=None)"
    assert repr(ENLARGED(PICTURE)).startswith("Restored(<Tensor of torch.float32 and shape (48, 40, 3)>, prior=")


def test_encoders_show_their_parameters():
    assert repr(cn.Gaussian(32, 0.02)) == "Gaussian(features=32, sigma=0.02)"
    assert "levels=4" in repr(cn.encoders.HashGrid(2, 8, levels=4))


@pytest.mark.parametrize("pattern", ["random:0.5", "every:2", "full"])
def test_the_default_of_a_closed_form_is_that_of_fit(pattern, recwarn):
    """The same policy for both doors, to the bit; with a mask it is the adaptive prior."""
    samples = cn.sample(PICTURE, pattern)
    fit = cn.fit(samples, encoder=cn.Gaussian)
    other = cn.fit_closed_form(cn.ComplexEncoding.like(cn.Gaussian, samples), samples)
    assert torch.equal(fit.render(), other.render())
    assert fit.report.prior.startswith({"random:0.5": "Adaptive", "every:2": "Smoothness", "full": "none"}[pattern])


def test_a_prior_that_was_named_is_kept():
    samples = cn.sample(PICTURE, "random:0.5")
    fit = cn.fit(samples, encoder=cn.Triangle, prior=cn.Smoothness(2.0, 0.1))
    assert fit.report.prior.startswith("Smoothness(power=2.0, strength=0.1")
    assert type(fit.network.encoding.axis_encoders[0]).__name__ == "Triangle"
    with pytest.warns(cn.CoordnetWarning, match=r"`prior`: with None, .* or cn.Adaptive\(\) estimates it"):
        assert cn.fit(samples, prior=None).report.prior == "none"


def test_a_masked_array_is_refused_where_it_hides_numbers():
    picture = synthetic_photograph(9, 8).numpy()
    hidden = np.ma.masked_array(picture, picture > np.median(picture))
    with pytest.raises(
        ValueError, match=r"`signal`: expected an array without a mask, such as array.filled\(numpy.nan"
    ):
        cn.inpaint(hidden, "random:0.5")
    shown = cn.inpaint(np.ma.masked_array(picture), "random:0.5", prior=cn.Smoothness(), seed=0).signal
    assert np.array_equal(shown, cn.inpaint(picture, "random:0.5", prior=cn.Smoothness(), seed=0).signal)


def test_integers_of_numpy_are_seeds(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # users have no annotations executed
    noisy = PICTURE + 0.1 * torch.randn(PICTURE.shape, generator=torch.Generator().manual_seed(0))
    for run in (
        lambda seed: cn.inpaint(PICTURE, KNOWN, prior=cn.Adaptive(rounds=1), seed=seed),
        lambda seed: DENOISED(noisy, seed=seed),
    ):
        assert torch.equal(run(np.int64(3)).signal, run(3).signal)
    assert [type(prior(seed=np.int64(3)).seed) for prior in (cn.Adaptive, cn.Evolving, cn.ThinPlate)] == [int] * 3


def test_pictures_of_pillow_are_taken_as_they_are(recwarn):
    """Their arrays cannot be written, of which PyTorch warns once in a process."""
    rows, columns = np.mgrid[:20, :24]
    picture = Image.fromarray(np.uint8(10 * rows))
    known = np.asarray(Image.fromarray((rows < 8) | (columns > 4)))
    array = np.asarray(picture)
    assert not array.flags.writeable and not known.flags.writeable
    made = cn.inpaint(array, known, prior=cn.Smoothness()).signal
    assert made.dtype == np.uint8
    assert np.array_equal(made[known], array[known])
    assert np.array_equal(array, np.asarray(picture))
    assert not as_tensor(array, "array").data_ptr() == array.ctypes.data
    assert not [warning for warning in recwarn if "not writable" in str(warning.message)]


def test_one_bit_comes_back_as_one_bit():
    rows, columns = np.mgrid[:20, :24]
    picture, known = rows + columns > 20, (rows - 10) ** 2 + (columns - 12) ** 2 > 9
    made = cn.inpaint(np.where(known, picture, False), known, prior=cn.Smoothness()).signal
    assert made.dtype == bool
    assert np.mean(made == picture) > 0.98


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((20, 24), 2),
        ((20, 3), 1),
        ((20, 24, 4), 2),
        ((20, 24, 6), 2),
        ((20, 15, 8), 3),
        ((12, 14, 16), 3),
        ((5, 20, 24), 3),
        ((5, 20, 24, 3), 3),
        ((2, 24, 24, 6), 3),
    ],
)
def test_an_array_has_the_same_axes_in_python_and_in_a_file(shape, axes, tmp_path):
    array = np.random.default_rng(0).random(shape)
    np.save(tmp_path / "array.npy", array)
    samples, stored = cn.sample(array, "full"), cn.sample(cn.load(tmp_path / "array.npy"), "full")
    assert samples.grid == stored.grid == shape[:axes]
    assert samples.channels == stored.channels == (shape[axes] if axes < len(shape) else 1)


def test_a_mask_of_the_grid_tells_the_channels_whatever_their_number():
    array = np.sin(np.arange(12)[:, None, None] / 5 + np.arange(10)[:, None] / 4 + np.arange(9) / 3)
    known = np.random.default_rng(1).random((12, 10)) < 0.7
    for mask in (known, known[..., None]):
        assert cn.sample(array, mask).grid == (12, 10)
    assert cn.inpaint(array, known, prior=cn.Adaptive(rounds=1)).fit.lengths == (12, 10)
    everywhere = np.broadcast_to(known[..., None], array.shape)
    assert cn.inpaint(array, everywhere, prior=cn.Adaptive(rounds=1)).fit.lengths == array.shape


def test_channels_first_are_doubted_where_a_picture_could_be_meant():
    array = np.random.default_rng(0).random((3, 20, 24))
    with pytest.warns(cn.CoordnetWarning, match=r"`signal`: an array of shape \(3, 20, 24\) is taken for a volume"):
        assert cn.sample(array, "full").grid == (3, 20, 24)
    assert cn.sample(array, "full", dimensions=3).grid == (3, 20, 24)  # without a warning, which is an error here
    assert cn.sample(array[:, :8], "full").grid == (3, 8, 24)
