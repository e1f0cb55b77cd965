"""The benchmark's own peers and signals, and one run of it from end to end."""

import math
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from coordnet.bench import degradations, fields, papers, peers, quality
from coordnet.bench import signals as cubes
from coordnet.bench.catalogue import PAPERS, QUALITY
from coordnet.bench.degradations import Reduction, cell_matrix
from coordnet.bench.estimators import Enlarged, Hindsight
from coordnet.bench.experiment import Case, Task, baseline
from coordnet.bench.fields import FIELDS, FieldFinder
from coordnet.bench.peers import pillow
from coordnet.bench.quality_study import Quality
from coordnet.bench.records import Options, read
from coordnet.media import MediaError, write_media
from coordnet.noise.linear_demosaicing import bilinear, malvar
from coordnet.priors.adaptive import Adaptive
from coordnet.sampling.patterns import sample
from tests.helpers import synthetic_photograph

INSIDE = (slice(4, -4), slice(4, -4))


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
    known = degradations.holes((200, 160), 3)
    assert int((~known).sum()) == 3 * 40 * 40
    assert known[0].all() and known[-1].all() and known[:, 0].all() and known[:, -1].all()
    from skimage.measure import label, regionprops

    boxes = [region.bbox for region in regionprops(label((~known).numpy()))]
    assert [(b[2] - b[0], b[3] - b[1]) for b in boxes] == [(40, 40)] * 3


def test_holes_need_room():
    with pytest.raises(ValueError, match="room for 3 holes"):
        degradations.holes((60, 60))


@pytest.mark.parametrize("kind", degradations.DAMAGE)
def test_damage_has_the_shape_and_the_seed(kind):
    made = [degradations.DAMAGE[kind]((150, 170), seed) for seed in (0, 0, 1)]
    assert made[0].shape == (150, 170)
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


def test_crops_are_central(folder):
    path = folder / "images" / "picture0.png"
    whole, part = cubes.crop(path), cubes.crop(path, 20)
    assert whole.shape == (40, 44, 3)
    assert torch.equal(part, whole[10:30, 12:32])
    assert [s.name for s in cubes.Finder(sizes=(20,)).find(folder, 1)] == ["picture0.png"]


def test_a_folder_without_photographs_is_refused(tmp_path):
    with pytest.raises(MediaError, match="kodak"):
        cubes.Finder().find(tmp_path)
    (tmp_path / "kodak").mkdir()
    (tmp_path / "kodak" / "a.png").touch()
    with pytest.raises(MediaError, match="expected kodim05 in"):
        cubes.Finder(names=("kodim05",)).find(tmp_path)


def test_cubes_are_the_middle_of_a_clip(tmp_path):
    levels = torch.linspace(0, 1, 140).reshape(-1, 1, 1, 1)
    write_media(levels.expand(140, 130, 132, 1), tmp_path / "small.mp4", rate=25)
    small = cubes.cube(tmp_path / "small.mp4")
    assert small.shape == (128, 128, 128, 3)
    assert float(small[0].mean()) == pytest.approx(6 / 139, abs=0.02)
    write_media(levels[:4].expand(4, 300, 200, 1), tmp_path / "large.mp4", rate=25)
    assert cubes.cube(tmp_path / "large.mp4").shape == (4, 128, 128, 3)


def test_sounds_are_the_beginning(tmp_path):
    write_media(torch.rand(131_100, 1), tmp_path / "a.wav", rate=8000)
    assert cubes.sound(tmp_path / "a.wav").shape == (131_072, 1)


@pytest.mark.parametrize("method", [peers.thin_plate, peers.biharmonic, partial(peers.radial_basis, kernel="cubic")])
def test_slow_peers_hold_known_samples_and_fill_the_rest(method):
    picture = ramp(24, 30)
    samples = sample(picture, "random:0.5")
    made = method(Case(samples))
    assert torch.allclose(made, picture, atol=0.02)
    known = samples.geometry.known(3)
    assert torch.allclose(made[known], picture[known], atol=1e-6)


@pytest.mark.parametrize("pattern", ["every:2", "every:3+1", "every:1x2"])
def test_lanczos_keeps_the_samples_and_a_ramp(pattern):
    picture = ramp(25, 32)
    samples = sample(picture, pattern)
    made, known = peers.lanczos_between(Case(samples)), samples.geometry.known(3)
    assert torch.allclose(made[known], picture[known], atol=1e-6)
    assert torch.allclose(made[9:-9, 9:-9], picture[9:-9, 9:-9], atol=0.01)


