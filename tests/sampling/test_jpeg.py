"""Pictures within the intervals of a JPEG file's coefficients, against what Pillow writes and reads."""

import numpy as np
import pytest
import torch
from PIL import Image

import coordnet as cn
from coordnet.sampling.jpeg import ORIENTATION, Component
from tests.helpers import synthetic_photograph

pytest.importorskip("jpeglib", reason="needs the extra 'jpeg'")


def saved(path, picture, **options):
    pixels = np.uint8((255 * picture.clamp(0, 1)).round().numpy())
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(path, **(options or {"quality": 20}))
    with Image.open(path) as image:
        decoded = torch.from_numpy(np.asarray(image) / 255)
    return decoded if decoded.ndim == 3 else decoded.unsqueeze(-1)


@pytest.mark.parametrize("size", [(64, 96), (61, 90)])
@pytest.mark.parametrize(("channels", "subsampling"), [(1, 0), (3, 0), (3, 2)])
def test_encoding_again_gives_the_same_coefficients(tmp_path, size, channels, subsampling, generator):
    truth = 0.25 + 0.5 * synthetic_photograph(*size, channels).double()
    saved(tmp_path / "a.jpg", truth, quality=20, subsampling=subsampling)
    intervals = cn.JpegIntervals.read(tmp_path / "a.jpg")
    other = truth + 0.05 * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    made = intervals.nearest(other)
    kept = [c.counts for c in intervals.components]
    assert all(np.array_equal(a, b) for a, b in zip(intervals.counts(made), kept, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(intervals.counts(other), kept, strict=True))
    with Image.open(tmp_path / "a.jpg") as image:
        tables = image.quantization
    saved(tmp_path / "b.jpg", made, qtables=tables, subsampling=subsampling)
    again = cn.JpegIntervals.read(tmp_path / "b.jpg").components
    assert max(float((a.counts != b).mean()) for a, b in zip(again, kept, strict=True)) < 1e-3


def test_the_nearest_picture_is_a_projection(tmp_path, generator):
    """It stays where it is, and no picture with such coefficients is further from it than from another one."""
    truth = synthetic_photograph(64, 64).double()
    saved(tmp_path / "a.jpg", truth, quality=20, subsampling=0)
    intervals = cn.JpegIntervals.read(tmp_path / "a.jpg")
    other = truth + 0.1 * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    made, inside = intervals.nearest(other), intervals.nearest(truth)
    torch.testing.assert_close(intervals.nearest(made), made, atol=1e-9, rtol=0)
    assert float((made - inside).square().sum()) < float((other - inside).square().sum())


def test_the_errors_of_rounding_follow_from_the_zeros():
    random, table = np.random.default_rng(0), np.full((8, 8), 10.0)
    coefficients = np.geomspace(1, 50, 64).reshape(8, 8) * random.laplace(size=(60, 60, 8, 8))
    component = Component(np.rint(coefficients / table), table, (1, 1))
    errors = np.square(coefficients - table * component.counts).mean((0, 1))
    np.testing.assert_allclose(component.error, errors, rtol=0.15)


def test_a_picture_of_a_file_gains_and_keeps_its_coefficients(tmp_path):
    truth = 0.1 + 0.8 * synthetic_photograph(40, 48)
    decoded = saved(tmp_path / "a.jpg", truth, quality=10).float()
    intervals = cn.JpegIntervals.read(tmp_path / "a.jpg")
    made = cn.denoise(decoded, noise=intervals, prior=cn.Adaptive())
    assert cn.psnr(made.signal, truth) > cn.psnr(decoded, truth) + 0.3
    assert made.report.noise["kind"] == "jpeg" and made.expected_psnr is None
    kept = [c.counts for c in intervals.components]
    assert all(np.array_equal(a, b) for a, b in zip(intervals.counts(made.signal), kept, strict=True))
    torch.testing.assert_close(made.fit.render(alignment="sample"), made.signal, atol=1e-4, rtol=0)


@pytest.mark.parametrize("orientation", range(2, 9))
def test_a_picture_that_is_turned_upright_keeps_the_file_s_coefficients(tmp_path, orientation, generator):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    stored = saved(tmp_path / "a.jpg", 0.25 + 0.5 * synthetic_photograph(64, 88), quality=20, exif=exif)
    turned, plain = (cn.JpegIntervals.read(tmp_path / "a.jpg", turned=turned) for turned in (True, False))
    shown = cn.load(tmp_path / "a.jpg")
    turned.check(shown)
    kept = plain.counts(stored)
    assert all(map(np.array_equal, turned.counts(shown), kept))
    made = turned.nearest(shown + 0.05 * torch.randn(shown.shape, generator=generator))
    assert made.shape == shown.shape
    assert all(map(np.array_equal, turned.counts(made), kept))


def test_what_does_not_go_together_is_refused(tmp_path):
    decoded = saved(tmp_path / "a.jpg", synthetic_photograph(32, 48))
    intervals = cn.JpegIntervals.read(tmp_path / "a.jpg")
    for signal in (decoded.swapaxes(0, 1), 1 - decoded):
        with pytest.raises(ValueError, match="`signal`: expected the picture of the JPEG file"):
            cn.denoise(signal, noise=intervals)
    with pytest.raises(ValueError, match="`sigma`: expected none"):
        cn.denoise(decoded, 0.1, noise=intervals)
    Image.new("CMYK", (16, 16)).save(tmp_path / "d.jpg")
    with pytest.raises(ValueError, match="`noise`: expected a JPEG file .*, received 4 components in"):
        cn.JpegIntervals.read(tmp_path / "d.jpg")
    (tmp_path / "b.jpg").write_bytes(b"no picture")
    for name in ("b.jpg", "c.jpg"):
        with pytest.raises(ValueError, match="`noise`: expected a JPEG file"):
            cn.JpegIntervals.read(tmp_path / name)
