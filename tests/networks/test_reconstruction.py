import copy
import functools
import json

import jaxtyping
import pytest
import torch
from safetensors.torch import load_file, safe_open, save_file

import coordnet as cn
from coordnet.encodings import ComplexEncoding, SimpleEncoding
from coordnet.encodings.blending import Blending
from coordnet.encodings.encoders import Gaussian
from coordnet.fitting.closed_form import fit_closed_form
from coordnet.fitting.gradient import fit_gradient
from coordnet.networks.heads import MLP
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.sampling.axes import lattice_points, render_axes
from coordnet.sampling.patterns import sample


def closed(photograph, encoder=Gaussian):
    samples = sample(photograph, "every:2")
    return fit_closed_form(ComplexEncoding.like(encoder, samples, features=16), samples)


def trained(photograph, kind):
    samples = sample(photograph, "every:2")
    network = CoordinateNetwork(kind.like(Gaussian, samples, features=12), MLP(2, 8), 3)
    return fit_gradient(network, samples, epochs=2)


@pytest.fixture(params=["closed", "simple", "complex"])
def made(request, photograph):
    if request.param == "closed":
        return closed(photograph)
    return trained(photograph, {"simple": SimpleEncoding, "complex": ComplexEncoding}[request.param])


@pytest.mark.parametrize("alignment", ["pixel", "sample"])
def test_a_render_is_the_function_at_its_points(made, alignment):
    points = lattice_points(render_axes((37, 50), (64, 48), alignment), torch.float32)
    assert torch.allclose(made.render((37, 50), alignment), made(points), atol=1e-5)


def test_what_is_asked_for_in_short_is_the_same(made, generator):
    """The own grid is the default, one number is a square, points are cast, and chunks do not matter."""
    points = torch.rand(300, 2, generator=generator)
    assert torch.equal(made.render(), made.render((64, 48)))
    assert torch.equal(made.render(20), made.render((20, 20)))
    assert torch.equal(made(points.double()), made(points))
    assert torch.allclose(made(points, memory=2**12), made(points), atol=1e-6)
    assert torch.allclose(made.render((33, 31), memory=2**12), made.render((33, 31)), atol=1e-6)


