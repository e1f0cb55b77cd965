import pytest
import torch

from coordnet.linalg.conjugate_gradients import SHORT_SYSTEM, ConvergenceWarning, conjugate_gradients, dot, subset


class Dense:
    """Matrices (signals, channels, n, n), preconditioned by multiples of their inverse diagonals."""

    def __init__(self, matrices, inverse):
        self.matrices, self.inverse, self.sizes = matrices, inverse, []

    def operator(self, x):
        self.sizes.append(x.shape[:2].numel())
        return (self.matrices @ x.unsqueeze(-1)).squeeze(-1)

    def preconditioner(self, r):
        return r * self.inverse

    def inner(self, a, b):
        return (a * b).sum(-1, keepdim=True)

    def select(self, kept):
        some = type(self)(subset(self.matrices, kept), subset(self.inverse, kept))
        some.sizes = self.sizes
        return some


def system(seed=0, n=12):
    g = torch.Generator().manual_seed(seed)
    root = torch.randn(1, 3, n, n, generator=g, dtype=torch.float64)
    a = root @ root.mT + torch.diag(torch.logspace(0, 3, n, dtype=torch.float64))
    return a, torch.randn(1, 3, n, generator=g, dtype=torch.float64)


def solve(a, b, scale=1.0, **options):
    return conjugate_gradients(Dense(a, scale / a.diagonal(dim1=-2, dim2=-1)), b, **options)


def test_every_system_reaches_the_direct_solution():
    a, b = system()
    solution = solve(a, b, tolerance=1e-12)
    assert solution.converged
    assert float(solution.relative_residual.max()) <= 1e-12
    assert torch.allclose(solution.x, torch.linalg.solve(a, b), atol=1e-10)


def test_a_zero_right_hand_side_beside_others():
    a, b = system()
    b[0, 1] = 0
    solution = solve(a, b, tolerance=1e-10)
    assert torch.equal(solution.x[0, 1], torch.zeros(12, dtype=torch.float64))
    assert torch.allclose(solution.x, torch.linalg.solve(a, b), atol=1e-8)


def test_a_warm_start_takes_fewer_steps():
    a, b = system()
    cold = solve(a, b, tolerance=1e-8)
    warm = solve(a, b, tolerance=1e-8, start=cold.x * 1.0001)
    assert warm.iterations < cold.iterations
    assert solve(a, b, tolerance=1e-8, start=torch.linalg.solve(a, b)).iterations == 0


def test_the_scale_of_the_preconditioner_does_not_matter():
    a, b = system()
    found = [solve(a, b, scale, tolerance=1e-6) for scale in (1.0, 100.0)]
    assert found[0].iterations == found[1].iterations
    assert torch.allclose(found[0].x, found[1].x, atol=1e-12)


def test_systems_that_have_converged_stay_as_they_are(generator):
    """Rounding over rounding is no step: a projection, solved at once, outlasts a system that takes many."""
    basis = torch.linalg.qr(torch.randn(64, 20, generator=generator)).Q
    projection, slow = basis @ basis.T, torch.diag(torch.logspace(0, 3, 64))
    b = torch.stack([projection @ torch.randn(64, generator=generator), torch.ones(64)]).unsqueeze(1)

    def solved(a, b, **options):
        return conjugate_gradients(Dense(a, torch.ones(1, 1, 1)), b, **options)

    together = solved(torch.stack([projection, slow]).unsqueeze(1), b, tolerance=1e-5, check_every=5)
    for i, a in enumerate((projection, slow)):
        alone = solved(a.reshape(1, 1, 64, 64), b[i : i + 1], tolerance=1e-5)
        assert torch.allclose(together.x[i], alone.x[0], atol=1e-5)
    tight = solved(projection.reshape(1, 1, 64, 64), b[:1], tolerance=1e-12, steps=50)
    assert tight.iterations < 5 and torch.allclose(tight.x, b[:1], atol=1e-4)


