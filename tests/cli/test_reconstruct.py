"""The commands on every sampling pattern and every kind of signal, and on what is wrong with either."""

import json
import sys
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import wavfile

from coordnet._checks import CoordnetWarning
from coordnet.media import load, read_media, write_media, write_table
from coordnet.metrics.scores import psnr
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.fits import reconstruction_figure
from coordnet.sampling.axes import Bounds
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import Samples
from coordnet.sampling.scattered import ScatteredPoints
from tests.helpers import refused, synthetic_photograph

SMOOTH = "smooth:power=1.5,strength=0.01,anisotropy=1x2"


@pytest.fixture
def photo(inputs):
    write_media(synthetic_photograph(32, 27), inputs / "photo.png", depth="uint8")
    return inputs / "photo.png"


@pytest.fixture
def reconstruct(run, tmp_path):
    """Reconstruct into tmp_path/out: (record, folder)."""

    def reconstruct(*arguments):
        status, out, err = run("reconstruct", *arguments, "--out", "out", "--json")
        assert (status, err) == (0, "")
        return json.loads(out), tmp_path / "out"

    return reconstruct


@pytest.fixture
def fit(run, tmp_path):
    """Fit points into tmp_path/out: (record, folder)."""

    def fit(*arguments):
        status, out, err = run("fit", *arguments, "--out", "out", "--json")
        assert (status, err) == (0, "")
        return json.loads(out), tmp_path / "out"

    return fit


def save_mask(path, known):
    if path.suffix == ".npy":
        np.save(path, known.numpy())
    else:
        Image.fromarray((known.numpy() * 255).astype(np.uint8)).save(path)
    return path


def wave_of(count, channels=1):
    t = np.arange(count)[:, None] / 40
    return (0.5 * np.sin(t) + 0.1 * np.sin(3.1 * t + np.arange(channels))).astype(np.float32)


# Patterns on a picture


@pytest.mark.parametrize(
    ("sample", "prior"), [("random:0.5", SMOOTH), ("entries:0.5", "adaptive"), ("bayer:RGGB", SMOOTH)]
)
def test_patterns_reconstruct_a_photograph(reconstruct, photo, sample, prior):
    record, folder = reconstruct(photo, "--sample", sample, "--prior", prior)
    assert record["sample"] == sample
    assert record["psnr"]["held_out"] > 20
    made = load(folder / "reconstruction.png")
    assert psnr(made, load(photo)) == pytest.approx(record["psnr"]["all"], abs=0.1)


def test_means_over_cells(reconstruct, photo):
    record, folder = reconstruct(photo, "--sample", "area:2x3")
    assert (record["sample"], record["psnr"]["fitted"]) == ("area:2x3", None)
    assert record["psnr"]["held_out"] == record["psnr"]["all"] > 20
    made = load(folder / "reconstruction.png")
    assert psnr(made, load(photo)) == pytest.approx(record["psnr"]["all"], abs=0.1)
    cells = sample(made, "area:2x3").values, sample(load(photo), "area:2x3").values
    assert (cells[0] - cells[1]).abs().median() < 1 / 255


def test_the_prior_s_options_arrive(reconstruct, photo):
    record, _ = reconstruct(photo, "--sample", "random:0.5", "--prior", SMOOTH)
    assert record["prior"] == SMOOTH


def test_without_a_prior_known_samples_are_fitted(reconstruct, photo):
    with pytest.warns(CoordnetWarning, match="`prior`: with None"):
        record, _ = reconstruct(photo, "--sample", "random:0.5", "--prior", "none")
    assert record["prior"] == "none"
    assert record["psnr"]["fitted"] > 50


def test_seeds_choose_the_samples(run, photo, tmp_path):
    made = []
    for out, seed in (("a", 3), ("b", 3), ("c", 4)):
        options = ("--sample", "random:0.5", "--prior", "smooth", "--seed", seed, "--out", out, "--quiet")
        assert run("reconstruct", photo, *options)[0] == 0
        made.append((tmp_path / out / "reconstruction.png").read_bytes())
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize("suffix", [".png", ".npy"])
def test_masks_tell_what_is_known(reconstruct, photo, inputs, suffix):
    known = torch.ones(32, 27, dtype=torch.bool)
    known[10:15, 8:16] = False
    mask = save_mask(inputs / f"mask{suffix}", known)
    record, folder = reconstruct(photo, "--sample", f"mask:{mask}", "--prior", "smooth")
    picture, made = load(photo), load(folder / "reconstruction.png")
    assert record["psnr"]["held_out"] == pytest.approx(psnr(made, picture, ~known), abs=0.1)
    assert record["psnr"]["fitted"] > record["psnr"]["held_out"] > 15


