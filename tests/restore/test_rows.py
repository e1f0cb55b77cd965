"""Streams of rows against the same fits in memory."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tifffile
import torch

import coordnet as cn
from coordnet.cli.declaring import parse_bytes
from coordnet.encodings import ComplexEncoding
from coordnet.encodings.encoders import DFT, Gaussian
from coordnet.media.array_files import zarr_options
from coordnet.media.files import MediaError
from coordnet.media.row_blocks import open_rows, write_rows
from coordnet.restore import rows as streaming
from coordnet.restore.rows import stream_render
from coordnet.restore.upscale_choice import SIGMAS, choose_sigma
from coordnet.sampling.grids import Lattice
from tests.helpers import refused, synthetic_photograph


def planned(grid, encoder=Gaussian, **options):
    geometry = Lattice(grid)
    return cn.plan(ComplexEncoding.like(encoder, geometry), geometry, **options)


def streamed(plan, source, shape):
    return torch.from_numpy(np.concatenate(list(stream_render(plan, source, shape, memory=2**30))))


@pytest.mark.parametrize("rows", [7, 64, 65, 1000])
@pytest.mark.parametrize("encoder", [Gaussian, DFT])
def test_blocks_of_any_size_make_the_render(rows, encoder, monkeypatch, generator):
    values = torch.rand(150, 31, 2, generator=generator) + 3
    plan = planned((150, 31), encoder)
    monkeypatch.setattr(streaming, "block_rows", lambda *_: rows)
    made = streamed(plan, values.numpy(), (311, 50))
    assert torch.allclose(made, plan.fit(values).render((311, 50)), atol=1e-5)


@pytest.mark.parametrize("grid", [(300,), (20, 9, 140)])
def test_any_number_of_axes_and_little_memory(grid, generator):
    values = torch.rand(*grid, 1, generator=generator)
    plan, shape = planned(grid), tuple(n + 11 for n in grid)
    blocks = list(stream_render(plan, values.numpy(), shape, memory=2**20))
    assert torch.allclose(torch.from_numpy(np.concatenate(blocks)), plan.fit(values).render(shape), atol=1e-5)
    assert len(blocks) > 1


def test_what_cannot_be_streamed(generator):
    values = torch.rand(9, 8, 1, generator=generator).numpy()
    with pytest.raises(ValueError, match="`source`: expected finite"):
        list(stream_render(planned((9, 8)), np.full_like(values, np.nan), (18, 16), memory=2**20))
    with pytest.raises(ValueError, match="`memory`: expected at least"):
        list(stream_render(planned((9, 8)), values, (18, 16), memory=100))


@pytest.mark.parametrize("shape", [(40, 30, 2), (50, 1), (12, 9, 7, 1)])
def test_rows_of_an_array_in_fortran_s_order(shape, generator, tmp_path):
    values = torch.rand(*shape, generator=generator).numpy()
    np.save(tmp_path / "a.npy", np.asfortranarray(values))
    with open_rows(tmp_path / "a.npy") as found:
        assert np.array_equal(found[2:9], values[2:9])


def test_a_memory_map_that_was_written_to_keeps_what_was_written(generator, tmp_path):
    values = torch.rand(40, 30, 1, generator=generator)
    np.save(tmp_path / "a.npy", np.zeros(values.shape, np.float32))
    written = np.load(tmp_path / "a.npy", mmap_mode="c")
    written[:] = values.numpy()
    plan = planned((40, 30))
    assert torch.allclose(streamed(plan, written, (40, 30)), plan.fit(values).render(), atol=1e-5)
    assert np.array_equal(written, values.numpy())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2GiB", 2**31), ("500 MB", 5 * 10**8), ("1.5kB", 1500), ("64", 64), ("1e9", 10**9), ("1TiB", 2**40)],
)
def test_sizes_of_memory(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "GiB", "2XB", "-1GB", "0", "1..2MB", "nan", "1e999"])
def test_what_is_no_size_of_memory(text):
    with pytest.raises(ValueError, match="`memory`: expected a number of bytes such as 2GiB"):
        parse_bytes(text)


# files


@pytest.mark.parametrize("suffix", [".npy", ".zarr", ".tif"])
@pytest.mark.parametrize("depth", ["uint8", "float32"])
@pytest.mark.parametrize("channels", [1, 3])
def test_rows_are_read_as_they_were_written(suffix, depth, channels, tmp_path):
    if suffix == ".zarr":
        pytest.importorskip("zarr")
    picture = synthetic_photograph(150, 40, channels).numpy()
    path = tmp_path / f"a{suffix}"
    write_rows(path, picture.shape, depth, iter(np.split(picture, [64, 100])), channel_axis=channels > 1)
    with open_rows(path) as found:
        assert (found.shape, found.depth) == (picture.shape, depth)
        error = 0 if depth == "float32" else 0.5 / 255 + 1e-6
        assert np.allclose(found[10:120], picture[10:120], atol=error)
    if suffix == ".tif":
        stored = tifffile.imread(path)
        scale = 255 if depth == "uint8" else 1
        assert np.allclose(stored.reshape(picture.shape) / scale, picture, atol=0.5 / 255 + 1e-6)


def test_tiles_and_plain_strips_of_tiff(tmp_path):
    picture = (synthetic_photograph(100, 90).numpy() * 65535).astype(np.uint16)
    tifffile.imwrite(tmp_path / "plain.tif", picture, photometric="rgb")
    with open_rows(tmp_path / "plain.tif") as found:
        assert np.allclose(found[20:70], picture[20:70] / 65535, atol=1e-6)
    pytest.importorskip("zarr")
    tifffile.imwrite(tmp_path / "tiles.tif", picture, photometric="rgb", tile=(32, 32), compression="zlib")
    with open_rows(tmp_path / "tiles.tif") as found:
        assert np.allclose(found[20:70], picture[20:70] / 65535, atol=1e-6)


def test_files_that_have_no_rows(tmp_path):
    np.save(tmp_path / "empty.npy", np.zeros((0, 3)))
    np.save(tmp_path / "complex.npy", np.zeros((4, 3), complex))
    (tmp_path / "broken.npy").write_bytes(b"not an array")
    (tmp_path / "a.txt").write_bytes(b"")
    tifffile.imwrite(tmp_path / "stack.tif", np.zeros((3, 40, 40), np.float32), photometric="minisblack")
    for name, said in {
        "empty.npy": "at least one axis and value",
        "complex.npy": "complex128",
        "broken.npy": "cannot be decoded",
        "a.txt": "expected one of .npy .zarr .npz .nc",
        "stack.tif": "a stack",
        "none.npy": "no file of this name",
        "none.zarr": "nothing of this name",
    }.items():
        with pytest.raises(MediaError, match=said), open_rows(tmp_path / name) as found:
            found[0:1]


# the command


@pytest.mark.parametrize(("suffix", "kind"), [(".npy", "area"), (".zarr", "point")])
def test_upscale_of_an_array_is_that_of_the_picture(suffix, kind, run, tmp_path):
    picture = synthetic_photograph(140, 33)
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / f"a{suffix}"
    held = {} if suffix == ".npy" else {"chunks": (32, 16, 3), "attributes": {"units": "K"}}
    if held:
        pytest.importorskip("zarr")
    write_rows(path, tuple(picture.shape), "float32", iter([picture.numpy()]), channel_axis=True, held=held)
    for _ in range(2):
        options = ("--factor", 1.5, "--samples", kind, "--memory", "1MiB", "--out", "out", "--force")
        status, out, err = run("upscale", path, *options)
        assert (status, f"pixels as {kind}s" in out) == (0, True), err
    expected = cn.upscale(picture, 1.5, samples=kind, prior=None).signal
    with open_rows(tmp_path / "out" / f"restored{suffix}") as found:
        assert torch.allclose(torch.from_numpy(found[0:210]), expected, atol=1e-5)
        assert held.items() <= ({} if suffix == ".npy" else zarr_options(found.stored)).items()
    assert {p.name for p in (tmp_path / "out").iterdir()} == {path.with_stem("restored").name} | {
        "figure.png",
        "record.json",
    }


def test_a_picture_in_an_array_that_fits_into_memory_is_enlarged_as_in_python(run, tmp_path):
    picture = synthetic_photograph(24, 18)
    np.save(tmp_path / "a.npy", picture.numpy())
    status, out, err = run("upscale", "a.npy", "--out", "out", "--quiet")
    assert (status, out) == (0, ""), err
    assert torch.equal(torch.from_numpy(np.load("out/restored.npy")), cn.upscale(picture, 2.0).signal)


def test_the_width_of_the_bumps_does_not_depend_on_the_unit():
    picture = synthetic_photograph(64, 48)
    own, scaled = (choose_sigma(pixels)[0] for pixels in (picture, 1000 * picture - 300))
    span = float(picture.max() - picture.min())
    assert scaled.sigma == own.sigma
    assert scaled.tried[scaled.sigma] == pytest.approx(own.tried[own.sigma] + 20 * np.log10(span), abs=0.1)
    assert len(set(scaled.tried.values())) == len(SIGMAS)
    assert choose_sigma(torch.full((16, 16, 1), 5.0))[0].sigma in SIGMAS


def test_upscale_of_a_tiff_file_with_opacity_in_rows(run, tmp_path):
    picture = synthetic_photograph(60, 50, 4)
    picture[..., 3] = (picture[..., 3] > 0.5).float()
    (tmp_path / "in").mkdir()
    write_rows(tmp_path / "in" / "a.tif", (60, 50, 4), "uint8", iter([picture.numpy()]), channel_axis=True)
    with open_rows(tmp_path / "in" / "a.tif") as file:
        read = torch.from_numpy(np.array(file[0:60]))
    assert run("upscale", "in/a.tif", "--memory", "400kB", "--out", "out", "--quiet") == (0, "", "")
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert (record["samples"], record["premultiplied"]) == ("area", True)
    expected = cn.upscale(read, 2.0, prior=None).signal
    with open_rows(tmp_path / "out" / "restored.tif") as file:
        found = torch.from_numpy(np.array(file[0:120]))
    assert (found - expected.clamp(0, 1)).abs().max() <= 0.51 / 255


def test_upscale_in_rows_refuses(run, tmp_path):
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "a.npy", np.full((20, 30), np.nan))
    np.save(tmp_path / "in" / "b.npy", np.ones((20, 30)))
    assert "NaN" in refused(run("upscale", "in/a.npy", "--out", "out"), tmp_path)
    assert "memory" in refused(run("upscale", "in/b.npy", "--memory", "lots", "--out", "out"), tmp_path)
    assert "at least" in refused(run("upscale", "in/b.npy", "--memory", "10B", "--out", "out"), tmp_path)
    assert "none.npy" in refused(run("upscale", "in/none.npy", "--out", "out"), tmp_path)
    np.save(tmp_path / "in" / "row.npy", np.ones(20_000, np.float32))
    np.save(tmp_path / "in" / "words.npy", np.array([["a", "b"]]))
    late = np.ones((1500, 30, 1), np.float32)
    late[0] = np.nan
    np.save(tmp_path / "in" / "late.npy", late)
    for file, options, said in (
        ("late", ["--memory", "4MB"], f"{tmp_path / 'in' / 'late.npy'}: `source`: expected finite values"),
        ("words", [], "words.npy: expected real numbers, found values of type <U1"),
        ("b", ["--factor", "1e6"], "--factor: expected one whose result has room"),
        ("late", ["--memory", "4MB", "--device", "cuda"], "--device: expected auto or cpu for what is read in rows"),
        ("row", ["--memory", "100MB"], "--memory: expected at least"),
    ):
        found = refused(run("upscale", tmp_path / "in" / f"{file}.npy", *options, "--out", "out"), tmp_path)
        assert said in found


@pytest.mark.slow
def test_memory_stays_where_it_is_told(tmp_path):
    """A map of 16 MiB becomes 64 MiB within 4 MiB, beside what the process takes before."""
    shape, path = (2048, 2048), tmp_path / "a.npy"
    np.lib.format.open_memmap(path, mode="w+", dtype="float32", shape=shape)
    code = f"""
import coordnet as cn
from coordnet.encodings.encoders import Gaussian
from coordnet.encodings import ComplexEncoding
from coordnet.comparison.stopwatch import peak_gib
from coordnet.media.row_blocks import open_rows
from coordnet.restore.rows import stream_render
from coordnet.sampling.grids import Lattice
source = open_rows(__import__("pathlib").Path({str(path)!r})).__enter__()
small, large = (Lattice((n, n)) for n in (256, 2048))
plans = [cn.plan(ComplexEncoding.like(Gaussian, g), g) for g in (small, large)]
render = plans[1].renderer((4096, 4096))
before = peak_gib()
for block in stream_render(plans[1], source, (4096, 4096), memory=2**22):
    pass
print(peak_gib() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.03
