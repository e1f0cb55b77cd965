"""Channels that tell of each other are fitted together, other groups of them one by one, and joined to one fit."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Integer
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from coordnet import _checks
from coordnet.fitting.uncertainty.point_blocks import Score
from coordnet.metrics.scores import decibels
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.networks.several_reports import BatchReport
from coordnet.plans.hold_out import middle
from coordnet.sampling.samples import Samples

MOST_UNLIKE = 10.0  # ratio of the standard deviations of two channels up to which they may have one unit
MOST_ROUGH = 15.0  # ratio of two channels' squared differences, relative to variances, up to which one spectrum suits
LEAST_CORRELATION = 0.5  # correlation of two channels' steps from which they tell of each other
FEWEST_STEPS = 16  # differences below which ratios and correlations are chance
MOST_SILENT = 0.5  # share of the pairs in a group that do not tell of each other
MIDDLE_NODES = 2**16  # nodes of the middle of a lattice whose differences are looked at

Groups = Sequence[Bool[Tensor, " channels"]]  # the channels of each group


def channel_groups(samples: Samples, noise: float = 0.0) -> list[Bool[Tensor, " channels"]]:
    """Return the groups of channels that are fitted together, in which most pairs tell of each other.

    Fitted together, a rough channel spoils a smooth one by tens of decibels. Two channels do not tell of each other if

    - they are columns of points (``cn.points``), which have units of their own;
    - their standard deviations differ by more than ``MOST_UNLIKE``, unless all values are in [0, 1] as of pictures;
    - they are rows whose steps do not correlate. Steps, unlike values, do not correlate by chance where both channels
      have a trend. Those of colors and of the stations of a region do; a temperature's and a discharge's do not;
    - they are on another lattice, their steps do not correlate, and either their relative roughness differs by
      ``MOST_ROUGH``, or one of them correlates with a third channel, as colors beside a height do with each other. For
      the colors of a picture roughness alone decides. Channels of one roughness have one spectrum: with one mask their
      errors are those of each alone, whether they correlate or not (autokrigeability; Wackernagel, Multivariate
      Geostatistics, 2003, ch. 24).

    Channels that are constant, or vary by less than the standard deviation of the ``noise`` that was removed from them,
    are in the first group. Measurements have no steps, so that only their standard deviations count.
    """
    together = [torch.ones(samples.channels, dtype=torch.bool)]
    each = known_values(samples)
    if samples.channels == 1 or not all(map(len, each)):
        return together
    if samples.geometry.is_laid:
        return list(torch.eye(samples.channels, dtype=torch.bool))
    measures = torch.stack([torch.stack([part.std(correction=0), *part.aminmax()]) for part in each]).cpu().double()
    (varying,) = (measures[:, 0] > noise).nonzero(as_tuple=True)
    if len(varying) < 2:
        return together
    is_picture = len(samples.grid) > 1 and bool((measures[:, 1] >= 0).all() and (measures[:, 2] <= 1).all())
    deviations = measures[varying, 0]
    tells = _within(deviations, torch.inf if is_picture else MOST_UNLIKE)
    if samples.geometry.is_nodal:
        tells &= _tell_of_each_other(samples, varying, deviations, are_colors=is_picture and len(varying) == 3)
    labels = torch.ones(samples.channels, dtype=torch.int32)
    distances = squareform((~tells).double().numpy())
    labels[varying] = torch.from_numpy(fcluster(linkage(distances, "average"), MOST_SILENT, "distance"))
    return [labels == label for label in dict.fromkeys(labels.tolist())]


def join_channels(parts: Sequence[Tensor], groups: Groups) -> Float[Tensor, "*rest channels"]:
    """Return what groups of channels have, (*rest, channels of the group) each, in the order of the channels."""
    order = torch.cat([group.nonzero()[:, 0] for group in groups]).argsort()
    return torch.cat(tuple(parts), -1)[..., order]


def numbered(learned: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the tensors that groups of channels learned by names with the number of the group, as in "spectrum_0"."""
    return {f"{name}_{k}": part for k, own in enumerate(learned) for name, part in own.items()}


def known_values(samples: Samples) -> list[Float[Tensor, " _"]]:
    """Return the values of each channel that are known."""
    values = samples.values.detach()
    if samples.weights is None:
        return list(values.flatten(0, -2).unbind(-1))
    known = (samples.weights > 0).to(values.device).expand_as(values)
    return [values[..., k][known[..., k]] for k in range(samples.channels)]


def steps_correlate(values: Float[Tensor, "*lattice channels"]) -> bool:
    """Return whether the steps of neighbors correlate in each pair of channels, so that all tell of each other."""
    values = values.detach().double()
    return bool(_correlate(*_differences(values, torch.ones_like(values, dtype=torch.bool), 1))[0].all())


def _within(measures: Float[Tensor, " n"], ratio: float) -> Bool[Tensor, "n n"]:
    """Return which pairs of positive numbers differ by at most a factor."""
    ratios = measures[:, None] / measures
    return (torch.maximum(ratios, ratios.T) <= ratio).fill_diagonal_(True)


