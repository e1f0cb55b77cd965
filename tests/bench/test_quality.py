"""The benchmark's own peers and signals, and one run of it from end to end."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from coordnet.fit.plan_cache import PLANS
from PIL import Image

from coordnet.bench import (
    cases,
    cubes,
    damage,
    iterations,
    memory,
    noise_peers,
    peers,
    quality,
    quality_report,
)
from coordnet.bench.demosaicing_peers import bilinear, malvar
from coordnet.fit.adaptive import LEARNING
from coordnet.fit.closed_form import TOLERANCE
from coordnet.media import MediaError, write_audio, write_video
from coordnet.metrics.scores import psnr
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import Lattice, Samples
from tests.helpers import synthetic_photograph

INSIDE = (slice(4, -4), slice(4, -4))


@pytest.fixture
def folder(tmp_path):
    """A data folder with two small photographs."""
    (tmp_path / "kodak").mkdir()
    for seed in range(2):
        pixels = (synthetic_photograph(48, 56, seed=seed).numpy() * 255).round().astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "kodak" / f"kodim{seed + 1:02}.png")
    return tmp_path


def mosaic(picture, pattern):
    samples = sample(picture, f"bayer:{pattern}")
    return samples.values, samples.geometry.weights > 0


def ramp(height, width, slopes=(0.01, 0.02)):
    """A grey ramp: the colours differ by constants."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    grey = slopes[0] * y + slopes[1] * x
    return grey.unsqueeze(-1) + torch.tensor([0.1, 0.2, 0.05])


@pytest.mark.parametrize("pattern", ["RGGB", "BGGR", "GRBG", "GBRG"])
@pytest.mark.parametrize("method", [bilinear, malvar])
def test_demosaicing_reproduces_ramps_and_known_values(method, pattern):
    picture = ramp(20, 22)
    values, known = mosaic(picture, pattern)
    made = method(values, known)
    assert torch.allclose(made[INSIDE], picture[INSIDE], atol=1e-6)
    assert torch.equal(made[known], picture[known])


@pytest.mark.parametrize("method", [bilinear, malvar])
def test_demosaicing_reproduces_constants_to_the_border(method):
    grey = torch.full((9, 8, 3), 0.3)
    assert torch.allclose(method(*mosaic(grey, "GRBG")), grey, atol=1e-6)


@pytest.mark.parametrize(
    ("colour", "weights"),
    [
        # At a blue pixel of an RGGB mosaic (5, 5): figure 2 of the paper, in sixteenths
        (0, {(0, 0): 12, (-1, -1): 4, (1, 1): 4, (-2, 0): -3, (0, 2): -3}),
        (1, {(0, 0): 8, (-1, 0): 4, (0, 1): 4, (0, -2): -2, (2, 0): -2}),
    ],
)
def test_malvar_weighs_neighbours_as_published(colour, weights):
    for (down, right), weight in weights.items():
        picture = torch.zeros(12, 12, 3)
        picture[5 + down, 5 + right] = 1
        made = malvar(*mosaic(picture, "RGGB"))
        assert made[5, 5, colour] == pytest.approx(weight / 16)


def test_malvar_s_two_kinds_of_green_pixel_are_transposes():
    """In an RGGB mosaic, red at the green pixel of a red row is blue, transposed, at that of a blue row."""
    picture = torch.rand(14, 14, 3, generator=torch.Generator().manual_seed(0))
    made = malvar(*mosaic(picture, "RGGB"))
    turned = malvar(*mosaic(picture.transpose(0, 1), "RGGB")).transpose(0, 1)
    assert torch.allclose(made, turned, atol=1e-6)


def test_malvar_beats_bilinear_on_grey_texture():
    picture = torch.rand(32, 32, 1, generator=torch.Generator().manual_seed(0)).expand(32, 32, 3).contiguous()
    errors = [float((m(*mosaic(picture, "RGGB")) - picture).square().mean()) for m in (malvar, bilinear)]
    assert errors[0] < 0.8 * errors[1]


def test_holes_are_three_squares_apart():
    known = damage.holes((200, 160), 3)
    assert int((~known).sum()) == 3 * 40 * 40
    assert known[0].all() and known[-1].all() and known[:, 0].all() and known[:, -1].all()
    from skimage.measure import label, regionprops

    boxes = [region.bbox for region in regionprops(label((~known).numpy()))]
    assert [(b[2] - b[0], b[3] - b[1]) for b in boxes] == [(40, 40)] * 3


