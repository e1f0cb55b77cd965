import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from scipy.io import wavfile

import coordnet as cn
from coordnet.media import read_media, write_media
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.fits import restoration_figure
from coordnet.restore.inpaint import _expected as expected_psnr
from tests.helpers import synthetic_photograph

pytestmark = pytest.mark.usefixtures("inputs")
FILES = {"restored.png", "figure.png", "model.safetensors", "record.json"}


def stored(path, signal, depth="uint8"):
    """Write a picture and return it as it will be read."""
    write_media(signal, path, depth=depth)
    return read_media(path).signal


def mask_file(path, known):
    Image.fromarray(known.astype(np.uint8) * 255).save(path)
    return path


def result(folder="out", suffix=".png"):
    return read_media(f"{folder}/restored{suffix}").signal


def holes(height, width):
    known = np.ones((height, width), dtype=bool)
    known[height // 4 : height // 4 + 6, width // 3 : width // 3 + 7] = False
    known[-3:, : width // 2] = False
    return known


def ran(outcome):
    status, out, err = outcome
    assert (status, err) == (0, ""), err
    return out


def refused(outcome, tmp_path, name):
    status, out, err = outcome
    assert (status, out) == (2, "")
    assert err.startswith("coordnet: ")
    assert err.count("\n") == 1
    assert name in err
    assert {p.name for p in tmp_path.iterdir()} == {"in"}


def mosaic(image, pattern="RGGB"):
    raw = torch.zeros(*image.shape[:2], 1)
    for i, colour in enumerate(pattern):
        at = (slice(i // 2, None, 2), slice(i % 2, None, 2))
        raw[(*at, 0)] = image[(*at, "RGB".index(colour))]
    return raw


# inpaint


@pytest.mark.parametrize(("depth", "channels"), [("uint8", 1), ("uint8", 3), ("uint16", 4)])
def test_inpaint_leaves_what_is_known_to_the_bit(run, depth, channels):
    truth = stored("in/a.png", synthetic_photograph(40, 37, channels), depth)
    known = holes(40, 37)
    options = ("--mask", mask_file("in/m.png", known), "--prior", "smooth", "--out", "out", "--quiet")
    assert ran(run("inpaint", "in/a.png", *options)) == ""
    made = result()
    assert torch.equal(made[known], truth[known])
    assert cn.psnr(made[~known], truth[~known]) > 15
    assert read_media("out/restored.png").depth == depth


@pytest.mark.figures
def test_inpaint_writes_a_fresh_folder_and_says_what_it_chose(run, tmp_path):
    stored("in/a.png", synthetic_photograph(40, 37))
    known = np.random.default_rng(0).random((40, 37)) < 0.5
    mask = mask_file("in/m.png", known)
    status, out, err = run("inpaint", "in/a.png", "--mask", mask)
    assert status == 0
    assert "learning" in err
    folder = tmp_path / "results" / "inpaint" / "a-1"
    assert {p.name for p in folder.iterdir()} == FILES
    record = json.loads((folder / "record.json").read_text())
    assert f"hold-out PSNR {record['hold_out_psnr']:.2f} dB" in out
    assert {"adaptive", "local"} <= {c["prior"] for c in record["report"]["fit"]["candidates"]}
    assert f"{record['prior']} prior" in out and "(--prior adaptive is faster)" in out
    assert Reconstruction.load(folder / "model.safetensors").render().shape == (40, 37, 3)
    out = ran(run("inpaint", "in/a.png", "--mask", mask, "--json"))
    again = json.loads(out)
    assert again["hold_out_psnr"] == record["hold_out_psnr"]
    assert (tmp_path / "results" / "inpaint" / "a-2").is_dir()


@pytest.mark.parametrize("name", ["m.npy", "m.npz:known", "m.zarr", "masks"])
def test_inpaint_takes_masks_that_are_arrays(run, name):
    truth, known = stored("in/a.png", synthetic_photograph(20, 17)), holes(20, 17)
    np.save("in/m.npy", known)
    np.savez("in/m.npz", known=known, other=~known)
    pytest.importorskip("zarr").save_array("in/m.zarr", known)
    pytest.importorskip("zarr").save_array("in/masks/a.zarr", known)
    ran(run("inpaint", "in/a.png", "--mask", f"in/{name}", "--prior", "adaptive:rounds=1", "--out", "out", "--quiet"))
    assert torch.equal(result()[known], truth[known])


@pytest.mark.parametrize("known", ["all", "one"])
def test_inpaint_with_everything_or_one_pixel_known(run, known):
    truth = stored("in/a.png", synthetic_photograph(7, 8))
    mask = np.full((7, 8), known == "all")
    mask[5, 6] = True
    ran(run("inpaint", "in/a.png", "--mask", mask_file("in/m.png", mask), "--out", "out", "--quiet"))
    expected = truth if known == "all" else truth[5, 6].expand(7, 8, 3)
    assert torch.allclose(result(), expected, atol=0 if known == "all" else 1 / 255)


@pytest.mark.parametrize("shape", [(1, 50), (8, 7)])
def test_inpaint_of_a_constant_is_constant(run, shape):
    truth = stored("in/a.png", torch.full((*shape, 3), 0.6))
    mask = np.random.default_rng(1).random(shape) < 0.5
    ran(run("inpaint", "in/a.png", "--mask", mask_file("in/m.png", mask), "--out", "out", "--quiet"))
    assert torch.equal(result(), truth)


def test_inpaint_of_a_row_and_of_a_constant_channel(run):
    signal = synthetic_photograph(1, 80)
    signal[..., 1] = 0.2
    truth = stored("in/a.png", signal)
    mask = np.random.default_rng(1).random((1, 80)) < 0.6
    ran(run("inpaint", "in/a.png", "--mask", mask_file("in/m.png", mask), "--out", "out", "--quiet"))
    made = result()
    assert torch.equal(made[mask], truth[mask])
    assert torch.allclose(made[..., 1], truth[..., 1], atol=1 / 255)


def test_inpaint_of_a_clip_and_of_an_array_with_nan(run):
    clip = torch.stack([synthetic_photograph(12, 14).roll(t, 1) for t in range(3)])
    write_media(clip, "in/a.mp4", rate=5)
    truth = read_media("in/a.mp4").signal
    one = np.random.default_rng(0).random((12, 14)) < 0.7
    each = np.random.default_rng(0).random((3, 12, 14)) < 0.7
    np.save("in/each.npy", each)
    mask_file("in/one.png", one)
    for mask, known, prior in (("one.png", np.stack([one] * 3), "smooth"), ("each.npy", each, "adaptive")):
        options = ("--mask", f"in/{mask}", "--prior", prior, "--out", "out", "--force", "--quiet")
        ran(run("inpaint", "in/a.mp4", *options))
        made = result(suffix=".npy")
        assert torch.equal(made[known], truth[known])
        assert read_media("out/restored.mp4").signal.shape == truth.shape
    a = synthetic_photograph(16, 12, 1).numpy()[..., 0]
    a[3, 4] = np.nan
    np.save("in/b.npy", a)
    np.save("in/all.npy", np.ones((16, 12)))
    ran(run("inpaint", "in/b.npy", "--mask", "in/all.npy", "--prior", "smooth", "--out", "b", "--quiet"))
    made = np.load("b/restored.npy")
    assert np.isfinite(made).all()
    assert (made == a).sum() == a.size - 1


def test_inpaint_takes_masks_of_the_opposite_convention(run):
    truth = stored("in/a.png", synthetic_photograph(40, 37))
    known = holes(40, 37)
    mask = mask_file("in/m.png", ~known)
    ran(run("inpaint", "in/a.png", "--mask", mask, "--invert", "--prior", "smooth", "--out", "out", "--quiet"))
    assert torch.equal(result()[known], truth[known])
    assert "OpenCV and scikit-image" in " ".join(run("inpaint", "--help")[1].split())


def test_inpaint_says_where_the_hold_out_is_far_below_what_is_usual(run):
    stored("in/noise.png", torch.rand(24, 24, 1, generator=torch.Generator().manual_seed(0)))
    mask = mask_file("in/m.png", np.random.default_rng(0).random((24, 24)) < 0.5)
    with pytest.warns(cn.CoordnetWarning, match="far below that of photographs"):
        ran(run("inpaint", "in/noise.png", "--mask", mask, "--prior", "adaptive:rounds=1", "--out", "out", "--quiet"))


def test_a_picture_that_is_mostly_known_has_no_inverted_mask():
    extremes = torch.tensor([0.0, 1.0])
    assert expected_psnr(5.0, extremes, 0.97) == 5.0
    with pytest.warns(cn.CoordnetWarning, match="is the mask right"):
        assert expected_psnr(5.0, extremes, 0.2) == 5.0


def test_a_wide_hole_needs_no_usual_hold_out():
    noise, known = torch.rand(64, 64, 1, generator=torch.Generator().manual_seed(0)), torch.ones(64, 64)
    known[16:46, 16:46] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", cn.CoordnetWarning)
        assert cn.inpaint(noise, known, prior=cn.Adaptive()).report.wide_holes


def test_hold_outs_are_on_the_signal_s_own_range(run):
    values = synthetic_photograph(32, 30, 1).numpy()[..., 0]
    values = (values - values.min()) / (values.max() - values.min())
    np.save("in/a.npy", values)
    np.save("in/b.npy", values * 600 - 20)
    mask = mask_file("in/m.png", np.random.default_rng(0).random((32, 30)) < 0.5)
    options = ("--mask", mask, "--prior", "adaptive", "--json", "--out")
    found = [json.loads(ran(run("inpaint", f"in/{name}.npy", *options, name)))["hold_out_psnr"] for name in "ab"]
    assert found[1] == pytest.approx(found[0], abs=0.5)


def test_inpaint_refuses(run, tmp_path):
    stored("in/a.png", synthetic_photograph(20, 17))
    mask_file("in/small.png", np.ones((3, 3), bool))
    mask_file("in/empty.png", np.zeros((20, 17), bool))
    refused(run("inpaint", "in/a.png", "--mask", "in/none.png"), tmp_path, "none.png")
    refused(run("inpaint", "in/a.png", "--mask", "in/small.png"), tmp_path, "small.png")
    refused(run("inpaint", "in/a.png", "--mask", "in/empty.png"), tmp_path, "empty.png")
    refused(run("inpaint", "in/b.png", "--mask", "in/small.png"), tmp_path, "b.png")
    refused(run("inpaint", "in/a.png"), tmp_path, "--mask")
    refused(run("inpaint", "in/a.png", "--mask", "in/a.png", "--prior", "none"), tmp_path, "--prior: expected auto")


# upscale


@pytest.mark.parametrize(("factor", "shape"), [(1, (24, 33)), (2, (48, 66)), (2.5, (60, 82)), (1.3, (31, 43))])
def test_upscale_by_any_factor(run, factor, shape):
    truth = stored("in/a.png", synthetic_photograph(24, 33))
    status, out, err = run("upscale", "in/a.png", "--factor", factor, "--out", "out")
    assert status == 0 and ("patches" in err) == (factor >= 2)
    assert f"pixels as areas: complex B-spline encoding, {'local' if factor >= 2 else 'no'} prior" in out
    assert "halved and enlarged" in out
    made = result()
    assert made.shape == (*shape, 3)
    if factor == 1:
        assert torch.allclose(made, truth, atol=1.01 / 255)


def test_upscale_is_not_shifted_and_is_above_nearest_neighbour(run):
    truth = synthetic_photograph(96, 128)
    small = truth.unflatten(1, (-1, 2)).unflatten(0, (-1, 2)).mean((1, 3))
    stored("in/a.png", small, "uint16")
    ran(run("upscale", "in/a.png", "--out", "out", "--quiet"))
    nearest = small.repeat_interleave(2, 0).repeat_interleave(2, 1)
    assert cn.psnr(result(), truth) > cn.psnr(nearest, truth) + 1
    assert read_media("out/restored.png").depth == "uint16"


@pytest.mark.figures
def test_upscale_does_not_let_transparent_colours_bleed(run):
    image = torch.zeros(20, 20, 4)
    image[..., 0] = 1.0  # red where nobody sees it
    image[5:15, 5:15] = torch.tensor([0.0, 1.0, 0.0, 1.0])
    stored("in/a.png", image)
    ran(run("upscale", "in/a.png", "--factor", 3, "--out", "out", "--quiet"))
    made = result()
    seen = made[..., 3] > 0.1
    assert float(made[seen][:, 0].max()) < 0.02
    assert float(made[..., :3].mul(made[..., 3:])[~seen].max()) < 0.11
    assert float(made[30, 30, 3]) > 0.99


@pytest.mark.parametrize("shape", [(1, 30), (30, 1), (1, 1), (12, 10)])
def test_upscale_of_a_constant_and_of_rows(run, shape):
    stored("in/a.png", torch.full((*shape, 3), 0.6))
    assert "of standard deviation" not in run("upscale", "in/a.png", "--out", "out")[1]
    assert torch.allclose(result(), torch.full((2 * shape[0], 2 * shape[1], 3), 0.6))


@pytest.mark.parametrize("factor", ["0.5", "nan", "inf", "-2", "two", "100000"])
def test_upscale_refuses(run, tmp_path, factor):
    stored("in/a.png", synthetic_photograph(20, 17))
    refused(run("upscale", "in/a.png", "--factor", factor), tmp_path, "factor")


def test_upscale_removes_noise_that_is_named(run, tmp_path):
    stored("in/a.png", synthetic_photograph(20, 17))
    refused(run("upscale", "in/a.png", "--noise", "pink"), tmp_path, "in/a.png: --noise: expected one of auto, white")
    out = run("upscale", "in/a.png", "--noise", "white", "--prior", "none", "--out", "out")[1]
    assert "without its noise (" in out
    assert json.loads(Path("out/record.json").read_text())["removed"][0]["lost"] == 0


def test_upscale_refuses_other_samples(run, tmp_path):
    stored("in/a.png", synthetic_photograph(20, 17))
    refused(run("upscale", "in/a.png", "--samples", "pixel"), tmp_path, "--samples: expected one of area, point")


def test_the_psnr_of_few_holes_is_said_to_be_uncertain(run):
    stored("in/a.png", synthetic_photograph(48, 48))
    known = np.ones((48, 48), dtype=bool)
    known[8:14, 10:17] = known[30:36, 25:31] = False
    options = "--prior", "adaptive", "--out"
    few = run("inpaint", "in/a.png", "--mask", mask_file("in/few.png", known), *options, "first")[1]
    assert "dB or so: the holes are few" in few
    assert json.loads(Path("first/record.json").read_text())["report"]["holes"] == 2
    filled = cn.inpaint(synthetic_photograph(48, 48), torch.from_numpy(known), prior=cn.Adaptive())
    assert f"within {filled.report.psnr_margin:.0f} dB" in few
    known[::8, ::8] = known[1::8, ::8] = known[::8, 1::8] = known[1::8, 1::8] = False
    many = run("inpaint", "in/a.png", "--mask", mask_file("in/many.png", known), *options, "second")[1]
    assert "hold-out PSNR" in many and "few" not in many


# denoise


def test_denoise_finds_the_noise_and_removes_it(run, tmp_path):
    truth = 0.3 + 0.4 * synthetic_photograph(96, 80)  # clipped noise is not white
    g = torch.Generator().manual_seed(0)
    noisy = stored("in/a.png", truth + 0.08 * torch.randn(truth.shape, generator=g))
    out = ran(run("denoise", "in/a.png", "--prior", "adaptive", "--out", "out", "--json"))
    record = json.loads(out)
    assert record["sigma"] == pytest.approx(0.08, rel=0.1)
    score = cn.psnr(result(), truth)
    assert score > cn.psnr(noisy, truth) + 6
    assert {p.name for p in (tmp_path / "out").iterdir()} == FILES
    out = run("denoise", "in/a.png", "--sigma", 0.08, "--prior", "adaptive", "--out", "given")[1]
    assert "0.08 (given), adaptive prior" in out
    assert "expected PSNR" in out
    given = json.loads(Path("given/record.json").read_text())
    assert given["expected_psnr"] == pytest.approx(score, abs=2)


def test_denoise_names_the_hum_of_a_sound(run):
    t = np.arange(4 * 4000) / 4000
    sound = np.sin(900 * t + 9 * np.sin(3 * t)) * (np.sin(4 * t) > 0) + 0.3 * np.sin(2 * np.pi * 60 * t)
    wavfile.write("in/sound.wav", 4000, (0.5 * sound).astype(np.float32))
    shown = run("denoise", "in/sound.wav", "--sigma", "0", "--out", "out")
    assert "hum of 60 Hz" in shown[1]
    assert json.loads(Path("out/record.json").read_text())["report"]["hum"]["harmonics"][0] == 1


def test_denoise_names_the_prior_that_would_take_too_long(run, monkeypatch):
    stored("in/a.png", (synthetic_photograph(12, 14) + 0.1 * torch.randn(12, 14, 3)).clamp(0, 1))
    assert "takes longer" not in run("denoise", "in/a.png", "-o", "a.png")[1]
    monkeypatch.setattr("coordnet.restore.denoise_choice.LONGEST_FIT", 0.0)
    out = run("denoise", "in/a.png", "-o", "b.png")[1]
    assert "adaptive prior (--prior local takes longer and mostly removes more)" in out
    assert "takes longer" not in run("denoise", "in/a.png", "-o", "c.png", "--prior", "adaptive")[1]


def test_denoise_says_of_a_jpeg_file_what_the_estimated_noise_leaves_out(run):
    noisy = synthetic_photograph(24, 24) + 0.1 * torch.randn(24, 24, 3, generator=torch.Generator().manual_seed(0))
    Image.fromarray((noisy.clamp(0, 1).numpy() * 255).astype(np.uint8)).save("in/a.jpg", quality=90)
    out = run("denoise", "in/a.jpg", "--prior", "adaptive", "-o", "a.png")[1]
    assert "--noise jpeg removes JPEG's rounding" in out and "dB but for JPEG's rounding" in out
    Image.fromarray((noisy.clamp(0, 1).numpy() * 255).astype(np.uint8)).save("in/b.jpg", format="png")
    assert "JPEG" not in run("denoise", "in/b.jpg", "--prior", "adaptive", "-o", "b.png")[1]


def test_denoise_finds_colored_noise_and_draws_it(run, tmp_path):
    generator = torch.Generator().manual_seed(0)
    noise = torch.nn.functional.avg_pool2d(torch.randn(3, 145, 145, generator=generator), 2, 1)
    image = synthetic_photograph(144, 144) + 0.2 * noise.movedim(0, -1)
    np.save("in/a.npy", image.numpy())
    out = run("denoise", "in/a.npy", "--noise", "colored", "--prior", "adaptive", "--out", "out")[1]
    assert "colored noise of standard deviation 0." in out
    record = json.loads(Path("out/record.json").read_text())
    assert record["noise"]["kind"] == "colored"
    assert record["sigma"] == pytest.approx(0.1, rel=0.15)
    assert Path("out/noise.png").exists()


@pytest.mark.filterwarnings("ignore:`sigma`. .* is used as given")
def test_denoise_leaves_alpha(run):
    image = synthetic_photograph(40, 33, 4)
    truth = stored("in/a.png", image, "uint16")
    ran(run("denoise", "in/a.png", "--sigma", 0.1, "--prior", "adaptive", "--out", "out", "--quiet"))
    assert torch.equal(result()[..., 3], truth[..., 3])
    assert not torch.equal(result(), truth)


@pytest.mark.parametrize(
    ("shape", "options"), [((1, 50), []), ((12, 10), []), ((12, 10), ["--sigma", 0.1]), ((1, 1), ["--sigma", 0.1])]
)
def test_denoise_of_a_constant_is_constant(run, shape, options):
    truth = stored("in/a.png", torch.full((*shape, 3), 0.6))
    ran(run("denoise", "in/a.png", "--out", "out", "--quiet", *options))
    assert torch.equal(result(), truth)


def test_denoise_refuses(run, tmp_path):
    stored("in/a.png", synthetic_photograph(20, 17))
    np.save("in/nan.npy", np.array([[1.0, np.nan], [0.0, 1.0]]))
    refused(run("denoise", "in/a.png", "--sigma", -1), tmp_path, "sigma")
    refused(run("denoise", "in/a.png", "--sigma", "nan"), tmp_path, "sigma")
    refused(run("denoise", "in/a.png", "--prior", "smooth"), tmp_path, "prior")
    refused(run("denoise", "in/a.png", "--noise", "pink"), tmp_path, "noise")
    refused(run("denoise", "in/a.png", "--noise", "camera", "--sigma", 0.1), tmp_path, "sigma")
    refused(run("denoise", "in/nan.npy"), tmp_path, "signal")
    refused(run("denoise", "in/a.png", "--device", "abacus"), tmp_path, "device")


# demosaic


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "pattern", "prior"), [("uint8", "RGGB", "local"), ("uint16", "gbrg", "adaptive")])
def test_demosaic_gives_colours_back_and_keeps_what_was_measured(run, depth, pattern, prior):
    truth = synthetic_photograph(24, 28)
    raw = stored("in/a.png", mosaic(truth, pattern.upper()), depth)
    out = run("demosaic", "in/a.png", "--pattern", pattern, "--prior", prior, "--out", "out")[1]
    assert f"{prior} prior" in out
    made = result()
    assert torch.equal(mosaic(made, pattern.upper()), raw)
    assert cn.psnr(made, truth) > 24
    assert read_media("out/restored.png").depth == depth
    assert json.loads(Path("out/record.json").read_text())["pattern"] == pattern.upper()


@pytest.mark.slow
def test_demosaic_removes_noise_that_is_given(run):
    truth = synthetic_photograph(24, 28)
    raw = mosaic(truth + 0.05 * torch.randn(truth.shape, generator=torch.Generator().manual_seed(0)), "RGGB")
    stored("in/a.png", raw.clamp(0, 1))
    out = run("demosaic", "in/a.png", "--sigma", 0.05, "--out", "out")[1]
    assert "local prior, noise of standard deviation 0.05 (given)" in out
    assert json.loads(Path("out/record.json").read_text())["sigma"] == 0.05
    assert cn.psnr(mosaic(result(), "RGGB"), mosaic(truth, "RGGB")) > 28


@pytest.mark.parametrize("shape", [(2, 2), (8, 10)])
def test_demosaic_of_a_constant_is_constant(run, shape):
    raw = stored("in/a.png", torch.full((*shape, 1), 0.6))
    ran(run("demosaic", "in/a.png", "--out", "out", "--quiet"))
    assert torch.allclose(result(), raw.expand(*shape, 3), atol=1.01 / 255)


def test_demosaic_refuses(run, tmp_path):
    stored("in/a.png", synthetic_photograph(20, 17))
    stored("in/row.png", synthetic_photograph(1, 17, 1))
    np.save("in/a.npy", np.zeros((4, 4)))
    write_media(torch.ones(4, 4, 1), "in/bit.png", depth="bool")
    refused(run("demosaic", "in/bit.png"), tmp_path, "found one bit for each pixel")
    refused(run("demosaic", "in/a.png"), tmp_path, "one channel")
    refused(run("demosaic", "in/row.png"), tmp_path, "2 by 2")
    refused(run("demosaic", "in/row.png", "--pattern", "RGB"), tmp_path, "pattern")
    refused(run("demosaic", "in/a.npy"), tmp_path, "image")
    refused(run("demosaic", "in/row.png", "--prior", "rough"), tmp_path, "--prior: expected one of auto")
    np.save("in/gray.npy", np.random.default_rng(0).random((16, 16)))
    refused(run("demosaic", "in/gray.npy", "--noise", "pink"), tmp_path, "npy: --noise: expected one of auto, none")
    refused(run("demosaic", "in/gray.npy", "--noise", "camera"), tmp_path, "npy: --noise: expected a cn.NoiseModel")


@pytest.mark.parametrize("command", ["inpaint", "upscale", "denoise", "demosaic"])
def test_commands_have_help_and_do_not_overwrite(run, tmp_path, command):
    assert "Usage: " in run(command, "--help")[1]
    grey = command == "demosaic"
    stored("in/a.png", synthetic_photograph(20, 18, 1 if grey else 3))
    options = ["--mask", mask_file("in/m.png", holes(20, 18))] if command == "inpaint" else []
    options += ["--prior", {"upscale": "none", "denoise": "adaptive"}.get(command, "smooth")]
    arguments = [command, "in/a.png", *options, "--out", "out", "--quiet"]
    ran(run(*arguments))
    before = (tmp_path / "out" / "restored.png").read_bytes()
    status, _, err = run(*arguments)
    assert (status, err.count("\n")) == (2, 1)
    assert "--force" in err
    ran(run(*arguments, "--force"))
    assert (tmp_path / "out" / "restored.png").read_bytes() == before


def wide(shape, kind):
    """Numbers of a type of which float32 holds few, and a mask of most of them."""
    generator = np.random.default_rng(0)
    unit = np.sin(np.arange(np.prod(shape)) / 9).reshape(shape) + 0.01 * generator.normal(size=shape)
    values = 1e6 + unit if kind == "float64" else (unit / 1.1 * np.iinfo(kind).max / 2 + np.iinfo(kind).max / 2)
    return values.astype(kind), generator.random(shape) < 0.7


def read_numbers(path):
    readers = {".npy": np.load, ".tif": tifffile.imread, ".wav": lambda p: wavfile.read(p)[1]}
    return readers[path.suffix](path)


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [(".npy", k) for k in ("float64", "int32", "uint32", "int64")]
    + [(".tif", k) for k in ("float64", "int32", "uint32")]
    + [(".wav", k) for k in ("float64", "int32")],
)
def test_known_numbers_stay_to_the_bit_where_float32_is_too_narrow(run, tmp_path, suffix, kind):
    values, known = wide((90,) if suffix == ".wav" else (9, 10), kind)
    path = tmp_path / f"a{suffix}"
    writers = {".npy": np.save, ".tif": tifffile.imwrite, ".wav": lambda p, a: wavfile.write(p, 8000, a)}
    writers[suffix](path, values)
    np.save(tmp_path / "m.npy", known)
    ran(run("inpaint", path, "--mask", "m.npy", "--prior", "smooth", "--out", "out", "--quiet"))
    made = read_numbers(tmp_path / "out" / f"restored{suffix}")
    assert made.dtype == values.dtype and np.array_equal(made[known], values[known])
    assert not np.array_equal(made, values)


def test_the_cells_of_a_table_stay_to_the_digit(run, tmp_path):
    cells = [[f"{i / 7 + 1e6:.9f}", f"{i * i / 3:.12g}"] for i in range(30)]
    known = np.random.default_rng(0).random(30) < 0.7
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(",".join(row) + "\n" for row in cells))
    np.save(tmp_path / "m.npy", known)
    ran(run("inpaint", "a.csv", "--mask", "m.npy", "--prior", "smooth", "--out", "out", "--quiet"))
    rows = (tmp_path / "out/restored.csv").read_text().splitlines()[1:]
    made = np.array([[float(cell) for cell in row.split(",")] for row in rows])
    assert np.array_equal(made[known], np.array(cells, dtype=float)[known])
    assert max(len(cell) for i in np.flatnonzero(~known) for cell in rows[i].split(",")) < 16  # the digits of float32


