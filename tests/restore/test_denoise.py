import math

import pytest
import torch
from scipy.ndimage import gaussian_filter

import coordnet as cn
from coordnet._checks import CoordnetWarning
from coordnet.linalg.borders import make_periodic, reflect
from coordnet.noise.white import noise_level
from coordnet.noise.wiener import _local, side_by_side, window_root, window_shape
from coordnet.restore.cleaners import Noise, cleaned
from coordnet.restore.denoise_choice import weighed
from tests.helpers import synthetic_photograph


def noisy(signal, sigma, seed=0):
    return signal + sigma * torch.randn(signal.shape, generator=torch.Generator().manual_seed(seed))


def test_mirroring_is_numpy_s_reflection():
    import numpy as np

    f = torch.rand(1, 2, 5, 1, 3)
    expected = np.pad(f.numpy(), ((0, 0), (0, 0), (7, 12), (0, 0), (1, 0)), mode="reflect")
    assert torch.equal(reflect(f, (7, 0, 1), (12, 0, 0)), torch.from_numpy(expected))
    assert torch.equal(reflect(f, (0, 2, 0), (0, 1, 0)), f.expand(1, 2, 5, 1, 3).repeat(1, 1, 1, 4, 1))


def test_a_closed_signal_keeps_its_place_and_moves_no_faster_across_the_border():
    f = torch.linspace(0, 1, 30).reshape(1, 1, 30)
    period = make_periodic(f, (50,))
    assert torch.equal(period[..., :30], f)
    steps = torch.cat([period, period[..., :1]], dim=-1).diff().abs()
    assert float(steps.max()) < 0.08  # beside zeros: 1
    assert torch.equal(make_periodic(f, (30,)), f)


@pytest.mark.parametrize(("shape", "shifts"), [((4, 6), (1, 3)), ((4, 1), (0, 0)), ((3, 2, 4), (1, 0, 2))])
def test_tiles_go_back_to_where_they_came_from(shape, shifts):
    f = torch.rand(1, 2, *(17, 19, 9)[: len(shape)])
    tiles = side_by_side(f, shape, shifts).flatten(0, len(shape) - 1)
    first = (slice(None), *(slice(s, s + b) for s, b in zip(shifts, shape, strict=True)))
    assert torch.equal(tiles[0], f[0][first])
    total = torch.zeros_like(f)
    side_by_side(total, shape, shifts).add_(side_by_side(f, shape, shifts))
    inside = total != 0
    assert torch.equal(total[inside], f[inside])
    assert int(inside.sum()) == tiles.numel()


def test_windows_keep_the_variance_of_white_noise():
    assert float(window_root((16, 1, 8)).square().mean()) == pytest.approx(1)


def test_without_noise_the_local_filter_changes_nothing():
    f = torch.rand(1, 2, 37, 50)
    assert window_shape((37, 50)) == (32, 32)
    assert torch.allclose(_local(f, f, torch.full((1, 2, 1, 1), 1e-12)), f, atol=1e-4)


@pytest.mark.parametrize("sigma", [0.03, 0.1])
def test_a_photograph_gains_and_the_expected_error_is_near_the_true_one(sigma, monkeypatch):
    truth = synthetic_photograph(96, 80)
    y = noisy(truth, sigma)
    fit = cn.denoise(y, sigma, prior=cn.Adaptive()).fit
    score = cn.psnr(fit.render(), truth, clip=False)
    assert score > cn.psnr(y, truth, clip=False) + 7
    assert fit.report.expected_psnr == pytest.approx(score, abs=1)
    monkeypatch.setattr("coordnet.noise.wiener.PASSES", 0)
    assert score > cn.psnr(cn.denoise(y, sigma, prior=cn.Adaptive()).signal, truth, clip=False) + 0.3


@pytest.mark.parametrize(("factor", "offset"), [(2.0, -1.0), (600.0, -20.0), (1e-8, 0.0)])
def test_the_expected_error_is_against_the_signal_s_own_range(factor, offset):
    truth = factor * synthetic_photograph(96, 80) + offset
    made = cn.denoise(noisy(truth, 0.1 * factor), 0.1 * factor, prior=cn.Adaptive())
    score = cn.psnr(made.signal, truth, data_range=float(truth.max() - truth.min()))
    assert made.expected_psnr == made.fit.report.expected_psnr == pytest.approx(score, abs=1.5)


