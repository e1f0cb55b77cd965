import json
import re
from pathlib import Path

import pytest
import torch

import coordnet as cn
from coordnet.media import read_media, write_media
from coordnet.restore.restored import Tiles, fit_large
from tests.helpers import synthetic_photograph


def smooth(height, width):
    """A picture without detail."""
    y, x = torch.meshgrid(torch.linspace(0, 3, height), torch.linspace(0, 4, width), indexing="ij")
    return (0.5 + 0.3 * torch.sin(x + y) * torch.cos(0.7 * x - y)).unsqueeze(-1)


@pytest.mark.parametrize(("grid", "largest"), [((300, 200), 20_000), ((9000,), 4500), ((20, 90, 80), 20_000)])
def test_tiles_cover_a_lattice_and_blend_to_what_they_were_cut_from(grid, largest):
    tiles = Tiles(grid, largest)
    f = torch.rand(*grid, 2)
    assert len(list(tiles)) == len(tiles) > 1
    assert max(f[tile][..., 0].numel() for tile in tiles) <= largest
    assert torch.allclose(tiles.restore(lambda tile: f[tile], f.device), f, atol=1e-6)


@pytest.mark.parametrize("masks", [1, 2])
def test_what_is_unknown_is_filled_in_place_with_the_bits_of_the_blend(masks):
    tiles, f = Tiles((300, 200), 20_000), torch.rand(300, 200, 2)
    unknown = torch.rand(300, 200, masks) < 0.3
    signal, truth = torch.where(unknown, 0.0, f), f + 1
    blend, read = tiles.restore(lambda tile: truth[tile], f.device), []

    def work(tile):
        read.append(torch.equal(signal[tile], torch.where(unknown, 0.0, f)[tile]))
        return truth[tile]

    tiles.fill(work, signal, unknown)
    assert all(read) and len(read) == len(tiles)
    assert torch.equal(signal, torch.where(unknown, blend, f))


def test_a_large_signal_is_filled_in_the_memory_of_its_samples():
    samples = cn.sample(torch.rand(60, 400, 1), torch.arange(24_000).reshape(60, 400) % 7 > 0)
    made, report = fit_large(
        samples,
        lambda part: cn.fit_closed_form(cn.FourierEncoding.like(part), part, cn.Smoothness()),
        largest=12_000,
        in_place=True,
    )
    assert made.data_ptr() == samples.values.data_ptr() and len(report.fits) > 1


def test_a_channel_of_which_a_tile_knows_nothing_has_its_mean_there_and_one_of_which_none_does_is_refused():
    picture, known = smooth(60, 400).expand(60, 400, 2) + 7, torch.rand(60, 400, 2) < 0.5
    known[:, :300, 1] = False
    found = cn.inpaint(picture, known, prior=cn.Smoothness(), largest=12_000).signal[:, :100, 1]
    assert torch.allclose(found, picture[known[..., 1]][:, 1].mean())
    with pytest.raises(ValueError, match="each channel, received none in channel 1"):
        cn.inpaint(picture, known & torch.tensor([True, False]))
    means = cn.inpaint(picture, "area:2", prior=cn.Smoothness()).signal  # no pixel is known, but each channel is
    assert torch.allclose(means, picture, atol=0.05)


def test_a_small_lattice_is_one_tile():
    assert list(Tiles((30, 20), 600)) == [(slice(0, 30), slice(0, 20))]
    assert len(Tiles((30, 20), 599)) == 1  # too short to be cut with an overlap


def test_tiles_of_a_smooth_picture_leave_no_seams():
    truth = smooth(260, 60)
    y = truth + 0.05 * torch.randn(truth.shape, generator=torch.Generator().manual_seed(0))
    whole, cut = (cn.denoise(y, 0.05, prior=cn.Adaptive(), largest=n) for n in (None, 12_000))
    assert cut.fit is None
    assert cut.report.tiles == [4, 1]
    assert float((cut.signal - whole.signal).abs().max()) < 0.01
    assert cut.expected_psnr == pytest.approx(whole.expected_psnr, abs=1)


@pytest.mark.slow
def test_inpainting_in_tiles_keeps_what_is_known_and_leaves_no_seams():
    truth = smooth(260, 60)
    known = torch.rand(260, 60, generator=torch.Generator().manual_seed(0)) < 0.5
    known[:120] = True  # a tile without anything to fill
    prior = cn.Adaptive(rounds=2)
    whole, cut = cn.inpaint(truth, known, prior=prior), cn.inpaint(truth, known, prior=prior, largest=12_000)
    assert cut.fit is None
    assert torch.equal(cut.signal[known], truth[known])
    assert float((cut.signal - whole.signal)[:, 5:-5].abs()[:-5].max()) < 0.01
    assert cut.expected_psnr > 30


