"""Reports of a fit: one class for each kind, with fields that records and saved models hold by their names."""

from dataclasses import MISSING, dataclass, fields
from typing import Any


class Reported:
    """A dataclass whose fields records hold by their names."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON holds them, except those of default None that do not concern the fit."""
        present = {f.name: (getattr(self, f.name), f.default is MISSING) for f in fields(self)}  # type: ignore[arg-type]
        return {name: _plain(value) for name, (value, always) in present.items() if always or value is not None}


@dataclass(frozen=True, kw_only=True)
class FitReport(Reported):
    """How a fit was made, and how well it is expected to be. Fields that do not concern a fit are None.

    ``method`` is the algorithm, and ``prior`` the assumption about the signal, "none" for least squares and least norm;
    it is None for training and for each signal of a batch. ``iterations`` are the steps of the last iterative solve,
    and ``relative_residual`` is the norm of its residual, relative to the right-hand side. ``hold_out_psnr`` has the
    PSNR in dB at hidden samples, as of values in [0, 1], of everything that was weighed there. ``device`` is that of
    the solve, where it is not that of the samples.
    """

    method: str | None = None
    prior: str | None = None
    iterations: int | None = None
    relative_residual: float | None = None
    hold_out_psnr: dict[str, float] | None = None
    device: str | None = None

    @property
    def each(self) -> list["FitReport"]:
        """The reports of all fits that this one consists of."""
        return [self]

    def best_psnr(self, *, wide: bool = False) -> float | None:
        """Return the best PSNR at hidden samples; for ``wide`` holes that of hidden copies of them. None without."""
        return max(self.hold_out_psnr.values()) if self.hold_out_psnr and not wide else None

    def used(self, prior: str) -> str:
        """Return the text of the prior that was used, where another one was asked for: by default that one."""
        return prior


@dataclass(frozen=True, kw_only=True)
class LeastSquaresReport(FitReport):
    """The report of least squares, or of a fit under a smoothness prior.

    ``ranks`` are the numbers of modes along each axis, and ``degrees_of_freedom`` is the trace of the map from values
    to fitted values. ``loss`` is "huber" for a robust fit, and ``limit`` the size from which residuals count linearly.
    """

    ranks: list[int]
    degrees_of_freedom: float | None = None
    loss: str | None = None
    limit: float | None = None


@dataclass(frozen=True, kw_only=True)
class PowerLaw(Reported):
    """The prior from which a spectrum was learned, and the PSNR in dB at hidden samples after each round from there."""

    power: float
    strength: float
    anisotropy: float | list[float]
    hold_out_psnr: list[float] | None = None


@dataclass(frozen=True, kw_only=True)
class AdaptiveReport(FitReport):
    """The report of a fit under a spectrum that was learned from the samples.

    ``rounds`` of learning were taken from the prior ``start``. ``tried`` has every start that hidden samples were met
    from. ``tolerance`` is the relative residual of the solves that were learned from, and ``sigma`` the standard
    deviation of the noise on measurements.
    """

    rounds: int
    tolerance: float | None = None
    start: PowerLaw | None = None
    tried: list[PowerLaw] | None = None
    sigma: float | None = None

    def best_psnr(self, *, wide: bool = False) -> float | None:
        """Return the best PSNR of all rounds; see ``FitReport``."""
        scores = [psnr for start in self.tried or () for psnr in start.hold_out_psnr or ()]
        return None if wide else max(scores, default=None)


@dataclass(frozen=True, kw_only=True)
class WideHolesReport(AdaptiveReport):
    """The report of an adaptive fit of samples with wide holes.

    ``gap_psnr`` is the PSNR in dB in hidden copies of them, None where they are wider than what is known around them.
    """

    gap_psnr: float | None

    def best_psnr(self, *, wide: bool = False) -> float | None:
        """Return the best PSNR of all rounds, or that of hidden holes; see ``FitReport``."""
        return self.gap_psnr if wide else super().best_psnr()


