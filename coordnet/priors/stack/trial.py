"""The comparison of priors at hidden samples of one signal."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import FourierEncoding
from coordnet.linalg.machine import stage
from coordnet.plans.hidden_points import HiddenPoints
from coordnet.plans.hold_out import HeldOut
from coordnet.plans.plan import Fitted, Judged, Plan
from coordnet.priors.base import Prior
from coordnet.priors.kriging.scale_search import KrigingParameters
from coordnet.priors.stack.expected_errors import falls
from coordnet.priors.stack.hidden_errors import CLEAR, Errors, HiddenErrors, Traits, mean_square
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.samples import Samples

HIDDEN_SHARE = 0.15  # share of the samples that is hidden if the fit of the first candidate hides none itself
HIDING_SEED = 2**20  # seed by which these samples are drawn
FEW_WINDOWS, MANY_WINDOWS = 3, 9  # windows in which all candidates are compared first, and then those that may be best
RACED = ByAxes({1: 2**13, 2: 72**2, 3: 16**3})  # nodes of the few windows together
JUDGED = ByAxes({1: 2**15, 2: 144**2, 3: 24**3})  # nodes of the many windows together
WHOLE = ByAxes({1: 2**16, 2: 2**15, 3: 24**3})  # nodes up to which candidates are compared on the whole lattice
FOLD = 0.25  # share of the samples of such a lattice that each further set hides
MOST_FOLDS = 4  # sets of hidden samples of such a lattice at most
EXACT = 1e-24  # squared hidden error that is rounding, relative to the mean square of the values

Hidden = HeldOut | HiddenPoints


class Trial:
    """The errors of candidates at hidden samples, and the fits to all samples that were made on the way.

    All candidates are compared in a few small windows, which is cheap. Those that are not surely worse than the best
    one are then compared in many windows. On a lattice of few nodes they are compared on the whole lattice instead, at
    several sets of hidden samples.

    - errors: the errors of each candidate that is still compared, by its number, all at the same hidden samples
    - tried: the mean squared error of every candidate, in the last comparison that it took part in
    """

    _remaining = 0  # the candidate that is taken if no sample was hidden
    _exact: Sequence[int] = ()  # candidates whose hidden errors are rounding alone; the last of them is taken

    def __init__(
        self,
        candidates: Sequence[Prior],
        plans: Sequence[Plan],
        values: Float[Tensor, "1 channels *samples"],
        *,
        nugget: float = 0.0,
        progress: bool = False,
    ) -> None:
        self.candidates, self.plans, self.values, self.nugget = candidates, plans, values, nugget
        self.errors: dict[int, Errors] = {}
        self._clusters = np.zeros(1, int)
        self.tried: dict[int, float] = {}
        self._falls: Mapping[int, float] = {}
        self._judged: dict[Prior, Judged] = {}
        self._settled: dict[int, Prior] = {}
        samples = Samples(plans[0].geometry, values[0].movedim(0, -1))
        self._shares = [plan.share(values) for plan in plans]
        self._is_whole = self._is_small = math.prod(samples.grid) <= WHOLE[len(samples.grid)]
        own = self._own(0)
        held = own.whole if own is not None else _draw(samples)
        if held is None:
            searching = (k for k, prior in enumerate(candidates) if prior.searches and self._is_promising(k))
            self._remaining = next(searching, 0)
            self._exact = self._exact_at_half(samples)
        self._is_strided = held is not None and held.is_exhausted
        self._is_clustered = held is not None and held.is_clustered
        is_row = sum(n > 1 for n in samples.grid) < 2
        self._is_row = self._is_clustered and self._is_small and is_row
        if held is not None:
            with stage("comparing priors", shown=progress):
                self._race(held, samples)
                self._refine(held, samples)
            least = EXACT * float(values.double().square().mean())  # plates of the highest order are last
            self._exact = [k for k, e in self.tried.items() if e <= least and not candidates[k].searches]
        if isinstance(held, HeldOut) and self._is_strided:
            self._falls = self._expected_falls(held.steps)

    def _exact_at_half(self, samples: Samples) -> list[int]:
        """Return the candidates that predict every second of a few samples from the others, but for rounding.

        Candidates that search for numbers, or whose fits hide samples themselves, are left out.
        """
        if samples.geometry.closed_form_blend is not None or samples.geometry.filled_axes is not None:
            return []
        half, least = HeldOut.alternate(samples), EXACT * float(self.values.double().square().mean())
        fixed = [k for k, prior in enumerate(self.candidates) if not prior.searches and not self.plans[k].holds_out]
        errors = {k: self._refit(k, [half]) for k in fixed if bool(half.hidden.any())}
        return [k for k, e in errors.items() if e is not None and mean_square(e) <= least]

    @property
    def fits(self) -> dict[int, Fitted]:
        """The fits to all samples, by the number of the candidate."""
        return {k: self._judged[prior][0] for k, prior in enumerate(self.candidates) if prior in self._judged}

    @property
    def hidden(self) -> HiddenErrors:
        """The errors of the last comparison, from which the weights follow."""
        traits = [
            Traits(
                has_hidden=self._estimate(k) is not None,
                stands_apart=plan.stands_apart,
                understates=plan.understates,
                needs_proof=plan.needs_proof,
                refines=plan.refines,
                by_likelihood=plan.by_likelihood,
                keeps_samples=prior.keeps_samples,
            )
            for k, (plan, prior) in enumerate(zip(self.plans, self.candidates, strict=True))
        ]
        shape: Any = {"is_strided": self._is_strided, "is_clustered": self._is_clustered, "is_whole": self._is_whole}
        density = self.plans[0].geometry.density
        shape |= {"falls": self._falls, "is_row": self._is_row}
        return HiddenErrors(traits, self.errors, self._clusters, self.nugget, density, **shape)

    def _expected_falls(self, shown: tuple[int, ...]) -> dict[int, float]:
        """Return by what squared errors are expected to fall from a lattice's half to all samples; see ``falls``.

        That is for the covariance that kriging found in all samples, as it does where they are compared at once; else
        nothing is expected. Candidates that are not linear in the samples are left out: they are taken to fall as the
        others do in the mean.
        """
        found = [(k, prior) for k in self.errors if isinstance(prior := self._settled.get(k), KrigingParameters)]
        if not found:
            return {}
        own, kriged = found[0]
        fixed = [k for k in self.errors if self.plans[k].has_gradient and not self.candidates[k].searches]
        linear = [self.candidates[k] for k in fixed]
        lattice: Any = self.plans[0].geometry
        return dict(zip([*fixed, own], falls(linear, kriged.covariance, lattice, shown).tolist(), strict=True))

    def weights(self) -> Float[np.ndarray, " candidates"]:
        """Return the weight of every candidate: that of ``HiddenErrors``, beside given shares.

        If the errors of candidates are rounding alone, the last of them has the weight 1, without shares. If no sample
        was hidden, the candidate that remains has all of the weight beside the shares. Frames that are moved have no
        shares beside them: no covariance tells of these. A candidate has no share where its error is 6 dB (``CLEAR``)
        above the least one, unless a lattice's half was shown.
        """
        one = np.eye(len(self.candidates))
        if self._exact:
            return one[self._exact[-1]]
        weights = self.hidden.weights() if self.errors else one[self._remaining]
        if self.plans[int(weights.argmax())].stands_apart:
            return weights
        most = math.inf if self._is_strided else min(self.tried.values(), default=0.0) / (1 - CLEAR)
        shares = np.array([(share or 0.0) * (self.tried.get(k, 0.0) <= most) for k, share in enumerate(self._shares)])
        return (1 - shares.sum()) * weights + shares

    def _race(self, held: Hidden, samples: Samples) -> None:
        """Compare all candidates in few windows, and those that may be best in many, or on a lattice of few nodes.

        Candidates that search for their numbers are compared in the last round alone; of volumes always, as most
        nodes of their few windows are near the borders.
        """
        dims = len(samples.grid)
        alive: list[int] = list(range(len(self.candidates)))
        few = held.windows(RACED[dims], FEW_WINDOWS)
        many = [held] if self._is_small else held.windows(JUDGED[dims], MANY_WINDOWS)
        rounds = [many] if len(few) == 1 and len(few[0].clusters) == len(held.clusters) else [few, many]
        if not self._is_small and dims > 2 and self._is_clustered:
            # Windows would cut frames, or the gaps that are laid over them.
            rounds, alive = [[held]], [k for k in alive if self.plans[k].holds_out]
        rounds = [windows for windows in rounds if windows]
        if self._is_row or sum(not self.candidates[k].searches for k in alive) < 2:
            rounds = rounds[-1:]  # few windows would tell nothing, or save no time
        for windows in rounds:
            later = [k for k in alive if self.candidates[k].searches and windows is not rounds[-1]]
            self._compare([k for k in alive if k not in later], windows)
            rivals = self.hidden.rivals() if self.hidden.is_hopeful or not self.hidden.holders else []
            alive = [k for k in self.errors if k in rivals or k in self.hidden.holders]
            later = [k for k in later if self._is_promising(k)]
            is_decided = alive == self.hidden.holders and not (later and dims > 2)
            if not self._is_row and (is_decided or (len(alive) == 1 and not later)):
                self.errors = {k: self.errors[k] for k in alive}
                if any(self.plans[k].refines for k in alive):
                    self._compare(alive, [held])  # windows say less than all that its weight was found by
                break
            alive += later
        if self.errors and not self._is_small:
            self._compare_wholly(held)

    def _compare_wholly(self, held: Hidden) -> None:
        """Compare candidates at all hidden samples: those whose own fits hid these, and others that have a weight.

        The former have these errors already; the latter are fitted to all other samples. Windows may miss the few
        places that have most of the error: on a sky with masts they chose plates, which were 5 dB worse than the local
        fit, and a single window around gaps has few of the gaps. In windows of a clip the errors differ from those of
        all frames by up to 11 dB. A clip takes too long to fit once more, so windows decide there if a candidate that
        does not hide samples itself has a weight.
        """
        holders, dims = self.hidden.holders, len(self.plans[0].geometry.grid)
        others = [k for k in np.flatnonzero(self.hidden.weights()).tolist() if k not in holders]
        if holders and (dims < 3 or not others):
            found = {k: self._errors(k, [held]) for k in [*holders, *others] if not self._is_another(k)}
            self.errors = {k: errors for k, errors in found.items() if errors is not None}
            self._clusters, self._is_whole = _joined([held.clusters]), bool(others)
            self.tried |= {k: mean_square(errors) for k, errors in self.errors.items()}

    def _refine(self, held: Hidden, samples: Samples) -> None:
        """Compare rivals on a lattice of few nodes at more sets of hidden samples, while these may change weights."""
        folds = [held]
        while self._is_small and self.hidden.is_open and len(folds) < MOST_FOLDS:
            if held.is_exhausted or (other := _draw(samples, folds)) is None:
                break
            folds.append(other)
            begun: dict[Prior, Judged] = {}
            more = {k: self._refit(k, [other], begun) for k in sorted({*self.hidden.rivals(), self.hidden.reference})}
            self.errors = {k: np.append(self.errors[k], e) for k, e in more.items() if e is not None}
            self._clusters = _joined([self._clusters, other.clusters])
            self.tried |= {k: mean_square(e) for k, e in self.errors.items()}

    def _compare(self, some: Iterable[int], windows: Sequence[Hidden]) -> None:
        """Find the errors of the promising candidates among ``some`` at the hidden samples of windows.

        If candidates were compared before, fits that hide samples themselves come first, and the others follow by their
        earlier errors. Once a candidate is no rival any more, those that were worse than it are left out.
        """
        before, self.errors = {k: mean_square(e) for k, e in self.errors.items()}, {}
        self._clusters = _joined([window.clusters for window in windows])
        order = {k: 0.0 if self.plans[k].holds_out else before.get(k, math.inf) for k in some}
        for k in sorted(order, key=order.__getitem__) if before else order:
            beaten = (self.errors.keys() & before.keys()) - {*self.hidden.holders, *self.hidden.rivals()}
            if beaten and k in before and not self.plans[k].holds_out:
                continue
            if self._is_promising(k):
                errors = self._errors(k, windows)
                if errors is not None:
                    self.tried[k] = mean_square(errors)
                    if not self._is_another(k):
                        self.errors[k] = errors

    def _is_promising(self, k: int) -> bool:
        """Whether a candidate is worth its time, by the errors of those before it.

        The candidate around which it works, if there is one, counts as good as the best unless it is surely worse: in
        windows that have few edges of a drawing, chance decides which error is least.
        """
        errors = {self.candidates[j]: mean_square(e) for j, e in self.errors.items()}
        around = self.candidates[k].stationary
        if around != self.candidates[k] and around in [self.candidates[j] for j in self.hidden.rivals()]:
            errors[around] = min(errors.values())
        return self._shares[k] != 0 and self.plans[k].is_promising(errors, self._energy)

    @cached_property
    def _energy(self) -> float:
        """The mean square of the known values."""
        known = (self.plans[0].geometry.full_weights > 0).movedim(-1, 0).to(self.values.device)
        return float(self.values.double().square()[0][known.expand_as(self.values[0])].mean())

    def _is_another(self, k: int) -> bool:
        """Whether a candidate's fit is the same object as that of an earlier candidate, which it did not improve."""
        own = self._judged.get(self.candidates[k])
        return own is not None and any(own is self._judged.get(prior) for prior in self.candidates[:k])

    def _errors(self, k: int, windows: Sequence[Hidden]) -> Errors | None:
        """Return a candidate's errors in windows, by its fit to all samples if that hides some, else by refits."""
        if self.plans[k].holds_out and self.candidates[k] not in self._judged:
            self._own(k)
        own = self._estimate(k)
        if own is None:
            return self._refit(k, windows)
        return np.concatenate([w.errors(own.estimate[(..., *w.part)]).cpu().numpy() for w in windows])  # type: ignore[union-attr]

    def _estimate(self, k: int) -> HeldOut | None:
        """Return the estimate of the samples that a candidate's fit hid; None if it was not made or hid none."""
        return self._judged.get(self.candidates[k], (None, None))[1]

    def _own(self, k: int) -> HeldOut | None:
        """Fit a candidate to all samples, and return the estimate of those that it hides on the way, if any."""
        judged = self._judged[self.candidates[k]] = self.plans[k].solve_and_hold_out(self.values, self._judged)
        return judged[1]

    def _refit(self, k: int, windows: Sequence[Hidden], begun: dict[Prior, Judged] | None = None) -> Errors | None:
        """Return the errors of fits to the shown samples; None if there is no fit, as with too few for a plate.

        A candidate that searches for numbers finds them in the first window, and keeps them in all others. A single
        window, unless gaps are hidden in it, and points take the numbers of the fit to all samples instead: that search
        takes about as long, and is needed anyway if the candidate has a weight. In a single window further sets of
        hidden samples take the same numbers. Fits that hide samples themselves are added to ``begun``, from which
        others start.
        """
        errors = []
        with warnings.catch_warnings():
            # Plates that the samples do not determine warn, and are none; those that search take a lower order then.
            warnings.simplefilter("ignore" if self.candidates[k].searches else "error", _checks.CoordnetWarning)
            try:
                prior = self._searched(k, windows)
                for window in windows:
                    shown = window.samples
                    options = {"dtype": shown.values.dtype, "device": shown.values.device}
                    plan = prior.plan(FourierEncoding.like(shown), shown.geometry, **options)
                    if begun is None or not plan.holds_out:
                        fit = plan.fit(shown.values)
                    else:
                        centered = plan.centered(shown.values)
                        begun[prior] = plan.solve_and_hold_out(centered.subtracted(), begun)
                        fit = plan.reconstruction(begun[prior][0], centered)
                    errors.append(window.errors_of(fit).cpu().numpy())
                    prior = prior.settled(fit.report)
            except (ValueError, _checks.CoordnetWarning):
                return None
        if len(windows) == 1:
            self._settled[k] = prior
        return np.concatenate(errors)

    def _searched(self, k: int, windows: Sequence[Hidden]) -> Prior:
        """Return a candidate with the numbers that it found before, or that its fit to all samples finds."""
        prior = self._settled.get(k, self.candidates[k])
        is_lattice = self.plans[k].geometry.closed_form_blend is None
        if not prior.searches or (is_lattice and (len(windows) > 1 or self._is_clustered)):
            return prior
        if k not in self.fits:
            self._own(k)
        return prior.settled(self.fits[k].report)


def _draw(samples: Samples, others: Sequence[Any] = ()) -> Hidden | None:
    kind = HeldOut if samples.geometry.closed_form_blend is None else HiddenPoints
    return kind.draw(samples, FOLD if others else HIDDEN_SHARE, HIDING_SEED + len(others), others)


def _joined(clusters: Sequence[Int[np.ndarray, " _"]]) -> Int[np.ndarray, " hidden"]:
    """Return the numbers of clusters of several sets of hidden entries, one after another, counted from 0."""
    firsts = np.cumsum([0, *(part.max() + 1 for part in clusters)])
    return np.concatenate([part + first for part, first in zip(clusters, firsts[:-1], strict=True)])
