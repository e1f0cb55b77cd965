"""Samples in Fourier space, as magnetic resonance imaging takes them."""

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.operators import LinearOperator
from coordnet.sampling.arrays import Array, as_mask


class FourierSamples(LinearOperator):
    """Some coefficients of the orthonormal discrete Fourier transform, as pairs of a real and an imaginary part.

    The mask has the signal's grid and is not zero at the frequencies that are measured, in the order of
    ``numpy.fft.fftn``: the mean comes first. The result is (n, 2) for n frequencies in the mask's order. A mask that is
    zero everywhere raises a ``ValueError``.
    """

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
        found = torch.fft.ifftn(spectrum.reshape(*y.shape[:-2], *self.domain), dim=self._axes, norm="ortho")
        return found.real.contiguous()

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "FourierSamples":
        """Return the operator on another device; it has no numbers of a dtype."""
        return FourierSamples(self.mask.to(device))
