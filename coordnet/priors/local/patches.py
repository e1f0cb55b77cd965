"""Overlapping patches of a lattice: their entries, and the mean by precision of what a mixture says of each."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from coordnet.linalg.machine import at_once


@dataclass(frozen=True)
class Patches:
    """Some patches of a lattice, all of one shape."""

    # The lengths of the lattice and of a patch.
    lattice: tuple[int, ...]
    shape: tuple[int, ...]
    corners: Int[Tensor, " patches"]  # the flat index of each patch's first entry

    @classmethod
    def every(
        cls,
        stride: int | tuple[int, ...],
        lattice: tuple[int, ...],
        shape: tuple[int, ...],
        device: torch.device | str = "cpu",
    ) -> "Patches":
        """Return patches with corners at multiples of a stride, or of a shorter patch's length, along each axis.

        A tuple has a stride for each axis.
        """
        starts, strides = [], stride if isinstance(stride, tuple) else (stride,) * len(lattice)
        for n, p, step in zip(lattice, shape, strides, strict=True):
            regular = torch.arange(0, n - p + 1, min(step, p), device=device)
            starts.append(torch.cat([regular, regular.new_tensor([n - p])]).unique())
        return cls(lattice, shape, flat_indices(starts, lattice))

    @classmethod
    def shifted(
        cls,
        stride: int,
        shifts: tuple[tuple[int, ...], ...],
        lattice: tuple[int, ...],
        shape: tuple[int, ...],
        device: torch.device | str = "cpu",
    ) -> "Patches":
        """Return the patches of ``every``, and those among them shifted by some vectors that are inside the lattice."""
        corners = [cls.every(stride, lattice, shape, device).corners]
        for shift in shifts:
            starts = [
                torch.arange(s, max(n - p + 1, s), stride, device=device)
                for s, n, p in zip(shift, lattice, shape, strict=True)
            ]
            corners.append(flat_indices(starts, lattice))
        return cls(lattice, shape, torch.cat(corners).unique())

    def thinned(self, count: int) -> "Patches":
        """Return at most ``count`` of the patches, evenly spread."""
        step = max(1, -(-len(self) // count))
        return Patches(self.lattice, self.shape, self.corners[::step])

    def touching(self, marked: Bool[Tensor, "#channels *lattice"]) -> "Patches":
        """Return the patches that have a marked entry."""
        together = at_once(self.size * torch.long.itemsize, self.corners.device)
        kept = [part.of(marked).flatten(1).any(1) for part in self.split(together)]
        return Patches(self.lattice, self.shape, self.corners[torch.cat(kept)])

    @property
    def size(self) -> int:
        """The number of entries of a patch."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        """Return the number of patches."""
        return len(self.corners)

    def split(self, count: int) -> Iterator["Patches"]:
        """Yield the patches in parts of at most ``count``."""
        for corners in self.corners.split(count):
            yield Patches(self.lattice, self.shape, corners)

    def index(self) -> Int[Tensor, "patches size"]:
        """Return the flat index of every entry of every patch."""
        offsets = flat_indices([torch.arange(p, device=self.corners.device) for p in self.shape], self.lattice)
        return self.corners.unsqueeze(1) + offsets

    def of(self, f: Shaped[Tensor, "channels *lattice"]) -> Shaped[Tensor, "patches channels size"]:
        """Return the entries of a lattice signal in every patch, which are copied a row of the last axis at a time."""
        channels, length = len(f), self.shape[-1]
        leading = [torch.arange(n, device=self.corners.device) for n in (channels, *self.shape[:-1])]
        first = flat_indices([*leading, leading[0][:1]], (channels, *self.lattice))
        rows = f.flatten().unfold(0, length, 1).index_select(0, (self.corners.unsqueeze(1) + first).flatten())
        return rows.view(len(self), channels, self.size)

    def add(self, *parts: tuple[Float[Tensor, "patches channels size"], Float[Tensor, "channels *lattice"]]) -> None:
        """Add the entries of every patch to a lattice signal, for pairs of both: the adjoint of ``of``."""
        index = self.index().flatten()
        for x, onto in parts:
            onto.flatten(1).index_add_(1, index, x.movedim(1, 0).flatten(1))


class Overlap:
    """The mean of overlapping patches on a lattice, where every entry has its precision as weight.

    - like: A signal of the dtype, the device and the lengths of the mean
    """

    def __init__(self, like: Float[Tensor, "channels *lattice"]) -> None:
        self._total, self._precision, self._spread = (torch.zeros_like(like) for _ in range(3))

    def add(
        self,
        patches: Patches,
        mean: Float[Tensor, "patches channels size"],
        variance: Float[Tensor, "patches channels size"],
        noise: float | Float[Tensor, "#patches 1 1"] = 0.0,
    ) -> None:
        """Add patches with the means and variances of their entries; the precision is 1 / (variance + noise)."""
        weight = 1 / (variance + noise)
        patches.add((weight * mean, self._total), (weight * variance, self._spread), (weight, self._precision))

    def mean(self, pilot: Float[Tensor, "channels *lattice"]) -> Float[Tensor, "channels *lattice"]:
        """Return the mean, and the pilot's entries where no patch was added."""
        return torch.where(self._precision > 0, self._total / self._precision, pilot)

    @property
    def spread(self) -> Float[Tensor, "channels *lattice"]:
        """The mean variance of each lattice point in its patches, 0 where there is none."""
        return torch.where(self._precision > 0, self._spread / self._precision, 0.0)


