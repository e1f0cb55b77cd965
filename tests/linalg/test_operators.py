"""Every linear operator against its dense matrix, through one registry."""

import functools
import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.fft
import scipy.ndimage
import scipy.signal
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from coordnet import encodings, fitting, linalg, priors, sampling
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.blending import Blending
from coordnet.encodings.encoders import Gaussian, Triangle
from coordnet.linalg.banded import ROWS, BandedMatrix, Block
from coordnet.linalg.kronecker import Kronecker, KroneckerLeastSquares
from coordnet.linalg.operators import ChannelRotation, Composition, Diagonal, Identity, LinearOperator
from coordnet.linalg.transforms import CosineBasis, Folding
from coordnet.plans.autoregression import GapPrediction
from coordnet.plans.modes import EncodingModes, FourierModes
from coordnet.sampling.axes import Axis
from coordnet.sampling.forward import Interpolation
from coordnet.sampling.grids import CellMeans, Lattice
from coordnet.sampling.operators import Blur, Derivatives, FourierSamples, Projections
from coordnet.sampling.operators.foreign import SparseMatrix, as_operator
from tests.helpers import kron

DOUBLE = torch.float64


@dataclass
class Case:
    """An operator, and how it is tested.

    Attributes
    ----------
    operator : LinearOperator
        The operator, for float64.
    matrix : tensor, optional
        Its matrix, formed in another way.
    batch : tuple of int
        The leading dimensions that it is applied to.
    mixed : tuple of int
        Further leading dimensions, whose members it mixes.
    domain_dtype : torch.dtype
        The dtype of what it maps.
    inner : function, optional
        The inner product of its domain, of every signal and channel; the Euclidean one if not given.
    """

    operator: LinearOperator
    matrix: Tensor | None = None
    batch: tuple[int, ...] = (2, 3)
    mixed: tuple[int, ...] = ()
    domain_dtype: torch.dtype = DOUBLE
    inner: Callable[[Tensor, Tensor], Tensor] | None = None

    @property
    def domain(self) -> tuple[int, ...]:
        """The dimensions of what one member of the batch is mapped from."""
        return (*self.mixed, *self.operator.domain)

    @property
    def codomain(self) -> tuple[int, ...]:
        """The dimensions of what one member of the batch is mapped to."""
        return (*self.mixed, *self.operator.codomain)

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ⟨a, b⟩ in the domain, summed over the batch."""
        return ((a * b) if self.inner is None else self.inner(a, b)).sum()

    def argument(self, generator: torch.Generator) -> Tensor:
        """Draw an element of the domain for every member of the batch."""
        return torch.randn((*self.batch, *self.domain), dtype=self.domain_dtype, generator=generator)

    def result(self, generator: torch.Generator) -> Tensor:
        """Draw an element of the codomain for every member of the batch."""
        return torch.randn((*self.batch, *self.codomain), dtype=DOUBLE, generator=generator)


def random_matrix(rows, columns, generator):
    return torch.randn(rows, columns, dtype=DOUBLE, generator=generator)


def banded_matrix(rows, columns, generator):
    """Blocks of ``ROWS`` rows, each over some columns."""

    def block(first, last):
        left = int(torch.randint(columns, (), generator=generator))
        return Block(first, left, random_matrix(last - first, max(1, (columns - left) // 2), generator))

    return BandedMatrix.build((rows, columns), block)


def identity(lattice, generator):
    return Case(Identity(lattice), torch.eye(math.prod(lattice), dtype=DOUBLE))


def diagonal(lattice, generator):
    values = torch.randn(lattice, dtype=DOUBLE, generator=generator)
    return Case(Diagonal(values), values.flatten().diag())


def rotation(lattice, generator):
    """Rotates the three channels of one signal."""
    q = torch.linalg.qr(random_matrix(3, 3, generator)).Q.contiguous()
    points = torch.eye(math.prod(lattice), dtype=DOUBLE)
    return Case(ChannelRotation(q.unsqueeze(0), lattice), kron([q, points]), batch=(1,), mixed=(3,))


def banded(lattice, generator):
    matrix = banded_matrix(ROWS + lattice[0], 9 * lattice[-1], generator)
    return Case(matrix, matrix.dense())


def square_banded(lattice, generator):
    matrix = banded_matrix(ROWS + lattice[0], ROWS + lattice[0], generator)
    return Case(matrix, matrix.dense())


def product_of_bands(lattice, generator):
    left, right = banded_matrix(70, 40, generator), banded_matrix(40, 9 * lattice[0], generator)
    return Case(left @ right, left.dense() @ right.dense())


def kronecker(lattice, generator):
    """One dense matrix per axis, of another shape each."""
    matrices = [random_matrix(n + j - 1, n, generator) for j, n in enumerate(lattice)]
    return Case(Kronecker(matrices), kron(matrices))


def square_kronecker(lattice, generator):
    matrices = [random_matrix(n, n, generator) for n in lattice]
    return Case(Kronecker(matrices), kron(matrices))


def banded_kronecker(lattice, generator):
    """The first axis banded, the others dense; two axes share a matrix."""
    band, dense = banded_matrix(ROWS + 5, 7, generator), random_matrix(2, 3, generator)
    matrices = [band, dense, dense][: max(2, len(lattice))]
    return Case(Kronecker(matrices), kron([band.dense(), dense, dense][: len(matrices)]))


def product_of_kroneckers(lattice, generator):
    left = [random_matrix(3, n + 1, generator) for n in lattice]
    right = [random_matrix(n + 1, n, generator) for n in lattice]
    return Case(Kronecker(left) @ Kronecker(right), kron(left) @ kron(right))


def adjoint(lattice, generator):
    matrices = [random_matrix(n + 1, n, generator) for n in lattice]
    return Case(Kronecker(matrices).T, kron(matrices).T)


def composition(lattice, generator):
    """A Kronecker product, a diagonal in its range, and the adjoint of another Kronecker product."""
    first = [random_matrix(3, n, generator) for n in lattice]
    last = [random_matrix(3, n + 1, generator) for n in lattice]
    gain = torch.randn((3,) * len(lattice), dtype=DOUBLE, generator=generator)
    operator = Kronecker(last).T @ Diagonal(gain) @ Kronecker(first)
    assert isinstance(operator, Composition)
    return Case(operator, kron(last).T @ gain.flatten().diag() @ kron(first))


def ridge(lattice, generator):
    """The solution of a ridge regression, as a function of its right-hand side."""
    matrices = [random_matrix(n + 1, n, generator) for n in lattice]
    a = kron(matrices)
    solution = torch.linalg.solve(a.T @ a + 0.3 * torch.eye(a.shape[1], dtype=DOUBLE), a.T)
    return Case(KroneckerLeastSquares(matrices, ridge=0.3).inverse, solution)


def cosine_matrix(n):
    return torch.from_numpy(scipy.fft.idct(np.eye(n), norm="ortho", axis=0))


def cosines(lattice, generator):
    return Case(CosineBasis(lattice, DOUBLE), kron([cosine_matrix(n) for n in lattice]))


def awkward_cosines(lattice, generator):
    """A length of which the fast transform is slow, so that matrices are multiplied."""
    lattice = (13, *lattice[1:])
    basis = CosineBasis(lattice, DOUBLE)
    assert not basis.fast
    return Case(basis, kron([cosine_matrix(n) for n in lattice]))


def spanning_modes(lattice, generator):
    encoding = ComplexEncoding.like(Gaussian, Lattice(lattice))
    modes = EncodingModes(encoding, Lattice(lattice).axes, dtype=DOUBLE)
    return Case(modes, kron([cosine_matrix(n) for n in lattice]), inner=modes.inner)


def fewer_modes(lattice, generator):
    encoding = ComplexEncoding([Triangle.like(Axis(n), features=2) for n in lattice])
    modes = EncodingModes(encoding, Lattice(lattice).axes, dtype=DOUBLE)
    return Case(modes, inner=modes.inner)


def some_modes(lattice, generator):
    """Wide bumps: modes that rounding would hide are left out."""
    lattice = (8, 6)
    encoding = ComplexEncoding.like(Gaussian, Lattice(lattice), sigma="4px")
    modes = EncodingModes(encoding, Lattice(lattice).axes, dtype=DOUBLE)
    assert modes.filter_trace(torch.ones(lattice, dtype=DOUBLE)) < math.prod(lattice)
    return Case(modes, inner=modes.inner)


def fourier_modes(lattice, generator):
    """Half of the signed frequencies of a padded lattice, with the inner product over all of them."""
    modes = FourierModes(FourierEncoding.like(Lattice(lattice), padding=3), dtype=DOUBLE)
    return Case(modes, domain_dtype=torch.complex128, inner=modes.inner)


def sparse(lattice, generator):
    """Five points, each on three random nodes, some of them twice."""
    index = torch.randint(math.prod(lattice), (5, 3), generator=generator)
    weights = random_matrix(5, 3, generator)
    matrix = torch.zeros(5, math.prod(lattice), dtype=DOUBLE).scatter_add_(1, index, weights)
    return Case(Interpolation(lattice, index, weights), matrix)


def blending(lattice, generator):
    points = torch.rand(6, len(lattice), dtype=DOUBLE, generator=generator)
    points[4] = points[1]
    encoders = [Gaussian.like(axis) for axis in Lattice(lattice).axes]
    return Case(Blending("similarity", Lattice(lattice).axes).interpolation(points, encoders, DOUBLE))


def means_of_pairs(length):
    """The matrix of the means over pairs of 2n values."""
    return torch.eye(length, dtype=DOUBLE).repeat_interleave(2, 1) / 2


def cell_means(lattice, generator):
    return Case(CellMeans(tuple(2 * n for n in lattice), (2,) * len(lattice)), kron(map(means_of_pairs, lattice)))


def folding(lattice, generator):
    """Regularized least squares for the cosine modes of the means over pairs."""
    roughness = 1 + torch.rand([2 * n for n in lattice], dtype=DOUBLE, generator=generator)
    dct = [[torch.from_numpy(scipy.fft.dct(np.eye(m), axis=0, norm="ortho")) for m in (n, 2 * n)] for n in lattice]
    fold = kron([few @ means_of_pairs(n) @ many.T for n, (few, many) in zip(lattice, dct, strict=True)])
    normal = fold.T @ fold + 0.3 * roughness.flatten().diag()
    return Case(Folding((2,) * len(lattice), roughness, 0.3), torch.linalg.solve(normal, fold.T))


def columns_of(apply, lattice):
    """The matrix of a NumPy function of arrays on a lattice."""
    units = np.eye(math.prod(lattice)).reshape(-1, *lattice)
    return torch.from_numpy(np.stack([np.asarray(apply(unit)).ravel() for unit in units], 1))


def blur(lattice, generator):
    """Odd and even lengths, with zeros beyond the border."""
    lattice = tuple(max(n, 3) for n in lattice)
    psf = torch.rand((3, 2, 1)[: len(lattice)], dtype=DOUBLE, generator=generator)
    apply = functools.partial(scipy.signal.convolve, in2=psf.numpy(), mode="same")
    return Case(Blur(psf, lattice, "zero"), columns_of(apply, lattice))


def valid_blur(lattice, generator):
    """Even lengths, and nothing beyond the border."""
    psf = torch.rand((2,) * len(lattice), dtype=DOUBLE, generator=generator)
    apply = functools.partial(scipy.signal.convolve, in2=psf.numpy(), mode="valid")
    return Case(Blur(psf, lattice, "valid"), columns_of(apply, lattice))


def blur_of(border, mode):
    def make(lattice, generator):
        lattice = tuple(max(n, 3) for n in lattice)
        psf = torch.rand((3,) * len(lattice), dtype=DOUBLE, generator=generator)
        apply = functools.partial(scipy.ndimage.convolve, weights=psf.numpy(), mode=mode)
        return Case(Blur(psf, lattice, border), columns_of(apply, lattice))

    make.__name__ = f"{border}_blur"
    return make


def joseph(image, angles, detectors):
    """Step along the rows or columns that a ray meets more steeply, with linear interpolation between two pixels."""
    found = np.zeros((detectors, len(angles)))
    for (s, a), _ in np.ndenumerate(found):
        cos, sin = np.cos(np.deg2rad(angles[a])), np.sin(np.deg2rad(angles[a]))
        lines = image if abs(cos) >= abs(sin) else image.T
        main, other = lines.shape
        for i, line in enumerate(lines):
            t = i - main // 2
            u = s - detectors // 2  # = column cos - row sin
            at = (u + t * sin) / cos if lines is image else (t * cos - u) / sin
            padded = np.pad(line, 1)
            found[s, a] += np.interp(at + other // 2 + 1, np.arange(other + 2), padded) / max(abs(cos), abs(sin))
    return found


def projections(lattice, generator):
    """Rays through the last two axes of a stack of slices."""
    lattice = (lattice * 2)[: max(2, len(lattice))]
    angles = [0.0, 20.0, 90.0, 130.0]
    operator = Projections(angles, lattice)
    plane = columns_of(lambda image: joseph(image, angles, operator.codomain[-2]), lattice[-2:])
    return Case(operator, kron([torch.eye(math.prod(lattice[:-2]), dtype=DOUBLE), plane]))


def fourier_samples(lattice, generator):
    mask = torch.rand(lattice, generator=generator) < 0.5
    mask.view(-1)[1] = True
    rows = [torch.from_numpy(scipy.fft.fft(np.eye(n), norm="ortho", axis=0)) for n in lattice]
    return Case(FourierSamples(mask), torch.view_as_real(kron(rows)[mask.flatten()]).transpose(1, 2).flatten(0, 1))


def derivatives(lattice, generator):
    parts = []
    for axis, n in enumerate(lattice):
        step = torch.diag(torch.ones(n - 1, dtype=DOUBLE), 1) - torch.eye(n, dtype=DOUBLE)
        step[-1] = 0
        parts.append(kron([step if j == axis else torch.eye(m, dtype=DOUBLE) for j, m in enumerate(lattice)]))
    return Case(Derivatives(lattice), torch.cat(parts))


def sparse_matrix(lattice, generator):
    matrix = random_matrix(6, math.prod(lattice), generator) * (torch.rand(6, 1, generator=generator) < 0.7)
    return Case(SparseMatrix(scipy.sparse.csc_array(matrix.numpy()), lattice, (2, 3)), matrix)


def gap_prediction(lattice, generator):
    """Ordinary kriging by the covariance 0.5^|i - j| of an autoregression, whose inverse has three diagonals."""
    n, nugget = math.prod(lattice), 0.1
    known = (torch.rand(n, generator=generator) < 0.6).numpy()
    known[0] = True
    k = 0.5 ** np.abs(np.arange(n)[:, None] - np.arange(n)) / (1 - 0.5**2)
    one = np.linalg.solve(k[np.ix_(known, known)], np.ones(known.sum()))
    weights, total = np.zeros((1, n)), np.zeros((n, n))
    weights[:, known] = one / one.sum()
    total[:, known] = (k - nugget * np.eye(n))[:, known] @ np.linalg.inv(k[np.ix_(known, known)])
    matrix = torch.from_numpy(total @ (np.eye(n) - weights) + weights)
    return Case(GapPrediction(np.array([1.0, -0.5]), known, nugget), matrix)


def scipy_operator(lattice, generator):
    matrix = random_matrix(5, math.prod(lattice), generator)
    return Case(as_operator(scipy.sparse.linalg.aslinearoperator(matrix.numpy()), lattice), matrix)


def complex_scipy_operator(lattice, generator):
    parts = random_matrix(10, math.prod(lattice), generator)
    matrix = parts[::2].numpy() + 1j * parts[1::2].numpy()
    return Case(as_operator(scipy.sparse.linalg.aslinearoperator(matrix), lattice), parts)


class Physics:
    """An object with ``A`` and ``A_adjoint``, and the size of its signals if they have several channels."""

    def __init__(self, matrix, lattice, channels):
        self.matrix, self.img_size = matrix, (channels, *lattice)

    def A(self, x):  # noqa: N802
        assert x.shape[1:] == self.img_size
        return (x.flatten(2) @ self.matrix.T.to(x)).unsqueeze(-1)

    def A_adjoint(self, y):  # noqa: N802
        return (y.flatten(2) @ self.matrix.to(y)).reshape(-1, *self.img_size)


def physics(lattice, generator, channels=1):
    matrix = random_matrix(5, math.prod(lattice), generator)
    return Case(as_operator(Physics(matrix, lattice, channels), lattice), matrix)


def colored_physics(lattice, generator):
    return physics(lattice, generator, channels=3)


def flat_physics(lattice, generator):
    """An object whose measurements have no channel, as those of compressed sensing."""
    matrix = random_matrix(5, math.prod(lattice), generator)
    flat = SimpleNamespace(
        A=lambda x: x.flatten(1) @ matrix.T.to(x), A_adjoint=lambda y: (y @ matrix.to(y)).reshape(-1, 1, *lattice)
    )
    return Case(as_operator(flat, lattice), matrix)


OPERATORS = {
    make.__name__.replace("_", " "): make
    for make in (
        *(identity, diagonal, rotation, banded, square_banded, product_of_bands, kronecker, square_kronecker),
        *(banded_kronecker, product_of_kroneckers, adjoint, composition, ridge, cosines, awkward_cosines),
        *(spanning_modes, fewer_modes, some_modes, fourier_modes, sparse, blending, blur, valid_blur),
        *(cell_means, folding),
        *(blur_of("reflect", "reflect"), blur_of("periodic", "wrap"), projections, fourier_samples, derivatives),
        *(
            gap_prediction,
            sparse_matrix,
            scipy_operator,
            complex_scipy_operator,
            physics,
            colored_physics,
            flat_physics,
        ),
    )
}
NOT_DIFFERENTIABLE = {"gap prediction", "scipy operator", "complex scipy operator"}  # they compute in NumPy
OF_ONE_DTYPE = {"spanning modes", "fewer modes", "some modes", "fourier modes"}


def test_physics_that_treat_channels_differently_are_refused(generator):
    physics = Physics(random_matrix(5, 12, generator), (3, 4), channels=3)
    mixing = SimpleNamespace(img_size=physics.img_size, A=lambda x: physics.A(x).flip(1), A_adjoint=physics.A_adjoint)
    scaling = torch.tensor([1.0, 1.0, 1.1]).reshape(3, 1, 1)
    uneven = SimpleNamespace(img_size=physics.img_size, A=lambda x: scaling * physics.A(x), A_adjoint=physics.A_adjoint)
    one = SimpleNamespace(img_size=physics.img_size, A=lambda x: physics.A(x).sum(1, True), A_adjoint=physics.A_adjoint)
    for other in (mixing, uneven, one):
        with pytest.raises(ValueError, match="`operator`: expected one that maps all channels alike"):
            as_operator(other, (3, 4))
    with pytest.raises(ValueError, match=r"takes tensors \(1, 1, 2, 2\), received AssertionError"):
        as_operator(physics, (2, 2))


@pytest.fixture(params=OPERATORS)
def case(request, generator):
    return OPERATORS[request.param]((3, 4), generator)


def test_every_class_of_operators_is_in_the_registry(generator):
    for room in (linalg, sampling, encodings, priors, fitting):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    tested = {type(make((3, 4), generator).operator) for make in OPERATORS.values()}
    ours = {cls for cls in subclasses(LinearOperator) if cls.__module__.startswith("coordnet.")}
    assert {cls for cls in ours if not inspect.isabstract(cls)} <= tested


def subclasses(cls):
    found = {found for sub in cls.__subclasses__() for found in (sub, *subclasses(sub))}
    return {cls for cls in found if cls.__module__.startswith("coordnet.")}  # other tests have operators of their own


def matrix(case, operator=None):
    """The matrix of a map of the case's domain, a column at a time, in real numbers."""
    operator = operator or case.operator
    columns = []
    for unit in units(case):
        column = operator(unit.expand(*case.batch, *unit.shape).clone())
        columns.append(column.reshape(-1, math.prod(column.shape[len(case.batch) :]))[0])
    return torch.stack(columns, 1)


