"""A demosaicking function, such as a trained network, as a prior for Bayer mosaics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.priors.base import Prior
from coordnet.priors.denoiser.named import network_of
from coordnet.priors.denoiser.parameters import PilotedPrior
from coordnet.priors.denoiser.pictures import SYMMETRIES, called, on_device, turned, turned_back
from coordnet.priors.denoiser.refined import DenoisedMosaicPlan, Signal
from coordnet.priors.local import Local
from coordnet.sampling.patterns import BAYER_PATTERNS, Bayer
from coordnet.sampling.samples import Geometry

# Symmetric mosaics whose mean is taken. On the middle 192² of eight photographs, demosaicnet gains 0.11 dB with two,
# 0.16 dB with four and 0.18 dB with all eight, which take the time of the local prior.
AVERAGED = 4
CONTINUED = 32  # pixels by which a mosaic is continued at each border; demosaicnet's pictures lack 31 of them


@dataclass(frozen=True)
class Demosaicker(PilotedPrior):
    """Any function that demosaics, such as a trained network, weighed beside the estimate without it.

    ``f(mosaic)`` takes pictures (batch, 3, height, width) in [0, 1] that are 0 where a color was not measured, and
    returns all colors, of smaller pictures too that lack up to 32 pixels at each border. The mean over four symmetries
    of the square is taken. It gets the weight that suits the mosaic of the other estimate in another phase; where that
    is 0, the result is that without it, to the bit, as it is for mosaics with noise, which the function would keep.

    Attributes
    ----------
    f : callable
        The function. A ``torch.nn.Module`` is copied, put into ``eval`` and moved to the device of the samples.
    pattern : str
        The colors of the upper left 2 by 2 pixels of its mosaics, row by row: RGGB, BGGR, GRBG or GBRG. Mosaics with
        another pattern are continued by reflection to this one.
    pilot : Prior, optional
        The prior of the other estimate, such as a ``Denoiser``: the local one if not given.

    Raises
    ------
    ValueError
        If f is not callable or there is no such pattern; from a fit also if the samples are no Bayer mosaic of equal
        weights, or f raises an error or returns smaller pictures or values that are not finite.

    Notes
    -----
    Gharbi, Chaurasia, Paris and Durand, "Deep joint demosaicking and denoising" (2016); ``BayerDemosaick()`` of their
    package ``demosaicnet`` has the pattern GRBG.
    """

    name: ClassVar[str] = "demosaicker"
    arguments: ClassVar[str] = "(mosaic)"
    pattern: str = "RGGB"

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.choice("pattern", self.pattern, BAYER_PATTERNS)

    @classmethod
    def named(cls, text: str) -> "Demosaicker":
        """Return the function of ``PACKAGE:CLASS,weights=PATH``, with ``pattern=GRBG`` where it is not RGGB.

        ``network_of`` says more, and what is raised.
        """
        network, options = network_of(text, "demosaicker", {"pattern": lambda _, value: value.upper()}, {})
        return cls(network, **options)

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> "DemosaickedPlan":
        """Return the plan for a mosaic; a ``ValueError`` is raised if there is none, or another encoding."""
        if not isinstance(encoding, FourierEncoding):
            raise _checks.wrong("encoding", "a FourierEncoding, for a demosaicker", type(encoding).__name__)
        if not is_bayer(geometry):
            raise _checks.wrong("geometry", "a Bayer mosaic of equal weights", type(geometry).__name__)
        return DemosaickedPlan(encoding, geometry, self, self.pilot_for(geometry), **options)

    def among(self, others: Callable[[], Prior | None], geometry: Geometry) -> Prior:
        """Return the prior with a pilot: the one it has, or the prior that suits the mosaic."""
        return self if self.pilot is not None else replace(self, pilot=others())

    def with_noise(self, sigma: float) -> Prior:
        """Return the pilot with the noise: the function would keep it, and gets no weight."""
        return (self.pilot or Local()).with_noise(sigma)


class DemosaickedPlan(DenoisedMosaicPlan):
    """Weigh what a demosaicking function makes of a mosaic beside the pilot's estimate; see ``RefinedPlan``."""

    method = "demosaicking"

    def refined(self, start: Signal, values: Signal, sigmas: Sequence[float]) -> Signal:
        """Return the mean of what the function makes of the symmetric mosaics, in units of the start's range."""
        (f, dtype), scale, known, made = on_device(self.prior.f, self.device), self.scale(start), self._known, []
        mosaic = torch.where(known, scale.into(values), 0.0).to(dtype or values.dtype)
        for symmetry in SYMMETRIES[:AVERAGED]:
            colors = demosaicked(f, self.prior.pattern, turned(mosaic, symmetry), turned(known, symmetry))
            made.append(turned_back(colors, symmetry))
        return torch.where(known, values, scale.back(torch.stack(made).mean(0).to(values)))


def demosaicked(
    f: Any, pattern: str, mosaic: Float[Tensor, "3 height width"], known: Bool[Tensor, "3 height width"]
) -> Float[Tensor, "3 height width"]:
    """Return all colors by a function f of mosaics with a pattern, to which a mosaic of another phase is continued."""
    red = known[0, :2, :2].nonzero()[0].tolist()
    first = divmod(pattern.index("R"), 2)
    before = [CONTINUED + (there - here) % 2 for here, there in zip(red, first, strict=True)]
    rows, columns = (continued(n, b) for n, b in zip(mosaic.shape[1:], before, strict=True))
    given = mosaic[:, rows][:, :, columns].unsqueeze(0)
    colors = called(f, given)[0]
    lost = [n - m for n, m in zip(given.shape[2:], colors.shape[1:], strict=True)]
    if len(colors) != 3 or any(n < 0 or n % 2 or n > 2 * CONTINUED for n in lost):
        expected = f"colors of mosaics {tuple(given.shape)}, at most {CONTINUED} pixels less at each border"
        raise _checks.wrong("f", expected, (1, *colors.shape))
    top, left = (b - n // 2 for b, n in zip(before, lost, strict=True))
    return colors[:, top : top + mosaic.shape[1], left : left + mosaic.shape[2]]


def continued(count: int, before: int) -> Int[Tensor, " indices"]:
    """Return the indices of an axis continued by reflection, with ``CONTINUED`` at its end, or one more to be even."""
    after = CONTINUED + (before + count) % 2
    indices = torch.arange(-before, count + after) % (2 * count - 2)
    return torch.minimum(indices, 2 * count - 2 - indices)


def is_bayer(geometry: Geometry) -> bool:
    """Return whether samples are a Bayer mosaic, of weight 1."""
    shape, weights = (*geometry.grid, 3), geometry.weights
    if weights is None or tuple(weights.shape) != shape or len(shape) != 3:
        return False
    return any(torch.equal(weights.cpu(), Bayer(name).geometry(shape, None).full_weights) for name in BAYER_PATTERNS)
