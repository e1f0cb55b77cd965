"""Preconditioned conjugate gradients for many systems at once."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Inexact, Shaped
from torch import Tensor

from coordnet import _checks

DONE = 0.25  # of the systems that are worked on have converged when they are left out


class ConvergenceWarning(_checks.CoordnetWarning):
    """An iteration ended before it reached its tolerance."""


@dataclass(frozen=True)
class Solution:
    """What conjugate gradients give.

    Attributes
    ----------
    x : as the right-hand side
        The solution.
    iterations : int
        Steps taken, of all systems together.
    relative_residual : one number a system
        √(⟨r, Mr⟩ / ⟨b, Mb⟩) with the preconditioner M.
    converged : bool
        Whether every system reached the tolerance.
    """

    x: Tensor
    iterations: int
    relative_residual: Float[Tensor, "*systems"]
    converged: bool

    def warn_unless_converged(self, tolerance: float) -> None:
        """Give a ``ConvergenceWarning`` where a system stopped early."""
        if not self.converged:
            worst = float(self.relative_residual.max())
            warnings.warn(
                f"stopped after {self.iterations} steps at a relative residual of {worst:.1e}, "
                f"above the tolerance of {tolerance:.0e}",
                ConvergenceWarning,
                stacklevel=3,
            )


@runtime_checkable
class LinearSystem(Protocol):
    """A x = b of every signal and channel, (signals, channels, …), or of every signal's channels together."""

    def operator(self, x: Tensor) -> Tensor:
        """A x, self-adjoint in ``inner`` and positive (semi-)definite, as a fresh tensor."""
        ...

    def preconditioner(self, r: Tensor) -> Tensor:
        """An approximation of A's inverse times r, self-adjoint in ``inner``, as a fresh tensor."""
        ...

    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        """⟨a, b⟩ of every system, shaped to broadcast against them."""
        ...

    def only(self, kept: Bool[Tensor, "signals channels"]) -> "LinearSystem":
        """The same of some systems, whose tensors are (kept, 1, …): see ``among``."""
        ...


def conjugate_gradients(
    system: LinearSystem,
    b: Inexact[Tensor, "signals channels *_"],
    *,
    start: Tensor | None = None,
    tolerance: float = 1e-4,
    steps: int = 500,
    check_every: int = 1,
    callback: Callable[[int, float], None] | None = None,
) -> Solution:
    """Solve A x = b for all systems at once, each with its own step.

    A system stands still once it has converged, and is left out once ``DONE`` of those worked on have.

    Parameters
    ----------
    system : LinearSystem
        A, its preconditioner M and its inner product.
    b : (signals, channels, …)
        Right-hand sides.
    start : tensor, optional
        Where to start; 0 if not given.
    tolerance : float
        Of the relative residual √(⟨r, Mr⟩ / ⟨b, Mb⟩) of every system.
    steps : int
        At most so many.
    check_every : int
        Look at the residual after so many steps; on a GPU each look waits for the queue.
    callback : function, optional
        Called with the step and the worst relative residual at each look.

    Returns
    -------
    Solution
        With the state after the last step; no warning is given here.

    Raises
    ------
    ValueError
        If ``b`` asks for a gradient.

    Notes
    -----
    Golub and Van Loan, Matrix Computations, 4th ed., algorithm 11.5.1.
    """
    if b.requires_grad and torch.is_grad_enabled():
        raise _checks.wrong("values", "detached ones: conjugate gradients keep no gradient", "a gradient")
    tiny = torch.finfo(b.dtype).tiny
    s = system.preconditioner(b)
    scale = system.inner(b, s).real.clamp(min=tiny)
    if start is None:
        x, r = torch.zeros_like(b), b.clone()
    else:
        x, r = start.clone(), b - system.operator(start)
        s = system.preconditioner(r)
    p, rs = s, system.inner(r, s).real
    step, squares = 0, (rs / scale).clamp(min=0)
    enough = max(tolerance, 4 * torch.finfo(b.dtype).eps)
    worst = float(squares.max().sqrt())
    separate = squares.shape[:2] == b.shape[:2]  # else channels are solved together
    solved, reached = x, squares  # of all systems, where x is of those at ``places`` among them
    places = torch.arange(squares.numel(), device=b.device)
    while worst > enough and step < steps:
        q = system.operator(p)
        alpha = rs / system.inner(p, q).real.clamp(min=tiny)
        alpha = alpha.where(rs > enough**2 * scale, 0.0)
        add_scaled(x, alpha, p)
        add_scaled(r, -alpha, q)
        s = system.preconditioner(r)
        new = system.inner(r, s).real
        add_scaled(s, new / rs.clamp(min=tiny), p)
        p, rs, step = s, new, step + 1
        if step % check_every == 0 or step == steps:
            squares = (rs / scale).clamp(min=0)
            worst = float(squares.max().sqrt())
            if callback is not None:
                callback(step, worst)
            kept = (squares > enough**2).reshape(squares.shape[:2])
            if separate and 0 < int(kept.sum()) <= (1 - DONE) * kept.numel():
                _put(solved, x, places)
                _put(reached, squares, places)
                x, r, p, rs, scale, squares = (among(t, kept) for t in (x, r, p, rs, scale, squares))
                system, places = system.only(kept), places[kept.flatten()]
    _put(solved, x, places)
    _put(reached, squares, places)
    relative = reached.sqrt().flatten()
    return Solution(solved, step, relative, float(relative.max()) <= tolerance)


def among(tensor: Shaped[Tensor, "..."], kept: Bool[Tensor, "signals channels"]) -> Shaped[Tensor, "..."]:
    """Some systems of a tensor (signals or 1, channels or 1, …), as (kept, 1, …); what all share stays as it is."""
    if tensor.shape[:2] == (1, 1):
        return tensor
    return tensor.expand(*kept.shape, *tensor.shape[2:])[kept].unsqueeze(1)


def _put(whole: Tensor, part: Tensor, places: Tensor) -> None:
    """Put some systems where they belong among all."""
    if part is not whole:
        channels = whole.shape[1]
        whole[places // channels, places % channels] = part.flatten(0, 1)


def scaled(scale: Float[Tensor, "..."], z: Tensor) -> Tensor:
    """Return scale × z for a real scale and z real or complex, in real arithmetic: half the time for complex z."""
    if not z.is_complex():
        return scale * z
    return torch.view_as_complex(scale.unsqueeze(-1) * torch.view_as_real(z))


def add_scaled(out: Tensor, scale: Float[Tensor, "..."], z: Tensor) -> Tensor:
    """Add scale × z to ``out`` in place, in real arithmetic too."""
    if not z.is_complex():
        return out.addcmul_(scale, z)
    torch.view_as_real(out).addcmul_(scale.unsqueeze(-1), torch.view_as_real(z))
    return out


def dot(a: Float[Tensor, "*systems n"], b: Float[Tensor, "*systems n"]) -> Float[Tensor, "*systems"]:
    """Σ a b of every system, without a product in memory; on a CPU one BLAS call each, a tenth of ``bmm``'s time."""
    if a.is_cuda or a.requires_grad or b.requires_grad:
        return torch.linalg.vecdot(a, b)
    pairs = zip(a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1]), strict=True)
    return torch.stack([torch.dot(x, y) for x, y in pairs]).reshape(a.shape[:-1])
