"""Reconstructions within ``torch.func`` and ``torch.compile``."""

import math
import os
import subprocess
import sys

import pytest
import torch
from torch.func import hessian, jacfwd, jacrev, vmap

import coordnet as cn
from coordnet.encodings.encoders import RandomFourier

X = torch.rand(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1
# PyTorch's own forward derivatives, which it compiles when first used.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
BLENDS = ("linear", "cubic", "quintic", "similarity")  # the first two compile like the third


def whole(dtype=torch.float64):
    y, x = torch.meshgrid(torch.arange(8) / 8, torch.arange(9) / 9, indexing="ij")
    return torch.stack([(5 * x * y).sin(), (3 * y).cos() + x], -1).to(dtype)


def scattered(blending):
    points = torch.rand(80, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    samples = cn.Samples(
        cn.ScatteredPoints((8, 9), points, blending=blending), (5 * points[:, :1]).sin() + points[:, 1:]
    )
    return cn.fit_closed_form(cn.ComplexEncoding.like(cn.Gaussian, samples), samples, cn.Smoothness())


def trained():
    encoding = cn.SimpleEncoding.like(RandomFourier, cn.Lattice((8, 9)), features=16)
    return cn.Reconstruction(cn.CoordinateNetwork(encoding, cn.MLP(2, 8), 2), torch.zeros(2), (8, 9)).double()


def on_coordinates():
    lattice = cn.RectilinearLattice(torch.arange(8).double() ** 2 / 64, torch.arange(9).double() / 9)
    return cn.fit(lattice.sample(whole()), prior=cn.Smoothness())


FITS = {
    "fourier": lambda: cn.fit(cn.sample(whole(), "random:0.5"), prior=cn.Smoothness()),
    "gaussian": lambda: cn.fit_closed_form(
        cn.ComplexEncoding.like(cn.Gaussian, cn.Lattice((8, 9))), cn.sample(whole(), "full")
    ),
    "trained": trained,
    "rectilinear": on_coordinates,
    **{blend: (lambda blend=blend: scattered(blend)) for blend in BLENDS},
}


@pytest.fixture(params=FITS)
def fit(request):
    return FITS[request.param]()


def test_derivatives_at_many_points_are_those_of_each(fit):
    expected = torch.stack([torch.autograd.functional.jacobian(fit, x) for x in X])
    assert torch.allclose(vmap(jacrev(fit))(X), expected, atol=1e-9)
    assert torch.allclose(vmap(jacfwd(fit))(X), expected, atol=1e-9)
    second = torch.stack([torch.autograd.functional.jacobian(jacrev(fit), x) for x in X])
    assert torch.allclose(vmap(hessian(fit))(X), second, atol=1e-7)


# Inductor tries kinds of vectors in C++ programs, and compiles headers ahead, which takes longer than its few kernels.
PLAIN = {"TORCHINDUCTOR_VEC_ISA_OK": "0", "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}
COMPILED = """
import sys, torch, coordnet as cn

folder, *work = sys.argv[1:]
points = torch.load(folder + "/points.pt")
for name, backend in (each.split(":") for each in work):
    torch.compiler.reset()
    fit = cn.Reconstruction.load(f"{folder}/{name}.safetensors")
    compiled = torch.compile(fit, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(points), fit(points), atol=1e-12, rtol=0, msg=lambda text: name + ": " + text)
    beyond = torch.full_like(points, 1.2)
    assert fit.lattice or bool(compiled(beyond).isnan().all()), name
"""


@pytest.mark.slow
def test_each_compiles_into_one_graph_and_the_default_compiler_takes_it(tmp_path):
    """In one process of their own, where annotations, which have wrappers, are not executed."""
    for name, fit in FITS.items():
        fit().save(tmp_path / f"{name}.safetensors")
    torch.save(X, tmp_path / "points.pt")
    work = {name: "eager" for name in FITS if name not in BLENDS[:2]} | {"gaussian": "inductor"}
    each = [f"{name}:{backend}" for name, backend in work.items()]
    command = [sys.executable, "-c", COMPILED, tmp_path, *each]
    done = subprocess.run(command, env={**os.environ, **PLAIN}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_points_beyond_are_nan_where_none_may_be_looked_at():
    fit = FITS["gaussian"]()
    points = torch.tensor([[0.5, 0.5], [0.5, 1.2], [-0.2, 0.1], [math.nan, 0.5]], dtype=torch.float64)
    found = vmap(fit)(points)
    assert torch.allclose(found[0], fit(points[0]))
    assert bool(found[1:].isnan().all())
    with pytest.raises(ValueError, match="`points`: expected coordinates in"):
        fit(points)
