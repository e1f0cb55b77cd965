"""The one way from an encoder and an axis to a matrix, dense or banded, and the pseudo-inverses of a lattice."""

import math
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoders import Encoder
from coordnet.linalg.banded import BandedMatrix, inverse
from coordnet.linalg.kronecker import Matrix, default_rcond, factorize, for_each_distinct
from coordnet.linalg.machine import is_tracked
from coordnet.linalg.modules import duplicate
from coordnet.linalg.operators import Device
from coordnet.sampling.axes import Axes, Axis

CROSSOVER = 128  # samples and features of an axis from which a band is faster than the dense matrix
INVERSE_ERROR = 1e-11  # relative error of a band's inverse in the infinity norm, where the rounding is smaller
MAX_CONDITION = 1e5  # largest condition of a design whose normal matrix is factorized in float64


@runtime_checkable
class Separable(Protocol):
    """An encoding that has an encoder for each axis."""

    dimensions: int

    @property
    def axis_encoders(self) -> list[Encoder]:
        """The encoders, one for each axis."""
        ...


def design(
    encoder: Encoder, axis: Axis, dtype: torch.dtype = torch.float64, device: Device = "cpu", *, dense: bool = False
) -> Matrix:
    """The matrix ψ(positions of the axis), or its means over the axis's cells, (N, K): a band where that is faster.

    It is computed in float64: at position 1 the rounding of float32 is 1e-4 of the spacing of 2048 samples. Where a
    gradient follows the encoder, the matrix is dense and computed in ``dtype``; ``dense`` asks for a tensor always.
    """
    if _is_followed(encoder):
        return encoder.on_axis(axis, dtype, device)
    band = None if dense else _faster_band(encoder, axis, dtype)
    if band is None:
        return encoder.on_axis(axis, device=device).to(dtype)
    return band if torch.device(device).type == "cpu" else band.to(device)


def designs(
    encoding: Separable, axes: Axes, dtype: torch.dtype = torch.float64, device: Device = "cpu", *, dense: bool = False
) -> list[Any]:
    """The design of every axis of a lattice; axes that are equal, with equal encoders, share one."""
    pairs = _pairs(encoding, axes)
    return for_each_distinct(pairs, lambda pair: design(*pair, dtype, device, dense=dense), _equal)


class LatestDesigns:
    """The designs of an encoding, kept for the next call if they are bands and nothing has changed.

    Rendering the fits of one plan, whose encodings share this object, then takes no longer than their products.
    Encoders to whose tensors gradients flow have theirs made anew, and so have those without a band, whose matrices may
    be large.
    """

    def __init__(self) -> None:
        self._made: tuple[Any, list, list] = (None, [], [])  # for which numbers, for which pairs, the matrices

    def __call__(self, encoding: Separable, axes: Axes, dtype: torch.dtype, device: torch.device) -> list[Any]:
        """Return ``designs`` of the arguments."""
        numbers, pairs, matrices = self._made
        if numbers == (dtype, device) and len(axes) == len(pairs):
            if all(map(_equal, _pairs(encoding, axes), pairs)):
                return matrices
        matrices = designs(encoding, axes, dtype, device)
        trained = any(t.requires_grad for encoder in encoding.axis_encoders for t in _tensors(encoder).values())
        if not trained and not any(isinstance(a, Tensor) for a in matrices):
            pairs = [(duplicate(encoder), axis) for encoder, axis in _pairs(encoding, axes)]
            self._made = ((dtype, device), pairs, matrices)
        return matrices


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
    encoding: Separable,
    axes: Axes,
    *,
    rcond: float | None = None,
    dtype: torch.dtype = torch.float32,
    device: Device = "cpu",
) -> list[Matrix] | None:
    """The pseudo-inverse of every axis of a lattice, where at least one of them is faster as a band.

    Bands are in float64; axes that are short or not local have dense matrices. It is None where no axis is faster as a
    band, an axis is nearly singular, or the relative cut ``rcond`` of ``KroneckerLeastSquares`` would remove a singular
    value of the Kronecker matrix: the dense path is for that. ``dtype`` is that of the values that will be multiplied.
    """
    pairs = _pairs(encoding, axes)
    bands = for_each_distinct(pairs, lambda pair: _faster_band(*pair), _equal)
    if all(band is None for band in bands):
        return None
    inverses = for_each_distinct(pairs, lambda pair: _axis_inverse(*pair, dtype, device), _equal)
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


def _axis_inverse(encoder: Encoder, axis: Axis, dtype: torch.dtype, device: Device) -> tuple[Matrix, float] | None:
    """The pseudo-inverse of an axis and a bound on its condition; None where the rank is not full."""
    band = _faster_band(encoder, axis)
    if band is not None:
        return pseudo_inverse(band.to(device), dtype)
    matrix = encoder.on_axis(axis, device=device)
    factor = factorize(matrix, default_rcond(matrix.shape, dtype))
    if factor.rank < min(matrix.shape):
        return None
    return factor.pseudo_inverse, float(factor.s[0] / factor.s[-1])


def _faster_band(encoder: Encoder, axis: Axis, dtype: torch.dtype = torch.float64) -> BandedMatrix | None:
    return None if min(axis.count, encoder.columns) < CROSSOVER else encoder.banded(axis, dtype)


def _pairs(encoding: Separable, axes: Axes) -> list[tuple[Encoder, Axis]]:
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
