"""The errors of candidates at hidden samples, and the weights that they ask for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from coordnet.plans.nugget import SHOWS
from coordnet.priors.stack.stacked_weights import FEW_HIDDEN, RIDGE, Errors, at_all_nodes, stacked_weights

SURE, LIKELY = 2.0, 1.0  # standard errors by which a candidate is surely worse than the best one, or a sum better
ENOUGH = 1000  # hidden entries of a lattice of few nodes from which on no others are hidden
FEW = 200  # hidden entries by fewer of which no hope is given up
HOPE = 3.0  # gain that is needed, relative to one by fewer hidden entries that gives hope
NEAR = 0.25  # squared error by which a candidate is worse than the best one at most, relative to it, 1 dB
LEAST = 0.01  # weight below which a candidate is not fitted to all samples
FEWEST_CLUSTERS = 2.0  # effective number of clusters of hidden entries, by fewer of which no gain is likely
CLEAR = 0.75  # relative fall, 6 dB, that is sure with any number of samples
WORTH = 0.005  # relative fall of the squared hidden error for which more than the best candidate is fitted


@dataclass(frozen=True)
class Traits:
    """The traits of a candidate on which its weight depends."""

    has_hidden: bool = False  # whether its own fit hid these samples
    stands_apart: bool = False  # see ``Plan``, as of the next two
    understates: bool = False
    by_likelihood: bool = False
    keeps_samples: bool = False  # see ``Prior``


@dataclass(frozen=True)
class HiddenErrors:
    """The errors of candidates, by their numbers, all at the same hidden samples, and what they say.

    Attributes
    ----------
    traits : sequence of Traits
        Those of every candidate, whether it has errors or not.
    errors : dict
        The errors of those that were compared, in the order in which they were.
    clusters : (hidden,)
        The numbers of clusters of hidden entries, whose errors are alike; errors in several channels repeat them.
    nugget, density : float
        The deviation of the noise, and the share of the nodes that is known.
    is_strided, is_clustered, is_small : bool
        Whether a lattice's own half was shown, gaps were hidden, and a lattice of few nodes was compared as a whole.
    """

    traits: Sequence[Traits]
    errors: Mapping[int, Errors] = field(default_factory=dict)
    clusters: Int[np.ndarray, " hidden"] = field(default_factory=lambda: np.zeros(1, int))
    nugget: float = 0.0
    density: float = 1.0
    is_strided: bool = False
    is_clustered: bool = False
    is_small: bool = True

    def weights(self) -> Float[np.ndarray, " candidates"]:
        """Return the weight of every candidate.

        That of a fit that hides samples itself, or of the first where gaps are hidden, is 1 unless the sum is likely
        better, or surely where the fit understates itself in windows or gaps; and that of the best one elsewhere,
        unless the sum is worth its time. Of candidates that are the same, as a local prior without weights is its
        pilot, the first has the weight.
        """
        best, weights = self.reference, self._stacked()
        gain = self._gain(weights)
        return weights if gain.mean() > self._least(gain) else np.eye(len(weights))[best]

    def _stacked(self) -> Float[np.ndarray, " candidates"]:
        distinct, weights = self._distinct, np.zeros(len(self.traits))
        losses = self.losses
        e = np.stack([losses[k] for k in distinct], 1)
        gram = e.T @ e / len(e)
        gram += self._unseen * np.diag(gram.diagonal())
        weights[distinct] = stacked_weights(gram, math.inf if self._unseen else self._count)
        weights[weights < LEAST] = 0.0
        return weights / weights.sum()

    @property
    def _count(self) -> int:
        """The number of clusters of hidden entries."""
        return int(self.clusters.max()) + 1

    @property
    def _unseen(self) -> float:
        """The squared error that is a candidate's own and that a lattice's half does not show, relative to the rest.

        Errors at twice the distance tell which candidate is best to 0.5 dB on photographs and 0.9 dB on other fields
        (standard deviations over 96), so that candidates that are nearly as good there share the weight, and all the
        more the fewer samples are hidden. Settled on these and on crops of 28 to 60 nodes. Where the likelihood of all
        samples has a say, as in rows, nothing is gained (0.3 dB on 48 rows, with a standard error of 0.35 dB).
        """
        return RIDGE + FEW_HIDDEN / self._count if self.is_strided and not self._by_likelihood else 0.0

    @property
    def _distinct(self) -> list[int]:
        """The candidates that were compared, the first of those whose errors are the same."""
        found: list[int] = []
        for k, e in self.errors.items():
            if not any(np.array_equal(self.errors[j], e) for j in found):
                found.append(k)
        return found

    @property
    def holders(self) -> list[int]:
        """The fits to a mask that hid samples themselves, of which each improves on those before it."""
        return [k for k in self._distinct if not self.is_strided and self.traits[k].has_hidden]

    @property
    def _by_likelihood(self) -> list[int]:
        """The candidates whose numbers the likelihood of all samples chose, of which hidden ones tell less.

        A lattice's own half tells less, since its samples are twice as far apart. Of hidden gaps that is not known.
        """
        return [k for k in self.errors if not self.is_clustered and self.traits[k].by_likelihood]

    @property
    def reference(self) -> int:
        """The candidate whose place a sum has to take: the last that hid samples itself, or the best one.

        Where no gaps are hidden, it is the one whose numbers the likelihood of all samples chose, if there is one. Gaps
        are too few to say which one is best: it is the first then. Fits to frames in time improve on no other
        candidate; the better of them and of that last one is taken.
        """
        if self._by_likelihood:
            return self._by_likelihood[0]
        apart = [k for k in self.holders if self.traits[k].stands_apart]
        losses = self.losses
        others = [k for k in self.holders if k not in apart][-1:]
        if not others and self.is_clustered:
            others = [min(losses)]
        return min([*others, *apart] or list(losses), key=lambda k: mean_square(losses[k]))

    @property
    def losses(self) -> Mapping[int, Errors]:
        """The errors by which candidates are weighed: at known nodes, too, where noise is a good part of the errors."""
        least = min(map(mean_square, self.errors.values()), default=0.0)
        variance = min(self.nugget**2, least)
        if not 0 < SHOWS * least <= variance:
            return self.errors
        keeps = {k: self.traits[k].keeps_samples for k in self.errors}
        return at_all_nodes(self.errors, keeps, variance, self.density)

    def _gain(self, weights: Float[np.ndarray, " candidates"]) -> Errors:
        """Return by how much squared errors of the weighted sum are expected to be below those of the reference."""
        losses, unseen = self.losses, self._unseen
        own = sum((np.square(weights[k] * e) for k, e in losses.items()), np.zeros(1))
        expected = np.square(_blended(losses, weights)) + unseen * own
        return (1 + unseen) * np.square(losses[self.reference]) - expected

    def _least(self, gain: Errors) -> float:
        """Return the mean gain for which a sum is taken.

        It is worth its time, and more than chance explains where the reference is not the best one, but no more than is
        clear with any number of samples.
        """
        best = self.reference
        error = mean_square(self.losses[best])
        folded = self.is_small and not self.is_clustered  # later folds are fits without hidden samples
        proof = SURE if self.traits[best].understates and not folded else LIKELY
        is_given = self.holders or self._by_likelihood or self.is_clustered
        chance = proof * self.standard_error(gain) if is_given else 0.0
        return min(max(WORTH * error, chance), CLEAR * error)

    def error(self, weights: Float[np.ndarray, " candidates"]) -> float:
        """Return the mean squared error of the weighted sum."""
        return mean_square(_blended(self.errors, weights))

    @property
    def is_open(self) -> bool:
        """Whether more hidden samples may change the weights."""
        return len(self.clusters) < ENOUGH and len(self.rivals()) > 1 and self.is_hopeful

    @property
    def is_hopeful(self) -> bool:
        """Whether there are few errors, or a gain that more of them may prove."""
        if not self.errors:
            return False
        gain = self._gain(self._stacked())
        return len(gain) < FEW or float(gain.mean()) >= self._least(gain) / HOPE

    def rivals(self) -> list[int]:
        """Return the best candidate and those that may help it: they are near, or not surely worse."""
        squares = {k: np.square(e) for k, e in self.errors.items()}
        if not squares:
            return []
        best = min(squares, key=lambda k: squares[k].mean())
        worse = {k: square - squares[best] for k, square in squares.items()}
        near = NEAR * squares[best].mean()
        return [k for k, d in worse.items() if k == best or d.mean() <= max(near, SURE * self.standard_error(d))]

    def standard_error(self, differences: Errors) -> float:
        """Return the standard error of a mean of differences, those of a cluster of hidden entries being alike.

        It is infinity for few clusters, counted by the inverse of the sum of their squared shares. Liang and Zeger,
        "Longitudinal data analysis using generalized linear models" (1986); Carter, Schnepel and Steigerwald,
        "Asymptotic behavior of a t-test robust to cluster heterogeneity" (2017).
        """
        clusters = np.resize(self.clusters, len(differences))
        count = len(differences) ** 2 / np.square(np.bincount(clusters)).sum()
        sums = np.bincount(clusters, differences - differences.mean())
        few = count < FEWEST_CLUSTERS
        return math.inf if few else math.sqrt(np.square(sums).sum() * count / (count - 1)) / len(differences)


def _blended(errors: Mapping[int, Errors], weights: Float[np.ndarray, " candidates"]) -> Errors:
    return sum((weights[k] * e for k, e in errors.items()), np.zeros(1))


def mean_square(errors: Float[np.ndarray, " hidden"]) -> float:
    """Return the mean square of errors."""
    return float(np.square(errors).mean())
