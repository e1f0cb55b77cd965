import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coordnet.linalg.kronecker import KroneckerLeastSquares, RankWarning, mode_product, outer_product, outer_sum
from tests.helpers import dense_least_squares, kron

SHAPES = [
    [(6, 4)],
    [(3, 5)],
    [(6, 4), (5, 5)],
    [(4, 6), (7, 3)],
    [(4, 3), (5, 2), (3, 3)],
    [(3, 2), (2, 3), (4, 2), (3, 2)],
    [(3, 2), (2, 2), (2, 3), (3, 2), (2, 1)],
]


def draw(shapes, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(*s, generator=g, dtype=dtype) for s in shapes]


def deficient(shapes):
    """Matrices whose first has a repeated column and a zero one."""
    matrices = draw(shapes)
    matrices[0][:, -1] = matrices[0][:, 0]
    return matrices


@pytest.mark.parametrize("shapes", SHAPES)
def test_mode_product_is_the_kronecker_product(shapes, generator):
    matrices = draw(shapes)
    t = torch.randn(2, 3, *(k for _, k in shapes), dtype=torch.float64, generator=generator)
    expected = t.reshape(2, 3, -1) @ kron(matrices).T
    assert torch.allclose(mode_product(t, matrices).reshape(2, 3, -1), expected, atol=1e-12)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=5), st.integers(0, 99))
@settings(max_examples=40)
def test_mode_product_and_its_adjoint_pass_the_dot_test(shapes, seed):
    matrices = draw(shapes, seed)
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(*(k for _, k in shapes), dtype=torch.float64, generator=g)
    y = torch.randn(*(n for n, _ in shapes), dtype=torch.float64, generator=g)
    left = (mode_product(x, matrices) * y).sum()
    right = (x * mode_product(y, [a.T for a in matrices])).sum()
    assert torch.allclose(left, right, atol=1e-10)


def test_mode_product_gradients(generator):
    matrices = [a.requires_grad_() for a in draw([(3, 2), (2, 4), (3, 3)])]
    t = torch.randn(2, 2, 4, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t, *m: mode_product(t, m), (t, *matrices))


def test_mode_product_refuses_another_length():
    with pytest.raises(ValueError, match=r"`tensor`: expected last axes of \(4,\), received \(3,\)"):
        mode_product(torch.ones(3), [torch.ones(2, 4)])


def test_outer_product_and_sum():
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0, 7.0])
    assert torch.equal(outer_product([a, b]).flatten(), torch.kron(a, b))
    assert torch.equal(outer_sum([a, b]), torch.tensor([[4.0, 6, 8], [5, 7, 9]]))


def symmetric(shapes):
    """Symmetric matrices, with eigenvalues of both signs and one of zero."""
    matrices = [a.T @ torch.diag(torch.arange(-1.0, len(a) - 1).double()) @ a for a in draw(shapes)]
    return [(a + a.T) / 2 for a in matrices]


@pytest.mark.parametrize("make", [draw, deficient, symmetric])
@pytest.mark.parametrize("shapes", SHAPES)
def test_least_squares_equals_dense(shapes, make, generator):
    matrices = make(shapes)
    y = torch.randn(2, 3, *(len(a) for a in matrices), dtype=torch.float64, generator=generator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)
        system = KroneckerLeastSquares(matrices)
    assert torch.allclose(system.inverse(y), dense_least_squares(matrices, y), atol=1e-8)


@pytest.mark.parametrize("make", [draw, deficient])
@pytest.mark.parametrize("shapes", SHAPES)
def test_ridge_equals_dense_ridge(shapes, make, generator):
    matrices = make(shapes)
    y = torch.randn(*(n for n, _ in shapes), dtype=torch.float64, generator=generator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)
        system = KroneckerLeastSquares(matrices, ridge=0.3)
    assert torch.allclose(system.inverse(y), dense_least_squares(matrices, y, ridge=0.3), atol=1e-8)
    a = kron(matrices)
    hat = a @ torch.linalg.solve(a.T @ a + 0.3 * torch.eye(a.shape[1], dtype=a.dtype), a.T)
    assert system.degrees_of_freedom == pytest.approx(float(hat.trace()), abs=1e-8)


def test_a_deficient_axis_is_named():
    matrices = draw([(5, 3), (6, 4)])
    matrices[1][:, 2] = 2 * matrices[1][:, 0]
    with pytest.warns(RankWarning, match="axis 1 has numerical rank 3 of 6 samples by 4 features"):
        system = KroneckerLeastSquares(matrices)
    assert system.ranks == (3, 3)
    assert system.degrees_of_freedom == pytest.approx(9)


def test_planted_weights_return(generator):
    matrices = draw([(8, 5), (7, 4)])
    planted = torch.randn(3, 5, 4, dtype=torch.float64, generator=generator)
    found = KroneckerLeastSquares(matrices).inverse(mode_product(planted, matrices))
    assert torch.allclose(found, planted, atol=1e-12)


def test_products_of_small_singular_values_are_cut():
    """Two axes, each conditioned at 1e9: their product is beyond float64, and the answer stays finite and small."""
    s = torch.tensor([1.0, 1e-9], dtype=torch.float64)
    system = KroneckerLeastSquares([torch.diag(s), torch.diag(s)], rcond=1e-12)
    w = system.inverse(torch.ones(2, 2, dtype=torch.float64))
    assert torch.allclose(w, torch.tensor([[1.0, 1e9], [1e9, 0]], dtype=torch.float64))


@pytest.mark.parametrize(
    ("matrices", "options", "message"),
    [
        ([torch.full((2, 2), torch.nan)], {}, "finite values"),
        ([torch.zeros(2, 2)], {}, "zeros alone"),
        ([torch.eye(2)], {"ridge": -1.0}, "`ridge`: expected a finite number of at least 0"),
        ([torch.eye(2)], {"rcond": -1.0}, "`rcond`"),
    ],
)
def test_bad_systems_are_refused(matrices, options, message):
    with pytest.raises(ValueError, match=message):
        KroneckerLeastSquares(matrices, **options)
