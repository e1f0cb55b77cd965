"""Restored signals, and the overlapping tiles in which those too large for one fit are restored and blended."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.linalg.kronecker import outer_product
from coordnet.linalg.machine import in_threads, release_freed
from coordnet.networks.fit_reports import FitReport, Reported
from coordnet.networks.noise_reports import BlocksReport, DenoiseReport
from coordnet.networks.reconstruction import Reconstruction
from coordnet.networks.several_reports import TiledReport
from coordnet.plans.hold_out import middle
from coordnet.sampling.noise_model import NoiseModel
from coordnet.sampling.samples import Samples

MAX_POINTS = 2**22  # points of the largest lattice that is not cut into tiles
FIGURE_POINTS = 2**18  # points of the middle of a lattice in tiles, which a figure shows
FEWER = 4  # a tile has at most a quarter of the points of the largest uncut lattice
FEW_HOLES = 6  # holes below which errors at hidden copies of them tell little of those inside
# Root mean square, in dB, by which the hold-out PSNR was off on 32 crops of photographs with two to five holes.
FEW_HOLES_MARGIN = 4.0
OVERLAP = {1: 1024, 2: 64, 3: 16, 4: 8}  # samples that neighboring tiles share along an axis, by the number of axes

Window = tuple[slice, ...]
Part = tuple[slice, Float[Tensor, " length"]]  # a part of an axis, and its weights


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

    ``known`` is the share of the samples that was known, and ``wide_holes`` says whether holes are wide. ``holes`` is
    their number, None where what is unknown are single points. A mosaic has a ``pattern``, and ``sigma`` is the
    standard deviation of the noise that was removed from it, in the mean over it.
    """

    known: float
    wide_holes: bool
    holes: int | None = None
    pattern: str | None = None
    sigma: float | None = None

    @property
    def psnr_margin(self) -> float:
        """The dB by which ``expected_psnr`` may well be off, as copies of few holes tell little of these; else 0."""
        return FEW_HOLES_MARGIN if self.holes is not None and self.holes < FEW_HOLES else 0.0


@dataclass(frozen=True, kw_only=True)
class FillReport(RestoredReport):
    """The report of a labeled array whose missing values were filled.

    ``at`` says where values at unequal coordinates were taken to lie: at their "coordinates" or, as if these were at
    equal distances, at their "numbers". It is None for coordinates at equal distances and for frames in time.
    """

    at: Literal["coordinates", "numbers"] | None = None


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
    prior: str = "none"
    noise: float | None = None
    strength: float | None = None
    sigma: str | None = None
    tried: dict[str, float] | None = None
    division: int | None = None
    divided: FitReport | None = None
    removed: list[dict[str, Any]] | None = None


Report = TypeVar("Report", bound=RestoredReport | DenoiseReport, covariant=True)


@dataclass(frozen=True, repr=False)
class Restored(Generic[Report]):
    """A restored signal, of the kind of array that was given, and how it was found.

    ``fit`` renders the signal at any resolution. ``report`` has what was chosen, and what the fit reports. The PSNR
    to expect, in dB, is that at samples that were hidden from the fit, or an estimate without them; None where neither
    is possible. ``std`` is the standard deviation of the errors to expect at every entry, where it was asked for.
    ``known`` is where the signal is the one that was given, to the bit. ``noise`` is the noise that was removed, where
    it was not white.
    """

    signal: Any  # (*grid, channels), or without the axis of channels where it was given so
    fit: Reconstruction | None  # None for a signal that was restored in tiles
    report: Report
    expected_psnr: float | None
    std: Tensor | None = None  # (*grid, channels), whatever kind of array was given
    known: Tensor | None = None  # bool, (*grid, channels), whatever kind of array was given; None for nowhere
    noise: NoiseModel | None = None

    def __repr__(self) -> str:
        """Return the kind and the shape of the signal, the prior, and the PSNR to expect."""
        expected = None if self.expected_psnr is None else round(self.expected_psnr, 2)
        signal = f"{type(self.signal).__name__} of {self.signal.dtype} and shape {tuple(self.signal.shape)}"
        return f"Restored(<{signal}>, prior={self.report.prior}, expected_psnr={expected})"


def has_opacity(values: Tensor) -> bool:
    """Return whether the last channel of pictures is opacity: of two, beside gray, or of four, beside three colors.

    No channel is, where a value is outside of [0, 1], as those of a vector field are.
    """
    return values.shape[-1] in (2, 4) and bool(((values >= 0) & (values <= 1)).all())