def test_fields_are_evaluated_within_the_range_of_pictures():
    found = FieldFinder(names=tuple(FIELDS), sizes=(20,)).find(Path("nowhere"))
    for signal in found:
        field = signal.load()
        assert field.dtype == torch.float64 and field.shape == (20,) * FIELDS[signal.name][1] + (1,)
        assert float(field.min()) > -0.01 and float(field.max()) < 1.001 and float(field.std()) > 0.1
    assert float(found[0].load()[5, 10, 0]) == pytest.approx(0.5 + 0.5 * math.sin(4.5) * math.cos(1.75))


def test_fields_at_unequal_coordinates_are_scored_between_the_samples():
    (signal,) = fields.FieldFinder(names=("franke",), sizes=(16,), made=fields.UnequalField).find(Path("nowhere"))
    truth = signal.load()
    samples, _ = fields.UnequalTask("unequal", "").sampled(truth, 0, "cpu")
    assert samples.grid == (16, 16) and not samples.geometry.is_even
    known = samples.geometry.known(1)
    assert torch.equal(truth[known], samples.values.flatten())
    for made in (peers.bivariate(Case(samples), 3), peers.regular(Case(samples))):
        assert torch.allclose(made[known], truth[known], atol=1e-4)
        assert torch.allclose(made, truth, atol=0.02)
    made = fields.AtMidpoints(Adaptive(rounds=1))(Case(samples)).estimate
    assert made.shape == truth.shape and torch.allclose(made, truth, atol=0.1)


def test_hindsight_is_never_below_the_choice():
    picture = synthetic_photograph(40, 36)
    samples = sample(picture, "random:0.4")
    held_out = ~samples.geometry.known(3)

    def score(estimate):
        return -float((estimate - picture)[held_out].square().mean())

    assert len(quality.EVERY_START) == 4 * 9 and len(quality.EVERY_SMOOTH) == 30
    candidates = tuple(c for c in quality.EVERY_START[:9] if c.prior.rounds in (0, 3))
    best = Hindsight(candidates)(Case(samples, score=score))
    assert score(best.estimate) == max(score(c(Case(samples)).estimate) for c in candidates)
    assert best.notes["chosen"]["prior"]["rounds"] in (0, 3)


def test_clipped_noise_is_of_8_bits():
    truth = synthetic_photograph(20, 24)
    task = Task("clipped", "full", 0.3, "clean", clipped=True)
    samples, observed = task.sampled(truth, 0, "cpu")
    assert torch.equal(samples.values, observed)
    assert float(observed.min()) == 0 and float(observed.max()) == 1
    torch.testing.assert_close(255 * observed, (255 * observed).round())
    white = replace(task, clipped=False).sampled(truth, 0, "cpu")[1]
    assert float((white.clamp(0, 1) - observed).abs().max()) < 0.51 / 255


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("package", "peer", "pattern", "noise", "least"),
    [("bm3d", peers.block_matching, "full", 0.1, 6), ("colour_demosaicing", peers.menon, "bayer:GBRG", 0.0, 15)]
    + [("cv2", peers.telea, "random:0.8", 0.0, 10)],
)
def test_a_peer_of_another_package_restores(package, peer, pattern, noise, least):
    pytest.importorskip(package)
    truth = synthetic_photograph(32, 40)
    samples, observed = Task("", pattern, noise, "clean").sampled(truth, 0, "cpu")
    estimate = peer(Case(samples, noise))
    before = (samples.values if noise == 0 else observed).reshape(truth.shape)
    gain = (before - truth).square().mean() / (estimate - truth).square().mean()
    assert 10 * float(gain.log10()) > least


