"""Preconditioned conjugate gradients for many systems at once."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Inexact, Int, Shaped
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.machine import full_precision
from coordnet.linalg.recording import record

COMPACT_AT = 0.25  # drop converged systems once a quarter of them have converged
SHORT_SYSTEM = 2**14  # most values of a system whose products are stored and summed: 3 instead of 12 µs for 2,400
STATE = ("x", "r", "p", "rs", "least")  # tensors of an iteration that a step of conjugate gradients reads or writes
MAX_RECORDED = 2**24  # numbers of a solution up to which launches, not kernels, bound the time of a step: estimated
# A callback receives the step, the worst relative residual and x, and ends the iteration where it returns true.
Callback = Callable[[int, float, Tensor], bool | None]
Places = tuple[Int[Tensor, " kept"], Int[Tensor, " kept"]]  # the signal and the channel of some systems


class ConvergenceWarning(_checks.CoordnetWarning):
    """An iteration ended before it reached its tolerance."""


@dataclass(frozen=True)
class ConjugateGradients:
    """The stopping rule: a relative residual (see ``conjugate_gradients``), and the largest number of steps.

    By default the tolerance depends on the number of axes of the signal. A ``ValueError`` is raised if it is not
    positive, or the number of steps is below 1.
    """

    tolerance: float | None = None
    steps: int = 500

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            _checks.positive("tolerance", self.tolerance)
        _checks.integer("steps", self.steps, 1)


@dataclass(frozen=True)
class Solution:
    """The result of conjugate gradients."""

    x: Tensor
    iterations: int  # the number of steps, which all systems share
    relative_residual: Float[Tensor, "*systems"]  # √(⟨r, Mr⟩ / ⟨b, Mb⟩) with the preconditioner M
    converged: bool  # whether every system reached the tolerance, or the callback ended the iteration

    def warn_unless_converged(self, tolerance: float) -> None:
        """Give a ``ConvergenceWarning`` if a system did not reach the tolerance."""
        worst = float(self.relative_residual.max())
        if not self.converged and not worst <= tolerance:
            reached = f"a relative residual of {worst:.1e}"
            message = f"stopped after {self.iterations} steps at {reached}, above the tolerance of {tolerance:.0e}"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)


@runtime_checkable
class LinearSystem(Protocol):
    """The systems A x = b, (signals, channels, …): one per signal and channel, or one for all channels of a signal."""

    def operator(self, x: Tensor) -> Tensor:
        """Return A x in new memory; A is self-adjoint in ``inner`` and positive (semi-)definite."""
        ...

    def preconditioner(self, r: Tensor) -> Tensor:
        """Return an approximation of A⁻¹ r in new memory, self-adjoint in ``inner``."""
        ...

    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ⟨a, b⟩ of every system, shaped to broadcast against them."""
        ...

    def select(self, kept: Places) -> "LinearSystem":
        """Return the systems at the places ``kept``, with tensors (kept, 1, …); see ``subset``."""
        ...


class StepRecorder:
    """Steps of conjugate gradients as a graph, for solves that differ in the numbers of their tensors alone.

    The first solve on a GPU records a step on tensors of its own, which later solves fill with theirs, unless their
    operator or the shape of a tensor differs. Converged systems are not dropped, which would change shapes: no step
    changes them.
    """

    def __init__(self) -> None:
        self._kind: Any = None  # that of the solve whose step was recorded
        self._run: Any = None
        self._graph: Any = None

    def advance(self, run: Any) -> Callable[[], None]:
        """Return the function that takes one step of an iteration, which has a tensor for each name in ``STATE``."""
        if not run.x.is_cuda or run.x.numel() > MAX_RECORDED:
            return run.advance
        tensors = [*(getattr(run, name) for name in STATE), *run.system.tensors()]
        kind = (run.system.operation, [(t.shape, t.dtype) for t in tensors])
        if kind != self._kind:
            self._kind, self._run = kind, copy.copy(run)
            self._run.system = run.system.duplicate()
            for name in STATE:
                setattr(self._run, name, getattr(run, name).clone())
            self._graph, _ = record(self._step, run.x.device, 1)
        own = [*(getattr(self._run, name) for name in STATE), *self._run.system.tensors()]
        for mine, given in zip(own, tensors, strict=True):
            mine.copy_(given)
        vars(run).update({name: getattr(self._run, name) for name in STATE}, separate=False)
        return self._graph.replay

    def _step(self) -> None:
        """Take a step that leaves the state in the same tensors."""
        run = self._run
        p, rs = run.p, run.rs
        run.advance()
        run.p, run.rs = p.copy_(run.p), rs.copy_(run.rs)


