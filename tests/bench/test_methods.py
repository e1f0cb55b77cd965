"""The tables' settings, and what the cells' methods make of them."""

import math
import pickle
import signal
import subprocess
import sys

import pytest
import torch
from coordnet.fit.plan_cache import PLANS
from scipy.interpolate import RegularGridInterpolator

from coordnet.analysis import stable_rank
from coordnet.bench import noise_peers
from coordnet.bench.protocols import rivals, tables
from coordnet.bench.protocols.methods import KINDS, Case
from coordnet.bench.protocols.models import make_encoding
from coordnet.bench.protocols.rivals import Given, LimitExceeded
from coordnet.bench.protocols.run import Options, cells
from coordnet.bench.protocols.running import run_cell
from coordnet.bench.protocols.tables import EXPERIMENTS
from coordnet.encodings import ComplexEncoding
from coordnet.encodings.registry import ENCODERS
from coordnet.metrics import baselines
from coordnet.metrics.scores import psnr
from coordnet.networks.heads import MLP
from coordnet.networks.network import CoordinateNetwork
from coordnet.sampling.axes import lattice_points
from coordnet.sampling.patterns import sample
from tests.helpers import synthetic_photograph


def methods(name):
    return {method.name: method for _, block in EXPERIMENTS[name].blocks for method in block}


def norms(encoding, samples):
    points = lattice_points(samples.geometry.axes).flatten(0, -2)
    made = encoding(points)
    factors = made if isinstance(made, list) else [made]
    return math.prod(f.norm(dim=-1) for f in factors)


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_every_encoding_matrix_has_a_largest_row_norm_of_one(name):
    samples = sample(torch.rand(48, 48, 3), "every:2")
    for method in methods(name).values():
        if "encoder" in method.settings:
            encoding = make_encoding(method.settings, samples, 0)
            assert float(norms(encoding, samples).max()) == pytest.approx(1, rel=1e-5), method.name


def test_at_the_papers_size_the_settings_are_the_papers():
    picture, cube = (
        sample(torch.rand(512, 512, 3), "every:2"),
        sample(torch.rand(128, 128, 128, 1), "every:2"),
    )
    for name, samples, features in (("table1", picture, 256), ("table3", cube, 64)):
        for method in methods(name).values():
            if method.settings.get("encoding") != "complex" or "scale" not in method.settings:
                continue
            encoding = make_encoding(method.settings, samples, 0)
            assert encoding.shape == (features,) * len(samples.grid)
            (parameter,) = ENCODERS[method.settings["encoder"]].scales
            scales = [encoder.scale(parameter.name) for encoder in encoding.axis_encoders]
            assert scales == pytest.approx([method.settings["scale"]] * len(scales))


def test_a_virtual_grid_keeps_the_scales_of_the_signal(monkeypatch):
    """Half the nodes are twice as far apart: σ of the signal's own 64 samples stays as wide as it was."""
    made = []

    def keep(*arguments):
        made.append(make_encoding(*arguments))
        return made[-1]

    monkeypatch.setattr("coordnet.bench.protocols.methods.make_encoding", keep)
    found = sample(torch.rand(64, 64, 1), "random:0.25", generator=torch.Generator().manual_seed(0))
    for name in ("gaussian", "logf"):
        method = methods("table2")[f"closed form, complex {name}, smooth prior"]
        KINDS["closed form"](Case(found, 0, None, 0.0, torch.rand(64, 64, 1)), {**method.settings, "of": 64})
        assert made[-1].shape == (32, 32)
        scales = [encoder.scale(ENCODERS[name].scales[0].name) for encoder in made[-1].axis_encoders]
        assert scales == pytest.approx([method.settings["scale"]] * 2)


def test_the_papers_mlp_has_the_parameters_that_they_count():
    samples = sample(torch.rand(64, 64, 3), "every:2")
    for name, method in methods("table1").items():
        if name.startswith("MLP"):
            head = MLP(method.settings["depth"], method.settings["width"])
            network = CoordinateNetwork(make_encoding(method.settings, samples, 0), head, 3)
            assert network.parameter_count == 329_475


