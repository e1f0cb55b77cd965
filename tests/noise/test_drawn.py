import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

import coordnet as cn
from coordnet.noise.drawn import is_drawn, rounding_step
from coordnet.restore.impulses import lost_pixels
from tests.helpers import synthetic_photograph

random = np.random.default_rng


def text(size=10, ink=40, paper=220):
    page = Image.new("L", (96, 80), paper)
    words = "The quick brown\nfox jumps over\nthe lazy dog\n0123456789"
    ImageDraw.Draw(page).text((3, 2), words, fill=ink, font=ImageFont.load_default(size))
    return page


def circles():
    """Anti-aliased circles, no part of which occurs twice."""
    page = Image.new("L", (384, 384), 255)
    draw = ImageDraw.Draw(page)
    for x, y, radius in random(1).uniform(40, 340, (7, 3)):
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), outline=0, width=4)
    return page.resize((96, 96), Image.Resampling.LANCZOS)


def dithered():
    photograph = Image.fromarray(np.uint8(255 * synthetic_photograph(80, 96, 3).numpy()))
    return photograph.quantize(16, dither=Image.Dither.FLOYDSTEINBERG).convert("RGB")


DRAWN = {
    "gray text": text,
    "black text": lambda: text(16, 0, 255),
    "circles": circles,
    "palette": dithered,
    "sprites": lambda: random(0).integers(0, 256, (8, 3))[random(1).integers(0, 8, (64, 64))],
    "modules": lambda: np.kron(random(0).integers(0, 2, (16, 16)), np.full((4, 4), 200)),
    "black or white": lambda: 255 * (random(0).random((64, 64)) < 0.73),
}


def signal(picture):
    values = torch.from_numpy(np.array(picture, np.uint8)).float() / 255
    return values if values.ndim == 3 else values.unsqueeze(-1)


@pytest.mark.parametrize("make", DRAWN.values(), ids=DRAWN)
def test_what_is_drawn_is_left_alone(make):
    picture = signal(make())
    assert lost_pixels(picture) is None
    assert is_drawn(picture)
    assert cn.estimate_noise(picture).kind == "none"
    torch.testing.assert_close(cn.denoise(picture).signal, picture, atol=1e-6, rtol=0)


@pytest.mark.parametrize("make", [text, circles, lambda: text(16, 0, 255)])
@pytest.mark.parametrize("sigma", [0.01, 0.1])
def test_a_drawing_with_noise_is_not_drawn(make, sigma):
    picture = signal(make())
    noisy = picture.numpy() + sigma * random(0).standard_normal(picture.shape)
    assert not is_drawn(signal(np.round(255 * noisy.clip(0, 1))))


@pytest.mark.parametrize("brightness, sigma", [(0.02, 0.003), (0.05, 0.002), (1.0, 0.004), (1.8, 0.03)])
def test_photographs_with_faint_noise_are_not_drawn(brightness, sigma):
    """Dark ones have few values, and bright ones are clipped."""
    for channels in (1, 3):
        values = brightness * synthetic_photograph(160, 160, channels).numpy()
        values = values + sigma * random(0).standard_normal(values.shape)
        assert not is_drawn(signal(np.round(255 * values.clip(0, 1))))


def diffused(values, levels):
    """Round a picture to some levels, and pass the error of each pixel on to the next ones (Floyd and Steinberg)."""
    values, made = np.pad(values, ((0, 1), (1, 1), (0, 0))), np.zeros_like(values)
    for row, column in np.ndindex(*made.shape[:2]):
        made[row, column] = np.clip(np.round(values[row, column + 1] * (levels - 1)) / (levels - 1), 0, 1)
        error = values[row, column + 1] - made[row, column]
        for down, right, share in ((0, 2, 7), (1, 0, 3), (1, 1, 5), (1, 2, 1)):
            values[row + down, column + right] += share / 16 * error
    return made


@pytest.mark.parametrize("channels, levels", [(1, 16), (3, 6)])
def test_the_noise_of_a_dither_is_left_alone(channels, levels):
    truth = synthetic_photograph(96, 96, channels).double()
    truth = (1.2 * (truth - truth.min()) / (truth.max() - truth.min()) - 0.1).clamp(0, 1)
    picture = signal(np.round(255 * diffused(truth.numpy(), levels)))
    assert cn.estimate_noise(picture).kind == "none"


def test_the_step_of_rounding_is_that_of_most_values(generator):
    values = torch.rand(64, 64, 1, generator=generator)
    rounded = (255 * values).round() / 255
    assert rounding_step(rounded) == pytest.approx(1 / 255, rel=1e-4)
    filled = torch.rand(64, 64, 1, generator=generator) < 0.1
    assert rounding_step(torch.where(filled, values, rounded)) == pytest.approx(1 / 255, rel=1e-4)
    assert rounding_step(torch.where(values < 0.7, 0.0, values)) < 1e-3  # a background, and floats
    assert rounding_step(torch.ones(4, 4, 1)) == math.inf
