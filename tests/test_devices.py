"""Public calls on a GPU, against the same on the CPU: on a pretended one, or with ``--device cuda`` on a real one."""

import contextlib
import json
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from torch.utils._python_dispatch import _disable_current_modes

import coordnet as cn
from coordnet.bench import attention_study, classification, series
from coordnet.bench.records import Options
from coordnet.cli.specs import choose_device
from coordnet.encodings.encoders import RandomFourier
from coordnet.linalg.conjugate_gradients import ConjugateGradients, StepRecorder
from coordnet.linalg.machine import full_precision, lower_median
from coordnet.metrics.baselines import BASELINES
from coordnet.noise.mosaics import mosaic_noise
from coordnet.plans.modes import FourierModes
from coordnet.plans.systems import ModesSystem
from coordnet.priors.least_squares import LeastSquares
from coordnet.priors.stack import Stack
from coordnet.sampling import Lattice, MaskedLattice, Measurements, Samples, ScatteredPoints, sample
from coordnet.sampling.forward import ForwardModel
from coordnet.sampling.operators import Blur, FourierSamples
from coordnet.sampling.patterns import Bayer
from tests.pretend import OnGpu, Refused, pretend_cuda, tf32

N = 10
PATTERNS = ("full", "every:2", "random:0.4", "entries:0.5", "bayer:RGGB", "scattered:0.3", "area:2")
SMOOTH = cn.Smoothness(1.5, 0.01)
ADAPTIVE = cn.Adaptive(starts=(cn.Smoothness(2.5, 0.003),), rounds=1)
LOCAL = cn.Local(pilot=ADAPTIVE, rounds=1)


@pytest.fixture
def device(request):
    """The device under test: ``cuda`` of a pretended GPU, or the real one of ``--device``."""
    asked = request.config.getoption("--device")
    if asked == "pretend" and torch.version.cuda is not None:
        pytest.skip("a build of PyTorch for CUDA has no pretended device: pass --device cuda")
    with pretend_cuda() if asked == "pretend" else contextlib.nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield "cuda" if asked == "pretend" else asked


@pytest.fixture
def deterministic():
    """PyTorch refuses what is not deterministic."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def pretended(device):
    """The counters of the pretended GPU."""
    if not isinstance(torch.zeros(1, device=device), OnGpu):
        pytest.skip("counts and rounding of the pretended device")
    return OnGpu.gpu


def picture(n=N):
    x = torch.linspace(0, 1, n, dtype=torch.float64)
    waves = [torch.sin(9 * (x[:, None] * x + c)) + 0.2 * torch.cos(40 * x) for c in (0.0, 0.3, 0.7)]
    return torch.stack(waves, -1) / 3 + 0.5


def seeded(device="cpu"):
    return torch.Generator(device).manual_seed(0)


def mask(n=N):
    return torch.rand(n, n, generator=seeded()) < 0.5


def on(samples, device):
    return Samples(samples.geometry, samples.values.to(device))


def points(count=60):
    return torch.rand(count, 2, dtype=torch.float64, generator=seeded()) * 0.9


def fitted(samples, prior):
    """A fit that stops early: on the pretended device a step takes milliseconds."""
    solver = ConjugateGradients(tolerance=0.03, steps=30)
    return cn.fit_closed_form(cn.FourierEncoding.like(samples), samples, prior, solver=solver)


def here(work, *arguments):
    """The result of some work on the CPU, without the rules of the pretended GPU, which take longer."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        return work(*arguments)


def near(found, expected, most=1e-2):
    """Whether values are those of the CPU: residuals are looked at less often on a GPU, which stops a step later."""
    assert found.shape == expected.shape
    assert float((found.cpu() - expected).square().mean().sqrt()) < most


