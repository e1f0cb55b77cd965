"""Which channels of some samples are fitted together: those that tell of each other, or have one spectrum."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Integer
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

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

    Fitted together, a rough channel spoils a smooth one by tens of decibels. So channels do not tell of each other

    - that are columns of points (``cn.points``), which have units of their own;
    - whose standard deviations differ by more than ``MOST_UNLIKE``, unless all values are in [0, 1] as of pictures;
    - of a row, whose steps do not correlate. Steps, unlike values, do not correlate by chance where both channels
      have a trend. Those of colors and of the stations of a region do; a temperature's and a discharge's do not;
    - of other lattices, whose steps do not correlate, if their relative roughness differs by ``MOST_ROUGH``, or if one
      of them correlates with a third channel, as colors beside a height do with each other. The colors of a picture are
      apart by their roughness alone. Channels of one roughness have one spectrum: with one mask their errors are those
      of each alone, whether they correlate or not (autokrigeability; Wackernagel, Multivariate Geostatistics, 2003,
      ch. 24).

    Channels that are constant, or vary by less than the standard deviation of the ``noise`` that was removed from them,
    are with the first group. Measurements have no steps: one unit suffices for them.
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
    values = values.detach().cpu().double()
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
    values = samples.values.detach()[part].cpu().double()[..., chosen]  # squares of float32 may be beyond its range
    known = (samples.geometry.full_weights[part].cpu() > 0).expand(*values.shape[:-1], samples.channels)[..., chosen]
    steps, both = _differences(values, known, 1)
    tells, count = _correlate(steps, both)
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
    count = known.sum(0)
    few = count < FEWEST_STEPS
    roughness = differences.square().sum(0).double() / count / deviations**2
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
) -> tuple[Bool[Tensor, "n n"], Float[Tensor, "n n"]]:
    """Return which channels have enough steps that correlate, less each channel's mean, and how many both know."""
    seen = known.to(steps)
    steps = torch.where(known, steps - steps.sum(0) / seen.sum(0), 0)
    energies = steps.square().T @ seen
    correlations, count = (steps.T @ steps) / (energies * energies.T).sqrt(), seen.T @ seen
    correlate = (correlations.abs() >= LEAST_CORRELATION) & (count >= FEWEST_STEPS)
    return correlate.fill_diagonal_(True), count
