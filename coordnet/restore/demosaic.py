"""Demosaicing: the two colors that each pixel of a mosaic lacks, by a prior that learns from the colors it has."""

from dataclasses import replace
from typing import Literal

from coordnet import _checks
from coordnet.priors.base import Prior
from coordnet.priors.local import Local
from coordnet.priors.registry import REQUIRED, as_prior
from coordnet.restore.inpaint import inpaint
from coordnet.restore.noise import refuse_more_than
from coordnet.restore.restored import Restored
from coordnet.sampling.arrays import Array, as_signal
from coordnet.sampling.patterns import Bayer


def demosaic(
    raw: Array,
    pattern: str = "RGGB",
    sigma: float | None = None,
    *,
    prior: Prior | Literal["auto"] = "auto",
    seed: int | None = None,
    progress: bool = False,
) -> Restored:
    """Inpaint the colors that a Bayer mosaic lacks; the color that a pixel measured stays as it is, to the bit.

    With noise on the mosaic, none stays: the local prior then removes the noise from all colors jointly.

    Parameters
    ----------
    raw : NumPy array or tensor, (height, width) or (height, width, 1)
        The mosaic, at least 2 by 2 pixels. Integers of 8 and 16 bits are scaled to [0, 1].
    pattern : str
        The colors of its upper left 2 by 2 pixels, row by row: RGGB, BGGR, GRBG or GBRG, in any case.
    sigma : float, optional
        Standard deviation of white noise on the mosaic, of integers after they are scaled; none if not given.
    prior, seed
        Those of ``inpaint``. Noise needs a prior that takes it, as the local one does, which "auto" then is.

    Raises
    ------
    ValueError
        If the mosaic has more than one channel or less than two rows or columns, there is no such pattern, sigma is
        negative or above the mosaic's own standard deviation, or the prior takes no noise.
    """
    bayer = Bayer(str(pattern).upper())
    mosaic, kind = as_signal(raw, "raw", dimensions=2)
    height, width, channels = mosaic.shape
    if channels != 1:
        raise _checks.wrong("raw", "a gray picture of one channel", f"{channels} channels")
    if min(height, width) < 2:
        raise _checks.wrong("raw", "at least 2 by 2 pixels, all colors", f"{height} by {width}")
    if sigma:
        refuse_more_than(mosaic, _checks.nonnegative("sigma", sigma))
        prior = Local(noise=sigma) if prior == "auto" else as_prior(prior, REQUIRED).with_noise(sigma)
    made = inpaint(mosaic.expand(height, width, 3), bayer, prior=prior, dimensions=2, seed=seed, progress=progress)
    report = {"pattern": bayer.pattern, **({"sigma": sigma} if sigma else {}), **made.report}
    return replace(made, signal=kind.restore(made.signal), report=report)