def test_masks_by_channel(reconstruct, photo, inputs):
    known = torch.rand(32, 27, 3, generator=torch.Generator().manual_seed(0)) < 0.6
    record, _ = reconstruct(photo, "--sample", f"mask:{save_mask(inputs / 'mask.npy', known)}", "--prior", SMOOTH)
    assert record["psnr"]["held_out"] > 20


def test_robust_fits_leave_outliers_aside(run, inputs, tmp_path):
    """The errors are those of the smooth picture itself, which the outliers are no part of."""
    y, x = np.mgrid[:40, :40] / 40
    clean = (0.5 + 0.3 * np.sin(3 * x) * np.cos(2 * y)).astype(np.float32)
    spoiled = clean.copy()
    wrong = np.random.default_rng(0).random(clean.shape) < 0.05
    spoiled[wrong] += 5
    np.save(inputs / "a.npy", spoiled)
    errors = []
    for out, options in (("plain", []), ("robust", ["--robust"])):
        arguments = ["--sample", "random:0.7", "--prior", "smooth:strength=0.3", "--out", out, "--quiet", *options]
        assert run("reconstruct", inputs / "a.npy", *arguments)[0] == 0
        errors.append(np.abs(np.load(tmp_path / out / "reconstruction.npy") - clean).mean())
    assert errors[1] < 0.2 * errors[0]


def test_the_peers_are_printed_below_and_the_slow_one_is_named(run, photo, monkeypatch):
    monkeypatch.setattr("coordnet.metrics.scores.expected_seconds", lambda samples, name: 0.0)
    status, out, _ = run("reconstruct", photo, "--prior", "smooth")
    lines = out.splitlines()
    assert status == 0
    assert lines[0] == "photo 32×27×3, random:0.25"
    table = [line for line in lines if "dB" in line]
    names = ["coordnet", "linear interpolation", "cubic spline", "biharmonic inpainting"]
    assert [line[:24].strip() for line in table] == names
    monkeypatch.setattr("coordnet.metrics.scores.expected_seconds", lambda samples, name: 1e6 * (name == "biharmonic"))
    assert (
        "biharmonic inpainting     left out: takes about 1e+06 s" in run("reconstruct", photo, "--prior", "smooth")[1]
    )


def test_a_row_is_sampled_at_every_second_value_by_default(reconstruct, inputs):
    wavfile.write(inputs / "a.wav", 8000, wave_of(300))
    assert reconstruct(inputs / "a.wav")[0]["sample"] == "every:2"


@pytest.mark.figures
@pytest.mark.parametrize(("low", "high"), [(-1, 1), (-20, 580)])
def test_a_signal_of_another_range_is_drawn_and_scored_on_its_own(run, inputs, monkeypatch, low, high):
    """The error map has the mean square of the PSNR, and the panels and the color bar reach from low to high."""
    y, x = np.mgrid[:20, :24] / 20
    values = np.sin(5 * x) * np.cos(6 * y)
    values = (values - values.min()) / (values.max() - values.min()) * (high - low) + low
    np.save(inputs / "a.npy", values)
    figures = []

    def drawn(*arguments, **options):
        figures.append(reconstruction_figure(*arguments, **options))
        return figures[0]

    monkeypatch.setattr("coordnet.cli.reconstruct.reconstruction_figure", drawn)
    status, out, _ = run("reconstruct", inputs / "a.npy", "--prior", "smooth", "--out", "out")
    assert status == 0
    assert f"PSNR is against the signal's own range of {high - low}" in out
    truth, samples, estimate, error, *bars = figures[0].axes
    assert len(bars) == 2
    for panel in (truth, samples, estimate):
        assert panel.images[0].get_clim() == pytest.approx((low, high))
    span = (high - low) ** 2
    found = 10 * np.log10(span / np.square(error.images[0].get_array()).mean())
    assert found == pytest.approx(json.loads(Path("out/record.json").read_text())["psnr"]["all"], abs=0.01)


