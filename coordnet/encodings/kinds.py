"""Encodings composed of encoders: simple, directional, complex (Kronecker), joint and modulated ones; all by name."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

import coordnet.encodings.encoders as e
from coordnet import _checks
from coordnet.encodings.designs import LatestDesigns, designs
from coordnet.encodings.encoders import Encoder, JointEncoder, JointRandomFourier, RandomFourier
from coordnet.encodings.encoders.learnable_fourier import Modulator, cast_to_input
from coordnet.encodings.encoding import DenseEncoding, Encoding
from coordnet.encodings.fourier_encoding import FourierEncoding
from coordnet.linalg.machine import as_generator
from coordnet.linalg.operators import Device
from coordnet.sampling.axes import Axes, Axis
from coordnet.sampling.samples import Geometry, Samples


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
