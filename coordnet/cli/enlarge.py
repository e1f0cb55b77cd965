"""The command ``coordnet upscale``: pictures in memory, and signals that are read and written in blocks of rows."""

from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from coordnet import _checks
from coordnet.cli import report, specs
from coordnet.cli.common import Batch, Common
from coordnet.cli.large import Made, check_room, computed, in_rows
from coordnet.cli.many import each
from coordnet.cli.report import Outcome
from coordnet.cli.restore import Shown, named_noise, restored
from coordnet.media import Media, MediaError
from coordnet.media.array_files import ARRAY_SUFFIXES
from coordnet.media.files import available_memory, split_member
from coordnet.media.row_blocks import RowFile, open_rows
from coordnet.priors.local.cell_means import DEGREE
from coordnet.restore.restored import Restored, UpscaleReport
from coordnet.restore.rows import IN_MEMORY, upscale_rows
from coordnet.restore.upscale import AUTO, enlarged, nearest
from coordnet.restore.upscale import upscale as upscaled
from coordnet.restore.upscale_choice import PIXEL_KINDS, PixelKind

POINTS = "pixels as points: complex Gaussian encoding, σ = {sigma}"
AREAS = "pixels as areas: complex B-spline encoding, {assumed} prior"
NOISY = ", noise of standard deviation {noise:.2g}"
LEAST_TOLD = 1e-5  # standard deviation that is told: 16 bits round to steps of 1.5e-5
UPSCALE_MEMORY = 2**31  # bytes that enlarging may take without --memory, if they are free


def upscale(
    signals: list[str], factor: float, samples: str, noise: str, prior: str, denoiser: str | None, common: Batch
) -> None:
    """Enlarge a picture, in blocks of rows where it is an array or larger than memory."""
    budget = common.memory_bytes or min(available_memory() // (2 * common.workers), UPSCALE_MEMORY)
    kind = cast(PixelKind, _checks.choice("samples", samples, PIXEL_KINDS))
    options = {"samples": kind, "noise": noise, "prior": specs.parse_prior(prior, denoiser)}
    each("upscale", partial(_upscale, factor=factor, options=options, budget=budget), signals, common)


def _upscale(image: str, common: Batch, factor: float, options: dict[str, Any], budget: int) -> Outcome:
    path, prior = Path(image), options["prior"]
    if _is_large(path, factor, budget, common.memory_bytes):
        if options["noise"] != AUTO:
            raise _checks.wrong("noise", "auto for what is read in rows", options["noise"])
        make = _in_rows if prior in ("auto", None) else partial(_in_blocks, prior=prior)
        asked = {"factor": factor, "kind": options["samples"], "memory": budget, "common": common}
        return in_rows("upscale", path, partial(make, **asked), common)

    def work(signal: str, media: Media, values: Tensor, common: Common) -> Shown:
        asked = {**options, "noise": named_noise(options["noise"], signal), "progress": common.progress}
        made = upscaled(values if values.ndim == 3 else values.flatten(0, -4), factor, alpha=media.alpha, **asked)
        made = replace(made, signal=made.signal.unflatten(0, values.shape[:-3])) if values.ndim > 3 else made
        expected = made.expected_psnr
        sureness = "too small, or too uniform, to try on its own reduction"
        if expected is not None:
            sureness = f"PSNR {expected:.2f} dB where it was halved and enlarged by 2"
        before = nearest(media.signal, tuple(made.signal.shape[-3:-1]))
        settings = _upscaling(made.report, factor, media.alpha, expected)
        return Shown(made, before, _chosen(made.report), sureness, settings)

    return restored("upscale", work, image, common, kinds=("image", "stack", "video"))


def _chosen(made: UpscaleReport) -> str:
    assumed = "no" if made.prior == "none" else made.prior
    words = AREAS + NOISY * ((made.noise or 0) > LEAST_TOLD) if made.samples == "area" else POINTS
    chosen = words.format(assumed=assumed, noise=made.noise, sigma=made.sigma)
    kinds = ", ".join(dict.fromkeys(noise["kind"] for noise in made.removed or ()))
    chosen = f"without its noise ({kinds}), {chosen}" if kinds else chosen
    return chosen + " (--prior none is faster)" * (made.division is not None)


def _upscaling(made: UpscaleReport, factor: float, alpha: bool, expected: float | None) -> report.Record:
    """Return the part of a record that says how a picture was enlarged."""
    names = ("samples", "prior", "division", "noise", "removed", "strength", "sigma", "tried")
    chosen = {name: value for name, value in made.as_dict().items() if name in names}
    encoder = f"gaussian:sigma={made.sigma}" if made.sigma else f"bspline:degree={DEGREE}"
    return {**chosen, "factor": factor, "encoder": encoder, "premultiplied": alpha, "hold_out_psnr": expected}


def _is_large(path: Path, factor: float, budget: int, memory: int | None) -> bool:
    """Return whether a file is read in rows: a picture that exceeds the memory, or an array that is no picture."""
    suffix = split_member(path)[0].suffix.lower()
    if suffix == ".zarr":
        return True
    try:
        with open_rows(path, memory) as source:
            return len(source.shape) != 3 or IN_MEMORY * factor * factor * prod(source.shape) > budget
    except MediaError:  # the reader of rows says what is wrong with an array, that of whole files with others
        return suffix in ARRAY_SUFFIXES


def _in_rows(source: RowFile, place: Path, factor: float, kind: PixelKind, memory: int, common: Batch) -> Made:
    """Enlarge a signal in blocks of rows, without a prior."""
    shape = (*enlarged(source.shape[:-1], factor), source.shape[-1])
    check_room("factor", shape, source, place.absolute().parent)
    options: Any = {"memory": memory, "samples": kind, "alpha": source.alpha, "progress": common.progress}
    rows, made, expected = upscale_rows(source, factor, **options)
    record = {**_upscaling(made, factor, source.alpha, expected), "memory": memory, "report": made.as_dict()}
    return Made(rows, shape, record, _chosen(made))


def _in_blocks(
    source: RowFile, place: Path, factor: float, kind: PixelKind, memory: int, common: Batch, prior: Any
) -> Made:
    """Enlarge a picture in overlapping blocks, by the local prior."""

    def fit(image: Any, _: int | None, alpha: bool) -> Restored:
        return upscaled(image, factor, samples=kind, prior=prior, alpha=alpha, memory=memory)

    made, rows = computed(fit, source, place, common)
    record = {**_upscaling(made.report, factor, source.alpha, made.expected_psnr), "memory": memory}
    return Made(rows, made.signal.shape, record | {"report": made.report.as_dict()}, _chosen(made.report))