@pytest.mark.parametrize("prior", [cn.Local(), cn.Adaptive()], ids=["local", "adaptive"])
def test_a_given_sigma_is_used_where_the_finest_details_hide_the_noise_and_values_are_clipped(prior):
    """Compression leaves noise without high frequencies; values without an end that many share have the same answer."""
    photograph = synthetic_photograph(64, 64, 1)
    truth = (1.1 * photograph / photograph.max()).clamp(0, 1)
    noise = noisy(torch.zeros(1, 67, 67), 0.16)
    for _ in range(3):
        noise = torch.nn.functional.avg_pool2d(noise, 2, 1)
    y = (255 * (truth + noise.movedim(0, -1)).clamp(0, 1)).round() / 255
    dithered = y + (torch.rand(y.shape, generator=torch.Generator().manual_seed(1)) - 0.5) / 255
    assert int((y == 1).sum()) > 40
    with pytest.warns(CoordnetWarning, match="`sigma`: 0.05 is used as given, though .* noise of 0.0") as warned:
        made, same = (cn.denoise(x, 0.05, prior=prior) for x in (y, dithered))
    assert made.report.sigma == 0.05 and not any("contextlib" in each.filename for each in warned)
    assert cn.psnr(made.signal, same.signal.clamp(0, 1)) > 38


@pytest.mark.parametrize("sigma", [0.02, 0.1])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_noise_is_estimated(sigma, channels):
    y = noisy(synthetic_photograph(112, 112, channels), sigma)
    assert noise_level(y) == pytest.approx(sigma, rel=0.1)
    assert cn.denoise(y, prior=cn.Adaptive()).report.sigma == noise_level(y)