def units(case):
    """A basis of the domain as a real vector space."""
    size = math.prod(case.domain)
    basis = torch.eye(size, dtype=case.domain_dtype).reshape(size, *case.domain)
    return torch.cat([basis, 1j * basis]) if case.domain_dtype.is_complex else basis


def coordinates(case, x):
    """Elements of the domain as rows of real numbers, in the basis of ``units``."""
    flat = x.reshape(-1, math.prod(case.domain))
    return torch.cat([flat.real, flat.imag], 1) if x.is_complex() else flat


@pytest.mark.parametrize("name", OPERATORS)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=3), st.integers(0, 2**31))
@settings(max_examples=15)
def test_the_adjoint_passes_the_dot_test(name, lattice, seed):
    generator = torch.Generator().manual_seed(seed)
    case = OPERATORS[name](tuple(lattice), generator)
    x, y = case.argument(generator), case.result(generator)
    left, right = (case.operator(x) * y).sum(), case.product(x, case.operator.adjoint(y))
    assert torch.allclose(left, right, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("name", OPERATORS)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=3), st.floats(-3, 3), st.integers(0, 2**31))
@settings(max_examples=10)
def test_it_is_linear_and_so_is_its_adjoint(name, lattice, factor, seed):
    generator = torch.Generator().manual_seed(seed)
    case = OPERATORS[name](tuple(lattice), generator)
    for apply, draw in ((case.operator, case.argument), (case.operator.adjoint, case.result)):
        a, b = draw(generator), draw(generator)
        assert torch.allclose(apply(a + factor * b), apply(a) + factor * apply(b), rtol=1e-9, atol=1e-9)