def test_holes_need_room():
    with pytest.raises(ValueError, match="room for 3 holes"):
        damage.holes((60, 60))


def test_scratches_are_thin_and_many():
    known = damage.scratches((480, 480), 0)
    unknown = float((~known).float().mean())
    assert 0.1 < unknown < 0.3
    thick = -torch.nn.functional.max_pool2d(known.float()[None, None], 7, 1)
    assert float((thick == 0).float().mean()) < 0.01  # a square of seven is nearly nowhere covered


def test_text_covers_every_line():
    known = damage.text((240, 300), 0)
    unknown = (~known).float()
    assert 0.05 < float(unknown.mean()) < 0.35
    assert all(float(band.mean()) > 0.02 for band in unknown.split(48))
    assert all(float(band.mean()) > 0.02 for band in unknown.split(60, dim=1))


@pytest.mark.parametrize("kind", damage.DAMAGE)
def test_damage_has_the_shape_and_the_seed(kind):
    made = [damage.DAMAGE[kind]((150, 170), seed) for seed in (0, 0, 1)]
    assert made[0].shape == (150, 170)
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


def test_crops_are_central(folder):
    path = cubes.photographs(folder)[0]
    whole, part = cubes.crop(path), cubes.crop(path, 20)
    assert whole.shape == (48, 56, 3)
    assert torch.equal(part, whole[14:34, 18:38])
    assert len(cubes.photographs(folder, 1)) == 1


def test_a_folder_without_photographs_is_refused(tmp_path):
    with pytest.raises(MediaError, match="kodak"):
        cubes.photographs(tmp_path)


def test_cubes_are_the_middle_of_a_clip(tmp_path):
    levels = torch.linspace(0, 1, 140).reshape(-1, 1, 1, 1)
    write_video(levels.expand(140, 150, 200, 1), tmp_path / "small.mp4", rate=25)
    small = cubes.cube(tmp_path / "small.mp4")
    assert small.shape == (128, 128, 128, 3)
    assert float(small[0].mean()) == pytest.approx(6 / 139, abs=0.02)
    write_video(levels[:4].expand(4, 300, 200, 1), tmp_path / "large.mp4", rate=25)
    assert cubes.cube(tmp_path / "large.mp4").shape == (4, 128, 128, 3)


def test_sounds_are_the_beginning(tmp_path):
    write_audio(torch.rand(131_100, 1), tmp_path / "a.wav", rate=8000)
    assert cubes.sound(tmp_path / "a.wav").shape == (131_072, 1)


@pytest.mark.parametrize("method", [peers.thin_plate, peers.biharmonic])
def test_slow_peers_hold_known_samples_and_fill_the_rest(method):
    picture = ramp(24, 30)
    samples = sample(picture, "random:0.5")
    made = method(samples).signal
    assert torch.allclose(made, picture, atol=0.02)
    known = samples.geometry.known(3)
    assert torch.allclose(made[known], picture[known], atol=1e-6)


def test_following_a_start_ends_where_the_fit_does(monkeypatch):
    monkeypatch.setitem(LEARNING, 2, 1e-6)  # the two stop their solves elsewhere otherwise
    monkeypatch.setitem(TOLERANCE, 2, 1e-6)
    samples = sample(synthetic_photograph(40, 36), "random:0.4")
    start = Smoothness(1.5, 0.01)
    followed = list(peers.follow(samples, start, 2))
    fit = peers.adaptive(peers.Adaptive((start,), rounds=2, hold_out=0.0))(samples).signal
    assert len(followed) == 3
    assert float((followed[-1] - fit).abs().max()) < 1e-4


def test_hindsight_is_never_below_the_choice():
    picture = synthetic_photograph(40, 36)
    samples = sample(picture, "random:0.4")
    held_out = ~samples.geometry.known(3)

    def score(estimate):
        return -float((estimate - picture)[held_out].square().mean())

    best = peers.with_hindsight(score, 3)(samples).signal
    assert score(best) >= score(peers.smooth(Smoothness(1.5, 0.01))(samples).signal) - 1e-4


