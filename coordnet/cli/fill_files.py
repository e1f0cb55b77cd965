"""The command ``coordnet fill``: the missing values of NetCDF, Zarr and GeoTIFF files."""

import json
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.cli.common import Many, Output
from coordnet.cli.declaring import parse_bytes
from coordnet.cli.large import budget, write_blocks
from coordnet.comparison.stopwatch import once, versions
from coordnet.media.files import mismatch
from coordnet.plans.hold_out import middle
from coordnet.plots.fits import filled_figure
from coordnet.restore.blocks import check_chunks
from coordnet.restore.fill import bytes_to_fill, fill
from coordnet.restore.labeled import Labeled
from coordnet.restore.restored import FIGURE_POINTS, MAX_POINTS, FillReport
from coordnet.xarray.datasets import GEOTIFF, PLANE, ZARR, check_kind, kind_of, open_dataset, write_dataset
from coordnet.xarray.stores import BlockStore

READ_BYTES = 2**24  # bytes of a chunk in which a file without its own is read; some are in memory beside a block


def run(cube: Path, out: Path, names: list[str], options: dict[str, Any], many: Many, output: Output) -> None:
    """Fill the variables of a file, write them to another one, and a figure and a record beside it.

    Deviations of a GeoTIFF are written to another GeoTIFF.
    """
    figure, record = (out.with_suffix(suffix) for suffix in (".png", ".json"))
    apart = [out.with_stem(f"{out.stem}_std")] if options["uncertainty"] and out.suffix.lower() in GEOTIFF else []
    _check(cube, [out, *apart, figure, record], force=output.force)
    output = replace(report.reading(output, cube), settings=options | {"var": names})
    dims = PLANE if cube.suffix.lower() in GEOTIFF else None
    with open_dataset(cube) as dataset:
        check_kind(dataset, out)
        chosen = _chosen(dataset, names, cube)
        with specs.naming(f"{cube}, {', '.join(chosen)}"):
            needed = max(bytes_to_fill(dataset[name], dims, uncertainty=options["uncertainty"]) for name in chosen)
        asked = _asked([dataset[name] for name in chosen], needed, out, options, many, output) | {"dim": dims}
        dataset = _cut(dataset) if "memory" in asked else dataset
        made, reports = _filled(dataset, chosen, cube, asked, output)
        if "memory" in asked:
            _write_blocks(made, out, cube, many, output)
            made = open_dataset(out)
        else:
            _write(made, [out, *apart])
        variables = {name: _described(dataset[name], made[name], *reports[name]) for name in chosen}
        drawn = _figure(dataset, made, chosen[0], dims)
    drawn.savefig(figure, dpi=110)
    said = report.origin("fill", output)
    said |= {"variables": variables, "out": str(out), "seed": output.seed, "versions": versions()}
    record.write_text(json.dumps(said, indent=2, ensure_ascii=False, default=str) + "\n")
    lines = [f"{name}: {_words(part)}" for name, part in variables.items()]
    beside = ", ".join(path.name for path in (*apart, figure))
    report.show(said, [*lines, f"written to {out}, with {beside} and {record.name}"], output)


def _asked(
    arrays: list[xarray.DataArray], needed: int, out: Path, options: dict[str, Any], many: Many, output: Output
) -> dict[str, Any]:
    """Return the options of ``fill``, with a ``memory`` if some arrays are filled block by block.

    They are if the bytes that one needs exceed the memory, or workers are asked for. A ``ValueError`` is raised if the
    result is then no Zarr store, or a chunk exceeds the memory.
    """
    prior, memory = specs.parse_prior(options["prior"]), parse_bytes(options["memory"])
    if prior is None:
        raise _checks.wrong("prior", "auto or the name of a prior", options["prior"])
    asked = {"prior": prior, "max_gap": options["max_gap"], "uncertainty": options["uncertainty"]}
    asked |= {"seed": output.seed, "progress": output.progress}
    free = budget(memory)
    if needed <= free and many.workers == 1 and many.dask is None:
        return asked
    if kind_of(out) is not ZARR:
        expected = "a .zarr for what is filled in blocks, by workers or for want of memory"
        raise _checks.wrong("out", expected, f"{out.name}, for about {needed / 2**30:.1f} GiB")
    for array in arrays:
        if array.chunks is not None:
            check_chunks(array.data, free)
    return asked | {"memory": memory}


def _cut(dataset: xarray.Dataset) -> xarray.Dataset:
    """Return a dataset of Dask arrays: in chunks that the file has, or of ``READ_BYTES``."""
    from dask import config

    whole = {k: a for k, a in dataset.data_vars.items() if a.chunks is None and a.ndim and a.dtype.kind in "biuf"}
    with config.set({"array.chunk-size": READ_BYTES}):
        return dataset.assign({name: array.chunk("auto") for name, array in whole.items()}).chunk()


def _filled(
    dataset: xarray.Dataset, chosen: list[str], cube: Path, asked: dict[str, Any], output: Output
) -> tuple[xarray.Dataset, dict[str, tuple[FillReport, float]]]:
    """Return the dataset with some variables filled, and the report and the seconds of each."""
    made, reports = dataset.copy(), {}
    for name in chosen:
        array = dataset[name]
        if "memory" not in asked:
            with output.stage(f"reading {name}"):
                array = array.load()
        stage = output.stage(f"learning from blocks of {name}") if "memory" in asked else nullcontext()
        with specs.naming(f"{cube}, {name}"), stage:
            filled, seconds = once(lambda a=array: fill(a, **asked))
        made[name], reports[name] = filled.array, (filled.report, seconds)
        if filled.std is not None:
            made[f"{name}_std"] = filled.std
    return made, reports


