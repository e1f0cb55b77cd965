"""Signals larger than memory: computed in blocks of rows, or block by block by many workers, and written in rows."""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from tqdm import tqdm

from coordnet import _checks
from coordnet.bench.jobs import Failed, outcomes
from coordnet.cli import report, specs
from coordnet.cli.common import Batch, Common, Many, Output
from coordnet.cli.folders import results
from coordnet.cli.report import Outcome
from coordnet.cli.restore import RESTORED, heading, record_of
from coordnet.comparison.stopwatch import versions
from coordnet.media import MediaError
from coordnet.media.files import MEMBER_SUFFIXES, available_memory, split_member
from coordnet.media.picture_files import write_pixels
from coordnet.media.row_blocks import ROW_SUFFIXES, RowFile, open_rows, write_rows
from coordnet.media.tags import warn_of_lost
from coordnet.plots.fits import restoration_figure
from coordnet.restore.blocks import bytes_to_fit
from coordnet.restore.restored import Restored
from coordnet.restore.rows import middle
from coordnet.restore.upscale import nearest

SIDE_BEFORE, SIDE_AFTER = 96, 2048  # largest sides in pixels of the parts that the figure of a large picture shows
WHOLE_SUFFIXES = (".png", ".jpg", ".jpeg")  # endings of pictures that can only be decoded as a whole
READ_POINTS = 2**18  # points of a part of a file that is read at a time
MEMORY_DIVISOR = 2  # divisor of the free memory that a fit may take without --memory
PACKAGES = 'the packages dask, xarray and zarr (pip install "coordnet[dask,xarray,zarr]")'

Fit = Callable[[Any, int | None, bool], Restored]  # takes a Dask array, the memory, and whether it has opacity


class Made(NamedTuple):
    """A restored signal in rows: blocks of them, the shape of all, a part of the record, and a line to print."""

    rows: Iterator[np.ndarray]
    shape: tuple[int, ...]
    settings: dict[str, Any]
    chosen: str


def in_rows(command: str, path: Path, make: Callable[[RowFile, Path], Made], common: Common) -> Outcome:
    """Restore a signal that is read in rows, and write the rows as they come.

    ``make`` is also given the place of the results. Beside it a run may hide what the next one needs if it is
    interrupted.
    """
    if common.device not in ("auto", "cpu"):
        raise _checks.wrong("device", "auto or cpu for what is read in rows", repr(common.device))
    with (
        open_rows(path, common.memory_bytes) as source,
        results(common, command, path.stem) as (staging, final),
        specs.naming(path, unless=MediaError),
    ):
        start = time.perf_counter()
        made = make(source, final)
        check_room("out", made.shape, source, staging)
        stored = _written(made.rows, made.shape, source, path, staging, common)
        settings = {**made.settings, "seconds": time.perf_counter() - start, "device": "cpu"}
        record = record_of(command, path.stem, made.shape, common, settings)
        if len(made.shape) == 3 and common.is_drawn:
            titles = (f"{path.stem}, its middle", f"{command}, its middle")
            _draw_middle(source, replace(source, stored=stored), staging / "figure.png", titles)
        if common.is_explained:
            report.write_record(staging, record)
    return Outcome(record, [heading(record), made.chosen, f"written to {final}"], made.chosen)


def check_room(option: str, shape: tuple[int, ...], source: RowFile, folder: Path) -> None:
    """Refuse an option for which a result of a shape, in the type of its source, has no room in a folder."""
    free, needed = shutil.disk_usage(folder).free, prod(shape) * np.dtype(source.depth).itemsize
    if source.path.suffix.lower() != ".zarr" and needed > free:  # a Zarr array is compressed
        room = f"one whose result has room ({free / 2**30:,.1f} GiB are free)"
        raise _checks.wrong(option, room, f"one of {needed / 2**30:,.1f} GiB")


def _written(
    blocks: Iterator[np.ndarray], shape: tuple[int, ...], source: RowFile, path: Path, staging: Path, common: Common
) -> Any:
    """Write blocks of rows in the format of their source where it takes rows, and return the array that has them."""
    given = split_member(path)[0].suffix.lower()
    suffix = ".npy" if given in MEMBER_SUFFIXES else given if given in ROW_SUFFIXES else ".png"
    if common.file is not None and common.file.suffix.lower() not in (suffix, ""):
        raise MediaError(f"{common.file}: expected the suffix {suffix} for what is read in rows, found another")
    written, (held, lost) = staging / f"{RESTORED}{suffix}", source.held(suffix, shape)
    options: Any = {"channel_axis": source.channel_axis, "alpha": source.alpha, "held": held}
    stored = write_rows(written, shape, source.depth, _named(blocks, path), **options)
    if suffix == ".png":
        with common.stage("writing"):
            write_pixels(stored, written, held)
    warn_of_lost(path.stem, suffix, lost)
    return stored


def _named(blocks: Iterator[np.ndarray], path: Path) -> Iterator[np.ndarray]:
    """Yield the blocks; errors in the source's values name its file, not the one that is being written."""
    with specs.naming(path, unless=MediaError):
        yield from blocks


