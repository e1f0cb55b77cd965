import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pytest
import torch

from coordnet.cli import app, grid, main, specs
from coordnet.cli.common import Output
from coordnet.cli.folders import UNFINISHED, results
from coordnet.comparison import stopwatch
from coordnet.media import SAMPLES, load, write_media
from coordnet.metrics.scores import psnr
from coordnet.networks.reconstruction import Reconstruction
from tests.helpers import refused, synthetic_photograph

FILES = {"reconstruction.png", "figure.png", "model.safetensors", "record.json"}
PLAIN = ("--encoder", "triangle")  # in closed form within milliseconds


@pytest.mark.figures
def test_a_photograph_is_reconstructed(run, photo, tmp_path):
    status, out, err = run("reconstruct", photo, "--sample", "every:2")
    assert status == 0
    folder = tmp_path / "results" / "reconstruct" / "photo-1"
    assert {p.name for p in folder.iterdir()} == FILES
    record = json.loads((folder / "record.json").read_text())
    assert record["shape"] == [40, 33, 3]
    assert record["encoder"] == "fourier:features=60x50" and "kriging" in record["prior"]
    assert record["parameters"] == 60 * 50 * 3
    image, estimate = load(photo), load(folder / "reconstruction.png")
    held_out = torch.ones(40, 33, dtype=torch.bool)
    held_out[::2, ::2] = False
    assert record["psnr"]["held_out"] == pytest.approx(psnr(estimate, image, held_out), abs=0.1)
    assert f"{record['psnr']['held_out']:.2f} dB" in out
    assert f"{record['baselines']['cubic']:.2f} dB" in out
    model = Reconstruction.load(folder / "model.safetensors")
    assert psnr(model.render(), image, held_out) == pytest.approx(record["psnr"]["held_out"])
    assert run("reconstruct", photo, *PLAIN)[0] == 0
    assert (tmp_path / "results" / "reconstruct" / "photo-2").is_dir()


@pytest.mark.parametrize(
    "options",
    [
        ["--encoder", "triangle", "--sample", "every:2x1+0x0"],
        ["--encoder", "rff:sigma=5", "--encoding", "simple", "--head", "mlp:depth=1,width=16", "--epochs", 3],
        ["--encoding", "simple", "--epochs", 2],
        ["--solver", "gradient", "--epochs", 2],
        ["--head", "mlp:width=8", "--epochs", 2],
        ["--encoder", "linf", "--sample", "full"],
    ],
)
def test_every_combination_runs_and_json_is_alone(run, photo, options, recwarn):
    status, out, _ = run("reconstruct", photo, "--json", "--out", "here", *options)
    assert status == 0
    record = json.loads(out)
    assert (record["psnr"]["held_out"] is None) == ("full" in options)


def test_quiet_is_quiet(run, photo):
    assert run("reconstruct", photo, "--prior", "smooth", "--quiet") == (0, "", "")


