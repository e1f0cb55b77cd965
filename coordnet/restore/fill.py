"""Filling the missing values of labeled arrays: fields in time with clouds and land, tables, maps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from coordnet import _checks
from coordnet.encodings.encoding import PADDING, FourierEncoding
from coordnet.fitting.channel_groups import channel_groups, fit_by_channel
from coordnet.fitting.choice import choose_prior
from coordnet.fitting.fit import EncoderChoice, fit
from coordnet.networks.fit_reports import FitReport
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.base import REQUIRED, Prior, as_prior
from coordnet.restore.blocks import Blocks, bytes_to_fit
from coordnet.restore.labeled import Labeled
from coordnet.restore.restored import FillReport, fit_large
from coordnet.sampling.arrays import is_divided
from coordnet.sampling.grids import Lattice, MaskedLattice
from coordnet.sampling.rectilinear import RectilinearLattice
from coordnet.sampling.samples import Samples

# Names in an encoding of how values are packed into integers, whose range would not suit deviations.
PACKING = ("dtype", "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "valid_range")
NOTHING_TO_FILL = FillReport(prior="none")
MOST_AT_TIMES = 2**12  # values of a field fitted at irregular times: these take 7 s on one core, 60,000 three minutes
UNEQUAL = 1e-3  # relative difference of distances of coordinates from which on they are not equal

At = Literal["coordinates", "numbers"] | None  # see ``FillReport``
Signal = Float[np.ndarray, "*grid channels"]
Mask = Bool[np.ndarray, "*grid channels"]


class Filled(NamedTuple):
    """A labeled array without the gaps that were asked for, the deviations of errors there, and the fit's report."""

    array: Any
    std: Any | None
    report: FillReport


def fill(
    array: Any,
    dim: str | Sequence[str] | None = None,
    *,
    max_gap: Any = None,
    valid: Any = None,
    uncertainty: bool = False,
    period: Mapping[str, float] | None = None,
    prior: Prior | Literal["auto"] = "auto",
    seed: int | None = None,
    memory: int | None = None,
    progress: bool = False,
) -> Filled:
    """Fill the missing values of an ``xarray.DataArray``; the others stay as they are, to the bit.

    An array of Dask's is filled when it is computed, in overlapping blocks of space if it is large, under a prior that
    some of the blocks teach now. Each is a task, so that the array may be larger than memory.

    Parameters
    ----------
    array : xarray.DataArray
        Real numbers; those that are NaN are missing. Coordinates increase or decrease, at equal or unequal distances. A
        field at unequal ones is fitted at their numbers too, as hidden values tell which of both suits it.
    dim : str or sequence of str, optional
        The dimensions of the signal, by default those with numbers or times as coordinates. The others hold channels;
        groups that do not tell of each other are filled one by one (see ``cn.fit``).
        A dimension of time, by its coordinates, their units or its name, may be anywhere.
    max_gap : number or duration, optional
        The longest gap that is filled, along time or the only dimension: the distance of the values before and after
        it, in units of the coordinates, or for times in days or a duration such as "12h". A gap at an end reaches to
        that end.
    valid : DataArray or array of bool, optional
        Where values are wanted; others stay missing. By default these are, in a field of several times, the points that
        at least one frame knows, so that land stays NaN; elsewhere all.
    uncertainty : bool
        Whether to find the deviations too, by six more fits (see ``Reconstruction.interval``).
    period : mapping, optional
        The period of the coordinates of dimensions, such as {"lon": 360}. By default longitudes that go around are
        periodic; with an empty mapping nothing is.
    prior : Prior or "auto"
        The assumption about the values; see ``cn.fit``.
    seed : int, optional
        The seed of the hidden samples that decide the prior.
    memory : int, optional
        The bytes that filling one block of a Dask array takes at most; about 1.5 GiB if not given.
    progress : bool
        Whether to show bars.

    Returns
    -------
    Filled
        ``array`` has the name, dimensions, coordinates, attributes, encoding and type of the one that was given;
        integers and float16 become float64. ``std`` is the standard deviation of the errors, 0 where values are known
        and NaN where they are missing still, None if it was not asked for; its encoding packs nothing into integers.
        ``report`` has the prior that was used, "none" if there was nothing to fill, and the report of the fit, None
        for a Dask array.

    Raises
    ------
    ValueError
        If there is no known value, one is infinite, coordinates are not monotonic, or a mask, a dimension or a gap does
        not fit. Also if the memory does not suffice for a block or a chunk of a Dask array, or its coordinates are
        unequal in blocks.
    """
    labeled = Labeled.of(array, dim)
    signal, mask = labeled.signal(), None if valid is None else labeled.mask(valid)
    limit, channels = None if max_gap is None else labeled.longest_gap(max_gap), signal.shape[-1]
    numbers = tuple(labeled.positions(d) for d in labeled.axes)
    gaps = Gaps(numbers, labeled.has_time, limit, prior, seed, uncertainty, progress)
    if is_divided(signal):
        around = [j for j, d in enumerate(labeled.axes) if labeled.period(d, period) is not None]
        made, report = _in_blocks(gaps, signal, mask, around, memory)
    else:
        signal, numbers, inside = labeled.wrapped(signal, period)
        mask = None if mask is None else labeled.wrapped(mask, period)[0]
        made, report = replace(gaps, numbers=tuple(numbers)).filled(signal, mask)
        made = made[inside]
    values = labeled.labeled(made[..., :channels])
    if not uncertainty:
        return Filled(values, None, report)
    std = labeled.labeled(made[..., channels:])
    std.attrs = {k: v for k, v in array.attrs.items() if k == "units"}
    std.encoding = {k: v for k, v in std.encoding.items() if k not in PACKING} | {"_FillValue": np.nan}
    return Filled(values, std.rename(f"{array.name or 'filled'}_std"), report)


