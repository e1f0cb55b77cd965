"""Zarr stores that are written block by block: each block is a task of Dask's, and those that are done stay done."""

import json
import shutil
import warnings
from collections.abc import Callable, Hashable
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from coordnet import _checks

Job = Callable[[], None]
STATE, STORE, DONE = "origin.json", "store.zarr", "done"  # names in the folder of an unfinished store


class BlockStore:
    """The Zarr store of a dataset, which is written in a hidden folder beside its place until all blocks are done.

    Parameters
    ----------
    path : Path
        The place of the store.
    dataset : xarray.Dataset
        The variables that are Dask arrays are written by jobs, each chunk of them once, and the others now. Chunks
        along an axis have one length, but the last.
    origin : dict
        The options and inputs from which the values follow, as JSON holds them. Blocks that
        another run with the same origin wrote are kept.
    """

    def __init__(self, path: Path, dataset: xarray.Dataset, origin: dict[str, Any]) -> None:
        self.path, self.dataset = path, dataset
        self.folder = path.absolute().parent / f".{path.name}.part"
        state = self.folder / STATE
        if not state.is_file() or json.loads(state.read_text()) != json.loads(json.dumps(origin, default=str)):
            shutil.rmtree(self.folder, ignore_errors=True)
            (self.folder / DONE).mkdir(parents=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that later versions of the format will differ
                dataset.drop_encoding().to_zarr(self.folder / STORE, compute=False)
            state.write_text(
                json.dumps(origin, default=str)
            )  # at last: without it, a start that was killed counts for none

    def jobs(self) -> dict[tuple[Hashable, ...], Job]:
        """Return the jobs that write the blocks that are not done, by the variable and the number on each axis."""
        jobs: dict[tuple[Hashable, ...], Job] = {}
        for name, variable in self.dataset.variables.items():
            if variable.chunks is None:
                continue
            data: Any = variable.data
            target = self.array(str(name))
            ends = [np.cumsum((0, *sizes)) for sizes in variable.chunks]
            for index in product(*(range(len(sizes)) for sizes in variable.chunks)):
                mark = self.folder / DONE / ".".join(map(str, (name, *index)))
                if not mark.exists():
                    region = tuple(slice(int(e[k]), int(e[k + 1])) for e, k in zip(ends, index, strict=True))
                    jobs[name, *index] = partial(_write, _stored(data.blocks[index], target, region), mark)
        return jobs

    def __len__(self) -> int:
        """Return the number of all blocks."""
        return sum(prod(map(len, v.chunks)) for v in self.dataset.variables.values() if v.chunks is not None)

    def array(self, name: str) -> Any:
        """Return the stored array of a variable."""
        import zarr  # pyright: ignore[reportMissingImports]

        return zarr.open_array(str(self.folder / STORE / name), mode="r+")

    @property
    def is_begun(self) -> bool:
        """Whether a block is done."""
        return any((self.folder / DONE).iterdir())

    def discard(self) -> None:
        """Remove the hidden folder with all that was written."""
        shutil.rmtree(self.folder)

    def finish(self) -> None:
        """Move the whole store to its place, where an earlier one is replaced."""
        if self.path.is_dir():
            shutil.rmtree(self.path)
        (self.folder / STORE).rename(self.path)
        self.discard()


def _stored(block: Any, target: Any, region: tuple[slice, ...]) -> Any:
    """Return the task that writes a block, with those that it needs and no others."""
    from dask.array import store
    from dask.base import optimize

    (task,) = optimize(store(block, target, regions=region, lock=False, compute=False))
    return task


def _write(task: Any, mark: Path) -> None:
    """Write a block, and an empty file that says so."""
    try:
        task.compute(scheduler="synchronous")
    except MemoryError:
        raise _checks.wrong("memory", "enough for a block", "too little; try a smaller one") from None
    mark.touch()