@pytest.mark.figures
def test_sound_has_seconds_and_points_have_axes(inputs):
    truth = torch.from_numpy(wave_of(400))
    samples = sample(truth, "every:2")
    whole, near = reconstruction_figure(truth, samples, truth, title="", score="", rate=100.0).axes
    assert whole.get_xlabel() == near.get_xlabel() == "seconds"
    assert whole.lines[0].get_xdata()[-1] == pytest.approx(3.99)
    bounds = Bounds(torch.tensor([10.0, -1.0], dtype=torch.float64), torch.tensor([14.0, 1.0], dtype=torch.float64))
    points = ScatteredPoints((3, 5), torch.rand(20, 2))
    estimate = torch.rand(3, 5, 1) * 600
    options = {"title": "", "score": "", "bounds": bounds}
    figure = reconstruction_figure(None, Samples(points, torch.rand(20, 1) * 600), estimate, **options)
    assert len(figure.axes) == 3  # the bar is the last
    for panel in figure.axes[:2]:
        assert (panel.get_xlabel(), panel.get_ylabel()) == ("x", "y")
        assert panel.images[0].get_extent() == pytest.approx([9.5, 14.5, 1.5, -1.5])


@pytest.mark.parametrize("command", ["reconstruct", "inpaint", "fit"])
def test_the_comparison_of_priors_is_shown(run, monkeypatch, tmp_path, command):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((12, 12)))
    places = np.random.default_rng(0).random((40, 2))
    np.savetxt(tmp_path / "a.csv", np.column_stack([places, np.sin(5 * places[:, 0])]), delimiter=",")
    np.save(tmp_path / "m.npy", np.random.default_rng(0).random((12, 12)) < 0.5)
    options = {"inpaint": ("a.npy", "--mask", "m.npy"), "fit": ("a.csv", "--shape", "16,12")}
    status, _, err = run(command, *options.get(command, ("a.npy",)), "--out", "out")
    assert (status, err.count("comparing priors …")) == (0, 1)


def test_the_fit_of_plates_is_shown_unless_quiet(run, monkeypatch, tmp_path):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random(40))
    command = ("reconstruct", "a.npy", "--prior", "plates", "--out")
    assert "fitting plates …" in run(*command, "out")[2]
    assert run(*command, "quiet", "--quiet") == (0, "", "")


@pytest.mark.figures
def test_points_on_a_line_are_drawn_in_their_own_units_without_a_signal_between_them():
    bounds = Bounds(torch.tensor([10.0], dtype=torch.float64), torch.tensor([14.0], dtype=torch.float64))
    samples = Samples(ScatteredPoints((41,), torch.tensor([[0.0], [0.5], [40 / 41]])), torch.rand(3, 1))
    figure = reconstruction_figure(None, samples, torch.rand(41, 1), title="", score="", bounds=bounds)
    for panel in figure.axes:
        assert panel.get_xlabel() == "x"
        assert [line.get_label() for line in panel.lines] == ["reconstruction", "known"]
        assert panel.lines[0].get_xdata()[[0, -1]] == pytest.approx([10, 14])


# Other kinds of signal


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.float32])
@pytest.mark.parametrize("channels", [1, 2])
def test_sound(reconstruct, inputs, dtype, channels):
    values = wave_of(600, channels)
    if dtype != np.float32:
        half = 2.0 ** (8 * np.dtype(dtype).itemsize - 1)
        values = (values.astype(np.float64) * half + (half if dtype == np.uint8 else 0)).astype(dtype)
    wavfile.write(inputs / "a.wav", 8000, values)
    record, folder = reconstruct(inputs / "a.wav", "--sample", "random:0.5", "--prior", "smooth:power=2")
    assert record["snr"] > 20
    rate, made = wavfile.read(folder / "reconstruction.wav")
    assert (rate, made.dtype, made.reshape(600, -1).shape) == (8000, dtype, (600, channels))


def test_tables(reconstruct, inputs):
    write_table(inputs / "a.csv", ["up", "down"], torch.from_numpy(wave_of(120, 2)))
    record, folder = reconstruct(inputs / "a.csv", "--sample", "random:0.5", "--prior", "smooth:power=2")
    assert record["shape"] == [120, 2]
    assert record["snr"] > 15
    assert (folder / "reconstruction.csv").read_text().splitlines()[0] == "up,down"
    assert read_media(folder / "reconstruction.csv").signal.shape == (120, 2)


