"""The one way from an encoder and an axis to a matrix, dense or banded, and the pseudo-inverses of a lattice."""

import math
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders import Encoder
from coordnet.encodings.encoding import Encoding, duplicate
from coordnet.linalg.banded import BandedMatrix, inverse
from coordnet.linalg.kronecker import Matrix, default_rcond, factorize, for_each_distinct
from coordnet.linalg.machine import is_tracked
from coordnet.linalg.operators import Device
from coordnet.sampling.axes import Axes, Axis

CROSSOVER = 128  # samples and features of an axis from which a band is faster than the dense matrix
CROSSOVER_ON_GPU = 2048  # the same on a GPU, which launches a product for each block: estimated, not measured
MAX_KEPT_ENTRIES = 2**22  # entries of a dense matrix that is kept for the next render: 32 MiB in float64
INVERSE_ERROR = 1e-11  # relative error of a band's inverse in the infinity norm, where the rounding is smaller
MAX_CONDITION = 1e5  # largest condition of a design whose normal matrix is factorized in float64


def design(
    encoder: Encoder, axis: Axis, dtype: torch.dtype = torch.float64, device: Device = "cpu", *, dense: bool = False
) -> Matrix:
    """The matrix ψ(positions of the axis), or its means over the axis's cells, (N, K): a band where that is faster.

    It is computed in float64: at position 1 the rounding of float32 is 1e-4 of the spacing of 2048 samples. Where a
    gradient follows the encoder, the matrix is dense and computed in ``dtype``; ``dense`` asks for a tensor always.
    """
    if _is_followed(encoder):
        return encoder.on_axis(axis, dtype, device)
    band = None if dense else _faster_band(encoder, axis, dtype, device)
    if band is None:
        return encoder.on_axis(axis, device=device).to(dtype)
    return band if torch.device(device).type == "cpu" else band.to(device)


def designs(
    encoding: Encoding, axes: Axes, dtype: torch.dtype = torch.float64, device: Device = "cpu", *, dense: bool = False
) -> list[Any]:
    """The design of every axis of a lattice; axes that are equal, with equal encoders, share one."""
    pairs = _pairs(encoding, axes)
    return for_each_distinct(pairs, lambda pair: design(*pair, dtype, device, dense=dense), _equal)


class LatestDesigns:
    """The designs of an encoding, kept for the next call if they are bands, or small on a GPU, and nothing has changed.

    Rendering the fits of one plan, whose encodings share this object, then takes no longer than their products. With
    designs made anew, fitting and rendering by a plan took 14.5 ms in place of 12.5 for 256² × 3 samples at twice the
    resolution, and 190 ms in place of 82 for a row of 44,100 (one core). Encoders to whose tensors gradients flow have
    theirs made anew, and so have those with other dense matrices.
    """

    def __init__(self) -> None:
        self._made: tuple[Any, list, list] = (None, [], [])  # for which numbers, for which pairs, the matrices

    def __call__(self, encoding: Encoding, axes: Axes, dtype: torch.dtype, device: torch.device) -> list[Any]:
        """Return ``designs`` of the arguments."""
        if torch.compiler.is_compiling():  # comparisons with what was kept are no part of a graph
            return designs(encoding, axes, dtype, device)
        numbers, pairs, matrices = self._made
        if numbers == (dtype, device) and len(axes) == len(pairs):
            if all(map(_equal, _pairs(encoding, axes), pairs)):
                return matrices
        matrices = designs(encoding, axes, dtype, device)
        trained = any(t.requires_grad for encoder in encoding.axis_encoders for t in _tensors(encoder).values())
        if not trained and all(map(_is_kept, matrices)):
            pairs = [(duplicate(encoder), axis) for encoder, axis in _pairs(encoding, axes)]
            self._made = ((dtype, device), pairs, matrices)
        return matrices


def _is_kept(matrix: Any) -> bool:
    """Whether a design is kept: a dense one only where it takes launches, and if gradients may flow through it."""
    if not isinstance(matrix, Tensor):
        return True
    return matrix.is_cuda and not matrix.is_inference() and matrix.numel() <= MAX_KEPT_ENTRIES


def same(a: Encoder, b: Encoder) -> bool:
    """Whether two encoders are the same map: one object, or objects of one class with equal attributes and tensors."""
    if a is b or type(a) is not type(b):
        return a is b
    ours, theirs = _tensors(a), _tensors(b)
    values, others = ({k: v for k, v in vars(e).items() if k not in ("_parameters", "_buffers")} for e in (a, b))
    try:
        return values == others and ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)
    except (RuntimeError, ValueError):  # attributes that are arrays or tensors, and tensors on different devices
        return False


def separable_inverse(
    encoding: Encoding,
    axes: Axes,
    *,
    rcond: float | None = None,
    dtype: torch.dtype = torch.float32,
    device: Device = "cpu",
) -> list[Matrix] | None:
    """The pseudo-inverse of every axis of a lattice, where normal equations are faster than an SVD.

    On a CPU at least one axis must be faster as a band. Bands are in float64; axes that are short or not local have
    dense matrices. It is None where an SVD is faster, an axis is nearly singular, or the relative cut ``rcond`` of
    ``KroneckerLeastSquares`` would remove a singular value of the Kronecker matrix: the dense path is for that.
    ``dtype`` is that of the values that will be multiplied.
    """
    pairs = _pairs(encoding, axes)
    bands = for_each_distinct(pairs, lambda pair: _faster_band(*pair, device=device), _equal)
    banded = any(band is not None for band in bands)
    if not banded and torch.device(device).type == "cpu":
        return None
    inverses = for_each_distinct(pairs, lambda pair: _axis_inverse(*pair, dtype, device, banded), _equal)
    if any(found is None for found in inverses):
        return None
    matrices, conditions = zip(*inverses, strict=True)
    size = max(max(axis.count, encoder.columns) for encoder, axis in pairs)
    cut = default_rcond((size,), dtype) if rcond is None else rcond
    return list(matrices) if math.prod(conditions) * cut < 1 else None


