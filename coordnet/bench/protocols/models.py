"""The papers' encodings with the papers' settings, suited to signals of any size."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from coordnet.encodings import (
    ComplexEncoding,
    DenseEncoding,
    DirectionalEncoding,
    Encoding,
    FourierEncoding,
    JointEncoding,
    SimpleEncoding,
)
from coordnet.encodings.encoders import Encoder, FeatureMap, JointEncoder, JointRandomFourier
from coordnet.encodings.registry import ENCODERS
from coordnet.sampling.axes import Axes, Axis, lattice_points
from coordnet.sampling.samples import Samples

ROWS = 2**14  # points encoded at once where the largest row norm is looked for


def make_encoding(
    settings: Mapping[str, Any], samples: Samples, seed: int, grid: tuple[int, ...] | None = None
) -> Encoding:
    """The encoding that some settings name, every encoding matrix divided by its largest row norm.

    Parameters
    ----------
    settings : mapping
        ``encoding``: "simple", "directional", "complex" or "fourier"; ``encoder``: its name; ``scale`` and ``of``: its
        scale in units of an axis of so many samples; ``features``: in all, or of each axis in a complex encoding, as
        many as samples if left out.
    samples : Samples
        Gives the axes.
    seed : int
        Of what is drawn.
    grid : tuple of int, optional
        Of the signal, where the samples are tied to another one.

    Notes
    -----
    Scales are kept in sample spacings of the signal's own grid: a length σ on 512 samples is 512 σ / N on N, a
    frequency the inverse. The papers' pictures have 512 samples an axis, their clips 128.
    """
    if settings["encoding"] == "fourier":
        return FourierEncoding.like(samples)
    kind, features = ENCODERS[settings["encoder"]], settings.get("features")
    axes, generator = samples.geometry.axes, torch.Generator().manual_seed(seed)
    grid = grid or samples.grid
    if settings["encoding"] == "simple" and kind.name == "rff":
        kind = JointRandomFourier
    if issubclass(kind, JointEncoder):
        assert settings["encoding"] == "simple"
        return JointEncoding(_joint(kind, settings, axes, grid, generator))
    scales = [_scales(kind, settings, n) for n in grid]

    def encoder(axis: Axis, j: int, count: int | None) -> Encoder:
        return kind.like(axis, features=count, normalize=True, generator=generator, **scales[j])

    if settings["encoding"] == "complex":
        return ComplexEncoding([encoder(axis, j, features) for j, axis in enumerate(axes)])
    if settings["encoding"] == "directional":
        longest = max(range(len(axes)), key=lambda j: axes[j].count)
        made: DenseEncoding = DirectionalEncoding(
            [encoder(Axis(axes[longest].count), longest, settings["features"] // 4)] * 4
        )
    else:
        share = None if features is None else _share(features, len(axes), kind)
        made = SimpleEncoding([encoder(axis, j, share) for j, axis in enumerate(axes)])
    _normalise(made, axes)
    return made


def scaled(kind: type[FeatureMap], scale: float, of: int, length: int) -> float:
    """A scale in units of an axis of ``of`` samples, in units of one of ``length``; frequencies are at least 1."""
    (parameter,) = kind.scales
    if parameter.unit == "length":
        return scale * of / length
    return max(parameter.least, scale * length / of)


def _scales(kind: type[FeatureMap], settings: Mapping[str, Any], length: int) -> dict[str, float]:
    if "scale" not in settings:
        return {}
    return {kind.scales[0].name: scaled(kind, settings["scale"], settings["of"], length)}


def _joint(
    kind: type[JointEncoder],
    settings: Mapping[str, Any],
    axes: Axes,
    grid: tuple[int, ...],
    generator: torch.Generator,
) -> JointEncoder:
    drawn: dict[str, Any] = {"generator": generator} if kind.random else {}
    if "scale" not in settings:
        return kind.like(axes, features=settings.get("features"), normalize=True, **drawn)
    each = [_scales(kind, settings, n) for n in grid]
    scales: dict[str, Any] = {name: tuple(one[name] for one in each) for name in each[0]}
    features = settings.get("features") or 2 * (len(axes) * max(a.count for a in axes) // 2)
    made = kind(len(axes), features=features, **scales, **drawn)
    made.gain = 1 / math.sqrt(features / 2)  # cos² + sin² of every frequency is 1
    return made


def _share(features: int, dims: int, kind: type[Encoder]) -> int:
    """Features of each axis, an even number for encoders of pairs."""
    in_pairs = bool(kind.scales) and kind.scales[0].unit == "frequency"
    return features // dims + features // dims % 2 * in_pairs


@torch.no_grad()
def _normalise(encoding: DenseEncoding, axes: Axes) -> None:
    """Divide by the largest row norm over a lattice."""
    points = lattice_points(axes, torch.float32).flatten(0, -2)
    largest = max(float(encoding(part).norm(dim=-1).max()) for part in points.split(ROWS))
    for encoder in _maps(encoding):
        encoder.gain /= largest


def _maps(encoding: nn.Module) -> Sequence[FeatureMap]:
    return [module for module in encoding.modules() if isinstance(module, FeatureMap)]