def test_it_is_its_matrix(case, generator):
    formed, x = matrix(case), case.argument(generator)
    if case.matrix is not None:
        assert torch.allclose(formed, case.matrix, atol=1e-10)
    applied = case.operator(x)
    assert applied.shape == (*case.batch, *case.codomain)
    assert torch.allclose(applied.reshape(-1, formed.shape[0]), coordinates(case, x) @ formed.T, atol=1e-10)


def test_its_adjoint_is_the_transpose(case, generator):
    formed, y = matrix(case), case.result(generator)
    applied = case.operator.adjoint(y)
    assert applied.shape == (*case.batch, *case.domain)
    expected = y.reshape(-1, formed.shape[0]) @ formed
    if case.domain_dtype.is_complex:  # by its inner products, for its inner product is not that of the numbers
        signals = applied.reshape(-1, 1, *case.domain)
        found = [case.inner(unit.expand_as(signals), signals).flatten() for unit in units(case)]
        assert torch.allclose(torch.stack(found, 1), expected, atol=1e-10)
    else:
        assert torch.allclose(coordinates(case, applied), expected, atol=1e-10)
        transposed = case.operator.T
        assert (transposed.domain, transposed.codomain) == (case.operator.codomain, case.operator.domain)
        assert torch.equal(transposed(y), applied)
        assert torch.equal(transposed.T(applied), case.operator(applied))


