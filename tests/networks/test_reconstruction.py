import pickle

import pytest
import torch

from coordnet.encodings import ComplexEncoding, SimpleEncoding
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


def test_the_own_grid_is_the_default(made):
    assert torch.equal(made.render(), made.render((64, 48)))


def test_chunks_do_not_matter(made, generator):
    points = torch.rand(300, 2, generator=generator)
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
    assert again.grid == made.grid
    assert again.report == made.report


def damaged(path, kind):
    content = path.read_bytes()
    match kind:
        case "truncated":
            path.write_bytes(content[: len(content) // 2])
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("not a model")
        case "pickle":
            path.write_bytes(pickle.dumps({"a": 1}))
        case "foreign":
            from safetensors.torch import save_file

            save_file({"x": torch.ones(3)}, path)
        case "another shape":
            path.write_bytes(
                content.replace(b'\\"channels\\":3', b'\\"channels\\":4').replace(
                    b'"channels\\": 3', b'"channels\\": 4'
                )
            )
        case "another encoder":
            path.write_bytes(content.replace(b"gaussian", b"gaussiam"))
        case "missing":
            path.unlink()


@pytest.mark.parametrize("kind", ["truncated", "empty", "text", "pickle", "foreign", "another encoder", "missing"])
def test_damaged_and_foreign_files_give_one_clear_line(kind, photograph, tmp_path):
    path = tmp_path / "model.safetensors"
    closed(photograph).save(path)
    damaged(path, kind)
    with pytest.raises(ValueError, match="expected a model that coordnet saved, found") as caught:
        Reconstruction.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_points_of_another_dimension_are_refused(made):
    with pytest.raises(ValueError, match="`points`: expected last axis of 2"):
        made(torch.rand(3, 3))
    with pytest.raises(ValueError, match="`shape`: expected 2 lengths"):
        made.render((3, 3, 3))
