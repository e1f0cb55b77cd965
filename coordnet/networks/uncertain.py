"""The errors to expect of a fit: intervals, deviations, scores by cross-validation, and draws from its posterior."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks

Places = Any  # coordinates (*points, d): a tensor of floating point, an array, or columns of a pandas.DataFrame
Uncertainty = Any  # a fit's samples and how they were fitted: what ``interval`` to ``draw`` of a fit ask


class Uncertain:
    """The part of a reconstruction that estimates its errors, by refits to parts of the samples."""

    uncertainty: Uncertainty | None
    __call__: Callable[..., Any]
    _between_nodes: Callable[..., Any]
    _nearest: Callable[..., Any]
    render: Callable[..., Any]
    _check_no_drift: Callable[[], None]

    def interval(
        self,
        level: float = 0.9,
        points: Places | None = None,
        *,
        blocks: float | Sequence[float] | None = None,
        drift: Any = None,
        progress: bool = False,
    ) -> tuple[Any, Any]:
        """Return the lower and the upper end of intervals that cover a share ``level`` of the unknown samples.

        They are cross-conformal: six refits without one or two fifths of the samples give errors at hidden samples, or
        where every k-th node is known, as of ``cn.Lattice`` with steps, up to five refits to halves of these nodes.
        These errors give a local scale (from the errors nearby, the gradient, the posterior deviation under a local
        prior, and the distance to the nearest sample) and a quantile. The share holds on average over a signal
        whose samples are a random part of it, even if a border is unknown besides. At known nodes of a masked lattice
        both ends are the fit itself. The refits are made once; ``progress`` shows a bar meanwhile, as it is shown where
        the fit showed its own. At ``points``, in the units of the fit, with their
        ``drift`` if the fit has one, the ends are (*points, channels), tensors or arrays as the points are.

        Where points leave gaps within their hull, as tracks do, each refit leaves out a tenth of the points and a tenth
        of all boxes as wide as the gaps, or as long as ``blocks`` in the fit's units. The share then holds for places
        as far from all points as those of a hidden box are, and for places near points, by the errors at those left out
        without their boxes. A ``ValueError`` is raised if the level is not between 0 and 1 or too high for the number
        of samples, if there are fewer than 50 samples or 8 along an axis on which nodes are skipped, or if they are
        no lattice with gaps and no scattered points.
        """
        nodes = self._sure().half_width(self, level, blocks, progress)
        if points is None:
            self._check_no_drift()
            half, center = self._nearest(nodes), self.render(alignment="sample")
        else:
            half, center = self._between_nodes(nodes, points), self(points, drift=drift)
        return center - half, center + half

    def std(
        self, points: Places | None = None, *, blocks: float | Sequence[float] | None = None, progress: bool = False
    ) -> Any:
        """Return the standard deviation of the errors to expect on the signal's lattice, 0 at known nodes.

        They are errors at samples that are not known: with noise on the samples they include it, as intervals do, and
        are larger than the errors of the signal beneath. At ``points``, in the units of the fit, it is (*points,
        channels), interpolated between the nodes. It has the local scale, the ``blocks`` and the ``progress`` of
        ``interval``. The standard deviation of ``draw`` is another: it depends on where the samples are and not on
        their values.
        """
        nodes = self._sure().std(self, blocks, progress)
        return self._nearest(nodes) if points is None else self._between_nodes(nodes, points)

    def expected_psnr(self, data_range: float = 1.0, *, progress: bool = False) -> float:
        """Return the PSNR to expect where there is no sample, in dB, from the mean square of ``std``.

        Where the samples are points, it is that of the nodes within their convex hull. It is about 3000 where no error
        is to be expected, as of a constant signal. The ``progress`` is that of ``interval``.
        """
        return self._sure().expected_psnr(self, _checks.positive("data_range", data_range), progress)

    def score(self, blocks: float | Sequence[float] | None = None, *, folds: int = 5, progress: bool = False) -> Any:
        """Return the ``Score`` of cross-validation by blocks of scattered points: its ``rmse`` and ``r2``.

        Blocks, a sixth of the points' extent long along each axis (a thirtieth of a row) or ``blocks`` in the fit's
        units, are hidden in ``folds`` parts, and each part is predicted by a fit to the others. Points near each other,
        as those of a track, are so hidden together, where single hidden points flatter. Points of a row beyond those
        that a fit sees do not count. The ``progress`` is that of ``interval``. A ``ValueError`` is raised if the
        samples are no scattered points, or there are fewer blocks than folds, or than two.
        """
        return self._sure().score(self, blocks, folds, progress)

    def draw(self, count: int, *, generator: torch.Generator | None = None) -> Float[Tensor, "draws *grid channels"]:
        """Draw signals on the lattice from the posterior under the fit's stationary prior, around the fit.

        The prior is the smooth one, the adaptive one with the spectrum that was learned, or for a local prior that of
        its pilot; the noise is that of the greatest likelihood. Whole lattices are drawn from their independent modes,
        others by perturbed solves, all in one batch. The ``generator`` is by default that of ``torch.manual_seed``. A
        ``ValueError`` is raised if ``count`` is no positive integer, the generator is none of PyTorch's, or the prior
        has no stationary posterior: none, thin plates, Huber's loss, or a local one on a strided picture or clip, a
        mosaic, a lattice without gaps, or cells.
        """
        _checks.instance("generator", generator, torch.Generator | None, "a torch.Generator")
        return self._sure().draw(self, count, generator)

    def _sure(self) -> Uncertainty:
        if self.uncertainty is None:
            expected = "one that cn.fit made of one signal's samples, which a saved file does not hold"
            raise _checks.wrong("fit", expected, "a reconstruction without its samples")
        return self.uncertainty
