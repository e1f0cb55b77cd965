"""``coordnet compare``: methods as reconstruct makes them, and failures with their reasons."""

import json

import numpy as np
import pytest
import torch
from scipy.io import wavfile

from coordnet.fitting import fit as fitting
from coordnet.media import load, write_media
from coordnet.metrics import baselines
from coordnet.metrics.scores import psnr
from coordnet.sampling.patterns import sample
from tests.helpers import refused, synthetic_photograph

GRADIENT = ("--epochs", 3, "--seed", 4)


def compared(run, *arguments):
    status, out, err = run("compare", *arguments, "--json")
    assert (status, err) == (0, "")
    record = json.loads(out)
    return record, {m["name"]: m for m in record["methods"]}


def same_fit(method, record):
    names = ("encoder", "encoding", "head", "solver", "prior", "parameters", "psnr", "snr", "ssim")
    assert {n: method[n] for n in names} == {n: record[n] for n in names}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "singles"),
    [
        (
            "--sample every:2 --encoder gaussian --encoder rff:sigma=5 --head linear --head mlp:width=8 "
            "--solver closed-form --solver gradient",
            {
                "rff:sigma=5 · linear · closed-form · smooth": "--encoder rff:sigma=5",
                "rff:sigma=5 · mlp:width=8 · gradient": "--encoder rff:sigma=5 --head mlp:width=8 --encoding simple",
                "gaussian · linear · gradient": "--encoder gaussian --solver gradient",
            },
        ),
        (
            "--sample random:0.4",
            {
                "fourier · linear · closed-form · stack": "",
                "fourier · linear · closed-form · adaptive": "--prior adaptive",
                "fourier · linear · closed-form · smooth": "--encoder fourier --prior smooth",
            },
        ),
    ],
)
def test_every_method_is_what_reconstruct_makes_of_it(run, photo, recwarn, options, singles):
    _, found = compared(run, photo, *options.split(), *GRADIENT)
    sampling = options.split()[:2]
    for name, single in singles.items():
        trained = GRADIENT if "gradient" in name else GRADIENT[2:]
        status, out, _ = run("reconstruct", photo, *sampling, *single.split(), *trained, "--json")
        assert status == 0
        same_fit(found[name], json.loads(out))


def test_baselines_are_scored_by_the_same_pixels_and_the_table_is_sorted(run, photo, tmp_path):
    status, out, err = run("compare", photo, "--quiet", "--out", "out", "--sample", "every:2x3")
    assert (status, out, err) == (0, "", "")
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"figure.png", "record.json"}
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    image = load(photo)
    samples = sample(image, "every:2x3")
    held_out = ~samples.geometry.known(3)
    for name, baseline in baselines.BASELINES.items():
        made = next(m for m in record["methods"] if m["name"] == f"baseline · {name}")
        assert made["psnr"]["held_out"] == pytest.approx(psnr(baseline(samples), image, held_out))
    scores = [m["psnr"]["held_out"] for m in record["methods"]]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 4 + len(baselines.BASELINES)
    assert record["known"] == pytest.approx(20 * 11 / (40 * 33))
    out = run("compare", photo, "--sample", "every:2x3")[1].splitlines()
    assert [line.split("  ")[0] for line in out[3:-2]] == [m["name"] for m in record["methods"]]
    assert f"{scores[0]:.2f} dB" in out[3]


def test_constants_beyond_one_are_compared(run, tmp_path):
    np.save(tmp_path / "five.npy", np.full((24, 20), 5.0, np.float32))
    _, found = compared(run, tmp_path / "five.npy", "--encoder", "gaussian")
    exact = found["baseline · nearest"]
    assert (exact["status"], exact["psnr"]["held_out"]) == ("done", None)


def test_nothing_held_out_is_ranked_by_the_fit(run, photo):
    record, found = compared(run, photo, "--sample", "full", "--encoder", "gaussian", "--encoder", "rff")
    assert record["ranked_by"] == "fitted"
    assert all(m["psnr"]["held_out"] is None for m in found.values())
    assert [m["name"] for m in record["methods"]][-1].startswith("rff")


