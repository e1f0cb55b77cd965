"""Denoising: noise on all samples of a signal is removed by a prior, from large arrays block by block."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import FourierEncoding
from coordnet.fitting.choice import LONGEST_FIT
from coordnet.linalg.borders import make_periodic
from coordnet.linalg.machine import full_precision
from coordnet.networks.noise_reports import DenoiseReport, HumReport
from coordnet.networks.reconstruction import Reconstruction
from coordnet.noise.white import refuse_more_than
from coordnet.plans.hold_out import middle
from coordnet.plans.plan import CenteredValues, Fitted, Plan
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Prior, Setting
from coordnet.priors.local import Local
from coordnet.restore.banding import without_banding
from coordnet.restore.blocks import Block, Blocks, DaskArray
from coordnet.restore.cleaners import Cleaned, Noise, Signal, cleaned
from coordnet.restore.denoise_choice import Settled, asked_prior, check_values, described, expected_psnr, settled
from coordnet.restore.hum import without_hum
from coordnet.restore.impulses import may_have_faults, without_lost
from coordnet.restore.restored import Restored, Tiles, Window, has_opacity
from coordnet.restore.unlike_columns import ColumnsApart
from coordnet.sampling.arrays import Array, ArrayKind, as_signal, count_axes, is_divided
from coordnet.sampling.axes import Axis
from coordnet.sampling.grids import Lattice
from coordnet.sampling.jpeg import JpegIntervals
from coordnet.sampling.noise_model import NoiseModel

# Least share of a JPEG picture's values at an end of its range that shows a white or black ground, whose rings are
# clipped. Where only letters and edges have rings there, smooth surfaces near that end hardly have any, and are known
# as they are: colored text, screenshots and photographs with 1 to 9 % of such values gain 0.03 to 0.3 dB, gray text
# with 17 % and 45 % would lose 0.28 and 0.15.
CLIPPED_RINGS = 0.1
PROBED = 8  # one tile in eight is filtered twice, to estimate the remaining error
LEARNED = 2**18  # points of the middle of a block by which it decides on the noise and the prior


@full_precision()
def denoise(
    signal: Array | DaskArray,
    sigma: float | None = None,
    *,
    noise: NoiseModel | JpegIntervals | str = "auto",
    prior: Prior | Literal["auto"] = "auto",
    rate: float | None = None,
    alpha: bool | None = None,
    dimensions: int | None = None,
    seed: int = 0,
    largest: int | None = None,
    memory: int | None = None,
    progress: bool = False,
) -> Restored[DenoiseReport]:
    """Remove Gaussian noise, white or not, by a prior that is adapted to the very signal.

    The local prior has Gaussian classes of small patches, and then filters groups of similar patches, of other frames
    too (see ``LocalDenoiser``). The adaptive prior has one spectrum for the full signal and one for every window (see
    ``wiener_filter``). Kriging has one covariance for the full signal, and finds its own level of the noise with it.
    Total variation has constant parts, with a strength that Stein's estimate of the error chooses.
    Where values were clipped after the noise came, their noise has less variance and a mean of its own (see
    ``ClippedNoise``): the filters take the former, and the result is freed from the latter. Channels of a plane that do
    not tell of each other (``channel_groups``) are filtered apart, with the noise that all have; columns of rows whose
    noise differs in size are filtered apart, each with its own level and prior (see ``ColumnsApart``).

    Parameters
    ----------
    signal : NumPy array, tensor or Dask array, (*grid, channels), or (height, width) for a gray picture
        A signal of one to four axes; integers of 8 and 16 bits are scaled to [0, 1]. A Dask array is denoised
        when it is computed, in overlapping blocks, of which some decide now on the noise and the prior.
    sigma : float, optional
        Standard deviation of the noise, of integers after they are scaled; before clipping, where values were clipped.
        It is estimated if not given. A ``CoordnetWarning`` says where the estimate of white noise is less than half of
        what is given, or more than twice as much.
    noise : "auto", "white", "colored", "camera", "rician", NoiseModel or JpegIntervals
        The noise, or the kind of it that is estimated: colored noise has a spectrum, a camera's a variance that is
        affine in the signal too, or in its negative where a gamma curve stretched what is dark, and Rician noise is
        that of magnitudes, whose bias is removed with it. The spectrum of a row, such as a sound, is that of its
        quietest windows (``quiet_noise``). With "auto", clips and volumes have what ``estimate_noise`` finds, and so
        have pictures, after offsets of rows and of columns are subtracted (see ``without_banding``; not of a Dask
        array) and black and white pixels that were lost are filled (see ``lost_pixels``). With "white" that is taken
        for white noise of the same power. Rows, and all signals whose ``sigma`` is given, have white noise.
        ``JpegIntervals.read(file)`` stands for what JPEG's rounding made of the picture of a file: it is removed as
        white noise of its ``sigma``, and each coefficient stays in the interval that was rounded. Some values are then
        beyond [0, 1]: where they are clipped to 8 bits, up to a hundredth of the coefficients leave their intervals, as
        many as of the decoded file.
    prior : Prior or "auto"
        A prior that takes noise: ``Local``, ``Adaptive``, ``Kriging``, ``TotalVariation``, ``Denoiser``, or one of your
        own. With "auto", the first four are tried on the middle of a clip, a volume, or a picture that the local prior
        is expected to take less than five minutes for, and summed with the weights found there: mostly the local one
        alone for a photograph, kriging for a field without edges, and total variation beside others for one with
        constant parts. In rows of up to 32,768 samples they are all but the local one. Other signals take the adaptive
        one, which is faster. A ``Denoiser`` is weighed against what "auto" makes, by noise that is added; a
        camera's noise is made white for it, and it has no part where noise has a spectrum or is Rician. Kriging, total
        variation, and a prior of your own without a filter, are fitted to all samples, with their noise.
    rate : float, optional
        Samples per second of a sound. The hum of the mains, at 50 or 60 Hz and multiples of it, is looked for and
        removed before other noise (see ``without_hum``).
    alpha : bool, optional
        Whether the last channel is opacity, which stays as it is; of pictures with two or four channels in [0, 1] if
        not given.
    dimensions : int, optional
        The number of axes of the grid, where the shape does not tell; see ``as_signal``.
    seed : int
        Seed of the probe that estimates the remaining error, and of the noise that is added where priors are tried.
    largest : int
        Points of the largest signal that is filtered as a whole, 4 million if not given; see ``Tiles``.
    memory : int, optional
        The bytes that one block of a Dask array takes at most; about 1.5 GiB if not given.

    Returns
    -------
    Restored
        ``report`` is a ``DenoiseReport``, whose ``sigma`` is in the mean over the signal. ``noise`` is the model of
        noise that is not white. ``expected_psnr`` is an estimate of the remaining error by Stein's formula, against the
        range 1 for pictures in [0, 1] and the signal's own span for others; it is None without noise, within a dB or
        two if sigma is estimated, and up to 3 dB too high if many values were clipped or the noise is not white, or 5
        dB if it is Rician. The values of ``fit`` on its lattice are the estimate; it is None for a signal in tiles.

    Raises
    ------
    ValueError
        If a value is not finite, near the largest number of its type or too large for its square to be finite, sigma is
        negative or above the signal's own standard deviation, there are more than four axes, the prior is another one
        or takes no such noise, values are negative for Rician noise, ``noise`` is colored or a camera's though sigma is
        given, or the signal does not show its spectrum. Also if the memory does not suffice for a block or a chunk of a
        Dask array.

    Notes
    -----
    The windows are the empirical Wiener filter of Ghael, Sayeed and Baraniuk (1997), with Fourier modes; its error is
    estimated as in Ramani, Blu and Unser, "Monte-Carlo SURE" (2008).
    """
    seed = _checks.integer("seed", seed, 0)
    if is_divided(signal):
        if rate is not None:
            raise _checks.wrong("rate", "none for a Dask array", f"{rate:g}")
        return _in_blocks(signal, sigma, noise, prior, alpha, dimensions, seed, memory)
    values, form = as_signal(signal, dimensions=dimensions)
    values, dims = values.detach(), values.ndim - 1
    alpha = dims == 2 and has_opacity(values) if alpha is None else alpha
    opacity = values[..., -1:] if alpha else values[..., :0]
    values = values[..., :-1] if alpha else values
    check_values(values)
    if sigma is not None:
        refuse_more_than(values, _checks.nonnegative("sigma", sigma))
    values, hum = (values, None) if rate is None else _without_hum(values, rate)
    asked = None if prior == "auto" else asked_prior(prior)
    if isinstance(noise, JpegIntervals):
        noise.check(values)
        if sigma is not None:
            raise _checks.wrong("sigma", "none: a JPEG file says it", repr(sigma))
        return _within(noise, values, asked or Local(), form, Tiles(tuple(values.shape[:-1]), largest), progress)
    tiles = Tiles(tuple(values.shape[:-1]), largest)
    banding = lost = None
    if may_have_faults(values, sigma, noise):
        values, banding = without_banding(values)
        values, lost = without_lost(values, largest=largest, progress=progress)
    settle = partial(settled, sigma=sigma, noise=noise, asked=asked, seed=seed, progress=progress)
    has_levels = dims == 1 and len(tiles) == 1 and sigma is None and noise in ("auto", "white")
    columns = ColumnsApart.of(values, settle) if has_levels and values.shape[1] > 1 else None
    decided = settle(values) if columns is None else columns.together
    report, work = _report(decided, lost, hum=hum, banding=banding), decided.noise
    kept = None if columns is None else columns.without_noise.to(values.device).expand_as(values)
    if columns is None:
        clean, fit, report = _filtered(tiles, values, decided.prior, work, report)
    else:
        clean, fit, report = _at_once(values, columns.cleaned, report)
    whole = form.restore(torch.cat([clean if kept is None else values.where(kept, clean), opacity], dim=-1))
    model = None if work.is_plain else work.model
    return Restored(whole, fit, report, report.expected_psnr, known=kept, noise=model)


def _without_hum(signal: Signal, rate: float) -> tuple[Signal, HumReport | None]:
    """Return a sound without hum; a ``ValueError`` is raised for other signals, and for a rate that is not positive."""
    rate = _checks.positive("rate", rate)
    if signal.ndim != 2:
        raise _checks.wrong("rate", "none for a signal of several axes", f"{rate:g}")
    return without_hum(signal, rate)


def _report(decided: Settled, lost: Tensor | None, **others: Any) -> DenoiseReport:
    """Return the report of what was decided on a signal, some of whose pixels were lost, with other fields of it."""
    prior, noise, tried = decided
    given: dict[str, Any] = {"sigma": noise.level, "sigma_given": noise.given, "noise": described(noise, lost)}
    return DenoiseReport(prior=prior.words, tried=tried, **given, **{"expected_psnr": None, **others})


def _within(
    intervals: JpegIntervals, values: Signal, prior: Prior, form: ArrayKind, tiles: Tiles, progress: bool
) -> Restored[DenoiseReport]:
    """Return the picture of a JPEG file without the noise of its rounding, with each coefficient in its interval."""
    work = Noise(intervals.sigma, given=True, progress=progress, clipped_share=CLIPPED_RINGS)
    if prior.name not in ("local", "adaptive"):
        raise _checks.wrong("prior", "local or adaptive for a JPEG file", prior.text)
    rounding = {"kind": "jpeg", "floor": work.level**2, "gain": 0.0, "negative": False, "lost": 0.0}
    report = DenoiseReport(prior=prior.name, sigma=work.level, sigma_given=False, expected_psnr=None, noise=rounding)
    clean, fit, report = _filtered(tiles, values, prior, work, report, intervals.nearest)
    return Restored(form.restore(clean), fit, report, None)


def _filtered(
    tiles: Tiles,
    values: Signal,
    prior: Prior,
    noise: Noise,
    report: DenoiseReport,
    nearest: Callable[[Signal], Signal] = lambda f: f,
) -> tuple[Signal, Reconstruction | None, DenoiseReport]:
    """Return the estimate of a signal, its fit where it is not cut into tiles, and the full report.

    ``nearest`` returns the estimate that is nearest to another one, and suits what else is known.
    """
    if len(tiles) == 1:

        def clean_whole(signal: Signal) -> Cleaned:
            estimate, error, learned, used = cleaned(prior, signal, noise)
            return nearest(estimate), error, learned, used

        return _at_once(values, clean_whole, report)
    clean, error, used = _in_tiles(tiles, values, prior, noise)
    clean = nearest(clean)
    expected = expected_psnr(error, clean, noise.level)
    return clean, None, replace(report, prior=used, expected_psnr=expected, **tiles.report())


def _at_once(
    values: Signal, clean: Callable[[Signal], Cleaned], report: DenoiseReport
) -> tuple[Signal, Reconstruction, DenoiseReport]:
    """Return the estimate of a signal that is not cut into tiles, its fit, and the full report."""
    options: Any = {"dtype": values.dtype, "device": values.device}
    fit = NoisePlan(tuple(values.shape[:-1]), clean, report, **options).fit(values)
    return fit.render(alignment="sample"), fit, cast(DenoiseReport, fit.report)


def _in_tiles(tiles: Tiles, signal: Signal, prior: Prior, noise: Noise) -> tuple[Signal, float | None, str]:
    """Return the estimate of a signal in tiles, the mean squared error that some of them lead to expect, and the prior.

    That is the one that was used in all of them, else the one that was asked for.
    """
    errors: list[float | None] = []
    probed, alone = [*tiles][::PROBED], replace(noise, progress=False)
    used: set[str] = set()

    def estimate(tile: Window) -> Signal:
        own = alone if tile in probed else replace(alone, seed=None)
        clean, error, _, name = cleaned(prior, signal[tile], own)
        errors.append(error)
        used.add(name)
        return clean

    clean = tiles.restore(estimate, signal.device, progress=noise.progress)
    told = [error for error in errors if error is not None]
    return clean, statistics.fmean(told) if told else None, used.pop() if len(used) == 1 else prior.words


class NoisePlan(Plan):
    """Remove white noise from a full lattice of one signal, whose estimate a Fourier series interpolates.

    ``clean`` returns the estimate of a signal, its error and what was learned; ``report`` says by what prior and for
    what noise. The options are those of ``plan``.
    """

    def __init__(
        self, grid: tuple[int, ...], clean: Callable[[Signal], Cleaned], report: DenoiseReport, **options: Any
    ) -> None:
        encoding = FourierEncoding.on(tuple(Axis(n) for n in grid))
        super().__init__(encoding, Lattice(grid), assumed=report.prior or "none", **options)
        self.clean, self.report = clean, report

    def solve(self, values: CenteredValues) -> Fitted:
        """Return the coefficients of the estimate; the noise is that of the original values, as clipping was."""
        clean, error, learned, used = self.clean(values.values[0].movedim(0, -1))
        f = (clean - values.means[0]).movedim(-1, 0).unsqueeze(0)
        report = replace(self.report, prior=used, expected_psnr=expected_psnr(error, clean, self.report.sigma))
        return Fitted(make_periodic(f, self.encoding.shape), report, learned)


@dataclass(frozen=True)
class BlockCleaner:
    """The way in which the noise of every block of a signal is removed."""

    prior: Prior  # the prior of all blocks
    noise: Noise  # the noise on all of them
    alpha: bool = False  # whether the last channel is opacity, which stays as it is
    loses_pixels: bool = False  # whether pixels that were lost to black or white are filled before

    @full_precision()
    def __call__(self, block: Block) -> Block:
        """Return a block (*lengths, channels) without its noise, in its own type.

        A ``ValueError`` is raised for values that are not finite.
        """
        signal, form = as_signal(block, dimensions=block.ndim - 1)
        values, opacity = (signal[..., :-1], signal[..., -1:]) if self.alpha else (signal, signal[..., :0])
        check_values(values)
        values = without_lost(values)[0] if self.loses_pixels else values
        return form.restore(torch.cat([cleaned(self.prior, values, self.noise)[0], opacity], -1))


def _in_blocks(
    signal: Any,
    sigma: float | None,
    noise: Any,
    prior: Prior | Literal["auto"],
    alpha: bool | None,
    dimensions: int | None,
    seed: int,
    memory: int | None,
) -> Restored[DenoiseReport]:
    """Return a Dask array without its noise, which is removed when it is computed; see ``denoise`` for the arguments.

    The expected PSNR is that of the blocks that decide.
    """
    dims = count_axes(signal.shape, dimensions)
    has_channels = signal.ndim == dims + 1
    blocks = Blocks.of(signal if has_channels else signal[..., None], range(dims), memory=memory)
    some = [as_signal(block, dimensions=dims)[0] for block in blocks.sample(lambda block: True)]
    alpha = dims == 2 and all(map(has_opacity, some)) if alpha is None else alpha
    some = [block[..., :-1] if alpha else block for block in some]
    work, report = learn(some, sigma, noise=noise, prior=prior, seed=seed, grid=blocks.grid)
    made = blocks.map(replace(work, alpha=alpha))
    model = None if work.noise.is_plain else work.noise.model
    report = replace(report, blocks=blocks.report())
    return Restored(made if has_channels else made[..., 0], None, report, report.expected_psnr, noise=model)


def learn(
    some: Sequence[Tensor],
    sigma: float | None,
    *,
    noise: NoiseModel | str = "auto",
    prior: Prior | Literal["auto"] = "auto",
    seed: int = 0,
    grid: tuple[int, ...],
) -> tuple[BlockCleaner, DenoiseReport]:
    """Return how the noise of all blocks of a signal is removed, and a report.

    The middle of each of ``some`` blocks decides as a signal of its own would; the one whose noise is the median counts
    for all. "auto" takes the adaptive prior for a ``grid`` that the local one takes long for. See ``denoise`` for the
    arguments and for what is raised.
    """
    parts = [values[middle(tuple(values.shape[:-1]), LEARNED)] for values in some]
    for values in parts:
        check_values(values)
    if sigma is not None:
        refuse_more_than(torch.cat([values.flatten(0, -2) for values in parts]), _checks.nonnegative("sigma", sigma))
    is_long = Local(noise=1.0).seconds(Setting(Lattice(grid), parts[0].shape[-1], parts[0].device)) > LONGEST_FIT
    asked = (Adaptive() if is_long else None) if prior == "auto" else asked_prior(prior)
    kept = [without_lost(values) if may_have_faults(values, sigma, noise) else (values, None) for values in parts]
    parts, lost = [values for values, _ in kept], next((share for _, share in kept if share is not None), None)
    decided = [settled(v, sigma, noise, asked, seed) for v in parts]
    level = statistics.median_low(made.noise.level for made in decided)
    chosen = next(made for made in decided if made.noise.level == level)
    errors, clean = [], []
    for values in parts:
        estimate, error, _, _ = cleaned(chosen.prior, values, chosen.noise)
        clean.append(estimate.flatten(0, -2))
        errors += [] if error is None else [error]
    expected = expected_psnr(statistics.fmean(errors), torch.cat(clean), level) if errors else None
    cleaner = BlockCleaner(chosen.prior, replace(chosen.noise, seed=None), loses_pixels=lost is not None)
    return cleaner, _report(chosen, lost, expected_psnr=expected)
