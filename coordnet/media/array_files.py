"""Arrays in and out: NPY and NPZ files, Zarr folders."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coordnet import _checks
from coordnet.media.files import (
    HDF5_SUFFIXES,
    MEMBER_SUFFIXES,
    NEEDED,
    StrPath,
    atomic_path,
    decoding,
    encoding,
    mismatch,
    readable_file,
    refuse_large,
    split_member,
)
from coordnet.media.signal import Media, from_depth, rounded_by_float32
from coordnet.media.tags import Tags

ARRAY_SUFFIXES = (".npy", ".zarr", *MEMBER_SUFFIXES)
LABELS = ("coordinates and attributes (coordnet fill does)",)  # parts of NetCDF that an array alone loses


def read_array(path: StrPath, *, memory: int | None = None) -> Media:
    """Read an array in NPY, NPZ, Zarr, NetCDF or HDF5, of any number of axes, into a signal (*grid, channels).

    ``file.npz:NAME`` is one of several arrays of a file.
    Integers are divided by the largest value of their type, booleans become 0 and 1, floats keep their values,
    NaN included. Pickled objects are never loaded. The last axis holds channels if it is short (``ends_in_channels``,
    as for arrays in Python); otherwise an axis of length 1 is added. An array that needs more than ``memory`` bytes is
    refused, see ``refuse_large``.
    """
    values = load_array(Path(path), memory=memory)
    given = _checks.ends_in_channels(values.shape)
    scaled = np.ascontiguousarray(from_depth(values, path))
    signal = torch.from_numpy(scaled if given else scaled[..., None])
    stored, file = rounded_by_float32(values if given else values[..., None]), split_member(path)[0]
    tags = Tags(lost=LABELS if file.suffix.lower() in HDF5_SUFFIXES else ())
    return Media(signal, "array", file.stem, values.dtype.name, channel_axis=given, stored=stored, tags=tags)


def load_array(path: Path, *, mapped: bool = False, memory: int | None = None) -> Any:
    """Return the array in an NPY, NPZ, NetCDF or HDF5 file or a Zarr folder, without ever unpickling.

    ``file.npz:NAME`` is one of several arrays; missing values of NetCDF are NaN. If ``mapped``, the numbers of NPY and
    Zarr are read as they are needed; else they take at most ``memory`` bytes, see ``refuse_large``.
    """
    file, member = split_member(path)
    if file.suffix.lower() == ".zarr":
        values = _open_zarr(file)
    elif file.suffix.lower() in HDF5_SUFFIXES:
        values = _read_hdf5(readable_file(file, "an array"), member, memory)
    else:
        with decoding(path, "an array"):
            # A map first: it holds the declared shape against the length of the file.
            values = np.load(readable_file(file, "an array"), mmap_mode="r", allow_pickle=False)
            values = _member(values, file, member, memory)
    if not mapped:
        refuse_large(path, math.prod(values.shape), memory)
        with decoding(path, "an array"):
            values = np.array(values[...])
    if math.prod(values.shape) == 0 or values.ndim == 0:
        raise mismatch(path, "an array with at least one axis and value", f"shape {values.shape}")
    return values if mapped else values.astype(values.dtype.newbyteorder("="), copy=False)


def _member(archive: Any, file: Path, member: str | None, memory: int | None) -> np.ndarray:
    """Return one array of an NPZ file."""
    if isinstance(archive, np.ndarray):
        return archive
    with archive:
        name = _chosen(file, member, archive.files, archive.files)
        refuse_large(file, archive.zip.getinfo(f"{name}.npy").file_size // NEEDED, memory)
        return archive[name]


def _read_hdf5(path: Path, member: str | None, memory: int | None) -> np.ndarray:
    """Return one array of a NetCDF or HDF5 file, NaN where it has missing values."""
    try:
        from netCDF4 import Dataset
    except ImportError:
        raise mismatch(path, "the package netCDF4 (pip install 'coordnet[xarray]')", "none") from None
    with decoding(path, "a NetCDF or HDF5 file"), Dataset(path) as file:
        names = [name for name in _names(file) if name not in file.dimensions]
        stored = file[_chosen(path, member and member.strip("/"), names, _names(file))]
        refuse_large(path, math.prod(stored.shape), memory)
        values = stored[...]
    missing = np.ma.getmaskarray(values)
    if not missing.any():
        return np.ma.getdata(values)
    return np.ma.filled(values.astype(np.result_type(values.dtype, np.float32)), np.nan)


def _chosen(file: Path, member: str | None, names: list[str], every: list[str]) -> str:
    """Return the name of an array that is asked for, one of ``every`` in a file, or of its only one among ``names``."""
    listed = ", ".join(names) or "none"
    if member is None and len(names) != 1:
        raise mismatch(file, f"one array, or {file.name}:NAME", f"{len(names)} ({listed})")
    if member is not None and member not in every:
        raise mismatch(file, f"an array of the name {member!r}", listed)
    return member or names[0]


def _names(group: Any) -> list[str]:
    """Return the names of the arrays in a group of a NetCDF or HDF5 file, and in the groups within."""
    inside = (f"{name}/{array}" for name, within in group.groups.items() for array in _names(within))
    return [*group.variables, *inside]


def _open_zarr(path: Path) -> Any:
    """Return the Zarr array in a folder."""
    if not path.exists():
        raise mismatch(path, "a Zarr array", "nothing of this name")
    zarr = zarr_package(path)
    with decoding(path, "a Zarr array"):
        stored = zarr.open(str(path), mode="r")
        if not isinstance(stored, zarr.Array):
            raise ValueError("a group of arrays: name one of them")
    return stored


def zarr_options(stored: Any) -> dict[str, Any]:
    """Return zarr's options for an array with the chunks, the compression and the attributes of another one."""
    options = {name: getattr(stored, name) for name in ("chunks", "shards", "filters", "compressors", "fill_value")}
    options |= {"zarr_format": stored.metadata.zarr_format, "attributes": dict(stored.attrs)}
    named = getattr(stored.metadata, "dimension_names", None)
    return {**options, "dimension_names": named} if named else options


def zarr_package(path: Path) -> Any:
    """Return the package zarr, or raise a `MediaError` that says how to install it."""
    try:
        import zarr
    except ImportError:
        raise mismatch(path, "the package zarr (pip install 'coordnet[zarr]')", "none") from None
    return zarr


def write_array(media: Media, path: Path) -> list[str]:
    """Write an array as an .npy file, and return the tags that it does not hold."""
    values = media.numbers(path)
    values = values if media.channel_axis or values.shape[-1] != 1 else values[..., 0]
    with atomic_path(path) as temporary, encoding(path, "an array"):
        np.save(temporary, values, allow_pickle=False)
    return media.tags.for_others()
