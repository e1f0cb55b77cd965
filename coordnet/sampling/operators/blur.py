"""Blurs: convolutions of a lattice signal with a point spread function."""

from typing import Literal, cast

import torch
from jaxtyping import Float, Int
from scipy.fft import next_fast_len
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.operators import LinearOperator, Shape
from coordnet.sampling.arrays import FLOATS, Array, as_tensor

Border = Literal["reflect", "periodic", "zero", "valid"]


class Blur(LinearOperator):
    """The convolution of a signal with a point spread function h: (A x)_i = Σ_j h_j x_(i + c - j), c = ⌊(k - 1)/2⌋.

    The result has the signal's grid, as that of ``scipy.signal.convolve(..., mode="same")``.

    Parameters
    ----------
    psf : NumPy array or tensor, (*k)
        The point spread function, with as many axes as the grid; its sum is 1 for a blur that keeps brightness.
    grid : tuple of int
        The lengths of the signal.
    border : str
        The signal beyond its border: its mirror image ("reflect", the last sample repeated), the opposite side
        ("periodic"), or zeros ("zero"). With "valid" nothing is assumed: the signal is longer than the result by k - 1
        along each axis, as the scene before a camera is.

    Raises
    ------
    ValueError
        If the point spread function has no finite floating-point numbers, another number of axes, or a greater length
        than the grid, the grid is no lengths, or the border is unknown.
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

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Blur":
        """Return the operator on another device, or for tensors of another dtype."""
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
