"""Dask arrays: blocks against the whole, what blocks share against what one learned, and stores that go on."""

import numpy as np
import pytest
import torch

import coordnet as cn
from coordnet.restore.blocks import Blocks
from coordnet.sampling.axes import ByAxes

da = pytest.importorskip("dask.array")
xarray = pytest.importorskip("xarray")


@pytest.fixture
def small(monkeypatch):
    """Blocks of few thousand points, with small halos."""
    monkeypatch.setattr("coordnet.restore.blocks.MAX_POINTS", 4 * 6000)
    monkeypatch.setattr("coordnet.restore.blocks.HALO", ByAxes({1: 64, 2: 16, 3: 4, 4: 2}))


def field(shape, seed=0, power=1.6):
    """A field with a power law for its spectrum."""
    generator = np.random.default_rng(seed)
    waves = np.hypot(*np.meshgrid(*(np.fft.fftfreq(n) for n in shape), indexing="ij"))
    f = np.fft.ifft2(np.fft.fft2(generator.standard_normal(shape)) * (0.02 + waves) ** -power).real
    return (f / f.std()).astype(np.float32)


@pytest.mark.parametrize("periodic", [(), (1,)])
@pytest.mark.parametrize("factor", [1, 2])
def test_blocks_see_their_neighbors_and_are_put_together(small, periodic, factor):
    """A shift within every block is the shift of the whole, if halos reach far enough and are cropped right."""
    f = np.random.default_rng(0).random((96, 160, 2)).astype(np.float32)
    blocks = Blocks.of(da.from_array(f, chunks=(50, 41, 2)), (0, 1), periodic)
    assert len(blocks) > 3 and len({blocks.signal.chunks[j] for j in range(2)}) == 2

    def work(block):
        moved = np.roll(block, (1, -2), (0, 1))
        return moved.repeat(factor, 0).repeat(factor, 1)

    mirrored = np.pad(f, [(2, 2), (2, 2), (0, 0)], mode="symmetric")
    if periodic:
        mirrored = np.pad(mirrored[:, 2:-2], [(0, 0), (2, 2), (0, 0)], mode="wrap")
    expected = np.roll(mirrored, (1, -2), (0, 1))[2:-2, 2:-2].repeat(factor, 0).repeat(factor, 1)
    assert np.array_equal(blocks.map(work, factor=factor).compute(scheduler="sync"), expected)


@pytest.mark.slow
def test_a_field_in_blocks_is_as_good_as_the_whole(small):
    truth = field((190, 150))
    known = np.random.default_rng(1).random(truth.shape) < 0.7
    array = xarray.DataArray(np.where(known, truth, np.nan), dims=("y", "x"))
    whole = cn.fill(array, prior=cn.Adaptive()).array.values
    lazy = cn.fill(array.chunk(y=64), prior=cn.Adaptive())
    assert lazy.report.blocks.counts == [4, 4] and lazy.report.prior == "adaptive"
    made = lazy.array.compute(scheduler="sync").values
    assert np.array_equal(made[known], truth[known]) and made.dtype == np.float32
    errors = [10 * np.log10(np.square(f - truth)[~known].mean()) for f in (whole, made)]
    assert errors[1] < errors[0] + 0.05


@pytest.mark.parametrize("x", [[0.0, 1, 3, 4, 6, 7, 10], [90.0, 80, 73, 61, 30, 29, 0]])
def test_one_block_at_unequal_coordinates_is_the_whole(x):
    """Whether they increase or decrease, which a wrong order would show by linear values that are not."""
    values = np.add.outer(np.array(x), np.arange(8.0))
    array = xarray.DataArray(values, {"y": x, "x": np.arange(8.0)}, ("y", "x"))
    given = array.where((array.x < 3) | (array.x > 4) | (array.y == x[0]))
    made = cn.fill(given.chunk(y=3), prior=cn.ThinPlate(2, np.inf, 0.0)).array.compute(scheduler="sync")
    np.testing.assert_allclose(made, values, atol=1e-6)


