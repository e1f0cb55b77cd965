"""``cn.compare``: what the command does, from arrays of every kind, and a table that shows itself."""

import json
import re
from xml.etree import ElementTree

import imageio.v3 as iio
import numpy as np
import pytest
import torch
from IPython.core.formatters import DisplayFormatter

import coordnet as cn
from coordnet.comparison.attempts import Attempt, ranked
from coordnet.metrics import baselines
from tests.helpers import synthetic_photograph

pytestmark = pytest.mark.usefixtures("coarse")
SCALED = cn.fitting.EncoderChoice(cn.Gaussian, {"sigma": "1px", "features": 14})


@pytest.fixture(scope="module")
def image():
    return (synthetic_photograph(20, 28).numpy() * 255).round().astype(np.uint8)


@pytest.fixture(scope="module")
def table(image):
    return cn.compare(image, "every:2", encoders=[cn.Gaussian, SCALED], solvers=["closed-form"])


def scores(table):
    return {a.name: a.scores for a in table.attempts}


def test_exact_attempts_come_first_whatever_else_is_not():
    """An attempt that is exact where it counts has no number there; its other numbers do not rank it."""

    def attempt(name, held_out, fitted):
        scores = {"psnr": {"held_out": held_out, "fitted": fitted}}
        return Attempt(name, estimate=torch.zeros(1), scores=scores)

    attempts = [attempt("near", 50.0, None), attempt("exact", None, 20.0), Attempt("failed")]
    assert [a.name for a in ranked(attempts, "held_out")] == ["exact", "near", "failed"]
    assert [a.name for a in ranked(attempts, "fitted")] == ["near", "exact", "failed"]


def cells(table):
    """The texts of the rows that a notebook shows, and those that are bold."""
    tree = ElementTree.fromstring(f"<div>{table._repr_html_()}</div>")
    rows = [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]
    return rows, [bold.text for bold in tree.iter("b")]


@pytest.mark.slow
def test_the_command_gives_the_same_bits(run, tmp_path, image):
    pattern, image = "random:0.4", image[:12, :14, 0]
    iio.imwrite(tmp_path / "photo.png", image)
    arguments = "--encoder rff --encoder triangle:half_width=1.5px --head linear --head mlp:depth=1,width=8 --epochs 2"
    status, out, _ = run("compare", "photo.png", "--sample", pattern, *arguments.split(), "--seed", 5, "--json")
    assert status == 0
    record = json.loads(out)
    table = cn.compare(
        image,
        pattern,
        encoders=[cn.encoders.RandomFourier, cn.fitting.EncoderChoice(cn.Triangle, {"half_width": "1.5px"})],
        heads=[cn.heads.Linear(), cn.MLP(depth=1, width=8)],
        epochs=2,
        generator=torch.Generator().manual_seed(5),
    )
    assert [m["name"] for m in record["methods"]] == [a.name for a in table.attempts]
    for method, attempt in zip(record["methods"], table.attempts, strict=True):
        assert {key: method[key] for key in attempt.scores} == attempt.scores
    assert (record["known"], record["left_out"], record["seed"]) == (table.known, table.left_out, table.seed)


def test_arrays_of_every_kind_are_one_signal(image, table):
    options = {"encoders": [cn.Gaussian, SCALED], "solvers": ["closed-form"]}
    assert scores(cn.compare(torch.from_numpy(image).float() / 255, "every:2", **options)) == scores(table)
    small = image[:6, :5, 0]
    torch.manual_seed(0)
    samples = cn.sample(torch.from_numpy(small[..., None] / 255).float(), "random:0.5")
    known = samples.geometry.known(1)[..., 0]
    masked = cn.compare(small, known.numpy(), generator=torch.Generator().manual_seed(0))
    assert scores(masked) == scores(cn.compare(small, "random:0.5", generator=torch.Generator().manual_seed(0)))


def test_the_table_is_sorted_and_marks_the_best(table):
    rows, bold = cells(table)
    assert rows[0] == ["method", "held-out PSNR", "SSIM", "fit", "render", "parameters"]
    psnr = [float(row[1].removesuffix(" dB")) for row in rows[1:]]
    ssim = [float(row[2]) for row in rows[1:]]
    assert psnr == sorted(psnr, reverse=True)
    assert set(bold) == {f"{psnr[0]:.2f} dB", f"{max(ssim):.3f}"}
    assert {row[0] for row in rows} > {f"baseline · {name}" for name in baselines.BASELINES}
    found = {row[0]: row[5] for row in rows}
    assert found["gaussian:sigma=1px,features=14 · linear · closed-form · smooth"] == f"{14 * 14 * 3:,}"
    assert found["baseline · cubic"] == "–"