def test_products_are_those_of_the_matrices(case, generator):
    x, y = case.argument(generator), case.result(generator)
    normal = case.operator.T @ case.operator
    assert torch.allclose(normal(x), case.operator.adjoint(case.operator(x)), atol=1e-10)
    assert torch.allclose(normal.adjoint(x), normal(x), atol=1e-10)
    gain = Diagonal(torch.randn(case.operator.codomain, dtype=DOUBLE, generator=generator))
    rows = gain.values.expand(case.codomain).flatten()
    product, expected = gain @ case.operator, rows.unsqueeze(1) * matrix(case)
    assert (product.domain, product.codomain) == (case.operator.domain, case.operator.codomain)
    assert torch.allclose(matrix(case, product), expected, atol=1e-10)
    assert torch.allclose(product.adjoint(y), case.operator.adjoint(gain(y)), atol=1e-10)


def test_products_of_other_shapes_are_refused(case):
    other = Identity((*case.operator.domain, 7))
    with pytest.raises(ValueError, match="`other`: expected an operator with the codomain"):
        case.operator @ other


def test_arguments_of_other_shapes_are_refused(case, generator):
    """Some would be cut or broadcast without a word, as pictures with channels in the last axis."""
    for apply, draw, name in ((case.operator, case.argument, "x"), (case.operator.adjoint, case.result, "y")):
        x = draw(generator)
        for other in (torch.cat([x, x], -1), torch.cat([x, x[..., :1]], -1), x[(0,) * (x.ndim - 1)][:0]):
            with pytest.raises(ValueError, match=rf"`{name}`: expected shape \(\*batch, .*\), received"):
                apply(other)
        with pytest.raises(ValueError, match=f"`{name}`: expected a tensor, received ndarray"):
            apply(x.numpy())