@pytest.mark.slow
def test_frames_in_blocks_are_as_good_as_the_whole(small, monkeypatch):
    """Time is never divided, and land stays missing, whatever the order of dimensions is."""
    monkeypatch.setattr("coordnet.restore.blocks.MAX_POINTS", 4 * 21_000)
    base, shape = field((72, 60), power=2.5), (72, 60)
    generator = np.random.default_rng(0)
    truth = np.stack([base + 0.3 * field(shape, 1 + k) for k in range(5)])
    values = np.where(generator.random(truth.shape) < 0.4, np.nan, truth)
    values[:, :, :6] = np.nan
    array = xarray.DataArray(values, {"time": [0, 1, 2, 4, 5]}, ("time", "y", "x"))
    prior, dims = cn.Adaptive(), ("time", "y", "x")
    whole = cn.fill(array, dims, prior=prior).array
    lazy = cn.fill(array.transpose("y", "time", "x").chunk(y=20), dims, prior=prior)
    assert len(lazy.report.blocks.counts) == 3 and lazy.report.blocks.counts[0] == 1 < max(lazy.report.blocks.counts)
    made = lazy.array.compute(scheduler="sync").transpose(*dims)
    wanted = np.isfinite(values).any(0) & np.ones_like(values, bool)
    assert np.array_equal(np.isfinite(made), wanted)
    hidden = np.isnan(values) & wanted
    errors = [10 * np.log10(np.square(f.values - truth)[hidden].mean()) for f in (whole, made)]
    assert errors[1] < errors[0] + 0.05


def test_a_channel_that_a_block_does_not_know_has_its_mean_there(small, monkeypatch):
    """Blocks of more channels have fewer points."""
    monkeypatch.setattr("coordnet.restore.blocks.MAX_POINTS", 4 * 12_000)
    values = np.stack([field((190, 150)), 50 + field((190, 150), 1)])
    values[0, ::3] = np.nan
    values[1, :130] = np.nan
    array = xarray.DataArray(values, dims=("band", "y", "x")).chunk(y=64)
    lazy = cn.fill(array, ("y", "x"), prior=cn.Smoothness())
    made = lazy.array.isel(band=1, y=slice(10)).compute(scheduler="sync").values
    assert lazy.report.blocks.counts == [4, 4] and np.abs(made - 50).max() < 2


@pytest.mark.parametrize(
    "prior",
    [
        cn.Adaptive(),
        cn.Evolving(rounds=1),
        cn.ThinPlate(),
        cn.Stack((cn.Adaptive(rounds=1), cn.ThinPlate(2, np.inf, 0.0))),
    ],
    ids=lambda prior: prior.name,
)
def test_what_one_block_taught_is_what_it_learned(prior):
    """A fit under what a fit to the same samples learned is the same, though nothing is hidden or learned again."""
    generator = np.random.default_rng(0)
    f = torch.from_numpy(np.stack([field((24, 26), k, 2.5) for k in range(8)], -1))
    f = f[..., :2] if prior.name != "evolving" else f.permute(2, 0, 1).unsqueeze(-1)
    samples = cn.sample(f, torch.from_numpy(generator.random(f.shape[:-1]) < 0.6), dimensions=f.ndim - 1)
    one = cn.fit(samples, prior=prior)
    taught = prior.taught([(one.report, one.learned)])
    other = cn.fit(samples, prior=taught)
    assert taught != prior
    assert float((other.render() - one.render()).square().mean().sqrt()) < 1e-2 * float(f.std())


def gain(made, noisy, truth):
    """The decibels by which an estimate is nearer to the truth than what it was made of."""
    return 10 * np.log10(np.nanmean(np.square(noisy - truth)) / np.nanmean(np.square(made - truth)))