def conjugate_gradients(
    system: LinearSystem,
    b: Inexact[Tensor, "signals channels *_"],
    *,
    start: Tensor | None = None,
    tolerance: float = 1e-4,
    steps: int = 500,
    least: Tensor | None = None,
    check_every: int = 1,
    callback: Callback | None = None,
    recorder: StepRecorder | None = None,
) -> Solution:
    """Solve A x = b for all systems at once, each with its own step length, until all reach the tolerance.

    ``b`` holds the right-hand sides, and ``start`` the initial x, 0 by default. The ``tolerance`` is the relative
    residual √(⟨r, Mr⟩ / ⟨b, Mb⟩) with the system's preconditioner M, and ``steps`` the largest number of steps. A
    system has also converged where ⟨r, Mr⟩ is at most ``least``: the rounding of b, which a singular A need not reach.
    The residual is looked at every ``check_every`` steps, and ``callback`` is called then, with x in memory that later
    steps write to. A converged system does not change any more. On a GPU a ``recorder`` that several solves share
    replays their steps. No warning is given if the steps do not suffice; see ``Solution.warn_unless_converged``.

    Gradients flow to ``b``, as those of A⁻¹ b, while the system is held fixed: they are one more solve, to the same
    tolerance. A must then be definite.

    Source: Golub and Van Loan, Matrix Computations, 4th ed., algorithm 11.5.1.
    """
    if b.requires_grad and torch.is_grad_enabled():
        again = {"tolerance": tolerance, "steps": steps, "check_every": check_every}
        found = conjugate_gradients(system, b.detach(), start=start, least=least, callback=callback, **again)
        return replace(found, x=_Inverse.apply(b, found.x, system, again))
    run = _Iteration(system, b, start, max(tolerance, 4 * torch.finfo(b.dtype).eps), least)
    del b, start  # the iteration has copies
    worst, step, ended = run.look(), 0, False
    advance = run.advance if recorder is None or worst <= run.tolerance else recorder.advance(run)
    while worst > run.tolerance and step < steps and not ended:
        advance()
        step += 1
        if step % check_every == 0 or step == steps:
            worst = run.look()
            if callback is not None:
                run.store()
                ended = bool(callback(step, worst, run.solution))
            run.compact()
    run.store()
    relative = run.reached.sqrt().flatten()
    return Solution(run.solution, step, relative, ended or float(relative.max()) <= tolerance)


class _Inverse(torch.autograd.Function):
    """x = A⁻¹ b, with the derivative A⁻¹ at any x that was found.

    A is self-adjoint in the inner product Re Σ w ā b; in that without w, which autograd has, A⁻¹ has w A⁻¹ w⁻¹.
    """

    @staticmethod
    def forward(ctx: Any, b: Tensor, x: Tensor, system: LinearSystem, options: dict[str, Any]) -> Tensor:
        ctx.system, ctx.options = system, options
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = gradients
        with torch.enable_grad():
            ones = torch.ones_like(gradient, requires_grad=True)
            (w,) = torch.autograd.grad(ctx.system.inner(ones, ones.detach()).real.sum(), ones)
        with full_precision():
            solution = conjugate_gradients(ctx.system, gradient / w.real, **ctx.options)
        solution.warn_unless_converged(ctx.options["tolerance"])
        return w.real * solution.x, None, None, None


