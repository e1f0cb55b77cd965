"""Pictures that Pillow compressed: the steps that they show, and the noise that they had before."""

import io
import math

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image, ImageDraw

import coordnet as cn
from coordnet.noise.before_jpeg import noise_before_jpeg
from coordnet.noise.linear_demosaicing import malvar
from coordnet.sampling.jpeg import brightness, shown_steps
from tests.helpers import synthetic_photograph
from tests.noise.test_shared_noise import grain

SIZE = (144, 160)


def noisy(generator, channels=3, sigma=0.05):
    truth = 0.2 + 0.6 * synthetic_photograph(*SIZE, channels).double()
    return truth + sigma * torch.randn(truth.shape, generator=generator, dtype=torch.float64)


def compressed(picture, quality):
    """The picture that Pillow decodes, and its table for brightness."""
    file, pixels = io.BytesIO(), np.uint8((255 * picture.clamp(0, 1)).round().numpy())
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(file, "JPEG", quality=quality)
    with Image.open(file) as image:
        decoded = torch.from_numpy(np.asarray(image) / 255)
        return decoded.reshape(picture.shape), np.array(image.quantization[0]).reshape(8, 8)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_decoded_picture_shows_its_table(channels, generator):
    picture = noisy(generator, channels)
    decoded, table = compressed(picture, 75)
    steps = shown_steps(decoded)
    assert steps is not None
    assert (steps[:4, :4] == table[:4, :4]).all() and np.mean(steps == table) > 0.6
    assert shown_steps(picture) is None and shown_steps(decoded[:12]) is None
    cut = shown_steps(decoded[5:, 3:])
    assert cut is not None and (cut[:4, :4] == table[:4, :4]).all()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("quality", [75, 95])
def test_the_noise_before_the_rounding_is_found(channels, quality, generator):
    """The variance is that of the noise and of the rounding, which is at most as large."""
    decoded, table = compressed(noisy(generator, channels), quality)
    share = float(np.square([0.299, 0.587, 0.114]).sum()) if channels == 3 else 1.0
    rounding = np.minimum((table / 255) ** 2 / 12, 0.05**2 * share).mean()
    assert cn.estimate_noise(decoded).floor == pytest.approx(0.05**2 + rounding / share, rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.7, 1.0])
def test_the_grain_of_a_scan_is_found(share, generator):
    """Neighbors of noise that was filtered by one pixel have the correlation exp(-1/4)."""
    truth = noisy(generator, sigma=0.0)
    decoded, _ = compressed(truth + grain(share, 0.05, generator, SIZE), 90)
    model = cn.estimate_noise(decoded)
    assert model.floor == pytest.approx(0.05**2, rel=0.3)
    lags = model.autocovariance.mean((0, 1))
    assert lags[0, 1] / lags[0, 0] == pytest.approx(math.exp(-1 / 4), abs=0.12)
    assert cn.estimate_noise(compressed(truth, 90)[0]).kind == "none"


@pytest.mark.slow
def test_the_grain_of_a_scanned_photograph_is_found(generator):
    """Fine hairs make it look as if it had been filtered by less than its one pixel."""
    truth = torch.from_numpy(skimage.data.chelsea()[30:254, 60:348] / 255.0)
    decoded, _ = compressed(truth + grain(0.7, 0.06, generator, tuple(truth.shape[:2])), 85)
    model = cn.estimate_noise(decoded)
    assert model.kind == "colored" and math.sqrt(model.floor) == pytest.approx(0.06, rel=0.25)
    assert cn.estimate_noise(compressed(truth, 85)[0]).kind != "colored"


@pytest.mark.parametrize(("least", "largest"), [(0.0, 0.0), (0.0, 0.3)])
def test_pictures_without_noise_before_jpeg_have_none(least, largest, generator):
    """Texture that grows from one side to the other is no noise."""
    smooth = noisy(generator, sigma=0.0)
    texture = torch.randn(*SIZE, 1, generator=generator) * torch.linspace(least, largest, SIZE[1])[:, None]
    decoded, table = compressed(smooth + texture, 75)
    assert noise_before_jpeg(decoded, table.astype(float)) is None