def test_noise_is_removed_in_blocks_as_from_the_whole(small, monkeypatch):
    """Opacity stays, to the bit."""
    monkeypatch.setattr("coordnet.restore.blocks.MAX_POINTS", 4 * 12_000)
    truth = np.clip(0.5 + 0.12 * field((120, 90), power=2.0), 0, 1)
    noisy = np.clip(truth + 0.05 * np.random.default_rng(0).standard_normal(truth.shape), 0, 1).astype(np.float32)
    picture = np.stack([noisy, noisy > 0.5], -1)
    whole = cn.denoise(noisy, 0.05, prior=cn.Adaptive())
    lazy = cn.denoise(da.from_array(picture, chunks=(50, 41, 2)), 0.05, prior=cn.Adaptive())
    assert lazy.report.prior == "adaptive" and len(lazy.report.blocks.counts) == 2 < np.prod(lazy.report.blocks.counts)
    made = lazy.signal.compute(scheduler="sync")
    assert made.dtype == np.float32 and np.array_equal(made[..., 1], picture[..., 1])
    gains = [gain(f, noisy, truth) for f in (whole.signal, made[..., 0])]
    assert 5 < gains[0] < gains[1] + 0.05 and lazy.expected_psnr == pytest.approx(whole.expected_psnr, abs=0.5)


@pytest.mark.slow
def test_noise_that_blocks_estimate_is_that_of_the_whole(small, monkeypatch):
    """A picture of 8 bits stays so, and black and white pixels are lost in blocks as in the whole."""
    monkeypatch.setattr("coordnet.restore.blocks.MAX_POINTS", 4 * 4000)
    monkeypatch.setattr("coordnet.restore.blocks.SAMPLED", 1)
    generator, truth = np.random.default_rng(0), 0.5 + 0.12 * field((96, 60), power=2.0)
    picture = np.clip(255 * (truth + 0.05 * generator.standard_normal(truth.shape)), 1, 254).round()
    draw = generator.random(truth.shape)
    picture[draw < 0.05], picture[draw > 0.95] = 0, 255
    picture = picture.astype(np.uint8)
    lazy, whole = (cn.denoise(a, prior=cn.Adaptive()) for a in (da.from_array(picture, chunks=96), picture))
    assert lazy.signal.dtype == np.uint8 and lazy.signal.shape == picture.shape
    assert np.prod(lazy.report.blocks.counts) > 1
    assert lazy.report.sigma == pytest.approx(whole.report.sigma, rel=0.2) and lazy.report.noise["lost"] > 0.05
    difference = lazy.signal[:48].compute(scheduler="sync").astype(float) - whole.signal[:48]
    assert np.sqrt(np.square(difference).mean()) < 4


@pytest.mark.parametrize("options", [{"prior": None}, {"prior": cn.Local()}, {"samples": "point"}], ids=str)
def test_a_picture_is_enlarged_in_blocks_as_the_whole_is(small, monkeypatch, options):
    monkeypatch.setattr("coordnet.restore.blocks.MAX_POINTS", 4 * 2500)
    picture = (0.5 + 0.12 * field((66, 40), power=2.0)).astype(np.float32)
    whole = cn.upscale(picture, 2.0, **options)
    lazy = cn.upscale(da.from_array(picture, chunks=32), 2.0, **options)
    made = lazy.signal.compute(scheduler="sync")
    assert made.shape == (132, 80) and np.prod(lazy.report.blocks.counts) > 1
    assert np.sqrt(np.square(made - whole.signal)[2:-2, 2:-2].mean()) < 0.01 * whole.signal.std()