# -- sampling ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", [*PATTERNS, "mask", "mask there", "NumPy mask"])
def test_a_signal_there_is_sampled_there(device, pattern):
    masks = {"mask": mask(), "mask there": mask().to(device), "NumPy mask": mask().numpy()}
    found = sample(picture().to(device), masks.get(pattern, pattern), generator=seeded())
    here = sample(picture(), mask() if pattern in masks else pattern, generator=seeded())
    assert found.values.is_cuda
    assert torch.allclose(found.values.cpu(), here.values, rtol=1e-12, atol=0)  # means over cells are rounded there


@pytest.mark.parametrize("pattern", ["random:0.4", "scattered:0.3"])
def test_the_generator_may_be_there_or_here(device, pattern):
    kept = sample(picture().to(device), pattern, generator=seeded()).values
    assert torch.equal(kept.cpu(), sample(picture(), pattern, generator=seeded()).values)
    if not isinstance(kept, OnGpu):  # a CPU build has no generators on CUDA
        assert sample(picture().to(device), pattern, generator=seeded(device)).values.shape == kept.shape


def test_missing_values_there_are_unknown(device):
    holed = torch.where(mask()[..., None], picture(), torch.nan)
    for pattern in ("full", "random:0.5"):
        there, here = (sample(values, pattern, generator=seeded()).values for values in (holed.to(device), holed))
        assert torch.equal(there.cpu(), here)


# -- fits --------------------------------------------------------------------------------------------------------------

FITS = {
    **{f"{p} smooth": (p, SMOOTH) for p in PATTERNS},
    "area:2 local": ("area:2", replace(LOCAL, patch=(4, 4))),  # others are counted below
    **{f"{p} plates": (p, cn.ThinPlate(order=2, cutoff=1.0)) for p in ("random:0.4", "scattered:0.3")},
    "full auto": ("full", "auto"),
    "random:0.4 stack": ("random:0.4", Stack((SMOOTH, cn.ThinPlate(order=2, cutoff=1.0)))),
    "every:2 none": ("every:2", None),
    "random:0.4 huber": ("random:0.4", replace(SMOOTH, loss="huber")),
}


def test_spectra_are_learned_there(device):
    """Those of masks and mosaics are learned there for the pilots of local priors."""
    samples = sample(picture(8), "area:2")
    found = fitted(on(samples, device), ADAPTIVE).render()
    assert found.is_cuda
    near(found, fitted(samples, ADAPTIVE).render(), 5e-2)


@pytest.mark.parametrize("name", FITS)
def test_fits_there_are_those_of_the_cpu(device, name):
    pattern, prior = FITS[name]
    samples = sample(picture(), pattern)
    found = cn.fit(on(samples, device), prior=prior).render()
    assert found.is_cuda
    near(found, cn.fit(samples, prior=prior).render(), 5e-2 if pattern == "random:0.4" else 1e-2)


@pytest.mark.slow
def test_missing_frames_are_moved_there(device):
    clip = picture(12).movedim(-1, 0)[:1].repeat(7, 1, 1)
    moving = torch.stack([frame.roll(t, -1) for t, frame in enumerate(clip)])[..., None]
    every_second = (torch.arange(7) % 2 == 0)[:, None, None].expand(7, 12, 12)
    for prior in (cn.Motion(), "auto"):
        samples = sample(moving, every_second)
        found = cn.fit(on(samples, device), prior=prior).render()
        assert found.is_cuda
        near(found, cn.fit(samples, prior=prior).render(), 5e-2)


def test_weights_and_points_may_be_on_either_side(device):
    values, weights = sample(picture(), mask()).values, mask().double()[..., None]
    expected = cn.fit(Samples(MaskedLattice((N, N), weights=weights), values), prior=SMOOTH).render()
    for placed in (weights, weights.to(device)):
        geometry = MaskedLattice((N, N), weights=placed)
        near(cn.fit(Samples(geometry, values.to(device)), prior=SMOOTH).render(), expected)
    expected = cn.fit(Samples(ScatteredPoints((N, N), points()), points()), prior=SMOOTH)(points(7))
    for placed in (points(), points().to(device)):
        fit = cn.fit(Samples(ScatteredPoints((N, N), placed), points().to(device)), prior=SMOOTH)
        near(fit(points(7).to(device)), expected)


