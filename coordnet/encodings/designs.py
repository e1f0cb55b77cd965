"""Local encoders on long axes: their designs and pseudo-inverses as ``Windows``, at a cost linear in the samples."""

import copy
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from coordnet.encodings import ComplexEncoding
from coordnet.encodings.encoders import Encoder, ShiftedBasis
from coordnet.linalg.banded import Window, Windows, inverse
from coordnet.linalg.cache import Cache, digest, for_any_mode
from coordnet.linalg.kronecker import Operator, RankWarning, default_rcond, factorise
from coordnet.linalg.precision import prepared
from coordnet.linalg.tracking import tracked
from coordnet.sampling.axes import Axes, Axis

# Samples and features of an axis from which windows are faster than the dense matrix.
CROSSOVER = 128
MOST = 0.5  # of the entries may be kept: beyond that the dense product is as fast
TOLERANCE = 1e-11  # of a band's inverse in the infinity norm, relative; that of float32 is its rounding
LARGEST_CONDITION = 1e5  # of a design whose normal matrix is factorised in float64


def local_design(encoder: ShiftedBasis, axis: Axis) -> Windows:
    """The matrix ψ(positions of an axis), (N, K), in float64 without the nodes out of reach."""
    x, nodes = axis.points(torch.float64), encoder.nodes

    def block(first: int, last: int) -> Window:
        low, high = (axis.start + i * axis.spacing for i in (first, last - 1))
        left = math.floor((low - encoder.support - nodes.start) / nodes.spacing)
        right = math.ceil((high + encoder.support - nodes.start) / nodes.spacing) + 1
        left = min(max(left, 0), nodes.count - 1)
        columns = slice(left, min(max(right, left + 1), nodes.count))
        return Window(first, left, encoder.forward_part(x[first:last], columns))

    return Windows.build((axis.count, nodes.count), block)


def axis_windows(encoder: Encoder, axis: Axis) -> Windows | None:
    """The design of an axis as windows where that is faster than the dense matrix; else None.

    On the CPU, whatever device the encoder is on: many small blocks cost a GPU more to launch than a processor to make.
    """
    if not isinstance(encoder, ShiftedBasis) or min(axis.count, encoder.columns) < CROSSOVER:
        return None
    reach = 2 * encoder.support / encoder.nodes.spacing  # columns a row
    if reach > MOST * encoder.columns:
        return None
    design = local_design(copy.deepcopy(encoder).cpu() if encoder.state_dict() else encoder, axis)
    return design if design.share <= MOST else None


