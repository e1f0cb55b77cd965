"""Arrays that may be larger than memory: Dask arrays are restored in overlapping blocks, each a task of its own."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from coordnet import _checks
from coordnet.networks.noise_reports import BlocksReport
from coordnet.restore.restored import FEWER, MAX_POINTS
from coordnet.sampling.axes import ByAxes

# Nodes around a block along each divided axis that are fitted with it, by the number of these axes.
HALO = ByAxes({1: 512, 2: 32, 3: 16, 4: 8})
LEAST_SIDE = 2  # smallest length of a block along a divided axis, in halos
SAMPLED = 4  # blocks from which the others' prior is learned
BYTES = 1000  # peak bytes of a fit for each value of a block with its halo
BYTES_OF_RESULT = 300  # peak bytes of enlarging a block for each value of the result
ARRAY_COPIES = 8  # copies of an array in memory at most beside its fit
BASE = 2**29  # bytes of the interpreter with its packages and of what Dask reads ahead

Block = np.ndarray  # (*lengths, channels)


@runtime_checkable
class DaskArray(Protocol):
    """An array of Dask's, of which nothing is in memory."""

    @property
    def dask(self) -> Any:
        """The graph of the tasks that compute it."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Its lengths."""
        ...


@dataclass(frozen=True)
class Blocks:
    """The overlapping blocks of a signal (*grid, channels) that is a Dask array.

    All have the same lengths, so that what one learned suits the others. The signal is continued beyond its ends by
    mirror images, or around periodic axes, and results are cropped.
    """

    signal: Any  # The signal, longer by the mirror images that fill the last blocks. Its chunks are the blocks.
    grid: tuple[int, ...]  # its lengths without these
    # The nodes beyond each side of a block that are fitted with it, along every axis and that of the channels.
    halo: tuple[int, ...]
    periodic: frozenset[int]  # the axes that go around

    @classmethod
    def of(
        cls,
        signal: Any,
        divided: Sequence[int],
        periodic: Iterable[int] = (),
        memory: int | None = None,
        *,
        growth: int = 1,
    ) -> "Blocks":
        """Divide some axes of a signal so that the fit of a block takes at most ``memory`` bytes.

        Without a memory a block has at most a quarter of the values that the largest signal has which is fitted as a
        whole, or the smallest lengths. Periodic axes that no suitable number of blocks divides evenly do not go around.
        Results have ``growth`` times as many nodes along each divided axis. A ``ValueError`` is raised if the memory
        does not suffice for the smallest blocks, or for a chunk of the signal.
        """
        from dask import array as da

        grid, channels = tuple(signal.shape[:-1]), signal.shape[-1]
        each = max(BYTES, BYTES_OF_RESULT * growth ** len(divided))
        most = MAX_POINTS // FEWER if memory is None else max(memory - BASE, 0) // each
        if memory is not None:
            check_chunks(signal, memory)
        reach, around = HALO[len(divided)], set(periodic)
        lengths = list(grid)
        halo = [min(reach, n) if j in around else 0 for j, n in enumerate((*grid, 0))]
        while (values := channels * math.prod(n + 2 * h for n, h in zip(lengths, halo, strict=False))) > most:
            axis = max(divided, key=lengths.__getitem__)
            if lengths[axis] <= LEAST_SIDE * reach:
                break
            count = -(-grid[axis] // lengths[axis]) + 1
            lengths[axis], halo[axis] = -(-grid[axis] // count), reach
        if memory is not None and (needed := BASE + each * values) > memory:
            raise _checks.wrong("memory", f"at least {needed:,} bytes for a block", f"{memory:,}")
        for axis in sorted(around):
            even = [n for n in range(LEAST_SIDE * reach, lengths[axis] + 1) if grid[axis] % n == 0]
            lengths[axis] = even[-1] if even else lengths[axis]
        around = {axis for axis in around if grid[axis] % lengths[axis] == 0}
        beyond = [(0, -n % length) for n, length in zip(grid, lengths, strict=True)]
        signal = da.pad(signal, [*beyond, (0, 0)], mode="symmetric") if np.any(beyond) else signal
        return cls(signal.rechunk((*lengths, signal.shape[-1])), grid, tuple(halo), frozenset(around))

    def __len__(self) -> int:
        """Return the number of blocks."""
        return math.prod(self.signal.numblocks)

    def report(self) -> BlocksReport:
        """Return the report of the blocks."""
        counts, lengths = self.signal.numblocks[:-1], self.signal.chunksize[:-1]
        return BlocksReport(counts=list(counts), lengths=list(lengths), halo=list(self.halo[:-1]))

    def sample(self, suits: Callable[[Block], bool]) -> Iterator[Block]:
        """Yield some blocks with their halos, drawn at random from those that suit."""
        from dask.array.overlap import overlap

        overlapped, suiting = overlap(self.signal, self._depth, self._boundary), 0
        for number in np.random.default_rng(0).permutation(len(self)):
            block = overlapped.blocks[np.unravel_index(number, self.signal.numblocks)].compute()
            if suits(block):
                yield block
                suiting += 1
            if suiting == SAMPLED:
                return

    def map(self, work: Callable[..., Block], *others: Any, factor: int = 1, channels: int | None = None) -> Any:
        """Return the Dask array of what some work makes of every block with its halo, each cropped to its own part.

        The work may make ``factor`` nodes of one along every axis, and another number of channels. It is also given the
        same parts of ``others``, Dask arrays of the signal's lengths.
        """
        from dask import array as da

        widths = [(0, n - m) for n, m in zip(self.signal.shape, (*self.grid, self.signal.shape[-1]), strict=True)]
        others = tuple(da.pad(x, widths, mode="symmetric").rechunk(self.signal.chunks) for x in others)
        crop = tuple(slice(factor * h, -factor * h if h else None) for h in self.halo)
        sizes = [tuple(factor * n for n in chunks) for chunks in self.signal.chunks[:-1]]
        made = da.map_overlap(
            _Cropped(work, crop),
            self.signal,
            *others,
            depth=self._depth,
            boundary=self._boundary,
            trim=False,
            allow_rechunk=False,
            chunks=(*sizes, (channels or self.signal.shape[-1],)),
            meta=np.empty((0,) * self.signal.ndim, self.signal.dtype),
        )
        return made[tuple(slice(0, factor * n) for n in self.grid)]

    @property
    def _depth(self) -> dict[int, int]:
        return dict(enumerate(self.halo))

    @property
    def _boundary(self) -> dict[int, str]:
        kinds = ["periodic" if j in self.periodic else "reflect" if h else "none" for j, h in enumerate(self.halo)]
        return dict(enumerate(kinds))


@dataclass(frozen=True)
class _Cropped:
    """Work on a block, and crop the halo from the result."""

    work: Callable[..., Block]
    crop: tuple[slice, ...]

    def __call__(self, *parts: Block) -> Block:
        return self.work(*parts)[self.crop]


def bytes_to_fit(points: int, channels: int, itemsize: int = 4, *, whole: bool = False) -> int:
    """Return about the peak bytes of fitting a signal in memory: in tiles if it is large and not ``whole``."""
    fitted = points if whole else min(points, MAX_POINTS)
    return BYTES * fitted * channels + ARRAY_COPIES * itemsize * points * channels


def check_chunks(signal: Any, memory: int) -> None:
    """Refuse a signal of which one chunk takes more than the memory, with a ``ValueError``."""
    largest = math.prod(signal.chunksize) * signal.dtype.itemsize
    if largest > memory - BASE:
        raise _checks.wrong(
            "memory", f"at least {BASE + largest:,} bytes for a chunk of the array, or smaller chunks", f"{memory:,}"
        )