@pytest.mark.parametrize("operator", [Blur(torch.ones(3, 3, dtype=torch.float64) / 9, (8, 8)), FourierSamples(mask(8))])
def test_measurements_there(device, operator):
    values = operator(picture(8).movedim(-1, 0)).movedim(0, -1)
    found = fitted(Measurements(operator, values.to(device), sigma=0.1), ADAPTIVE).render()
    near(found, fitted(Measurements(operator, values, sigma=0.1), ADAPTIVE).render(), 5e-2)


def test_an_array_with_coordinates_is_fitted_there(device):
    x = np.sqrt(np.arange(1, N + 1))
    samples = cn.RectilinearLattice(x, x).sample(picture())
    fit = cn.fit(on(samples, device), prior=None, encoder=cn.Gaussian)
    near(fit.at(x[2:5], x[3:6]), cn.fit(samples, prior=None, encoder=cn.Gaussian).at(x[2:5], x[3:6]), 1e-6)


def test_values_of_another_device_are_refused(device):
    here, there = (cn.plan(gaussian(), Lattice((N, N)), LeastSquares(), device=d) for d in ("cpu", device))
    with pytest.raises(ValueError, match=r"`values`: expected cuda:\d, the device of the plan, received cpu"):
        there.fit(picture().float())
    with pytest.raises(ValueError, match=r"`values`: expected cpu, the device of the plan, received cuda:\d"):
        here.fit(picture().float().to(device))


def test_a_plan_names_its_device_with_its_number(device):
    made = cn.plan(gaussian(), Lattice((N, N)), LeastSquares(), device=device)
    assert made.device == torch.zeros(1).to(device).device
    assert made.device.index is not None


# -- evaluation, intervals, files --------------------------------------------------------------------------------------


def test_a_fit_is_evaluated_where_it_is(device):
    samples = sample(picture(), "random:0.5")
    there, here = cn.fit(on(samples, device), prior=SMOOTH), cn.fit(samples, prior=SMOOTH)
    along = torch.linspace(0, 0.8, 5, dtype=torch.float64)
    near(there.render((30, 20)), here.render((30, 20)))
    near(there.render((5, 7), footprint="area"), here.render((5, 7), footprint="area"))
    near(there.at(along, along), here.at(along, along))
    near(there(points(9)), here(points(9)))  # points follow the fit


@pytest.mark.parametrize("prior", [SMOOTH, ADAPTIVE], ids=lambda prior: prior.name)
def test_a_fit_that_was_moved_is_drawn_from(device, prior):
    samples = sample(picture(8), "random:0.6")
    expected = fitted(samples, prior).draw(1, generator=seeded())
    directions = ((samples, device), (on(samples, device), "cpu"))
    for given, target in directions if prior is SMOOTH else directions[:1]:
        fit = fitted(given, prior).to(target)
        drawn = fit.draw(1, generator=seeded())
        assert drawn.device == fit.offset.device
        near(drawn, expected, 5e-2)


def test_intervals_there(device):
    samples = sample(picture(), "random:0.6")
    lower, upper = cn.fit(on(samples, device), prior=SMOOTH).interval(0.8)
    assert lower.is_cuda
    near(upper - lower, torch.sub(*reversed(cn.fit(samples, prior=SMOOTH).interval(0.8))))


def test_a_saved_fit_is_loaded_onto_a_device(device, tmp_path):
    fit = cn.fit(sample(picture().to(device), "random:0.5"), prior=SMOOTH)
    fit.save(tmp_path / "a.safetensors")
    found = cn.Reconstruction.load(tmp_path / "a.safetensors", device)
    assert found.offset.is_cuda
    assert torch.equal(found.render().cpu(), fit.render().cpu())


# -- restorations and comparisons --------------------------------------------------------------------------------------

