"""Patches that resemble those around a hole: the search at several resolutions, and the pixels that they vote for."""

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate, pad

from coordnet.plans.gap_depths import depths

# The weight of squared differences of texture against those of color, as Newson et al. (2014) have it.
TEXTURE_WEIGHT = 50.0
AT_ONCE = 4096  # patches that are compared together, in memory that a processor's cache holds
JUMPS = (8, 4, 2, 1)  # pixels to the neighbors whose finds are taken over, as Rong and Tan's "Jump flooding" (2006)
FALL = 1.3  # factor by which a vote's weight falls per pixel into a hole, as Wexler et al. (2007) have it
DEEPEST = 64  # pixels from the border of a hole from which on the weight falls no further, so that it is above 0
SPREAD = 0.75  # quantile of the distances that is the variance of the votes, as Newson et al. (2014) have it
LEAST_ALIKE = 1e-20  # smallest factor of a weight for the distance, so that a pixel without a near patch has a mean
LEAST_VOTE = 1e-30  # smallest sum of weights, which is below that of one vote

Features = Float[Tensor, "height width features"]
Resized = Float[Tensor, "rows columns features"]
Known = Bool[Tensor, "height width"]
Corners = Int[Tensor, "n 2"]  # rows and columns of the first pixels of n patches
Distances = Float[Tensor, " n"]  # the sums of squared differences of n patches from others


class Resolution(NamedTuple):
    """A picture, with its texture as further channels, and where it is known."""

    features: Features
    known: Known


def resolutions(picture: Float[Tensor, "height width channels"], known: Known, count: int) -> list[Resolution]:
    """Return a picture with its texture at its own resolution, and ``count`` times halved."""
    features = torch.cat([picture, math.sqrt(TEXTURE_WEIGHT) * _texture(picture, known, 2**count + 1)], -1)
    pyramid = [Resolution(torch.where(known[..., None], features, 0), known)]
    for _ in range(count):
        means, counts = _halved(*pyramid[-1])
        pyramid.append(Resolution(means, counts >= 2))
    return pyramid


def fog(features: Features, known: Known) -> Features:
    """Return a picture whose holes are filled from its halved resolutions ("pull-push").

    Gortler, Grzeszczuk, Szeliski and Cohen, "The lumigraph" (1996).
    """
    if bool(known.all()):
        return features
    means, counts = _halved(features, known)
    return torch.where(known[..., None], features, doubled(fog(means, counts > 0), known.shape, "bilinear"))


def doubled(features: Features, shape: tuple[int, ...], mode: str = "nearest") -> Resized:
    """Return a picture at twice its resolution, cut to a shape."""
    larger = interpolate(features.movedim(-1, 0).unsqueeze(0), scale_factor=2, mode=mode)[0].movedim(0, -1)
    return larger[: shape[0], : shape[1]]


def _halved(features: Features, known: Known) -> tuple[Resized, Float[Tensor, "rows columns"]]:
    """Return the means of the known pixels of each cell of 2×2, and how many these are."""
    counted = torch.cat([torch.where(known[..., None], features, 0), known[..., None].to(features)], -1)
    height, width = known.shape
    cells = pad(counted, (0, 0, 0, width % 2, 0, height % 2)).unfold(0, 2, 2).unfold(1, 2, 2).sum((-2, -1))
    return cells[..., :-1] / cells[..., -1:].clamp(min=1), cells[..., -1]