def bytes_to_fill(array: Any, dim: str | Sequence[str] | None = None, *, uncertainty: bool = False) -> int:
    """Return about the peak memory in bytes of ``fill`` for an array in memory, with the options of that.

    Large arrays are fitted in tiles, unless deviations are asked for.
    """
    points = math.prod(Labeled.of(array, dim).lengths)
    return bytes_to_fit(points, array.size // points, array.dtype.itemsize, whole=uncertainty)


@dataclass(frozen=True)
class Gaps:
    """Which gaps of a signal are filled, and how; the names are those of ``fill``.

    ``numbers`` are the coordinates along the axes, the first of which may be time; ``max_gap`` is in their units.
    ``means`` (channels,) are the values of channels of which a block knows none, and ``encoder`` is that of all blocks
    that share a prior; by default it suits the samples.
    """

    numbers: tuple[np.ndarray, ...]
    has_time: bool
    max_gap: float | None
    prior: Prior | Literal["auto"]
    seed: int | None
    uncertainty: bool
    progress: bool
    means: Any = None
    encoder: EncoderChoice | None = None

    def filled(
        self, signal: Signal, valid: Mask | None = None
    ) -> tuple[Float[np.ndarray, "*grid all_channels"], FillReport]:
        """Return a signal without its gaps, with the deviations as further channels if asked for, and a report.

        A channel of which nothing is known stays missing. A ``ValueError`` is raised if there is no known value.
        """
        known = ~np.isnan(signal)
        if not known.any() and self.means is None:
            raise _checks.wrong("array", "a value that is not NaN", "NaN alone")
        wanted = ~known & (self._wanted(known) if valid is None else valid)
        if self.max_gap is not None:
            wanted &= _short(known, self.numbers[0], self.max_gap)
        estimate, deviations, report = (
            self.estimated(signal, known) if wanted.any() else (signal, None, NOTHING_TO_FILL)
        )
        parts = [np.where(wanted, estimate, signal)]
        if self.uncertainty:
            unknown = signal if deviations is None else deviations
            parts.append(np.where(wanted, unknown, np.where(known, signal.dtype.type(0), np.nan)))
        return np.concatenate(parts, -1) if self.uncertainty else parts[0], report

    def estimated(self, signal: Signal, known: Mask) -> tuple[Signal, Signal | None, FillReport]:
        """Return the values of a fit at the nodes of a signal, their deviations if asked for, and the report.

        A channel of which nothing is known has its mean, or NaN where there are no ``means``.
        """
        seen = known.any(tuple(range(known.ndim - 1)))
        if self.means is None and not seen.all():
            estimate, deviations = np.full_like(signal, np.nan), np.full_like(signal, np.nan)
            estimate[..., seen], of_seen, report = self.estimated(signal[..., seen], known[..., seen])
            if of_seen is not None:
                deviations[..., seen] = of_seen
            return estimate, deviations, report
        if self.means is not None and not seen.any():
            return np.broadcast_to(self.means, signal.shape), np.full_like(signal, np.nan), NOTHING_TO_FILL
        if self.means is not None:  # a fit needs a known value in each channel
            signal = np.where(seen, signal, self.means.astype(signal.dtype))
        samples = self.samples(signal)
        made, fitted, at = self._fitted(samples)
        if isinstance(made, torch.Tensor):
            if self.uncertainty:
                raise _checks.wrong("uncertainty", "an array that is fitted as a whole", f"{samples.grid}, in tiles")
            estimate, deviations = made.numpy(), None
        else:
            deviations = made.std().numpy() if self.uncertainty else None
            estimate = made.render(alignment="sample").detach().numpy()
        if self.means is not None:
            estimate = np.where(seen, estimate, self.means)
            deviations = None if deviations is None else np.where(seen, deviations, np.nan)
        return estimate, deviations, FillReport(prior=fitted.used(self.chosen(samples).name), fit=fitted, at=at)

    def _fitted(self, samples: Samples) -> tuple[Reconstruction | torch.Tensor, FitReport, At]:
        """Return the fit of samples, or their values if they are fitted in tiles, its report, and where they lie.

        Fields at unequal coordinates, such as depths or irregular times, are fitted at the numbers of these too.
        Hidden samples tell which of both suits it.
        """
        made = fit_large(samples, self.fit, progress=self.progress)
        if samples.on_even_nodes() is samples:
            return *made, None
        if len(samples.grid) == 1:
            return *made, "coordinates"
        numbered = MaskedLattice(samples.grid, weights=samples.geometry.full_weights)
        other = fit_large(Samples(numbered, samples.values), self.fit, progress=self.progress)
        own, others = (math.nan if (psnr := report.best_psnr()) is None else psnr for _, report in (made, other))
        return (*other, "numbers") if others > own else (*made, "coordinates")

    def samples(self, signal: Signal) -> Samples:
        """Return the samples of a signal: of frames in time and of blocks on the lattice of their nodes.

        Blocks of others have equally spaced coordinates. Series, and small fields of two axes, are at their times.
        """
        lengths, axes = tuple(map(len, self.numbers)), len(self.numbers)
        has_frames = self.has_time and (axes > 2 or (axes == 2 and math.prod(lengths) > MOST_AT_TIMES))
        is_block = lengths != signal.shape[:-1]
        lattice = Lattice(signal.shape[:-1]) if has_frames or is_block else RectilinearLattice(*self.numbers)
        return lattice.sample(torch.from_numpy(signal))

    def fit(self, samples: Samples) -> Reconstruction:
        """Fit samples under the prior that is chosen for them."""
        options: Any = {"encoder": self.encoder, "progress": self.progress}
        return fit_by_channel(samples, lambda part: fit(part, prior=self.chosen(part), **options))

    def chosen(self, samples: Samples) -> Prior:
        """Return the prior for some samples, which knows the times of frames."""
        prior = choose_prior(samples, learned=True) if self.prior == "auto" else as_prior(self.prior, REQUIRED)
        assert prior is not None, "a prior that learns"
        prior = prior.in_time(tuple(self.numbers[0].tolist())) if self.has_time else prior
        return prior if self.seed is None else prior.seeded(self.seed)

    def block(self, signal: Signal, valid: Mask | None = None) -> Float[np.ndarray, "*grid all_channels"]:
        """Return a block of a signal without its gaps, in its own type; see ``filled``."""
        return self.filled(signal, valid)[0].astype(signal.dtype, copy=False)

    def _wanted(self, known: Mask) -> Mask:
        """Return where values are wanted if nothing else is said: everywhere but at points that no frame knows.

        A single frame does not tell land from clouds, and is filled as a map is.
        """
        has_frames = self.has_time and len(known) > 1
        return np.broadcast_to(known.any(0, keepdims=True), known.shape) if has_frames else np.ones_like(known)


def _in_blocks(gaps: Gaps, signal: Any, valid: Any, around: list[int], memory: int | None) -> tuple[Any, FillReport]:
    """Return a Dask array without its gaps, which are filled when it is computed, and a report.

    The prior is learned from some blocks and shared by all; a block alone learns its own.
    """
    blocks = Blocks.of(signal, range(int(gaps.has_time), signal.ndim - 1), around, memory)
    used = "auto" if gaps.prior == "auto" else as_prior(gaps.prior, REQUIRED).name
    gaps = replace(gaps, progress=False)
    some = list(blocks.sample(has_gaps)) or list(blocks.sample(has_values))
    if not some:
        raise _checks.wrong("array", "a value that is not NaN", "NaN alone")
    if any(blocks.halo):
        check_divisible(gaps)
    if len(blocks) > 1:
        gaps, used = taught(gaps, some)
    channels = signal.shape[-1] * (2 if gaps.uncertainty else 1)
    made = blocks.map(gaps.block, *(() if valid is None else (valid,)), channels=channels)
    return made, FillReport(prior=used, blocks=blocks.report())


def taught(gaps: Gaps, some: list[np.ndarray]) -> tuple[Gaps, str]:
    """Return how gaps are filled with what some blocks of the signal teach, and the prior that this takes.

    Blocks of several groups of channels teach nothing: each block is filled under what it learns itself.
    """
    samples = [gaps.samples(block) for block in some]
    prior = gaps.chosen(samples[0])
    means = np.nanmean(np.stack(some), axis=tuple(range(some[0].ndim)), dtype=np.float64)
    if any(len(channel_groups(part)) > 1 for part in samples):
        return replace(gaps, means=means), prior.name
    encoder = None
    if prior.learns and len(samples[0].grid) <= 2:  # one padding for all gaps: a spectrum has the modes of one lattice
        encoder = EncoderChoice(FourierEncoding, {"padding": PADDING})
    fits = [fit(part, encoder=encoder, prior=prior) for part in samples]
    prior = prior.taught([(made.report, made.learned) for made in fits])
    taught = replace(gaps, prior=prior, seed=None, means=means, encoder=encoder)
    return taught, fits[0].report.used(prior.name)


def has_gaps(block: Signal) -> bool:
    """Return whether some values of a block are missing, and others of each channel are not."""
    missing = np.isnan(block)
    return bool(missing.any() and not missing.all(tuple(range(block.ndim - 1))).any())


def has_values(block: Signal) -> bool:
    """Return whether a block has a value that is not missing."""
    return not bool(np.isnan(block).all())


def check_divisible(gaps: Gaps) -> None:
    """Refuse arrays without time in blocks with halos that have unequal coordinates, or a longest gap.

    A ``ValueError`` is raised for them.
    """
    if gaps.has_time:
        return
    if gaps.max_gap is not None:
        raise _checks.wrong("max_gap", "None, for an array without time that is filled in blocks", gaps.max_gap)
    for x in gaps.numbers:
        if len(x) > 2 and np.ptp(np.diff(x)) > UNEQUAL * abs(x[-1] - x[0]) / (len(x) - 1):
            raise _checks.wrong("array", "equally spaced coordinates where it is filled in blocks", "unequal ones")


def _short(known: Mask, x: np.ndarray, limit: float) -> Mask:
    """Return where gaps along the first axis are at most as long as allowed, in units of its coordinates."""
    count = len(x)
    number = np.arange(count).reshape((-1,) + (1,) * (known.ndim - 1))
    before = np.maximum.accumulate(np.where(known, number, 0), 0)
    after = np.minimum.accumulate(np.where(known, number, count - 1)[::-1], 0)[::-1]
    return x[after] - x[before] <= limit
