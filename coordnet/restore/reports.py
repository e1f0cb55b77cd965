"""Reports of restored signals: what was chosen beside the reports of their fits. ``DenoiseReport`` is one as well."""

from dataclasses import dataclass
from typing import Any

from coordnet.networks.fit_reports import BlocksReport, FitReport, Reported


@dataclass(frozen=True, kw_only=True)
class RestoredReport(Reported):
    """How a signal was restored. Fields that do not concern it are None.

    ``prior`` is what was used: its name, or those of several with their weights. ``fit`` is the report of the fit, or
    of the fits of tiles. ``blocks`` says how a Dask array is divided, whose blocks are fitted when it is computed.
    """

    prior: str
    fit: FitReport | None = None
    blocks: BlocksReport | None = None


@dataclass(frozen=True, kw_only=True)
class InpaintReport(RestoredReport):
    """The report of a signal whose unknown samples were filled.

    ``known`` is the share of the samples that was known, and ``wide_holes`` says whether holes are wide. A mosaic has a
    ``pattern``, and ``sigma`` is the standard deviation of the noise that was removed from it, in the mean over it.
    """

    known: float
    wide_holes: bool
    pattern: str | None = None
    sigma: float | None = None


@dataclass(frozen=True, kw_only=True)
class UpscaleReport(RestoredReport):
    """The report of a picture that was enlarged.

    ``samples`` are "area" or "point". ``noise`` is the standard deviation of the noise of areas, and ``strength`` the
    smoothing that suits it. ``sigma`` is the width of the Gaussians through points, and ``tried`` has the PSNR in dB of
    each width by which the picture was enlarged from its half. ``division`` is the number of parts along its sides into
    which the prior divided a pixel, and ``divided`` the report of that. ``removed`` says of each picture what noise was
    removed from it before.
    """

    samples: str
    noise: float | None = None
    strength: float | None = None
    sigma: str | None = None
    tried: dict[str, float] | None = None
    division: int | None = None
    divided: FitReport | None = None
    removed: list[dict[str, Any]] | None = None