def test_a_palette_keeps_the_colors_of_known_pixels(run, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (16, 20, 3)).astype(np.uint8)
    Image.fromarray(noise).quantize(256).save(tmp_path / "a.gif")
    given, known = read_media(tmp_path / "a.gif").signal, holes(16, 20)
    mask_file(tmp_path / "m.png", known)
    ran(run("inpaint", "a.gif", "--mask", "m.png", "--prior", "smooth", "--out", "out", "--quiet"))
    made = result(suffix=".gif")
    assert torch.equal(made[known], given[known]) and not torch.equal(made, given)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_two_channels_of_a_tiff_are_no_color_with_opacity(run, tmp_path, dtype):
    y, x = np.mgrid[0:12, 0:10]
    flow = np.dstack([8 * np.sin(x / 5), 8 * np.cos(y / 6)])
    flow = flow.astype(dtype) if dtype == np.float32 else (flow * 15 + 128).astype(dtype)
    tifffile.imwrite(tmp_path / "a.tif", flow, planarconfig="contig", photometric="minisblack", metadata=None)
    ran(run("upscale", "a.tif", "--prior", "none", "--out", "out", "--quiet"))
    with tifffile.TiffFile(tmp_path / "out/restored.tif") as file:
        made, extra = file.asarray(), file.pages.first.extrasamples
    expected = cn.upscale(flow[..., :1], prior=None).signal, cn.upscale(flow[..., 1:], prior=None).signal
    assert np.allclose(made, np.concatenate(expected, -1), atol=1e-5 if dtype == np.float32 else 1)
    assert extra == (0,)


