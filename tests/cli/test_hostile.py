"""Malformed and extreme input, one case a class: each is refused in one line that names it, and nothing is written.

`results/input.md` says what is promised.
"""

import contextlib
import io
import json
import os
import pickle
import struct
import sys
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, safe_open, save_file
from scipy.io import wavfile

import coordnet as cn
from coordnet.cli import main

PICTURE = np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3)
GRAY = PICTURE[..., 0]


class Payload:
    def __reduce__(self):
        return (os.mkdir, ("executed",))


def image(array, kind, **options):
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind, **options)
    return file.getvalue()


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def npy_of_shape(shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()


def png_of_size(width, height):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def wav():
    file = io.BytesIO()
    wavfile.write(file, 8000, np.arange(100, dtype=np.int16))
    return file.getvalue()


PNG, JPEG, GIF = image(PICTURE, "PNG"), image(PICTURE, "JPEG"), image(GRAY, "GIF")
BMP, WEBP, TIFF = image(PICTURE, "BMP"), image(PICTURE, "WEBP"), image(PICTURE, "TIFF")
POINTS = b"x,y,v\n" + b"".join(b"%d,%d,%d\n" % (i, i * i % 7, i) for i in range(9))
INFINITE = np.where(GRAY > 99, np.inf, GRAY).astype(np.float32)

SIGNALS = {
    "empty.png": b"",
    "text.png": b"this is no picture",
    "nul.png": bytes(1000),
    "cut.png": PNG[:45],
    "eps.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n",
    "pdf.png": b"%PDF-1.4\n1 0 obj\n<< >>\nendobj\n",
    "svg.png": b'<svg xmlns="http://www.w3.org/2000/svg"/>',
    "huge.png": png_of_size(50_000, 50_000),
    "large.png": png_of_size(13_000, 13_000),
    "thin.png": png_of_size(0, 9),
    "cut.jpg": JPEG[:200],
    "head.jpg": JPEG[:4],
    "cut.gif": GIF[:20],
    "huge.gif": GIF[:6] + struct.pack("<HH", 65_500, 65_500) + GIF[10:],
    "cut.bmp": BMP[:40],
    "cut.webp": WEBP[:40],
    "cut.tif": TIFF[:200],
    "png.tif": PNG,
    "negative.pgm": b"P5 -4 4 255\n" + bytes(16),
    "huge.pgm": b"P5 99999 99999 255\n" + bytes(16),
    "text.avi": b"no clip at all",
    "list.avi": b"ffconcat version 1.0\nfile good.png\n",
    "playlist.mp4": b"#EXTM3U\n#EXTINF:1,\ngood.png\n",
    "zeros.mp4": bytes(3000),
    "empty.wav": b"",
    "cut.wav": wav()[:80],
    "silent.wav": wav()[:40] + bytes(4),
    "text.wav": b"RIFFxxxxWAVEnothing",
    "header.csv": b"a,b\n",
    "ragged.csv": b"1,2\n3\n",
    "infinite.csv": b"1,2\n3,inf\n",
    "word.csv": b"1,2\n3,four\n",
    "nul.csv": b"1,2\n\0,4\n",
    "utf16.csv": "1,2\n3,4\n".encode("utf-16"),
    "cut.npy": npy(GRAY)[:100],
    "text.npy": b"no array",
    "scalar.npy": npy(np.float32(3)),
    "none.npy": npy(np.zeros((0, 4), np.float32)),
    "object.npy": npy(np.array([Payload()], object), allow_pickle=True),
    "complex.npy": npy(np.ones((4, 4), complex)),
    "words.npy": npy(np.array(["a", "b"])),
    "declared.npy": npy_of_shape((10**6, 10**6)),
    "infinite.npy": npy(INFINITE),
    "nan.npy": npy(np.full((8, 8), np.nan, np.float32)),
    "two.npz": npz(a=GRAY, b=GRAY),
    "nothing.npz": npz(),
    "two.npy": npz(a=GRAY, b=GRAY),
    "pickled.npy": pickle.dumps(Payload()),
    "no.suffix": b"1,2",
    "pickled.png": pickle.dumps(Payload()),
}


def tampered(key, value):
    def change(configuration):
        *path, last = key.split(".")
        place = configuration
        for name in path:
            place = place[int(name) if name.isdigit() else name]
        place[last] = value

    return change


MODELS = {
    "format": tampered("format", "coordnet-99"),
    "channels-1": tampered("channels", 1),
    "channels-huge": tampered("channels", 10**15),
    "channels-text": tampered("channels", "3"),
    "channels-negative": tampered("channels", -1),
    "batch": tampered("batch", [7]),
    "batch-0": tampered("batch", [0]),
    "batch-negative": tampered("batch", [-1]),
    "grid-empty": tampered("grid", []),
    "grid-0": tampered("grid", [0, 0]),
    "grid-three": tampered("grid", [4, 4, 4]),
    "grid-text": tampered("grid", "ab"),
    "grid-fraction": tampered("grid", [8.5, 9]),
    "kind": tampered("encoding.kind", "os.system"),
    "encoding-null": tampered("encoding", None),
    "encoder-unknown-key": tampered("encoding.encoders.0.encode", 1),
    "encoder-class": tampered("encoding.encoders.0.__class__", "x"),
    "encoder-name": tampered("encoding.encoders.0.name", "__init__"),
    "encoder-sigma": tampered("encoding.encoders.0.sigma", -1),
    "encoder-features": tampered("encoding.encoders.0.features", 10**6),
    "head": tampered("head.kind", "subprocess.Popen"),
    "head-arguments": tampered("head.__init__", "x"),
    "head-list": tampered("head", [1]),
    "coordinates-one": tampered("coordinates", [[0, 1]]),
    "coordinates-short": tampered("coordinates", [[0, 1, 2], [0, 1]]),
}

OPTIONS = [
    ("reconstruct", "--sample", "every:0"),
    ("reconstruct", "--sample", "every:99999999999999999999"),
    ("reconstruct", "--sample", "random:nan"),
    ("reconstruct", "--sample", "random:2"),
    ("reconstruct", "--sample", "bogus"),
    ("reconstruct", "--sample", "mask:nope.png"),
    ("reconstruct", "--sample", "mask:"),
    ("reconstruct", "--encoder", "gaussian:axis=1"),
    ("reconstruct", "--encoder", "gaussian:cls=2"),
    ("reconstruct", "--encoder", "gaussian:generator=1"),
    ("reconstruct", "--encoder", "gaussian:sigma=nan"),
    ("reconstruct", "--encoder", "gaussian:sigma=1e400"),
    ("reconstruct", "--encoder", "gaussian:features=2.5"),
    ("reconstruct", "--encoder", "os.system"),
    ("reconstruct", "--encoder", "A" * 3000),
    ("reconstruct", "--encoder", "fourier:x=1"),
    ("reconstruct", "--encoder", "joint-embedding:grid=5"),
    ("reconstruct", "--head", "mlp:depth=100000,width=1"),
    ("reconstruct", "--head", "mlp:width=0"),
    ("reconstruct", "--prior", "adaptive:seed=abc"),
    ("reconstruct", "--prior", "adaptive:rounds=-1"),
    ("reconstruct", "--prior", "smooth:power=nan"),
    ("reconstruct", "--prior", "smooth:form=__class__"),
    ("reconstruct", "--prior", "local:strength=1e-300"),
    ("reconstruct", "--prior", "local:strength=1e300"),
    ("demosaic", "--prior", "local:rounds=1000"),
    ("reconstruct", "--prior", "plates:cutoff=1e-300"),
    ("reconstruct", "--epochs", "99999999999999999999"),
    ("reconstruct", "--epochs", "0"),
    ("reconstruct", "--size", "100000x100000"),
    ("reconstruct", "--size", "0x5"),
    ("reconstruct", "--crop", "99x99"),
    ("reconstruct", "--row", "1000000000"),
    ("reconstruct", "--seed", "-1"),
    ("reconstruct", "--device", "meta"),
    ("reconstruct", "--memory", "1B"),
    ("reconstruct", "--memory", "nanGiB"),
    ("upscale", "--factor", "0.5"),
    ("upscale", "--factor", "nan"),
    ("upscale", "--factor", "1e300"),
    ("upscale", "--factor", "1_000"),
    ("upscale", "--memory", "0B"),
    ("denoise", "--sigma", "-1"),
    ("denoise", "--sigma", "inf"),
    ("denoise", "--sigma", "1e30"),
    ("demosaic", "--pattern", "RRGB"),
    ("demosaic", "--pattern", "$(id)"),
]

POINT_OPTIONS = [
    ("--shape", "99999999999999999999"),
    ("--shape", "100000,100000"),
    ("--shape", "0,0"),
    ("--shape", "8x"),
    ("--bounds", "0,nan,0,1"),
    ("--bounds", "1,0,0,1"),
    ("--bounds", "0,1"),
    ("--bounds", "-1e308,1e308,0,1"),
    ("--at", "nope.csv"),
    ("--at", ""),
    ("--prior", "bogus"),
]

PATHS = ["", "nope.png", "folder.png", "pipe.png", "loop.png", "/dev/zero", "n" * 300 + ".png", "a/" * 2500 + "x.png"]
PLACES = ["good.png", "good.png/x", "full", "/dev/null", "/proc/nope/x", "o" * 300, "/dev/full"]


@pytest.fixture
def refused(run, tmp_path):
    """Run a command that must refuse: one line that names one of some words, and a folder as it was."""
    (tmp_path / "good.png").write_bytes(PNG)
    (tmp_path / "gray.png").write_bytes(image(GRAY, "PNG"))
    (tmp_path / "points.csv").write_bytes(POINTS)

    def refused(*arguments, names):
        before = sorted(tmp_path.rglob("*"))
        status, out, err = run(*arguments)
        assert (status, out) == (2, "")
        lines = err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("coordnet: ") and len(lines[0]) < 700, err
        assert any(name in lines[0] for name in names), err
        assert sorted(tmp_path.rglob("*")) == before
        assert not (tmp_path / "executed").exists()
        return lines[0]

    return refused


@pytest.mark.parametrize("name", SIGNALS)
def test_files_that_are_no_signal_are_refused(name, refused, tmp_path):
    (tmp_path / name).write_bytes(SIGNALS[name])
    refused("denoise", name, "--out", "o", "--quiet", names=[name])


@pytest.mark.parametrize("name", ["eps.png", "large.png", "two.npy", "declared.npy", "text.npy", "list.avi"])
def test_files_that_are_no_picture_are_not_enlarged(name, refused, tmp_path):
    (tmp_path / name).write_bytes(SIGNALS[name])
    refused("upscale", name, "--out", "o", "--quiet", names=[name])


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:12])
@pytest.mark.parametrize("command", [["denoise"], ["fit", "--shape", "8,8"], ["analyze"]], ids=lambda c: c[0])
def test_what_is_no_regular_file_is_refused(path, command, refused, tmp_path):
    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "loop.png").symlink_to("loop.png")
    refused(*command, path, "--out", "o", names=[path[:12] or "signal", "--", "expected"])


