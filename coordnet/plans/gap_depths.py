"""How deep unknown points are within gaps, and the errors to expect at such depths."""

import numpy as np
from jaxtyping import Bool, Float
from scipy.ndimage import distance_transform_cdt
from torch import Tensor

from coordnet.sampling.gap_copies import near

FAR_STEPS = 8  # steps along axes and diagonals from the nearest known point, beyond which a point is far inside a gap
WIDE = 0.1  # share of the unknown points that are far inside, above which the gaps are wide
UNSEEN = 0.1  # share of the unknown points that are deeper than the hidden ones, above which nothing is expected
MIN_SEEN = 20  # hidden entries of a depth that tell its error

Mask = Bool[Tensor, "#channels *lattice"]


def are_wide(known: Mask) -> bool:
    """Return whether more than ``WIDE`` of the unknown points are farther than ``FAR_STEPS`` from every known one."""
    far = ~near(known, FAR_STEPS, range(1, known.ndim))
    return int(far.sum()) > WIDE * int((~known).sum())


def error_in_gaps(known: Mask, shown: Mask, squared: Float[Tensor, "channels *part"], hidden: Mask) -> float | None:
    """Return the mean squared error to expect at unknown points.

    - known: the known points; the others are unknown
    - shown, hidden: the known points of a part of the lattice that a fit saw, and those that were hidden from it
    - squared: the squared errors of that fit

    It is the mean over the depths of unknown points, in powers of two, of the errors at hidden points of that depth. It
    is None if more than ``UNSEEN`` of the unknown points have a depth that fewer than ``MIN_SEEN`` hidden points have:
    the gaps are wider than what is known around them.
    """
    sought = _octave(depths(known)[~known.cpu().numpy()])
    inside = hidden.expand_as(squared).cpu().numpy()
    reached = _octave(np.broadcast_to(depths(shown), inside.shape)[inside])
    errors = squared.double().cpu().numpy()[inside]
    of_depth = [errors[reached == octave] for octave in range(sought.max(initial=0) + 1)]
    shares = np.bincount(sought, minlength=len(of_depth)) / max(sought.size, 1)
    seen = np.array([len(part) >= MIN_SEEN for part in of_depth])
    if shares[~seen].sum() > UNSEEN or not seen.any():
        return None
    weighed = sum(share * part.mean() for share, part, told in zip(shares, of_depth, seen, strict=True) if told)
    return float(weighed / shares[seen].sum())


def depths(known: Mask) -> np.ndarray:
    """Return the distance of each point to the nearest known one, in steps along axes and diagonals."""
    steps = np.empty(known.shape, dtype=np.int32)
    for channel, depth in zip(known.cpu().numpy(), steps, strict=True):
        distance_transform_cdt(~channel, "chessboard", distances=depth)
    return np.where(steps < 0, max(known.shape), steps)  # -1 where nothing is known


def _octave(depth: np.ndarray) -> np.ndarray:
    """Return the power of two below each depth."""
    return np.log2(np.maximum(depth, 1)).astype(int)