@pytest.mark.parametrize("depth", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [None, 2, 4])
def test_the_input_s_depth_and_channels_come_back(run, tmp_path, depth, channels):
    shape = (12, 9) if channels is None else (12, 9, channels)
    pixels = np.random.default_rng(0).integers(0, np.iinfo(depth).max, shape).astype(depth)
    scaled = torch.from_numpy(pixels.astype(np.float64) / np.iinfo(depth).max).float().reshape(12, 9, -1)
    write_media(scaled, tmp_path / "a.png", depth=np.dtype(depth).name)
    assert run("reconstruct", tmp_path / "a.png", "--sample", "full", *PLAIN, "--out", "out", "--quiet")[0] == 0
    again = load(tmp_path / "out" / "reconstruction.png")
    assert again.shape == scaled.shape
    assert torch.allclose(again, scaled, atol=1e-4 if depth == np.uint16 else 1e-6)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--encoder", "fourrier"], "encoder"),
        (["--tune", "--criterion", "luck"], "criterion"),
        (["--tune", "--folds", "0"], "folds"),
        (["--tune", "--folds", "2", "--encoder", "gaussian", "--prior", "none"], "folds"),
        (["--seed", str(10**30)], "seed"),
        (["--encoder", "gaussian:sigma=-1"], "--encoder gaussian:sigma=-1: `sigma`: expected a positive"),
        (["--encoder", "gaussian:sigma="], "encoder"),
        (["--sample", "every:2x2x2"], "steps"),
        (["--encoding", "real"], "encoding"),
        (["--head", "forest"], "head"),
        (["--head", "mlp:depth=-1"], "depth"),
        (["--head", "mlp:leaves=3"], "head"),
        (["--solver", "gradient", "--prior", "local"], "--prior: expected a fit in closed form"),
        (["--head", "siren", "--robust"], "--robust: expected a fit in closed form"),
        (["--epochs", "5"], "--epochs: expected the gradient solver"),
        (["--lr", "0.1", "--prior", "smooth"], "--lr: expected the gradient solver"),
        (["--criterion", "gcv"], "--criterion: expected --tune"),
        (["--folds", "3"], "--folds: expected --tune"),
        (["--solver", "magic"], "coordnet: --solver: expected one of"),
        (["--solver", "closed-form", "--head", "mlp"], "solver"),
        (["--solver", "gradient", "--epochs", "0"], "epochs"),
        (["--epochs", "many"], "--epochs"),
        (["--device", "abacus"], "device"),
        (["--colour"], "--colour"),
        (["--out", "/proc/nowhere"], "/proc/nowhere"),
        (["--out", "in/photo.png"], "in/photo.png"),
    ],
)
def test_bad_options_give_one_line_and_write_nothing(run, photo, options, name, tmp_path):
    assert name in refused(run("reconstruct", photo, *options), tmp_path)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_absent_is_refused(run, photo, tmp_path):
    assert "no CUDA device" in refused(run("reconstruct", photo, "--device", "cuda"), tmp_path)


@pytest.mark.parametrize("name", ["made.png", "made.mp4", "deep/made.wav", "made.npy"])
def test_a_folder_by_the_name_of_a_file_is_refused_where_results_are_several(name, run, photo, tmp_path):
    err = refused(run("compare", photo, "--out", name), tmp_path)
    assert f"--out {name}: expected a folder for the results, found the name of a file" in err


def test_results_are_replaced_only_when_forced(run, photo, tmp_path):
    assert run("reconstruct", photo, *PLAIN, "--sample", "full", "--out", "out", "--quiet")[0] == 0
    before = (tmp_path / "out" / "record.json").read_bytes()
    status, _, err = run("reconstruct", photo, *PLAIN, "--out", "out")
    assert (status, err.count("\n")) == (2, 1)
    assert "--force" in err
    assert (tmp_path / "out" / "record.json").read_bytes() == before
    assert run("reconstruct", photo, *PLAIN, "--out", "out", "--force", "--quiet")[0] == 0
    assert (tmp_path / "out" / "record.json").read_bytes() != before


