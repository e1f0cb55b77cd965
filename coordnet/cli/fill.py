"""The command ``coordnet fill``: the missing values of NetCDF, Zarr and GeoTIFF files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.cli.common import Output
from coordnet.comparison.stopwatch import once
from coordnet.plots.cubes import filled_figure
from coordnet.restore.fill import Filled, fill
from coordnet.restore.labeled import Labeled
from coordnet.xarray.files import GEOTIFF, kind_of, open_dataset, write_dataset

PLANE = ("y", "x")  # dimensions of a GeoTIFF's signal; its bands are channels


def run(cube: Path, out: Path, names: list[str], options: dict[str, Any], output: Output) -> None:
    """Fill the variables of a file, write them to another one, and a figure and a record beside it."""
    figure, record = (out.with_suffix(suffix) for suffix in (".png", ".json"))
    _check(cube, [out, figure, record], force=output.force)
    prior = specs.parse_prior(options["prior"])
    if prior is None:
        raise _checks.wrong("prior", "auto or the name of a prior", options["prior"])
    dims = PLANE if cube.suffix.lower() in GEOTIFF else None
    with open_dataset(cube) as dataset:
        made, found = dataset.copy(), {}
        for name in _chosen(dataset, names):
            asked = {"max_gap": options["max_gap"], "uncertainty": options["uncertainty"], "prior": prior}
            with output.stage(f"reading {name}"):
                array = dataset[name].load()
            with specs.naming(f"{cube}, {name}"):
                filled, seconds = once(
                    lambda a=array, k=asked: fill(a, dims, seed=output.seed, progress=output.progress, **k)
                )
            made[name] = filled.array
            if filled.std is not None:
                made[f"{name}_std"] = filled.std
            found[name] = _described(array, filled, seconds)
        first = next(iter(found))
        drawn = _figure(dataset[first], made[first], made.get(f"{first}_std"), dims)
        write_dataset(made, out)
    drawn.savefig(figure, dpi=110)
    said = report.origin("fill", replace(report.reading(output, cube), settings=options | {"var": names}))
    said |= {"variables": found, "out": str(out), "seed": output.seed, "versions": report.versions()}
    record.write_text(json.dumps(said, indent=2, ensure_ascii=False, default=str) + "\n")
    lines = [f"{name}: {_words(part)}" for name, part in found.items()]
    report.show(said, [*lines, f"written to {out}, with {figure.name} and {record.name}"], output)


def _check(cube: Path, outputs: list[Path], *, force: bool) -> None:
    """Refuse outputs that exist, unless they may be replaced, and those that are the input, with a ``ValueError``."""
    for path in outputs:
        if path.exists() and cube.exists() and path.samefile(cube):
            raise _checks.wrong("out", "another file than the input", str(path))
        if path.exists() and not force:
            raise _checks.wrong("out", "a new file", f"{path}, which exists (--force replaces)")
    kind_of(outputs[0], "out")
    if not outputs[0].absolute().parent.is_dir():
        raise _checks.wrong("out", "a file in a folder that exists", str(outputs[0]))


def _chosen(dataset: xarray.Dataset, names: list[str]) -> list[str]:
    """Return the variables to fill: those that are named, or all with missing values."""
    for name in names:
        _checks.choice("var", name, [str(key) for key in dataset.data_vars])
    named = names or [str(key) for key, array in dataset.data_vars.items() if array.dtype.kind == "f" and array.ndim]
    found = [name for name in named if bool(dataset[name].isnull().any())]
    if not found or (names and found != names):
        whole = [name for name in named if name not in found]
        raise _checks.wrong("cube", "a variable with missing values", ", ".join(whole) or "none of numbers")
    return found


def _described(array: xarray.DataArray, filled: Filled, seconds: float) -> dict[str, Any]:
    missing, left = (int(a.isnull().sum()) for a in (array, filled.array))
    counts = {"known": array.size - missing, "filled": missing - left, "left": left}
    return {"shape": list(array.shape), **counts, "seconds": seconds, "report": filled.report}


def _words(part: dict[str, Any]) -> str:
    used = part["report"].get("used", "nothing to fill")
    size = report.size(part["shape"])
    return f"{size}, {part['filled']:,} filled, {part['left']:,} left, {used}, {report.duration(part['seconds'])}"


def _figure(before: Any, after: Any, std: Any, dims: Any) -> Any:
    """Return the figure of a variable: of its first channel, with its last two axes as height and width."""
    labeled, shown = Labeled.of(before, dims), _frames(before, dims)
    times = labeled.own(labeled.axes[0]) if labeled.has_time else [""]
    labels = [str(t).removesuffix("T00:00:00.000000000").removesuffix(" 00:00:00") for t in times]
    labels = labels if len(labels) == len(shown) else [""] * len(shown)
    name = f"{before.name} ({before.attrs['units']})" if "units" in before.attrs else str(before.name)
    deviations = None if std is None else _frames(std, dims)
    return filled_figure(shown, _frames(after, dims), deviations, labels, name, upward=dims is None)


def _frames(array: Any, dims: Any) -> np.ndarray:
    """Return the first channel of an array as frames, with the last two axes as height and width."""
    labeled = Labeled.of(array, dims)
    signal = labeled.ordered(array)[..., 0].astype(float)
    signal = signal[:, None] if signal.ndim == 2 and labeled.has_time else signal
    height, width = signal.shape[-2:] if signal.ndim > 1 else (1, signal.shape[-1])
    return signal.reshape(-1, height, width)