class _Iteration:
    """The state: ``solution`` and ``reached``, the squared relative residuals, hold all systems.

    ``x`` and ``squares`` hold those that have not been dropped, whose flat indices are ``places``.
    """

    def __init__(
        self, system: LinearSystem, b: Tensor, start: Tensor | None, tolerance: float, least: Tensor | None
    ) -> None:
        self.system, self.tolerance, self.tiny = system, tolerance, torch.finfo(b.dtype).tiny
        s = system.preconditioner(b)
        self.scale = system.inner(b, s).real.clamp(min=self.tiny)
        if least is not None:
            self.scale = torch.maximum(self.scale, least / tolerance**2)
        self.least = tolerance**2 * self.scale
        if start is None:
            self.x, self.r = torch.zeros_like(b), b.clone()
        else:
            del s
            self.x, self.r = start.clone(), b - system.operator(start)
            s = system.preconditioner(self.r)
        self.p, self.rs = s, system.inner(self.r, s).real
        self.squares = (self.rs / self.scale).clamp(min=0)
        self.separate = self.squares.shape[:2] == b.shape[:2]  # else channels are solved together
        self.solution, self.reached = self.x, self.squares
        self.places = torch.arange(self.squares.numel(), device=b.device)

    def advance(self) -> None:
        """Take one step in every system that has not converged."""
        q = self.system.operator(self.p)
        alpha = self.rs / self.system.inner(self.p, q).real.clamp(min=self.tiny)
        alpha = alpha.masked_fill_(self.rs <= self.least, 0.0)
        add_scaled(self.x, alpha, self.p)
        add_scaled(self.r, alpha, q, sign=-1)
        s = self.system.preconditioner(self.r)
        rs = self.system.inner(self.r, s).real
        add_scaled(s, rs / self.rs.clamp(min=self.tiny), self.p)
        self.p, self.rs = s, rs

    def look(self) -> float:
        """Return the largest relative residual."""
        self.squares = (self.rs / self.scale).clamp(min=0)
        self.seen = self.squares.cpu()  # one wait for a GPU, whatever is then decided by it
        return float(self.seen.max().sqrt())

    def compact(self) -> None:
        """Drop converged systems once their share is ``COMPACT_AT``."""
        left = (self.seen > self.tolerance**2).reshape(self.seen.shape[:2])
        if not (self.separate and 0 < int(left.sum()) <= (1 - COMPACT_AT) * left.numel()):
            return
        self.store()
        channels = left.shape[1]
        signal, channel = left.nonzero().to(self.x.device).unbind(1)
        kept = signal, channel
        for name in ("x", "r", "p", "rs", "scale", "least", "squares"):
            setattr(self, name, subset(getattr(self, name), kept))
        self.system, self.places = self.system.select(kept), self.places[channels * signal + channel]

    def store(self) -> None:
        """Copy the remaining systems into ``solution`` and ``reached``."""
        for all_systems, part in ((self.solution, self.x), (self.reached, self.squares)):
            if part is all_systems:
                continue
            if self.separate:
                channels = all_systems.shape[1]
                all_systems[self.places // channels, self.places % channels] = part.flatten(0, 1)
            else:
                all_systems.copy_(part)


def subset(tensor: Shaped[Tensor, "..."], kept: Places) -> Shaped[Tensor, "..."]:
    """Select systems of a tensor (signals or 1, channels or 1, …) as (kept, 1, …); one shared by all stays the same."""
    if tensor.shape[:2] == (1, 1):
        return tensor
    return tensor[tuple(0 if n == 1 else at for n, at in zip(tensor.shape, kept, strict=False))].unsqueeze(1)


def scaled(scale: Float[Tensor, "..."], z: Tensor) -> Tensor:
    """Return scale × z for a real scale and z real or complex, in real arithmetic: half the time for complex z."""
    if not z.is_complex():
        return scale * z
    return torch.view_as_complex(scale.unsqueeze(-1) * torch.view_as_real(z))


def add_scaled(out: Tensor, scale: Float[Tensor, "..."], z: Tensor, *, sign: int = 1) -> Tensor:
    """Add sign × scale × z to ``out`` in place, in real arithmetic."""
    if not z.is_complex():
        return out.addcmul_(scale, z, value=sign)
    torch.view_as_real(out).addcmul_(scale.unsqueeze(-1), torch.view_as_real(z), value=sign)
    return out


def dot(a: Float[Tensor, "*systems n"], b: Float[Tensor, "*systems n"]) -> Float[Tensor, "*systems"]:
    """Return Σ a b of every system, on a CPU without storing the products of long ones.

    On a CPU each long system takes one BLAS call, a tenth of the time of ``bmm``.
    """
    if a.is_cuda or a.shape[-1] <= SHORT_SYSTEM or a.requires_grad or b.requires_grad:
        return (a * b).sum(-1)
    rows = (x.reshape(-1, x.shape[-1]).unbind() for x in (a, b))
    return torch.stack([torch.dot(x, y) for x, y in zip(*rows, strict=True)]).reshape(a.shape[:-1])
