"""The Fourier encoding of a padded lattice, whose factors are complex exponentials and whose products are FFTs."""

from dataclasses import asdict
from functools import reduce
from typing import Any, cast

import torch
from jaxtyping import Complex, Float
from scipy.fft import next_fast_len
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.encoding import Encoding, rows_of_products
from coordnet.sampling.axes import Axes
from coordnet.sampling.samples import Geometry, Samples


class FourierEncoding(Encoding):
    """Ψ(x) = exp(2πi k₁u₁) ⊗ … ⊗ exp(2πi k_d u_d) at the integer frequencies of a padded lattice.

    The position in periods is u_j = (x_j - start_j) / (P_j spacing_j), with the padded lengths P_j of ``shape``. The
    factor of the highest frequency of an even P_j is its cosine, so that real lattices have real interpolants. This is
    the ``DFT`` encoding on every axis, with FFTs instead of its matrices. On axes of cells a feature of frequency f is
    divided by sinc(f width), so that its means over the cells are the DFT's. A ``ValueError`` is raised if a padded
    length is below the length of its axis, or positions are not equally spaced.
    """

    kind = "fourier"
    is_factored = signed = True

    def __init__(self, axes: Axes, shape: tuple[int, ...]) -> None:
        super().__init__()
        for axis, length in zip(axes, shape, strict=True):
            if axis.even is not axis:
                expected = "one of a single axis such as cn.Gaussian, at unequal coordinates"
                raise _checks.wrong("encoder", expected, "fourier")
            _checks.integer("shape", length, axis.count)
        self.axes, self.shape, self.dimensions = tuple(axes), tuple(shape), len(axes)

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Return the real features of points: the weights of the nodes in the Fourier series through their values.

        They are Π_j (1/P_j) Σ_k exp(2πi k (u_j - n_j/P_j)) for node n, so that ``features @ weight.flatten()`` is the
        series whose values at the nodes are the weight. See ``Encoding.forward`` for what is raised.
        """
        kernels = [torch.fft.fft(factor, norm="forward").real for factor in self.factors(points)]
        return reduce(rows_of_products, kernels)

    def _factors(self, points: Tensor) -> list[Tensor]:
        dtype = torch.promote_types(points.dtype, torch.complex64)
        return [self.factor(j, x).to(dtype) for j, x in enumerate(points.unbind(-1))]

    def factor(self, j: int, x: Float[Tensor, "*points"]) -> Complex[Tensor, "*points p"]:
        """Return the complex factors of axis j at positions, computed in float64."""
        axis, length = self.axes[j], self.shape[j]
        k = torch.fft.fftfreq(length, 1 / length, dtype=torch.float64, device=x.device)
        periods = (x.double() - axis.start) / (axis.spacing * length)
        phase = 2 * torch.pi * (periods.unsqueeze(-1) * k)
        imaginary = phase.sin() * (2 * k.abs() != length)
        return torch.complex(phase.cos(), imaginary) / torch.sinc(k * axis.width / (axis.spacing * length))

    def extra_repr(self) -> str:
        """Return the padded lengths, for ``repr``."""
        return f"shape={self.shape}"

    @classmethod
    def like(cls, samples: Samples | Geometry, *, padding: int | None = None) -> "FourierEncoding":
        """Return the encoding of some samples' lattice; see ``on`` for the padding.

        Samples at unequal coordinates are fitted by blending between as many nodes, equally spaced.
        """
        return cls.on(tuple(axis.even for axis in samples.axes), padding=padding)

    @classmethod
    def on(cls, axes: Axes, *, padding: int | None = None) -> "FourierEncoding":
        """Return the encoding of a lattice with at least ``padding`` nodes beyond it on every axis.

        The padded lengths are those for which FFTs are fast; a single sample is not padded. The default is 16 nodes,
        6 in three and four dimensions, where they cost more, and 2 in others.
        """
        usual = 16 if len(axes) <= 2 else 6 if len(axes) <= 4 else 2
        padding = usual if padding is None else _checks.integer("padding", padding, 0)
        lengths = (a.count if a.count == 1 or a.periodic else next_fast_len(a.count + padding, True) for a in axes)
        return cls(axes, tuple(cast(int, length) for length in lengths))

    def for_lattice(self, axes: Axes) -> "FourierEncoding":
        """Return the encoding of another lattice with the default padding."""
        return FourierEncoding.on(axes)

    def _arguments(self) -> dict[str, Any]:
        return {"axes": [asdict(axis) for axis in self.axes], "shape": list(self.shape)}
