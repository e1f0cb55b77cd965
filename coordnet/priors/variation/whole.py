"""Signals of least total variation near noisy values: those of a whole lattice, or of a row with gaps."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.interpolate import make_interp_spline
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import FourierEncoding
from coordnet.linalg.borders import make_periodic
from coordnet.networks.fit_reports import VariationReport
from coordnet.plans.hold_out import middle
from coordnet.plans.plan import Fitted, Plan
from coordnet.priors.variation.minimum import Signal, differences, proximal
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Geometry

OVER_NOISE = tuple(0.5 * 1.6**k for k in range(7))  # strengths that are tried, in standard deviations of the noise
DECIDING_NODES = 2**14  # nodes of the middle of a lattice that choose among them
# Steps of the proximal map, which go on from one strength to the next. With four times as many the error changes by
# less than 0.02 dB on eleven rows and fields.
STEPS = ByAxes({1: 200, 2: 50})
PROBE = 0.1  # step of the divergence's difference quotient, in standard deviations of the noise


class NoisyVariationPlan(Plan):
    """Find the least |f - y|²/2 + strength Σ |∇f|, by the proximal map of total variation.

    Unless it is given, the strength has the least estimate |f - y|² + 2 σ² div f of the squared error, whose divergence
    is a difference quotient along random signs. In a row with gaps the total variation is that from sample to sample,
    and gaps are crossed by lines, since it does not tell where in them a step is.

    The parameters are those of ``plan``, the standard deviation σ of the noise, and the strength.

    Stein, "Estimation of the mean of a multivariate normal distribution" (1981); Ramani, Blu and Unser, "Monte-Carlo
    SURE" (2008).
    """

    needs_proof = True  # among noise hidden samples hardly tell lines from curves that are smooth

    def __init__(
        self, encoding: FourierEncoding, geometry: Geometry, noise: float, strength: float | None, **options: Any
    ) -> None:
        super().__init__(encoding, geometry, **options)
        self.noise, self.strength, self.steps = noise, strength, STEPS[sum(n > 1 for n in geometry.grid)]
        weights, is_nodal = geometry.full_weights, geometry.is_nodal and geometry.shape == geometry.grid
        has_one_mask, has_gaps = geometry.is_binary and weights.shape[-1] == 1, geometry.density < 1
        is_row = sum(n > 1 for n in geometry.grid) <= 1
        if not (is_nodal and has_one_mask and (is_row or not has_gaps)):
            expected = "cn.Local(), unless the noisy samples are a whole lattice or a row with gaps"
            raise _checks.wrong("prior", expected, "cn.TotalVariation")
        self.known = np.flatnonzero(weights.cpu().numpy()) if has_gaps else None

    @torch.no_grad()
    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        y = values[0] if self.known is None else values[0].flatten(1)[:, self.known]
        part = y[(slice(None), *middle(tuple(y.shape[1:]), DECIDING_NODES))]
        strength = self._chosen(part) if self.strength is None else self.strength
        f, _ = proximal(y, strength, torch.zeros_like(differences(y)), self.steps)
        f = f if self.known is None else self._across_gaps(self.known, f)
        method = f"the proximal map of total variation, strength {strength:.3g}"
        report = VariationReport(method=method, strength=strength, iterations=self.steps)
        return Fitted(make_periodic(f.unsqueeze(0), self.encoding.shape), report)

    def _across_gaps(self, known: Int[np.ndarray, " n"], f: Float[Tensor, "channels n"]) -> Signal:
        """Return a row by lines between its known nodes, constant beyond them."""
        within = np.arange(math.prod(self.geometry.grid)).clip(known[0], known[-1])
        lines = make_interp_spline(known, f.cpu().numpy(), 1, axis=1)(within)
        return torch.from_numpy(lines).to(f).reshape(-1, *self.geometry.grid)

    def _chosen(self, y: Signal) -> float:
        """Return the strength of least expected error on some values: of rising ones, the last before it grows."""
        signs = 2 * torch.randint(0, 2, y.shape, generator=torch.Generator().manual_seed(0)) - 1
        step, best, least = PROBE * self.noise * signs.to(y), 0.0, math.inf
        both = torch.cat([y, y + step])
        flow, before = torch.zeros_like(differences(both)), 0.0
        for strength in (self.noise * factor for factor in OVER_NOISE):
            f, flow = proximal(both, strength, flow * before / strength, self.steps)
            before, (f, moved) = strength, f.chunk(2)
            spread = self.noise**2 * float(((moved - f) * step).mean() / step.square().mean())
            error = float((f - y).square().mean()) + 2 * spread
            if error > least:
                break
            best, least = strength, error
        return best