def axis_operators(
    encoding: ComplexEncoding,
    axes: Axes,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> list[Operator]:
    """The designs of a lattice, as windows where that is faster; equal axes share one, and later calls.

    They are computed in float64: at position 1 the rounding of float32 is 1e-4 of the spacing of 2048 samples.
    """
    pairs = zip(encoding.axis_encoders, axes, strict=True)
    if any(tracked(t) for t in _tensors(encoding)):
        return [encoder(axis.points(dtype, device)) for encoder, axis in pairs]
    return [_kept_operator(encoder, axis, dtype, device) for encoder, axis in pairs]


@dataclass(frozen=True)
class _Kept:
    """An operator, and the classes of its encoder, for as long as the key names them."""

    operator: Operator
    classes: tuple[type, ...]


OPERATORS: Cache[_Kept] = Cache(most=32)
FEW = 2**12  # numbers of an encoder that are soon compared


def _kept_operator(encoder: Encoder, axis: Axis, dtype: torch.dtype, device: torch.device | str) -> Operator:
    """The design of one axis: from those made last, where it takes no waiting for a GPU to know the encoder again."""
    quick = all(t.device.type == "cpu" and t.numel() <= FEW for t in _tensors(encoder))
    key = digest(encoder, axis, dtype, str(device)) if quick else None
    if key is None:
        return _axis_operator(encoder, axis, dtype, device)
    kept = OPERATORS.find(key)
    if kept is None:
        made = for_any_mode(lambda: _axis_operator(encoder, axis, dtype, device))
        kept = _Kept(made, tuple(type(module) for module in encoder.modules()))
        OPERATORS.keep(key, kept)
    return kept.operator


def _axis_operator(encoder: Encoder, axis: Axis, dtype: torch.dtype, device: torch.device | str) -> Operator:
    """The design of one axis, made."""
    windows = axis_windows(encoder, axis)
    if windows is None:
        return encoder(axis.points(torch.float64, device)).to(dtype)
    made = prepared(windows, "float32", dtype)
    assert isinstance(made, Windows)
    return made.on(device)


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    """Parameters, buffers, and tensors that are plain attributes."""
    yield from module.parameters()
    yield from module.buffers()
    for part in module.modules():
        yield from (value for value in vars(part).values() if isinstance(value, Tensor))


def pseudo_inverse(design: Windows, dtype: torch.dtype) -> tuple[Windows, float] | None:
    """The pseudo-inverse of a design of full rank, in float64, and a bound on the design's condition number.

    (AᵀA)⁻¹Aᵀ where there are at most as many features as samples, else Aᵀ(AAᵀ)⁻¹, with entries below the rounding of
    ``dtype`` left out. The condition is bounded by √(‖A‖₁ ‖A‖∞ ‖A⁺‖₁ ‖A⁺‖∞), which is within some percent of it for
    bumps on a row of nodes.

    Returns
    -------
    tuple or None
        None where the rank is not full, the condition above ``LARGEST_CONDITION``, or the inverse not near a
        diagonal.
    """
    tolerance = max(torch.finfo(dtype).eps / 16, TOLERANCE)
    transpose = design.mT
    tall = design.shape[0] >= design.shape[1]
    solved = inverse(transpose @ design if tall else design @ transpose, tolerance)
    if solved is None:
        return None
    made = (solved @ transpose if tall else transpose @ solved).trimmed(tolerance)
    norms = (design.row_norm(), transpose.row_norm(), made.row_norm(), made.mT.row_norm())
    condition = math.sqrt(math.prod(norms))
    return None if condition > LARGEST_CONDITION else (made, condition)


def separable_inverse(
    encoding: ComplexEncoding,
    axes: Axes,
    *,
    rcond: float | None = None,
    warn: bool = True,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> list[Operator] | None:
    """The pseudo-inverse of every axis of a lattice, where one of them at least is faster as windows.

    Parameters
    ----------
    encoding, axes
        The designs.
    rcond : float, optional
        Relative cut of the Kronecker matrix's singular values; see ``KroneckerLeastSquares``.
    warn : bool
        Say so where a band is singular.
    dtype, device
        Of the values to come.

    Returns
    -------
    list or None
        Windows in float64, or dense matrices for axes that are short or not local. None where no axis is faster as
        windows, or a singular value of the Kronecker matrix would be cut: the dense path is for that.

    Warns
    -----
    RankWarning
        Where a band is too near to singular for its normal matrix to be factorised.
    """
    encoders = encoding.axis_encoders
    designs = [axis_windows(e, a) for e, a in zip(encoders, axes, strict=True)]
    if all(design is None for design in designs):
        return None
    keys = [digest(e, a) for e, a in zip(encoders, axes, strict=True)]
    made: list[tuple[Operator, float] | None] = []
    for j, design in enumerate(designs):
        if keys[j] is not None and keys[j] in keys[:j]:
            made.append(made[keys.index(keys[j])])
        elif design is not None:
            solved = pseudo_inverse(design, dtype)
            made.append(None if solved is None else (solved[0].on(device), solved[1]))
            _warn_of_band(warn and solved is None, j)
        else:
            made.append(_dense_inverse(encoders[j], axes[j], dtype, device))
    found = [part for part in made if part is not None]
    size = max(max(axis.count, e.columns) for e, axis in zip(encoders, axes, strict=True))
    cut = default_rcond((size,), dtype) if rcond is None else rcond
    if len(found) < len(made) or math.prod(condition for _, condition in found) * cut >= 1:
        return None
    return [operator for operator, _ in found]


def _dense_inverse(
    encoder: Encoder, axis: Axis, dtype: torch.dtype, device: torch.device | str
) -> tuple[Operator, float] | None:
    design = encoder(axis.points(torch.float64, device))
    factor = factorise(design, default_rcond(design.shape, dtype))
    if factor.rank < min(design.shape):
        return None
    return (factor.v / factor.s) @ factor.u.mH, float(factor.s[0] / factor.s[-1])


def _warn_of_band(singular: bool, axis: int) -> None:
    if singular:
        warnings.warn(
            f"the band of axis {axis} is singular or nearly so; its dense matrix is factorised instead",
            RankWarning,
            stacklevel=5,
        )
