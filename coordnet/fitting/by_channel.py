"""Channels in units of their own, such as columns of a table: which they are, and fits of each, joined to one."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.fitting.uncertainty.score import Score
from coordnet.metrics.scores import decibels
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.networks.several_reports import BatchReport
from coordnet.sampling.samples import Samples

MOST_UNLIKE = 10.0  # ratio of the standard deviations of two channels up to which they may have one unit
LEAST_CORRELATION = 0.5  # correlation of two channels' steps from which they tell of each other; see ``tell_of_others``
FEWEST_STEPS = 16  # steps below which a correlation is chance


def by_channel(samples: Samples) -> list[Samples]:
    """Return the samples of each channel if the channels have units of their own, else all samples as they are.

    Columns of points (``cn.points``) have units of their own, and so have other channels whose standard deviations
    differ by more than ``MOST_UNLIKE``, or rows that do not tell of each other (``tell_of_others``): fitted together,
    a rough one spoils a smooth one by tens of decibels. Pictures, whose values are all in [0, 1], have one unit.
    Channels that are constant, or of which nothing is known, do not tell.
    """
    if samples.channels == 1:
        return [samples]
    each = _known_values(samples)
    if not all(map(len, each)):
        return [samples]
    own = torch.eye(samples.channels, dtype=torch.bool)
    if samples.geometry.is_laid:
        return [samples.of_channels(k) for k in own]
    measures = torch.stack([torch.stack([part.std(correction=0), *part.aminmax()]) for part in each]).tolist()
    deviations = [deviation for deviation, *_ in measures if deviation > 0]
    is_picture = len(samples.grid) > 1 and all(0 <= low and high <= 1 for _, low, high in measures)
    is_alike = not deviations or max(deviations) <= MOST_UNLIKE * min(deviations)
    is_one = is_picture or (is_alike and tell_of_others(samples))
    return [samples] if is_one else [samples.of_channels(k) for k in own]


def tell_of_others(samples: Samples) -> bool:
    """Return whether each channel of a row has steps that correlate with another's, if there are enough to say so.

    Steps, unlike values, do not correlate by chance where both channels have a trend. Those of colors and of the
    stations of a region do; those of a temperature and a discharge do not. Constant channels do not count. On more
    axes steps of smooth fields correlate by chance, and measurements have none: such channels are taken to tell.
    """
    if len(samples.grid) > 1 or not samples.geometry.is_nodal:
        return True
    values, known = samples.values.detach(), samples.weights
    if known is not None:
        values = values[(known > 0).to(values.device).expand_as(values).all(-1)]
    steps = values.diff(dim=0)
    steps = steps[:, steps.std(0) > 0]
    if len(steps) < FEWEST_STEPS or steps.shape[1] < 2:
        return True
    return bool((torch.corrcoef(steps.T).abs().fill_diagonal_(0).amax(0) >= LEAST_CORRELATION).all())


def check_channels(name: str, samples: Samples) -> None:
    """Refuse samples of which a channel is not known at all, with a ``ValueError`` that names the argument."""
    unseen = [channel for channel, values in enumerate(_known_values(samples)) if not len(values)]
    if unseen:
        raise _checks.wrong(name, "a known value in each channel", f"none in channel {unseen[0]}")


def _known_values(samples: Samples) -> list[Float[Tensor, " _"]]:
    """Return the values of each channel that are known."""
    values = samples.values.detach()
    if samples.weights is None:
        return list(values.flatten(0, -2).unbind(-1))
    known = (samples.weights > 0).to(values.device).expand_as(values)
    return [values[..., k][known[..., k]] for k in range(samples.channels)]


def fit_by_channel(samples: Samples, fit: Callable[[Samples], Reconstruction]) -> Reconstruction:
    """Return the fit of samples, or where channels have units of their own (``by_channel``), of each on its own.

    Each channel is then as it is without the others, to rounding; the processor time is that of as many fits. The
    closed-form fits have the same encoding. Their reports are the ``signals`` of a ``BatchReport``, in the order of the
    channels. ``learned`` has their tensors with the number of the channel, as in "spectrum_0", and those of a drift
    for all channels.
    """
    parts = by_channel(samples)
    if len(parts) == 1:
        return fit(samples)
    fits = [fit(part) for part in parts]
    first, weight = fits[0], torch.cat([made.network.first.weight for made in fits])  # type: ignore[arg-type]
    network = first.network
    network = CoordinateNetwork(network.encoding, Linear(), len(fits), weight=weight, blending=network.blending)
    return Reconstruction(
        network,
        torch.cat([made.offset for made in fits], -1),
        first.lengths,
        report=BatchReport.of([made.report for made in fits]),
        learned=_learned(fits),
        footprint=first.footprint,
        lattice=first.lattice,
        uncertainty=UncertaintyByChannel(samples, fits),
        drift=first.drift_names,
    )


def _learned(fits: Sequence[Reconstruction]) -> dict[str, Tensor]:
    learned = {f"{name}_{k}": part for k, made in enumerate(fits) for name, part in made.learned.items()}
    if not fits[0].drift_names:
        return learned
    own = {name: part for name, part in learned.items() if not name.startswith("drift")}
    drift = torch.cat([made.learned["drift"] for made in fits], -1)
    return own | {"drift": drift, "drift_means": fits[0].learned["drift_means"]}


class UncertaintyByChannel:
    """How sure fits of single channels are; see ``Recipe``, whose methods these are."""

    def __init__(self, samples: Samples, fits: Sequence[Reconstruction]) -> None:
        self.samples, self.fits = samples, fits

    def std(self, fit: Reconstruction, blocks: Any = None) -> Float[Tensor, "*grid channels"]:
        """Return the standard deviation of the errors."""
        return torch.cat([made.std(blocks=blocks) for made in self.fits], -1).to(fit.offset)

    def interval(
        self, fit: Reconstruction, level: float, blocks: Any = None
    ) -> tuple[Float[Tensor, "*grid channels"], Float[Tensor, "*grid channels"]]:
        """Return the lower and the upper end of intervals."""
        ends = zip(*(made.uncertainty.interval(made, level, blocks) for made in self.fits), strict=True)
        lower, upper = (torch.cat(end, -1).to(fit.offset) for end in ends)
        return lower, upper

    def expected_psnr(self, fit: Reconstruction, data_range: float) -> float:
        """Return the PSNR of the mean squared error of all channels to expect where there is no sample, in dB."""
        errors = [made.uncertainty.calibration(made).mean_squared_error for made in self.fits]
        return decibels(statistics.fmean(errors), data_range)

    def score(self, fit: Reconstruction, blocks: Any, folds: int) -> Score:
        """Return the errors of each channel at points that are hidden in blocks."""
        scores = [made.score(blocks, folds=folds) for made in self.fits]
        rmse, r2 = ([getattr(score, name) for score in scores] for name in ("rmse", "r2"))
        return Score(rmse, r2, folds, max(score.blocks for score in scores))

    def draw(
        self, fit: Reconstruction, count: int, generator: torch.Generator | None
    ) -> Float[Tensor, "draws *grid channels"]:
        """Return the fit plus each of ``count`` deviations from it, which are independent between channels."""
        return torch.cat([made.draw(count, generator=generator) for made in self.fits], -1).to(fit.offset)
