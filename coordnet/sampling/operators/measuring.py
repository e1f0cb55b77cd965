"""The linear maps by which instruments measure: blurs, slopes, Fourier coefficients and projections."""

import math
from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import sparse
from scipy.fft import next_fast_len
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.operators import Device, LinearOperator, Shape
from coordnet.sampling.arrays import FLOATS, Array, as_mask, as_tensor
from coordnet.sampling.operators.foreign import SparseMatrix

Border = Literal["reflect", "periodic", "zero", "valid"]


class Blur(LinearOperator):
    """The convolution of a signal with a point spread function h: (A x)_i = Σ_j h_j x_(i + c - j), c = ⌊(k - 1)/2⌋.

    The result has the signal's grid, as that of ``scipy.signal.convolve(..., mode="same")``.

    Parameters
    ----------
    psf : NumPy array or tensor, (*k)
        The point spread function, finite and no longer than the grid along any axis. Its sum is 1 for a blur that keeps
        brightness.
    grid : tuple of int
        The lengths of the signal.
    border : str
        The signal beyond its border: its mirror image ("reflect", the last sample repeated), the opposite side
        ("periodic"), or zeros ("zero"). With "valid" nothing is assumed: the signal is longer than the result by k - 1
        along each axis, as the scene before a camera is. Arguments that do not fit raise a ``ValueError``.
    """

    def __init__(self, psf: Array, grid: Shape, border: Border = "reflect") -> None:
        _checks.choice("border", border, ("reflect", "periodic", "zero", "valid"))
        grid = _checks.lengths("grid", grid)
        self.psf = as_tensor(psf, "psf")
        self.border: Border = border
        if self.psf.dtype not in FLOATS or not bool(torch.isfinite(self.psf).all()):
            raise _checks.wrong("psf", "finite numbers of float32 or float64", f"others of {self.psf.dtype}")
        lengths = tuple(self.psf.shape)
        if len(lengths) != len(grid) or any(not 0 < k <= n for k, n in zip(lengths, grid, strict=True)):
            raise _checks.wrong("psf", f"at most the lengths {grid} of the grid", f"shape {lengths}")
        self.domain = grid
        pairs = list(zip(self.domain, lengths, strict=True))
        self.codomain = tuple(n - k + 1 for n, k in pairs) if border == "valid" else self.domain
        self._extended = self.domain if border == "valid" else tuple(n + k - 1 for n, k in pairs)
        self._lengths = tuple(cast(int, next_fast_len(n, True)) for n in self._extended)
        self._axes = tuple(range(-len(grid), 0))
        self._inside = (..., *(slice(k - 1, n) for n, k in zip(self._extended, lengths, strict=True)))
        self._transfer = torch.fft.rfftn(self.psf, s=self._lengths)

    def _apply(self, x: Tensor) -> Float[Tensor, "*batch_codomain"]:
        if self.border != "valid":
            for axis in self._axes:
                index, kept = self._source(axis, x)
                x = x.index_select(axis, index) * kept
        return self._filter(x, self._transfer)[self._inside]

    def _apply_adjoint(self, y: Tensor) -> Float[Tensor, "*batch_domain"]:
        """Return the correlation, with what falls beyond the border added to where it came from."""
        x = y.new_zeros(*y.shape[: y.ndim - len(self.codomain)], *self._extended)
        x[self._inside] = y
        x = self._filter(x, self._transfer.conj())[(..., *(slice(0, n) for n in self._extended))]
        if self.border != "valid":
            for axis in self._axes:
                index, kept = self._source(axis, x)
                shape = list(x.shape)
                shape[axis] = self.domain[axis]
                x = x.new_zeros(shape).index_add(axis, index, x * kept)
        return x

    def to(self, device: Device | None = None, dtype: torch.dtype | None = None) -> "Blur":
        return Blur(self.psf.to(device=device, dtype=dtype), self.domain, self.border)

    def _filter(self, x: Tensor, transfer: Tensor) -> Tensor:
        spectrum = torch.fft.rfftn(x, s=self._lengths, dim=self._axes)
        return torch.fft.irfftn(spectrum * transfer.to(spectrum), s=self._lengths, dim=self._axes)

    def _source(self, axis: int, like: Tensor) -> tuple[Int[Tensor, " longer"], Tensor]:
        """Return where the samples of the extended axis come from, and 1 for each, or 0 where there is none."""
        n, before = self.domain[axis], self.psf.shape[axis] // 2
        i = torch.arange(-before, self._extended[axis] - before, device=like.device)
        inside = (i >= 0) & (i < n)
        kept = inside | (torch.ones_like(inside) if self.border != "zero" else inside)
        mirrored = torch.minimum(i.remainder(2 * n), (-1 - i).remainder(2 * n))
        index = mirrored if self.border == "reflect" else i.remainder(n)
        return index, kept.to(like).reshape(-1, *(1,) * (-1 - axis))