def test_a_corrupt_chunk_is_refused(refused, tmp_path):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(store=str(tmp_path / "a.zarr"), shape=(8, 9), dtype="f4", chunks=(8, 9))
    stored[...] = GRAY
    (chunk,) = [file for file in (tmp_path / "a.zarr").rglob("c/*/*") if file.is_file()]
    chunk.write_bytes(bytes(byte ^ 0x55 for byte in chunk.read_bytes()))
    for command in ("denoise", "upscale"):
        refused(command, "a.zarr", "--out", "o", "--quiet", names=["a.zarr"])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The file of a small model."""
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    samples = cn.sample(PICTURE, "every:2")
    cn.fit_closed_form(cn.ComplexEncoding.like(cn.Gaussian, samples), samples).save(path)
    return path


@pytest.mark.parametrize("change", MODELS)
def test_tampered_models_are_refused(change, model, refused, tmp_path):
    with safe_open(model, "pt") as file:
        configuration = json.loads(file.metadata()["coordnet"])
    MODELS[change](configuration)
    save_file(load_file(model), tmp_path / "m.safetensors", {"coordnet": json.dumps(configuration)})
    refused("analyze", "m.safetensors", "--out", "o", names=["m.safetensors"])


@pytest.mark.parametrize(
    "number, at, expected", [(torch.nan, 0, ""), (torch.inf, 0, ""), (3e38, slice(None), " of finite values")]
)
def test_models_whose_values_are_not_finite_are_refused(number, at, expected, model, refused, tmp_path):
    with safe_open(model, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(model)
    tensors["network.first.weight"][at] = number
    save_file(tensors, tmp_path / "m.safetensors", metadata)
    refused("analyze", "m.safetensors", "--out", "o", names=[f"m.safetensors: expected a model{expected}"])


@pytest.mark.parametrize("data", [pickle.dumps(Payload()), b"\xff" * 8, struct.pack("<Q", 2**63)])
def test_files_that_are_no_model_are_refused(data, refused, tmp_path):
    (tmp_path / "m.safetensors").write_bytes(data)
    refused("analyze", "m.safetensors", "--out", "o", names=["m.safetensors"])


@pytest.mark.parametrize("command, option, value", OPTIONS, ids=lambda text: text[:30])
def test_options_that_cannot_be_are_refused(command, option, value, refused):
    signal = "gray.png" if command == "demosaic" else "good.png"
    names = [option, "`", value[:12], value.rpartition(":")[2]]
    refused(command, signal, option, value, "--out", "o", "--quiet", names=names)


@pytest.mark.parametrize("option, value", POINT_OPTIONS)
def test_options_of_points_that_cannot_be_are_refused(option, value, refused):
    shape = [] if option == "--shape" else ["--shape", "8,8"]
    refused("fit", "points.csv", *shape, option, value, "--out", "o", "--quiet", names=[option, "`", value])


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[:14])
def test_folders_that_cannot_be_written_are_refused(place, refused, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "record.json").write_text("precious")
    refused("denoise", "good.png", "--out", place, "--quiet", names=[f"--out {place[:12]}"])
    assert (tmp_path / "full" / "record.json").read_text() == "precious"


@pytest.mark.parametrize(
    "lines",
    [b"garbage\n", b"[]\n", b'{"key": []}\n', b'{"key": "a"}\n', b'{"key": "a", "cell": 3}\n', b"[" * 10**5 + b"\n"],
)
def test_damaged_records_are_refused(lines, refused, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "records.jsonl").write_bytes(lines)
    refused("bench", "table2", "--report", "--out", "b", "--quiet", names=["records.jsonl"])


@pytest.mark.parametrize(
    "command",
    [["denoise"], ["inpaint", "good.png", "--mask"], ["data", "--out", "o", "--from"], ["bench", "table2", "--data"]],
    ids=lambda command: command[0],
)
def test_names_that_the_system_refuses_are_named_in_a_sentence(command, refused):
    """A path through a name that is too long raises from the first look at it, as one without permission does."""
    place = "n" * 300 + "/in.png"
    line = refused(*command, place, names=[place])
    assert "expected" in line and "found" in line and "File name too long" in line
    assert "Errno" not in line


def test_a_full_output_is_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["coordnet", "samples"])
    with open("/dev/full", "w") as full, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", full)
        full.reconfigure(line_buffering=True)
        assert main() == 2
        with contextlib.suppress(OSError):
            full.close()
    expected = "coordnet: the output: expected room to write, found an error (No space left on device)\n"
    assert capsys.readouterr().err == expected
