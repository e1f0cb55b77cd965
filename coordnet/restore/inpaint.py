"""Inpainting: the unknown part of a signal, by a prior that learns from the rest."""

import math
import warnings
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.ndimage import label
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import FourierEncoding
from coordnet.fitting.channel_groups import check_channels
from coordnet.fitting.choice import choose_prior, weighed
from coordnet.fitting.closed_form import fit_closed_form, plan
from coordnet.metrics.scores import value_range
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plans.gap_depths import are_wide
from coordnet.priors.base import REQUIRED, Prior, as_prior
from coordnet.restore.restored import InpaintReport, Restored, Tiles, fit_large
from coordnet.sampling.arrays import Array, as_mask, as_signal, check_weights, count_axes_by_mask
from coordnet.sampling.gap_copies import are_clustered
from coordnet.sampling.patterns import Pattern, sample
from coordnet.sampling.samples import Samples

# Photographs with a random share of 2 to 25 % known reach 30.0 + 5.2 log10(share) dB of PSNR in the mean. Holes are
# harder, so nothing higher is expected of larger shares; single photographs are up to 5 dB below the mean.
TYPICAL = (30.0, 5.2)
NATURAL_MARGIN = 12.0  # dB
FEW_KNOWN = 0.5  # share of known samples below which a low hold-out PSNR questions the mask
MAX_INSIDE = 0.5  # largest mean squared difference of neighbors in a picture, relative to that of any two values
MAX_ACROSS = 4.0  # largest mean squared difference across the mask's border in half of the channels, relative to inside
INVERTED = (
    "only {:.3g} % is known, and what the mask calls unknown holds a picture: is the mask inverted? "
    "The command takes --invert, Python `~known`"
)