@pytest.mark.parametrize("order", ["signals", "channels last"])
def test_systems_that_have_converged_are_left_out(order, generator):
    """Each of 2 × 3 systems, which take 1 to 24 steps, has its own solution, whatever the others take."""
    n = 24
    roots = torch.randn(2, 3, n, n, generator=generator, dtype=torch.float64)
    ranks = torch.tensor([[1, 24, 6], [12, 3, 18]])
    roots *= torch.arange(n) < ranks[..., None, None]
    a = roots @ roots.mT + torch.eye(n, dtype=torch.float64)
    b = torch.randn(2, 3, n, generator=generator, dtype=torch.float64)
    if order == "channels last":
        b = b.mT.contiguous().mT
    work = Dense(a, torch.ones(1, 1, 1, dtype=torch.float64))
    solution = conjugate_gradients(work, b, tolerance=1e-11)
    assert torch.allclose(solution.x, torch.linalg.solve(a, b), atol=1e-9)
    alone = [
        conjugate_gradients(Dense(a[i : i + 1, j : j + 1], work.inverse), b[i : i + 1, j : j + 1], tolerance=1e-11)
        for i in range(2)
        for j in range(3)
    ]
    assert solution.iterations == max(one.iterations for one in alone)
    assert torch.allclose(solution.relative_residual, torch.cat([one.relative_residual for one in alone]))
    assert work.sizes == sorted(work.sizes, reverse=True) and set(work.sizes) == {6, 4, 3, 2, 1}
    for steps in range(1, solution.iterations):  # stopped at any step, also one at which systems are left out
        stopped = conjugate_gradients(work, b, tolerance=1e-11, steps=steps)
        assert stopped.relative_residual.shape == (6,) and not stopped.converged


def test_looking_less_often_changes_nothing_but_the_last_steps():
    a, b = system()
    often, seldom = solve(a, b, tolerance=1e-8), solve(a, b, tolerance=1e-8, check_every=4)
    assert often.iterations <= seldom.iterations < often.iterations + 4
    assert torch.allclose(often.x, seldom.x, atol=1e-6)


class Weighted(Dense):
    """Diagonal matrices in the inner product Σ w a b, preconditioned by 1."""

    def inner(self, a, b):
        return (torch.arange(1.0, 13.0) * a * b).sum(-1, keepdim=True)


@pytest.mark.parametrize("kind", [Dense, Weighted])
def test_gradients_are_those_of_the_inverse(kind):
    """Also of second order, and where the matrix is self-adjoint in a weighted inner product alone."""
    a, b = system()
    if kind is Weighted:
        a = a / torch.arange(1.0, 13.0).unsqueeze(-1)
    work = kind(a, torch.ones(1, 1, 1).double())
    assert torch.autograd.gradcheck(lambda x: conjugate_gradients(work, x, tolerance=1e-14).x, b.requires_grad_())
    x = conjugate_gradients(work, b, tolerance=1e-14).x
    assert torch.allclose(x, torch.linalg.solve(a, b), atol=1e-9)
    (gradient,) = torch.autograd.grad(x.square().sum() / 2, b, create_graph=True)
    (again,) = torch.autograd.grad(gradient.sum(), b)
    inverse = torch.linalg.inv(a)
    assert torch.allclose(again, (inverse.mT @ inverse @ torch.ones(12, 1).double()).squeeze(-1), atol=1e-9)


def test_a_callback_ends_the_iteration_with_the_solution_that_it_saw():
    """Also after systems were left out, of which the callback sees all."""
    a, b = system()
    b[0, 1:] *= torch.arange(12) < 1
    a[0, 1:] = a[0, 1:].diagonal(dim1=-2, dim2=-1).diag_embed()
    seen = []

    def ends(step, residual, x):
        seen.append(x.clone())
        return step == 5

    ended, stopped = solve(a, b, tolerance=1e-12, callback=ends), solve(a, b, tolerance=1e-12, steps=5)
    assert ended.converged and not stopped.converged and ended.iterations == 5
    assert torch.equal(ended.x, stopped.x) and torch.equal(seen[-1], ended.x) and not torch.equal(seen[-2], ended.x)


def test_stopping_early_is_said():
    a, b = system()
    looks = []
    solution = solve(a, b, tolerance=1e-12, steps=3, callback=lambda *look: looks.append(look[:2]))
    assert not solution.converged
    assert solution.iterations == 3
    assert [step for step, _ in looks] == [1, 2, 3]
    with pytest.warns(ConvergenceWarning, match="stopped after 3 steps at a relative residual of"):
        solution.warn_unless_converged(1e-12)


@pytest.mark.parametrize("n", [5, SHORT_SYSTEM, SHORT_SYSTEM + 1])
def test_products_of_short_and_long_systems_are_summed(n):
    k = torch.arange(n, dtype=torch.float64)
    a, b = torch.stack([k, k + 1]).reshape(2, 1, n), torch.stack([k, -k]).reshape(2, 1, n)
    squares, sums = (n - 1) * n * (2 * n - 1) // 6, (n - 1) * n // 2
    assert dot(a, b).tolist() == [[squares], [-squares - sums]]