def test_empty_cells_of_a_table_are_filled(reconstruct, inputs):
    cells = [f"{v:.5f}" for v in wave_of(80)[:, 0]]
    truth = float(cells[40])
    cells[40] = "nan"
    (inputs / "a.csv").write_text("\n".join(cells) + "\n")
    _, folder = reconstruct(inputs / "a.csv", "--sample", "full")
    assert float(read_media(folder / "reconstruction.csv").signal[40, 0]) == pytest.approx(truth, abs=0.02)


@pytest.mark.parametrize("shape", [(60,), (14, 12), (10, 9, 8), (6, 5, 6, 7), (12, 10, 3)])
def test_arrays_of_one_to_four_axes(reconstruct, inputs, shape):
    axes = np.meshgrid(*(np.linspace(0, 2, n) for n in shape), indexing="ij")
    values = np.prod([np.sin(a + 0.5) for a in axes], axis=0)
    np.save(inputs / "a.npy", values)
    prior = "auto" if len(shape) > 3 else "smooth:power=2"
    record, folder = reconstruct(inputs / "a.npy", "--sample", "random:0.5", "--prior", prior)
    assert record["psnr"]["held_out"] > 15
    made = np.load(folder / "reconstruction.npy")
    assert (made.shape, made.dtype) == (shape, values.dtype)


@pytest.mark.figures
@pytest.mark.parametrize(("option", "number", "length"), [("--row", 5, 27), ("--column", 26, 32)])
def test_rows_and_columns_of_a_picture(reconstruct, photo, option, number, length):
    record, folder = reconstruct(photo, option, number, "--sample", "every:2")
    assert record["shape"] == [length, 3]
    assert record["signal"] == f"photo-{option.strip('-')}{number}"
    picture = load(photo)
    line = picture[number] if option == "--row" else picture[:, number]
    made = read_media(folder / "reconstruction.npy").signal
    assert psnr(made, line) == pytest.approx(record["psnr"]["all"], abs=2)  # rounded to 8 bits


def moving(frames, height, width):
    t, y, x = torch.meshgrid(torch.arange(frames), torch.arange(height), torch.arange(width), indexing="ij")
    wave = 0.5 + 0.3 * torch.sin((x - t) / 4) * torch.cos(y / 5)
    return torch.stack([wave, 0.9 * wave, 0.8 * wave + 0.1], dim=-1)


@pytest.mark.figures
def test_videos_keep_their_frame_rate(reconstruct, inputs):
    write_media(moving(12, 40, 48), inputs / "clip.mp4", rate=30000 / 1001)
    part = ("--frames", "2:10", "--size", "20x24", "--crop", "16x18")
    record, folder = reconstruct(inputs / "clip.mp4", *part, "--sample", "random:0.4", "--prior", "smooth:power=2")
    assert record["shape"] == [8, 16, 18, 3]
    assert record["psnr"]["held_out"] > 20
    made = read_media(folder / "reconstruction.mp4")
    assert made.signal.shape == (8, 16, 18, 3)
    assert made.rate == pytest.approx(30000 / 1001, rel=1e-4)
    assert (folder / "figure.png").is_file()


def test_a_small_smooth_clip_converges_with_the_prior_of_its_own(reconstruct, inputs):
    write_media(moving(12, 40, 48), inputs / "clip.mp4", rate=25)
    part = ("--frames", "2:10", "--size", "20x24", "--crop", "16x18")
    reconstruct(inputs / "clip.mp4", *part, "--sample", "random:0.4", "--prior", "adaptive")


def test_a_mask_of_one_frame_holds_for_all(reconstruct, inputs):
    write_media(moving(6, 16, 18), inputs / "clip.mp4", rate=25)
    known = torch.rand(16, 18, generator=torch.Generator().manual_seed(0)) < 0.5
    mask = save_mask(inputs / "mask.png", known)
    record, _ = reconstruct(inputs / "clip.mp4", "--sample", f"mask:{mask}", "--prior", "smooth:power=2,form=modes")
    assert record["psnr"]["held_out"] > 18


# Scattered points


def scattered(count=400, seed=0, low=(-1.0, 2.0), high=(3.0, 5.0)):
    """Columns x, y, and a smooth value of them in [0, 1]."""
    unit = np.random.default_rng(seed).random((count, 2))
    unit[:4] = [[0, 0], [1, 0], [0, 1], [1, 1]]  # the points' own range is then the bounds
    return np.column_stack([low + unit * (np.array(high) - low), value_at(unit)])


def value_at(unit):
    return 0.5 + 0.3 * np.sin(3 * unit[:, 0]) * np.cos(2 * unit[:, 1])