def _texture(
    picture: Float[Tensor, "height width channels"], known: Known, width: int
) -> Float[Tensor, "height width directions"]:
    """Return the mean size of the differences of neighbors along both axes, over known ones in squares of a width."""
    gray, means = picture.mean(-1), []
    for axis in (0, 1):
        before, after = (known.narrow(axis, k, known.shape[axis] - 1) for k in (0, 1))
        both = (before & after).to(gray)
        margin = (0, 0, 1, 0) if axis == 0 else (1, 0)
        sums = pad(torch.stack([gray.diff(dim=axis).abs() * both, both]), margin).unsqueeze(0)
        for kernel, padding in (((width, 1), (width // 2, 0)), ((1, width), (0, width // 2))):
            sums = avg_pool2d(sums, kernel, 1, padding)
        means.append(sums[0, 0] / sums[0, 1].clamp(min=0.5 / width**2))
    return torch.stack(means, -1)


class Matches(NamedTuple):
    """The targets of a search, the known patches that it found for them, and their distances."""

    targets: Corners
    nearest: Corners
    distances: Distances


def whole_patches(known: Known, patch: int) -> Bool[Tensor, "rows columns"]:
    """Return at the first pixel of each patch whether all of it is known."""
    return avg_pool2d(known.double()[None, None], patch, 1)[0, 0] > 1 - 0.5 / patch**2


class Search:
    """The search for the known patch that is nearest to each patch with an unknown pixel.

    Barnes, Shechtman, Finkelstein and Goldman, "PatchMatch: a randomized correspondence algorithm for structural image
    editing" (2009).

    - targets: the first pixels of the patches with an unknown pixel
    """

    def __init__(self, known: Known, patch: int, generator: torch.Generator) -> None:
        self.patch, self.generator = patch, generator
        self.whole = whole_patches(known, patch)
        self.targets = (~self.whole).nonzero()
        self.last = torch.tensor(self.whole.shape, device=known.device) - 1

    def drawn(self) -> Corners:
        """Return a known patch for each target, drawn at random."""
        sources = self.whole.nonzero()
        return sources[torch.randint(len(sources), (len(self.targets),), generator=self.generator).to(sources.device)]

    def onto_all(self, nearest: Corners) -> Int[Tensor, "rows columns 2"]:
        """Return the patch for every place: the one found for a target, and itself for a known one."""
        rows, columns = (torch.arange(n, device=nearest.device) for n in self.whole.shape)
        places = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), -1)
        places[self.targets[:, 0], self.targets[:, 1]] = nearest
        return places

    def finer(self, coarse: Int[Tensor, "rows columns 2"]) -> Corners:
        """Return for each target what was found at half the resolution (``onto_all``), or one drawn at random."""
        limit = torch.tensor(coarse.shape[:2], device=coarse.device) - 1
        parents = (self.targets // 2).minimum(limit)
        corners = self.targets - 2 * parents + 2 * coarse[parents[:, 0], parents[:, 1]]
        return self._allowed(corners, self.drawn())

    def improved(self, features: Features, nearest: Corners, rounds: int) -> Matches:
        """Return nearer patches after rounds of looking at those of neighbors and at random ones."""
        count = features.shape[-1]
        rows = features.flatten(1).unfold(0, self.patch, 1)
        windows = rows.unfold(1, self.patch * count, count)  # (rows, columns, patch, patch × features), without a copy
        distances = self._distances(windows, nearest.unsqueeze(0))[0]
        for _ in range(rounds):
            for jump in JUMPS:
                nearest, distances = self._nearer(windows, nearest, distances, self._of_neighbors(nearest, jump))
            nearest, distances = self._nearer(windows, nearest, distances, self._at_random(nearest))
        return Matches(self.targets, nearest, distances)

    def _of_neighbors(self, nearest: Corners, jump: int) -> Int[Tensor, "4 n 2"]:
        """Return the patches that go on as what was found for the neighbors at a distance on the four sides."""
        places, corners = self.onto_all(nearest), []
        for step in ((0, jump), (0, -jump), (jump, 0), (-jump, 0)):
            neighbors = (self.targets + torch.tensor(step, device=nearest.device)).clamp(min=0).minimum(self.last)
            corners.append(places[neighbors[:, 0], neighbors[:, 1]] + self.targets - neighbors)
        return torch.stack(corners)

    def _at_random(self, nearest: Corners) -> Int[Tensor, "draws n 2"]:
        """Return patches at random in squares around those that were found, each half as wide as the one before."""
        count = max(1, int(self.last.max())).bit_length()
        radii = 2.0 ** torch.arange(count - 1, -1, -1)
        drawn = 2 * torch.rand(count, len(nearest), 2, generator=self.generator, dtype=torch.float32) - 1
        return nearest + (radii[:, None, None] * drawn).round().long().to(nearest.device)

    def _allowed(self, found: Int[Tensor, "*several n 2"], otherwise: Corners) -> Int[Tensor, "*several n 2"]:
        """Return patches where they are within the picture and known as a whole, others elsewhere."""
        inside = found.clamp(min=0).minimum(self.last)
        allowed = (inside == found).all(-1) & self.whole[inside[..., 0], inside[..., 1]]
        return torch.where(allowed.unsqueeze(-1), inside, otherwise)

    def _nearer(
        self, windows: Tensor, nearest: Corners, distances: Distances, others: Int[Tensor, "several n 2"]
    ) -> tuple[Corners, Distances]:
        """Return the nearest of several patches where it is nearer than the one before, and its distance."""
        others = self._allowed(others, nearest)
        closer, which = self._distances(windows, others).min(0)
        best = others[which, torch.arange(len(nearest), device=nearest.device)]
        return torch.where((closer < distances)[:, None], best, nearest), torch.minimum(closer, distances)

    def _distances(self, windows: Tensor, found: Int[Tensor, "several n 2"]) -> Float[Tensor, "several n"]:
        parts = []
        for targets, others in zip(self.targets.split(AT_ONCE), found.split(AT_ONCE, 1), strict=True):
            own = windows[targets[:, 0], targets[:, 1]]
            each = (windows[other[:, 0], other[:, 1]].sub_(own) for other in others)
            parts.append(torch.stack([difference.square_().sum((1, 2)) for difference in each]))
        return torch.cat(parts, 1)


def averaged(level: Resolution, matches: Matches, patch: int) -> Features:
    """Return the picture with the weighted mean of what the patches found have at each unknown pixel."""
    flat, weights = level.features.flatten(0, 1), _weights(level.known, matches, patch)
    total, weight = torch.zeros_like(flat), torch.zeros_like(flat[:, 0])
    for onto, source in _pixels(level.known, matches, patch):
        total.index_add_(0, onto, flat[source] * weights[:, None])
        weight.index_add_(0, onto, weights)
    means = (total / weight.clamp(min=LEAST_VOTE)[:, None]).reshape(level.features.shape)
    return torch.where(level.known[..., None], level.features, means)


def copied(level: Resolution, matches: Matches, patch: int) -> Features:
    """Return the picture with each unknown pixel as the found patch of the largest weight has it."""
    flat, weights = level.features.flatten(0, 1), _weights(level.known, matches, patch)
    source, surest = torch.arange(len(flat), device=flat.device), torch.zeros_like(flat[:, 0])
    for onto, sources in _pixels(level.known, matches, patch):
        surer = weights > surest[onto]
        surest[onto[surer]], source[onto[surer]] = weights[surer], sources[surer]
    return torch.where(level.known[..., None], level.features, flat[source].reshape(level.features.shape))


def _weights(known: Known, matches: Matches, patch: int) -> Distances:
    """Return the weights of patches: large near the known part, and where the patch that was found is alike."""
    distances, middle = matches.distances, matches.targets + patch // 2
    depth = torch.from_numpy(depths(known.unsqueeze(0))[0]).to(distances)
    spread = 2 * distances.kthvalue(max(1, round(SPREAD * len(distances)))).values
    alike = torch.exp(-distances / spread.clamp(min=torch.finfo(distances.dtype).tiny))
    return FALL ** -depth[middle[:, 0], middle[:, 1]].clamp(max=DEEPEST) * alike.clamp(min=LEAST_ALIKE)


def _pixels(known: Known, matches: Matches, patch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield for each pixel of a patch its flat index in every target, and in the patches that were found."""
    width = known.shape[1]
    for row, column in itertools.product(range(patch), range(patch)):
        onto, source = ((corners[:, 0] + row) * width + corners[:, 1] + column for corners in matches[:2])
        yield onto, source
