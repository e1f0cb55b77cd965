"""What functions that restore a signal share: their outcome, and the channel of opacity."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from coordnet.networks.reconstruction import Reconstruction


@dataclass(frozen=True, repr=False)
class Restored:
    """A restored signal, of the kind of array that was given, and how it was found.

    ``fit`` renders the signal at any resolution. ``report`` has what was chosen beside what the fit reports. The PSNR
    to expect, in dB, is that at samples that were hidden from the fit, or an estimate without them; None where neither
    is possible. ``std`` is the standard deviation of the errors to expect at every entry, where it was asked for.
    ``known`` is where the signal is the one that was given, to the bit.
    """

    signal: Any  # (*grid, channels), or without the axis of channels where it was given so
    fit: Reconstruction | None  # None for a signal that was restored in tiles
    report: dict[str, Any]
    expected_psnr: float | None
    std: Tensor | None = None  # (*grid, channels), whatever kind of array was given
    known: Tensor | None = None  # bool, (*grid, channels), whatever kind of array was given; None for nowhere

    def __repr__(self) -> str:
        """Return the kind and the shape of the signal, the prior where there is one, and the PSNR to expect."""
        prior = f", prior={self.report['prior']}" if "prior" in self.report else ""
        expected = None if self.expected_psnr is None else round(self.expected_psnr, 2)
        signal = f"{type(self.signal).__name__} of {self.signal.dtype} and shape {tuple(self.signal.shape)}"
        return f"Restored(<{signal}>{prior}, expected_psnr={expected})"


def has_opacity(values: Tensor) -> bool:
    """Return whether the last channel of pictures is opacity: of two, beside gray, or of four, beside three colors.

    No channel is, where a value is outside of [0, 1], as those of a vector field are.
    """
    return values.shape[-1] in (2, 4) and bool(((values >= 0) & (values <= 1)).all())