def test_derivatives_with_respect_to_points(photograph):
    samples = sample(photograph.double(), "every:4")
    made = fit_closed_form(ComplexEncoding.like(Gaussian, samples), samples)
    points = torch.tensor([[0.21, 0.47], [0.73, 0.52]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(made, (points,))


def test_saved_and_loaded_it_renders_the_same_to_the_bit(made, tmp_path):
    made.save(tmp_path / "model.safetensors")
    again = Reconstruction.load(tmp_path / "model.safetensors")
    assert torch.equal(again.render((41, 29)), made.render((41, 29)))
    assert again.lengths == made.lengths
    assert again.report == made.report


def test_coordinates_of_another_grid_are_refused(photograph):
    fit = closed(photograph)
    with pytest.raises(ValueError, match="`lattice`: expected 64 by 48 coordinates, received"):
        Reconstruction(fit.network, fit.offset, fit.lengths, lattice=cn.RectilinearLattice([0, 1, 2], [0, 1]))


def damaged(path, kind):
    content = path.read_bytes()
    match kind:
        case "truncated":
            path.write_bytes(content[: len(content) // 2])
        case "text":
            path.write_text("not a model")
        case "foreign":
            save_file({"x": torch.ones(3)}, path)
        case "another encoder":
            path.write_bytes(content.replace(b"gaussian", b"gaussiam"))
        case "missing":
            path.unlink()


@pytest.mark.parametrize("kind", ["truncated", "text", "foreign", "another encoder", "missing"])
def test_damaged_and_foreign_files_give_one_clear_line(kind, photograph, tmp_path):
    path = tmp_path / "model.safetensors"
    closed(photograph).save(path)
    damaged(path, kind)
    with pytest.raises(ValueError, match="expected a model that coordnet saved, found") as caught:
        Reconstruction.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("head", "width"), 10**8, r"another kind of file \(Error\(s\) in loading state_dict"),
        (("grid",), [10**9, 10**9], r"`grid`: expected at most 1,099,511,627,776 nodes, received \(1000000000, "),
    ],
)
def test_models_of_absurd_size_take_no_memory(keys, value, message, photograph, tmp_path):
    """They are refused by their numbers: memory for them is not asked for, so that none is missing."""
    path = tmp_path / "model.safetensors"
    trained(photograph, SimpleEncoding).save(path)
    with safe_open(path, "pt") as file:
        configuration = json.loads(file.metadata()["coordnet"])
    *parents, last = keys
    functools.reduce(dict.__getitem__, parents, configuration)[last] = value
    save_file(load_file(path), path, {"coordnet": json.dumps(configuration)})
    with pytest.raises(ValueError, match=message):
        Reconstruction.load(path)


def test_a_blending_of_other_features_than_products_is_refused(photograph, tmp_path):
    samples = sample(photograph, "every:4")
    network = CoordinateNetwork(SimpleEncoding.like(Gaussian, samples), MLP(depth=1, width=4))
    Reconstruction(network.blended(Blending("linear", samples.axes)), torch.zeros(3), samples.grid).save(
        tmp_path / "model.safetensors"
    )
    with pytest.raises(ValueError, match="`blending`: expected none, for features that are no product of the axes'"):
        Reconstruction.load(tmp_path / "model.safetensors")


def test_points_and_shapes_that_do_not_go_are_refused(made, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # users have no annotations executed
    for points, message in (
        (torch.rand(3, 3), "`points`: expected 2 coordinates"),
        (
            torch.zeros(3, 2, dtype=torch.int64),
            "`points`: expected a tensor of floating-point coordinates, received torch.int64",
        ),
        (torch.zeros(3, 2, dtype=torch.complex64), "`points`: expected a tensor of floating-point"),
        (torch.tensor([[0.5, 1.2]]), r"`points`: expected coordinates in \[0, 1\), or up to half .* received 1.2"),
        (torch.tensor([[-0.01, 0.5]], requires_grad=True), "received -0.01"),
    ):
        with pytest.raises(ValueError, match=message):
            made(points)
    with pytest.raises(ValueError, match="`outside`: expected one of error, clamp, extrapolate"):
        made(torch.rand(3, 2), outside="wrap")
    with pytest.raises(ValueError, match="`shape`: expected 2 lengths"):
        made.render((3, 3, 3))


def test_points_outside_are_clamped_or_extrapolated_if_asked(made):
    border, beyond = torch.tensor([[0.5, 1 + 0.5 / 48], [0.25, -0.5 / 48]]), torch.tensor([[0.5, 7.0], [0.25, -0.3]])
    assert torch.equal(made(beyond, outside="clamp"), made(border))
    assert torch.equal(made(beyond, outside="extrapolate"), made.network(beyond) + made.offset)
    assert torch.equal(made(border, outside="extrapolate"), made(border))


def test_it_is_a_module(made, photograph):
    half = copy.deepcopy(made).to(torch.float64)
    assert half.render().dtype == torch.float64
    assert torch.allclose(half.render().float(), made.render(), atol=1e-4)
    other = copy.deepcopy(made)
    for tensor in other.state_dict().values():
        tensor.zero_()
    other.load_state_dict(made.state_dict())
    assert torch.equal(other.render(), made.render())
    assert sum(p.numel() for p in made.parameters()) >= 3 * 12
    text = repr(made)
    assert "shape=(64, 48, 3)" in text
    assert "Gaussian(features=1" in text
    assert "sigma=" in text
    assert "tensor" not in text


def test_it_is_trained_in_a_larger_model(photograph):
    """A factor on the amplitude of a closed form, and the closed form itself once that is asked for."""
    made = closed(photograph)
    assert "prior=Smoothness(power=1.5, strength=0.03" in repr(made)

    class Larger(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.signal, self.factor = made, torch.nn.Parameter(torch.ones(()))

        def forward(self, points):
            return self.factor * self.signal(points)

    model, points = Larger(), torch.rand(9, 2)
    assert [name for name, p in model.named_parameters() if p.requires_grad] == ["factor"]
    model(points).square().sum().backward()
    assert model.factor.grad.isfinite()
    model.requires_grad_()
    model(points).square().sum().backward()
    assert made.network.first.weight.grad.abs().max() > 0