class Derivatives(LinearOperator):
    """The differences f_(i+1) - f_i along each axis, (axes, *grid), for a signal that is to be found from its slopes.

    The last difference of an axis has no neighbor and is 0, in the operator as in its values. They leave the signal's
    mean open, which a fit sets to 0. A grid without axes raises a ``ValueError``.
    """

    is_portable = True

    def __init__(self, grid: Shape) -> None:
        grid = _checks.lengths("grid", grid)
        self.domain, self.codomain = grid, (len(grid), *grid)

    def _apply(self, x: Tensor) -> Float[Tensor, "*batch_d_grid"]:
        dims = len(self.domain)
        parts = [torch.diff(x, dim=j, append=x.narrow(j, self.domain[j] - 1, 1)) for j in range(-dims, 0)]
        return torch.stack(parts, -dims - 1)

    def _apply_adjoint(self, y: Float[Tensor, "*batch_d_grid"]) -> Float[Tensor, "*batch_grid"]:
        """Return the negative divergence."""
        dims = len(self.domain)
        result = torch.zeros_like(y.select(-dims - 1, 0))
        for axis, part in zip(range(-dims, 0), y.unbind(-dims - 1), strict=True):
            inner = part.narrow(axis, 0, self.domain[axis] - 1)
            zero = torch.zeros_like(part.narrow(axis, 0, 1))
            result = result - torch.diff(torch.cat([zero, inner, zero], axis), dim=axis)
        return result


class FourierSamples(LinearOperator):
    """Some coefficients of the orthonormal discrete Fourier transform, as pairs of a real and an imaginary part.

    The mask has the signal's grid and is not zero at the frequencies that are measured, in the order of
    ``numpy.fft.fftn``: the mean comes first. The result is (n, 2) for n frequencies in the mask's order. A mask that is
    zero everywhere raises a ``ValueError``.
    """

    is_portable = True

    def __init__(self, mask: Array) -> None:
        known = as_mask(mask) != 0
        if not bool(known.any()):
            raise _checks.wrong("mask", "at least one frequency that is measured", "none")
        self.mask, self.domain = known, tuple(known.shape)
        self._index = known.flatten().nonzero().squeeze(1)
        self.codomain = (len(self._index), 2)
        self._axes = tuple(range(-known.ndim, 0))

    def _apply(self, x: Tensor) -> Float[Tensor, "*batch n 2"]:
        spectrum = torch.fft.fftn(x, dim=self._axes, norm="ortho").flatten(x.ndim - len(self.domain))
        return torch.view_as_real(spectrum.index_select(-1, self._index))

    def _apply_adjoint(self, y: Float[Tensor, "*batch n 2"]) -> Tensor:
        """Return the real part of the inverse transform, with zeros where nothing was measured."""
        known = torch.view_as_complex(y.contiguous())
        spectrum = known.new_zeros(*y.shape[:-2], self.mask.numel()).index_copy(-1, self._index, known)
        picture = torch.fft.ifftn(spectrum.reshape(*y.shape[:-2], *self.domain), dim=self._axes, norm="ortho")
        return picture.real.contiguous()


