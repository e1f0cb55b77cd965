"""Numbers of an encoding matrix: singular values, stable rank and condition; and the rank of a fitted image."""

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.kronecker import default_rcond
from coordnet.networks.reconstruction import Reconstruction
from coordnet.sampling.samples import check_values


def singular_values(matrix: Float[Tensor, "n k"]) -> Float[Tensor, " r"]:
    """The singular values of an encoding matrix (N, K) in decreasing order, computed in float64.

    A ``ValueError`` is raised if an entry is not finite.
    """
    return torch.linalg.svdvals(check_values("matrix", matrix.detach().double()))


def stable_rank(matrix: Float[Tensor, "n k"]) -> float:
    """The stable rank ‖A‖_F² / ‖A‖₂², at most the rank, from the Gram matrix of the shorter side in float64.

    A ``ValueError`` is raised if the matrix is zero, or an entry is not finite. Source: Zheng et al., "Rethinking
    Positional Encoding" (2021), section 3.
    """
    a = check_values("matrix", matrix.detach().double())
    total = float(a.square().sum())
    if total == 0:
        raise _checks.wrong("matrix", "an entry that is not zero", "zeros alone")
    gram = a @ a.T if a.shape[0] <= a.shape[1] else a.T @ a
    return total / float(torch.linalg.eigvalsh(gram)[-1])


def condition_number(matrix: Float[Tensor, "n k"]) -> float:
    """The largest of the min(N, K) singular values over the smallest one; infinite if that is zero."""
    s = singular_values(matrix)
    return float(s[0] / s[-1]) if float(s[-1]) > 0 else float("inf")


def linear_fit_rank(fit: Reconstruction, rcond: float | None = None) -> tuple[int, ...]:
    """The numerical rank of each channel of a rendered image.

    A linear head on a simple encoding gives a(x) + b(y), whose rank is at most 2. On a complex encoding the rank is
    that of the coefficients, at most the smaller of K₁ and K₂. Singular values below ``rcond`` times the largest count
    as zero; the default is ε max(N₁, N₂), with ε of the fit's dtype.

    A ``ValueError`` is raised if the fit does not have two dimensions, or a value is not finite. Source: Zheng et al.
    (ECCV 2022), section 5.
    """
    if len(fit.lengths) != 2:
        raise _checks.wrong("fit", "one of an image, with two axes", f"{len(fit.lengths)} axes")
    image = check_values("fit", fit.render(alignment="sample").detach())
    rcond = default_rcond(fit.lengths, image.dtype) if rcond is None else _checks.nonnegative("rcond", rcond)
    spectra = torch.linalg.svdvals(image.double().movedim(-1, 0))
    return tuple(int((s > rcond * s[0]).sum()) for s in spectra)
