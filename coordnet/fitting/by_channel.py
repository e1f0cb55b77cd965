"""Fits of groups of channels that do not tell of each other, such as columns of a table, joined to one."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.fitting.channel_groups import Groups, channel_groups, join_channels, known_values, numbered
from coordnet.fitting.uncertainty.point_blocks import Score
from coordnet.metrics.scores import decibels
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.networks.several_reports import BatchReport
from coordnet.sampling.samples import Samples


def by_channel(samples: Samples) -> list[Samples]:
    """Return the samples of each group of channels that are fitted together; see ``channel_groups``."""
    groups = channel_groups(samples)
    return [samples] if len(groups) == 1 else [samples.of_channels(group) for group in groups]


def check_channels(name: str, samples: Samples) -> None:
    """Refuse samples of which a channel is not known at all, with a ``ValueError`` that names the argument."""
    unseen = [channel for channel, values in enumerate(known_values(samples)) if not len(values)]
    if unseen:
        raise _checks.wrong(name, "a known value in each channel", f"none in channel {unseen[0]}")


def fit_by_channel(samples: Samples, fit: Callable[[Samples], Reconstruction]) -> Reconstruction:
    """Return the fit of samples, or of each group of channels on its own where there are several (``channel_groups``).

    Each group is then as it is without the others, to rounding; the processor time is that of as many fits. The
    closed-form fits have the same encoding. Their reports are the ``signals`` of a ``BatchReport``, in the order of the
    first channels of groups. ``learned`` has their tensors with the number of the group, as in "spectrum_0", and those
    of a drift for all channels.
    """
    groups = channel_groups(samples)
    if len(groups) == 1:
        return fit(samples)
    fits = [fit(samples.of_channels(group)) for group in groups]
    first, weights = fits[0], [made.network.first.weight.movedim(0, -1) for made in fits]  # type: ignore[union-attr]
    network, weight = first.network, join_channels(weights, groups).movedim(-1, 0)
    network = CoordinateNetwork(network.encoding, Linear(), len(weight), weight=weight, blending=network.blending)
    return Reconstruction(
        network,
        join_channels([made.offset for made in fits], groups),
        first.lengths,
        report=BatchReport.of([made.report for made in fits]),
        learned=_learned(fits, groups),
        footprint=first.footprint,
        lattice=first.lattice,
        uncertainty=UncertaintyByChannel(samples, fits, groups),
        drift=first.drift_names,
    )


def _learned(fits: Sequence[Reconstruction], groups: Groups) -> dict[str, Tensor]:
    learned = numbered([made.learned for made in fits])
    if not fits[0].drift_names:
        return learned
    own = {name: part for name, part in learned.items() if not name.startswith("drift")}
    drift = join_channels([made.learned["drift"] for made in fits], groups)
    return own | {"drift": drift, "drift_means": fits[0].learned["drift_means"]}


class UncertaintyByChannel:
    """How sure fits of groups of channels are; see ``Recipe``, whose methods these are."""

    def __init__(self, samples: Samples, fits: Sequence[Reconstruction], groups: Groups) -> None:
        self.samples, self.fits, self.groups = samples, fits, groups

    def std(self, fit: Reconstruction, blocks: Any = None) -> Float[Tensor, "*grid channels"]:
        """Return the standard deviation of the errors."""
        return self._joined(fit, [made.std(blocks=blocks) for made in self.fits])

    def interval(
        self, fit: Reconstruction, level: float, blocks: Any = None
    ) -> tuple[Float[Tensor, "*grid channels"], Float[Tensor, "*grid channels"]]:
        """Return the lower and the upper end of intervals."""
        ends = zip(*(made.uncertainty.interval(made, level, blocks) for made in self.fits), strict=True)
        lower, upper = (self._joined(fit, end) for end in ends)
        return lower, upper

    def expected_psnr(self, fit: Reconstruction, data_range: float) -> float:
        """Return the PSNR of the mean squared error of all channels to expect where there is no sample, in dB."""
        errors = [made.uncertainty.calibration(made).mean_squared_error for made in self.fits]
        return decibels(statistics.fmean(errors, [made.channels for made in self.fits]), data_range)

    def score(self, fit: Reconstruction, blocks: Any, folds: int) -> Score:
        """Return the errors of each column of points at those that are hidden in blocks."""
        scores = [made.score(blocks, folds=folds) for made in self.fits]
        rmse, r2 = ([getattr(score, name) for score in scores] for name in ("rmse", "r2"))
        return Score(rmse, r2, folds, max(score.blocks for score in scores))

    def draw(
        self, fit: Reconstruction, count: int, generator: torch.Generator | None
    ) -> Float[Tensor, "draws *grid channels"]:
        """Return the fit plus each of ``count`` deviations from it, which are independent between groups."""
        return self._joined(fit, [made.draw(count, generator=generator) for made in self.fits])

    def _joined(self, fit: Reconstruction, parts: Sequence[Tensor]) -> Float[Tensor, "*grid channels"]:
        """Return what fits of groups have, in the order of the channels."""
        return join_channels(parts, self.groups).to(fit.offset)
