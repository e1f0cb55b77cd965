"""From an encoder and an axis to a matrix: dense or banded, shared where encoders and axes are equal."""

import pytest
import torch

import coordnet as cn
from coordnet.encodings import ComplexEncoding
from coordnet.encodings.designs import CROSSOVER, dense_pseudo_inverse, design, designs, same
from coordnet.encodings.encoders import Gaussian, LearnedEmbedding, RandomFourier, Sine, Triangle
from coordnet.encodings.kinds import ENCODERS
from coordnet.linalg.banded import BandedMatrix
from coordnet.linalg.kronecker import Kronecker
from coordnet.linalg.operators import Composition
from coordnet.sampling.axes import Axis, lattice_points
from coordnet.sampling.grids import Lattice


@pytest.mark.parametrize("family", [Gaussian, Triangle, Sine, RandomFourier, LearnedEmbedding])
@pytest.mark.parametrize("count", [CROSSOVER - 1, 2 * CROSSOVER])
@torch.no_grad()
def test_a_design_is_the_encoder_on_the_axis(family, count):
    encoder, axis = family.like(Axis(count)), Axis(count + 20)
    expected = encoder(axis.points())
    found = design(encoder, axis)
    assert isinstance(found, BandedMatrix) == (family in (Gaussian, Triangle) and count > CROSSOVER)
    matrix = found.dense() if isinstance(found, BandedMatrix) else found
    assert torch.allclose(matrix, expected, atol=1e-15)
    assert torch.equal(design(encoder, axis, dense=True), expected)
    assert torch.equal(design(encoder, axis, torch.float32, dense=True), expected.float())


def test_a_learning_encoder_has_a_dense_design_with_its_gradient():
    encoder = Gaussian.like(Axis(300), learnable=True)
    matrix = design(encoder, Axis(300), torch.float32)
    assert matrix.requires_grad and matrix.dtype == torch.float32
    with torch.no_grad():
        assert isinstance(design(encoder, Axis(300)), BandedMatrix)


def test_equal_axes_share_a_design():
    encoding = ComplexEncoding.like(Gaussian, Lattice((150, 150, 140)))
    first, second, third = designs(encoding, Lattice((150, 150, 140)).axes)
    assert first is second
    assert third is not first
    encoding.axis_encoders[1].gain = 2.0
    first, second, _ = designs(encoding, Lattice((150, 150, 140)).axes)
    assert torch.equal(second.dense(), 2 * first.dense())


def test_encoders_are_the_same_by_class_attributes_and_tensors():
    class Own(Gaussian):
        pass

    axis = Axis(8)
    assert same(Gaussian.like(axis), Gaussian.like(axis))
    assert not same(Gaussian.like(axis), Own.like(axis))
    drawn = [RandomFourier.like(axis, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2)]
    assert same(drawn[0], drawn[1]) and not same(drawn[0], drawn[2])
    a, b = Own.like(axis), Own.like(axis)
    for value, other in ((1.0, 2.0), (lambda: 1, lambda: 1), (torch.zeros(2), torch.ones(2))):
        a.own, b.own = value, value
        assert same(a, b)
        b.own = other
        assert not same(a, b)


def tiny(matrix):
    """How many entries are subnormal, or below 1e-30 of the largest."""
    entries = matrix.dense() if isinstance(matrix, BandedMatrix) else matrix
    least = max(1e-30 * float(entries.abs().max()), torch.finfo(entries.dtype).tiny)
    return int(((entries != 0) & (entries.abs() < 0.99 * least)).sum())


@pytest.mark.parametrize("family", ENCODERS.values(), ids=ENCODERS)
@pytest.mark.parametrize("count", [60, 150], ids=["dense", "banded"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.filterwarnings("ignore::coordnet.linalg.kronecker.RankWarning")
@torch.no_grad()
def test_nothing_is_multiplied_that_is_too_small_to_count(family, count, dtype):
    geometry = Lattice((count, 20))
    if family.joint:
        assert tiny(family.like(geometry.axes)(lattice_points(geometry.axes, dtype))) == 0
        return
    encoding = ComplexEncoding.like(family, geometry)
    fine = Lattice((2 * count, 40)).axes
    matrices = designs(encoding, fine, dtype) + designs(encoding, fine, dtype, dense=True)
    for prior in (None, cn.Smoothness()):
        plan = cn.plan(encoding, geometry, prior, dtype=dtype)
        for operator in (plan._operator, plan.renderer((2 * count, 40)).operator):
            parts = operator.factors if isinstance(operator, Composition) else [operator]
            matrices += [a for part in parts if isinstance(part, Kronecker) for a in part.matrices]
    assert [tiny(matrix) for matrix in matrices] == [0] * len(matrices)
    assert tiny(encoding.axis_encoders[0](torch.rand(50, dtype=dtype))) == 0


@pytest.mark.parametrize("family", [Gaussian, Triangle])
@pytest.mark.parametrize("count", [30, 40, 50])
@torch.no_grad()
def test_normal_equations_give_the_pseudo_inverse_of_a_dense_design(family, count):
    encoder, axis = family.like(Axis(40)), Axis(count)
    matrix = encoder(axis.points())
    found, condition = dense_pseudo_inverse(matrix, torch.float32)
    assert torch.allclose(found, torch.linalg.pinv(matrix), atol=1e-10)
    assert torch.linalg.cond(matrix) <= condition < 100 * torch.linalg.cond(matrix)


def test_normal_equations_refuse_what_they_would_not_solve(generator):
    matrix = torch.rand(30, 20, dtype=torch.float64, generator=generator)
    repeated, scaled = matrix.clone(), matrix.clone()
    repeated[:, 1] = repeated[:, 0]
    scaled[:, 1] *= 1e-7
    for singular in (repeated, scaled, torch.zeros(5, 5, dtype=torch.float64)):
        assert dense_pseudo_inverse(singular, torch.float32) is None
    assert dense_pseudo_inverse(cn.Gaussian(64, 0.03)(Axis(128).points()).detach(), torch.float32) is None
