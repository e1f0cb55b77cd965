"""The one way from an encoder and an axis to a matrix, dense or banded, and the pseudo-inverses of a lattice."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.base import EncodingByAxis
from coordnet.encodings.encoders import Encoder
from coordnet.linalg.banded import Windows, inverse
from coordnet.linalg.kronecker import Operator, RankWarning, default_rcond, factorise
from coordnet.linalg.tracking import tracked
from coordnet.sampling.axes import Axes, Axis

T = TypeVar("T")
CROSSOVER = 128  # samples and features of an axis from which a band is faster than the dense matrix
TOLERANCE = 1e-11  # relative error of a band's inverse in the infinity norm, where the rounding is smaller
MAX_CONDITION = 1e5  # of a design whose normal matrix is factorized in float64


def design(
    encoder: Encoder,
    axis: Axis,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    *,
    dense: bool = False,
) -> Operator:
    """The matrix ψ(positions of the axis), (N, K): a band where that is faster, else a dense tensor.

    It is computed in float64: at position 1 the rounding of float32 is 1e-4 of the spacing of 2048 samples. Where a
    gradient follows the encoder, the matrix is dense and computed in ``dtype``.

    Parameters
    ----------
    encoder : Encoder
        ψ.
    axis : Axis
        The positions.
    dtype, device
        The type and the place of the matrix.
    dense : bool
        Return a tensor in every case.
    """
    if any(tracked(tensor) for tensor in _tensors(encoder).values()):
        return encoder(axis.points(dtype, device))
    band = None if dense else _faster_band(encoder, axis)
    if band is None:
        return encoder(axis.points(torch.float64, device)).to(dtype)
    return band.trimmed(max(torch.finfo(dtype).eps / 16, 1e-15)).to(dtype).on(device)


def designs(
    encoding: EncodingByAxis,
    axes: Axes,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    *,
    dense: bool = False,
) -> list:
    """The design of every axis of a lattice; axes that are equal, with equal encoders, share one.

    Raises
    ------
    ValueError
        If there is not one encoder for each axis.
    """
    pairs = _pairs(encoding, axes)
    return _for_distinct(pairs, lambda e, a: design(e, a, dtype, device, dense=dense))


def same(a: Encoder, b: Encoder) -> bool:
    """Whether two encoders are the same map: one object, or objects of one class with equal attributes and tensors."""
    if a is b:
        return True
    ours, theirs = _tensors(a), _tensors(b)
    if type(a) is not type(b) or ours.keys() != theirs.keys() or any(True for _ in a.children()):
        return False
    inner = {"_parameters", "_buffers", *ours}
    values = ({k: v for k, v in vars(e).items() if k not in inner} for e in (a, b))
    try:
        return next(values) == next(values) and all(torch.equal(ours[k], theirs[k]) for k in ours)
    except (RuntimeError, ValueError):  # arrays, and tensors on different devices
        return False


def separable_inverse(
    encoding: EncodingByAxis,
    axes: Axes,
    *,
    rcond: float | None = None,
    warn: bool = True,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> list[Operator] | None:
    """The pseudo-inverse of every axis of a lattice, where at least one of them is faster as a band.

    Parameters
    ----------
    encoding, axes
        The designs.
    rcond : float, optional
        The relative cut of the Kronecker matrix's singular values; see ``KroneckerLeastSquares``.
    warn : bool
        Warn where a band is singular.
    dtype, device
        The type and the place of the values that will be multiplied.

    Returns
    -------
    list or None
        Bands in float64, or dense matrices for axes that are short or not local. None where no axis is faster as a
        band, or a singular value of the Kronecker matrix would be cut: the dense path is for that.

    Warns
    -----
    RankWarning
        Where a band is too near to singular for its normal matrix to be factorized.
    """
    pairs = _pairs(encoding, axes)
    bands = _for_distinct(pairs, _faster_band)
    if all(band is None for band in bands):
        return None
    inverses = _for_distinct(pairs, lambda e, a: _axis_inverse(e, a, dtype, device))
    found = [part for part in inverses if part is not None]
    if len(found) < len(pairs):
        singular = [j for j, band in enumerate(bands) if band is not None and inverses[j] is None]
        if warn and singular:
            warnings.warn(
                f"the band of axis {singular[0]} is singular or nearly so; its dense matrix is factorized instead",
                RankWarning,
                stacklevel=4,
            )
        return None
    size = max(max(axis.count, encoder.columns) for encoder, axis in pairs)
    cut = default_rcond((size,), dtype) if rcond is None else rcond
    if math.prod(condition for _, condition in found) * cut >= 1:
        return None
    return [operator for operator, _ in found]


def pseudo_inverse(design: Windows, dtype: torch.dtype) -> tuple[Windows, float] | None:
    """The pseudo-inverse of a banded design of full rank, in float64, and a bound on the design's condition number.

    It is (AᵀA)⁻¹Aᵀ where there are at most as many features as samples, else Aᵀ(AAᵀ)⁻¹, without entries below the
    rounding of ``dtype``. The condition is bounded by √(‖A‖₁ ‖A‖∞ ‖A⁺‖₁ ‖A⁺‖∞), which is within some percent of it
    for bumps on a row of nodes.

    Returns
    -------
    tuple or None
        None where the rank is not full, the condition above ``MAX_CONDITION``, or the inverse not near a diagonal.
    """
    tolerance = max(torch.finfo(dtype).eps / 16, TOLERANCE)
    transpose = design.mT
    tall = design.shape[0] >= design.shape[1]
    solved = inverse(transpose @ design if tall else design @ transpose, tolerance)
    if solved is None:
        return None
    result = (solved @ transpose if tall else transpose @ solved).trimmed(tolerance)
    norms = (design.row_norm(), transpose.row_norm(), result.row_norm(), result.mT.row_norm())
    condition = math.sqrt(math.prod(norms))
    return None if condition > MAX_CONDITION else (result, condition)


def _axis_inverse(
    encoder: Encoder, axis: Axis, dtype: torch.dtype, device: torch.device | str
) -> tuple[Operator, float] | None:
    """The pseudo-inverse of an axis and a bound on its condition; None where the rank is not full."""
    band = _faster_band(encoder, axis)
    if band is not None:
        solved = pseudo_inverse(band, dtype)
        return None if solved is None else (solved[0].on(device), solved[1])
    matrix = encoder(axis.points(torch.float64, device))
    factor = factorise(matrix, default_rcond(matrix.shape, dtype))
    if factor.rank < min(matrix.shape):
        return None
    return (factor.v / factor.s) @ factor.u.mH, float(factor.s[0] / factor.s[-1])


def _faster_band(encoder: Encoder, axis: Axis) -> Windows | None:
    return None if min(axis.count, encoder.columns) < CROSSOVER else encoder.banded(axis)


def _pairs(encoding: EncodingByAxis, axes: Axes) -> list[tuple[Encoder, Axis]]:
    if len(axes) != encoding.dimensions:
        raise _checks.wrong("axes", f"{encoding.dimensions}, one for each encoder", len(axes))
    return list(zip(encoding.axis_encoders, axes, strict=True))


def _for_distinct(pairs: Sequence[tuple[Encoder, Axis]], function: Callable[[Encoder, Axis], T]) -> list[T]:
    """The values of a function of an encoder and an axis, computed once for pairs that are equal."""
    values: list[T] = []
    for j, (encoder, axis) in enumerate(pairs):
        twin = next((i for i in range(j) if pairs[i][1] == axis and same(pairs[i][0], encoder)), None)
        values.append(function(encoder, axis) if twin is None else values[twin])
    return values


def _tensors(encoder: Encoder) -> dict[str, Tensor]:
    """The parameters, the buffers, and the tensors that are plain attributes."""
    plain = {name: value for name, value in vars(encoder).items() if isinstance(value, Tensor)}
    return {**dict(encoder.named_parameters()), **dict(encoder.named_buffers()), **plain}