def _draw_middle(source: RowFile, result: RowFile, path: Path, titles: tuple[str, str]) -> None:
    """Draw the middle of a picture before and after."""
    enlarged_by = max(1, result.shape[0] // source.shape[0])
    before = middle(source, max(1, min(SIDE_BEFORE, SIDE_AFTER // enlarged_by)))
    sides = [round(n * m / k) for n, m, k in zip(before.shape, result.shape, source.shape, strict=False)]
    after = middle(result, max(sides[:2]))[: sides[0], : sides[1]]
    restoration_figure(nearest(before, tuple(after.shape[:2])), after, titles).savefig(path, dpi=110)


def budget(memory: int | None) -> int:
    """Return the bytes that a fit may take: those that ``--memory`` names, or a part of what is free."""
    return memory or available_memory() // MEMORY_DIVISOR


def is_for_blocks(path: Path, common: Common) -> bool:
    """Return whether a signal's fit as a whole takes more than the memory, and its file can be read in parts.

    Pictures that are decoded as a whole are, where --memory is given.
    """
    suffix = split_member(path)[0].suffix.lower()
    if suffix not in ROW_SUFFIXES and (suffix not in WHOLE_SUFFIXES or common.memory_bytes is None):
        return False
    try:
        with open_rows(path, common.memory_bytes) as source:
            *grid, channels = source.shape
            return bytes_to_fit(prod(grid), channels) > budget(common.memory_bytes)
    except MediaError:  # the reader of whole files says what is wrong
        return False


@dataclass(frozen=True)
class FileParts:
    """A signal (*grid, channels) in a file, from which each process reads the parts that it needs."""

    path: Path
    memory: int | None
    shape: tuple[int, ...]
    dtype: ClassVar[np.dtype] = np.dtype(np.float32)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __getitem__(self, part: tuple[slice, ...]) -> np.ndarray:
        """Return a part in float32."""
        if self.path.suffix.lower() in WHOLE_SUFFIXES:
            return _decoded(self.path, self.memory, self.path.stat().st_mtime_ns)[part]
        with open_rows(self.path, self.memory) as source:
            return source[part]


@lru_cache(maxsize=1)
def _decoded(path: Path, memory: int | None, changed: int) -> RowFile:
    """Return a picture that can only be decoded as a whole, once for all parts; ``changed`` is its file's time."""
    with open_rows(path, memory) as source:
        return source


def computed(fit: Fit, source: RowFile, place: Path, common: Batch) -> tuple[Restored, Iterator[np.ndarray]]:
    """Return what is made of the signal in a file, and the rows of the result, which is computed and stored now.

    The store is hidden beside the ``place`` of the results until all rows are taken. A ``ValueError`` is raised if
    packages are missing, or a block fails; blocks that are done are kept, and the same command goes on with them.
    """
    try:
        import xarray
        from dask import array as da

        from coordnet.xarray.stores import BlockStore
    except ImportError:
        raise _checks.wrong("memory", f"enough for the whole signal, or {PACKAGES}", "neither") from None
    parts = FileParts(source.path.absolute(), common.memory_bytes, source.shape)
    side = max(16, round(READ_POINTS ** (1 / (len(source.shape) - 1))))
    chunks: Any = (*(min(n, side) for n in source.shape[:-1]), source.shape[-1])
    signal = da.from_array(parts, chunks=chunks)
    with common.stage("learning from blocks"):
        made = fit(signal, common.memory_bytes, source.alpha)
    axes = [f"axis_{j}" for j in range(made.signal.ndim)]
    dataset = xarray.Dataset({RESTORED: (axes, made.signal)})
    told = {"report": made.report.as_dict(), "seed": common.seed, "versions": versions()}
    store = BlockStore(place.absolute().parent / f"{source.path.stem}.zarr", dataset, report.origin("", common) | told)
    many = Many() if common.is_one_of_many else common
    write_blocks(store, str(source.path), "restored", many, common)

    def rows() -> Iterator[np.ndarray]:
        stored = store.array(RESTORED)
        for row in range(0, stored.shape[0], stored.chunks[0]):
            yield np.asarray(stored[row : row + stored.chunks[0]])
        store.discard()

    return made, rows()


def write_blocks(store: Any, path: str, done: str, many: Many, output: Output) -> None:
    """Write the blocks of a ``BlockStore`` that are not done, beneath a bar over all of them.

    A ``ValueError`` with the ``path`` of the signal and what is ``done`` to blocks is raised if one fails. The store is
    discarded if no block is done by then.
    """
    jobs = store.jobs()
    options: Any = {"desc": "blocks", "disable": not output.progress, "dynamic_ncols": True}
    try:
        with (
            tqdm(total=len(store), initial=len(store) - len(jobs), **options) as bar,
            outcomes(jobs, workers=many.workers, dask=many.dask) as results,
        ):
            for (name, *index), outcome in results:
                if isinstance(outcome, Failed):
                    place = f"block {'.'.join(map(str, index))} of {name}"
                    kept = "the blocks that are done are kept, and the same command goes on from there"
                    raise ValueError(f"{path}: expected {place} to be {done}, found that {outcome.reason}; {kept}")
                bar.update()
    except ValueError:
        if not store.is_begun:
            store.discard()
        raise