def test_fields_with_gaps_are_smoothed_in_blocks_as_the_whole_is(small, monkeypatch):
    monkeypatch.setattr("coordnet.restore.blocks.MAX_POINTS", 4 * 5000)
    monkeypatch.setattr("coordnet.restore.blocks.SAMPLED", 1)
    truth = field((70, 80), power=2.5)
    values = truth + 0.3 * np.random.default_rng(0).standard_normal(truth.shape).astype(np.float32)
    values[20:30, 10:25] = np.nan
    array = xarray.DataArray(values, dims=("y", "x"))
    whole = cn.smooth(array, 0.3, prior=cn.Adaptive())
    made = cn.smooth(array.T.chunk(y=20), 0.3, prior=cn.Adaptive())
    assert made.chunks is not None and made.dims == ("x", "y") and made.dtype == np.float32
    made = made.T.compute(scheduler="sync").values
    assert np.array_equal(np.isnan(made), np.isnan(values))
    gains = [gain(f, values, truth) for f in (whole.values, made)]
    assert 5 < gains[0] < gains[1] + 0.05


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a: cn.upscale(a, 1.5), "`factor`: expected a whole number for a Dask array"),
        (lambda a: cn.denoise(a, 0.1, dimensions=3), "`signal`: expected 3 axes"),
        (lambda a: cn.denoise(a, 3.0, prior=cn.Adaptive()), "`sigma`: expected at most the signal's own"),
        (lambda a: cn.denoise(a, 0.1, memory=2**29), "`memory`: expected at least"),
        (lambda a: cn.denoise(da.where(a > 9, a, np.nan), 0.1), "`signal`: expected finite values"),
        (lambda a: cn.upscale(da.where(a > 9, a, np.nan)), "`image`: expected a picture known everywhere"),
    ],
)
def test_wrong_signals_are_refused_before_anything_is_computed(call, words):
    with pytest.raises(ValueError, match=words):
        call(da.from_array(field((40, 40)), chunks=20))


def test_stores_go_on_where_they_were_interrupted(tmp_path, small):
    from coordnet.xarray.stores import BlockStore

    values = np.random.default_rng(0).random((40, 30))
    lazy = xarray.DataArray(da.from_array(values, chunks=(20, 15)) + 1, {"x": np.arange(30.0)}, ("y", "x"))
    dataset = xarray.Dataset({"v": lazy, "name": ((), 5)})
    path = tmp_path / "made.zarr"
    jobs = BlockStore(path, dataset, {"seed": 0}).jobs()
    assert len(jobs) == 4 and not path.exists()
    for key in list(jobs)[:3]:
        jobs[key]()
    store = BlockStore(path, dataset, {"seed": 0})
    assert list(store.jobs()) == list(jobs)[3:]
    assert len(BlockStore(tmp_path / "other.zarr", dataset, {}).jobs()) == 4
    for job in store.jobs().values():
        job()
    store.finish()
    with xarray.open_zarr(path, consolidated=False) as made:
        assert np.array_equal(made.v.values, values + 1) and made.name == 5 and list(made.x) == list(range(30))
    assert not [p for p in tmp_path.iterdir() if "made" in p.name and p != path]
    assert len(BlockStore(path, dataset, {"seed": 1}).jobs()) == 4


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda a: cn.fill(a.chunk(), memory=2**29 + 10**6),
            "`memory`: expected at least .* bytes for a block, received",
        ),
        (
            lambda a: cn.fill(a.chunk(), memory=2**29),
            "`memory`: expected at least .* for a chunk of the array, or smaller",
        ),
        (lambda a: cn.fill(a.where(False).chunk()), "`array`: expected a value that is not NaN, received NaN alone"),
        (lambda a: cn.fill(a.assign_coords(x=np.arange(80.0) ** 2).chunk()), "`array`: expected equally spaced coord"),
        (
            lambda a: cn.fill(
                a[20:40, :40].assign_coords(y=np.arange(20) ** 2.0, x=np.arange(40) * 9.0).rename(x="lon").chunk()
            ),
            "`array`: expected equally spaced coordinates",
        ),
        (lambda a: cn.fill(a.isel(time=[0, 0, 0]).chunk()), "`time`: expected times that increase"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_computed(call, words, small):
    values = field((90, 80))
    values[30:40, 30:40] = np.nan
    array = xarray.DataArray(values, {"y": np.arange(90.0), "x": np.arange(80.0)}, ("y", "x"))
    array = array.expand_dims(time=np.arange(3.0)) if "time" in words else array
    with pytest.raises(ValueError, match=words):
        call(array)