def test_a_steep_slope_is_no_noise():
    slope = torch.arange(300.0).unsqueeze(-1)
    assert noise_level(noisy(slope, 1.0)) == pytest.approx(1, rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("grid", [(300,), (5, 6, 7), (1, 40), (40, 1), (3, 5), (1, 1), (3, 4, 3, 4)])
def test_any_number_of_axes(grid, monkeypatch):
    monkeypatch.setattr("coordnet.noise.wiener.PADDING", 4)
    truth = torch.zeros(*grid, 2) + torch.sin(3 * torch.linspace(0, 1, grid[-1])).unsqueeze(-1)
    y = noisy(truth, 0.1)
    made = cn.denoise(y, 0.1, alpha=False).signal
    assert made.shape == y.shape
    assert float((made - truth).square().mean()) <= float((y - truth).square().mean()) + 1e-4


def test_a_constant_comes_back_and_so_does_a_constant_channel():
    constant = torch.full((20, 30, 3), 0.25)
    fit = cn.denoise(constant).fit
    assert torch.allclose(fit.render(), constant, atol=1e-6)
    assert fit.report.sigma == 0
    assert fit.report.expected_psnr is None
    assert torch.allclose(cn.denoise(constant, 0.1).signal, constant, atol=1e-6)
    y = noisy(synthetic_photograph(64, 64), 0.1)
    y[..., 1] = 0.5
    assert torch.allclose(cn.denoise(y, 0.1, prior=cn.Adaptive()).signal[..., 1], torch.tensor(0.5), atol=1e-4)


@pytest.mark.slow
def test_the_middle_decides_the_prior():
    truth = synthetic_photograph(72, 64, 1)
    y = noisy(truth, 0.1)
    made, adaptive = (cn.denoise(y, 0.1, prior=prior) for prior in ("auto", cn.Adaptive()))
    tried, score = made.report.tried, cn.psnr(made.signal, truth, clip=False)
    assert "local" in made.report.prior and "adaptive" not in made.report.prior and tried["local"] < tried["adaptive"]
    assert score > cn.psnr(adaptive.signal, truth, clip=False) + 0.3
    assert made.expected_psnr == pytest.approx(score, abs=2)  # the picture is small and smooth
    flat = noisy(torch.full((100, 100, 1), 0.5), 0.1, seed=1)
    scores = {p: cn.psnr(cn.denoise(flat, 0.1, prior=p).signal, 0 * flat + 0.5) for p in ("auto", cn.Local())}
    assert scores["auto"] > scores[cn.Local()] + 3
    with pytest.raises(ValueError, match="`prior`"):
        cn.denoise(y, prior=cn.Smoothness())
    with pytest.raises(ValueError, match="`prior`: expected auto, or a prior such as"):
        cn.denoise(y, prior="local")


def test_each_prior_is_added_to_those_before_it_by_least_squares():
    """Of independent errors shares are those of inverse variances, and what is hardly better is left out."""
    generator = torch.Generator().manual_seed(0)
    first, second, third = torch.randn(3, 100_000, generator=generator, dtype=torch.float64)
    two = {cn.Adaptive(): first, cn.Local(): second / 2}
    made = weighed(two, 1)
    assert made.priors == (cn.Adaptive(), cn.Local()) and made.weights == pytest.approx((0.2, 0.8), abs=0.01)
    made = weighed(two | {cn.Kriging(): third / 5**0.5}, 1)
    assert made.priors == (cn.Local(), cn.Kriging()) and made.weights == pytest.approx((4 / 9, 5 / 9), abs=0.01)
    assert weighed(two | {cn.Kriging(): two[cn.Local()] / 1e3}, 1) == cn.Kriging()
    assert weighed({cn.Adaptive(): first, cn.Local(): first + second}, 1) == cn.Adaptive()


@pytest.mark.parametrize("axes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_fields_without_edges_take_kriging(axes):
    """It is ahead of a Gaussian filter whose width is the best with hindsight."""
    shape, generator = (64, 60) if axes == 2 else (20, 18, 19), torch.Generator().manual_seed(axes)
    waves = [torch.sin(torch.linspace(0, 5 + j, n, dtype=torch.float64)) for j, n in enumerate(shape)]
    truth = sum(wave.reshape(-1, *(1,) * (axes - 1 - j)) for j, wave in enumerate(waves))[..., None]
    y = truth + 0.2 * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    made = cn.denoise(y, dimensions=axes)
    widths = [[w] * axes + [0] for w in (0.7, 1, 1.4, 2, 2.8, 4)]
    options = {"data_range": 1.0}
    peer = max(cn.psnr(gaussian_filter(y.numpy(), w), truth.numpy(), **options) for w in widths)
    assert "kriging" in made.report.prior
    assert cn.psnr(made.signal, truth, **options) > peer + 2
    assert cn.psnr(cn.denoise(y, dimensions=axes, prior=cn.Kriging()).signal, truth, **options) > peer + 2


@pytest.mark.slow
def test_edges_beyond_the_middle_leave_kriging_out(generator):
    """The middle alone takes it."""
    slope = torch.linspace(0, 1, 200, dtype=torch.float64)
    truth = (torch.sin(5 * slope)[:, None] + torch.cos(4 * slope)).unsqueeze(-1)
    truth[:30] = (torch.arange(200) // 5 % 2)[None, :, None].double()
    y = truth + 0.1 * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    whole, part = (cn.denoise(z, 0.1).report.prior for z in (y, y[36:164, 36:164]))
    assert "kriging" in part and "kriging" not in whole


def test_a_sum_of_priors_has_the_weighted_estimate_and_an_error_without_the_spread():
    clean = synthetic_photograph(48, 40, 1)
    y, noise = noisy(clean, 0.1), Noise(0.1, given=True, seed=0)
    both = cn.Local(), cn.Adaptive()
    (local, first, _, _), (adaptive, second, _, _) = (cleaned(prior, y, noise) for prior in both)
    made, error, _, words = cleaned(cn.Stack(both, (0.25, 0.75)), y, noise)
    assert torch.allclose(made, 0.25 * local + 0.75 * adaptive, atol=1e-6)
    spread = 0.1875 * float((local - adaptive).square().mean())
    assert error == pytest.approx(0.25 * first + 0.75 * second - spread, rel=1e-4)
    truth = [float((f - clean).square().mean()) for f in (local, adaptive, made)]
    assert truth[2] == pytest.approx(0.25 * truth[0] + 0.75 * truth[1] - spread, rel=1e-3)
    assert words == "0.25 local + 0.75 adaptive"


@pytest.mark.parametrize("prior", [cn.Stack((cn.Local(), cn.Adaptive())), cn.Stack((cn.Local(),), (1.0,))])
def test_a_stack_is_weighed_for_noise_by_auto_alone(prior):
    with pytest.raises(ValueError, match="`prior`: expected auto"):
        cn.denoise(noisy(synthetic_photograph(24, 24), 0.1), 0.1, prior=prior)


@pytest.mark.slow
def test_frames_of_a_clip_take_similar_patches_from_each_other():
    photograph = synthetic_photograph(24, 40, 1)
    truth = torch.stack([photograph[:, 2 * t : 2 * t + 24] for t in range(5)])  # the camera moves by two pixels
    y = noisy(truth, 0.1)
    made, frames = cn.denoise(y, 0.1), torch.stack([cn.denoise(frame, 0.1, prior=cn.Local()).signal for frame in y])
    adaptive = cn.denoise(y, 0.1, prior=cn.Adaptive()).signal
    assert made.report.prior == "local"
    assert cn.psnr(made.signal, truth) > max(cn.psnr(other, truth) for other in (frames, adaptive)) + 0.5


def test_only_pictures_for_which_there_is_time_take_the_local_prior(monkeypatch):
    y = noisy(synthetic_photograph(200, 20, 1), 0.1)
    monkeypatch.setattr("coordnet.restore.denoise_choice.LONGEST_FIT", 0.0)
    assert cn.denoise(y, 0.1).report.prior == "adaptive"
    made = cn.denoise(y, 0.1, prior=cn.Local(), largest=3000)
    assert made.report.tiles[0] > 1
    assert float((made.signal - cn.denoise(y, 0.1, prior=cn.Local()).signal).square().mean().sqrt()) < 0.02


def test_it_is_exact_again_and_saved(tmp_path):
    y = noisy(synthetic_photograph(40, 33), 0.05)
    fit = cn.denoise(y, prior=cn.Adaptive()).fit
    assert torch.equal(cn.denoise(y, prior=cn.Adaptive()).signal, fit.render())
    fit.save(tmp_path / "a.safetensors")
    assert torch.equal(cn.Reconstruction.load(tmp_path / "a.safetensors").render(), fit.render())
    assert fit.render((80, 66)).shape == (80, 66, 3)


@pytest.mark.parametrize("prior", [cn.Adaptive(), "auto"])
@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 1e35), (torch.float64, 1e151)])
def test_enormous_values_give_finite_ones(dtype, size, prior):
    result = cn.denoise(size * noisy(synthetic_photograph(16, 20), 0.05).to(dtype), prior=prior)
    assert bool(result.signal.isfinite().all())
    assert result.expected_psnr is None or math.isfinite(result.expected_psnr)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 3e38])
