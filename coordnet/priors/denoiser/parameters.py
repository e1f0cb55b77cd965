"""The parameters of priors that refine the estimate of another prior, their pilot, and those of a denoiser."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import nn

from coordnet import _checks
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Prior, Setting
from coordnet.priors.local import Local
from coordnet.sampling.grids import is_mosaic
from coordnet.sampling.samples import Geometry

MOST_MULTIPLE = 256  # pixels of the largest step that the sides of a denoiser's pictures may have


@dataclass(frozen=True)
class PilotedPrior(Prior):
    """A prior whose function ``f`` refines the estimate of a ``pilot``, or of what suits the samples if it has none."""

    learns: ClassVar[bool] = True
    arguments: ClassVar[str]
    f: Any
    pilot: Prior | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not callable(self.f):
            expected = f"a function of {self.arguments}, such as a torch.nn.Module"
            raise _checks.wrong("f", expected, type(self.f).__name__)

    def pilot_for(self, geometry: Geometry) -> Prior:
        """Return the pilot of a plan: by default the local prior, or where that does not suit the adaptive one.

        A ``ValueError`` is raised for noise on a lattice that skips samples, which the local prior does not take.
        """
        if self.pilot is not None:
            return self.pilot
        if self.noise and geometry.is_strided:
            raise _checks.wrong("noise", "0 on a lattice that skips samples", self.noise)
        if self.noise and takes_all_noise(geometry):
            return Local(noise=self.noise)
        suited = (*Local.candidates(Setting(geometry)), Adaptive())[0]
        return suited.with_noise(self.noise) if self.noise and isinstance(suited, Local) else suited

    @property
    def label(self) -> str:
        """The name of the function, or of the network's class."""
        return type(self.f).__name__ if isinstance(self.f, nn.Module) else getattr(self.f, "__name__", "function")

    @property
    def start(self) -> Prior:
        return self if self.pilot is None else self.pilot

    @property
    def stationary(self) -> Prior:
        """The prior around which its pilot works, by default the adaptive one."""
        return Adaptive() if self.pilot is None else self.pilot.stationary

    @property
    def text(self) -> str:
        """The name, with that of the function or the network."""
        return f"{self.name}:{self.label}"

    def seeded(self, seed: int) -> Prior:
        return self if self.pilot is None else replace(self, pilot=self.pilot.seeded(seed))


@dataclass(frozen=True)
class DenoiserParameters(PilotedPrior):
    """The parameters of ``Denoiser``, as its plans take them; it says what they are."""

    arguments: ClassVar[str] = "(x, sigma)"  # pictures (batch, channels, height, width) and σ to pictures
    channels: int = 3
    range: tuple[float, float] = (0.0, 1.0)
    multiple: int = 2
    noise: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.integer("channels", self.channels, 1)
        if _checks.integer("multiple", self.multiple, 1) > MOST_MULTIPLE:
            raise _checks.wrong("multiple", f"an integer of at most {MOST_MULTIPLE}", self.multiple)
        try:
            low, high = self.range
        except (TypeError, ValueError):
            raise _checks.wrong("range", "the least and the greatest value, such as (0, 1)", self.range) from None
        if not _checks.finite("range", low) < _checks.finite("range", high):
            raise _checks.wrong("range", "the least and the greatest value, such as (0, 1)", self.range)
        _checks.nonnegative("noise", self.noise)


def takes_all_noise(geometry: Geometry) -> bool:
    """Return whether the noise of samples is removed where none can be hidden: on a whole lattice, or a mosaic."""
    return (geometry.is_whole_lattice and geometry.is_nodal) or is_mosaic(geometry.weights)
