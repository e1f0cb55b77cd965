"""The parameters of a denoiser as a prior."""

from dataclasses import dataclass
from typing import ClassVar

from coordnet import _checks
from coordnet.priors.denoiser.piloted import PilotedPrior

MOST_MULTIPLE = 256  # pixels of the largest step that the sides of a denoiser's pictures may have


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