def test_scales_are_kept_in_pixels():
    """An encoding on half the grid is the first half of the whole one's, feature for feature."""
    method = methods("table1")["closed form, complex gaussian"]
    large, small = (
        make_encoding(method.settings, sample(torch.rand(n, n, 1), "every:2"), 0) for n in (128, 64)
    )
    assert isinstance(large, ComplexEncoding) and isinstance(small, ComplexEncoding)
    x = torch.arange(64, dtype=torch.float64)
    a, b = large.axis_encoders[0](x / 128)[:, :32], small.axis_encoders[0](x / 64)
    assert torch.allclose(a / a.max(), b / b.max(), atol=1e-9)


def test_matched_encoders_have_the_same_stable_rank():
    samples, found = sample(torch.rand(480, 3), "every:2"), {}
    for method in methods("rethinking").values():
        if method.group == "closed form" and 0.005 <= method.settings["matched"] <= 0.02:
            encoding = make_encoding({**method.settings, "features": 4096}, samples, 0)
            rank = stable_rank(encoding.axis_encoders[0](samples.geometry.axes[0].points()))
            found.setdefault(method.settings["matched"], {})[method.settings["encoder"]] = rank
    assert found
    for pair in found.values():  # a finite draw stays below
        assert 0.7 * pair["gaussian"] < pair["rff"] < 1.02 * pair["gaussian"]


def test_torch_s_bicubic_and_trilinear_are_at_the_right_positions():
    """Trilinear is the linear spline; bicubic reproduces a ramp inside, and the samples everywhere."""
    cube = sample(torch.rand(12, 10, 8, 2), "every:2")
    assert torch.allclose(rivals.by_torch(Given(cube)), baselines.linear(cube), atol=1e-6)
    y, x = torch.meshgrid(torch.arange(40.0), torch.arange(31.0), indexing="ij")
    ramp = (0.01 * y + 0.02 * x).unsqueeze(-1)
    made = rivals.by_torch(Given(sample(ramp, "every:2")))
    assert made.shape == ramp.shape
    assert torch.allclose(made[4:-6, 4:-6], ramp[4:-6, 4:-6], atol=1e-5)
    assert torch.allclose(made[::2, ::2], ramp[::2, ::2], atol=1e-6)


@pytest.mark.parametrize(("method", "tolerance"), [("linear", 1e-10), ("cubic", 1e-4)])
def test_splines_in_three_dimensions_are_regular_grid_interpolator(method, tolerance):
    """SciPy solves for its cubic spline by iteration."""
    samples = sample(torch.rand(16, 14, 12, 1, dtype=torch.float64), "every:2")
    axes = [axis.points().numpy() for axis in samples.geometry.axes]
    peer = RegularGridInterpolator(axes, samples.values[..., 0].numpy(), method=method)
    targets = torch.stack(
        torch.meshgrid(*(torch.arange(n).double() / n for n in samples.grid), indexing="ij"), -1
    ).double()
    ends = torch.tensor([axis[-1] for axis in axes])
    inside = (slice(0, 15), slice(0, 13), slice(0, 11))
    made = rivals.RIVALS[method](Given(samples))[inside][..., 0]
    assert torch.allclose(made, torch.from_numpy(peer(targets[inside].minimum(ends).numpy())), atol=tolerance)


def test_a_rival_beyond_its_limit_is_stopped():
    picture = sample(synthetic_photograph(20, 20), "random:0.5")
    with pytest.raises(LimitExceeded, match="0.2 s"):
        rivals.limited("biharmonic", Given(picture), 0.2)
    with pytest.raises(RuntimeError, match="whole lattice"):
        rivals.limited("torch", Given(picture), 60.0)
    made, seconds = rivals.limited("nearest", Given(picture), 60.0)
    assert torch.equal(made, baselines.nearest(picture))
    assert 0 < seconds < 60


def test_a_rival_whose_run_was_killed_ends_at_its_limit():
    task = pickle.dumps(("biharmonic", Given(sample(torch.rand(256, 256, 1), "random:0.1")), 1))
    done = subprocess.run(
        [sys.executable, "-m", rivals.__name__], input=task, capture_output=True, timeout=60
    )
    assert done.returncode == -signal.SIGALRM


