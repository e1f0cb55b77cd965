"""Pixels that were lost to black or white, as by faulty sensors and transmission ("salt and pepper")."""

import torch
from jaxtyping import Bool, Float
from scipy.ndimage import median_filter
from torch import Tensor

WINDOW = 5  # side in pixels of the square whose median a lost pixel differs from
APART = 0.2  # least such difference, relative to the range of the values
LEAST, MOST = 0.002, 0.4  # shares of the pixels at either end that may be lost: fewer are details, more have no median
ALONE = 0.7  # least share of the pixels at the ends of the range that differ from their medians: others are surfaces


def lost_pixels(picture: Float[Tensor, "height width channels"]) -> Bool[Tensor, "height width"] | None:
    """Return the pixels that are lost, None where none are, or the picture has black or white surfaces of its own.

    All channels of a lost pixel are at the same end of the range of the values, far from the median around it.
    """
    low, high = picture.min(), picture.max()
    ends = torch.stack([(picture == end).all(-1) for end in (low, high)])
    gray = picture.mean(-1)
    around = torch.from_numpy(median_filter(gray.double().cpu().numpy(), WINDOW)).to(gray)
    lost = ends & ((gray - around).abs() > APART * (high - low))
    shares = lost.double().mean((1, 2))
    is_alone = float(lost.sum()) >= ALONE * float(ends.sum())
    is_noise = bool(((shares >= LEAST) & (shares <= MOST)).all()) and is_alone
    return lost.any(0) if is_noise else None
