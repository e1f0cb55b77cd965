import numpy as np
import pytest
from PIL import Image

from coordnet.media import write_video
from tests.helpers import synthetic_photograph


@pytest.fixture
def folder(tmp_path):
    """A data folder with two small pictures and a small clip."""
    data = tmp_path / "data"
    (data / "images").mkdir(parents=True)
    for seed in range(2):
        pixels = (synthetic_photograph(40, 44, seed=seed).numpy() * 255).round().astype(np.uint8)
        Image.fromarray(pixels).save(data / "images" / f"picture{seed}.png")
    (data / "video").mkdir()
    picture = synthetic_photograph(24, 24)
    frames = [picture.roll(shift, 0) for shift in range(16)]
    write_video(__import__("torch").stack(frames), data / "video" / "clip.mp4", rate=25)
    return data
