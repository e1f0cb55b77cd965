"""Reports of several fits: of signals or channels that were fitted one by one, and of overlapping tiles."""

import statistics
from dataclasses import dataclass

from coordnet.metrics.scores import decibels
from coordnet.networks.fit_reports import FitReport


class SeveralReports(FitReport):
    """The report of several fits."""

    def used(self, prior: str) -> str:
        """Return what was used in all of the fits, or the prior that was asked for if that differs among them."""
        used = {report.used(prior) for report in self.each}
        return used.pop() if len(used) == 1 else prior


@dataclass(frozen=True, kw_only=True)
class BatchReport(SeveralReports):
    """The report of signals, or of groups of channels, that were fitted one by one.

    It has the worst of their numbers, and the report of each.
    """

    signals: list[FitReport]

    @classmethod
    def of(cls, reports: list[FitReport]) -> "BatchReport":
        """Return the report of signals that were fitted one by one; the prior is theirs if that is one."""
        priors = {report.prior for report in reports}
        return cls(
            method=reports[0].method,
            prior=priors.pop() if len(priors) == 1 else None,
            iterations=max(report.iterations or 0 for report in reports),
            relative_residual=max(report.relative_residual or 0.0 for report in reports),
            signals=reports,
        )

    @property
    def each(self) -> list[FitReport]:
        return self.signals

    def best_psnr(self, *, wide: bool = False) -> float | None:
        """Return the mean over the signals that have a PSNR; see ``FitReport``."""
        scores = [psnr for report in self.signals if (psnr := report.best_psnr(wide=wide)) is not None]
        return statistics.fmean(scores) if scores else None


@dataclass(frozen=True, kw_only=True)
class TiledReport(SeveralReports):
    """The report of a signal that was fitted in overlapping tiles.

    ``tiles`` are their numbers along each axis, and ``overlap`` the samples that neighbors share. ``fits`` has the
    reports of the tiles that were not known as a whole.
    """

    tiles: list[int]
    overlap: int
    fits: list[FitReport]

    @property
    def each(self) -> list[FitReport]:
        return self.fits

    def best_psnr(self, *, wide: bool = False) -> float | None:
        """Return the PSNR of the mean squared error over tiles; None if one of ``wide`` holes has none."""
        scores = [report.best_psnr(wide=wide) for report in self.fits]
        errors = [10 ** (-psnr / 10) for psnr in scores if psnr is not None]
        return None if not errors or (wide and None in scores) else decibels(statistics.fmean(errors))
