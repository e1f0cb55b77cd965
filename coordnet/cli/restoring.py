"""What the commands that restore a signal share: their common options, and the way from a file to a folder."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coordnet.cli.common import Common
from coordnet.cli.devices import choose_device
from coordnet.cli.outputs import staged_folder
from coordnet.cli.report import finish, versions
from coordnet.encodings import FourierEncoding
from coordnet.fit.closed_form import fit_closed_form
from coordnet.media import Media, MediaError, read_media, write_media
from coordnet.metrics.stopwatch import once
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plots.reconstruction import sampled_picture
from coordnet.plots.restoration import restoration_figure
from coordnet.priors.adaptive import Adaptive
from coordnet.sampling.samples import Samples, ScatteredPoints

NO_HOLD_OUT = "too little is known to hold any of it out"


@dataclass(frozen=True)
class Restored:
    """What a command made of a signal.

    Attributes
    ----------
    signal : (*grid, channels)
        To be written.
    before : (*grid, channels)
        What the figure shows beside it.
    fit : Reconstruction
        The model.
    chosen : str
        What was chosen, for the screen.
    sureness : str
        How sure it is, for the screen and for the figure.
    settings : dict
        The record's own part.
    """

    signal: Tensor
    before: Tensor
    fit: Reconstruction
    chosen: str
    sureness: str
    settings: dict[str, Any] = field(default_factory=dict)


def restore(
    command: str,
    signal: str,
    options: Common,
    work: Callable[[Media, torch.device], Restored],
    *,
    kinds: tuple[str, ...] = (),
) -> None:
    """Read a signal, do a command's work on it, write what comes out, and say what was chosen.

    Parameters
    ----------
    command : str
        Its name.
    signal : str
        A file, or a built-in sample.
    options : Common
        The common options.
    work : function
        Of the signal's media and the device.
    kinds : tuple of str
        Of media that the command takes; all if empty.

    Raises
    ------
    MediaError
        If the signal is of another kind.
    """
    device = choose_device(options.device)
    media = read_media(signal, progress=options.progress)
    if kinds and media.kind not in kinds:
        raise MediaError(f"{signal}: expected {' or '.join(kinds)} to {command}, found {media.kind}")
    with staged_folder(options.out, command=command, name=media.name, force=options.force) as (
        staging,
        final,
    ):
        made, seconds = once(lambda: work(media, device))
        made = replace(made, signal=made.signal.detach().cpu())
        record = {
            "signal": media.name,
            "command": command,
            "shape": list(made.signal.shape),
            **made.settings,
            "parameters": made.fit.network.parameter_count,
            "seconds": seconds,
            "report": made.fit.report,
            "device": str(device),
            "seed": options.seed,
            "versions": versions(),
        }
        _write(staging, media, made, command)
        finish(staging, record)
    if options.json:
        print(json.dumps(record, ensure_ascii=False))
    elif not options.quiet:
        shape = "×".join(str(n) for n in made.signal.shape)
        print(f"{media.name} {shape} in {seconds:.2f} s\n{made.chosen}\n{made.sureness}\nwritten to {final}")


def _write(folder: Path, media: Media, made: Restored, command: str) -> None:
    result = replace(media, signal=made.signal)
    write_media(result, folder / f"reconstruction{result.lossless_suffix}")
    if media.kind == "video":  # the .mp4 is compressed
        write_media(result, folder / "reconstruction.npy")
    made.fit.save(folder / "model.safetensors")
    titles = (media.name, f"{command}\n{made.sureness}")
    restoration_figure(made.before.detach().cpu(), made.signal, titles).savefig(
        folder / "figure.png", dpi=110
    )


def fill(samples: Samples, original: Tensor, options: Common) -> Restored:
    """The unknown part of a signal by the adaptive prior; the known one as it was, to the bit.

    Parameters
    ----------
    samples : Samples
        What is known.
    original : (*grid, channels)
        The values to keep where they are known.
    options : Common
        Seed and progress.
    """
    assert not isinstance(samples.geometry, ScatteredPoints)
    known = samples.geometry.known(samples.channels).cpu()
    encoding = FourierEncoding.like(samples)
    fit = fit_closed_form(encoding, samples, prior=Adaptive(seed=options.seed), progress=options.progress)
    signal = torch.where(known, original, fit.render(alignment="sample").to("cpu", original.dtype))
    expected = hold_out_psnr(fit.report)
    share = float(known.double().mean())
    settings = {"known": share, "prior": "adaptive", "hold_out_psnr": expected}
    told = NO_HOLD_OUT if expected is None else f"hold-out PSNR {expected:.2f} dB"
    before = sampled_picture(samples, samples.channels)
    chosen = f"{100 * share:.3g} % known, {describe(fit.report)}"
    return Restored(signal, before, fit, chosen, told, settings)


def describe(report: dict[str, Any]) -> str:
    """What an adaptive fit chose."""
    start, rounds = report["start"], report["rounds"]
    law = f"power {start['power']:g}, strength {start['strength']:g}"
    return f"adaptive prior: started from {law}, spectrum learned in {rounds} round{'s' * (rounds != 1)}"


def hold_out_psnr(report: dict[str, Any]) -> float | None:
    """The best PSNR at hidden samples of all that an adaptive fit tried; None where it hid none."""
    scores = [score for tried in report.get("tried", []) for score in tried["hold_out_psnr"]]
    return max(scores, default=None)