def _tell_of_each_other(
    samples: Samples, chosen: Integer[Tensor, " n"], deviations: Float[Tensor, " n"], are_colors: bool
) -> Bool[Tensor, "n n"]:
    """Return which channels have steps that correlate or, alone or as colors on several axes, are of one roughness."""
    part = middle(samples.values.shape[:-1], MIDDLE_NODES)
    values = samples.values.detach()[part][..., chosen].double()  # squares of float32 may be beyond its range
    seen = samples.geometry.full_weights[part].to(values.device) > 0
    known = seen.expand(*values.shape[:-1], samples.channels)[..., chosen]
    steps, both = _differences(values, known, 1)
    tells, count = torch.stack(_correlate(steps, both)).cpu()
    tells = tells > 0
    if values.ndim == 2:
        return tells | (count < FEWEST_STEPS)
    alone = (tells.sum(0) == 1) | are_colors
    alike = alone & alone[:, None]
    for differences, seen in ((steps, both), _differences(values, known, 2)):
        alike &= _are_as_rough(differences, seen, deviations)
    return tells | alike


def _are_as_rough(
    differences: Float[Tensor, "differences n"], known: Bool[Tensor, "differences n"], deviations: Float[Tensor, " n"]
) -> Bool[Tensor, "n n"]:
    """Return which channels have differences of one size, relative to deviations, or too few to say."""
    count, energies = torch.stack([known.to(differences).sum(0), differences.square().sum(0)]).cpu()
    few = count < FEWEST_STEPS
    roughness = energies / count / deviations**2
    return few | few[:, None] | _within(roughness, MOST_ROUGH)


def _differences(
    values: Float[Tensor, "*lattice n"], known: Bool[Tensor, "*lattice n"], order: int
) -> tuple[Float[Tensor, "differences n"], Bool[Tensor, "differences n"]]:
    """Return differences along all axes, and which are known, at the least distance at which each channel has enough.

    The distance is a power of two at which ``FEWEST_STEPS`` are known, or the largest that the lattice has.
    """
    distance, longest = 1, max(values.shape[:-1])
    differences, both = _at_distance(values, known, order, distance)
    while order * 2 * distance < longest and int(both.sum(0).amin()) < FEWEST_STEPS:
        distance *= 2
        differences, both = _at_distance(values, known, order, distance)
    return differences, both


def _at_distance(
    values: Float[Tensor, "*lattice n"], known: Bool[Tensor, "*lattice n"], order: int, distance: int
) -> tuple[Float[Tensor, "differences n"], Bool[Tensor, "differences n"]]:
    """Return differences along all axes at one distance, 0 where they are not known, and which are known."""
    differences, both = [values.new_zeros(0, values.shape[-1])], [known.new_zeros(0, known.shape[-1])]
    for axis in range(values.ndim - 1):
        line, seen = values, known
        for _ in range(order):
            count = max(0, line.shape[axis] - distance)
            line = line.narrow(axis, line.shape[axis] - count, count) - line.narrow(axis, 0, count)
            seen = seen.narrow(axis, seen.shape[axis] - count, count) & seen.narrow(axis, 0, count)
        differences.append(line.flatten(0, -2))
        both.append(seen.flatten(0, -2))
    known = torch.cat(both)
    return torch.where(known, torch.cat(differences), 0), known


def _correlate(
    steps: Float[Tensor, "steps n"], known: Bool[Tensor, "steps n"]
) -> tuple[Float[Tensor, "n n"], Float[Tensor, "n n"]]:
    """Return 1 where channels have enough steps that correlate, less each channel's mean, and how many both know."""
    seen = known.to(steps)
    steps = torch.where(known, steps - steps.sum(0) / seen.sum(0), 0)
    energies = steps.square().T @ seen
    correlations, count = (steps.T @ steps) / (energies * energies.T).sqrt(), seen.T @ seen
    correlate = (correlations.abs() >= LEAST_CORRELATION) & (count >= FEWEST_STEPS)
    return correlate.fill_diagonal_(True).to(steps), count


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

    def std(self, fit: Reconstruction, blocks: Any = None, progress: bool = False) -> Float[Tensor, "*nodes channels"]:
        """Return the standard deviation of the errors at the nodes of the samples."""
        return self._joined(fit, [made.uncertainty.std(made, blocks, progress) for made in self.fits])

    def half_width(
        self, fit: Reconstruction, level: float, blocks: Any = None, progress: bool = False
    ) -> Float[Tensor, "*nodes channels"]:
        """Return half of the width of intervals at the nodes of the samples."""
        return self._joined(fit, [made.uncertainty.half_width(made, level, blocks, progress) for made in self.fits])

    def expected_psnr(self, fit: Reconstruction, data_range: float, progress: bool = False) -> float:
        """Return the PSNR of the mean squared error of all channels to expect where there is no sample, in dB."""
        errors = [made.uncertainty.calibration(made, progress=progress).mean_squared_error for made in self.fits]
        return decibels(statistics.fmean(errors, [made.channels for made in self.fits]), data_range)

    def score(self, fit: Reconstruction, blocks: Any, folds: int, progress: bool = False) -> Score:
        """Return the errors of each column of points at those that are hidden in blocks."""
        scores = [made.score(blocks, folds=folds, progress=progress) for made in self.fits]
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
