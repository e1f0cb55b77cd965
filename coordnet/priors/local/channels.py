"""Uncorrelated channels, in which the local prior treats a signal."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

LUMA = ((1.0, 1.0, 1.0), (1.0, 0.0, -1.0), (1.0, -2.0, 1.0))  # luma and two differences of colors, not normalized
COLOR_ENERGIES = (1.0, 0.08, 0.03)  # energies of luma and the differences in photographs, relative to luma's


@dataclass(frozen=True)
class Channels:
    """Uncorrelated channels, the first of the largest energy: their basis (columns) and relative energies."""

    basis: Float[Tensor, "channels channels"]
    energies: Float[Tensor, " channels"]

    @classmethod
    def of(cls, values: Float[Tensor, "channels *lattice"], known: Bool[Tensor, "#channels *lattice"]) -> "Channels":
        """Return luma and two color differences for three channels, principal components for other numbers."""
        if len(values) == 3:
            basis = torch.tensor(LUMA, dtype=values.dtype, device=values.device).T
            return cls(basis / basis.norm(dim=0), basis.new_tensor(COLOR_ENERGIES))
        mask = known.expand_as(values).flatten(1).to(values)
        y = values.flatten(1) * mask
        covariance = (y @ y.T).double() / (mask @ mask.T).clamp(min=1).double()
        energies, basis = torch.linalg.eigh(covariance)
        floor = 1e-3 * energies[-1:].clamp(min=torch.finfo(values.dtype).tiny)
        energies = torch.maximum(energies, floor).flip(0)
        return cls(basis.flip(1).to(values), (energies / energies[0]).to(values))
