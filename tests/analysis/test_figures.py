"""The papers' figures, and the command that draws them."""

import json

import pytest

from coordnet.analysis import stable_rank
from coordnet.encodings import SimpleEncoding
from coordnet.encodings.encoders import Gaussian
from coordnet.encodings.kinds import ENCODERS
from coordnet.fitting.gradient import fit_gradient
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.plots.encodings import encoder_figure
from coordnet.plots.published import FIGURES
from coordnet.sampling.axes import Axis, lattice_points
from coordnet.sampling.patterns import sample
from tests.helpers import SMALL_ENCODERS, refused

pytestmark = pytest.mark.usefixtures("coarse")


@pytest.fixture(scope="module")
def drawn():
    """Every figure of the papers, drawn once; those that train encoders do so for a few epochs on a small grid."""
    small = dict.fromkeys(("similarity", "similarity-42", "frequencies"), {"side": 16, "epochs": 5})
    small["2"] = {"counts": (64, 128)}
    return {name: figure(**small.get(name, {})) for name, figure in FIGURES.items()}


@pytest.mark.slow
def test_gaussian_rank_follows_its_theory(drawn):
    for curves in drawn["2"][1].values():
        for measured, theory in zip(curves["measured"], curves["theory"], strict=True):
            assert measured == pytest.approx(theory, rel=0.12)  # the corner of min(N, …) is round


def test_only_the_impulse_has_full_rank_in_figure_3(drawn):
    numbers = drawn["3"][1]
    assert numbers["impulse"]["measured"][-1] == pytest.approx(256)
    assert max(v["measured"][-1] for k, v in numbers.items() if k != "impulse") < 70
    assert numbers["sine"]["measured"][-1] == pytest.approx(2, rel=0.01)


def test_figures_are_written_once_with_their_numbers(drawn, monkeypatch, tmp_path, run):
    for figure, numbers in drawn.values():
        assert figure.axes and json.dumps(numbers, allow_nan=False)
    monkeypatch.setitem(FIGURES, "boxes", lambda: drawn["boxes"])
    status, out, _ = run("analyze", "--figure", "boxes", "--out", "f", "--json")
    record = json.loads(out)
    assert status == 0 and record == json.loads((tmp_path / "f" / "record.json").read_text())
    assert record["seconds"] < 30
    assert (tmp_path / "f" / "figure.png").read_bytes()[:4] == b"\x89PNG"
    assert run("analyze", "--figure", "boxes", "--out", "f")[0] == 2


def test_frequencies_below_the_first_are_counted(drawn):
    counted = drawn["spectrum"][1]["below the first DFT frequency"]
    assert counted == {"sinusoidal": 76, "of": 128, "paper's count of entries": 103}


def test_eq_22_as_printed_is_not_exact(drawn):
    """Flat weights are; halved constant and Nyquist terms miss 1/d, less what the norm gives back."""
    errors = drawn["faithfulness"][1]["largest error"]
    assert errors["DFT"] < 1e-12
    assert errors["DFT, Eq. 22 as printed"] == pytest.approx(1 / 256, rel=0.01)
    assert errors["sinusoidal"] > 0.5


def test_similarities_are_those_of_the_papers_positions(drawn):
    numbers = drawn["similarity"][1]
    assert numbers["learnable Fourier, drawn"]["nodes"] == [[1, 1], [1, 14], [7, 7], [14, 1], [14, 14]]
    assert numbers["the same, trained"] != numbers["learnable Fourier, drawn"]
    assert set(drawn["frequencies"][1]["MLP"]) == {"drawn", "trained"}


def test_a_box_is_less_similar_to_others_the_more_coordinates_a_group_has(drawn):
    """By one group of four, four shifted coordinates count together: ½ e^(-‖δ‖²/2γ²), and not each by itself."""
    moved = [drawn["boxes"][1][groups]["moved"] for groups in ("1/4", "2/2", "4/1")]
    assert moved == sorted(moved)
    assert moved[0] < 0.1 < moved[2]


def test_encoders_are_measured(run):
    options = ["--encoder", "gaussian:sigma=0.02", "--encoder", "rff", "--samples", "64", "--json"]
    status, out, _ = run("analyze", *options)
    assert status == 0
    numbers = json.loads(out)["numbers"]
    gaussian = numbers["gaussian:sigma=0.02,features=64"]
    assert gaussian["stable_rank"] == pytest.approx(gaussian["theory"], rel=0.03)
    assert gaussian["over_samples"]["at"] == [8.0 * k for k in range(1, 9)]
    assert gaussian["matched_sigma"] == pytest.approx(0.1125 / 0.02, rel=1e-3)
    assert 0.02 in [pytest.approx(at) for at in gaussian["over_scale"]["at"]]
    assert gaussian["heat maps"]["simple"]["mean"] > gaussian["heat maps"]["complex"]["mean"]


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_has_a_page(name):
    family = ENCODERS[name]
    axes = (Axis(8), Axis(8)) if family.joint else (Axis(8),)
    _, numbers = encoder_figure({name: (family.like(axes, **SMALL_ENCODERS.get(name, {})), axes)}, [(1, 6)])
    (found,) = json.loads(json.dumps(numbers)).values()
    assert found["heat maps"]["nodes"] == [[1, 6]]
    assert (found["spectrum"] is None) == family.joint
    assert set(found["heat maps"]) == {"nodes", "side", *(("joint",) if family.joint else ("simple", "complex"))}
    assert (found["over_scale"] is not None) == bool(family.scales)


def test_a_fitted_encoding_is_looked_into(run, tmp_path, photograph):
    samples = sample(photograph[:16, :12], "every:2")
    network = CoordinateNetwork(SimpleEncoding.like(Gaussian, samples), Linear())
    fit_gradient(network, samples, epochs=20).save(tmp_path / "model.safetensors")
    status, out, _ = run("analyze", "model.safetensors", "--out", "f", "--json")
    assert status == 0
    numbers = json.loads(out)["numbers"]
    assert max(numbers["rank of each channel"]) <= 2
    matrix = network.encoding(lattice_points((Axis(16), Axis(12)))).flatten(0, 1)
    assert numbers["matrices"][0]["stable_rank"] == pytest.approx(stable_rank(matrix))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--figure", "9"], "--figure: expected one of 2, 3, 4"),
        (["--encoder", "x"], "--encoder: expected one of gaussian"),
        (["--encoder", "fourier"], "--encoder: expected another than fourier"),
        (["--at", "x", "--json"], "--at: expected a row and a column, as in 16,48"),
        (["--at", "3,99", "--json"], "--at: expected a row and a column below 64"),
        (["--figure", "2", "--encoder", "rff"], "--figure: expected no --encoder"),
        (["--samples", "1", "--json"], "--samples: expected an integer of at least 2"),
    ],
)
def test_bad_usage_is_one_line(arguments, message, run, tmp_path):
    assert message in refused(run("analyze", *arguments), tmp_path, ())
