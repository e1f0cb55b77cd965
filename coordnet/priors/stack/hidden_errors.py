"""The errors of candidates at hidden samples, and the weights that follow from them by least squares."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float, Int

from coordnet.plans.nugget import SHOWS

RIDGE = 0.02  # pull of the weights to the best candidate, relative to its mean squared error
FEW_HIDDEN = 10.0  # hidden samples at which that pull is as strong as the errors themselves
HOPELESS = 1e12  # mean square, relative to the least one, above which the ridge is lost in rounding
# Standard errors by which a candidate is surely worse than the best one, and by which a sum is likely better.
SURE, LIKELY = 2.0, 1.0
ENOUGH = 1000  # hidden entries of a lattice of few nodes that suffice: no further set is hidden
FEW = 200  # hidden entries below which further sets are hidden, whatever the gain is
HOPE = 3.0  # the gain of a sum that is needed, relative to the least gain for which further sets are hidden
NEAR = 0.25  # relative difference from the least squared error, 1 dB, up to which a candidate is a rival
LEAST = 0.01  # weight below which a candidate is not fitted to all samples
FEWEST_CLUSTERS = 2.0  # effective number of clusters of hidden entries below which no gain counts as likely
CLEAR = 0.75  # relative fall of the squared hidden error, 6 dB, that suffices with any number of samples
TRUSTED = 0.5  # power of the expected fall of squared errors that is taken
WORTH = 0.005  # relative fall of the squared hidden error for which more than the best candidate is fitted

Errors = Float[np.ndarray, " hidden"]


def stacked_weights(gram: Float[np.ndarray, "n n"], count: int | float) -> Float[np.ndarray, " n"]:
    """Return the w ≥ 0 with Σ w = 1 that minimizes wᵀG w + ρ |w - e|², with e the best single candidate.

    The sum has no greater error than the best candidate, and the weights depend neither on the order of the candidates
    nor on the units of the errors.

    - gram: the mean products G of the candidates' errors at hidden samples. Every set of candidates that may have a
      weight is tried, so that n is to be small. Those of more than ``HOPELESS`` times the least mean square have none.
    - count: the number of hidden samples. ρ is ``RIDGE`` + ``FEW_HIDDEN`` / count times the least mean square: the
      fewer samples there are, the nearer the weights are to the best candidate. Infinity leaves ``RIDGE`` alone.
    """
    n, best = len(gram), int(np.argmin(gram.diagonal()))
    scale = float(gram[best, best])
    target = np.eye(n)[best]
    if not scale > 0:
        return target
    ridge = (RIDGE + FEW_HIDDEN / max(count, 1)) * np.eye(n)
    matrix, right = gram / scale + ridge, ridge @ target

    def objective(w: Float[np.ndarray, " n"]) -> float:
        return float(w @ matrix @ w - 2 * right @ w)

    result, least = target, objective(target)
    near = np.flatnonzero(gram.diagonal() <= HOPELESS * scale)
    for size in range(1, len(near) + 1):
        for some in map(list, itertools.combinations(near, size)):
            free, ones = np.linalg.solve(matrix[np.ix_(some, some)], np.stack([right[some], np.ones(size)], 1)).T
            w = np.zeros(n)
            w[some] = free + (1 - free.sum()) / ones.sum() * ones
            if (w >= 0).all() and objective(w) < least:
                result, least = w, objective(w)
    return result


def at_all_nodes(errors: Mapping[int, Errors], keeps: Mapping[int, bool], variance: float, density: float) -> dict:
    """Return errors whose mean squares and products are those at all nodes, up to a constant; two for each hidden one.

    A share ``density`` of the nodes has samples with noise of a ``variance`` s². A candidate's squared error at hidden
    samples is H = e² + s². One that ``keeps`` samples has the noise n at known nodes. Others are taken to weigh a
    sample by κ = e²/H against what its neighbors say, as is best: their error is κ n + (1 - κ) e, whose square is κ s².
    """
    result = {}
    for k, e in errors.items():
        energy = float(np.square(e).mean())
        kept = 1.0 if keeps[k] else max(energy - variance, 0.0) / energy
        noise = math.sqrt(variance) * np.resize([1.0, -1.0], len(e))
        known = kept * noise + math.sqrt(kept * (1 - kept) * variance / energy) * e
        result[k] = np.concatenate([math.sqrt(2 * (1 - density)) * e, math.sqrt(2 * density) * known])
    return result


@dataclass(frozen=True)
class Traits:
    """The traits of a candidate on which its weight depends."""

    has_hidden: bool = False  # whether its own fit hid these samples
    stands_apart: bool = False  # whether its fit improves on none that was made before
    understates: bool = False  # whether its error is a little larger than that of its fit to all samples
    refines: bool = False  # whether it is as good at all hidden samples as the candidates before it that hid them
    by_likelihood: bool = False  # whether the likelihood of all samples chose its numbers
    needs_proof: bool = False  # whether it has a weight only where that surely lowers the error
    keeps_samples: bool = False  # whether its fit keeps known samples as they are, with their noise


@dataclass(frozen=True)
class HiddenErrors:
    """The errors of candidates at the same hidden samples, and the weights that follow from them."""

    traits: Sequence[Traits]  # the traits of every candidate, whether it has errors or not
    # The errors of the candidates that were compared, by their numbers, in the order of the comparison.
    errors: Mapping[int, Errors] = field(default_factory=dict)
    # The number of the cluster of each hidden entry. Errors within a cluster are alike. If errors are of several
    # channels, they repeat these numbers.
    clusters: Int[np.ndarray, " hidden"] = field(default_factory=lambda: np.zeros(1, int))
    nugget: float = 0.0  # the standard deviation of the noise
    density: float = 1.0  # the share of the nodes that is known
    # The factors by which squared errors are expected to fall from a lattice's half to all samples, relative to their
    # mean, which candidates without one have.
    falls: Mapping[int, float] = field(default_factory=dict)
    is_strided: bool = False  # whether the samples are every k-th node of a lattice, and every k-th of them was shown
    is_clustered: bool = False  # whether gaps were hidden, and not single samples
    is_whole: bool = True  # whether candidates were compared on a whole lattice, and not in windows
    is_row: bool = False  # whether copies of the gaps of a row were hidden: as few as they are, sets of them are cheap

    def weights(self) -> Float[np.ndarray, " candidates"]:
        """Return the weight of every candidate.

        The weighted sum is taken if its squared error is below that of the reference by the gain that ``_least`` asks
        for; otherwise the reference has the weight 1. If the errors of several candidates are the same, only the first
        of them has a weight. Those that need proof have none unless the sum is surely better than without them.
        """
        proven = {k: e for k, e in self.errors.items() if not self.traits[k].needs_proof}
        if proven and len(proven) < len(self.errors):
            losses, without = self.losses, replace(self, errors=proven).weights()
            fall = np.square(_blended(losses, without)) - np.square(_blended(losses, self._chosen()))
            return without if fall.mean() <= SURE * self.standard_error(fall) else self._chosen()
        return self._chosen()

    def _chosen(self) -> Float[np.ndarray, " candidates"]:
        """Return the weights of the sum, or those of the reference."""
        weights = self._stacked()
        gain = self._gain(weights)
        return weights if gain.mean() > self._least(gain) else np.eye(len(self.traits))[self.reference]

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
        more the fewer samples are hidden. Settled on these and on crops of 28 to 60 nodes.
        """
        return RIDGE + FEW_HIDDEN / self._count if self.is_strided else 0.0

    @property
    def _distinct(self) -> list[int]:
        """The candidates that were compared, the first of those whose errors are the same.

        Windows have a part of the hidden samples, and say less of a candidate and the one that refines it than all did.
        There the former is left out, but not on a lattice of few nodes, where further sets of hidden samples judge, nor
        with noise.
        """
        in_windows = not (self.is_strided or self.is_whole or self.nugget)
        distinct: list[int] = []
        for k, e in self.errors.items():
            is_left_out = in_windows and k in self._refined
            if not is_left_out and not any(np.array_equal(self.errors[j], e) for j in distinct):
                distinct.append(k)
        return distinct

    @property
    def _refined(self) -> list[int]:
        """The candidates before one that refines them, among those whose fits hid samples themselves."""
        hiding = [k for k in self.errors if self.traits[k].has_hidden]
        last = max((k for k in hiding if self.traits[k].refines), default=0)
        return [k for k in hiding if k < last and not self.traits[k].stands_apart]

    @property
    def holders(self) -> list[int]:
        """The candidates whose fits to a mask hid samples themselves; each fit improves on those before it."""
        return [k for k in self._distinct if not self.is_strided and self.traits[k].has_hidden]

    @property
    def _by_likelihood(self) -> list[int]:
        """The candidates whose numbers the likelihood of all samples chose; none if gaps are hidden.

        Hidden samples tell less than this likelihood, since the shown ones are fewer, and those of a strided lattice
        are farther apart. Copies of a gap tell more: with the likelihood alone 80 rows with one gap lose 1.1 dB in the
        mean, with a standard error of 0.7 dB.
        """
        return [k for k in self.errors if not self.is_clustered and self.traits[k].by_likelihood]

    @property
    def reference(self) -> int:
        """The candidate that is taken unless a weighted sum is better.

        It is the first of these that exists: the candidate whose numbers the likelihood of all samples chose, if no
        gaps are hidden; the last fit that hid samples itself; the first candidate, if gaps are hidden, since they are
        too few to say which one is best; and the candidate with the least error. Fits that stand apart, those to frames
        in time and autoregressions of rows, are taken instead of the second or the third if their errors are less.
        """
        if self._by_likelihood:
            return self._by_likelihood[0]
        apart = [k for k in (self._distinct if self.is_row else self.holders) if self.traits[k].stands_apart]
        losses = self.losses
        others = [k for k in self.holders if k not in apart][-1:]
        if not others and self.is_clustered:
            others = [min(losses)]
        return min([*others, *apart] or list(losses), key=lambda k: mean_square(losses[k]))

    @property
    def losses(self) -> Mapping[int, Errors]:
        """The errors by which candidates are weighed: of all nodes, known ones too, if much of the errors is noise.

        Those of a lattice's half are taken to fall by ``TRUSTED`` of what is expected. On 60 fields and crops of
        photographs, in two sizes each, a half of it does better than all or nothing.
        """
        if not self.is_noisy:
            return {k: self.falls.get(k, 1.0) ** (TRUSTED / 2) * e for k, e in self.errors.items()}
        variance = min(self.nugget**2, *map(mean_square, self.errors.values()))
        keeps = {k: self.traits[k].keeps_samples for k in self.errors}
        return at_all_nodes(self.errors, keeps, variance, self.density)

    @property
    def is_noisy(self) -> bool:
        """Whether noise is much of the least error."""
        return 0 < SHOWS * min(map(mean_square, self.errors.values()), default=0.0) <= self.nugget**2

    def _gain(self, weights: Float[np.ndarray, " candidates"]) -> Errors:
        """Return how far the squared errors of the weighted sum are expected to be below those of the reference."""
        losses, unseen = self.losses, self._unseen
        own = sum((np.square(weights[k] * e) for k, e in losses.items()), np.zeros(1))
        expected = np.square(_blended(losses, weights)) + unseen * own
        return (1 + unseen) * np.square(losses[self.reference]) - expected

    def _least(self, gain: Errors) -> float:
        """Return the mean gain for which a sum is taken.

        The gain has to be worth the time of more fits. If the reference was not chosen by its error, it also has to be
        more than chance explains; twice as much if the reference understates itself in windows or gaps. A gain that is
        clear with any number of samples always suffices.
        """
        best = self.reference
        error = mean_square(self.losses[best])
        folded = self.is_whole and not self.is_clustered  # later folds are fits without hidden samples
        proof = SURE if self.traits[best].understates and not folded else LIKELY
        is_given = self.holders or self._by_likelihood or self.is_clustered
        chance = proof * self.standard_error(gain) if is_given else 0.0
        return min(max(WORTH * error, chance), CLEAR * error)

    def error(self, weights: Float[np.ndarray, " candidates"]) -> float:
        """Return the mean squared error of the weighted sum of the candidates that were compared; 0 if none was."""
        total = sum(weights[k] for k in self.errors)
        return mean_square(_blended(self.errors, weights / total)) if total else 0.0

    @property
    def is_open(self) -> bool:
        """Whether a further set of hidden samples may change the weights.

        A candidate and one that refines it are no rivals here: a weight of its own is between them already.
        """
        if self.is_row:
            return len(self.rivals()) > 1
        rivals = [k for k in self.rivals() if k not in self._refined]
        return len(self.clusters) < ENOUGH and len(rivals) > 1 and self.is_hopeful

    @property
    def is_hopeful(self) -> bool:
        """Whether there are few errors, much of them is noise, or the sum has a gain that more errors may prove."""
        if not self.errors:
            return False
        if self.is_noisy:
            return True
        gain = self._gain(self._stacked())
        return len(gain) < FEW or float(gain.mean()) >= self._least(gain) / HOPE

    def rivals(self) -> list[int]:
        """Return the candidate with the least error, and those whose error is near it or not surely larger.

        The gaps of a row are too few to be sure of any but a ``CLEAR`` difference.
        """
        squares = {k: np.square(e) for k, e in self.errors.items()}
        if not squares:
            return []
        best = min(squares, key=lambda k: squares[k].mean())
        if self.is_row:
            return [k for k, e in squares.items() if k == best or (1 - CLEAR) * e.mean() < squares[best].mean()]
        worse = {k: square - squares[best] for k, square in squares.items()}
        near = NEAR * squares[best].mean()
        return [k for k, d in worse.items() if k == best or d.mean() <= max(near, SURE * self.standard_error(d))]

    def standard_error(self, differences: Errors) -> float:
        """Return the standard error of a mean of differences that are correlated within clusters of hidden entries.

        The effective number of clusters is the inverse of the sum of their squared shares. The error is infinite if
        there are fewer than ``FEWEST_CLUSTERS``.

        Liang and Zeger, "Longitudinal data analysis using generalized linear models" (1986); Carter, Schnepel and
        Steigerwald, "Asymptotic behavior of a t-test robust to cluster heterogeneity" (2017).
        """
        clusters = np.resize(self.clusters, len(differences))
        count = len(differences) ** 2 / np.square(np.bincount(clusters)).sum()
        sums = np.bincount(clusters, differences - differences.mean())
        few = count < FEWEST_CLUSTERS
        return math.inf if few else math.sqrt(np.square(sums).sum() * count / (count - 1)) / len(differences)


def _blended(errors: Mapping[int, Errors], weights: Float[np.ndarray, " candidates"]) -> Errors:
    return sum((weights[k] * e for k, e in errors.items()), np.zeros(1))


def mean_square(errors: Errors) -> float:
    """Return the mean square of errors."""
    return float(np.square(errors).mean())
