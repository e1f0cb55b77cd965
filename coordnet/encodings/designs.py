"""Designs of local encoders on long axes, and their pseudo-inverses, as banded matrices."""

import copy
import math
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from coordnet.encodings import ComplexEncoding
from coordnet.encodings.encoders import Encoder, ShiftedBasis
from coordnet.linalg.banded import BandedMatrix, Block, inverse
from coordnet.linalg.buffers import is_tracked
from coordnet.linalg.kronecker import Matrix, RankWarning, default_rcond, factorize, for_each_distinct
from coordnet.sampling.axes import Axes, Axis

# Samples and features of an axis from which windows are faster than the dense matrix.
CROSSOVER = 128
MOST = 0.5  # of the entries may be kept: beyond that the dense product is as fast
TOLERANCE = 1e-11  # of a band's inverse in the infinity norm, relative; that of float32 is its rounding
LARGEST_CONDITION = 1e5  # of a design whose normal matrix is factorised in float64


def local_design(encoder: ShiftedBasis, axis: Axis) -> BandedMatrix:
    """The matrix ψ(positions of an axis), (N, K), in float64 without the nodes out of reach."""
    x, nodes = axis.points(torch.float64), encoder.nodes

    def block(first: int, last: int) -> Block:
        low, high = (axis.start + i * axis.spacing for i in (first, last - 1))
        left = math.floor((low - encoder.support - nodes.start) / nodes.spacing)
        right = math.ceil((high + encoder.support - nodes.start) / nodes.spacing) + 1
        left = min(max(left, 0), nodes.count - 1)
        columns = slice(left, min(max(right, left + 1), nodes.count))
        return Block(first, left, encoder.forward_part(x[first:last], columns))

    return BandedMatrix.build((axis.count, nodes.count), block)


def axis_windows(encoder: Encoder, axis: Axis) -> BandedMatrix | None:
    """The design of an axis as windows where that is faster than the dense matrix; else None.

    On the CPU, whatever device the encoder is on: many small blocks cost a GPU more to launch than a processor to make.
    """
    if not isinstance(encoder, ShiftedBasis) or min(axis.count, encoder.columns) < CROSSOVER:
        return None
    reach = 2 * encoder.support / encoder.nodes.spacing  # columns a row
    if reach > MOST * encoder.columns:
        return None
    design = local_design(copy.deepcopy(encoder).cpu() if encoder.state_dict() else encoder, axis)
    return design if design.density <= MOST else None


def axis_operators(
    encoding: ComplexEncoding,
    axes: Axes,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> list[Matrix]:
    """The designs of a lattice, as windows where that is faster; equal axes share one, and later calls.

    They are computed in float64: at position 1 the rounding of float32 is 1e-4 of the spacing of 2048 samples.
    """
    pairs = list(zip(encoding.axis_encoders, axes, strict=True))
    return for_each_distinct(pairs, lambda pair: _axis_operator(*pair, dtype, device), same_design)


def same_design(a: tuple[Encoder, Axis], b: tuple[Encoder, Axis]) -> bool:
    """Whether two encoders have the same design on their axes."""
    (first, axis), (second, other) = a, b
    if axis != other or type(first) is not type(second) or first.configuration() != second.configuration():
        return False
    p, q = list(_tensors(first)), list(_tensors(second))
    return len(p) == len(q) and all(
        x is y or (not x.requires_grad and not y.requires_grad and x.shape == y.shape and torch.equal(x, y))
        for x, y in zip(p, q, strict=True)
    )


def _axis_operator(encoder: Encoder, axis: Axis, dtype: torch.dtype, device: torch.device | str) -> Matrix:
    """The design of one axis, made."""
    windows = None if any(is_tracked(t) for t in _tensors(encoder)) else axis_windows(encoder, axis)
    if windows is None:
        tracked = any(is_tracked(t) for t in _tensors(encoder))
        return encoder(axis.points(dtype if tracked else torch.float64, device)).to(dtype)
    return windows.to(device, dtype)


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    """Parameters, buffers, and tensors that are plain attributes."""
    yield from module.parameters()
    yield from module.buffers()
    for part in module.modules():
        yield from (value for value in vars(part).values() if isinstance(value, Tensor))


def pseudo_inverse(design: BandedMatrix, dtype: torch.dtype) -> tuple[BandedMatrix, float] | None:
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
    solved = inverse(_product(transpose, design) if tall else _product(design, transpose), tolerance)
    if solved is None:
        return None
    made = (_product(solved, transpose) if tall else _product(transpose, solved)).trimmed(tolerance)
    norms = (design.infinity_norm(), transpose.infinity_norm(), made.infinity_norm(), made.mT.infinity_norm())
    condition = math.sqrt(math.prod(norms))
    return None if condition > LARGEST_CONDITION else (made, condition)


def _product(a: BandedMatrix, b: BandedMatrix) -> BandedMatrix:
    product = a.fused(b)
    assert product is not None
    return product


def separable_inverse(
    encoding: ComplexEncoding,
    axes: Axes,
    *,
    rcond: float | None = None,
    warn: bool = True,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> list[Matrix] | None:
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
        BandedMatrix in float64, or dense matrices for axes that are short or not local. None where no axis is faster as
        windows, or a singular value of the Kronecker matrix would be cut: the dense path is for that.

    Warns
    -----
    RankWarning
        Where a band is too near to singular for its normal matrix to be factorised.
    """
    encoders = encoding.axis_encoders
    pairs = list(zip(encoders, axes, strict=True))
    designs = [axis_windows(e, a) for e, a in zip(encoders, axes, strict=True)]
    if all(design is None for design in designs):
        return None
    made: list[tuple[Matrix, float] | None] = []
    for j, design in enumerate(designs):
        first = next((i for i in range(j) if same_design(pairs[i], pairs[j])), None)
        if first is not None:
            made.append(made[first])
        elif design is not None:
            solved = pseudo_inverse(design, dtype)
            made.append(None if solved is None else (solved[0].to(device), solved[1]))
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
) -> tuple[Matrix, float] | None:
    design = encoder(axis.points(torch.float64, device))
    factor = factorize(design, default_rcond(design.shape, dtype))
    if factor.rank < min(design.shape):
        return None
    return factor.pseudo_inverse, float(factor.s[0] / factor.s[-1])


def _warn_of_band(singular: bool, axis: int) -> None:
    if singular:
        warnings.warn(
            f"the band of axis {axis} is singular or nearly so; its dense matrix is factorised instead",
            RankWarning,
            stacklevel=5,
        )
