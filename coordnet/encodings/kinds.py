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
from coordnet.encodings.encoders import Encoder, FeatureMap, JointEncoder, JointRandomFourier, RandomFourier
from coordnet.encodings.encoders.learnable_fourier import Modulator, cast_to_input
from coordnet.encodings.encoding import DenseEncoding, Encoding, FourierEncoding
from coordnet.linalg.machine import as_generator
from coordnet.linalg.operators import Device
from coordnet.sampling.axes import Axes, Axis
from coordnet.sampling.samples import Geometry, Samples


class EncodingByAxis(Encoding):
    """An encoding with one encoder for each axis or direction; a simple one may have joint encoders of several axes.

    A ``ValueError`` is raised if there is no encoder, or a joint one is among those of another encoding.
    """

    def __init__(self, encoders: Sequence[Encoder | JointEncoder]) -> None:
        super().__init__()
        if not encoders or not all(isinstance(encoder, FeatureMap) for encoder in encoders):
            found = "none" if not encoders else ", ".join(type(encoder).__name__ for encoder in encoders)
            raise _checks.wrong("encoders", "at least one, and encoders such as cn.Gaussian alone", found)
        for encoder in encoders:
            if encoder.joint and self.kind != "simple":
                raise _checks.wrong("encoders", f"encoders of one axis for a {self.kind} encoding", encoder.name)
        self.encoders = nn.ModuleList(encoders)
        self._counts = [encoder.dimensions if isinstance(encoder, JointEncoder) else 1 for encoder in encoders]
        self.dimensions, self.shape = sum(self._counts), (sum(e.columns for e in encoders),)

    @property
    def axis_encoders(self) -> list[Encoder]:
        """The encoders, one for each axis or direction; empty if one of them is joint."""
        encoders = cast(list[Encoder], list(self.encoders))
        return [] if any(encoder.joint for encoder in encoders) else encoders

    def _encoded(self, coordinates: Sequence[Tensor]) -> list[Tensor]:
        return [encoder(x) for encoder, x in zip(self.encoders, coordinates, strict=True)]

    def _arguments(self) -> dict[str, Any]:
        return {"encoders": [_described(cast(Encoder, encoder)) for encoder in self.encoders]}


class SimpleEncoding(EncodingByAxis, DenseEncoding):
    """Ψ(x) = [ψ₁(x₁) … ψ_d(x_d)], the concatenation of one encoder for each axis; a joint encoder takes its d axes.

    A linear head on encoders of one axis gives images of rank at most 2 (Zheng et al., ECCV 2022, section 5). A
    ``ValueError`` is raised if there is no encoder.
    """

    kind = "simple"

    def _features(self, points: Tensor) -> Tensor:
        parts = points.split(self._counts, dim=-1)
        coordinates = [x if e.joint else x.squeeze(-1) for e, x in zip(self.encoders, parts, strict=True)]
        return torch.cat(self._encoded(coordinates), dim=-1)

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
    """Ψ(x) = ψ₁(x₁) ⊗ … ⊗ ψ_d(x_d), one encoder for each axis."""

    kind = "complex"
    is_factored = True

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__(encoders)
        self.shape = tuple(e.columns for e in encoders)
        self.designs = LatestDesigns()

    def _factors(self, points: Tensor) -> list[Tensor]:
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
        if not isinstance(encoder, JointEncoder):
            raise _checks.wrong("encoder", "a joint one such as HashGrid", getattr(encoder, "name", repr(encoder)))
        self.encoder = encoder
        self.dimensions, self.shape = encoder.dimensions, (encoder.columns,)

    def _features(self, points: Tensor) -> Tensor:
        return self.encoder(points)

    def _arguments(self) -> dict[str, Any]:
        return {"encoder": _described(self.encoder)}


class ModulatedEncoding(DenseEncoding):
    """GeLU(Ψ(x) W₁ + B₁) W₂ + B₂, a trained ``Modulator`` on the features of any encoding Ψ.

    The result has ``features`` columns, and W₁ has ``hidden``; see ``Modulator`` for the other arguments and for what
    is raised. The weights are drawn by the generator, by default that of ``torch.manual_seed``. Li et al. (NeurIPS
    2021) compare their encoding with others under the same modulator.
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
        self.encoding = encoding
        self.dimensions, self.shape = encoding.dimensions, (features,)
        self.options: dict[str, Any] = {"hidden": hidden, "layer_norm": layer_norm, "dropout": dropout}
        generator = as_generator(generator)
        self.modulator = Modulator(
            encoding.features, hidden, features, generator, layer_norm=layer_norm, dropout=dropout
        )

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
            return JointEncoding(_construct(encoder))
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


def _construct(description: dict[str, Any]) -> Any:
    arguments = dict(description)
    family = ENCODERS[_checks.choice("encoder", str(arguments.pop("name", None)), ENCODERS)]
    for name in arguments:
        _checks.choice("encoder", name, (f.name for f in fields(family)))
    return family(**arguments)
