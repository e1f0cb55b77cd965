"""How sure a reconstruction is: intervals, standard deviations and draws, from the samples that its fit keeps."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks

Signal = Float[Tensor, "*grid channels"]


@runtime_checkable
class Uncertainty(Protocol):
    """The samples of a fit and how they were fitted, kept to say how sure it is."""

    def std(self, fit: Any) -> Signal:
        """Return the standard deviation of the errors of the fit."""
        ...

    def interval(self, fit: Any, level: float) -> tuple[Signal, Signal]:
        """Return the ends of intervals that cover a share ``level`` of the unknown samples."""
        ...

    def expected_psnr(self, fit: Any, data_range: float) -> float:
        """Return the PSNR to expect where there is no sample, in dB."""
        ...

    def score(self, fit: Any, blocks: Any, folds: int) -> Any:
        """Return the errors at samples that are hidden in blocks."""
        ...

    def draw(self, fit: Any, count: int, generator: torch.Generator | None) -> Float[Tensor, "draws *grid channels"]:
        """Draw signals around the fit."""
        ...


class Uncertain:
    """The part of a reconstruction that says how sure it is, where its samples were taken or not.

    Only a fit of one signal by ``fit`` or ``fit_closed_form`` knows its samples; they are not saved. Others raise a
    ``ValueError``, as do samples that the methods cannot take.
    """

    uncertainty: Uncertainty | None
    between_nodes: Callable[[Tensor, Tensor], Tensor]

    def interval(self, level: float = 0.9) -> tuple[Signal, Signal]:
        """Return the lower and the upper end of intervals that cover a share ``level`` of the unknown samples.

        They are cross-conformal: six refits without one or two fifths of the samples give errors at hidden samples.
        These errors give a local scale (from the errors nearby, the gradient, the posterior deviation under a local
        prior, and the distance to the nearest sample) and a quantile. The share holds on average over a signal
        whose samples are a random part of it. At known nodes of a masked lattice both ends are the fit itself. The
        refits are made once.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1 or too high for the number of samples, or if there are fewer than 50
            samples, or they are no masked lattice and no scattered points.
        """
        return self._sure().interval(self, level)

    def std(self, points: Float[Tensor, "*points d"] | None = None) -> Signal:
        """Return the standard deviation of the errors to expect on the signal's lattice, 0 at known nodes.

        At ``points``, in the units of the fit, it is (*points, channels), interpolated between the nodes. It has the
        local scale of ``interval``. The standard deviation of ``draw`` is another: it depends on where the
        samples are and not on their values.
        """
        nodes = self._sure().std(self)
        return nodes if points is None else self.between_nodes(nodes, points)

    def expected_psnr(self, data_range: float = 1.0) -> float:
        """Return the PSNR to expect where there is no sample, in dB, from the mean square of ``std``."""
        return self._sure().expected_psnr(self, _checks.positive("data_range", data_range))

    def score(self, blocks: Any = None, *, folds: int = 5) -> Any:
        """Return the ``Score`` of cross-validation by blocks of scattered points: its ``rmse`` and ``r2``.

        Blocks, a sixth of the points' extent long along each axis or ``blocks`` in the fit's units, are hidden in
        ``folds`` parts, and each part is predicted by a fit to the others. Points near each other, as those of a track,
        are so hidden together, where single hidden points flatter.

        Raises
        ------
        ValueError
            If the samples are no scattered points, or there are fewer blocks than folds, or than two.
        """
        return self._sure().score(self, blocks, folds)

    def draw(self, count: int, *, generator: torch.Generator | None = None) -> Float[Tensor, "draws *grid channels"]:
        """Draw signals on the lattice from the posterior under the fit's stationary prior, around the fit.

        The prior is the smooth one, the adaptive one with the spectrum that was learned, or for a local prior that of
        its pilot; the noise is that of the greatest likelihood. Whole lattices are drawn from their independent modes,
        others by perturbed solves, all in one batch. Seed 0 is taken without a ``generator``.

        Raises
        ------
        ValueError
            If ``count`` is no positive integer, the generator is none of PyTorch's, or the prior has no stationary
            posterior: none, thin plates, Huber's loss, or a local one on a strided picture or clip, a mosaic, a lattice
            without gaps, or cells.
        """
        _checks.instance("generator", generator, torch.Generator | None, "a torch.Generator")
        return self._sure().draw(self, count, generator)

    def _sure(self) -> Uncertainty:
        if self.uncertainty is None:
            expected = "one that cn.fit made of one signal's samples, which a saved file does not hold"
            raise _checks.wrong("fit", expected, "a reconstruction without its samples")
        return self.uncertainty