def save_points(path, points, header=None):
    np.savetxt(path, points, delimiter=",", header=header or "", comments="")
    if header is None:
        path.write_text(path.read_text().lstrip("\n"))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("header", "options"), [(None, ()), ("x,y,grey", ("--bounds", "-1,3,2,5", "--prior", "smooth"))]
)
def test_points_become_a_picture(fit, inputs, header, options):
    path = save_points(inputs / "points.csv", scattered(), header)
    record, folder = fit(path, "--shape", "24,30", *options)
    assert record["points"] == 400
    assert record["shape"] == [24, 30, 1]
    assert record["bounds"] == [[-1, 3], [2, 5]]
    made = load(folder / "reconstruction.png")
    y, x = np.meshgrid(np.linspace(0, 1, 24), np.linspace(0, 1, 30), indexing="ij")
    truth = value_at(np.column_stack([x.ravel(), y.ravel()])).reshape(24, 30, 1)
    assert np.abs(made.numpy() - truth).max() < 0.03
    assert record["residual"] < 0.01


def test_points_with_values_beyond_a_picture_s_become_an_array(fit, inputs):
    points = scattered()
    points[:, 2] *= 100
    _, folder = fit(save_points(inputs / "points.csv", points), "--shape", "16x20", "--prior", "smooth")
    assert np.load(folder / "reconstruction.npy").shape == (16, 20, 1)


@pytest.mark.parametrize(("dims", "shape", "prior"), [(1, "40", "auto"), (3, "5,6,7", "smooth")])
def test_points_of_one_and_three_axes(fit, inputs, dims, shape, prior):
    unit = np.random.default_rng(0).random((200, dims))
    points = np.column_stack([unit, np.sin(2 * unit).sum(1), unit.prod(1)])
    header = "x,sum,product" if dims == 1 else None
    record, folder = fit(save_points(inputs / "points.csv", points, header), "--shape", shape, "--prior", prior)
    assert np.load(folder / "reconstruction.npy").shape == (*map(int, shape.split(",")), 2)
    assert record["residual"] < 0.1


@pytest.mark.parametrize("order", ["y,x,v", "v,x,y", "Y,v,X"])
def test_the_names_of_columns_decide_which_is_which(fit, inputs, order):
    columns = dict(zip("xyv", scattered().T, strict=True))
    options = ("--shape", "12,10", "--prior", "smooth", "--force", "--at", inputs / "query.csv")
    save_points(inputs / "query.csv", scattered(9, seed=1)[:, 1::-1], "y,x")
    made = {}
    for header in ("x,y,v", order):
        points = np.column_stack([columns[name] for name in header.lower().split(",")])
        path = save_points(inputs / f"{header}.csv", points, header)
        folder = fit(path, *options)[1]
        made[header] = load(folder / "reconstruction.png"), read_media(folder / "query.csv").signal
    for found, expected in zip(made[order], made["x,y,v"], strict=True):
        assert np.array_equal(found, expected)
    assert np.allclose(made[order][1][:, :2], scattered(9, seed=1)[:, :2], atol=1e-5)


@pytest.mark.figures
def test_values_at_query_points(fit, inputs):
    path = save_points(inputs / "points.csv", scattered())
    query = scattered(50, seed=1)
    save_points(inputs / "query.csv", query[:, :2], "x,y")
    _, folder = fit(path, "--shape", "24,30", "--prior", "smooth", "--at", inputs / "query.csv")
    table = read_media(folder / "query.csv")
    assert table.columns == ("x", "y", "value0")
    assert np.allclose(table.signal[:, :2].numpy(), query[:, :2], atol=1e-5)
    assert np.abs(table.signal[:, 2].numpy() - query[:, 2]).max() < 0.03


def test_columns_are_named_and_keep_their_names(fit, inputs):
    points, query = scattered(), scattered(20, seed=1)
    lon, lat, height = points.T
    save_points(inputs / "a.csv", np.column_stack([height, lon, lat, lat]), "Height [m],lon,lat,id")
    save_points(inputs / "b.csv", points, "x,y,z")
    save_points(inputs / "query.csv", query[:, 1::-1], "lat,lon")
    save_points(inputs / "xy.csv", query[:, :2], "x,y")
    options = ("--shape", "12,10", "--prior", "smooth")
    named = fit(inputs / "a.csv", *options, "--columns", "lon,lat,height [m]", "--at", inputs / "query.csv")[1]
    table = read_media(named / "query.csv")
    assert table.columns == ("lon", "lat", "Height [m]")
    other = read_media(
        fit(inputs / "b.csv", *options, "--columns", "x,y,z", "--at", inputs / "xy.csv", "--force")[1] / "query.csv"
    )
    assert other.columns == ("x", "y", "z")
    assert np.array_equal(table.signal, other.signal)


