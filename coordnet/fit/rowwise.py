"""Closed-form fits of scattered points by the exact row-wise design, for small problems."""

import math
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import ComplexEncoding
from coordnet.fit.centred import Centred
from coordnet.fit.plan import Plan, Solved
from coordnet.priors.modes import EncodingModes
from coordnet.priors.priors import Smoothness
from coordnet.sampling.samples import ScatteredPoints

LIMIT = 2**27  # entries of the dense design: a gigabyte in float64


def khatri_rao(factors: list[Float[Tensor, "n _"]]) -> Float[Tensor, "n k"]:
    """The row-wise Kronecker product: row i is the product of the factors' rows i."""
    return reduce(lambda a, b: (a.unsqueeze(2) * b.unsqueeze(1)).flatten(1), factors)


class RowwisePlan(Plan):
    """Minimise Σ w (Ψ(x)ᵀ C z - y)² + λ Σ ρ |z|² with the encoding evaluated at the points themselves.

    The n × r₁…r_d design of the modes at the points is formed and solved by one SVD; see ``SmoothPlan`` for what
    modes are, and ``blending`` for the sparse approximation that larger problems need.

    Parameters
    ----------
    encoding, geometry, prior, rcond, center, dtype, device
        See ``SmoothPlan``.

    Raises
    ------
    ValueError
        If the design would have more than ``LIMIT`` entries, or the weights differ by channel.
    """

    def __init__(
        self,
        encoding: ComplexEncoding,
        geometry: ScatteredPoints,
        prior: Smoothness,
        *,
        rcond: float | None = None,
        center: bool = True,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(encoding, geometry, center=center, dtype=dtype)
        assert isinstance(self.encoding, ComplexEncoding)
        points, weights = geometry.points.double().to(device), geometry.weights
        self.modes = EncodingModes(
            self.encoding, geometry.axes, rcond=rcond, dtype=torch.float64, device=device
        )
        if len(points) * math.prod(self.modes.ranks) > LIMIT:
            raise _checks.wrong(
                "points", f"at most {LIMIT // math.prod(self.modes.ranks)} for the exact design", len(points)
            )
        if weights is not None and weights.shape[1] > 1:
            raise _checks.wrong(
                "weights", "the same for every channel with the exact design", weights.shape[1]
            )
        root = torch.ones(len(points), 1, device=device) if weights is None else weights.sqrt()
        self.root = root.to(torch.float64)
        factors = zip(self.encoding(points), self.modes.axis_coefficients, strict=True)
        design = self.root * khatri_rao([psi @ c for psi, c in factors])
        penalty = (prior.strength * prior.roughness(self.modes)).flatten().sqrt()
        self.inverse = torch.linalg.pinv(torch.cat([design, torch.diag(penalty)]))[:, : len(points)]

    def solve(self, values: Centred) -> Solved:
        """Return the weights of centred values."""
        z = (values.whole().double() * self.root[:, 0]) @ self.inverse.T
        weights = self.modes.weights(z.unflatten(-1, self.modes.ranks)).to(self.dtype)
        return Solved(weights, {"method": "exact row-wise design", "ranks": list(self.modes.ranks)})