def test_a_notebook_shows_the_table_and_the_figure(table):
    shown, _ = DisplayFormatter().format(table)
    assert shown["text/html"] == table._repr_html_()
    shown, _ = DisplayFormatter().format(table.figure())
    assert shown["image/png"].startswith(b"\x89PNG")


def test_a_terminal_shows_the_same_numbers(run, tmp_path, image, table):
    rows, _ = cells(table)
    lines = [re.split(r"\s{2,}", line) for line in repr(table).splitlines()[2:]]
    assert lines == rows
    iio.imwrite(tmp_path / "signal.png", image)
    out = run("compare", "signal.png", "--encoder", "gaussian", "--sample", "every:2")[1].splitlines()
    found = repr(cn.compare(image, "every:2", encoders=[cn.Gaussian])).splitlines()
    assert out[0] == found[0] and [line.split(" dB")[0] for line in out[:-2]] == [s.split(" dB")[0] for s in found]


def test_data_frames_have_the_numbers_and_what_methods_are_made_of(table):
    frame = table.to_pandas()
    assert list(frame["name"]) == [a.name for a in table.attempts]
    assert list(frame["held-out PSNR (dB)"]) == [a.scores["psnr"]["held_out"] for a in table.attempts]
    assert set(frame["encoder"].dropna()) == {"fourier", "gaussian", "gaussian:sigma=1px,features=14"}
    assert (frame["fit (s)"] > 0).all()


def test_failures_stand_last_with_their_reason(image, monkeypatch, tmp_path):
    def failing(samples):
        raise ValueError("no <b>cubic</b> today")

    monkeypatch.setitem(baselines.BASELINES, "cubic", failing)
    table = cn.compare(image, "every:2", encoders=[cn.Gaussian])
    assert cells(table)[0][-1] == ["baseline · cubic", "failed: no <b>cubic</b> today"]
    assert repr(table).endswith("  failed: no <b>cubic</b> today")
    assert list(table.to_pandas()["failed"])[-1] == "no <b>cubic</b> today"
    assert "baseline · cubic" not in table.estimates
    table.save_html(tmp_path / "page.html")
    assert "failed: no &lt;b&gt;cubic&lt;/b&gt; today" in (tmp_path / "page.html").read_text()


def test_heads_that_are_not_linear_take_the_simple_encoding_and_impossible_ones_are_named(image):
    head = cn.MLP(depth=1, width=8)
    table = cn.compare(image, "every:2", encoders=[SCALED, cn.Triangle], heads=[head], solvers=["closed-form"])
    names = [
        "gaussian:sigma=1px,features=14 · mlp:depth=1,width=8 · closed-form",
        "triangle · mlp:depth=1,width=8 · closed-form",
    ]
    assert list(table.left_out) == names
    assert f"left out: {'; '.join(names)} (a closed form needs" in repr(table)
    assert len(table.attempts) == 1 + len(baselines.BASELINES)  # beside the default of such samples
    trained = cn.compare(image, "every:2", encoders=[SCALED], heads=[head], epochs=1)
    methods = [a.method for a in trained.attempts if a.method]
    assert [m.encoding for m in methods if m.solver == "gradient"] == ["simple"]


def test_a_page_of_a_gray_picture_needs_nothing_beside_it(image, tmp_path):
    table = cn.compare(image[..., 0].astype(np.float64) - 400, "every:2", encoders=[cn.Gaussian])
    table.save_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert not re.search(r"(?:src|href)=\"(?!data:image/webp|#)", page)
    assert page.count("data:image/webp") == 2 + 2 * len(table.attempts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoders": [cn.Gaussian(8, 0.1)]}, r"`encoders`: expected classes such as cn.Gaussian"),
        ({"heads": [cn.MLP]}, r"`heads`: expected heads such as cn.MLP\(depth=2\), received the class MLP"),
        ({"solvers": ["magic"]}, "`solver`"),
        ({"epochs": 0}, "`epochs`"),
    ],
)
def test_what_is_wrong_is_said(image, options, message):
    with pytest.raises(ValueError, match=message):
        cn.compare(image, "every:2", **options)


def test_an_option_that_an_encoder_does_not_have_is_refused():
    with pytest.raises(ValueError, match="`encoder`: expected gaussian with sigma, .*gaussian:width=3"):
        cn.fitting.EncoderChoice(cn.Gaussian, {"width": 3})
