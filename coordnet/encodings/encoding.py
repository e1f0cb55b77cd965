"""What every encoding is, a layer from points to features, and the Fourier encoding, whose products are FFTs."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import reduce
from typing import Any, ClassVar, TypeVar, cast

import torch
from jaxtyping import Complex, Float, Shaped
from scipy.fft import next_fast_len
from scipy.ndimage import distance_transform_cdt
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders import Encoder
from coordnet.linalg.operators import Device
from coordnet.sampling.axes import Axes, lattice_points
from coordnet.sampling.samples import Geometry, Samples

M = TypeVar("M", bound=nn.Module)
# Nodes beyond the borders of rows and pictures for each node of the deepest gap that is open to a border, up to the
# length of the shorter side. Across fewer nodes the opposite border shows: on 23 pictures from Python packages that
# lack a corner, a half, or a torn, a slanted or a wavy border, 4 reach 0.2 to 1.2 dB more than ``PADDING``, 1 and 2
# less than 4; single pictures lose up to 1 dB.
BEYOND_GAP = 4
PADDING = 16  # nodes beyond rows and pictures without such gaps


class Encoding(nn.Module):
    """A layer that maps points in [0, 1)^d, (…, d), to features, (…, K), as ``nn.Linear(encoding.features, …)`` takes.

    The features of a factored encoding are the Kronecker product of one factor per axis, K = K₁ ⋯ K_d, the first axis
    slowest. ``CoordinateNetwork`` works with the ``factors`` alone: 512 features for each of two axes are 262,144.
    """

    kind: ClassVar[str]  # the name in configurations
    is_factored: ClassVar[bool] = False  # whether the features are the Kronecker product of one factor per axis
    signed: ClassVar[bool] = False  # whether the modes of the features are signed frequencies
    dimensions: int  # d
    shape: tuple[int, ...]  # (K,) where the features are one row, (K₁, …, K_d) where they are a Kronecker product

    @property
    def features(self) -> int:
        """K, the number of features of a point."""
        return math.prod(self.shape)

    @property
    def axis_encoders(self) -> list[Encoder]:
        """The encoders, one for each axis or direction; empty if the encoding is not composed of them."""
        return []

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Return the features of points in units of the unit interval.

        A ``ValueError`` is raised if the last axis of the points does not hold d coordinates.
        """
        return reduce(rows_of_products, self.factors(points))

    def factors(self, points: Float[Tensor, "*points d"]) -> list[Shaped[Tensor, "*points _"]]:
        """Return the factors whose Kronecker product the features are, (…, K_j) for each axis, or one (…, K)."""
        _checks.coordinates("points", points.shape, self.dimensions)
        return self._factors(points)

    def _factors(self, points: Tensor) -> list[Tensor]:
        raise NotImplementedError(f"{type(self).__name__} defines neither _factors nor forward")

    def for_lattice(self, axes: Axes) -> "Encoding":
        """Return the same kind of encoding for another lattice; the object itself if it does not depend on one."""
        return self

    def matrices(
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: Device = "cpu"
    ) -> list[Float[Tensor, "_ _"]]:
        """The factors of the encoding matrix on a lattice: (N_j, K_j) for each axis, or one (N, K).

        A Fourier encoding, which computes FFTs instead, raises a ``ValueError``.
        """
        received = "a Fourier encoding without a spectrum, which computes FFTs"
        raise _checks.wrong("encoding", "one with matrices, or a learned spectrum", received)

    def configuration(self) -> dict[str, Any]:
        """The kind and the arguments as JSON values, from which ``encoding_from`` constructs the encoding again."""
        return {"kind": self.kind, **self._arguments()}

    def _arguments(self) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__} defines neither _arguments nor configuration")


def rows_of_products(left: Shaped[Tensor, "*points a"], right: Shaped[Tensor, "*points b"]) -> Tensor:
    """The Kronecker products of corresponding rows, (…, a b)."""
    return (left.unsqueeze(-1) * right.unsqueeze(-2)).flatten(-2)


class DenseEncoding(Encoding):
    """An encoding whose features at a point are one row, without factors."""

    def _factors(self, points: Tensor) -> list[Tensor]:
        return [self._features(points)]

    def _features(self, points: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} defines neither _features nor forward")

    def matrices(
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: Device = "cpu"
    ) -> list[Float[Tensor, "n k"]]:
        """A list of one matrix: the encoding matrix (N, K) on a lattice."""
        return [self(lattice_points(axes, dtype, device).flatten(0, -2))]


def duplicate(module: M) -> M:
    """Return a copy of a module with tensors of its own, to which no gradient flows, and the same other attributes.

    A plan gives one to each of its fits. A module that is in two places has a copy in each.
    """
    copied = type(module).__new__(type(module))
    parts = {name: None if part is None else duplicate(part) for name, part in module._modules.items()}
    own = {"_modules": parts, "_parameters": _copies(module._parameters), "_buffers": _copies(module._buffers)}
    copied.__dict__.update(module.__dict__ | own)
    return copied


def _copies(tensors: Mapping[str, Tensor | None]) -> dict[str, Tensor | None]:
    copies = {name: None if tensor is None else tensor.detach().clone() for name, tensor in tensors.items()}
    fixed = {"requires_grad": False}
    return {k: nn.Parameter(c, **fixed) if isinstance(tensors[k], nn.Parameter) else c for k, c in copies.items()}  # type: ignore[arg-type]


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

        Samples at unequal coordinates are fitted by blending between as many nodes, equally spaced. Beyond rows and
        pictures that are unknown at a border there are ``BEYOND_GAP`` times as many nodes as the gap is deep.
        """
        geometry = samples.geometry if isinstance(samples, Samples) else samples
        if padding is None and len(geometry.grid) <= 2 and geometry.is_nodal and geometry.weights is not None:
            padding = max(PADDING, min(BEYOND_GAP * _depth_at_border(geometry.weights), *geometry.grid))
        return cls.on(tuple(axis.even for axis in samples.axes), padding=padding)

    @classmethod
    def on(cls, axes: Axes, *, padding: int | None = None) -> "FourierEncoding":
        """Return the encoding of a lattice with at least ``padding`` nodes beyond it on every axis.

        The padded lengths are those for which FFTs are fast; a single sample is not padded. The default is 16 nodes,
        6 in three and four dimensions, where they cost more, and 2 in others.
        """
        usual = PADDING if len(axes) <= 2 else 6 if len(axes) <= 4 else 2
        padding = usual if padding is None else _checks.integer("padding", padding, 0)
        lengths = (a.count if a.count == 1 or a.periodic else next_fast_len(a.count + padding, True) for a in axes)
        return cls(axes, tuple(cast(int, length) for length in lengths))

    def for_lattice(self, axes: Axes) -> "FourierEncoding":
        """Return the encoding of another lattice with the default padding."""
        return FourierEncoding.on(axes)

    def _arguments(self) -> dict[str, Any]:
        return {"axes": [asdict(axis) for axis in self.axes], "shape": list(self.shape)}


def _depth_at_border(weights: Float[Tensor, "*lattice channels"]) -> int:
    """Return the greatest distance of a border's nodes from a known one, in steps along axes and diagonals."""
    depths: Any = distance_transform_cdt((weights <= 0).all(-1).cpu().numpy(), "chessboard")
    return max(int(depths.take((0, -1), axis).max()) for axis in range(depths.ndim))