def test_a_peer_without_its_package_is_left_out_by_name(folder):
    absent = baseline("absent", peers.unchanged, package="no_such_package")
    there = baseline("there", peers.unchanged, package="numpy")
    study = quality.part("denoise", [Task("full", "full", 0.1, "clean")], (absent, there))
    with pytest.warns(UserWarning, match="absent is left out: the package no_such_package is not installed"):
        cells = study.cells(Options(data=folder))
    assert {cell.subject["method"]["name"] for cell in cells} == {"there"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Menon 2007 is left out")  # where its package is not installed
def test_the_benchmark_runs_end_to_end(run, folder, tmp_path):
    status, out, err = run(*("bench", "quality", "--data", folder, "--only", "bayer,noise", "--images", 1))
    assert status == 0
    assert "quality: 100%" in err
    records = read(tmp_path / "results" / "quality").values()
    found = {}
    for r in records:
        assert r["status"] == "done" and r["cell"]["signal"]["name"] == "picture0.png"
        scores = [r["scores"][key] for key in ("clean", "inside", "held_out") if r["scores"].get(key)]
        assert scores[0] > 10 and r["seconds"]["fit"] > 0
        found.setdefault(r["cell"]["experiment"], {})[r["cell"]["method"]["name"]] = scores[0]
    assert set(found) == {"bayer", "noise"}
    peers = {"Menon 2007"} if find_spec("colour_demosaicing") else set()
    assert set(found["bayer"]) == {"bilinear", "Malvar 5×5", "adaptive", "local"} | peers
    best = found["bayer"]
    assert f"| {best['adaptive']:.2f} |" in out
    assert f"| {best['adaptive'] - best['bilinear']:+.2f} |" in out


def test_the_benchmark_refuses_unknown_names_and_folders(run, tmp_path):
    for arguments in (["--data", tmp_path, "--only", "speed"], ["--data", tmp_path / "none"]):
        status, out, err = run("bench", "quality", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1)
    assert not (tmp_path / "results").exists()


def test_reports_count_what_is_below_the_peer():
    def record(method, signal, score, seconds):
        cell = {"experiment": "random", "task": "t", "signal": {"name": signal, "size": 9}, "seed": 0}
        cell |= {"method": {"name": method}, "epochs": None, "device": "cpu"}
        scores = {"held_out": score}
        return {"cell": cell, "status": "done", "scores": scores, "seconds": {"fit": seconds}, "notes": {}}

    scores = {"peer": (10.0, 20.0, 1.0), "ours": (11.0, 19.5, 2.0)}
    records = [record(m, s, x, t) for m, (*pair, t) in scores.items() for s, x in zip("ab", pair, strict=True)]
    line = Quality().contents(records)[".md"].splitlines()[-1]
    assert line == "| t | 9 | ours | 2 | 15.25 | +0.25 | -0.50 | 1 | 2.00 | 2.0 |"


def test_iterations_are_counted_at_every_size(run, folder, tmp_path):
    (folder / "images" / "picture0.png").rename(folder / "images" / "kodim05.png")
    (experiment,) = (e for e in quality.EXPERIMENTS if e.name == "iterations")
    cells = replace(experiment, finder=replace(experiment.finder, sizes=(32,))).cells(Options(data=folder))
    steps = [cell.run()["notes"]["iterations"] for cell in (cells[0], cells[-1])]
    assert len(cells) == 10 and 1 <= steps[0] < steps[1] < 120


@pytest.mark.parametrize(("pixels", "cells"), [(12, 4), (12, 8), (10, 4), (7, 7)])
def test_cells_share_out_the_pixels(pixels, cells):
    """A pixel between two cells has a part in each; the mean is kept, and so are ramps."""
    matrix = cell_matrix(pixels, cells)
    assert torch.allclose(matrix.sum(1), torch.ones(cells, dtype=torch.float64))
    assert torch.allclose(matrix.sum(0), torch.full((pixels,), cells / pixels, dtype=torch.float64))
    centers = (torch.arange(pixels) + 0.5) / pixels
    if pixels % cells == 0:
        assert torch.allclose(matrix @ centers.double(), (torch.arange(cells) + 0.5).double() / cells)


def test_reduced_pictures_are_enlarged_to_their_own_size():
    picture = synthetic_photograph(30, 45)
    samples, observed = Reduction("reduced by 1.5", "", factor=1.5).sampled(picture, 0, "cpu")
    assert (tuple(samples.values.shape), samples.grid) == ((20, 30, 3), (30, 45))
    assert torch.equal(observed, picture) and not samples.geometry.known(3).any()
    assert tuple(pillow(Case(samples), "Lanczos").shape) == tuple(Enlarged()(Case(samples)).estimate.shape)
    constant, _ = Reduction("constant", "", factor=1.5).sampled(torch.full((30, 45, 1), 0.4), 0, "cpu")
    assert torch.allclose(constant.values, torch.tensor(0.4))


def test_the_catalogue_names_every_experiment_in_its_order(run):
    assert [experiment.name for experiment in quality.EXPERIMENTS] == list(QUALITY)
    assert [study.name for study in papers.STUDIES] == list(PAPERS)
    status, out, _ = run("bench", "quality", "--help")
    assert status == 0 and f"takessomeof{','.join(QUALITY)};allbutthelast" in "".join(out.split())
