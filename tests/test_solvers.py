import pytest
import torch

from coordnet.solvers import ConvergenceWarning, conjugate_gradients


def inner(a, b):
    return (a * b).sum(-1, keepdim=True)


def system(seed=0, n=12):
    g = torch.Generator().manual_seed(seed)
    root = torch.randn(3, n, n, generator=g, dtype=torch.float64)
    a = root @ root.mT + torch.diag(torch.logspace(0, 3, n, dtype=torch.float64))
    return a, torch.randn(3, n, generator=g, dtype=torch.float64)


def solve(a, b, **options):
    diagonal = a.diagonal(dim1=-2, dim2=-1)
    return conjugate_gradients(
        lambda x: (a @ x.unsqueeze(-1)).squeeze(-1),
        b,
        preconditioner=lambda r: r / diagonal,
        inner=inner,
        **options,
    )


def test_every_system_reaches_the_direct_solution():
    a, b = system()
    solution = solve(a, b, tolerance=1e-12)
    assert solution.converged
    assert float(solution.relative_residual.max()) <= 1e-12
    assert torch.allclose(solution.x, torch.linalg.solve(a, b), atol=1e-10)


def test_a_zero_right_hand_side_beside_others():
    a, b = system()
    b[1] = 0
    solution = solve(a, b, tolerance=1e-10)
    assert torch.equal(solution.x[1], torch.zeros(12, dtype=torch.float64))
    assert torch.allclose(solution.x, torch.linalg.solve(a, b), atol=1e-8)


def test_a_warm_start_takes_fewer_steps():
    a, b = system()
    cold = solve(a, b, tolerance=1e-8)
    warm = solve(a, b, tolerance=1e-8, start=cold.x * 1.0001)
    assert warm.iterations < cold.iterations
    assert solve(a, b, tolerance=1e-8, start=torch.linalg.solve(a, b)).iterations == 0


def test_the_scale_of_the_preconditioner_does_not_matter():
    a, b = system()
    diagonal = a.diagonal(dim1=-2, dim2=-1)
    found = [
        conjugate_gradients(
            lambda x: (a @ x.unsqueeze(-1)).squeeze(-1),
            b,
            preconditioner=lambda r, scale=scale: scale * r / diagonal,
            inner=inner,
            tolerance=1e-6,
        )
        for scale in (1.0, 100.0)
    ]
    assert found[0].iterations == found[1].iterations
    assert torch.allclose(found[0].x, found[1].x, atol=1e-12)


def test_systems_that_have_converged_stay_as_they_are(generator):
    """Rounding over rounding is no step: a projection, solved at once, outlasts a system that takes many."""
    basis = torch.linalg.qr(torch.randn(64, 20, generator=generator)).Q
    projection, slow = basis @ basis.T, torch.diag(torch.logspace(0, 3, 64))
    b = torch.stack([projection @ torch.randn(64, generator=generator), torch.ones(64)])

    def solved(a, b, **options):
        return conjugate_gradients(
            lambda x: (a @ x.unsqueeze(-1)).squeeze(-1),
            b,
            preconditioner=lambda r: r.clone(),
            inner=inner,
            **options,
        )

    together = solved(torch.stack([projection, slow]), b, tolerance=1e-5, check_every=5)
    for i, a in enumerate((projection, slow)):
        alone = solved(a.unsqueeze(0), b[i : i + 1], tolerance=1e-5)
        assert torch.allclose(together.x[i], alone.x[0], atol=1e-5)
    tight = solved(projection.unsqueeze(0), b[:1], tolerance=1e-12, steps=50)
    assert tight.iterations < 5 and torch.allclose(tight.x, b[:1], atol=1e-4)


def test_looking_less_often_changes_nothing_but_the_last_steps():
    a, b = system()
    often, seldom = solve(a, b, tolerance=1e-8), solve(a, b, tolerance=1e-8, check_every=4)
    assert often.iterations <= seldom.iterations < often.iterations + 4
    assert torch.allclose(often.x, seldom.x, atol=1e-6)


def test_a_gradient_is_refused():
    a, b = system()
    with pytest.raises(ValueError, match="`values`: expected detached ones"):
        solve(a, b.requires_grad_())


def test_stopping_early_is_said():
    a, b = system()
    looks = []
    solution = solve(
        a, b, tolerance=1e-12, steps=3, callback=lambda step, residual: looks.append((step, residual))
    )
    assert not solution.converged
    assert solution.iterations == 3
    assert [step for step, _ in looks] == [1, 2, 3]
    with pytest.warns(ConvergenceWarning, match="stopped after 3 steps at a relative residual of"):
        solution.warn_unless_converged(1e-12)
