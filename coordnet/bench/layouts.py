"""Layouts: the construction of an encoding for the samples of any signal."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from coordnet import encodings
from coordnet.encodings.encoders import Encoder, FeatureMap, JointEncoder, JointRandomFourier, RandomFourier
from coordnet.sampling import Axis, Samples, lattice_points
from coordnet.sampling.axes import Axes

ENCODED_ROWS = 2**14  # rows encoded at a time to find the largest norm


@dataclass(frozen=True)
class Layout:
    """The construction of an encoding, every encoding matrix divided by its largest row norm.

    A scale is kept in sample spacings of the signal's own grid: a length σ given for 512 samples is 512 σ / N for N
    samples, and a frequency the inverse.
    """

    build: Callable[["Layout", Samples, tuple[int, ...], torch.Generator], encodings.Encoding]  # a function below
    encoder: Any = None  # its class
    scale: float | None = None  # in units of an axis of ``of`` samples; the encoder's default if left out
    of: int | None = None
    features: int | None = None  # in all, or of each axis of a complex encoding; as many as samples if left out

    def __call__(self, samples: Samples, grid: tuple[int, ...], seed: int) -> encodings.Encoding:
        """Construct the encoding for samples of a signal that has its own ``grid``."""
        return self.build(self, samples, grid, torch.Generator().manual_seed(seed))

    def scales(self, length: int) -> dict[str, Any]:
        """Return the encoder's scale for an axis of ``length`` samples; a frequency is at least its least value."""
        if self.scale is None or self.of is None:
            return {}
        (parameter,) = self.encoder.scales
        if parameter.unit == "length":
            return {parameter.name: self.scale * self.of / length}
        return {parameter.name: max(parameter.least, self.scale * length / self.of)}

    def on(self, axis: Axis, length: int, features: int | None, drawn: torch.Generator) -> Encoder:
        """Construct the encoder of one axis of a grid with ``length`` samples."""
        return self.encoder.like(axis, features=features, generator=drawn, normalize=True, **self.scales(length))


def complex_(layout: Layout, samples: Samples, grid: tuple[int, ...], drawn: torch.Generator) -> encodings.Encoding:
    """Return the Kronecker product of an encoder on every axis."""
    axes = zip(samples.geometry.axes, grid, strict=True)
    return encodings.ComplexEncoding([layout.on(axis, n, layout.features, drawn) for axis, n in axes])


def simple(layout: Layout, samples: Samples, grid: tuple[int, ...], drawn: torch.Generator) -> encodings.Encoding:
    """Return the concatenation of an encoder on every axis; random Fourier features are drawn jointly."""
    axes = samples.geometry.axes
    kind: Any = JointRandomFourier if layout.encoder is RandomFourier else layout.encoder
    if issubclass(kind, JointEncoder):
        options: dict[str, Any] = {"generator": drawn} if kind.random else {}
        if layout.scale is None:
            return encodings.JointEncoding(kind.like(axes, features=layout.features, normalize=True, **options))
        each = [layout.scales(n) for n in grid]
        options |= {name: tuple(one[name] for one in each) for name in each[0]}
        features = layout.features or 2 * (len(axes) * max(a.count for a in axes) // 2)
        joint = kind(len(axes), features=features, **options)
        joint.gain = 1 / math.sqrt(features / 2)  # cos² + sin² of every frequency is 1
        return encodings.JointEncoding(joint)
    share = layout.features and layout.features // len(axes)
    if share and layout.encoder.scales and layout.encoder.scales[0].unit == "frequency":
        share += share % 2  # cosines and sines come in pairs
    encoders = [layout.on(axis, n, share, drawn) for axis, n in zip(axes, grid, strict=True)]
    return _normalized(encodings.SimpleEncoding(encoders), axes)


def directional(layout: Layout, samples: Samples, grid: tuple[int, ...], drawn: torch.Generator) -> encodings.Encoding:
    """Return four directions of the plane, each with a quarter of the features."""
    axes = samples.geometry.axes
    longest = max(range(len(axes)), key=lambda j: axes[j].count)
    quarter = layout.features and layout.features // 4
    encoder = layout.on(Axis(axes[longest].count), grid[longest], quarter, drawn)
    return _normalized(encodings.DirectionalEncoding([encoder] * 4), axes)


def fourier(layout: Layout, samples: Samples, grid: tuple[int, ...], drawn: torch.Generator) -> encodings.Encoding:
    """Return the Fourier lattice, whose matrices are FFTs."""
    return encodings.FourierEncoding.like(samples)


@torch.no_grad()
def _normalized(encoding: encodings.DenseEncoding, axes: Axes) -> encodings.DenseEncoding:
    """Divide an encoding by its largest row norm over a lattice."""
    rows = lattice_points(axes, torch.float32).flatten(0, -2).split(ENCODED_ROWS)
    largest = max(float(encoding(part).norm(dim=-1).max()) for part in rows)
    for module in encoding.modules():
        if isinstance(module, FeatureMap):
            module.gain /= largest
    return encoding
