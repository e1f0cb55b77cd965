"""The blocks of Python in README.md and results/pictures/README.md run as they stand, on small signals."""

import re
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pandas
import pytest
import torch
from skimage import data

import coordnet as cn

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "results" / "pictures"


def blocks(name):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder of a block, with a photograph and a mask."""
    monkeypatch.chdir(tmp_path)
    iio.imwrite("photo.png", data.chelsea()[100:116, 100:116])
    mask = np.full((16, 16), 255, np.uint8)
    mask[5:8, 5:10] = 0
    iio.imwrite("mask.png", mask)
    return tmp_path


def variables():
    """The names that the blocks take for granted."""
    latitudes, longitudes = np.linspace(0, 1, 12) ** 2, np.linspace(10, 20, 12)
    lon, lat = np.random.default_rng(0).random((2, 60))
    table = pandas.DataFrame({"lon": lon, "lat": lat, "t2m": np.sin(5 * lon) + lat})
    values = np.sin(5 * latitudes)[:, None] + np.cos(longitudes)
    psf, image = torch.ones(3, 3) / 9, cn.load("photo.png")
    return {
        "latitudes": latitudes,
        "table": table,
        "places": torch.tensor([[0.5, 0.5]]),
        "longitudes": longitudes,
        "values": np.where(np.arange(12) % 5 == 1, np.nan, values),
        "new_latitudes": [0.1, 0.2, 0.7],
        "new_longitudes": [11.0, 19.5],
        "psf": psf,
        "blurred": cn.operators.Blur(psf, (16, 16))(image.movedim(-1, 0)).movedim(0, -1),
        "batch": image.expand(2, 16, 16, 3),
    }


@pytest.mark.slow
@pytest.mark.parametrize("index", range(2))
def test_the_python_of_the_readme_runs(index, folder):
    block = blocks("README.md")[index].replace("1024", "48").replace("epochs=2000", "epochs=2")
    if index:  # the default for such samples is that of the first block
        block = block.replace("cn.fit(samples)", "cn.fit(samples, prior=cn.Adaptive())")
        block = block.replace("mask > 127)", "mask > 127, prior=cn.Adaptive())")
    exec(block, variables())
    assert index == 0 or (folder / "photo.safetensors").exists()


def test_the_lines_that_make_the_pictures_make_those_that_are_stored(folder):
    (block,) = blocks("results/pictures/README.md")
    exec(block, {})
    for name in ("cat", "text", "small", "noisy"):
        made, stored = iio.imread(f"{name}.png"), iio.imread(PICTURES / f"{name}.png")
        assert np.mean(made != stored) < 0.01  # another version of the font may move single pixels


def test_the_pictures_are_small():
    assert all(path.stat().st_size < 300_000 for path in PICTURES.glob("**/*.png"))
