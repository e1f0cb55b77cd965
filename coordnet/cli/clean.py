"""The command ``coordnet denoise``: signals in memory, and block by block what is larger."""

from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from coordnet.cli import report
from coordnet.cli.common import Batch, Common
from coordnet.cli.large import Made, computed, in_rows, is_for_blocks
from coordnet.cli.many import each
from coordnet.cli.report import Outcome
from coordnet.cli.restore import Shown, named_noise, required_prior, restored
from coordnet.media import Media
from coordnet.media.row_blocks import RowFile
from coordnet.networks.noise_reports import DenoiseReport
from coordnet.restore.denoise import denoise as denoised
from coordnet.restore.restored import Restored, Tiles
from coordnet.sampling.jpeg import is_jpeg


def denoise(
    signals: list[str], sigma: float | None, noise: str, prior: str, denoiser: str | None, common: Batch
) -> None:
    """Remove noise of a standard deviation, given or estimated, or of a kind that is estimated."""
    work = partial(_denoise, sigma=sigma, noise=noise, prior=required_prior(prior, denoiser))
    each("denoise", work, signals, common)


def _denoise(signal: str, common: Batch, sigma: float | None, noise: str, prior: Any) -> Outcome:
    if noise != "jpeg" and is_for_blocks(Path(signal), common):
        make = partial(_in_blocks, sigma=sigma, noise=noise, prior=prior, common=common)
        return in_rows("denoise", Path(signal), make, common)
    return restored("denoise", partial(_in_memory, sigma=sigma, noise=noise, prior=prior), signal, common)


def _in_memory(
    signal: str, media: Media, values: Tensor, common: Common, sigma: float | None, noise: str, prior: Any
) -> Shown:
    rate = media.rate if media.kind == "audio" else None
    options = {"alpha": media.alpha, "dimensions": len(media.grid), "seed": common.seed, "rate": rate}
    made = denoised(values, sigma, noise=named_noise(noise, signal), prior=prior, progress=common.progress, **options)
    settings = {name: getattr(made.report, name) for name in ("sigma", "noise", "prior")}
    tiles = made.report.tiles  # None where the picture was fitted as a whole
    chosen = _chosen(made, len(media.grid), sigma, noise, prior) + (f" in {report.size(tiles)} tiles" if tiles else "")
    # Stein's formula is within half a dB where nothing was clipped, and within two elsewhere.
    expected = made.expected_psnr
    sureness = "no noise found" if expected is None else f"expected PSNR about {expected:.0f} dB"
    if noise == "jpeg":
        sureness = "each coefficient is in its interval of the file, before values are clipped to 8 bits"
    elif Path(signal).is_file() and is_jpeg(signal):
        chosen, sureness = f"{chosen}; --noise jpeg removes JPEG's rounding", f"{sureness} but for JPEG's rounding"
    return Shown(
        made, media.signal[Tiles(media.grid).middle], chosen, sureness, {**settings, "expected_psnr": expected}
    )


def _in_blocks(source: RowFile, place: Path, sigma: float | None, noise: str, prior: Any, common: Batch) -> Made:
    """Remove noise in overlapping blocks."""

    def fit(signal: Any, memory: int | None, alpha: bool) -> Restored:
        options: Any = {"alpha": alpha, "dimensions": signal.ndim - 1, "seed": common.seed}
        return denoised(signal, sigma, noise=noise, prior=prior, memory=memory, **options)

    made, rows = computed(fit, source, place, common)
    blocks = made.report.blocks.counts
    chosen = _chosen(made, len(blocks), sigma, noise, prior) + f" in {report.size(blocks)} blocks"
    names = ("sigma", "noise", "prior", "expected_psnr")
    settings = {name: getattr(made.report, name) for name in names}
    settings |= {"report": made.report.as_dict(), "seed": common.seed}
    return Made(rows, made.signal.shape, settings, chosen)


def _chosen(made: Restored[DenoiseReport], axes: int, sigma: float | None, noise: str, prior: Any) -> str:
    """Return the words for the noise of a signal of some axes, and for the prior."""
    how, words = "estimated" if sigma is None else "given", f"noise of standard deviation {made.report.sigma:.4g}"
    words = f"JPEG's rounding, at most as {words}" if noise == "jpeg" else words
    chosen = f"{words if made.noise is None else made.noise} ({how}), {made.report.prior} prior"
    lost = (made.report.noise or {})["lost"]
    chosen = f"{100 * lost:.2g} % of the pixels lost to black or white, then {chosen}" if lost else chosen
    before = made.report.hum or made.report.banding
    chosen = f"{before}, then {chosen}" if before else chosen
    return chosen + _other_prior(made.report, axes) * (prior == "auto")


def _other_prior(chosen: DenoiseReport, axes: int) -> str:
    """Return the words for the prior that was not taken for a picture; clips and volumes take both about as long."""
    if axes == 2 and chosen.prior == "local":
        return report.FASTER
    left_out = chosen.prior == "adaptive" and chosen.tried is None and chosen.sigma > 0
    return " (--prior local takes longer and mostly removes more)" * (axes == 2 and left_out)
