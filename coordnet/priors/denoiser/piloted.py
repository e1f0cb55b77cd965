"""What priors share that refine the estimate of another prior, their pilot, by a function of pictures."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import nn

from coordnet import _checks
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Prior, Setting
from coordnet.priors.local import Local
from coordnet.sampling.samples import Geometry


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
        """Return the pilot of a plan: by default the local prior, or where that does not suit the adaptive one."""
        if self.pilot is not None:
            return self.pilot
        suited = Local.candidates(Setting(geometry)) or (Adaptive(),)
        return suited[0].with_noise(self.noise) if self.noise else suited[0]

    @property
    def label(self) -> str:
        """The name of the function, or of the network's class."""
        return type(self.f).__name__ if isinstance(self.f, nn.Module) else getattr(self.f, "__name__", "function")

    @property
    def start(self) -> Prior:
        """The pilot."""
        return self if self.pilot is None else self.pilot

    @property
    def text(self) -> str:
        """The name, with that of the function or the network."""
        return f"{self.name}:{self.label}"

    def seeded(self, seed: int) -> Prior:
        """Return the prior with another seed of the samples that its pilot hides."""
        return self if self.pilot is None else replace(self, pilot=self.pilot.seeded(seed))
