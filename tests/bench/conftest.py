import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from coordnet.media import write_media
from tests.helpers import synthetic_photograph


@pytest.fixture(scope="session")
def small_data(tmp_path_factory):
    """A data folder with two small pictures and a small clip, written once."""
    data = tmp_path_factory.mktemp("data")
    (data / "images").mkdir(parents=True)
    for seed in range(2):
        pixels = (synthetic_photograph(40, 44, seed=seed).numpy() * 255).round().astype(np.uint8)
        Image.fromarray(pixels).save(data / "images" / f"picture{seed}.png")
    (data / "video").mkdir()
    picture = synthetic_photograph(16, 16)
    frames = [picture.roll(shift, 0) for shift in range(8)]
    write_media(torch.stack(frames), data / "video" / "clip.mp4", rate=25)
    return data


@pytest.fixture
def folder(small_data, tmp_path):
    """A copy of the data folder that a test may change."""
    return shutil.copytree(small_data, tmp_path / "data")
