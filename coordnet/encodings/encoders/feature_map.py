"""Encoders: maps of positions to K features, with their scale parameters and their theory."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass, fields
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

import torch
from jaxtyping import Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings.encoders.scale_parameters import Parameter
from coordnet.encodings.encoders.similarity import mean_similarity
from coordnet.linalg.banded import BandedMatrix
from coordnet.linalg.machine import as_generator, without_tails
from coordnet.linalg.operators import Device
from coordnet.sampling.axes import Axes, Axis, lattice_points
from coordnet.sampling.samples import Geometry, Samples

M = TypeVar("M", bound="FeatureMap")
Scale = float | Tensor  # a number as the argument may be one; the attribute is a tensor
AxisScales = float | tuple[float, ...] | list[float] | Tensor  # one number for all axes, or one for each
_GIVEN_BY_LIKE = {"dimensions", "features", "start", "stop", "last", "sites", "gain"}  # arguments that follow from axes


@dataclass_transform(eq_default=False)
@dataclass(eq=False, repr=False)
class FeatureMap(nn.Module, ABC):
    """A map of positions to K features, ``features`` ≥ 1, with positive scale parameters, fixed or trained.

    Annotated attributes are the constructor's arguments, as a dataclass has them; one that is out of its range raises a
    ``ValueError``. The ``gain`` is a factor on every feature (see ``like``). The ``generator``, by default that
    of ``torch.manual_seed``, draws the parameters of random encoders.

    A scale is a tensor of the ``state_dict``. A number becomes a buffer in float64, which keeps this dtype whatever the
    module is cast to; a tensor stays what it is: an ``nn.Parameter`` is trained, and gradients flow to another one that
    has them. With ``learnable`` the logarithm of the scale is a parameter, ``log_NAME``, so that it stays positive and
    a step of Adam is relative. With as many features as samples this can overfit: on a 128×128 crop a Gaussian's σ
    falls from 0.64 spacings to 0.27 and the held-out PSNR from 27.5 to 14.1 dB. ``held_out`` of ``fit_gradient`` limits
    this.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    scales: ClassVar[tuple[Parameter, ...]] = ()
    random: ClassVar[bool] = False
    joint: ClassVar[bool]
    _: KW_ONLY
    gain: float = 1.0
    learnable: bool = False
    generator: InitVar[torch.Generator | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(eq=False, repr=False)(cls)

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """Return a module that is ready for the parameters among the arguments, which a dataclass sets first."""
        module = super().__new__(cls)
        nn.Module.__init__(module)
        return module

    def __post_init__(self, generator: torch.Generator | None) -> None:
        self.features = _checks.integer("features", self.features, 1)
        self.gain = _checks.positive("gain", self.gain)
        for p in self.scales:
            value = getattr(self, p.name)
            if isinstance(value, Tensor) and value.ndim and not self.joint:
                raise _checks.wrong(p.name, "a tensor of one number", tuple(value.shape))
            if isinstance(value, tuple):
                value = torch.tensor([p.checked(number) for number in value], dtype=torch.float64, device="cpu")
            self._set_scale(p.name, p.checked(value))
        self._draw(as_generator(generator))

    def _draw(self, generator: torch.Generator) -> None:
        """Check what the subclass adds to the arguments, and draw or compute the tensors that it keeps."""

    def _set_scale(self, name: str, value: float | Tensor) -> None:
        """Keep a scale, whose own device is the CPU: a number on it goes with tensors on any device."""
        vars(self).pop(name, None)
        if not isinstance(value, Tensor):
            value = torch.tensor(value, dtype=torch.float64, device="cpu")
        if self.learnable:
            self._parameters.pop(name, None)
            self.register_parameter(f"log_{name}", nn.Parameter(value.detach().double().log()))
        elif value is not self._parameters.get(name):
            self.register_buffer(name, value)

    def is_followed(self, name: str) -> bool:
        """Whether gradients flow to a scale parameter."""
        return getattr(self, name).requires_grad

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Move the module, or cast all but its fixed scales, whose rounding would move the features."""
        kept = {p.name: self._buffers.get(p.name) for p in self.scales}
        super()._apply(fn, recurse)
        for name, scale in kept.items():
            if scale is not None and not scale.is_meta:
                self._buffers[name] = scale.to(cast(Tensor, self._buffers[name]).device)
        return self

    def __getattr__(self, name: str) -> Any:
        # The exponential of log_NAME has to be taken at each use. A parametrization of PyTorch does the same, but would
        # rename the tensor in the state dict, so that models that were saved could not be read.
        log = self.__dict__.get("_parameters", {}).get(f"log_{name}")
        return super().__getattr__(name) if log is None else log.exp()

    def scale(self, name: str) -> Any:
        """The present value of a scale parameter as a number, or as a tuple with one for each axis."""
        value = getattr(self, name)
        return _numbers(value) if isinstance(value, Tensor) else value

    def rescaled(self: M, factor: float) -> M:
        """A copy whose scale parameters are multiplied by a positive factor, and raised to their lower bounds."""
        _checks.positive("factor", factor)
        other = copy.deepcopy(self)
        for p in self.scales:
            value = torch.as_tensor(self.scale(p.name), dtype=torch.float64, device="cpu")
            other._parameters.pop(p.name, None)
            other._set_scale(p.name, (factor * value).clamp(min=p.least))
        return other

    @property
    def columns(self) -> int:
        """The number of columns of the encoding matrix: K plus the number of padding nodes, if there are any."""
        return self.features

    @property
    def kinks(self) -> list[Float[Tensor, "_"]] | None:
        """The positions on each axis between which ψ is multilinear; None if ψ is not piecewise multilinear."""
        return None

    @abstractmethod
    def encode(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """ψ at positions x, before the gain."""

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """ψ at positions x in units of the unit interval; device and dtype follow x. NaN and infinity give NaN."""
        if not isinstance(x, Tensor) or not x.is_floating_point():
            found = getattr(x, "dtype", type(x).__name__)
            raise _checks.wrong("points", "a tensor of floating-point coordinates", found)
        return self._amplified(self.encode(x))

    def _amplified(self, features: Tensor) -> Tensor:
        features = without_tails(features)  # here, because every design and every point's features come this way
        return features if self.gain == 1 else features * self.gain

    def stable_rank(self, samples: int) -> float:
        """‖A‖_F² / ‖A‖₂² on ``samples`` points in [0, 1) as features grow; NaN where no theory gives it."""
        return math.nan

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """The names of the options that ``like`` takes in addition to the scale parameters."""
        others = _GIVEN_BY_LIKE | ({p.name for p in cls.scales} or {"learnable"})
        return tuple(f.name for f in fields(cls) if f.name not in others)

    @classmethod
    def arguments(cls) -> tuple[str, ...]:
        """The names of all that ``like`` takes beside the axes and the generator."""
        return (*(p.name for p in cls.scales), "features", "normalize", *cls.options())

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments as JSON values."""
        return {f.name: self.scale(f.name) for f in fields(self)}

    def extra_repr(self) -> str:
        """Return the arguments that are not the default ones, for ``repr``."""
        values = ((f.name, self.scale(f.name)) for f in fields(self) if self.scale(f.name) != f.default)
        return ", ".join(
            f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}" for name, value in values
        )

    def similarity(self, delta: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """D(δ) = ∫ψ(t, x) ψ(t, x + δ) dt as features grow, scaled so that D(0) = 1; (*shape, d) for a joint encoder.

        If it depends on x, it is averaged over the pairs in the unit cube at distance δ by quadrature, for |δ_j| ≤ 1.
        """
        if self.joint:
            return mean_similarity(self.encode, delta, self.kinks)
        return mean_similarity(lambda x: self.encode(x.squeeze(-1)), delta.unsqueeze(-1), self.kinks)

    @classmethod
    def positions(cls, axes: Axes) -> Float[Tensor, "..."]:
        """The points of the lattice that the axes span, first axis slowest: (n, d), or (n,) for one coordinate."""
        points = lattice_points(axes).flatten(0, -2)
        return points if cls.joint else points[:, 0]

    @classmethod
    def for_axes(cls: type[M], axes: Axes, features: int | None, **arguments: Any) -> M:
        """Construct an encoder for the samples of some axes, whose numbers decide ``features`` if it is None."""
        return cls(**{**cls._suited(axes, features, arguments), **arguments})

    @classmethod
    @abstractmethod
    def _suited(cls, axes: Axes, features: int | None, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments that suit the samples of some axes, beside those that are given."""

    @classmethod
    def like(
        cls: type[M],
        axes: Axis | Axes | Samples | Geometry,
        *,
        features: int | None = None,
        normalize: bool = False,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> M:
        """Return the encoder that suits the samples of an axis, or of the d axes of a lattice for a joint encoder.

        The axes may be given by samples. ``features`` is K, by default the number of samples, or a joint encoder's own
        default. ``normalize`` divides by the largest row norm of the encoding matrix of the samples, as the papers do.
        The options are the encoder's own arguments. Scales are numbers in units of the unit interval, ``Spacings``, or
        texts in sample spacings: ``sigma="0.64px"``, ``f_max="0.25/px"``. A ``ValueError`` is raised if an option is
        unknown or out of its range, or an encoder of one coordinate is given several axes.
        """
        if features is not None:
            _checks.integer("features", features, 1)
        given_axes: Any = getattr(axes, "axes", axes)
        each_axis: Axes = tuple(given_axes) if isinstance(given_axes, tuple | list) else (given_axes,)
        if not each_axis or not all(hasattr(axis, "spacing") for axis in each_axis):
            raise _checks.wrong("axes", "an axis, a tuple of them, or samples", repr(given_axes))
        if len(each_axis) != 1 and not cls.joint:
            expected = f"one axis (ComplexEncoding.like({cls.__name__}, samples) has an encoder for each)"
            raise _checks.wrong("axes", expected, len(each_axis))
        arguments: dict[str, Any] = {"generator": generator}
        for p in cls.scales:
            given = options.pop(p.name, None)
            each = tuple(p.suited(a.spacing) if given is None else p.on(given, a.spacing) for a in each_axis)
            arguments[p.name] = each if cls.joint else each[0]
        for name, value in options.items():
            if name not in cls.options():
                expected = f"a parameter of the {cls.name} encoder ({', '.join(cls.arguments())})"
                raise _checks.wrong(name, expected, repr(value))
        encoder = cls.for_axes(each_axis, features, **arguments, **options)
        if normalize:
            encoder.gain = 1 / float(encoder(cls.positions(each_axis)).detach().norm(dim=-1).max())
        return encoder


class Encoder(FeatureMap):
    """A map ψ: R → R^K of one coordinate to K features; see ``FeatureMap`` for the arguments."""

    joint = False
    features: int

    @property
    def frequencies(self) -> Float[Tensor, " m"] | None:
        """The frequencies in cycles over the unit interval; None for encoders that are not ``FourierFeatures``."""
        return None

    def printed_similarity(self, delta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """D as the papers print it, for reproduction; it differs from ``similarity`` where they are wrong."""
        return self.similarity(delta)

    def cell_means(self, x: Float[Tensor, "*points"], width: float) -> Float[Tensor, "*points columns"]:
        """(1/w) ∫ψ over cells of length w centered at positions x, before the gain.

        An encoder without a closed form of the integral raises a ``ValueError``.
        """
        expected = "one with an integral over cells (gaussian, bspline, triangle, rectangle, sine or Fourier features)"
        raise _checks.wrong("encoder", expected, self.name)

    def on_axis(
        self, axis: Axis, dtype: torch.dtype = torch.float64, device: Device = "cpu"
    ) -> Float[Tensor, "n columns"]:
        """The design matrix of an axis: ψ at its positions, or its means over the axis's cells (``cell_means``)."""
        x = axis.points(dtype, device)
        return self._amplified(self.cell_means(x, axis.width)) if axis.width else self(x)

    def banded(self, axis: Axis, dtype: torch.dtype = torch.float64) -> BandedMatrix | None:
        """The design matrix of an axis as a band, on the CPU; None where it has no narrow band."""
        return None

    @classmethod
    def _suited(cls, axes: Axes, features: int | None, given: dict[str, Any]) -> dict[str, Any]:
        return {"features": features or axes[0].count}


class JointEncoder(FeatureMap):
    """A map ψ: R^d → R^K of points to K features; d is ``dimensions``. See ``FeatureMap`` for the other arguments.

    A scale is one positive number for all axes, or a tuple with one for each.
    """

    joint = True
    usual_features: ClassVar[int] = 512
    dimensions: int
    features: int

    def __post_init__(self, generator: torch.Generator | None) -> None:
        d = _checks.integer("dimensions", self.dimensions, 1)
        for p in self.scales:
            value = getattr(self, p.name)
            if isinstance(value, Tensor) and value.shape in ((), (d,)):
                continue
            each = tuple(value) if isinstance(value, tuple | list | Tensor) else (value,) * d
            if len(each) != d:
                raise _checks.wrong(p.name, f"one number, or {d}, one for each axis", value)
            setattr(self, p.name, each)
        super().__post_init__(generator)

    def per_axis(self, name: str, like: Tensor) -> Float[Tensor, " d"]:
        """A scale parameter as a vector with one number for each axis, with the dtype and device of a tensor."""
        return getattr(self, name).to(like).expand(self.dimensions)

    def forward(self, x: Float[Tensor, "*points d"]) -> Float[Tensor, "*points k"]:
        """ψ at points in units of the unit interval; device and dtype follow them."""
        _checks.coordinates("points", getattr(x, "shape", ()), self.dimensions)
        return super().forward(x)

    @classmethod
    def _suited(cls, axes: Axes, features: int | None, given: dict[str, Any]) -> dict[str, Any]:
        return {"dimensions": len(axes), "features": features or cls.usual_features}


def interval(start: float, stop: float) -> tuple[float, float]:
    """The ends of an interval, checked to be finite and in order."""
    if not _checks.finite("stop", stop) > _checks.finite("start", start):
        raise _checks.wrong("stop", f"a number above `start` ({start})", stop)
    return float(start), float(stop)


def _numbers(scale: Tensor) -> float | tuple[float, ...]:
    values = scale.detach().double().tolist()
    return tuple(values) if isinstance(values, list) else values