def test_results_are_written_where_asked(case, generator):
    for apply, draw in ((case.operator, case.argument), (case.operator.adjoint, case.result)):
        x = draw(generator)
        expected = apply(x)
        out = torch.empty_like(expected)
        assert apply(x.clone(), out).data_ptr() == out.data_ptr()
        assert torch.allclose(out, expected, atol=1e-12)
        if case.operator.in_place:
            x = x.clone()
            assert apply(x, x).data_ptr() == x.data_ptr()
            assert torch.allclose(x, expected, atol=1e-12)


def test_gradients_are_products_with_the_adjoint(case, generator, request):
    if case.domain_dtype.is_complex or any(f"[{name}]" in request.node.name for name in NOT_DIFFERENTIABLE):
        pytest.skip("its inner product is not the one that PyTorch differentiates in, or it computes in NumPy")
    x, y = case.argument(generator).requires_grad_(), case.result(generator).requires_grad_()
    for apply, back, a, b in (
        (case.operator, case.operator.adjoint, x, y),
        (case.operator.adjoint, case.operator, y, x),
    ):
        (slope,) = torch.autograd.grad((apply(a) * b.detach()).sum(), a)
        assert torch.allclose(slope, back(b.detach()), atol=1e-10)


@pytest.mark.parametrize("name", OPERATORS)
def test_float32_is_its_rounding(name, generator):
    case = OPERATORS[name]((3, 4), generator)
    if name in OF_ONE_DTYPE:
        with pytest.raises(NotImplementedError, match="for one device and dtype"):
            case.operator.to(dtype=torch.float32)
        return
    single = case.operator.to(dtype=torch.float32)
    x, y = case.argument(generator), case.result(generator)
    for apply, exact, argument in (
        (single, case.operator, x.float()),
        (single.adjoint, case.operator.adjoint, y.float()),
    ):
        found, expected = apply(argument), exact(argument.double())
        assert found.dtype == torch.float32
        assert float((found - expected).abs().max()) < 1e-5 * float(expected.abs().max())