@pytest.mark.parametrize("work", ["inpaint", "denoise"])
def test_tiles_side_by_side_give_the_same_bits(work):
    truth = smooth(260, 60)
    known = torch.rand(260, 60, generator=torch.Generator().manual_seed(0)) < 0.5
    found, before = [], torch.get_num_threads()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        try:
            options = {"prior": cn.Smoothness()} if work == "inpaint" else {"prior": cn.Adaptive()}
            arguments = (truth, known) if work == "inpaint" else (truth, 0.05)
            found.append(getattr(cn, work)(*arguments, largest=12_000, **options))
        finally:
            torch.set_num_threads(before)
    assert torch.equal(found[0].signal, found[1].signal)
    assert found[0].report == found[1].report


def test_noise_is_removed_from_tiles_that_are_known_as_a_whole():
    clean = synthetic_photograph(256, 96, 1)
    noisy = clean + 0.1 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    known = torch.ones(256, 96, dtype=torch.bool)
    known[:20, :20] = torch.rand(20, 20, generator=torch.Generator().manual_seed(1)) < 0.5
    prior = cn.Local(noise=0.1, rounds=1, pilot=cn.Adaptive(rounds=1))
    made = cn.inpaint(noisy, known, prior=prior, dimensions=2, largest=2**14)
    assert made.report.fit.tiles[0] > 1
    before, after = (float((f - clean)[-60:].square().mean()) for f in (noisy, made.signal))
    assert after < before / 4


@pytest.mark.filterwarnings("ignore:`sigma`. .* is used as given")
@pytest.mark.parametrize("command", ["reconstruct", "denoise"])
def test_commands_say_that_they_cut_and_keep_no_model(run, monkeypatch, tmp_path, command):
    monkeypatch.setattr("coordnet.restore.restored.MAX_POINTS", 12_000)
    write_media(synthetic_photograph(260, 60, 1), tmp_path / "a.png")
    options = {
        "reconstruct": ("--sample", "random:0.5", "--prior", "smooth"),
        "denoise": ("--sigma", 0.05, "--prior", "adaptive"),
    }[command]
    status, out, err = run(command, "a.png", *options, "--out", "out")
    assert status == 0, err
    assert "4×1 tiles" in out
    assert not re.search(r"\b0 (s|ms|µs)", out)
    assert "tiles: 100%" in err
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["report"]["tiles"] == [4, 1]
    assert not (tmp_path / "out" / "model.safetensors").exists()
    assert read_media(next(Path("out").glob("re*.png"))).grid == (260, 60)
    status, _, err = run(command, "a.png", *options, "--out", "again", "--model", "--quiet")
    assert (status, err.count("\n")) == (2, 1)
    assert "--model" in err


def test_comparisons_slower_than_the_fit_are_named(run, monkeypatch, tmp_path):
    monkeypatch.setattr("coordnet.metrics.scores.AFFORDED", 0.0)
    monkeypatch.setattr("coordnet.metrics.scores.expected_seconds", lambda samples, name: 1e9 * (name == "cubic"))
    write_media(synthetic_photograph(40, 30), tmp_path / "a.png")
    out = run("reconstruct", "a.png", "--sample", "random:0.5", "--prior", "smooth", "--out", "out")[1]
    assert "cubic spline              left out: takes about 1e+09 s" in out
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["left_out"] == {"cubic": "takes about 1e+09 s"}
    assert record["baselines"]["cubic"] is None
    assert record["baselines"]["linear"] > 0


def test_a_large_png_is_enlarged_in_rows(run, tmp_path):
    write_media(synthetic_photograph(60, 50), tmp_path / "a.png")
    assert run("upscale", "a.png", "--prior", "none", "--out", "whole", "--quiet")[0] == 0
    assert run("upscale", "a.png", "--memory", "400kB", "--out", "rows", "--quiet")[0] == 0
    whole, rows = (read_media(f"{folder}/restored.png").signal for folder in ("whole", "rows"))
    assert (tmp_path / "whole" / "model.safetensors").exists()
    assert not (tmp_path / "rows" / "model.safetensors").exists()
    assert float((whole - rows).abs().max()) <= 1.01 / 255


def test_the_range_of_the_expected_psnr_is_that_of_known_values():
    f, known = 40 * smooth(40, 30), torch.rand(40, 30, generator=torch.Generator().manual_seed(0)) < 0.5
    expected, found = (
        cn.inpaint(f.masked_fill(~known.unsqueeze(-1), end), known, prior=cn.Adaptive(rounds=1)).expected_psnr
        for end in (20.0, -1e6)
    )
    span = f[known].max() - f[known].min()
    assert found == pytest.approx(expected) and span < 40