class Projections(LinearOperator):
    """Line integrals of a picture along parallel rays, in units of the pixels' spacing.

    A ray steps through the rows or the columns, those it meets more steeply, with linear interpolation between two
    pixels (Joseph, 1982). A pixel's footprint on the detectors is then a triangle of area 1 and half-width
    m = max(|cos θ|, |sin θ|). A pixel in row r and column c from the middle ones, h // 2 and w // 2, is projected to
    the position c cos θ - r sin θ, from the middle detector, detectors // 2: the geometry of scikit-image's ``radon``
    with ``circle=False``. Of more than two axes the last two are the picture's; the others are slices.

    Parameters
    ----------
    angles : sequence of numbers
        The angles θ of the projections, in degrees.
    grid : tuple of int
        The lengths of the signal.
    detectors : int, optional
        The number of rays of each projection, one pixel's spacing apart; by default ⌈√2 max(h, w)⌉, which see all. A
        ``ValueError`` is raised if it is below 1, no angle is given, one is not finite, or the grid has one axis alone.

    Notes
    -----
    The codomain is (*slices, detectors, angles). P. M. Joseph, "An improved algorithm for reprojecting rays through
    pixel images" (IEEE Transactions on Medical Imaging, 1982).
    """

    is_portable = True
    views = -1

    def __init__(self, angles: Sequence[float | int] | np.ndarray, grid: Shape, detectors: int | None = None) -> None:
        degrees = np.asarray(angles)
        if degrees.ndim != 1 or degrees.dtype.kind not in "iuf" or not len(degrees) or not np.isfinite(degrees).all():
            raise _checks.wrong("angles", "finite numbers of degrees, at least one", np.array2string(degrees))
        grid = _checks.lengths("grid", grid, fewest=2)
        plane = grid[-2], grid[-1]
        count = math.ceil(math.sqrt(2) * max(plane)) if detectors is None else detectors
        shape = (_checks.integer("detectors", count, 1), len(degrees))
        self._on_plane = SparseMatrix(_joseph(np.deg2rad(degrees.astype(np.float64)), plane, shape), plane, shape)
        self.domain, self.codomain = grid, (*grid[:-2], *shape)

    def _apply(self, x: Tensor) -> Float[Tensor, "*batch_codomain"]:
        return self._on_plane(x)

    def _apply_adjoint(self, y: Tensor) -> Float[Tensor, "*batch_domain"]:
        """Return the back-projection, without a filter."""
        return self._on_plane.adjoint(y)


def _joseph(angles: np.ndarray, plane: tuple[int, int], shape: tuple[int, int]) -> sparse.csr_array:
    """Return the matrix from the pixels, row by row, to detectors × angles: each pixel reaches two rays at an angle."""
    height, width = plane
    detectors, count = shape
    row, column = np.mgrid[:height, :width].reshape(2, -1).astype(np.float64)
    rays, pixels, entries = [], [], []
    for a, angle in enumerate(angles):
        cos, sin = math.cos(angle), math.sin(angle)
        half = max(abs(cos), abs(sin))
        position = (column - width // 2) * cos - (row - height // 2) * sin + detectors // 2
        for neighbor in (0, 1):
            detector = np.floor(position) + neighbor
            entry = np.maximum(0, 1 - np.abs(detector - position) / half) / half
            kept = (entry > 0) & (detector >= 0) & (detector < detectors)
            rays.append(detector[kept].astype(np.int64) * count + a)
            pixels.append(np.flatnonzero(kept))
            entries.append(entry[kept])
    index = (np.concatenate(rays), np.concatenate(pixels))
    return sparse.csr_array((np.concatenate(entries), index), shape=(detectors * count, height * width))
