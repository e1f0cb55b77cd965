"""The map of expected errors that ``--uncertainty`` writes, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.encodings import FourierEncoding
from coordnet.fitting.fit import EncoderChoice
from coordnet.media import write_media
from tests.helpers import synthetic_photograph

PRIOR = ("--prior", "smooth")


@pytest.fixture
def picture(tmp_path):
    signal = synthetic_photograph(16, 16, 2)[..., :1]
    write_media(signal, tmp_path / "a.png", depth="uint8")
    return cn.load(tmp_path / "a.png")


def test_reconstruct_writes_the_deviation_that_the_library_finds(run, picture):
    options = ("--sample", "random:0.5", *PRIOR, "--encoder", "fourier", "--uncertainty", "--out", "out")
    status, out, _ = run("reconstruct", "a.png", *options)
    assert status == 0
    record = json.loads(Path("out/record.json").read_text())["uncertainty"]
    assert f"expected PSNR {record['expected_psnr']:.2f} dB, intervals of 90 % cover" in out
    samples = cn.sample(picture, "random:0.5", generator=torch.Generator().manual_seed(0))
    fit = cn.fit(samples, prior=cn.Smoothness(), encoder=EncoderChoice(FourierEncoding))
    assert np.array_equal(np.load("out/uncertainty.npy").squeeze(), fit.std().squeeze().numpy())
    assert record["expected_psnr"] == fit.expected_psnr()
    lower, upper = fit.interval(0.9)
    unknown = ~samples.geometry.known(1)
    covered = ((lower <= picture) & (picture <= upper))[unknown].double().mean()
    assert record["coverage"] == float(covered)
    assert cn.load("out/uncertainty.png").ndim == 3


def test_inpaint_expects_the_psnr_of_the_map(run, picture, tmp_path):
    mask = np.random.default_rng(0).random((16, 16)) < 0.6
    np.save(tmp_path / "mask.npy", mask)
    status, out, _ = run("inpaint", "a.png", "--mask", "mask.npy", *PRIOR, "--uncertainty", "--out", "out")
    assert status == 0
    made = cn.inpaint(picture, mask, prior=cn.Smoothness(), uncertainty=True)
    assert f"expected PSNR {made.expected_psnr:.2f} dB" in out
    assert np.array_equal(np.load("out/uncertainty.npy").squeeze(), made.std.squeeze().numpy())


def test_fit_writes_the_deviation_at_the_nodes(run, tmp_path):
    points = np.random.default_rng(0).random((80, 2))
    rows = np.c_[points, np.sin(5 * points.sum(1))]
    np.savetxt(tmp_path / "p.csv", rows, delimiter=",", header="x,y,value0", comments="")
    status, out, _ = run("fit", "p.csv", "--shape", "8,8", *PRIOR, "--uncertainty", "--out", "out")
    assert status == 0 and "expected PSNR" in out
    assert np.load("out/uncertainty.npy").size == 64


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--sample", "full"), "a lattice with gaps or scattered points"),
        (("--sample", "every:4"), "at least 8 along each axis"),
        (("--solver", "gradient", "--epochs", 1), "a fit in closed form"),
    ],
)
def test_what_has_no_map_is_refused_before_it_is_fitted(run, picture, options, expected, tmp_path):
    status, _, err = run("reconstruct", "a.png", *options, "--uncertainty", "--out", "out")
    assert status == 2 and err.count("\n") == 1
    assert "uncertainty" in err and expected in err
    assert not (tmp_path / "out").exists()
