"""Area samples of pictures with the local prior: the pixels within each cell, by the posterior means of patches.

Patches of whole cells begin at a cell, so that the same matrix A takes all of them to their means over cells, and one
decomposition of A S Aᵀ for each shape S serves every patch; see ``mixture``. Groups of patches that are similar in the
result, again of whole cells, then correct it.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import ComplexEncoding, FourierEncoding
from coordnet.encodings.encoders import BSpline
from coordnet.linalg.borders import make_periodic
from coordnet.linalg.machine import in_threads
from coordnet.networks.fit_reports import LocalReport
from coordnet.plans.plan import Fitted, Plan
from coordnet.priors.least_squares import LeastSquares, LeastSquaresPlan
from coordnet.priors.local.classes import ENTRY_VARIANCE, Channels, gray_shapes, joint_shapes
from coordnet.priors.local.masks import weights_of_groups
from coordnet.priors.local.mixture import ENERGIES, Mixture
from coordnet.priors.local.parameters import LocalParameters
from coordnet.priors.local.patches import Estimate, Patches, PatchPosterior
from coordnet.priors.local.similar_patches import (
    GROUP_FLOOR,
    GROUP_SHARE,
    from_groups,
    references,
    ridge_factor,
    where_moved,
)
from coordnet.priors.local.weights import MIN_IMPROVEMENT, Weight, least_squares_share
from coordnet.sampling.grids import AreaLattice, CellMeans

CELLS = 4  # cells of a patch along each axis
MAX_DIVISION = 4  # parts of a cell along its side by patches, whose shapes take its fourth power in memory
FEWEST_CELLS = 2 * CELLS  # cells along an axis from which on a picture's own half decides the weight
# The splines that the patches are weighted against, and that enlarge pictures: those of degree 2 have means over the
# pixels at which they are centered that are cubic B-splines. The bound keeps all of their singular values, at any size.
DEGREE, INTERPOLATION = 2, LeastSquares(rcond=1e-6)
# Share that is taken of the weight that suits the half, at most 1, as a half has sharper edges: on eight of
# scikit-image's pictures 0.3 to 1.1 of it suited best, the least on text.
TRUST = 0.85
# The same share of the weight of groups. On crops of 160² of six photographs and seven other pictures, by 2 and 3, 0.85
# gains 0.02 dB more in the mean, and loses 0.24 in the place of 0.17 dB on a retina's vessels. Groups gain 0.09, 0.09
# and 0.05 dB by 2, 3 and 4 on crops of eight other photographs, none of which loses, and nearly double the time.
GROUP_TRUST = 0.7
SIDE, STEP = 6, 4  # pixels of a patch of a group along each axis at least, and between such patches, in whole cells
Picture = Float[Tensor, "channels height width"]
Pixels = Float[Tensor, "channels *pixels"]


class LocalAreaPlan(Plan):
    """Divide the cells of a picture into pixels by the posterior means of patches, all colors jointly.

    The classes stay as they start: no patch shows what is within a cell. Quadratic splines whose means over the cells
    are the samples are what the patches are weighted against; the picture's own half, divided in the same way, decides
    the weight. Groups of patches that are similar in the result then divide the cells again, with a weight by that
    half. Without noise, the means of the result over the cells are the samples.

    The parameters are those of ``plan``; the encoding is replaced by Fourier's of the pixels. A ``ValueError`` is
    raised for other signals than pictures, for cells of one pixel, and where a mean is unknown.
    """

    def __init__(
        self, encoding: FourierEncoding, geometry: AreaLattice, prior: LocalParameters, **options: Any
    ) -> None:
        if len(geometry.grid) != 2 or geometry.filled_axes is None or geometry.shape == geometry.grid:
            expected = "None, Smoothness or Adaptive, but for all means of a picture over cells of several pixels"
            raise _checks.wrong("prior", expected, "Local")
        super().__init__(FourierEncoding.on(geometry.pixels), geometry, **options)
        self.cells, self.prior = geometry.cells, prior

    def _solve(self, values: Float[Tensor, "1 channels *cells"]) -> Fitted:
        span = float(values.max() - values.min()) or 1.0
        y, noise = values[0] / span, self.prior.noise_in(span) ** 2
        with tqdm(total=3, desc="patches", disable=not self.progress) as bar:
            weight, grouped, halved = half_weights(y, noise, with_groups=max(self.cells) <= MAX_DIVISION)
            bar.update()
            first = f = splines(y, self.geometry.grid)
            if weight.alpha:
                f = first + weight.alpha * (divided(y, self.cells, max(noise, ENTRY_VARIANCE)) - first)
            bar.update()
            if grouped.alpha:
                f = f + grouped.alpha * (divided_from_similar(y, self.cells, first, f, noise) - f)
            bar.update()
        if not noise:
            means = CellMeans(tuple(f.shape[1:]), self.cells)
            f = f + math.prod(self.cells) * means.adjoint(y - means(f))
        report = LocalReport(
            method="posterior means of patches within cells, local prior, against splines",
            **weight.record(span, "splines"),
            groups=weights_of_groups([grouped] if grouped.alpha else [], span, "the patches"),
        )
        coefficients = make_periodic(span * f.unsqueeze(0), self.encoding.shape)
        return Fitted(coefficients, report, halved=None if halved is None else span * halved.unsqueeze(0))


def half_weights(y: Picture, noise: float, *, with_groups: bool) -> tuple[Weight, Weight, Tensor | None]:
    """Return the weights of patches against splines and of groups that suit a picture's own half.

    The last, with an even height and width, is what patches make of the half, against which a denoiser is weighed:
    groups do a part of its work. The weights are ``TRUST`` and none, without the half, for a picture of fewer than
    ``FEWEST_CELLS`` cells on an axis. Groups have no weight either where they are not asked for, as they divide no
    cells into more than ``MAX_DIVISION``.
    """
    height, width = (n // 2 * 2 for n in y.shape[1:])
    if min(height, width) < FEWEST_CELLS:
        return Weight(TRUST), Weight(), None
    truth, cells, noise = y[:, :height, :width], (2, 2), noise / 4
    half = CellMeans((height, width), cells)(truth)
    first, second = splines(half, (height, width)), divided(half, cells, max(noise, ENTRY_VARIANCE))
    weight, f = trusted(truth, first, second, TRUST)
    if not with_groups:
        return weight, Weight(), f
    grouped, _ = trusted(truth, f, divided_from_similar(half, cells, first, f, noise), GROUP_TRUST)
    return weight, grouped if grouped.gain >= MIN_IMPROVEMENT else Weight(), f


def trusted(truth: Pixels, first: Pixels, second: Pixels, trust: float) -> tuple[Weight, Pixels]:
    """Return a share of the weight, at most 1, that suits a second estimate of the truth, and the estimate with it."""
    alpha = trust * least_squares_share(first - truth, second - truth)
    f = first + alpha * (second - first)
    before, after = (float((g - truth).square().mean()) for g in (first, f))
    return Weight(alpha, (before, after)), f


def splines(y: Picture, shape: tuple[int, ...]) -> Pixels:
    """Return pixels of a shape by quadratic splines, one at each cell, whose means over the cells are y."""
    geometry = AreaLattice(tuple(y.shape[1:]))
    options = {"dtype": y.dtype, "device": y.device}
    encoding = ComplexEncoding.like(BSpline, geometry, degree=DEGREE)
    fit = LeastSquaresPlan(encoding, geometry, INTERPOLATION, **options).fit(y.movedim(0, -1))
    return fit.render(shape).movedim(-1, 0)


def divided(y: Picture, cells: tuple[int, ...], noise: float) -> Pixels:
    """Return the pixels of cells by the posterior means of overlapping patches, for noise of a variance on y.

    Three channels are colors, whose patches are treated jointly; other channels are uncorrelated first. Cells of more
    than ``MAX_DIVISION`` pixels along a side are divided into as many parts, and splines have the pixels of these.
    """
    parts = tuple(min(MAX_DIVISION, cell) for cell in cells)
    if parts != cells:
        shape = tuple(n * cell for n, cell in zip(y.shape[1:], cells, strict=True))
        return splines(divided(y, parts, noise), shape)
    if len(y) == 3:
        return _divided(y, cells, noise)
    basis = Channels.of(y, torch.ones_like(y[:1], dtype=torch.bool)).basis
    parts = torch.tensordot(basis.T, y, 1).split(1)
    return torch.tensordot(basis, torch.cat([_divided(part, cells, noise) for part in parts]), 1)


def _divided(y: Picture, cells: tuple[int, ...], noise: float) -> Pixels:
    """Return the mean of overlapping patches, each entry weighted by its posterior precision."""
    coarse = tuple(min(CELLS, n) for n in y.shape[1:])
    lattice, shape = (tuple(n * c for n, c in zip(sizes, cells, strict=True)) for sizes in (y.shape[1:], coarse))
    start = joint_shapes(shape, device=y.device) if len(y) == 3 else gray_shapes(shape, y.device)
    mixture = Mixture.begin(start.to(y), ENERGIES, noise)
    view = mixture.view(_means(shape, cells, len(y)).to(y))

    def posterior(parts: tuple[Patches, Patches]) -> PatchPosterior:
        """Return patches of pixels with the means and the variances of their entries."""
        seen, patches = parts
        values = seen.of(y)
        means = values.mean(2, keepdim=True)
        x = (values - means).flatten(1)
        mean, variance, classes = mixture.posterior(x, view)
        mean, variance = (part.unflatten(1, (len(y), -1)) for part in (mean, variance))
        return PatchPosterior(patches, mean + means, variance, classes, noise)

    seen = Patches.every(1, tuple(y.shape[1:]), coarse, y.device).split(mixture.at_once)
    fine = Patches.every(cells, lattice, shape, y.device).split(mixture.at_once)
    nothing = y.new_zeros(len(y), *lattice)
    return Estimate.of(in_threads(posterior, zip(seen, fine, strict=True), y.device), nothing).f


def divided_from_similar(y: Picture, cells: tuple[int, ...], first: Pixels, pilot: Pixels, noise: float) -> Pixels:
    """Return the pixels of cells by groups of patches that are similar in a pilot, for noise of a variance on y.

    The pilot stays where it has hardly moved from the ``first`` estimate; see ``where_moved``.
    """
    counts = [min(-(-SIDE // c), n) for c, n in zip(cells, y.shape[1:], strict=True)]
    patch = tuple(c * n for c, n in zip(cells, counts, strict=True))
    steps = [c * max(1, STEP // c) for c in cells]
    starts = [references(n, p, s, y.device) for n, p, s in zip(pilot.shape[1:], patch, steps, strict=True)]
    rows, means = _means(patch, cells, len(y)).to(y), CellMeans(tuple(pilot.shape[1:]), cells)
    wide = math.prod(cells) * means.adjoint(y)

    def posterior(patches: Patches, x: Tensor) -> tuple[Tensor, Tensor]:
        return condition_means(patches.of(wide).flatten(1) @ rows.T, rows, x, noise)

    sought = where_moved(pilot - first, torch.ones_like(pilot[:1], dtype=torch.bool))
    return from_groups(pilot, sought, patch, starts, posterior)


def condition_means(
    y: Float[Tensor, "groups means"], rows: Float[Tensor, "means size"], x: Float[Tensor, "groups n size"], noise: float
) -> tuple[Float[Tensor, "groups size"], Float[Tensor, "groups size"]]:
    """Return the posterior mean and variances of patches under the Gaussians of their groups x, by means y over cells.

    The Gaussians are those of ``condition``, of covariance XᵀX/n + v. With S, the ``rows`` of means over c entries
    each, and noise of variance s² on them, K = SXᵀXSᵀ + n (v/c + s²) I and B = XᵀXSᵀ + n v Sᵀ, the posterior mean is
    m + B K⁻¹ (y - S m), and the posterior variances are diag(XᵀX - B K⁻¹ Bᵀ)/n + v, which are at least v/2.
    """
    mean, n = x.mean(1), x.shape[1]
    x = x - mean.unsqueeze(1)
    floor = GROUP_FLOOR + GROUP_SHARE * x.square().mean((1, 2))
    seen, ridge = x @ rows.T, n * (floor * rows[0].square().sum() + noise)
    left = x.mT @ seen + (n * floor).reshape(-1, 1, 1) * rows.T
    factor = ridge_factor(seen.mT @ seen, ridge.unsqueeze(1))
    half = torch.linalg.solve_triangular(factor.mT, left, upper=True, left=False)  # in this order needs no copies
    white = torch.linalg.solve_triangular(factor, (y - mean @ rows.T).unsqueeze(2), upper=False)
    variance = (x.square().sum(1) - half.square().sum(2)) / n + floor.unsqueeze(1)
    return mean + (half @ white)[..., 0], variance.clamp(min=GROUP_FLOOR / 2)


def _means(shape: tuple[int, ...], cells: tuple[int, ...], channels: int) -> Float[Tensor, "means size"]:
    """Return the matrix of the means over the cells of a patch, channel after channel."""
    size = math.prod(shape)
    rows = CellMeans(shape, cells)(torch.eye(size, dtype=torch.float64).reshape(size, *shape)).flatten(1).T
    return torch.block_diag(*[rows] * channels)
