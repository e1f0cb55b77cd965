"""Encodings of points: simple, directional, complex (Kronecker), joint, modulated and Fourier ones."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Complex, Float
from scipy.fft import next_fast_len
from torch import Tensor, nn

import coordnet.encodings.encoders as e
from coordnet import _checks
from coordnet.encodings.designs import LatestDesigns, designs
from coordnet.encodings.encoders import Encoder, JointEncoder, JointRandomFourier, RandomFourier
from coordnet.encodings.encoders.learnable_fourier import Modulator, cast_to_input
from coordnet.linalg.machine import as_generator
from coordnet.linalg.operators import Device
from coordnet.sampling.axes import Axes, Axis, lattice_points
from coordnet.sampling.samples import Geometry, Samples


class Encoding(nn.Module):
    """A map of points in [0, 1)^d to features."""

    kind: ClassVar[str]  # the name in configurations
    is_factored: ClassVar[bool] = False  # whether the features are the Kronecker product of one factor per axis
    signed: ClassVar[bool] = False  # whether the modes of the features are signed frequencies
    dimensions: int  # d
    shape: tuple[int, ...]  # (K,) where the features are one row, (K₁, …, K_d) where they are a Kronecker product

    @property
    def axis_encoders(self) -> list[Encoder]:
        """The encoders, one for each axis or direction; empty if the encoding is not composed of them."""
        return []

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


class DenseEncoding(Encoding):
    """An encoding whose features at a point are one row: ``encoding(points)`` is (…, K)."""

    def forward(self, points: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """Return the features of points in units of the unit interval."""
        return self._features(points)

    def _features(self, points: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} defines neither _features nor forward")

    def matrices(
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: Device = "cpu"
    ) -> list[Float[Tensor, "n k"]]:
        """A list of one matrix: the encoding matrix (N, K) on a lattice."""
        return [self(lattice_points(axes, dtype, device).flatten(0, -2))]


class EncodingByAxis(Encoding):
    """An encoding with one encoder for each axis or direction; a ``ValueError`` is raised if there is none."""

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__()
        if not encoders:
            raise _checks.wrong("encoders", "at least one", "none")
        self.encoders = nn.ModuleList(encoders)
        self.dimensions = len(encoders)
        self.shape = (sum(e.columns for e in encoders),)

    @property
    def axis_encoders(self) -> list[Encoder]:
        """The encoders, one for each axis or direction."""
        return cast(list[Encoder], list(self.encoders))

    def _encoded(self, coordinates: Sequence[Tensor]) -> list[Tensor]:
        return [encoder(x) for encoder, x in zip(self.encoders, coordinates, strict=True)]

    def _arguments(self) -> dict[str, Any]:
        return {"encoders": [_described(encoder) for encoder in self.axis_encoders]}


class SimpleEncoding(EncodingByAxis, DenseEncoding):
    """Ψ(x) = [ψ₁(x₁) … ψ_d(x_d)], the concatenation of one encoder for each axis.

    A linear head on it gives images of rank at most 2 (Zheng et al., ECCV 2022, section 5).
    """

    kind = "simple"

    def _features(self, points: Tensor) -> Tensor:
        return torch.cat(self._encoded(points.unbind(-1)), dim=-1)

    @classmethod
    def like(
        cls, encoder: type[Encoder] | type[JointEncoder], samples: Samples | Geometry, **options: Any
    ) -> DenseEncoding:
        """Return the simple encoding that suits some samples; see ``Encoder.like`` for the options.

        Random Fourier features are drawn jointly in d dimensions. Other encoders of one axis are concatenated, with
        ``features`` for each axis; a joint encoder is used as it is.
        """
        if encoder is RandomFourier:
            encoder = JointRandomFourier
        if encoder.joint:
            return JointEncoding(cast(type[JointEncoder], encoder).like(samples.axes, **options))
        return cls([cast(type[Encoder], encoder).like(axis, **options) for axis in samples.axes])


class DirectionalEncoding(EncodingByAxis, DenseEncoding):
    """ψ of x, y, (x + y) / 2 and (x - y + 1) / 2: four directions of the plane, with four encoders.

    Zheng et al. (ECCV 2022) give a quarter of the features to each direction.
    """

    kind = "directional"

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        if len(encoders) != 4:
            raise _checks.wrong("encoders", "four, one for each direction", len(encoders))
        super().__init__(encoders)
        self.dimensions = 2

    def _features(self, points: Tensor) -> Tensor:
        x, y = points.unbind(-1)
        return torch.cat(self._encoded((x, y, (x + y) / 2, (x - y + 1) / 2)), dim=-1)


class ComplexEncoding(EncodingByAxis):
    """Ψ(x) = ψ₁(x₁) ⊗ … ⊗ ψ_d(x_d), one encoder for each axis, stored as its factors."""

    kind = "complex"
    is_factored = True

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__(encoders)
        self.shape = tuple(e.columns for e in encoders)
        self.designs = LatestDesigns()

    def forward(self, points: Float[Tensor, "*points d"]) -> list[Float[Tensor, "*points _"]]:
        """Return the factors ψ_j(x_j) of every point, (…, K_j) for each axis; their product is never formed."""
        return self._encoded(points.unbind(-1))

    def matrices(
        self, axes: Axes, dtype: torch.dtype = torch.float64, device: Device = "cpu"
    ) -> list[Float[Tensor, "_ _"]]:
        """The matrices A_j = ψ_j(positions of axis j), (N_j, K_j), of a lattice."""
        return designs(self, axes, dtype, device, dense=True)

    @classmethod
    def like(
        cls, encoder: type[Encoder] | type[JointEncoder], samples: Samples | Geometry, **options: Any
    ) -> "ComplexEncoding":
        """Return the complex encoding that suits some samples; see ``Encoder.like`` for the options and errors."""
        if encoder.joint:
            raise _checks.wrong("encoder", "one of a single axis, for a complex encoding", encoder.name)
        return cls([cast(type[Encoder], encoder).like(axis, **options) for axis in samples.axes])


class JointEncoding(DenseEncoding):
    """Ψ(x) = ψ(x) of a joint encoder."""

    kind = "joint"

    def __init__(self, encoder: JointEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.dimensions, self.shape = encoder.dimensions, (encoder.columns,)

    def _features(self, points: Tensor) -> Tensor:
        return self.encoder(points)

    def _arguments(self) -> dict[str, Any]:
        return {"encoder": _described(self.encoder)}


class ModulatedEncoding(DenseEncoding):
    """GeLU(Ψ(x) W₁ + B₁) W₂ + B₂, a trained ``Modulator`` on the features of any dense encoding Ψ.

    The result has ``features`` columns, and W₁ has ``hidden``; see ``Modulator`` for the other arguments and for what
    is raised; a ``ValueError`` too if Ψ is a Kronecker product. The weights are drawn with seed 0 unless a generator is
    given. Li et al. (NeurIPS 2021) compare their encoding with others under the same modulator.
    """

    kind = "modulated"

    def __init__(
        self,
        encoding: Encoding,
        features: int,
        hidden: int = 32,
        *,
        layer_norm: bool = False,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if len(encoding.shape) != 1:
            raise _checks.wrong("encoding", "one whose features are a row", f"features of shape {encoding.shape}")
        self.encoding = encoding
        self.dimensions, self.shape = encoding.dimensions, (features,)
        self.options: dict[str, Any] = {"hidden": hidden, "layer_norm": layer_norm, "dropout": dropout}
        (inputs,), generator = encoding.shape, as_generator(generator)
        self.modulator = Modulator(inputs, hidden, features, generator, layer_norm=layer_norm, dropout=dropout)

    def _features(self, points: Tensor) -> Tensor:
        return cast_to_input(self.modulator, self.encoding(points))

    def _arguments(self) -> dict[str, Any]:
        return {"encoding": self.encoding.configuration(), "features": self.shape[0], **self.options}


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

    def forward(self, points: Float[Tensor, "*points d"]) -> list[Tensor]:
        """Return the complex factors (…, P_j) of every point."""
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


_SHIFTED = (e.Gaussian, e.Triangle, e.BSpline, e.Rectangle, e.Impulse, e.Sine, e.Square)
_WAVES = (e.LinearFourier, e.LogFourier, e.RandomFourier, e.Sinusoidal, e.DFT)
_JOINT = (e.JointRandomFourier, e.MultiSine, e.LearnableFourier, e.JointEmbedding, e.HashGrid)

ENCODERS: dict[str, type[e.Encoder] | type[e.JointEncoder]] = {
    encoder.name: encoder for encoder in (*_SHIFTED, e.UnevenSpline, *_WAVES, e.LearnedEmbedding, e.Identity, *_JOINT)
}
_BY_AXIS = {kind.kind: kind for kind in (SimpleEncoding, DirectionalEncoding, ComplexEncoding)}


def encoding_from(configuration: dict[str, Any]) -> Encoding:
    """Construct an encoding, with initial tensors; a ``ValueError`` is raised if its configuration is wrong."""
    match configuration:
        case {"kind": kind, "encoders": [*encoders]} if kind in _BY_AXIS:
            return _BY_AXIS[kind]([_construct(encoder) for encoder in encoders])
        case {"kind": "joint", "encoder": encoder}:
            return JointEncoding(_construct(encoder, joint=True))
        case {"kind": "modulated", "encoding": inner, **options}:
            for name in options:
                _checks.choice("encoding", name, ("features", "hidden", "layer_norm", "dropout"))
            return ModulatedEncoding(encoding_from(inner), **options)
        case {"kind": "fourier", "axes": [*axes], "shape": [*shape]}:
            for axis in axes:
                _checks.positive("spacing", axis["spacing"])  # 0 stands for a default in code, not in a file
            return FourierEncoding(tuple(Axis(**axis) for axis in axes), tuple(shape))
    expected = "one of a simple, directional, joint, modulated, complex or fourier encoding"
    raise _checks.wrong("configuration", expected, configuration)


def _described(encoder: Encoder | JointEncoder) -> dict[str, Any]:
    return {"name": encoder.name, **encoder.configuration()}


def _construct(description: dict[str, Any], joint: bool = False) -> Any:
    arguments = dict(description)
    known = {name: encoder for name, encoder in ENCODERS.items() if encoder.joint == joint}
    family = known[_checks.choice("encoder", str(arguments.pop("name", None)), known)]
    for name in arguments:
        _checks.choice("encoder", name, (f.name for f in fields(family)))
    return family(**arguments)
