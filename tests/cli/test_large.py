"""What is larger than memory: commands that work block by block give what they give for the whole signal."""

import json
import signal as signals
from pathlib import Path

import numpy as np
import pytest

from coordnet.cli.common import Many, Output
from coordnet.cli.large import write_blocks
from coordnet.sampling.axes import ByAxes
from tests.helpers import synthetic_photograph

pytest.importorskip("dask")
stores = pytest.importorskip("coordnet.xarray.stores")
write = stores._write


@pytest.fixture
def picture(tmp_path, monkeypatch):
    """A noisy picture of 16 bits in a TIFF file, which exceeds the memory, and how it was without noise."""
    tifffile = pytest.importorskip("tifffile")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("coordnet.restore.blocks.MAX_POINTS", 4 * 2500)
    monkeypatch.setattr("coordnet.restore.blocks.HALO", ByAxes({1: 64, 2: 16, 3: 4, 4: 2}))
    monkeypatch.setattr("coordnet.restore.blocks.SAMPLED", 1)
    monkeypatch.setattr("coordnet.cli.large.budget", lambda memory: 1000)
    truth = synthetic_photograph(80, 66, 1).numpy()[..., 0]
    noisy = truth + 0.05 * np.random.default_rng(0).standard_normal(truth.shape)
    tifffile.imwrite("noisy.tif", (65535 * noisy.clip(0, 1)).astype(np.uint16))
    return truth


def killed(task, mark):
    """Write a block, unless it is one that kills its process."""
    if Path("deadly").exists() and mark.name.endswith(".1.0.0"):
        signals.raise_signal(signals.SIGKILL)
    write(task, mark)


def test_a_large_picture_is_denoised_in_blocks_and_goes_on_when_killed(picture, run, forked, coarse, monkeypatch):
    from tifffile import imread

    monkeypatch.setattr("coordnet.xarray.stores._write", killed)
    Path("deadly").touch()
    asked = ("denoise", "noisy.tif", "--sigma", "0.05", "--prior", "adaptive", "--workers", "2")
    status, out, err = run(*asked, "--out", "clean.tif", "--quiet")
    assert status == 2 and err.count("\n") == 1 and not out and "block 1.0.0 of restored to be restored" in err
    assert "its process died" in err and "goes on from there" in err and not Path("clean.tif").exists()
    done = {path.name: path.stat().st_mtime_ns for path in Path(".noisy.zarr.part/done").iterdir()}
    Path("deadly").unlink()
    status, _, err = run(*asked, "--out", "clean.tif", "--report", "about", "--quiet")
    assert status == 0, err
    assert done and sorted(p.name for p in Path().iterdir()) == ["about", "clean.tif", "noisy.tif"]
    made = imread("clean.tif")
    assert made.dtype == np.uint16 and made.shape == picture.shape
    assert np.sqrt(np.square(made / 65535 - picture).mean()) < 0.03
    record = json.loads(Path("about/record.json").read_text())
    assert record["report"]["blocks"]["counts"][0] > 1 and record["sigma"] == 0.05 and record["command"] == "denoise"


def test_a_large_png_is_denoised_in_blocks_if_memory_is_given(picture, run, coarse):
    from imageio.v3 import imread, imwrite

    noisy = picture + 0.05 * np.random.default_rng(0).standard_normal(picture.shape)
    imwrite("noisy.png", (255 * noisy.clip(0, 1)).round().astype(np.uint8))
    asked = ("denoise", "noisy.png", "--sigma", "0.05", "--prior", "adaptive", "--quiet", "--memory", "542MB")
    status, _, err = run(*asked, "--out", "clean.png", "--report", "about")
    assert status == 0, err
    assert json.loads(Path("about/record.json").read_text())["report"]["blocks"]["counts"][0] > 1
    assert np.sqrt(np.square(imread("clean.png") / 255 - picture).mean()) < 0.03


@pytest.mark.parametrize(("broken", "is_kept"), [(0, False), (1, True)])
def test_a_store_of_which_no_block_is_done_is_discarded(tmp_path, broken, is_kept):
    from dask import array as da
    from xarray import DataArray

    def computed(block, block_info=None):
        if block_info[0]["chunk-location"][0] == broken:
            raise OSError("the disk is gone")
        return block

    made = da.map_blocks(computed, da.ones((4, 2), chunks=2), dtype=float, meta=np.empty((0, 0)))
    store = stores.BlockStore(tmp_path / "a.zarr", DataArray(made, dims=("y", "x"), name="v").to_dataset(), {})
    with pytest.raises(ValueError, match=f"a.npy: expected block {broken}.0 of v .* the disk is gone"):
        write_blocks(store, "a.npy", "filled", Many(), Output(quiet=True))
    assert [path.name for path in tmp_path.iterdir()] == [".a.zarr.part"] * is_kept