def distinct_masks(known: Bool[Tensor, "patches size"]) -> tuple[Bool[Tensor, "masks size"], Int[Tensor, " patches"]]:
    """Return the distinct masks and the number of each patch's mask."""
    generator = torch.Generator().manual_seed(0)
    whole = torch.randint(2**44, (known.shape[1],), generator=generator).double()  # their sums are exact in any order
    distinct, which = (known.double() @ whole.to(known.device)).unique(return_inverse=True)
    last = torch.zeros_like(distinct, dtype=torch.long).scatter_(0, which, torch.arange(len(which)).to(which))
    return known[last], which


def flat_indices(positions: Sequence[Tensor], lattice: tuple[int, ...]) -> Int[Tensor, " n"]:
    """Return the flat indices of the lattice points with all combinations of positions along the axes."""
    flat = positions[0].new_zeros(1)
    for position, length in zip(positions, lattice, strict=True):
        flat = (flat.unsqueeze(1) * length + position).flatten()
    return flat


@dataclass(frozen=True)
class Observed:
    """Known entries of a signal and a pilot, a first estimate of all of them."""

    values: Float[Tensor, "channels *lattice"]
    known: Bool[Tensor, "#channels *lattice"]
    pilot: Float[Tensor, "channels *lattice"]


@dataclass(frozen=True)
class PatchPosterior:
    """The means and variances of some patches' entries, and the likeliest class of each patch."""

    patches: Patches
    mean: Float[Tensor, "patches channels size"]
    variance: Float[Tensor, "patches channels size"]
    classes: Int[Tensor, " patches"]
    noise: float | Float[Tensor, "#patches 1 1"]  # variance of the noise on an entry


@dataclass(frozen=True)
class Estimate:
    """A signal as its patches see it, in the channels of the mixture."""

    f: Float[Tensor, "channels *lattice"]
    classes: Int[Tensor, " patches"]  # the likeliest of each patch
    variances: Float[Tensor, " patches"]  # the mean posterior variance of a patch's entries
    spread: Float[Tensor, "channels *lattice"]  # the mean posterior variance of an entry in its patches, 0 without any

    @classmethod
    def of(cls, posteriors: Iterable[PatchPosterior], pilot: Float[Tensor, "channels *lattice"]) -> "Estimate":
        """Return the mean of overlapping patches by their precision, and the pilot's entries where no patch is."""
        overlap, classes, variances = Overlap(pilot), [], []
        for part in posteriors:
            overlap.add(part.patches, part.mean, part.variance, part.noise)
            classes.append(part.classes)
            variances.append(part.variance.mean((1, 2)))
        return cls(overlap.mean(pilot), torch.cat(classes), torch.cat(variances), overlap.spread)

    def learned(self, span: float) -> dict[str, Tensor]:
        """Return the class and the posterior standard deviation of every patch, for a signal with a range."""
        deviations = span * self.variances.sqrt()
        return {"patch_class": self.classes.unsqueeze(0), "patch_deviation": deviations.unsqueeze(0)}

    def mapped(self, span: float) -> dict[str, Tensor]:
        """Return what ``learned`` does, with the posterior standard deviation of every entry, for all channels."""
        return self.learned(span) | {"deviation": span * self.spread.mean(0, keepdim=True).sqrt()}