@pytest.mark.parametrize("place", [Path, Path.absolute])
def test_of_two_runs_into_one_folder_the_first_to_end_writes(place, tmp_path, monkeypatch):
    """One found no folder and made it; the other found an empty one, which is refused when the first has written."""
    monkeypatch.chdir(tmp_path)
    for order in ((0, 1), (1, 0)):
        final = place(Path(f"out{order[0]}"))
        runs = [results(Output(out=final), "reconstruct", "a") for _ in range(2)]
        folders = [run.__enter__()[0] for run in runs]
        for staging, text in zip(folders, "ab", strict=True):
            (staging / "record.json").write_text(text)
        runs[order[0]].__exit__(None, None, None)
        with pytest.raises(ValueError, match="files in it that another run has written"):
            runs[order[1]].__exit__(None, None, None)
        assert [path.name for path in final.iterdir()] == ["record.json"]
        assert (final / "record.json").read_text() == "ab"[order[0]]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_full_disk_is_said_of_the_folder_that_was_asked_for(is_there, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if is_there:
        Path("o").mkdir()
    with pytest.raises(ValueError, match="^--out o: expected a folder that can be written, found No space left"):
        with results(Output(out=Path("o")), "denoise", "photo"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert [path.name for path in tmp_path.rglob("*")] == ["o"] * is_there


def test_an_empty_folder_is_taken(run, photo, tmp_path):
    (tmp_path / "out").mkdir()
    assert run("reconstruct", photo, *PLAIN, "--sample", "full", "--out", "out", "--quiet")[0] == 0
    assert (tmp_path / "out" / "record.json").exists()


def test_an_nan_in_an_array_is_filled(run, tmp_path):
    a = synthetic_photograph(16, 12, 1).numpy()[..., 0]
    a[3, 4] = np.nan
    np.save(tmp_path / "a.npy", a)
    options = ("--sample", "full", "--solver", "gradient", "--epochs", 20, "--json")
    status, out, err = run("reconstruct", tmp_path / "a.npy", *options)
    assert (status, err) == (0, "")
    made = np.load(tmp_path / "results" / "reconstruct" / "a-1" / "reconstruction.npy")
    assert np.isfinite(made).all()
    assert json.loads(out)["psnr"]["held_out"] is None


@pytest.mark.filterwarnings("ignore:training takes")
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ended_by_a_signal_it_leaves_nothing(run, photo, tmp_path, sent, status):
    """Ended while it trains, as a process that listens to SIGINT; the status is what main returns or exits with."""

    def end():
        while not ((tmp_path / "out").exists() and list(tmp_path.glob(UNFINISHED + "*"))):
            time.sleep(0.01)
        os.kill(os.getpid(), sent)

    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.getsignal(signal.SIGTERM)
    threading.Thread(target=end, daemon=True).start()
    try:
        found, _, told = run("reconstruct", photo, "--solver", "gradient", "--epochs", 10**6, "--out", "out")
        assert told.endswith("\ncoordnet: interrupted\n")
    except SystemExit as ended:
        found = ended.code
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)
    assert found == status
    assert {p.name for p in tmp_path.iterdir()} == {"in"}


@pytest.mark.parametrize("out", ["file/a", "file/a/b"])
def test_a_bad_folder_is_refused_before_heavy_imports(tmp_path, out):
    (tmp_path / "file").touch()
    code = (
        f"import sys; sys.argv = ['coordnet', 'reconstruct', 'astronaut', '--out', '{out}'];"
        "from coordnet.cli import main; assert main() == 2;"
        "heavy = {'torch', 'numpy', 'matplotlib'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=tmp_path)


def test_debug_shows_the_traceback(run, photo):
    with pytest.raises(ValueError, match="`encoder`"):
        run("reconstruct", photo, "--encoder", "x", "--debug")


def test_the_version_is_that_of_the_package(run):
    assert run("--version") == (0, f"coordnet {version('coordnet')}\n", "")


def test_a_checkout_that_is_not_installed_has_no_version(run, monkeypatch, tmp_path):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(app, "version", absent)
    monkeypatch.setattr(stopwatch, "version", absent)
    monkeypatch.setattr(grid, "versions", stopwatch.versions.__wrapped__)
    assert list(stopwatch.versions.__wrapped__()) == ["python"]
    assert run("--version") == (0, "coordnet, a checkout that is not installed\n", "")
    Path("points.csv").write_text("x,v\n" + "".join(f"{i},{i * i}\n" for i in range(9)))
    assert run("grid", "points.csv", "--value", "v", "--out", "out")[0] == 0
    assert "coordnet that is not installed" in (tmp_path / "out" / "grid.nc").read_bytes().decode("latin")


def test_listings(run):
    status, out, _ = run("samples")
    assert status == 0
    listed = [line.split()[0] for line in out.splitlines()]
    assert listed == list(SAMPLES)
    status, out, _ = run("encoders")
    assert status == 0
    assert "0.64px" in out


@pytest.mark.parametrize("text", ["plates", "plates:order=4,cutoff=inf", "plates:order=3,cutoff=0.5,corner=0.2"])
def test_plates_are_described_as_they_are_asked_for(text):
    assert specs.parse_prior(text).text == text


def test_closed_streams_are_no_obstacle(monkeypatch):
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    monkeypatch.setattr(sys, "argv", ["coordnet", "samples"])
    assert main() == 0