def test_total_variation_with_hindsight_is_never_below_a_fixed_weight():
    clean = synthetic_photograph(32, 32)
    noisy = clean + 0.1 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    samples = sample(noisy)
    best = psnr(rivals.total_variation(Given(samples, 0.1, clean)), clean)
    from skimage.restoration import denoise_tv_chambolle

    for weight in noise_peers.WEIGHTS:
        one = denoise_tv_chambolle(noisy.double().numpy(), weight=weight * 0.1, channel_axis=-1)
        assert best >= psnr(torch.from_numpy(one).float(), clean) - 1e-6
    assert best > psnr(noisy, clean) + 1
    for rival in (rivals.wavelet, rivals.non_local_means):
        assert psnr(rival(Given(samples, 0.1)), clean) > psnr(noisy, clean) + 1


def test_a_masked_prior_between_strided_samples_is_near_linear_interpolation_of_a_photograph():
    picture = synthetic_photograph(64, 64)
    samples = sample(picture, "every:2")
    held_out = ~samples.geometry.known(3)
    made = KINDS["closed form"](
        Case(samples, 0, None, 0.0, picture), methods("table1")["closed form, smooth prior"].settings
    )
    linear = psnr(baselines.linear(samples), picture, held_out)
    assert psnr(made.estimate, picture, held_out) > linear - 0.2
    assert made.seconds["fit"] > 0


def test_the_factorisation_is_in_the_seconds_of_every_fit():
    """Were plans kept, all repeats but the first would find them."""
    PLANS.clear()
    picture = synthetic_photograph(48, 48)
    case = Case(sample(picture, "every:2"), 0, None, 0.0, picture)
    KINDS["closed form"](case, {"encoding": "complex", "encoder": "gaussian"})
    assert PLANS.misses == 0


def test_held_out_and_fitted_are_never_mixed(folder):
    """The nearest sample is exact on the samples, and has an error elsewhere; with noise the clean signal decides."""
    cell = next(c for c in cells("table1", Options(folder)) if c.method.name == "nearest sample")
    record = run_cell(cell)
    picture = cell.signal.load()
    held_out = torch.ones(picture.shape, dtype=torch.bool)
    held_out[::2, ::2] = False
    estimate = baselines.nearest(sample(picture, "every:2"))
    assert record["psnr"] == {
        "held_out": pytest.approx(psnr(estimate, picture, held_out)),
        "fitted": None,
        "clean": None,
    }
    noisy = next(c for c in cells("noise", Options(folder)) if c.method.name == "the noisy picture")
    record = run_cell(noisy)
    assert record["psnr"]["held_out"] is None and record["psnr"]["fitted"] is None
    assert record["psnr"]["clean"] == pytest.approx(-20 * math.log10(noisy.task.noise), abs=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_cell_of_every_table_runs(name, folder):
    """On tiny signals nothing fails but what SciPy cannot do."""
    kept = [
        c
        for c in cells(name, Options(folder, quick=True, images=1, epochs=1))
        if "limit" not in c.method.settings
    ]
    assert len({cell.key for cell in kept}) == len(kept)
    reasons = {r["reason"] for r in map(run_cell, kept) if r["status"] == "failed"}
    assert reasons <= {"ValueError: SciPy's griddata has no such method here, or too many points for it"}


def test_keys_do_not_change_by_accident(folder):
    """What is recorded stays recorded: a change of a setting here runs every cell of a table again."""
    assert tables.TABLE_1.epochs == tables.TABLE_2.epochs == 2000 and tables.TABLE_3.epochs == 500
    cell = next(c for c in cells("table1", Options(folder)) if c.method.name == "MLP, simple rff")
    expected = {"encoding": "simple", "encoder": "rff", "scale": 14.0, "of": 512, "features": 512}
    assert {k: cell.configuration()["method"][k] for k in expected} == expected
    assert cell.configuration()["method"]["lr"] == 5e-3