@pytest.mark.parametrize(
    ("options", "head", "solver", "blending"),
    [
        ("--blending similarity --prior smooth --encoder triangle", "linear", "closed-form", "similarity"),
        ("--blending linear --solver gradient --epochs 60", "linear", "gradient", "linear"),
        ("--head mlp:depth=1,width=16 --epochs 5", "mlp:depth=1,width=16", "gradient", None),
    ],
)
def test_points_are_fitted_as_the_options_say(fit, inputs, options, head, solver, blending):
    path = save_points(inputs / "points.csv", scattered())
    record, folder = fit(path, "--shape", "12,16", *options.split())
    assert (record["head"], record["solver"], record["blending"]) == (head, solver, blending)
    blended = Reconstruction.load(folder / "model.safetensors").network.blending
    assert (blended and blended.kind) == blending
    assert record["residual"] < (0.3 if head != "linear" else 0.03)


def test_repeated_points_and_robust_fits(fit, inputs):
    points = np.repeat(scattered(), 2, axis=0)
    points[::100, 2] = 9
    record, folder = fit(
        *(save_points(inputs / "points.csv", points), "--shape", "20,20", "--robust", "--prior", "smooth")
    )
    made = np.load(folder / "reconstruction.npy")
    assert made.max() < 1.2
    assert record["points"] == 800


def test_points_outside_the_bounds_are_clamped_on_request(run, fit, inputs, tmp_path):
    path = save_points(inputs / "points.csv", scattered())
    options = ("--shape", "16,16", "--bounds", "-1,2,2,5", "--prior", "smooth")
    assert "points" in refused(run("fit", path, *options), tmp_path)
    record, _ = fit(path, *options, "--clamp")
    assert record["points"] == 400


@pytest.mark.slow
@pytest.mark.parametrize(
    "points",
    [
        [[0.3, 0.7, 0.5]],
        [[0.1, 0.1, 0.2], [0.9, 0.9, 0.6]],
        [[t, t, t / 2] for t in np.linspace(0, 1, 30)],
        [[t, 0.5, t / 2] for t in np.linspace(0, 1, 30)],
    ],
    ids=["one", "two", "diagonal", "level"],
)
def test_few_and_collinear_points_give_a_picture_through_them(fit, inputs, points):
    record, folder = fit(save_points(inputs / "points.csv", np.array(points)), "--shape", "12,12")
    assert record["residual"] < 0.05
    made = load(folder / "reconstruction.png")
    values = [p[2] for p in points]
    assert float(made.min()) > min(values) - 0.15
    assert float(made.max()) < max(values) + 0.15


def test_one_sample_gives_a_constant(reconstruct, photo, inputs):
    known = torch.zeros(32, 27, dtype=torch.bool)
    known[5, 6] = True
    _, folder = reconstruct(photo, "--sample", f"mask:{save_mask(inputs / 'mask.png', known)}")
    made, picture = load(folder / "reconstruction.png"), load(photo)
    assert torch.allclose(made, picture[5, 6].expand_as(made), atol=0.01)


def test_a_mask_with_everything_known(reconstruct, photo, inputs):
    mask = save_mask(inputs / "mask.png", torch.ones(32, 27, dtype=torch.bool))
    record, folder = reconstruct(photo, "--sample", f"mask:{mask}", "--prior", "smooth")
    assert record["psnr"]["held_out"] is None
    assert psnr(load(folder / "reconstruction.png"), load(photo)) > 25


@pytest.mark.parametrize("shape", [(1, 40), (40, 1), (1, 1)])
def test_pictures_of_one_line(reconstruct, inputs, shape):
    write_media(synthetic_photograph(*shape), inputs / "a.png", depth="uint8")
    record, folder = reconstruct(inputs / "a.png", "--sample", "random:0.6")
    assert load(folder / "reconstruction.png").shape == (*shape, 3)
    assert record["shape"] == [*shape, 3]


# What is refused


