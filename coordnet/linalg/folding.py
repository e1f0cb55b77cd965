"""The modes of pixels that fit modes of means over cells with the least roughness, without iteration."""

import copy
import math

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.linalg.kronecker import outer_product
from coordnet.linalg.operators import LinearOperator

SMALLEST_DIVISOR = 1e-150  # lower bound of what roughness and sines divide by; its square is above zero


class Folding(LinearOperator):
    """The solution z of min Σ |Y_l - Σ_{k → l} d_k z_k|² + λ Σ r_k z_k² for the cosine modes z of pixels.

    Y are the cosine modes of the means over cells of s pixels, M = N / s along an axis. The mode k = 2Mj ± l of the
    pixels folds onto l with d_k = (-1)^j g_k n_k / n_l, where g_k = sin(πks / 2N) / (s sin(πk / 2N)), g_0 = 1, and n
    are the scales of the orthonormal transforms; l = M is invisible. In several axes d is the product over them. The
    systems of different l do not meet, and each has rank one:
    z_k = (d_k / r_k) Y_l / (λ + Σ_{k' → l} d²_{k'} / r_{k'}).
    """

    def __init__(self, cells: tuple[int, ...], roughness: Float[Tensor, "*pixels"], strength: float) -> None:
        self.codomain = tuple(roughness.shape)
        self.domain = tuple(n // cell for n, cell in zip(self.codomain, cells, strict=True))
        folds = [_fold(n, m) for n, m in zip(self.codomain, self.domain, strict=True)]
        self.index = [index.to(roughness.device) for index, _ in folds]
        d = outer_product([factor.to(roughness.device) for _, factor in folds])
        numerator = d / roughness.double().clamp(min=SMALLEST_DIVISOR)
        self.gain = numerator / self._unfolded(strength + self._folded(d * numerator))

    def _write(self, x: Tensor, out: Tensor | None) -> Float[Tensor, "*signals_pixels"]:
        return torch.mul(self._unfolded(x), self.gain, out=out)

    def _apply_adjoint(self, y: Tensor) -> Float[Tensor, "*signals_cells"]:
        return self._folded(self.gain * y)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Folding":
        other = copy.copy(self)
        other.index = [index.to(device) for index in self.index]
        other.gain = self.gain.to(device=device, dtype=dtype)
        return other

    def _unfolded(self, x: Tensor) -> Tensor:
        for axis, index in enumerate(self.index, -len(self.index)):
            x = x.index_select(axis, index)
        return x

    def _folded(self, y: Tensor) -> Tensor:
        for axis, (index, length) in enumerate(zip(self.index, self.domain, strict=True), -len(self.index)):
            shape = list(y.shape)
            shape[axis] = length
            y = y.new_zeros(shape).index_add_(y.ndim + axis, index, y)
        return y


def _fold(pixels: int, cells: int) -> tuple[Tensor, Float[Tensor, " n"]]:
    """Return the mode l of the means onto which each mode of the pixels folds along one axis, and d."""
    k, size = torch.arange(pixels, dtype=torch.float64), pixels // cells
    turn = torch.div(k + cells, 2 * cells, rounding_mode="floor")
    index = (k - 2 * cells * turn).abs().long()
    half = math.pi / 2 * k / pixels
    means = torch.where(k == 0, 1.0, (size * half).sin() / (size * half.sin()).clamp(min=SMALLEST_DIVISOR))
    scale = torch.where((index == 0) & (k > 0), math.sqrt(2 / size), math.sqrt(1 / size))
    visible = index < cells
    return torch.where(visible, index, 0), torch.where(visible, (1 - 2 * (turn % 2)) * means * scale, 0.0)