def test_it_refuses_what_is_not_finite_or_would_not_be(bad):
    y = torch.zeros(4, 4, 1)
    y[1, 2] = bad
    with pytest.raises(ValueError, match="`signal`"):
        cn.denoise(y)
    with pytest.raises(ValueError, match="`signal`: expected values of at most 1e"):
        cn.denoise(1e200 * noisy(synthetic_photograph(16, 20), 0.05).double())
    with pytest.raises(ValueError, match="`sigma`"):
        cn.denoise(torch.zeros(4, 4, 1), -1.0)


def test_a_photograph_gains_more_than_by_wavelets_and_total_variation(data):
    image = cn.load(data / "kodak" / "kodim10.png")
    h, w = image.shape[:2]
    truth = image[h // 2 - 100 : h // 2 + 100, w // 2 - 100 : w // 2 + 100]
    made = cn.denoise(noisy(truth, 0.1), prior=cn.Adaptive()).signal
    assert cn.psnr(made, truth) > 34.0  # wavelets 32.1, total variation 32.7


@pytest.mark.parametrize("sigma", [1e-30, 1e-9, 1e-5])
def test_noise_near_the_rounding_of_the_values_leaves_the_picture(sigma):
    """Covariances of groups of patches are then singular to rounding."""
    image = synthetic_photograph(20, 24)
    with pytest.warns(CoordnetWarning, match="though the finest details look like noise"):
        clean = cn.denoise(image, sigma, prior=cn.Local()).signal
    torch.testing.assert_close(clean, image, atol=10 * sigma + 1e-6, rtol=0)


def test_the_deviation_of_patches_has_the_units_of_the_signal():
    noisy = synthetic_photograph(24, 20, 1) + 0.1 * torch.randn(24, 20, 1, generator=torch.Generator().manual_seed(0))
    fits = [cn.denoise(f, sigma, prior=cn.Local()).fit for f, sigma in ((noisy, 0.1), (64 * noisy, 6.4))]
    first, second = (fit.learned["patch_deviation"] for fit in fits)
    torch.testing.assert_close(64 * first, second, rtol=1e-4, atol=0)
    assert 0.005 < float(first.mean()) < 0.1
