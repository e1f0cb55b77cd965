"""The prior that fills large holes by patches of the picture itself, and its plan."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.linalg.borders import make_periodic
from coordnet.networks.fit_reports import FitReport
from coordnet.plans.gap_depths import depths
from coordnet.plans.plan import Fitted, Plan
from coordnet.priors.base import Prior
from coordnet.priors.exemplar.matching import (
    Features,
    Known,
    Resolution,
    Search,
    averaged,
    copied,
    doubled,
    fog,
    resolutions,
    whole_patches,
)
from coordnet.sampling.samples import Geometry

PASSES = 10  # searches and votes at one resolution, as Newson et al. (2014) have it
ROUNDS = 2  # rounds of one search; the first one at a resolution has twice as many


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
    usage: ClassVar[str] = "[:patch=7] (texture copied into large holes of a picture, where the others leave fog)"
    learns: ClassVar[bool] = True
    patch: int = 7
    seed: int = 0

    def __post_init__(self) -> None:
        if _checks.integer("patch", self.patch, 3) % 2 == 0:
            raise _checks.wrong("patch", "an odd number of pixels", self.patch)
        _checks.integer("seed", self.seed, 0)

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        return ExemplarPlan(encoding, geometry, self.patch, self.seed, **options)


class ExemplarPlan(Plan):
    """Fill a picture's holes with known patches; the Fourier encoding holds the result.

    At every resolution two steps alternate: each patch with an unknown pixel finds the known one nearest to it, and
    each unknown pixel becomes the mean of what the patches found have there. The coarsest resolution starts with fog,
    each finer one with the patches that the coarser one found. In the end each unknown pixel is a copy of a known one.

    The parameters are those of ``plan``, and the side of a patch and a seed. A ``ValueError`` is raised if the encoding
    is not Fourier's, or the samples are no picture with gaps.
    """

    def __init__(self, encoding: Encoding, geometry: Geometry, patch: int, seed: int, **options: Any) -> None:
        if encoding.axis_encoders:
            raise _checks.wrong("encoding", "a FourierEncoding for exemplars", type(encoding).__name__)
        if len(geometry.grid) != 2 or geometry.gaps is None or geometry.shape != geometry.grid:
            found = f"{type(geometry).__name__} of a signal of {'×'.join(map(str, geometry.grid))}"
            raise _checks.wrong("geometry", "the pixels of a picture with gaps, for exemplars", found)
        super().__init__(encoding, geometry, **options)
        self.patch, self.seed = patch, seed

    @torch.no_grad()
    def _solve(self, values: Float[Tensor, "1 channels *samples"]) -> Fitted:
        known = self.geometry.known(values.shape[1]).to(values.device)
        picture = values[0].movedim(0, -1)
        filled = self._filled(picture, known.all(-1))
        f = torch.where(known, picture, filled).movedim(-1, 0).unsqueeze(0)
        report = FitReport(method=f"exemplars of {self.patch}×{self.patch} pixels")
        return Fitted(make_periodic(f, self.encoding.shape), report)

    def _filled(self, picture: Float[Tensor, "height width channels"], known: Known) -> Features:
        """Return a picture without its holes."""
        generator = torch.Generator().manual_seed(self.seed)
        levels = self._levels(picture, known)
        features, places = fog(*levels[-1]), None
        total = PASSES * sum(int((~whole_patches(level.known, self.patch)).sum()) for level in levels)
        with tqdm(total=total, desc="copying", leave=None, disable=not self.progress, dynamic_ncols=True) as bar:
            for level in reversed(levels):
                search = Search(level.known, self.patch, generator)
                nearest = search.drawn() if places is None else search.finer(places)
                if places is not None:
                    start = torch.where(level.known[..., None], level.features, doubled(features, level.known.shape))
                    features = averaged(level, search.improved(start, nearest, 0), self.patch)
                for k in range(PASSES):
                    matches = search.improved(features, nearest, ROUNDS if k else 2 * ROUNDS)
                    features, nearest = averaged(level, matches, self.patch), matches.nearest
                    bar.update(len(nearest))
                places = search.onto_all(nearest)
        return copied(level, matches, self.patch)[..., : picture.shape[-1]]

    def _levels(self, picture: Float[Tensor, "height width channels"], known: Known) -> list[Resolution]:
        """Return a picture at resolutions down to one at which the widest hole is about as wide as a patch."""
        if not self._is_usable(known):
            expected = f"a picture in which {self.patch}×{self.patch} pixels are known as a whole, for exemplars"
            raise _checks.wrong(
                "known", expected, f"{int(known.sum())} known pixels of {known.numel()}, all in smaller parts"
            )
        width = 2 * int(depths(known.unsqueeze(0)).max())
        count = max(0, math.ceil(math.log2(width / self.patch)))
        levels = resolutions(picture, known, count)
        while not self._is_usable(levels[-1].known):
            levels.pop()
        return levels

    def _is_usable(self, known: Known) -> bool:
        """Return whether a patch of a picture is known as a whole."""
        return min(known.shape) >= self.patch and bool(whole_patches(known, self.patch).any())
