"""The command ``coordnet upscale``."""

from pathlib import Path
from typing import Any

import torch

from coordnet import _checks
from coordnet.cli.restoring import Common, Restored, restore
from coordnet.cli.streamed import streams, upscale_rows
from coordnet.media import Media, MediaError
from coordnet.restore.rows import available_memory, parse_bytes
from coordnet.restore.upscale import choose_sigma, fitted, nearest, premultiplied, unmultiplied

LARGEST = 2**28  # pixels that a picture may come to have


def run(image: str, factor: float, memory: str | None, options: Common) -> None:
    """Enlarge a picture by the Gaussian encoding whose width best enlarges its own reduction."""
    _checks.finite("factor", factor)
    if factor < 1:
        raise _checks.wrong("factor", "a number of at least 1", factor)
    budget = available_memory() // 2 if memory is None else parse_bytes(memory)
    if streams(Path(image), factor, budget):
        upscale_rows(Path(image), factor, budget, options)
        return

    def work(media: Media, device: torch.device) -> Restored:
        if not bool(torch.isfinite(media.signal).all()):
            raise MediaError(
                f"{image}: expected a picture known everywhere, found NaN (see coordnet inpaint)"
            )
        shape = tuple(max(1, round(factor * n)) for n in media.grid)
        if shape[0] * shape[1] > LARGEST:
            found = f"{factor:g}, {shape[0]} by {shape[1]}"
            raise _checks.wrong("factor", f"one that leaves at most {LARGEST:,} pixels", found)
        values = premultiplied(media.signal) if media.alpha else media.signal
        sigma, tried = choose_sigma(values.to(device))
        fit = fitted(values.to(device), sigma)
        large = fit.render(shape).cpu()
        if media.alpha:
            large = unmultiplied(large)
        expected = tried.get(sigma)
        settings: dict[str, Any] = {"factor": factor, "encoder": f"gaussian:sigma={sigma}", "tried": tried}
        settings |= {"premultiplied": media.alpha, "hold_out_psnr": expected}
        told = "too small to try on its own reduction"
        if expected is not None:
            told = f"PSNR {expected:.2f} dB where it was halved and enlarged by 2"
        before = large if shape == media.grid else nearest(media.signal, shape)
        return Restored(large, before, fit, f"complex Gaussian encoding, σ = {sigma}", told, settings)

    restore("upscale", image, options, work, kinds=("image",))