class Tiles:
    """The tiles of a lattice: one if it has at most ``largest`` points, else some with a quarter of that or fewer.

    The longest sides are cut first. Where tiles overlap, their weights fall linearly, and the sum of all weights is 1.
    """

    def __init__(self, grid: tuple[int, ...], largest: int | None = None) -> None:
        largest = MAX_POINTS if largest is None else _checks.integer("largest", largest, 1)
        lengths, self.overlap = list(grid), OVERLAP.get(len(grid), 0)
        self.counts = [1] * len(grid)
        while math.prod(grid) > largest and math.prod(lengths) > largest // FEWER:
            axis = max(range(len(grid)), key=lengths.__getitem__)
            if lengths[axis] <= 2 * self.overlap:
                break
            self.counts[axis] += 1
            lengths[axis] = _length(grid[axis], self.counts[axis], self.overlap)
        self.grid = grid
        self.parts = [_parts(n, count, self.overlap) for n, count in zip(grid, self.counts, strict=True)]

    def __len__(self) -> int:
        """Return the number of tiles."""
        return math.prod(self.counts)

    def __iter__(self) -> Iterator[Window]:
        """Yield the windows of the tiles on the lattice, row by row."""
        return itertools.product(*([window for window, _ in parts] for parts in self.parts))

    @property
    def middle(self) -> Window:
        """The middle of the lattice, from even positions on: all of it, or a part that a figure can show."""
        if len(self) == 1:
            return tuple(slice(0, n) for n in self.grid)
        part = middle(self.grid, FIGURE_POINTS)
        return tuple(slice(s.start // 2 * 2, s.start // 2 * 2 + s.stop - s.start) for s in part)

    def restore(
        self, work: Callable[[Window], Float[Tensor, "*tile channels"]], device: torch.device, *, progress: bool = False
    ) -> Float[Tensor, "*grid channels"]:
        """Return the blended results of some work on every tile, side by side on a CPU's cores, beneath a bar."""
        total: Tensor | None = None
        for window, share in self._shares(work, device, progress):
            total = share.new_zeros(*self.grid, share.shape[-1]) if total is None else total
            total[window] += share
        assert total is not None, "a lattice has a tile"
        return total

    def fill(
        self,
        work: Callable[[Window], Float[Tensor, "*tile channels"]],
        signal: Float[Tensor, "*grid channels"],
        unknown: Bool[Tensor, "*grid #channels"],
        *,
        progress: bool = False,
    ) -> None:
        """Write the blended results of some work into a signal that is 0 where it is unknown, and there alone.

        The work may read the signal: nothing is written before all of it is done, and until then the results at unknown
        nodes alone are kept.
        """
        shares = self._shares(work, signal.device, progress, lambda window, share: share.masked_select(unknown[window]))
        for window, share in list(shares):
            part, places = signal[window], unknown[window]
            part.masked_scatter_(places, part.masked_select(places).add_(share))

    def _shares(
        self,
        work: Callable[[Window], Tensor],
        device: torch.device,
        progress: bool,
        keep: Callable[[Window, Tensor], Tensor] = lambda window, share: share,
    ) -> Iterator[tuple[Window, Tensor]]:
        """Yield the window of each tile, and what is kept of the result there times its weights."""

        def share(parts: tuple[Part, ...]) -> tuple[Window, Tensor]:
            window = tuple(part for part, _ in parts)
            result = work(window)
            weights = outer_product([weights for _, weights in parts]).to(result)
            return window, keep(window, result * weights.unsqueeze(-1))

        with tqdm(total=len(self), desc="tiles", disable=not progress, dynamic_ncols=True) as bar:
            for of_tile in in_threads(share, itertools.product(*self.parts), device):
                yield of_tile
                bar.update()

    def report(self) -> dict[str, Any]:
        """Return what a record says of the tiles."""
        return {"tiles": self.counts, "overlap": self.overlap}


def crop(samples: Samples, window: Window) -> Samples:
    """Return the samples of a masked lattice in a window of it."""
    part = samples.part(window)
    assert part is not None, "the samples of a masked lattice"
    return part


def fit_large(
    samples: Samples,
    fit: Callable[[Samples], Reconstruction],
    *,
    largest: int | None = None,
    is_noisy: bool = False,
    in_place: bool = False,
    progress: bool = False,
) -> tuple[Reconstruction | Float[Tensor, "*grid channels"], FitReport]:
    """Return the model of some samples, or the signal itself where that is too large for one; and the fit's report.

    Samples of a masked lattice on the signal's own grid are cut into ``Tiles`` if it has more than ``largest`` points;
    the report is then a ``TiledReport``. Their fits run side by side and should show no bars. A tile that is known as a
    whole stays as it is, unless the samples are noisy; a channel of which a tile knows nothing gets the mean there of
    all its samples.
    With ``in_place`` the signal is the samples' own values, in which the unknown ones are replaced: large signals need
    no memory for another one.
    """
    tiles, geometry = Tiles(samples.grid, largest), samples.geometry
    is_grid = geometry.gaps is not None and geometry.shape == geometry.grid and geometry.footprint == "point"
    if len(tiles) == 1 or samples.weights is None or not is_grid:
        model = fit(samples)
        return model, model.report
    weights, places, reports = samples.weights, [*tiles], {}

    def render(window: Window) -> Tensor:
        values, known = samples.values[window], weights[window]
        if not bool((known > 0).any()):
            return samples.mean().expand_as(values)
        if not is_noisy and bool((known > 0).all()):
            return values
        part, seen = crop(samples, window), (known > 0).flatten(0, -2).any(0)
        is_seen = bool(seen.all())
        fitted = fit(part if is_seen else part.of_channels(seen))
        reports[places.index(window)] = fitted.report
        made = fitted.render(alignment="sample")
        return made if is_seen else samples.mean().expand_as(values).index_copy(-1, seen.nonzero()[:, 0], made)

    if in_place:
        made = samples.values
        tiles.fill(render, made, weights == 0, progress=progress)
    else:
        made = tiles.restore(render, samples.values.device, progress=progress)
    release_freed()  # the tiles' memory, before more is made of the signal
    return made, TiledReport(**tiles.report(), fits=[reports[place] for place in sorted(reports)])


def _length(length: int, count: int, overlap: int) -> int:
    """Return the length of each of ``count`` parts of an axis."""
    return -(-(length + (count - 1) * overlap) // count)


def _parts(length: int, count: int, overlap: int) -> list[Part]:
    size = _length(length, count, overlap)
    starts = [round(k * (length - size) / max(1, count - 1)) for k in range(count)]
    position = torch.arange(size, dtype=torch.float64)
    ramp = torch.minimum(position + 1, size - position).clamp(max=overlap)
    total = torch.zeros(length, dtype=torch.float64)
    for start in starts:
        total[start : start + size] += ramp
    windows = [slice(start, start + size) for start in starts]
    return [(window, ramp / total[window]) for window in windows]
