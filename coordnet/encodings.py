"""Encodings of d-dimensional points: simple (concatenated) and complex (Kronecker)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float
from scipy.fft import next_fast_len
from torch import Tensor, nn

from coordnet import _checks
from coordnet.coordinates import Axes, Axis
from coordnet.encoders import (
    ENCODERS,
    Encoder,
    FeatureMap,
    JointEncoder,
    JointRandomFourier,
    RandomFourier,
    ShiftedBasis,
)
from coordnet.samples import Geometry, Samples

F = TypeVar("F", Encoder, JointEncoder)


class Encoding(nn.Module, ABC):
    """A map of points in [0, 1)^d to features.

    Attributes
    ----------
    dimensions : int
        d.
    shape : tuple of int
        The number of features: (K,) where they are one row, (K₁, …, K_d) where they are a Kronecker product.
    """

    dimensions: int
    shape: tuple[int, ...]

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """What ``encoding_from`` needs to construct it again, as JSON holds it."""


class DenseEncoding(Encoding):
    """An encoding whose features at a point are one row: ``encoding(points)`` is (…, K)."""

    @abstractmethod
    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Features of points in units of the unit interval."""


class SimpleEncoding(DenseEncoding):
    """Ψ(x) = [ψ₁(x₁) … ψ_d(x_d)], the concatenation.

    Parameters
    ----------
    encoders : sequence of Encoder
        One an axis.

    Notes
    -----
    A linear head on it gives images of rank at most 2 (Zheng et al., ECCV 2022, section 5).
    """

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(_encoders(encoders))
        self.dimensions = len(encoders)
        self.shape = (sum(e.columns for e in encoders),)

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Features of points in units of the unit interval."""
        parts = zip(self.encoders, points.unbind(-1), strict=True)
        return torch.cat([encoder(x) for encoder, x in parts], dim=-1)

    @classmethod
    def like(
        cls, encoder: type[Encoder] | type[JointEncoder], samples: Samples | Geometry, **options: Any
    ) -> DenseEncoding:
        """Return the simple encoding that suits some samples; see ``Encoder.like`` for the options.

        Random Fourier features are drawn in d dimensions, as a joint map; other encoders of one axis are
        concatenated, with ``features`` for each axis; joint encoders are taken as they are.
        """
        axes = _axes(samples)
        if encoder is RandomFourier:
            encoder = JointRandomFourier
        if issubclass(encoder, JointEncoder):
            return JointEncoding(encoder.like(axes, **options))
        return cls([encoder.like(axis, **options) for axis in axes])

    def configuration(self) -> dict[str, Any]:
        """What ``encoding_from`` needs to construct it again."""
        return {"kind": "simple", "encoders": [_describe(e) for e in self.encoders]}


class DirectionalEncoding(DenseEncoding):
    """ψ of x, y, (x + y) / 2 and (x - y + 1) / 2: four directions of the plane, for shifted bases.

    Parameters
    ----------
    encoders : sequence of Encoder
        Four, one a direction; Zheng et al. (ECCV 2022) give a quarter of the features to each.

    Raises
    ------
    ValueError
        If there are not four of them.
    """

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__()
        if len(encoders) != 4:
            raise _checks.wrong("encoders", "four, one a direction", len(encoders))
        self.encoders = nn.ModuleList(_encoders(encoders))
        self.dimensions = 2
        self.shape = (sum(e.columns for e in encoders),)

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Features of points in units of the unit interval."""
        x, y = points.unbind(-1)
        directions = (x, y, (x + y) / 2, (x - y + 1) / 2)
        return torch.cat([e(t) for e, t in zip(self.encoders, directions, strict=True)], dim=-1)

    @classmethod
    def like(
        cls, encoder: type[Encoder], samples: Samples | Geometry, *, features: int, **options: Any
    ) -> "DirectionalEncoding":
        """Return the encoding with ``features`` in all, a quarter a direction.

        Raises
        ------
        ValueError
            If ``features`` is no multiple of four, the samples are not of two dimensions, or the encoder is no
            shifted basis.
        """
        if _checks.integer("features", features, 4) % 4:
            raise _checks.wrong("features", "a multiple of four", features)
        axes = _axes(samples)
        if len(axes) != 2 or not issubclass(encoder, ShiftedBasis):
            raise _checks.wrong(
                "encoder", "a shifted basis in two dimensions", f"{encoder.name} in {len(axes)}"
            )
        unit = Axis(max(axis.count for axis in axes))
        one = encoder.like(unit, features=features // 4, **options)
        return cls([one, *(encoder.like(unit, features=features // 4, **options) for _ in range(3))])

    def configuration(self) -> dict[str, Any]:
        """What ``encoding_from`` needs to construct it again."""
        return {"kind": "directional", "encoders": [_describe(e) for e in self.encoders]}


class JointEncoding(DenseEncoding):
    """Ψ(x) = ψ(x) of a joint encoder.

    Parameters
    ----------
    encoder : JointEncoder
        The encoder.
    """

    def __init__(self, encoder: JointEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.dimensions = encoder.dimensions
        self.shape = (encoder.columns,)

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Features of points in units of the unit interval."""
        return self.encoder(points)

    def configuration(self) -> dict[str, Any]:
        """What ``encoding_from`` needs to construct it again."""
        return {"kind": "joint", "encoder": _describe(self.encoder)}


class ComplexEncoding(Encoding):
    """Ψ(x) = ψ₁(x₁) ⊗ … ⊗ ψ_d(x_d), kept as its factors.

    Parameters
    ----------
    encoders : sequence of Encoder
        One an axis; they may differ.
    """

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(_encoders(encoders))
        self.dimensions = len(encoders)
        self.shape = tuple(e.columns for e in encoders)

    def forward(self, points: Float[Tensor, "*points d"]) -> list[Float[Tensor, "*points _"]]:
        """Return the factors ψ_j(x_j) of every point, (…, K_j) an axis; their product is never formed."""
        return [encoder(x) for encoder, x in zip(self.encoders, points.unbind(-1), strict=True)]

    @property
    def axis_encoders(self) -> list[Encoder]:
        """The encoders, one an axis."""
        return [encoder for encoder in self.encoders if isinstance(encoder, Encoder)]

    def designs(
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> list[Float[Tensor, "_ _"]]:
        """Return the matrices A_j = ψ_j(positions of axis j), (N_j, K_j), of a lattice."""
        if len(axes) != self.dimensions:
            raise _checks.wrong("axes", f"{self.dimensions}, one an encoder", len(axes))
        return [e(a.points(dtype, device)) for e, a in zip(self.encoders, axes, strict=True)]

    @classmethod
    def like(
        cls, encoder: type[Encoder] | type[JointEncoder], samples: Samples | Geometry, **options: Any
    ) -> "ComplexEncoding":
        """Return the complex encoding that suits some samples; see ``Encoder.like`` for the options.

        Raises
        ------
        ValueError
            If the encoder is not of one axis.
        """
        if issubclass(encoder, JointEncoder):
            raise _checks.wrong("encoder", "one of a single axis, for a complex encoding", encoder.name)
        return cls([encoder.like(axis, **options) for axis in _axes(samples)])

    def configuration(self) -> dict[str, Any]:
        """What ``encoding_from`` needs to construct it again."""
        return {"kind": "complex", "encoders": [_describe(e) for e in self.encoders]}


class FourierEncoding(Encoding):
    """Ψ(x) = exp(2πi k₁u₁) ⊗ … ⊗ exp(2πi k_d u_d) at the integer frequencies of a padded lattice.

    u_j = (x_j - start_j) / (P_j spacing_j) is the position in periods, P_j the padded length; the factor of the
    highest frequency of an even P_j is its cosine, so that real lattices have real interpolants. It is the DFT
    encoding on every axis, kept implicit: its matrices are FFTs.

    Parameters
    ----------
    axes : tuple of Axis
        The lattice.
    shape : tuple of int
        The padded lengths P_j.

    Raises
    ------
    ValueError
        If a padded length is below its axis's.

    Notes
    -----
    Idé et al., "Improving Transformers using Faithful Positional Encoding" (2024), has the one-axis encoding.
    """

    def __init__(self, axes: Axes, shape: tuple[int, ...]) -> None:
        super().__init__()
        for axis, length in zip(axes, shape, strict=True):
            _checks.integer("shape", length, axis.count)
        self.axes, self.shape, self.dimensions = tuple(axes), tuple(shape), len(axes)

    def frequencies(self, j: int, device: torch.device | str = "cpu") -> Float[Tensor, " k"]:
        """The signed integer frequencies of axis j, in FFT order."""
        return torch.fft.fftfreq(self.shape[j], 1 / self.shape[j], dtype=torch.float64, device=device)

    def periods(self, j: int, x: Float[Tensor, "*points"]) -> Float[Tensor, "*points"]:
        """u_j of positions on axis j, in float64."""
        axis = self.axes[j]
        return (x.double() - axis.start) / (axis.spacing * self.shape[j])

    def forward(self, points: Float[Tensor, "*points d"]) -> list[Tensor]:
        """Return the complex factors (…, P_j) of every point."""
        factors = []
        for j, x in enumerate(points.unbind(-1)):
            k = self.frequencies(j, points.device)
            phase = 2 * torch.pi * (self.periods(j, x).unsqueeze(-1) * k)
            imaginary = phase.sin() * (2 * k.abs() != self.shape[j])
            factors.append(torch.complex(phase.cos(), imaginary).to(_complex(points.dtype)))
        return factors

    @classmethod
    def like(cls, samples: Samples | Geometry, *, padding: int | None = None) -> "FourierEncoding":
        """Return the encoding of some samples' lattice; see ``on`` for the padding."""
        return cls.on(_axes(samples), padding=padding)

    @classmethod
    def on(cls, axes: Axes, *, padding: int | None = None) -> "FourierEncoding":
        """Return the encoding of a lattice with at least ``padding`` nodes beyond it on every axis.

        16 of them, or 6 in three dimensions and more, where they cost most, if not said otherwise.
        """
        padding = padding if padding is not None else 16 if len(axes) <= 2 else 6
        return cls(axes, tuple(_fast_length(axis.count, padding) for axis in axes))

    def configuration(self) -> dict[str, Any]:
        """What ``encoding_from`` needs to construct it again."""
        axes = [{"count": a.count, "start": a.start, "spacing": a.spacing} for a in self.axes]
        return {"kind": "fourier", "axes": axes, "shape": list(self.shape)}


def _fast_length(count: int, padding: int) -> int:
    """A length of at least count + padding that FFTs are fast for; a single sample stays alone."""
    if count == 1:
        return 1
    return cast(int, next_fast_len(count + _checks.integer("padding", padding, 0), True))


def _complex(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype == torch.float64 else torch.complex64


def encoding_from(configuration: dict[str, Any]) -> Encoding:
    """Construct an encoding from its configuration; buffers and parameters are loaded apart.

    Raises
    ------
    ValueError
        If the configuration names an encoding or an encoder that does not exist.
    """
    match configuration:
        case {"kind": "simple", "encoders": [*encoders]}:
            return SimpleEncoding([_construct(e, Encoder) for e in encoders])
        case {"kind": "directional", "encoders": [*encoders]}:
            return DirectionalEncoding([_construct(e, Encoder) for e in encoders])
        case {"kind": "complex", "encoders": [*encoders]}:
            return ComplexEncoding([_construct(e, Encoder) for e in encoders])
        case {"kind": "joint", "encoder": encoder}:
            return JointEncoding(_construct(encoder, JointEncoder))
        case {"kind": "fourier", "axes": [*axes], "shape": [*shape]}:
            return FourierEncoding(tuple(Axis(**axis) for axis in axes), tuple(shape))
    raise _checks.wrong(
        "configuration", "of a simple, directional, joint, complex or fourier encoding", configuration
    )


def _axes(samples: Samples | Geometry) -> Axes:
    return samples.geometry.axes if isinstance(samples, Samples) else samples.axes


def _encoders(encoders: Sequence[Encoder]) -> list[Encoder]:
    if not encoders:
        raise _checks.wrong("encoders", "at least one", "none")
    return list(encoders)


def _describe(encoder: nn.Module) -> dict[str, Any]:
    assert isinstance(encoder, FeatureMap)
    return {"name": encoder.name, **encoder.configuration()}


def _construct(description: dict[str, Any], kind: type[F]) -> F:
    arguments = dict(description)
    known = {name: encoder for name, encoder in ENCODERS.items() if issubclass(encoder, kind)}
    name = _checks.choice("encoder", str(arguments.pop("name", None)), known)
    return known[name](**arguments)
