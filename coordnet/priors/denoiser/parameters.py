"""The parameters of a denoiser as a prior."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from coordnet import _checks

MOST_MULTIPLE = 256  # pixels of the largest step that the sides of a denoiser's pictures may have


@dataclass(frozen=True)
class DenoiserParameters:
    """The parameters of ``Denoiser``, as its plans take them; it says what they are."""

    f: Any  # pictures (batch, channels, height, width) and σ to pictures
    channels: int = 3
    range: tuple[float, float] = (0.0, 1.0)
    multiple: int = 2
    noise: float = 0.0

    def __post_init__(self) -> None:
        if not callable(self.f):
            raise _checks.wrong("f", "a function of (x, sigma), such as a torch.nn.Module", type(self.f).__name__)
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

    @property
    def label(self) -> str:
        """The name of the function, or of the network's class."""
        return type(self.f).__name__ if isinstance(self.f, nn.Module) else getattr(self.f, "__name__", "function")
