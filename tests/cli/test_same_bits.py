"""The library and the command: the same signal and seed give the same bits."""

from pathlib import Path

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.fitting.fit import EncoderChoice
from coordnet.media import read_media, write_media
from tests.helpers import synthetic_photograph

SEED = 3
KNOWN = np.random.default_rng(0).random((24, 20)) < 0.9


@pytest.fixture
def command(run, tmp_path):
    """Run a command on a picture of 8 bits: its written result, its model, and the picture as people have it."""

    def command(name, *options, channels=3, signal=None):
        signal = synthetic_photograph(24, 20, channels) if signal is None else signal
        write_media(signal, tmp_path / "a.png", depth="uint8")
        np.save(tmp_path / "mask.npy", KNOWN)
        status, _, err = run(name, "a.png", *options, "--out", "out", "--seed", SEED, "--quiet")
        assert (status, err) == (0, "")
        given = (read_media(tmp_path / "a.png").signal * 255).round().byte().numpy()
        written = (read_media(next(Path("out").glob("re*.png"))).signal * 255).round().byte().numpy()
        return written, cn.Reconstruction.load("out/model.safetensors"), given

    return command


def same(written, model, made):
    assert np.array_equal(np.atleast_3d(made.signal), written)
    assert torch.equal(model.render(), made.fit.render())


PRIORS = [
    ((), "auto"),
    (("--prior", "adaptive:rounds=1"), cn.Adaptive(rounds=1)),
    (("--prior", "local:rounds=1"), cn.Local(rounds=1)),
    (("--prior", "smooth:power=2"), cn.Smoothness(2.0)),
]


@pytest.mark.parametrize(("options", "prior"), PRIORS)
def test_inpaint(command, options, prior):
    written, model, given = command("inpaint", "--mask", "mask.npy", *options)
    same(written, model, cn.inpaint(given, KNOWN, prior=prior, seed=SEED))


@pytest.mark.parametrize(("channels", "factor"), [(1, 1.5), (3, 2.5), (4, 2.0)])
def test_upscale(command, channels, factor):
    written, model, given = command("upscale", "--factor", factor, channels=channels)
    same(written, model, cn.upscale(given[..., 0] if channels == 1 else given, factor))


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--sigma", 0.1)])
def test_denoise(command, options):
    noisy = synthetic_photograph(12, 14) + 0.1 * torch.randn(12, 14, 3, generator=torch.Generator().manual_seed(0))
    written, model, given = command("denoise", *options, signal=noisy.clamp(0, 1))
    same(written, model, cn.denoise(given, *options[1:], seed=SEED))


@pytest.mark.parametrize(("options", "prior"), PRIORS[:2])
def test_demosaic(command, options, prior):
    signal = synthetic_photograph(8, 8, 1)
    written, model, given = command("demosaic", "--pattern", "GRBG", *options, signal=signal)
    same(written, model, cn.demosaic(given[..., 0], "GRBG", prior=prior, seed=SEED))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "choices"),
    [
        ((), {}),
        (("--sample", "every:2"), {}),
        (("--encoder", "triangle", "--prior", "smooth:power=2"), {"encoder": cn.Triangle, "prior": cn.Smoothness(2.0)}),
        (("--encoder", "rff:sigma=5"), {"encoder": EncoderChoice(cn.encoders.RandomFourier, {"sigma": 5.0})}),
        (("--head", "mlp:width=8", "--epochs", 2), {"head": cn.MLP(width=8), "epochs": 2}),
        (("--encoder", "hash-grid", "--epochs", 2), {"encoder": cn.encoders.HashGrid, "epochs": 2}),
    ],
)
def test_reconstruct(command, options, choices):
    pattern = options[1] if options[:1] == ("--sample",) else "random:0.25"
    asked = options if options[:1] == ("--sample",) else ("--sample", pattern, *options)
    _, model, given = command("reconstruct", *asked)
    generator = torch.Generator().manual_seed(SEED)
    fit = cn.fit(cn.sample(given, pattern, generator=generator), generator=generator, **choices)
    assert torch.equal(model.render(), fit.render())


def test_fit(run, tmp_path):
    points = torch.rand(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = torch.cat([points, (points[:, :1] * 5).sin()], dim=1)
    np.savetxt(tmp_path / "a.csv", rows.numpy(), delimiter=",")
    options = ("--shape", "16,12", "--bounds", "0,1,0,1", "--seed", SEED, "--out", "out", "--quiet")
    assert run("fit", "a.csv", *options)[0] == 0
    rows = torch.from_numpy(np.loadtxt(tmp_path / "a.csv", delimiter=","))
    unit = rows[:, [1, 0]] * (torch.tensor([16, 12]) - 1) / torch.tensor([16.0, 12.0], dtype=torch.float64)
    samples = cn.Samples(cn.ScatteredPoints((16, 12), unit), rows[:, 2:].float())
    fit = cn.fit(samples, generator=torch.Generator().manual_seed(SEED))
    assert torch.equal(cn.Reconstruction.load("out/model.safetensors").render(), fit.render())