@dataclass(frozen=True, kw_only=True)
class EvolvingReport(FitReport):
    """The report of a fit of frames in time, with the numbers of each channel in lists.

    ``bands`` are the bands of spatial frequencies, ``stretch`` the factors of the frequencies along each axis by which
    they are elliptic, and ``sigma`` is the standard deviation of the noise. ``rounds`` are the rounds of learning that
    were kept, and ``hidden_errors`` the root mean square of the errors at hidden samples after each round.
    """

    bands: list[int]
    stretch: list[list[float]]
    sigma: list[float]
    rounds: list[int]
    hidden_errors: list[list[float]]


@dataclass(frozen=True, kw_only=True)
class PlateReport(FitReport):
    """The report of a fit by thin plates.

    ``order`` is that of the derivatives whose squares are least, ``cutoff`` the frequency above which samples count as
    noise, None where they are interpolated, and ``corner`` the frequency below which the energy is that of white noise,
    0 for none. ``tried`` has these numbers and the squared error at hidden samples of all plates that were compared.
    ``beyond_samples`` is the share of the nodes beyond the outermost samples. ``drift`` has the coefficients of each
    column of a drift, one for each channel.
    """

    order: int | float
    cutoff: float | None
    tried: list[dict[str, Any]]
    beyond_samples: float
    corner: float = 0.0
    drift: dict[str, list[float]] | None = None


@dataclass(frozen=True, kw_only=True)
class KrigingReport(FitReport):
    """The report of kriging: the numbers of the covariance, with a ``smoothness`` of None for the Gaussian one."""

    smoothness: float | None
    scale: float | list[float]
    nugget: float
    angle: float = 0.0