def inpaint(
    signal: Array,
    known: str | Pattern | Array | None = None,
    *,
    prior: Prior | Literal["auto"] = "auto",
    dimensions: int | None = None,
    seed: int | None = None,
    largest: int | None = None,
    uncertainty: bool = False,
    progress: bool = False,
) -> Restored[InpaintReport]:
    """Fill the unknown samples of a signal; the known ones stay as they are, to the bit, unless the prior has noise.

    Parameters
    ----------
    signal : NumPy array or tensor, (*grid, channels), or (height, width) for a gray picture
        A picture, a video or another signal of one to four axes, or a batch of signals with one mask, such as (n,
        height, width) with a mask of (height, width). Integers of 8 and 16 bits are scaled to [0, 1]. NaN is unknown
        too.
    known : (*grid,) or (*grid, channels), or a sampling pattern, optional
        True, or not zero, where the signal is known; see ``sample`` for patterns. Where it is (*grid,) and the signal
        has more axes before these, the signal is a batch. If not given, all is known but NaN.
    prior : Prior or "auto"
        The assumption about the unknown samples. With "auto" it is that of ``cn.fit``, or adaptive where that does not
        learn from the samples (``choose_prior``).
    dimensions : int, optional
        The number of axes of the grid, where the shape does not tell; see ``as_signal``.
    seed : int, optional
        Seed of the hidden samples that decide the prior, in place of the prior's own.
    largest : int
        Points of the largest signal that is filled as a whole, 4 million if not given; others are filled in
        overlapping ``Tiles``, each with a prior of its own. A batch is never cut.
    uncertainty : bool
        Whether to find ``std`` too, by six more fits (see ``Reconstruction.interval``), and to expect the PSNR that
        follows from it. A batch or a signal in tiles has none.

    Returns
    -------
    Restored
        Its ``expected_psnr`` is the best PSNR at hidden samples, None where none were hidden, or that of ``std``. In
        wide holes (``report.wide_holes``) it is that of hidden copies of the holes, and None where they are wider than
        what is known around them. ``report`` is an ``InpaintReport``. Its prior is the adaptive one where hidden
        samples gave the local one no weight. ``fit`` is None for a signal in tiles. A ``CoordnetWarning`` asks whether
        a mask is inverted (see ``looks_inverted``).

    Raises
    ------
    ValueError
        If there is neither a mask nor a NaN, the mask has another shape than the signal, nothing is known of a channel,
        the prior is None or of another kind, or the uncertainty of a batch or of tiles is asked for.
    """
    dimensions = count_axes_by_mask(signal, known) if dimensions is None else dimensions
    values, kind = as_signal(signal, dimensions=dimensions)
    values, batch = values.detach(), _batch(values, known)
    one = values[(0,) * batch]
    generator = None if seed is None else torch.Generator().manual_seed(_checks.integer("seed", seed, 0))
    samples = sample(one, _two_valued(known, one), dimensions=one.ndim - 1, generator=generator)
    if uncertainty and (batch or len(Tiles(samples.grid, largest)) > 1):
        raise _checks.wrong("uncertainty", "one signal that is fitted as a whole", "a batch" if batch else "tiles")
    kept = samples.geometry.known(1 if samples.weights is None else samples.weights.shape[-1]).to(values.device)
    check_channels("signal", samples)
    if batch and bool(torch.isnan(values).any()):
        raise _checks.wrong("signal", "a batch without NaN, all of which is known in the same places", "NaN")
    given = choose_prior(samples, learned=True) if prior == "auto" else weighed(as_prior(prior, REQUIRED), samples)
    chosen = as_prior(given, REQUIRED) if seed is None else as_prior(given, REQUIRED).seeded(seed)
    alone = progress and (batch > 0 or len(Tiles(samples.grid, largest)) == 1)

    def fit(part: Samples) -> Reconstruction:
        encoding = FourierEncoding.like(part)
        if not batch:
            return fit_closed_form(encoding, part, chosen, progress=alone)
        made = plan(encoding, part.geometry, chosen, progress=alone, dtype=values.dtype, device=values.device)
        return made.fit(torch.where(kept, values, 0.0))

    share, mask = int(kept.sum()) / kept.numel(), kept.movedim(-1, 0)
    wide = are_wide(mask[:1] if bool((mask == mask[:1]).all()) else mask)
    if not batch and looks_inverted(values, kept):
        warnings.warn(INVERTED.format(100 * share), _checks.CoordnetWarning, stacklevel=2)
    largest = math.prod(samples.grid) if batch else largest
    extremes, noisy = _extremes(values, kept), bool(chosen.noise)
    # The samples have their own values: those of a masked lattice are a copy.
    made, fitted = fit_large(samples, fit, largest=largest, is_noisy=noisy, in_place=not noisy, progress=progress)
    model, made = (None, made) if isinstance(made, Tensor) else (made, made.render(alignment="sample"))
    sure = model if uncertainty else None
    hidden = fitted.best_psnr(wide=wide) if sure is None else sure.expected_psnr()
    used, holes = fitted.used(chosen.start.name), _holes(mask)
    report = InpaintReport(prior=used, fit=fitted, known=share, wide_holes=wide, holes=holes)
    expected = _expected(hidden, extremes, None if wide else share)
    made, stays = made.to(values), None if noisy else kept.expand_as(values)
    made = made if stays is None else torch.where(stays, values, made, out=made)
    return Restored(kind.restore(made), model, report, expected, sure and sure.std(), stays)


def _two_valued(known: str | Pattern | Array | None, values: Float[Tensor, "*grid channels"]) -> str | Pattern | Array:
    """Return a mask as 1 where it is not zero, and a pattern as it is; see ``as_mask`` for errors.

    Without either it is 1 everywhere; ``sample`` leaves NaN out.
    """
    if known is None:
        if not bool(values.isnan().any()):
            raise _checks.wrong("known", "a mask, or a signal with NaN where it is unknown", "None")
        return torch.ones(values.shape[:-1])
    if isinstance(known, str | Pattern):
        return known
    if not isinstance(known, np.ndarray | Tensor):
        raise _checks.wrong("known", "a mask as a NumPy array or a tensor, or a pattern", type(known).__name__)
    mask = as_mask(known)
    check_weights(mask, name="known")
    return (mask > 0).to(mask)