RESTORED = {
    "inpaint, pattern": lambda x: cn.inpaint(x, "random:0.5", prior=SMOOTH, seed=0),
    "inpaint, NumPy mask": lambda x: cn.inpaint(x, mask(len(x)).numpy(), prior=SMOOTH),
    "denoise, clipped": lambda x: cn.denoise(x[..., :1].clamp(0.3, 0.7), prior=cn.Adaptive()),
    "upscale": lambda x: cn.upscale(x, 2.0, prior=None),
    "upscale, local": lambda x: cn.upscale(x, 2.0),
    "upscale, points": lambda x: cn.upscale(x, 1.5, samples="point", prior=None),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "upscale, local")) for n in RESTORED]
)
def test_signals_there_are_restored_there(device, deterministic, name):
    noisy = picture() + 0.03 * torch.randn(N, N, 3, dtype=torch.float64, generator=seeded())
    found = RESTORED[name](noisy.to(device)).signal
    assert found.is_cuda
    near(found, here(RESTORED[name], noisy).signal)


def grain(x):
    return x + 0.2 * torch.from_numpy(gaussian_filter(np.random.default_rng(0).standard_normal(x.shape), (1.2, 1.2, 0)))


NOISES = {
    "white": (lambda x, z: x + 0.05 * z, "white"),
    "white, one for all channels": (lambda x, z: x + 0.05 * z[..., :1], "colored"),
    "filtered": (lambda x, z: grain(x), "colored"),
    "a camera's": (lambda x, z: x + (0.0004 + 0.02 * x).sqrt() * z, "camera"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISES)
def test_noise_there_is_estimated_and_removed(device, name):
    add, kind = NOISES[name]
    clean = picture(64)
    noisy = add(clean, torch.randn(clean.shape, dtype=torch.float64, generator=seeded()))
    found, model = cn.estimate_noise(noisy.to(device)), cn.estimate_noise(noisy)
    assert (found.kind, model.kind) == (kind, kind)
    near(found.variance(noisy.to(device)), model.variance(noisy))
    part = noisy[:N, :N]
    there = cn.denoise(part.to(device), noise=found, prior=LOCAL).signal
    assert there.is_cuda
    near(there, cn.denoise(part, noise=model, prior=LOCAL).signal, 1e-3)


@pytest.mark.slow
def test_noise_of_skipped_nodes_and_points_are_fitted_there(device):
    noisy = picture(64)[..., :1] + 0.05 * torch.randn(64, 64, 1, dtype=torch.float64, generator=seeded())
    between = Samples(ScatteredPoints((N, N), points()), points().sin())
    for samples in (sample(noisy, "every:2"), between):
        found = cn.fit(on(samples, device)).render()
        assert found.is_cuda
        near(found, here(cn.fit, samples).render(), 1e-3)


@pytest.mark.slow
def test_noise_of_a_mosaic_there_is_estimated_there(device):
    noisy = (picture(64)[..., :1] + 0.05 * torch.randn(64, 64, 1, dtype=torch.float64, generator=seeded())).clamp(0, 1)
    found, model = (mosaic_noise(x, Bayer("RGGB")) for x in (noisy.to(device), noisy))
    assert model.floor + model.gain > 1e-4
    assert (found.floor, found.gain) == pytest.approx((model.floor, model.gain), rel=1e-3)


def test_regrid_takes_its_arrays_here(device):
    xarray = pytest.importorskip("xarray")
    x = np.sqrt(np.arange(1, 7))
    array = xarray.DataArray(picture(6)[..., 0].numpy(), {"y": x, "x": x}, ("y", "x"))
    assert cn.regrid(array, {"x": x[2:5]}, prior=SMOOTH).shape == (6, 3)


def test_comparisons_scores_and_baselines_there(device):
    image = picture().to(device)
    table = cn.compare(image, "every:2", encoders=[cn.Gaussian], heads=[cn.heads.Linear()])
    assert len(table.to_pandas()) > 1
    there, here = (cn.psnr(x, picture().flip(0), mask()) for x in (image, picture()))
    assert there == pytest.approx(here)
    for baseline in BASELINES.values():
        for pattern in ("every:2", "random:0.5"):
            there, here = (sample(x, pattern, generator=seeded()) for x in (image, picture()))
            near(baseline(there), baseline(here), 1e-6)


@pytest.mark.parametrize("pattern", ["random:0.4", "scattered:0.3"])
def test_networks_are_trained_there(device, pattern):
    samples = sample(picture().float().to(device), pattern)
    for encoding, head in (
        (cn.SimpleEncoding.like(RandomFourier, samples), cn.MLP(depth=1, width=8)),
        (cn.ComplexEncoding.like(cn.Gaussian, samples), cn.heads.Linear()),
    ):
        fit = cn.fit_gradient(cn.CoordinateNetwork(encoding, head), samples, epochs=1)
        assert fit.render().is_cuda


# -- plans and graphs --------------------------------------------------------------------------------------------------


def gaussian(n=N):
    return cn.ComplexEncoding.like(cn.Gaussian, Lattice((n, n)))


def direct(device, n=N, prior=None):
    plan = cn.plan(gaussian(n), Lattice((n, n)), prior or LeastSquares(), device=device)
    return plan, picture(n).float().to(device)


@pytest.mark.parametrize("prior", [LeastSquares(), SMOOTH], ids=["least squares", "smooth"])
@pytest.mark.parametrize("n", [N, 130])
def test_a_captured_graph_repeats_the_call(device, prior, n, monkeypatch):
    monkeypatch.setattr("coordnet.encodings.designs.CROSSOVER_ON_GPU", 128)  # the longer lattice takes bands
    plan, values = direct(device, n, prior)
    render = plan.renderer((n + 5, n))
    fitted, rendered = plan.capture(values), render.capture(values)
    other = values.flip(0)
    near(fitted(other).render((n + 5, n)), render(other).cpu(), 1e-5)
    near(rendered(other), render(other).cpu(), 1e-5)
    assert torch.equal(values, other.flip(0))
    for unlike in (values[1:], values.double()):
        with pytest.raises(ValueError, match=r"`values`: expected shape \(.*\) of torch.float32"):
            rendered(unlike)
    here, _ = direct("cpu", n, prior)
    near(render(other), here.renderer((n + 5, n))(other.cpu()), 1e-4)


@pytest.mark.slow
def test_recorded_steps_solve_as_those_taken_one_by_one(device):
    """The first of solves with other weights and penalties is recorded, and the others repeat its kernels."""
    samples = sample(picture(), "random:0.5", generator=seeded())
    modes = FourierModes(cn.FourierEncoding.like(samples), dtype=torch.float64, device=device)
    values, weights = samples.values.movedim(-1, 0)[None].to(device), samples.geometry.weights.movedim(-1, 0)[None]
    recorder, whole = StepRecorder(), ForwardModel.mask(weights.double().to(device))
    for factor, tolerance in ((1.0, 1e-6), (0.3, 1e-8), (2.0, 1e-7)):
        measurement = whole.reweighted(torch.full_like(whole.weights, factor))
        system = ModesSystem(modes, measurement, factor**2 * SMOOTH.penalty(modes))
        replayed = system.solve(factor * values, tolerance=tolerance, recorder=recorder)
        one_by_one = system.solve(factor * values, tolerance=tolerance)
        assert replayed.converged and abs(replayed.iterations - one_by_one.iterations) <= 5
        assert float((replayed.x - one_by_one.x).abs().max()) < 1e-5
    assert not system.solve(values, tolerance=1e-7, steps=3, recorder=recorder).converged


def test_a_plan_that_iterates_has_no_graph(device):
    geometry = MaskedLattice((N, N), weights=mask().float()[..., None])
    plan = cn.plan(cn.FourierEncoding.like(sample(picture(), mask())), geometry, SMOOTH, device=device)
    with pytest.raises(ValueError, match="takes no iteration"):
        plan.capture(picture().float().to(device))


def test_direct_fits_never_wait(pretended):
    plan, values = direct("cuda")
    render = plan.renderer((2 * N, 2 * N))
    render(values), plan.fit(values).render()
    before = pretended.launches, pretended.waits
    render(values), plan.fit(values).render((2 * N, 2 * N))
    assert pretended.launches - before[0] <= 34 and pretended.waits == before[1]


def cold(samples, encoder, prior):
    return cn.plan(cn.ComplexEncoding.like(encoder, samples), samples.geometry, prior, device=samples.values.device)


COUNTED = {  # the most launches and waits: a tenth more than they were when this was written
    "grid": (lambda x: cold(sample(x, "full"), cn.Gaussian, LeastSquares()).renderer((32, 32))(x), 85, 7),
    "smooth": (
        lambda x: cold(s := sample(x, "random:0.5", generator=seeded()), cn.Triangle, SMOOTH).fit(s.values).render(),
        650,
        24,
    ),
    "adaptive": (lambda x: fitted(sample(x, "random:0.5", generator=seeded()), ADAPTIVE).render(), 1_040, 172),
    "local": (lambda x: fitted(sample(x, "random:0.5", generator=seeded()), LOCAL).render(), 4_350, 336),
    "local, every:2": (lambda x: cn.fit(sample(x, "every:2"), prior=LOCAL).render(), 3_020, 171),
    "demosaic": (lambda x: cn.demosaic(x[..., 0], "RGGB", prior=LOCAL).signal, 3_810, 475),
    "denoise": (lambda x: cn.denoise(x, 0.05, prior=cn.Local()).signal, 4_790, 242),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTED)
def test_launches_and_waits_do_not_creep_back_and_the_cpu_makes_the_same(device, deterministic, name):
    work, launches, waits = COUNTED[name]
    noisy = picture(16).float() + 0.02 * torch.randn(16, 16, 3, generator=seeded())
    values, counts = noisy.to(device), []
    if isinstance(values, OnGpu):
        counts = [OnGpu.gpu.launches + launches, OnGpu.gpu.waits + waits]
    found = work(values)
    assert not counts or (OnGpu.gpu.launches <= counts[0] and OnGpu.gpu.waits <= counts[1])
    near(found, here(work, noisy), 5e-2 if name in ("adaptive", "local") else 1e-2)


def test_a_smooth_plan_that_is_used_again_launches_less(pretended):
    samples = sample(picture(16).float().to("cuda"), "random:0.5", generator=seeded())
    plan = cold(samples, cn.Triangle, SMOOTH)
    plan.fit(samples.values)
    before = pretended.launches, pretended.waits
    plan.fit(samples.values)
    assert pretended.launches - before[0] <= 455 and pretended.waits - before[1] <= 14


# -- precision and order -----------------------------------------------------------------------------------------------


def test_products_of_ten_bits_do_not_reach_iterations(pretended):
    noisy = (picture(16) + 0.002 * torch.randn(16, 16, 3, dtype=torch.float64, generator=seeded())).float()
    expected = cn.denoise(noisy.to("cuda"), 0.002, prior=cn.Local((4, 4))).signal
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        one = noisy[..., 0]
        assert not torch.equal((one.to("cuda") @ one.to("cuda")).cpu(), one @ one)
        found = cn.denoise(noisy.to("cuda"), 0.002, prior=cn.Local((4, 4))).signal
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert torch.equal(found.cpu(), expected.cpu())


def test_full_precision_is_put_back():
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    with pytest.raises(KeyError), full_precision():
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.backends.cudnn.allow_tf32
        raise KeyError
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == before


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_the_lower_median_is_that_of_torch(n):
    x = torch.randn(3, n, generator=seeded())
    assert torch.equal(lower_median(x), x.median(-1).values)


# -- commands and benches ----------------------------------------------------------------------------------------------


@pytest.fixture
def photo(tmp_path):
    from coordnet.media import write_media

    write_media(picture(16).clamp(0, 1).float(), tmp_path / "photo.png")
    return tmp_path / "photo.png"


COMMANDS = {
    "reconstruct": ["--prior", "smooth"],
    "inpaint": ["--mask", "mask.png", "--prior", "smooth"],
    "denoise": ["--sigma", "0.05", "--prior", "adaptive"],
    "upscale": ["--factor", "2", "--prior", "none"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run_there(device, run, coarse, photo, command):
    from coordnet.media import write_media

    write_media(mask(16).float()[..., None], photo.parent / "mask.png")
    status, out, err = run(command, photo, *COMMANDS[command], "--device", device, "--json", "--out", "out")
    assert status == 0, err
    assert json.loads(out)["device"].startswith("cuda")


def test_plates_are_recorded_on_the_cpu(device, run, coarse, photo):
    status, out, err = run("reconstruct", photo, "--prior", "plates:order=2,cutoff=1", "--device", device, "--json")
    assert status == 0, err
    assert json.loads(out)["device"] == "cpu"


def test_a_device_that_is_absent_is_refused(run, photo):
    count = torch.cuda.device_count()
    _, _, err = run("denoise", photo, "--device", f"cuda:{count + 7}")
    assert f"cuda:{count + 7}" in err and "present" in err


def test_a_gpu_of_an_absent_number_is_refused(pretended):
    assert all(choose_device(name).type == "cuda" for name in ("auto", "cuda", "cuda:0"))
    for name in ("cuda:1", "cuda:x", "cuda:"):
        with pytest.raises(ValueError, match="expected a device that is present, received .*CUDA devices 0 to 0"):
            choose_device(name)


@pytest.mark.parametrize("study", [attention_study.Attention, series.Series])
def test_classifications_are_trained_there(device, study):
    pytest.importorskip("sklearn")
    task = study.tasks[0]
    row, choices = task.rows[-1], dict(task.first)
    cell = study()._cell(task, row, 0, choices, Options(epochs=1, device=device))
    assert cell.configuration()["device"] == device
    parts = task.parts(0, row.axes)
    few = classification.Part(*(x[:8] for x in parts.training)).to(device)
    net = classification.train(task, row, choices, few, seed=0, epochs=1)
    assert classification.guesses(net, few).is_cuda


@pytest.mark.slow
def test_arithmetic_needs_no_reader_of_files():
    code = """
import sys
sys.modules.update(dict.fromkeys(("av", "imageio", "PIL", "tifffile", "skimage", "matplotlib", "zarr")))
import torch, coordnet as cn
plates = cn.ThinPlate(order=2, cutoff=1.0)
for pattern, prior in (("full", "auto"), ("every:2", None), ("random:0.5", "auto"), ("scattered:0.3", plates)):
    cn.fit(cn.sample(torch.rand(6, 6, 1), pattern), prior=prior).render()
cn.denoise(torch.rand(10, 10, 1), 0.05, prior=cn.Adaptive())
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code]).returncode == 0


# -- the pretended device itself ---------------------------------------------------------------------------------------


def test_the_pretended_device_keeps_the_rules(pretended):
    here, there = torch.ones(3), torch.ones(3).to("cuda")
    for wrong in (
        lambda: here + there,
        lambda: torch.randn(3, generator=seeded(), device="cuda"),
        lambda: here[there > 0],
    ):
        with pytest.raises(Refused):
            wrong()
    with pytest.raises(TypeError, match="numpy"):
        there.numpy()
    assert (there + 1.0).is_cuda and (there * torch.tensor(2.0)).is_cuda
    pretended.recorded = []
    with pytest.raises(Refused, match="capturing"):
        float(there[0])
    pretended.recorded = None


def test_ten_bits_of_mantissa():
    x = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-12, -3.0])
    assert tf32(x).tolist() == [1.0, 1 + 2**-10, 1.0, -3.0]
