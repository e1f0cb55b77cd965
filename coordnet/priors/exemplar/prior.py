"""Exemplars as a prior: the parameters, and the plan."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.plans.plan import Plan
from coordnet.priors.base import Prior
from coordnet.priors.exemplar.plan import ExemplarPlan
from coordnet.sampling.samples import Geometry


@dataclass(frozen=True)
class Exemplar(Prior):
    """Texture for large holes in a picture: every patch that meets a hole resembles one that is known as a whole.

    The estimates of least error fade to fog far inside a hole, since its texture cannot be known. This prior invents a
    texture: it looks right, and its error is larger. It is therefore never taken unasked, and has no error to expect.

    Attributes
    ----------
    patch : int
        The side of a patch in pixels, odd.
    seed : int
        The seed of the patches that the search compares at random.

    Raises
    ------
    ValueError
        If the patch is not odd or below 3; from a fit also if no patch of the picture is known as a whole.

    Notes
    -----
    Wexler, Shechtman and Irani, "Space-time completion of video" (2007); Newson, Almansa, Fradet, Gousseau and Pérez,
    "Video inpainting of complex scenes" (2014), has the features of texture.
    """

    name: ClassVar[str] = "exemplar"
    learns: ClassVar[bool] = True
    patch: int = 7
    seed: int = 0

    def __post_init__(self) -> None:
        if _checks.integer("patch", self.patch, 3) % 2 == 0:
            raise _checks.wrong("patch", "an odd number of pixels", self.patch)
        _checks.integer("seed", self.seed, 0)

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan."""
        return ExemplarPlan(encoding, geometry, self.patch, self.seed, **options)

    def seeded(self, seed: int) -> "Exemplar":
        """Return the prior with another seed."""
        return replace(self, seed=seed)