@pytest.mark.parametrize("suffix", [".gif", ".tif"])
def test_upscale_takes_the_pictures_of_a_clip_or_a_stack(run, suffix):
    pages = torch.stack([synthetic_photograph(10, 12, 1), synthetic_photograph(12, 10, 1).swapaxes(0, 1)])
    write_media(pages, f"in/a{suffix}", depth=None if suffix == ".gif" else "uint8")
    ran(run("upscale", f"in/a{suffix}", "--prior", "none", "-o", f"made{suffix}", "--quiet"))
    given, made = (read_media(path).signal for path in (f"in/a{suffix}", f"made{suffix}"))
    assert made.shape == (2, 20, 24, given.shape[-1])
    if suffix == ".tif":
        each = cn.upscale(given, 2, prior=None).signal.clamp(0, 1)
        assert torch.allclose(made, each, atol=0.5 / 255 + 1e-6)


def test_inpaint_without_a_mask_fills_what_is_missing(run, tmp_path):
    values = synthetic_photograph(12, 14, 1).numpy()
    np.save("in/whole.npy", values)
    assert "expected a --mask, or a signal with NaN or NODATA, found neither" in run("inpaint", "in/whole.npy")[2]
    values[3:5, 6:8] = np.nan
    np.save("in/a.npy", values)
    ran(run("inpaint", "in/a.npy", "--prior", "smooth", "-o", "a.npy", "--quiet"))
    made, known = np.load("a.npy"), ~np.isnan(values)
    assert np.isfinite(made).all() and np.array_equal(made[known], values[known])