@dataclass(frozen=True, kw_only=True)
class PatchWeight(Reported):
    """The weight ``alpha`` that hidden samples gave to patches, or to groups of similar patches.

    ``against`` names the reconstruction that is weighed against, and ``hold_out_psnr`` has the PSNR in dB at hidden
    samples without the weight and with it.
    """

    alpha: float | None = None
    against: str | None = None
    hold_out_psnr: dict[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class LocalReport(PatchWeight, FitReport):
    """The report of a fit by the posterior means of patches.

    ``patch`` has the lengths of a patch, ``classes`` is the number of their Gaussian classes, and ``groups`` has the
    weight of each pass of groups of similar patches, None where they have none. ``pilot`` is the report of the fit
    before, to which the iterations and the residual belong. ``noise`` is the standard deviation of what was removed.
    ``colors`` is the factor on the energy of fine color differences, None where a mosaic's are those of photographs.
    """

    iterations: int = 0
    relative_residual: float = 0.0
    patch: list[int] | None = None
    groups: list[PatchWeight] | None = None
    pilot: FitReport | None = None
    noise: float | None = None
    classes: int | None = None
    colors: float | None = None

    def best_psnr(self, *, wide: bool = False) -> float | None:
        """Return the best PSNR of patches and pilot; see ``FitReport``."""
        if self.pilot is None or (self.hold_out_psnr and not wide):
            return super().best_psnr(wide=wide)
        return self.pilot.best_psnr(wide=wide)

    def used(self, prior: str) -> str:
        """Return "adaptive" where hidden samples gave neither patches nor groups a weight; see ``FitReport``."""
        return "adaptive" if self.pilot is not None and self.alpha == 0 and self.groups is None else prior


@dataclass(frozen=True, kw_only=True)
class DenoiserReport(FitReport):
    """The report of a fit that a ``denoiser`` refined, with its ``weight`` against the fit it started at, ``start``.

    The ``kind`` is the name of its prior. The iterations and the residual are those of the start.
    """

    denoiser: str
    weight: float
    start: FitReport
    kind: str = "denoiser"

    @classmethod
    def of(
        cls,
        start: FitReport,
        denoiser: str,
        weight: float,
        psnr: dict[str, float] | None,
        *,
        method: str = "plug-and-play",
        kind: str = "denoiser",
    ) -> "DenoiserReport":
        """Return the report of a fit that a denoiser refined by a method, with the PSNR at hidden samples."""
        return cls(
            method=f"{method} with {denoiser}, after {start.method}",
            denoiser=denoiser,
            kind=kind,
            weight=weight,
            start=start,
            iterations=start.iterations,
            relative_residual=start.relative_residual,
            hold_out_psnr=psnr,
        )

    def best_psnr(self, *, wide: bool = False) -> float | None:
        """Return the PSNR at hidden samples, or that of the fit it started at; see ``FitReport``."""
        return super().best_psnr() if self.hold_out_psnr and not wide else self.start.best_psnr(wide=wide)

    def used(self, prior: str) -> str:
        """Return the denoiser's name; see ``FitReport``."""
        return f"{self.kind}:{self.denoiser}"


@dataclass(frozen=True, kw_only=True)
class Candidate(Reported):
    """A prior that was weighed: its PSNR in dB at hidden samples, as of values in [0, 1], and its weight."""

    prior: str
    weight: float
    hold_out_psnr: float | None = None


@dataclass(frozen=True, kw_only=True)
class StackReport(FitReport):
    """The report of a weighted sum of fits."""

    candidates: list[Candidate]  # every prior that was tried at hidden samples or has a weight
    # The reports of the fits that have a weight, the one with the largest first; the iterations and the residual are
    # those of that one.
    fits: list[FitReport]

    def best_psnr(self, *, wide: bool = False) -> float | None:
        """Return the PSNR of the sum; see ``FitReport``.

        Candidates are compared in windows of a large signal. The PSNR of the first fit at all samples that it hid is
        that of the whole signal, to which the gain of the sum in the windows is added.
        """
        own, weighed = self.fits[0].best_psnr(wide=wide), super().best_psnr()
        compared = {candidate.prior: candidate.hold_out_psnr for candidate in self.candidates}
        alone = compared.get(str(self.fits[0].prior))
        if wide or own is None or weighed is None or alone is None:
            return own if wide else weighed
        return own + weighed - alone

    def used(self, prior: str) -> str:
        """Return the candidates that have a weight, with their weights if there are several; see ``FitReport``."""
        texts = [str(fit.prior) for fit in self.fits]
        weights = {candidate.prior: candidate.weight for candidate in self.candidates}
        if len(texts) == 1:
            return self.fits[0].used(texts[0])
        return " + ".join(f"{weights[text]:.2f} {text}" for text in texts)


@dataclass(frozen=True, kw_only=True)
class VariationReport(FitReport):
    """The report of total variation among noise; ``strength`` is its weight, in units of the values."""

    strength: float


@dataclass(frozen=True, kw_only=True)
class WeighedVariationReport(AdaptiveReport):
    """The report of an adaptive fit of measurements, to which one of least total variation was added.

    ``candidates`` are both, and ``strength`` is that of the total variation; the PSNR of their sum at hidden values is
    beside theirs, None where none were hidden.
    """

    candidates: list[Candidate]
    strength: float

    def best_psnr(self, *, wide: bool = False) -> float | None:
        """Return None: hidden values are none of the signal's own."""
        return None

    def used(self, prior: str) -> str:
        """Return the candidates that have a weight, with their weights if there are several; see ``FitReport``."""
        used = [c for c in self.candidates if c.weight]
        return used[0].prior if len(used) == 1 else " + ".join(f"{c.weight:.2f} {c.prior}" for c in used)


@dataclass(frozen=True, kw_only=True)
class TrainingReport(FitReport):
    """The report of a network's training: the ``epochs``, the ``loss`` of the last one, and the ``learning_rate``."""

    epochs: int
    loss: float
    learning_rate: float


def report_from(record: dict[str, Any]) -> FitReport:
    """Return the report whose ``as_dict`` is a record, of the kind with the fewest fields that has all of its names.

    Names that no kind has are left out.
    """
    report = _read(record)
    if isinstance(report, FitReport):
        return report
    return FitReport(**{f.name: record[f.name] for f in fields(FitReport) if f.name in record})


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value.as_dict() if isinstance(value, Reported) else value


def _read(value: Any) -> Any:
    """Return plain data with a report in the place of every dictionary that has the names of one."""
    if isinstance(value, list):
        return [_read(part) for part in value]
    if not isinstance(value, dict):
        return value
    names, parts = value.keys(), {name: _read(part) for name, part in value.items()}
    for kind in sorted(_kinds(Reported), key=lambda kind: len(fields(kind))):
        required = {f.name for f in fields(kind) if f.default is MISSING}
        if parts and required <= names <= {f.name for f in fields(kind)}:
            return kind(**parts)
    return parts


def _kinds(kind: type) -> list[Any]:
    return [below for sub in kind.__subclasses__() for below in (sub, *_kinds(sub))]
