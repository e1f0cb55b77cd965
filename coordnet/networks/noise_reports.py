"""Reports of noise that was removed from a signal, and of what was removed before."""

from dataclasses import dataclass
from typing import Any

from coordnet.networks.fit_reports import FitReport, Reported


@dataclass(frozen=True, kw_only=True)
class BlocksReport(Reported):
    """How a signal is divided into blocks: their ``counts`` and lengths along each axis, and the halo around them."""

    counts: list[int]
    lengths: list[int]
    halo: list[int]


@dataclass(frozen=True, kw_only=True)
class HumReport(Reported):
    """The hum of the mains that was removed from a sound: its fundamental in Hz, and which multiples of it were there.

    The multiple 1 is the fundamental itself.
    """

    frequency: float
    harmonics: list[int]

    def __str__(self) -> str:
        """Return the hum in words."""
        others = sum(k > 1 for k in self.harmonics)
        return f"hum of {self.frequency:.4g} Hz" + (f" and {others} harmonic{'s' * (others > 1)}" if others else "")


@dataclass(frozen=True, kw_only=True)
class BandingReport(Reported):
    """The standard deviation of the offsets of the rows and of the columns of a picture that were subtracted."""

    rows: float | None = None
    columns: float | None = None

    def __str__(self) -> str:
        """Return the banding in words."""
        found = [f"{name} of standard deviation {size:.2g}" for name, size in vars(self).items() if size is not None]
        return f"offsets of {' and of '.join(found)}"


@dataclass(frozen=True, kw_only=True)
class DenoiseReport(FitReport):
    """The report of a signal that noise was removed from.

    ``sigma`` is the standard deviation of the noise, ``sigma_given`` whether it was given. ``tried`` has the mean
    squared difference by which each prior was judged. ``expected_psnr`` is in dB, None without noise. ``noise`` has the
    kind of the noise, the floor and the gain of its variance, whether that is of the negative, and the share of the
    pixels that were lost. ``hum`` and ``banding`` are what was removed from a sound and from a picture before.
    ``tiles`` are the numbers of tiles along each axis and ``overlap`` the samples that they share, if a signal was cut
    into some, and ``blocks`` says how a Dask array is divided.
    """

    sigma: float
    sigma_given: bool
    expected_psnr: float | None
    tried: dict[str, float] | None = None
    noise: dict[str, Any] | None = None
    hum: HumReport | None = None
    banding: BandingReport | None = None
    tiles: list[int] | None = None
    overlap: int | None = None
    blocks: BlocksReport | None = None