def pseudo_inverse(design: BandedMatrix, dtype: torch.dtype) -> tuple[BandedMatrix, float] | None:
    """The pseudo-inverse of a banded design of full rank, in float64, and a bound on the design's condition number.

    It is (AᵀA)⁻¹Aᵀ where there are at most as many features as samples, else Aᵀ(AAᵀ)⁻¹, without entries below the
    rounding of ``dtype``. The bound is √(‖A‖₁ ‖A‖∞ ‖A⁺‖₁ ‖A⁺‖∞). It is None where the rank is not full, the condition
    is above ``MAX_CONDITION``, or the inverse has no narrow band.
    """
    tolerance = max(torch.finfo(dtype).eps / 16, INVERSE_ERROR)
    transpose = design.mT
    tall = design.shape[0] >= design.shape[1]
    gram = transpose.fused(design) if tall else design.fused(transpose)
    solved = inverse(cast(BandedMatrix, gram), tolerance)
    if solved is None:
        return None
    product = solved.fused(transpose) if tall else transpose.fused(solved)
    result = cast(BandedMatrix, product).trimmed(tolerance)
    norms = (design.infinity_norm(), transpose.infinity_norm(), result.infinity_norm(), result.mT.infinity_norm())
    condition = math.sqrt(math.prod(norms))
    return None if condition > MAX_CONDITION else (result, condition)


def dense_pseudo_inverse(design: Float[Tensor, "n k"], dtype: torch.dtype) -> tuple[Float[Tensor, "k n"], float] | None:
    """The pseudo-inverse of a dense design of full rank by a Cholesky factor; see ``pseudo_inverse``.

    It is None, beside where ``pseudo_inverse`` is, where the inverse of the normal matrix is off by more than the
    rounding of ``dtype``. A GPU is waited for once, where an SVD would take tens of milliseconds.
    """
    tall = design.shape[0] >= design.shape[1]
    gram = design.mT @ design if tall else design @ design.mT
    identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    solved = torch.cholesky_solve(identity, torch.linalg.cholesky_ex(gram).L)
    result = solved @ design.mT if tall else design.mT @ solved
    sums = [a.abs().sum(j).max() for a in (design, result) for j in (0, 1)]
    error, *norms = torch.stack([(solved @ gram - identity).abs().sum(1).max(), *sums]).tolist()
    condition = math.sqrt(math.prod(norms))
    accurate = error <= max(torch.finfo(dtype).eps / 16, INVERSE_ERROR) and condition <= MAX_CONDITION
    return (result, condition) if accurate else None  # nothing is accurate where the factor is NaN


def _axis_inverse(
    encoder: Encoder, axis: Axis, dtype: torch.dtype, device: Device, banded: bool
) -> tuple[Matrix, float] | None:
    """The pseudo-inverse of an axis and a bound on its condition; None where the rank is not full.

    An SVD is taken only beside another axis that is ``banded``: without one, all axes are left to it.
    """
    band = _faster_band(encoder, axis, device=device)
    if band is not None:
        return pseudo_inverse(band.to(device), dtype)
    matrix = encoder.on_axis(axis, device=device)
    found = dense_pseudo_inverse(matrix, dtype) if matrix.is_cuda else None
    if found is not None or not banded:
        return found
    factor = factorize(matrix, default_rcond(matrix.shape, dtype))
    if factor.rank < min(matrix.shape):
        return None
    return factor.pseudo_inverse, float(factor.s[0] / factor.s[-1])


def _faster_band(
    encoder: Encoder, axis: Axis, dtype: torch.dtype = torch.float64, device: Device = "cpu"
) -> BandedMatrix | None:
    crossover = CROSSOVER if torch.device(device).type == "cpu" else CROSSOVER_ON_GPU
    return None if min(axis.count, encoder.columns) < crossover else encoder.banded(axis, dtype)


def _pairs(encoding: Encoding, axes: Axes) -> list[tuple[Encoder, Axis]]:
    if len(axes) != encoding.dimensions:
        raise _checks.wrong("axes", f"{encoding.dimensions}, one for each encoder", len(axes))
    return list(zip(encoding.axis_encoders, axes, strict=True))


def _equal(a: tuple[Encoder, Axis], b: tuple[Encoder, Axis]) -> bool:
    """Whether two designs are the same matrix, and have the same gradients if any are followed."""
    return a[1] == b[1] and (a[0] is b[0] or (same(a[0], b[0]) and not _is_followed(a[0])))


def _is_followed(encoder: Encoder) -> bool:
    return any(is_tracked(tensor) for tensor in _tensors(encoder).values())


def _tensors(encoder: Encoder) -> dict[str, Tensor]:
    return {**dict(encoder.named_parameters()), **dict(encoder.named_buffers())}
