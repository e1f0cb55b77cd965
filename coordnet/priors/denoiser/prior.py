"""A denoiser of pictures as a prior: which samples it suits, and its plans."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.plans.plan import Plan
from coordnet.priors.base import Cleaning, Prior
from coordnet.priors.denoiser.named import network_of
from coordnet.priors.denoiser.parameters import DenoiserParameters
from coordnet.priors.denoiser.plan import DenoiserPlan
from coordnet.priors.denoiser.refined import DenoisedAreaPlan, DenoisedMeasurementPlan, DenoisedMosaicPlan
from coordnet.priors.stack import Stack
from coordnet.sampling.grids import is_mosaic
from coordnet.sampling.samples import Geometry


@dataclass(frozen=True)
class Denoiser(DenoiserParameters):
    """Any denoiser of pictures, such as a trained network, in the place of a prior.

    ``f(x, sigma)`` returns pictures (batch, channels, height, width) without their noise of a standard deviation; both
    are in units of the ``range``, as in deepinv. The samples' own operator says what is known, and the two are brought
    together by plug-and-play (``plug_and_play``), which starts at the best estimate without the denoiser. Samples that
    are hidden, or noise that is added, say how far the denoiser is to be trusted; where it does not suit, the result is
    that without it, to the bit. Clips and volumes are denoised in slices along their last two axes, pictures of another
    number of channels one channel after the other.

    ``cn.fit`` and all functions of ``restore`` weigh it beside the priors that suit the samples.

    Attributes
    ----------
    f : callable
        The denoiser. A ``torch.nn.Module`` is copied, put into ``eval`` and moved to the device of the samples.
    channels : int
        The number of channels that it takes.
    range : (float, float)
        The least and the greatest value of its pictures. The known range of a signal is mapped to it.
    multiple : int
        The height and the width that it takes are multiples of this; others are continued to the next one.
    noise : float
        The standard deviation of the noise on samples; with 0, known samples stay as they are.
    pilot : Prior, optional
        The prior of the estimate to start at where there is no other: the local one, or where that does not suit the
        adaptive one.

    Raises
    ------
    ValueError
        If f is not callable or a number is out of its range; from a fit also if f takes no such pictures, or
        returns another shape or values that are not finite.

    Notes
    -----
    Venkatakrishnan, Bouman and Wohlberg, "Plug-and-play priors for model based reconstruction" (2013); Zhang, Li, Zuo,
    Zhang, Van Gool and Timofte, "Plug-and-play image restoration with deep denoiser prior" (2021).
    """

    name: ClassVar[str] = "denoiser"
    cleans_by: ClassVar[Cleaning] = "network"

    @classmethod
    def named(cls, text: str) -> "Denoiser":
        """Return the denoiser of a name, "ffdnet", or of ``PACKAGE:CLASS,weights=PATH``; see ``network_of``."""
        network, options = network_of(text)
        return cls(network, **options)

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan for measurements, means over cells, mosaics, or other gaps.

        A ``ValueError`` is raised if the encoding is not Fourier's, or the samples are not on the lattice of a picture,
        a clip or a volume, nor measurements of one.
        """
        if not isinstance(encoding, FourierEncoding):
            raise _checks.wrong("encoding", "a FourierEncoding, for a denoiser", type(encoding).__name__)
        suits = geometry.is_nodal or geometry.footprint == "area" or geometry.operator
        if not suits or len(geometry.grid) not in (2, 3):
            expected = "samples on the lattice of a picture, a clip or a volume for a denoiser"
            raise _checks.wrong("geometry", expected, type(geometry).__name__)
        kind: Any = DenoiserPlan
        if geometry.operator:
            kind = DenoisedMeasurementPlan
        elif geometry.footprint == "area":
            kind = DenoisedAreaPlan
        elif is_mosaic(geometry.weights):
            kind = DenoisedMosaicPlan
        return kind(encoding, geometry, self, self.pilot_for(geometry), **options)

    def among(self, others: Callable[[], Prior | None], geometry: Geometry) -> Prior:
        """Return a stack of the suited priors with this one, or this one after them where no sample can be hidden."""
        suited = others()
        if isinstance(suited, Stack) and not is_mosaic(geometry.weights):
            return replace(suited, priors=(*suited.priors, self))
        return self if suited is None else replace(self, pilot=suited)

    def with_noise(self, sigma: float) -> "Denoiser":
        return replace(self, noise=sigma)
