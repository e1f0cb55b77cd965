"""One cell carried out, and its record: a result, or the reason why there is none."""

import json
import math
import subprocess
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coordnet.bench.protocols.cells import Cell
from coordnet.bench.protocols.methods import KINDS, Case, Outcome
from coordnet.bench.protocols.records import Record
from coordnet.metrics import scores as metrics
from coordnet.metrics.stopwatch import machine
from coordnet.sampling.patterns import sample
from coordnet.sampling.samples import Samples, ScatteredPoints

LONGEST = 200  # characters of a reason


def run_cell(cell: Cell) -> Record:
    """Carry a cell out.

    Returns
    -------
    dict
        ``key``, ``cell``, ``status`` ("done" or "failed") and ``machine``; where it is done, ``psnr`` (``held_out``
        over what was not sampled, ``fitted`` over the samples, ``clean`` over everything where there was noise; null
        where nothing counts or nothing is wrong), ``ssim``, ``parameters``, ``seconds`` and ``notes``; where it
        failed, ``reason``.
    """
    head = {"key": cell.key, "cell": cell.configuration()}
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = {"status": "done", **_measured(cell)}
        told = sorted({_short(str(w.message)) for w in caught if issubclass(w.category, UserWarning)})
        if told:
            result["warnings"] = told
        json.dumps(result, allow_nan=False)  # what is no JSON must not stop the run later
    except Exception as error:  # a cell must not stop the run, whatever its method raises
        result = failure(said(error))
    return {**head, **result, "machine": where(cell.device)}


def failed(cell: Cell, reason: str) -> Record:
    """The record of a cell that did not come back."""
    head = {"key": cell.key, "cell": cell.configuration()}
    return {**head, **failure(reason), "machine": where(cell.device)}


def said(error: BaseException) -> str:
    """An exception as a reason."""
    return f"{type(error).__name__}: {error}"


def failure(reason: str) -> dict[str, str]:
    """What a record has in place of a result."""
    return {"status": "failed", "reason": _short(reason)}


@cache
def where(device: str) -> dict[str, Any]:
    """The machine, and the commit of the code where it is a checkout."""
    return {**machine(torch.device(device)), "commit": _commit()}


def _commit() -> str | None:
    folder = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
    except OSError:
        return None
    return found.stdout.strip() or None


def _measured(cell: Cell) -> dict[str, Any]:
    clean = cell.signal.load()
    observed = clean
    if cell.task.noise:
        generator = torch.Generator().manual_seed(cell.seed)
        observed = clean + cell.task.noise * torch.randn(clean.shape, generator=generator)
    generator = torch.Generator().manual_seed(cell.seed)
    samples = sample(observed.to(cell.device), cell.task.pattern, generator=generator)
    case = Case(samples, cell.seed, cell.epochs, cell.task.noise, clean)
    made = KINDS[cell.method.kind](case, cell.method.settings)
    return _scored(made, samples, clean, observed, cell.task.noise > 0)


def _scored(made: Outcome, samples: Samples, clean: Tensor, observed: Tensor, noisy: bool) -> dict[str, Any]:
    estimate = made.estimate.detach().cpu()
    if not bool(torch.isfinite(estimate).all()):
        raise FloatingPointError("NaN or infinity in the estimate")
    assert not isinstance(samples.geometry, ScatteredPoints)
    known = samples.geometry.known(clean.shape[-1])
    psnr = {
        "held_out": _number(metrics.psnr(estimate, clean, ~known)),
        "fitted": _number(metrics.psnr(estimate, observed, known, clip=not noisy)),
        "clean": _number(metrics.psnr(estimate, clean)) if noisy else None,
    }
    ssim = metrics.ssim(estimate, clean) if clean.ndim == 3 else None
    return {
        "psnr": psnr,
        "ssim": ssim,
        "parameters": made.parameters,
        "seconds": made.seconds,
        "notes": made.notes,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