def _write(made: xarray.Dataset, files: list[Path]) -> None:
    """Write a dataset to a file, or each of its variables to one of several."""
    for path, name in zip(files, made.data_vars, strict=False):
        write_dataset(made if len(files) == 1 else made[[name]], path)


def _write_blocks(made: xarray.Dataset, out: Path, cube: Path, many: Many, output: Output) -> None:
    """Write a dataset of Dask arrays into a Zarr store, block by block, from where an interrupted run stopped.

    A ``ValueError`` is raised if a block fails; those that are done are kept.
    """
    chunks = {str(name): variable.chunks for name, variable in made.variables.items() if variable.chunks}
    told = {"chunks": chunks, "seed": output.seed, "versions": versions()}
    store = BlockStore(out, made, report.origin("fill", output) | told)
    write_blocks(store, str(cube), "filled", many, output)
    store.finish()


def _check(cube: Path, outputs: list[Path], *, force: bool) -> None:
    """Refuse outputs that exist, unless they may be replaced, and those that are the input, with a ``ValueError``."""
    for path in outputs:
        if path.exists() and cube.exists() and path.samefile(cube):
            raise _checks.wrong("out", "another file than the input", str(path))
        if path.exists() and not force:
            raise _checks.wrong("out", "a new file", f"{path}, which exists (--force replaces)")
    kind_of(outputs[0])
    if not outputs[0].absolute().parent.is_dir():
        raise _checks.wrong("out", "a file in a folder that exists", str(outputs[0]))


def _chosen(dataset: xarray.Dataset, names: list[str], cube: Path) -> list[str]:
    """Return the variables of a file to fill: those that are named, or all with missing values."""
    for name in names:
        _checks.choice("var", name, [str(key) for key in dataset.data_vars])
    named = names or [str(key) for key, array in dataset.data_vars.items() if array.dtype.kind == "f" and array.ndim]
    lacking = [name for name in named if _lacks(dataset[name])]
    if not lacking or (names and lacking != names):
        whole = [name for name in named if name not in lacking]
        raise mismatch(cube, "a variable with missing values", ", ".join(whole) or "none of numbers")
    return lacking


def _lacks(array: xarray.DataArray) -> bool:
    """Return whether a value is missing, without the whole array in memory where Dask is there."""
    is_cut = array.chunks is None and array.dtype.kind == "f" and find_spec("dask") is not None
    return bool((array.chunk("auto") if is_cut else array).isnull().any())


def _described(before: xarray.DataArray, after: xarray.DataArray, made: FillReport, seconds: float) -> dict[str, Any]:
    missing, left = (int(a.isnull().sum()) for a in (before, after))
    counts = {"known": before.size - missing, "filled": missing - left, "left": left}
    return {"shape": list(before.shape), **counts, "seconds": seconds, "report": made.as_dict()}


def _words(part: dict[str, Any]) -> str:
    used = part["report"]["prior"] if part["filled"] else "nothing to fill"
    lie = {"coordinates": " at its coordinates", "numbers": " as if at equal distances"}
    used += lie.get(part["report"].get("at"), "")
    size = report.size(part["shape"])
    return f"{size}, {part['filled']:,} filled, {part['left']:,} left, {used}, {report.duration(part['seconds'])}"


def _figure(before: xarray.Dataset, after: xarray.Dataset, name: str, dims: Any) -> Any:
    """Return the figure of a variable: of its first channel, with its last two axes as height and width.

    A large one shows its middle.
    """
    axes = Labeled.of(before[name], dims).axes
    lengths = [before.sizes[d] for d in axes]
    part = dict(zip(axes, middle(tuple(lengths), FIGURE_POINTS), strict=True)) if prod(lengths) > MAX_POINTS else {}
    old, new, std = (
        data[key].isel(part).load() if key in data else None
        for data, key in ((before, name), (after, name), (after, f"{name}_std"))
    )
    labeled, shown = Labeled.of(old, dims), _frames(old, dims)
    times = labeled.own(labeled.axes[0]) if labeled.has_time else [""]
    labels = [str(t).removesuffix("T00:00:00.000000000").removesuffix(" 00:00:00") for t in times]
    labels = labels if len(labels) == len(shown) else [""] * len(shown)
    attributes = before[name].attrs
    title = f"{name} ({attributes['units']})" if "units" in attributes else name
    deviations = None if std is None else _frames(std, dims)
    return filled_figure(shown, _frames(new, dims), deviations, labels, title, upward=dims is None)


def _frames(array: Any, dims: Any) -> np.ndarray:
    """Return the first channel of an array as frames, with the last two axes as height and width."""
    labeled = Labeled.of(array, dims)
    signal = labeled.ordered(array)[..., 0].astype(float)
    signal = signal[:, None] if signal.ndim == 2 and labeled.has_time else signal
    height, width = signal.shape[-2:] if signal.ndim > 1 else (1, signal.shape[-1])
    return signal.reshape(-1, height, width)
