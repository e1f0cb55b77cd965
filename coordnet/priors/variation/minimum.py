"""Signals of least total variation given their data, by alternating directions."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.priors.denoiser.plug_and_play import entries, measured
from coordnet.sampling.forward import ForwardModel

# Relative primal and dual residual at the last step, and most steps: blurs need 20, projections 40, and a quarter of
# Fourier space 80 to 300.
RESIDUAL, MOST_STEPS = 1e-3, 300
PROXIMAL_STEPS = 10  # steps of a proximal map, from the flow of the one before on

Signal = Float[Tensor, "channels *lattice"]
Flow = Float[Tensor, "axes channels *lattice"]


def least_variation(
    start: Signal, values: Float[Tensor, "channels *samples"], measurement: ForwardModel, strength: float, mean: float
) -> tuple[Signal, int]:
    """Return the minimum for a strength, near which gradients have a mean magnitude, and the number of steps to it.

    Known entries of a mask stay as they are. Each step moves gradients by up to the mean magnitude. The steps end when
    both residuals are small, relative to the signal and to the dual variable.

    Boyd, Parikh, Chu, Peleato and Eckstein, "Distributed optimization and statistical learning via the alternating
    direction method of multipliers" (2011), section 3.3.1.
    """
    s = math.sqrt(mean / strength)
    if measurement.is_mask:
        nearest = entries(values, measurement.weights[0] > 0)
    else:
        nearest = measured(values, measurement, 1.0, RESIDUAL)
    x = before = nearest(start, s)
    dual, flow = torch.zeros_like(x), torch.zeros_like(differences(x))
    steps, is_near = 0, False
    while steps < MOST_STEPS and not is_near:
        z, flow = proximal(x + dual, mean, flow)
        x = nearest(z - dual, s)
        dual = dual + x - z
        residuals, sizes = torch.stack([(x - z).norm(), (z - before).norm()]), torch.stack([x.norm(), dual.norm()])
        before, steps, is_near = z, steps + 1, bool((residuals <= RESIDUAL * sizes).all())
    return x, steps


def proximal(v: Signal, weight: float, flow: Flow, steps: int = PROXIMAL_STEPS) -> tuple[Signal, Flow]:
    """Return the signal of least |z - v|²/2 + weight Σ|∇z| after some steps, and the flow p with z = v + weight ∇·p.

    The steps begin at a flow, whose magnitude is at most 1.

    Beck and Teboulle, "Fast gradient-based algorithms for constrained total variation image denoising and deblurring
    problems" (2009).
    """
    if not weight:
        return v, flow
    ahead, inertia = flow, 1.0
    for _ in range(steps):
        moved = ahead + differences(v + weight * divergence(ahead)) / (4 * len(flow) * weight)
        moved = moved / moved.square().sum(0).sqrt().clamp(min=1)
        last, inertia = inertia, (1 + math.sqrt(1 + 4 * inertia**2)) / 2
        ahead, flow = moved + (last - 1) / inertia * (moved - flow), moved
    return v + weight * divergence(flow), flow


def differences(f: Signal) -> Flow:
    """Return the forward differences along each axis, which are 0 at the last nodes."""
    return torch.stack([torch.diff(f, dim=k, append=f.narrow(k, f.shape[k] - 1, 1)) for k in range(1, f.ndim)])


def divergence(flow: Flow) -> Signal:
    """Return the negative adjoint of ``differences``."""
    total = torch.zeros_like(flow[0])
    for k, part in enumerate(flow, 1):
        inner = part.narrow(k, 0, part.shape[k] - 1)
        total.narrow(k, 0, inner.shape[k]).add_(inner)
        total.narrow(k, 1, inner.shape[k]).sub_(inner)
    return total


def mean_gradient(f: Signal) -> float:
    """Return the mean magnitude of the differences; 0, as of a constant signal, where its square is beyond float64."""
    mean = float(differences(f).square().sum(0).sqrt().mean())
    return mean if math.isfinite(mean * mean) else 0.0
