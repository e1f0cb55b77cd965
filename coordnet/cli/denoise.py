"""The command ``coordnet denoise``."""

import torch

from coordnet import _checks
from coordnet.cli.restoring import Common, Restored, restore
from coordnet.media import Media
from coordnet.restore.denoise import denoise


def run(signal: str, sigma: float | None, options: Common) -> None:
    """Remove white noise of a standard deviation, given or estimated."""
    if sigma is not None:
        _checks.nonnegative("sigma", sigma)

    def work(media: Media, device: torch.device) -> Restored:
        colours = media.signal[..., :-1] if media.alpha else media.signal
        fit = denoise(colours.to(device), sigma, seed=options.seed, progress=options.progress)
        estimate = fit.render(alignment="sample").cpu()
        if media.alpha:
            estimate = torch.cat([estimate, media.signal[..., -1:]], dim=-1)
        noise, expected = fit.report["sigma"], fit.report["expected_psnr"]
        chosen = f"noise of standard deviation {noise:.4g} ({'given' if sigma is not None else 'estimated'})"
        told = (
            "no noise found"
            if expected is None
            else f"expected PSNR {'' if sigma is not None else 'about '}{expected:.1f} dB"
        )
        settings = {"sigma": noise, "expected_psnr": expected}
        return Restored(estimate, media.signal, fit, chosen, told, settings)

    restore("denoise", signal, options, work)