SPOILED = {
    "prior": ("--prior", "rough"),
    "prior's option": ("--prior", "smooth:color=3"),
    "prior's number": ("--prior", "smooth:power=-1"),
    "prior's word": ("--prior", "smooth:power=high"),
    "anisotropy": ("--sample", "random:0.5", "--prior", "smooth:anisotropy=1x2x3"),
    "anisotropy's word": ("--prior", "smooth:anisotropy=1xa"),
    "robust without prior": ("--sample", "random:0.5", "--prior", "none", "--robust"),
    "pattern": ("--sample", "foo"),
    "mosaic": ("--sample", "bayer:RGB"),
    "cells": ("--sample", "area:5"),
    "row": ("--row", 32),
    "row and column": ("--row", 1, "--column", 1),
    "frames": ("--frames", "0:2"),
    "size": ("--size", "0x4"),
    "crop": ("--crop", "64x64"),
    "empty mask": ("--sample", "mask:in/empty.png"),
    "mask of another size": ("--sample", "mask:in/turned.png"),
    "mask of NaN": ("--sample", "mask:in/nan.npy"),
    "mask that is missing": ("--sample", "mask:in/none.png"),
    "mask that is text": ("--sample", "mask:in/text.png"),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_bad_samplings_give_one_line_and_write_nothing(run, photo, inputs, kind, tmp_path):
    save_mask(inputs / "empty.png", torch.zeros(32, 27, dtype=torch.bool))
    save_mask(inputs / "turned.png", torch.ones(27, 32, dtype=torch.bool))
    save_mask(inputs / "nan.npy", torch.full((32, 27), torch.nan))
    (inputs / "text.png").write_text("text")
    line = refused(run("reconstruct", photo, *SPOILED[kind]), tmp_path)
    assert "expected" in line
    assert "mask:PATH" in line or kind != "pattern"
    assert "--sample" in line or kind != "cells"
    assert f"--{kind}: expected" in line or kind not in ("size", "crop")


def test_mosaics_are_of_three_channels(run, inputs, tmp_path):
    np.save(inputs / "a.npy", np.ones((6, 6)))
    assert "three channels" in refused(run("reconstruct", inputs / "a.npy", "--sample", "bayer:RGGB"), tmp_path)


@pytest.mark.parametrize("sample", ["full", "random:0.5"])
def test_all_nan_is_refused(run, inputs, sample, tmp_path):
    np.save(inputs / "a.npy", np.full((6, 6, 3), np.nan))
    assert "not NaN" in refused(run("reconstruct", inputs / "a.npy", "--sample", sample), tmp_path)


def test_a_truncated_sound_is_refused(run, inputs, tmp_path):
    wavfile.write(inputs / "a.wav", 8000, wave_of(500))
    (inputs / "a.wav").write_bytes((inputs / "a.wav").read_bytes()[:-200])
    assert "a.wav" in refused(run("reconstruct", inputs / "a.wav"), tmp_path)


@pytest.mark.parametrize("kind", ["no frames", "sound alone", "text", "empty range"])
def test_videos_without_frames_are_refused(run, inputs, kind, tmp_path):
    path, options = inputs / "clip.mp4", []
    match kind:
        case "no frames":
            with av.open(str(path), "w") as container:
                stream = container.add_stream("libx264", 25)
                stream.width, stream.height, stream.pix_fmt = 16, 16, "yuv420p"
                container.start_encoding()
        case "sound alone":
            with av.open(str(path), "w") as container:
                stream = container.add_stream("aac", 8000)
                frame = av.AudioFrame.from_ndarray(wave_of(2048).T.copy(), format="fltp", layout="mono")
                frame.sample_rate = 8000
                for packet in [*stream.encode(frame), *stream.encode(None)]:
                    container.mux(packet)
        case "text":
            path.write_text("text")
        case "empty range":
            write_media(moving(4, 16, 16), path, rate=25)
            options = ["--frames", "4:9"]
    assert "clip.mp4" in refused(run("reconstruct", path, *options, "--json"), tmp_path)  # without a bar


@pytest.mark.parametrize(
    ("text", "options", "word"),
    [
        ("x,y,v\n0,0,1\n1,one,2\n", [], "line 3"),
        ("0,0,1\n1,1\n", [], "line 2"),
        ("", [], "points.csv"),
        ("x,y,v\n", [], "points.csv"),
        ("0,0\n1,1\n", [], "value"),
        ("x,y,v\n0,0,1\n1,1,2\n", ["--shape", "8"], "if only the first 1 are coordinates), found 1"),
        ("x,y,z,v\n0,0,1,1\n1,1,0,2\n", [], "expected a --shape of 3 lengths"),
        ("height,lon,lat\n0,0,1\n1,1,2\n", [], "others for the values (or --columns with the coordinates first)"),
        ("x,y,z\n0,0,1\n1,1,2\n", [], "(--columns x,y,z, if only the first 2 are coordinates), found 2"),
        ("x,y,v\n0,0,1\n1,1,2\n", ["--columns", "x,v"], "--columns: expected 2 coordinates and then values"),
        ("x,y,v\n0,0,1\n1,1,2\n", ["--columns", "x,y,w"], "expected one column w (--columns), found x, y, v"),
        ("0,0,1\n1,1,2\n", ["--columns", "x,y,v"], "expected a header with the names of --columns"),
        ("x,y,x\n0,0,1\n1,1,2\n", [], "found x, y, x"),
        ("0,0,1\n1,1,2\n", ["--shape", "8"], "or a header such as x,value0,value1"),
        ("0,0,nan\n1,1,nan\n", [], "finite"),
        ("0,0,1\n1,nan,2\n", [], "finite"),
        ("0,0,1\n1,1,2\n", ["--bounds", "0,1,1,0"], "bounds"),
        ("0,0,1\n1,1,2\n", ["--bounds", "0,inf,0,1"], "bounds"),
        ("0,0,1\n1,1,2\n", ["--bounds", "zero,1,0,1"], "bounds"),
        ("0,0,1\n1,1,2\n", ["--bounds", "0,0.5,0,1"], "points"),
        ("0,0,1\n1,1,2\n", ["--shape", "8,0"], "shape"),
        ("0,0,1\n1,1,2\n", ["--shape", "wide"], "shape"),
        ("0,0,1\n1,1,2\n", ["--shape", ""], "shape"),
        ("0,0,1\n1,1,2\n", ["--shape", "2,2,2,2,2"], "shape"),
        ("0,0,1\n1,1,2\n", ["--prior", "rough"], "prior"),
        ("0,0,1\n1,1,2\n", ["--prior", "none", "--robust"], "robust"),
        ("0,0,1\n1,1,2\n", ["--encoder", "gauss"], "encoder"),
        ("0,0,1\n1,1,2\n", ["--at", "in/none.csv"], "none.csv"),
        ("0,0,1\n1,1,2\n", ["--at", "in/words.csv"], "words.csv"),
        ("0,0,1\n1,1,2\n", ["--at", "in/one.csv"], "one.csv"),
        ("0,0,1\n1,1,2\n", ["--at", "in/nan.csv"], "nan.csv"),
        ("0,0,1\n1,1,2\n", ["--at", "in/outside.csv"], "outside.csv"),
    ],
)
def test_bad_points_give_one_line_and_write_nothing(run, inputs, text, options, word, tmp_path):
    (inputs / "points.csv").write_text(text)
    (inputs / "words.csv").write_text("x,y\n0.5,half\n")
    (inputs / "one.csv").write_text("0.5\n")
    (inputs / "nan.csv").write_text("0.5,nan\n")
    (inputs / "outside.csv").write_text("0.5,7\n")
    shape = [] if "--shape" in options else ["--shape", "8,8"]
    assert word in refused(run("fit", inputs / "points.csv", *shape, *options), tmp_path)


def test_queries_outside_are_clamped_on_request(fit, inputs):
    path = save_points(inputs / "points.csv", scattered())
    (inputs / "query.csv").write_text("1,3\n1,99\n1,5\n")
    _, folder = fit(path, "--shape", "12,12", "--at", inputs / "query.csv", "--clamp", "--prior", "smooth")
    values = read_media(folder / "query.csv").signal[:, 2]
    assert float(values[1]) == pytest.approx(float(values[2]), abs=1e-5)


def test_points_are_required_to_exist(run, inputs, tmp_path):
    assert "none.csv" in refused(run("fit", inputs / "none.csv", "--shape", "4,4"), tmp_path)


def test_too_little_memory_is_one_line(run, photo, monkeypatch, tmp_path):
    """As PyTorch tells it on a CPU, which is no MemoryError."""

    def starved(*arguments, **options):
        return torch.empty(2**60)

    monkeypatch.setattr("coordnet.cli.reconstruct.sample", starved)
    assert "memory" in refused(run("reconstruct", photo), tmp_path)
