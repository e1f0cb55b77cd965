"""The file of a reconstruction: its tensors as safetensors, its configuration as JSON in the metadata."""

import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

import coordnet.networks.several_reports  # noqa: F401, kinds of reports that a file may hold
from coordnet import _checks
from coordnet.encodings import encoding_from
from coordnet.encodings.blending import Blending
from coordnet.media.files import mismatch, readable_file
from coordnet.networks.fit_reports import report_from
from coordnet.networks.heads import head_from
from coordnet.networks.network import CoordinateNetwork
from coordnet.sampling.grids import Lattice
from coordnet.sampling.point_lattice import lattice_of
from coordnet.sampling.samples import BLENDS

FORMAT = "coordnet-1"
MOST_VALUES = 2**40  # nodes of the grid of a model that is loaded: no fit has seen as many
EXPECTED = "a model that coordnet saved"
T = TypeVar("T")
Tensors = dict[str, Tensor]


def write(path: str | os.PathLike[str], configuration: Mapping[str, Any], tensors: Tensors) -> None:
    """Write a model's configuration and tensors; ``ValueError`` if a number is not finite or nothing can be written."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    own = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    try:
        text = json.dumps({"format": FORMAT, **configuration}, allow_nan=False)
        save_file(own, os.fspath(path), {"coordnet": text})
    except (SafetensorError, OSError, ValueError) as error:
        raise mismatch(path, "a file that can be written", f"an error ({error})") from None


def read(path: str | os.PathLike[str], make: Callable[[dict[str, Any], Tensors], T]) -> T:
    """Return what ``make`` makes of the configuration and the tensors of a model's file.

    A ``ValueError`` names the file if it is missing, damaged or of another kind, or ``make`` refuses its parts.
    """
    from safetensors import SafetensorError, safe_open

    readable_file(path, EXPECTED)
    try:
        with safe_open(os.fspath(path), "pt") as file:
            metadata = file.metadata() or {}
            # Copies are aligned as the saved tensors were; products of unaligned ones differ in their last bits.
            tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118
        return make(json.loads(metadata["coordnet"]), tensors)
    except (SafetensorError, OSError) as error:
        raise mismatch(path, EXPECTED, f"one that cannot be read ({error})") from None
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        reason = str(error).splitlines()[0]
        raise mismatch(path, EXPECTED, f"another kind of file ({reason})") from None


def arguments(configuration: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """Return the arguments of ``Reconstruction`` for a configuration and tensors that fit together, by their names.

    A ``ValueError``, ``KeyError``, ``TypeError``, ``RuntimeError`` or ``OverflowError`` is raised if they do not.
    """
    if configuration["format"] != FORMAT:
        raise _checks.wrong("format", FORMAT, configuration["format"])
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise _checks.wrong(name, "finite numbers", "NaN or infinity")
    if not isinstance(configuration["report"], dict):
        raise _checks.wrong("report", "a dictionary", repr(configuration["report"]))
    grid, batch = Lattice(tuple(configuration["grid"])).grid, tuple(configuration["batch"])
    if math.prod(grid) > MOST_VALUES:
        raise _checks.wrong("grid", f"at most {MOST_VALUES:,} nodes", grid)
    channels, offset = configuration["channels"], tensors["offset"]
    if channels != offset.numel() or offset.shape[:-1] != batch or offset.numel() == 0:
        raise _checks.wrong("offset", f"{channels} numbers in a batch of {batch}", tuple(offset.shape))
    drift, learned = tuple(configuration.get("drift", ())), without_prefix("learned.", tensors)
    if drift and {len(drift)} != {learned[name].shape[1] for name in ("drift", "drift_means")}:
        raise _checks.wrong("drift", f"coefficients of {len(drift)} columns", "others")
    return {
        "network": _network(configuration, without_prefix("network.", tensors), grid),
        "offset": offset,
        "grid": grid,
        "batch": batch,
        "report": report_from(configuration["report"]),
        "learned": learned,
        "footprint": _checks.choice("footprint", configuration.get("footprint", "point"), ("point", "area")),
        "lattice": lattice_of(configuration.get("coordinates")),
        "drift": drift,
    }


def _network(configuration: dict[str, Any], state: Tensors, grid: tuple[int, ...]) -> CoordinateNetwork:
    """Return the network with the tensors ``state``, before which nothing is allocated."""
    with torch.device("meta"):  # the configuration takes no memory before it is checked against the tensors
        encoding, head = encoding_from(configuration["encoding"]), head_from(configuration["head"])
    if len(grid) != encoding.dimensions:
        raise _checks.wrong("grid", f"{encoding.dimensions} lengths, one for each axis of the encoding", grid)
    weight = state["first.weight"] if encoding.is_factored and not head.widths else None
    blending = None
    if kind := configuration.get("blending"):
        if not encoding.is_factored:
            raise _checks.wrong("blending", "none, for features that are no product of the axes'", kind)
        lattice = lattice_of(configuration.get("coordinates")) or Lattice(grid)
        axes = getattr(encoding, "axes", None) or tuple(axis.even for axis in lattice.axes)
        blending = Blending(_checks.choice("blending", kind, BLENDS), axes)
    with torch.device("meta"):
        network = CoordinateNetwork(encoding, head, configuration["channels"], weight=weight, blending=blending)
    # Files that were written before scales were tensors have them in the configuration alone.
    scales = {k: v for k, v in network.state_dict().items() if not v.is_meta}
    network.load_state_dict(scales | state, assign=True)
    return network.requires_grad_(False).eval()


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """Return tensors under names with a prefix."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """Return the tensors whose names have a prefix, under names without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