def test_one_epoch_warms_training_up(run, photo, monkeypatch):
    epochs = []
    fit = fitting.fit_gradient

    def counted(*arguments, **options):
        epochs.append(options["epochs"])
        return fit(*arguments, **options)

    monkeypatch.setattr(fitting, "fit_gradient", counted)
    compared(run, photo, "--encoder", "gaussian", "--solver", "gradient", "--epochs", "3")
    assert epochs == [1, 3]


def diverging(*_, **__):
    raise FloatingPointError("the loss became nan\nin epoch 3")


def test_failures_have_reasons_and_stop_nothing(run, photo, monkeypatch, tmp_path):
    monkeypatch.setattr(fitting, "fit_gradient", diverging)
    monkeypatch.setitem(baselines.BASELINES, "linear", lambda s: torch.full((*s.grid, s.channels), torch.nan))
    monkeypatch.setitem(baselines.BASELINES, "cubic", lambda s: None)
    options = ("--sample", "every:2", "--encoder", "gaussian")
    options += ("--solver", "gradient", "--solver", "closed-form", "--html")
    record, found = compared(run, photo, *options, "--out", "out")
    assert [m["status"] for m in record["methods"]] == ["done"] * 3 + ["failed"] * 3
    assert found["gaussian · linear · gradient"]["reason"] == "the loss became nan in epoch 3"
    assert "NaN" in found["baseline · linear"]["reason"]
    assert "SciPy" in found["baseline · cubic"]["reason"]
    page = (tmp_path / "out" / "compare.html").read_text()
    assert page.count("failed: the loss became nan in epoch 3") == 2  # in the table and in its place
    status, out, _ = run("compare", photo, *options)
    assert status == 0
    assert "failed: the loss became nan in epoch 3" in out


def test_warnings_are_told(run, photo):
    status, out, err = run("compare", photo, "--encoder", "rff:sigma=2", "--sample", "full")
    assert status == 0
    assert "Warning" not in err  # nor through the bar
    assert "rff:sigma=2 · linear · closed-form: axis 0 has numerical rank" in out
    assert "left out" not in out
    out = run("compare", photo, "--encoder", "gaussian", "--head", "mlp", "--solver", "closed-form")[1]
    assert "left out: gaussian · mlp · closed-form (a closed form needs" in out


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--encoder", "fourrier"], "encoder"),
        (["--encoder", "gaussian:sigma=-1"], "sigma"),
        (["--encoder", "gaussian", "--encoder", "fourier:sigma=3"], "padding"),
        (["--head", "forest"], "head"),
        (["--solver", "magic"], "solver"),
        (["--sample", "every:0"], "sample"),
        (["--epochs", "0"], "epochs"),
        (["--frames", "0:3"], "frames"),
        (["--device", "abacus"], "device"),
        (["--out", "in"], "--force"),
    ],
)
def test_bad_options_give_one_line_and_write_nothing(run, photo, tmp_path, options, name):
    assert name in refused(run("compare", photo, *options), tmp_path)


@pytest.mark.slow
@pytest.mark.figures
def test_a_row_and_a_clip_are_compared_too(run, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    t = np.linspace(0, 1, 80)
    wavfile.write(folder / "tone.wav", 8000, (8000 * np.sin(12 * t**2)).astype(np.int16))
    record, found = compared(run, folder / "tone.wav", "--sample", "random:0.5", "--html", "--out", "tone")
    assert found["fourier · linear · closed-form · adaptive"]["psnr"]["held_out"] > 30
    clip = torch.stack([synthetic_photograph(6, 8).roll(i, 1) for i in range(3)])
    write_media(clip, folder / "clip.mp4", rate=5)
    record, _ = compared(run, folder / "clip.mp4", "--html", "--out", "clip")
    assert record["shape"] == [3, 6, 8, 3]
    for out in ("tone", "clip"):
        names = {p.name for p in (tmp_path / out).iterdir()}
        assert names == {"figure.png", "record.json", "compare.html"}


@pytest.mark.figures
def test_a_single_sample_is_drawn_without_a_warning(run, tmp_path):
    np.save(tmp_path / "one.npy", np.array([0.3], np.float32))
    for command in ("compare", "reconstruct"):
        status, _, err = run(command, tmp_path / "one.npy", "--sample", "full", "--out", tmp_path / command)
        assert status == 0 and "coordnet:" not in err
        assert (tmp_path / command / "figure.png").is_file()
