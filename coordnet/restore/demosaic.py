"""Demosaicing: the two colors that each pixel of a Bayer sensor did not measure."""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.restore.inpaint import inpaint
from coordnet.restore.restored import Restored
from coordnet.sampling.patterns import Bayer


def demosaic(
    raw: Float[Tensor, "height width channels"], pattern: str = "RGGB", *, seed: int = 0, progress: bool = False
) -> Restored:
    """Inpaint the colors that a Bayer mosaic lacks; the color that a pixel measured stays as it is, to the bit.

    Parameters
    ----------
    raw : (height, width, 1)
        The mosaic, at least 2 by 2 pixels.
    pattern : str
        The colors of its upper left 2 by 2 pixels, row by row: RGGB, BGGR, GRBG or GBRG, in any case.

    Raises
    ------
    ValueError
        If the mosaic has more than one channel or less than two rows or columns, or there is no such pattern.
    """
    bayer = Bayer(pattern.upper())
    height, width, channels = raw.shape
    if channels != 1:
        raise _checks.wrong("raw", "a gray picture of one channel", channels)
    if min(height, width) < 2:
        raise _checks.wrong("raw", "at least 2 by 2 pixels, all colors", f"{height} by {width}")
    restored = inpaint(raw.expand(height, width, 3), bayer, seed=seed, progress=progress)
    return replace(restored, report={"pattern": bayer.pattern, **restored.report})