def _holes(known: Bool[Tensor, "channels *grid"]) -> int | None:
    """Return the number of connected parts of what is unknown, None if these are single points."""
    unknown = ~known.all(0)
    if not are_clustered(unknown.unsqueeze(0)):
        return None
    connected: Any = label(unknown.cpu().numpy())
    return connected[1]


def _batch(values: Tensor, known: str | Pattern | Array | None) -> int:
    """Return the number of axes of a signal before those of a mask's grid."""
    shape = tuple(getattr(known, "shape", ()))
    return values.ndim - 1 - len(shape) if shape and shape == tuple(values.shape[-len(shape) - 1 : -1]) else 0


def _extremes(values: Tensor, known: Bool[Tensor, "*grid channels"]) -> Float[Tensor, " 2"]:
    """Return the least and the greatest known value; the indices of all would take eight times the values' memory."""
    return torch.stack([torch.where(known, values, end).aminmax()[k] for k, end in enumerate((math.inf, -math.inf))])


def _expected(psnr: float | None, extremes: Float[Tensor, " 2"], share: float | None) -> float | None:
    """Return the PSNR at hidden samples against the range of the known values, whose least and greatest are given.

    A warning is given if less than half is known, as of inverted masks, and it is far below that of photographs with
    the same share known. There is none without a share, as around wide holes, in which any picture is hard to guess.
    """
    if psnr is None:
        return None
    span, bounded = value_range(extremes)
    if bounded and share is not None and share < FEW_KNOWN and psnr < _least_usual(share):
        usual = f"the hold-out PSNR of {psnr:.1f} dB is far below that of photographs with {100 * share:.3g} % known"
        warnings.warn(f"{usual}: is the mask right, and not inverted?", _checks.CoordnetWarning, stacklevel=3)
    return psnr + 20 * math.log10(span)


def _least_usual(share: float) -> float:
    """Return the PSNR that nearly all photographs reach with a share of the pixels known at random places."""
    return TYPICAL[0] + TYPICAL[1] * min(math.log10(share), math.log10(0.25)) - NATURAL_MARGIN


def looks_inverted(values: Float[Tensor, "*grid channels"], known: Bool[Tensor, "*grid #channels"]) -> bool:
    """Return whether a mask seems to call the picture unknown, and its damage known.

    Less than half is then known, in areas or strokes and not in single points; the unknown values are a picture: they
    vary, and neighbors are alike. They go on where the mask begins, in half of the channels or more, since the opacity
    of a layer changes there; or the mask has values of one color.
    """
    if 2 * int(known.sum()) >= known.numel() or bool(values.isnan().any()):
        return False
    known_part = known.any(-1)
    if not are_clustered(known_part.unsqueeze(0)):
        return False
    unknown = (values[~known_part] - values[~known_part].mean(0)).double()
    spread = 2 * float(unknown.square().mean())
    inside, across = _differences(values.double(), known_part)
    if not (spread > 0 and float(inside.mean()) < MAX_INSIDE * spread):
        return False
    is_one_color = bool((values[known_part] == values[known_part][0]).all())
    varies = inside > 0
    return is_one_color or float((across[varies] / inside[varies]).median()) <= MAX_ACROSS


def _differences(
    values: Float[Tensor, "*grid channels"], known: Bool[Tensor, "*grid"]
) -> tuple[Float[Tensor, " channels"], Float[Tensor, " channels"]]:
    """Return each channel's mean squared difference of two unknown neighbors, and of a known and an unknown one."""
    inside, across = [], []
    for axis in range(known.ndim):
        if known.shape[axis] > 1:
            squared = values.diff(dim=axis).square()
            first, second = (known.narrow(axis, k, known.shape[axis] - 1) for k in (0, 1))
            inside.append(squared[~first & ~second])
            across.append(squared[first != second])
    return torch.cat(inside).mean(0), torch.cat(across).mean(0)
