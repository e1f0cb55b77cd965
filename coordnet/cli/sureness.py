"""The results of ``--uncertainty``: the standard deviation of the expected errors, and the expected PSNR."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.comparison.stopwatch import once
from coordnet.fitting.methods import Method
from coordnet.media import Media, write_media
from coordnet.metrics.scores import Scoring
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.fits import uncertainty_figure
from coordnet.restore.tiles import Tiles
from coordnet.sampling.samples import Samples


@dataclass(frozen=True)
class Sureness:
    """The standard deviation of a fit's errors, and the numbers on it for the record."""

    std: Tensor
    found: dict[str, Any]

    @classmethod
    def of(cls, fit: Reconstruction, span: float, scoring: Scoring | None = None) -> "Sureness":
        """Measure by six more fits; with ``scoring``, find the share of held-out samples in intervals of 90 %."""
        (lower, upper), seconds = once(fit.interval)
        found: dict[str, Any] = {"expected_psnr": fit.expected_psnr(span), "seconds": seconds}
        if scoring is not None:
            found["coverage"] = scoring.coverage(lower.cpu(), upper.cpu())
        return cls(fit.std(), found)

    @property
    def record(self) -> dict[str, Any]:
        """The part of a record on the uncertainty."""
        return {"uncertainty": self.found}


def check(samples: Samples, method: Method, *, asked: bool) -> None:
    """Raise ``ValueError`` if intervals are asked for that these samples or this method do not have."""
    if not asked:
        return
    with specs.naming_option("uncertainty"):
        samples.geometry.check_hideable()
    if method.solver != "closed-form":
        raise _checks.wrong("uncertainty", "a fit in closed form", "the gradient solver")
    if len(Tiles(samples.grid)) > 1:
        raise _checks.wrong("uncertainty", "a signal that is fitted as a whole", "one in tiles")


def write(folder: Path, sure: Sureness | None, media: Media) -> None:
    """Write the standard deviation of the expected errors, if there is one, as an array and as a picture."""
    if sure is None:
        return
    write_media(sure.std.detach().cpu().float(), folder / "uncertainty.npy")
    title = f"standard deviation of the errors\nexpected PSNR {report.decibels(sure.found['expected_psnr'])}"
    uncertainty_figure(sure.std, title, rate=media.rate).savefig(folder / "uncertainty.png", dpi=110)