def test_a_mask_says_more_than_nodata(run, tmp_path):
    pixels = (np.add.outer(np.arange(16), np.arange(16)) + 9).astype(np.uint8)
    pixels[2, 3] = pixels[8:10, 8:10] = 0
    tifffile.imwrite("in/a.tif", pixels, extratags=[(42113, 2, None, "0", True)], metadata=None)
    known = np.ones((16, 16), bool)
    known[8:10, 8:10] = False
    mask_file("in/m.png", known)
    refused(run("denoise", "in/a.tif"), tmp_path, "found NODATA (0; see inpaint)")
    options = ("--prior", "smooth:power=2,strength=0.001", "--quiet", "-o", "out")
    ran(run("inpaint", "in/a.tif", "--mask", "in/m.png", *options))
    made = tifffile.imread("out/restored.tif")
    assert np.array_equal(made[known], pixels[known]) and made[8:10, 8:10].all()


def test_what_is_said_above_a_restored_picture_stays_within_the_figure():
    said = "expected PSNR about 18 dB inside the holes, by hidden copies of them"
    figure = restoration_figure(torch.rand(40, 60, 3), torch.rand(40, 60, 3), ("a long name " * 6, f"inpaint\n{said}"))
    figure.canvas.draw()
    for ax in figure.axes[:2]:
        text = ax.title.get_window_extent()
        assert figure.bbox.x0 <= text.x0 and text.x1 <= figure.bbox.x1 and text.y1 <= figure.bbox.y1
    assert figure.axes[1].get_title().replace("\n", " ") == f"inpaint {said}"