def test_the_benchmark_runs_end_to_end(run, folder, tmp_path):
    status, out, err = run(
        *(
            "bench",
            "quality",
            "--data",
            folder,
            "--only",
            "hindsight,bayer,denoise,noise",
            "--images",
            1,
        )
    )
    assert status == 0
    assert "hindsight: 100%" in err
    record = json.loads((tmp_path / "results" / "quality" / "hindsight.json").read_text())
    assert record["machine"]["threads"] >= 1
    methods = [row["method"] for row in record["rows"]]
    assert methods[:4] == ["griddata linear", "smooth", "smooth, tuned", "adaptive"]
    assert len(methods) == 7
    assert all(
        row["signal"] == "kodim01" and row["psnr"] > 10 and row["seconds"] > 0 for row in record["rows"]
    )
    best = {row["method"]: row["psnr"] for row in record["rows"]}
    assert f"{best['adaptive']:.2f} dB" in out
    assert f"{best['adaptive'] - best['griddata linear']:+.2f}" in out
    bayer = json.loads((tmp_path / "results" / "quality" / "bayer.json").read_text())
    assert [row["method"] for row in bayer["rows"]] == ["bilinear", "Malvar 5×5", "adaptive"]
    assert best["smooth, best of a grid with hindsight"] >= best["smooth"] - 0.01
    for name in ("denoise", "noise"):
        rows = json.loads((tmp_path / "results" / "quality" / f"{name}.json").read_text())["rows"]
        assert all(row["psnr"] > 15 for row in rows), rows


def test_the_benchmark_refuses_unknown_names_and_folders(run, tmp_path):
    for arguments in (["--data", tmp_path, "--only", "speed"], ["--data", tmp_path / "none"]):
        status, out, err = run("bench", "quality", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1)
    assert not (tmp_path / "results").exists()


def test_reports_count_what_is_below_the_peer():
    scores = {"peer": (10.0, 20.0), "ours": (11.0, 19.5)}
    rows = [
        cases.Row("task", signal, method, "psnr", score, 2.0 if method == "ours" else 1.0)
        for method, pair in scores.items()
        for signal, score in zip("ab", pair, strict=True)
    ]
    line = quality_report.report(rows).splitlines()[-1].split()
    assert line == ["task", "ours", "2", "15.25", "dB", "+0.25", "-0.50", "1", "2.00", "s", "2.0×"]


def test_memory_is_that_of_the_fit_s_own_process():
    """Beside what an interpreter with torch takes, a small fit takes little, whatever this process holds."""
    held = torch.ones(2**27)  # half a GiB
    made = memory.footprint(128)
    assert held.sum() > 0
    assert 0.05 < made.peak < 1.0
    assert made.iterations > 5


def test_the_factorisation_is_in_the_seconds_of_every_picture():
    PLANS.clear()
    peers.tuned("gcv")(sample(synthetic_photograph(24, 20), "every:2"))
    assert PLANS.misses == 0


def test_noise_is_on_the_samples_and_not_on_what_they_are_scored_against():
    truth = torch.full((40, 50, 3), 0.5)
    seen = []

    def method(samples):
        seen.append(samples.values)
        return peers.Estimate(truth)

    (row,) = cases.Case("task", "flat", lambda: truth, "full", {"truth": method}, noise=0.1).run()
    assert row.score > 100
    assert float(seen[0].std()) == pytest.approx(0.1, rel=0.05)


def test_total_variation_s_best_weight_is_the_truth_s_choice():
    picture = synthetic_photograph(32, 32)
    noisy = Samples(Lattice((32, 32)), picture + 0.1 * torch.randn(picture.shape))
    scores = []

    def score(signal):
        scores.append(psnr(signal, picture))
        return scores[-1]

    made = noise_peers.best_total_variation(0.1)(score)(noisy)
    assert psnr(made.signal, picture) == max(scores) and len(scores) == len(noise_peers.WEIGHTS)


def test_iterations_are_counted_at_every_size(folder):
    rows = iterations.table(cubes.photograph(folder, "kodim01"), (32, 64))
    assert len(rows) == 2 * len(iterations.POWERS) * len(iterations.DENSITIES)
    dense, sparse = rows[0], rows[-1]
    assert dense.measure == "steps" and 1 <= dense.score < sparse.score < 120


def test_memory_is_a_row_of_its_own(monkeypatch):
    monkeypatch.setattr(memory, "footprint", lambda size, prior: memory.Footprint(12.5, 3.25, 40))
    rows = quality.run("memory", cases.Settings(Path()))
    assert [row.method for row in rows] == ["smooth", "adaptive"]
    row = rows[0]
    assert row.as_json()["peak"] == 3.25
    assert "3.25 GiB" in quality_report.report([row])
    assert quality.parse_names("memory, audio") == ("memory", "audio")
    assert not {"memory", "hindsight"} & set(quality.parse_names(None))