@pytest.mark.parametrize(("share", "quality", "deviation"), [(5, 85, 0.004), (5, 80, 0.006), (8, 85, 0.004)])
def test_the_noise_of_a_dark_photograph_is_found(share, quality, deviation, generator):
    """JPEG leaves patches of one color in the second picture, and blocks that repeat in the third."""
    truth = (0.2 + 0.6 * synthetic_photograph(*SIZE, 3).double()) / share
    variance = 0.002 * truth + deviation**2
    decoded, _ = compressed(truth + variance.sqrt() * torch.randn(truth.shape, generator=generator), quality)
    assert 1 < cn.estimate_noise(decoded).floor / float(variance.mean()) < 2


@pytest.mark.slow
@pytest.mark.parametrize("quality", [90, 95])
def test_the_noise_of_photons_behind_a_mosaic_is_found(quality, generator):
    """Its brightness has the variance of a demosaiced mosaic, which rises from the dark to the bright side."""
    truth = noisy(generator, sigma=0.0) * torch.linspace(0.1, 1.0, SIZE[1], dtype=torch.float64)[:, None]
    counted = 0.01 * torch.poisson(truth / 0.01, generator=generator)
    made = malvar(counted, cn.sample(truth, "bayer:RGGB").geometry.known(3)).clamp(0, 1)
    decoded, table = compressed(made, quality)
    model = noise_before_jpeg(decoded, table.astype(float))
    assert model is not None and model.gain > 0 and model.spectrum is not None
    for part in (slice(20, 70), slice(90, 150)):
        deviation = float(brightness(decoded - truth)[:, part].std())
        weights = torch.tensor([0.299, 0.587, 0.114], dtype=torch.float64)
        share = weights @ model.autocovariance[:, :, 0, 0].double() @ weights
        found = float((share * brightness(model.variance(truth[:, part]))).mean().sqrt())
        assert found == pytest.approx(deviation, rel=0.25)


@pytest.mark.parametrize("quality", [50, 75])
def test_the_ringing_of_letters_on_a_dim_page_is_no_noise(quality):
    page, draws = Image.new("L", (256, 192), 255), np.random.default_rng(3)
    for line in range(14):
        letters = "".join(chr(97 + k) if k < 26 else " " for k in draws.integers(0, 30, 38))
        ImageDraw.Draw(page).text((8, 6 + 13 * line), letters, fill=0)
    dim = torch.from_numpy(0.15 / 255 * np.asarray(page, dtype=float))
    decoded, _ = compressed(dim[..., None].expand(-1, -1, 3), quality)
    assert cn.estimate_noise(decoded).kind == "none"


def test_noise_that_all_colors_share_is_found_too(generator):
    shared = noisy(generator, sigma=0.0) + 0.1 * torch.randn(*SIZE, 1, generator=generator, dtype=torch.float64)
    decoded, table = compressed(shared, 75)
    assert noise_before_jpeg(decoded, table.astype(float)) is not None


@pytest.mark.parametrize("quality", [75, 85])
def test_smooth_surfaces_that_meet_in_edges_have_no_grain(quality):
    """The distance from the nearest of some points has less and less energy at higher frequencies, as grain has."""
    points, (rows, columns) = 128 * np.random.default_rng(0).random((60, 2)), np.mgrid[:128, :128]
    cones = np.hypot(rows[..., None] - points[:, 0], columns[..., None] - points[:, 1]).min(2)
    decoded, _ = compressed(torch.from_numpy(cones / cones.max())[..., None], quality)
    assert shown_steps(decoded) is not None and cn.estimate_noise(decoded).kind == "none"


def test_grain_is_not_told_where_colors_are_clipped_everywhere(generator):
    """Red is white in all of the picture, so that no window has all channels, but the brightness shows the grain."""
    decoded, table = compressed(0.5 + grain(0.7, 0.06, generator, SIZE), 90)
    assert noise_before_jpeg(decoded, table.astype(float)) is not None
    decoded[..., 0] = 1.0
    assert noise_before_jpeg(decoded, table.astype(float)) is None
