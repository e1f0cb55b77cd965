"""Denoising of Dask arrays block by block, with the noise and the prior on which some of the blocks decide."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.fitting.choice import LONGEST_FIT
from coordnet.linalg.machine import full_precision
from coordnet.networks.fit_reports import DenoiseReport
from coordnet.plans.hold_out import middle
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.base import Prior, Setting
from coordnet.priors.local import Local
from coordnet.restore.blocks import Block, Blocks
from coordnet.restore.cleaners import Noise, cleaned
from coordnet.restore.denoise_choice import asked_prior, check_values, described, expected_psnr, settled
from coordnet.restore.impulses import may_lose, without_lost
from coordnet.restore.noise import refuse_more_than
from coordnet.restore.restored import Restored, has_opacity
from coordnet.sampling.arrays import as_signal, count_axes
from coordnet.sampling.grids import Lattice
from coordnet.sampling.noise_model import NoiseModel

LEARNED = 2**18  # points of the middle of a block by which it decides on the noise and the prior


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


def denoise_blocks(
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
    kept = [without_lost(values) if may_lose(values, sigma, noise) else (values, None) for values in parts]
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
    report = DenoiseReport(
        prior=chosen.prior.words,
        sigma=level,
        sigma_given=chosen.noise.given,
        expected_psnr=expected,
        tried=chosen.tried,
        noise=described(chosen.noise, lost),
    )
    quiet = replace(chosen.noise, seed=None)
    return BlockCleaner(chosen.prior, quiet, loses_pixels=lost is not None), report
