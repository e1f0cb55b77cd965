"""Noise as cameras, scanners and JPEG make it, and the methods that remove it, for ``bench quality --only noises``."""

import io
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter, median_filter
from skimage.restoration import denoise_tv_chambolle
from torch import Tensor

from coordnet.bench.experiment import Case, Estimator, Method, Outcome, Task, baseline
from coordnet.bench.peers import as_array, as_sampled, menon, restored, unchanged
from coordnet.comparison.stopwatch import timed
from coordnet.noise.linear_demosaicing import malvar
from coordnet.restore.demosaic import demosaic
from coordnet.restore.denoise import denoise
from coordnet.sampling import Samples, sample
from coordnet.sampling.jpeg import JpegIntervals
from coordnet.sampling.patterns import Bayer

FLOOR = 0.0004  # variance of a camera's noise at 0
GAINS = (0.005, 0.02)  # variance of a camera's noise per unit of the signal
PHOTON = 0.01  # signal of one photon in a mosaic that is demosaiced before its noise is removed
PHOTONS = (0.001, 0.01)  # and in mosaics that are not
ELECTRONS, READ_NOISE = 100.0, 4.0  # electrons of white in a dark photograph, and deviation of what is read
GAMMA = 2.2  # exponent of the curve by which it is stored
SIGMA_BEFORE_JPEG, SIGMA_COLORED = 0.05, 0.1  # standard deviations; the latter after filtering
SHARE_LOST = 0.05  # share of the pixels that are black or white
QUALITIES = (10, 20, 40)  # qualities of JPEG files without other noise
NLM_STRENGTHS = (3, 5, 7, 10, 14, 20)  # filter strengths of OpenCV's non-local means, in 8-bit values
TV_WEIGHTS = (0.01, 0.02, 0.03, 0.05, 0.08)  # weights of total variation
SIGMAS = (0.02, 0.035, 0.05, 0.08)  # standard deviations that CBM3D is given
QUADRATURE = 41  # nodes of the quadrature over the noise

Degrade = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def rounded(picture: np.ndarray) -> np.ndarray:
    """Clip and round a picture to 8 bits."""
    return np.round(255 * np.clip(picture, 0, 1)) / 255


def jpeg(picture: np.ndarray, quality: int) -> np.ndarray:
    """Compress a picture as Pillow does, with colors at half the resolution, and decode it."""
    return np.asarray(Image.open(io.BytesIO(jpeg_file(picture, quality)))) / 255


def jpeg_file(picture: np.ndarray, quality: int) -> bytes:
    """Return the file of a picture as JPEG."""
    file = io.BytesIO()
    Image.fromarray(np.uint8(255 * rounded(picture) + 0.5)).save(file, "JPEG", quality=quality)
    return file.getvalue()


def compressed(picture: np.ndarray, generator: np.random.Generator, quality: int) -> np.ndarray:
    """Add white noise, then compress as JPEG."""
    return jpeg(picture + SIGMA_BEFORE_JPEG * generator.standard_normal(picture.shape), quality)


def decoded(picture: np.ndarray, generator: np.random.Generator, quality: int) -> np.ndarray:
    """Compress a picture without noise as JPEG."""
    return jpeg(picture, quality)


def colored(picture: np.ndarray, generator: np.random.Generator, width: float) -> np.ndarray:
    """Add white noise filtered by a Gaussian."""
    noise = gaussian_filter(generator.standard_normal(picture.shape), (width, width, 0), mode="wrap")
    return picture + SIGMA_COLORED * noise / noise.std()


def camera(picture: np.ndarray, generator: np.random.Generator, gain: float, clipped: bool) -> np.ndarray:
    """Add noise whose variance is affine in the signal, perhaps clipped and rounded."""
    made = picture + np.sqrt(FLOOR + gain * picture) * generator.standard_normal(picture.shape)
    return rounded(made) if clipped else made


def dark(picture: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Count the few electrons of a dark photograph, read them out, and store them by a gamma curve."""
    counts = generator.poisson(ELECTRONS * picture**GAMMA) + READ_NOISE * generator.standard_normal(picture.shape)
    return rounded(np.maximum(counts / ELECTRONS, 0) ** (1 / GAMMA))


def mosaic(picture: np.ndarray, generator: np.random.Generator, quality: int | None = None) -> np.ndarray:
    """Count photons behind a color filter array, demosaic, and perhaps compress."""
    weights = Bayer("RGGB").geometry(picture.shape, None).weights
    assert weights is not None, "a mosaic has a mask"
    known, counts = weights > 0, torch.from_numpy(photons(picture, generator, PHOTON)).float()
    made = malvar(torch.where(known, counts, 0.0), known).double().numpy()
    return rounded(made) if quality is None else jpeg(made, quality)


def photons(picture: np.ndarray, generator: np.random.Generator, one: float) -> np.ndarray:
    """Count photons, each of which has a share of the range."""
    return one * generator.poisson(picture / one)


def salted(picture: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Make some pixels black or white."""
    lost = generator.random(picture.shape[:2]) < SHARE_LOST
    return np.where(lost[..., None], (generator.random(picture.shape[:2]) < 0.5)[..., None], picture)


@dataclass(frozen=True)
class Noisy(Task):
    """A picture, or its mosaic, with noise that is not given."""

    degrade: Degrade = rounded  # type: ignore[assignment]

    @property
    def draws(self) -> bool:
        return True

    def sampled(self, signal: Tensor, seed: int, device: str) -> tuple[Samples, Tensor]:
        made = self.degrade(signal.double().numpy(), np.random.default_rng(seed))
        observed = torch.from_numpy(np.ascontiguousarray(made)).to(signal)
        return sample(observed.to(device), self.pattern), observed


@dataclass(frozen=True)
class Demosaiced(Estimator):
    """The result of ``demosaic``."""

    noise: str = "auto"

    def __call__(self, case: Case) -> Outcome:
        known = case.samples.geometry.known(3).to(case.samples.values.device)
        raw = torch.where(known, case.samples.values, 0.0).sum(-1)
        made, seconds = timed(lambda: demosaic(raw, "RGGB", noise=self.noise))
        return Outcome(made.signal, seconds, notes={"sigma": made.report.sigma})


@dataclass(frozen=True)
class Cleaned(Estimator):
    """The result of ``denoise`` with nothing given."""

    noise: str = "auto"

    def __call__(self, case: Case) -> Outcome:
        made, seconds = timed(lambda: denoise(case.samples.values, noise=self.noise))
        notes = {name: getattr(made.report, name) for name in ("sigma", "noise", "expected_psnr")}
        return Outcome(made.signal, seconds, notes=notes)


@dataclass(frozen=True)
class Unrounded(Estimator):
    """The result of ``denoise`` for the decoded picture of a JPEG file, and the intervals of its coefficients."""

    quality: int
    package = "jpeglib"

    def __call__(self, case: Case) -> Outcome:
        assert case.truth is not None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "picture.jpg"
            path.write_bytes(jpeg_file(case.truth.double().numpy(), self.quality))
            made, seconds = timed(lambda: denoise(case.samples.values, noise=JpegIntervals.read(path)))
        return Outcome(made.signal, seconds, notes={"sigma": made.report.sigma})


def blocks() -> Mapping[Task, Sequence[Method]]:
    """Return the tasks with their methods: peers first, and what denoise does with white noise alone."""
    ours = Method("denoise", Cleaned()), Method("denoise, white", Cleaned("white"))
    nothing = baseline("nothing", unchanged)
    blind = (
        baseline("non-local means (OpenCV), best of 6", non_local_means, package="cv2"),
        baseline("CBM3D, best of 4 σ", best_block_matching, package="bm3d"),
    )
    tasks: dict[Task, Sequence[Method]] = {}

    def add(name: str, degrade: Degrade, peers: Sequence[Method]) -> None:
        tasks[Noisy(name, "full", measure="clean", degrade=degrade)] = (*peers, nothing, *ours)

    for quality in (95, 75):
        add(f"white, σ = {SIGMA_BEFORE_JPEG}, then JPEG {quality}", partial(compressed, quality=quality), blind)
    for quality, ending in ((None, ""), (95, ", then JPEG 95")):
        add(f"photons through a mosaic, demosaiced{ending}", partial(mosaic, quality=quality), blind)
    add(f"dark, {ELECTRONS:g} electrons, gamma curve", dark, blind)
    after = (
        baseline("Menon 2007, then non-local means, best of 6", menon_then, package="cv2", kind="non-local means"),
        baseline("Menon 2007, then CBM3D, best of 4 σ", menon_then, package="bm3d", kind="CBM3D"),
    )
    ours_of_mosaics = Method("demosaic", Demosaiced()), Method("demosaic, noise none", Demosaiced("none"))
    for one in PHOTONS:
        degrade = partial(photons, one=one)
        task = Noisy(f"photons of {one:g} on a mosaic", "bayer:RGGB", measure="clean", degrade=degrade)
        tasks[task] = (*after, *ours_of_mosaics)
    for width in (1.0, 2.0):
        told = baseline("BM3D, true spectrum", told_spectrum, package="bm3d", width=width)
        add(f"white filtered by a Gaussian of {width:g} px", partial(colored, width=width), (told,))
    for gain in GAINS:
        for clipped in (False, True):
            told = baseline("Anscombe and CBM3D, true noise", stabilized, package="bm3d", gain=gain)
            name = f"variance {FLOOR} + {gain} x{', 8 bits' * clipped}"
            add(name, partial(camera, gain=gain, clipped=clipped), (told,))
    add("salt and pepper, 5 %", salted, (baseline("median of 3×3", median),))
    for quality in QUALITIES:
        task = Noisy(f"JPEG {quality}", "full", measure="clean", degrade=partial(decoded, quality=quality))
        smooth = baseline("total variation, best of 5", best_total_variation)
        tasks[task] = (smooth, nothing, Method("denoise, noise jpeg", Unrounded(quality)))
    return tasks


def non_local_means(case: Case) -> Tensor:
    """Denoise at 8 bits by OpenCV's ``fastNlMeansDenoisingColored`` with the best strength, chosen with hindsight."""
    import cv2  # pyright: ignore[reportMissingImports]

    picture: Any = np.uint8(np.round(255 * np.clip(as_array(case), 0, 1)))
    return case.best(
        as_sampled(case, cv2.fastNlMeansDenoisingColored(picture, None, h, h, 7, 21) / 255.0) for h in NLM_STRENGTHS
    )


def menon_then(case: Case, kind: str) -> Tensor:
    """Demosaic by Menon's filter, then remove noise by "non-local means" or "CBM3D"."""
    clean = {"non-local means": non_local_means, "CBM3D": best_block_matching}[kind]
    return clean(replace(case, samples=sample(menon(case), "full")))


def median(case: Case) -> Tensor:
    """Take medians of 3×3 pixels."""
    return as_sampled(case, median_filter(as_array(case), size=(3, 3, 1)))


def best_total_variation(case: Case) -> Tensor:
    """Denoise by scikit-image's ``denoise_tv_chambolle`` with the best weight, chosen with hindsight."""
    return case.best(restored(case, denoise_tv_chambolle, weight=weight) for weight in TV_WEIGHTS)


def best_block_matching(case: Case) -> Tensor:
    """Denoise by CBM3D with the best standard deviation, chosen with hindsight."""
    with _bm3d() as denoise:
        return case.best(as_sampled(case, denoise(as_array(case), sigma)) for sigma in SIGMAS)


def told_spectrum(case: Case, width: float) -> Tensor:
    """Denoise by BM3D with the true power spectrum of noise that was filtered by a Gaussian."""
    values = as_array(case)
    impulse = np.zeros(values.shape[:2])
    impulse[0, 0] = 1
    power = np.abs(np.fft.fft2(gaussian_filter(impulse, width, mode="wrap"))) ** 2
    power *= SIGMA_COLORED**2 * impulse.size / power.mean()
    with _bm3d() as denoise:
        return as_sampled(case, denoise(values, np.stack([power] * 3, -1)))


def stabilized(case: Case, gain: float) -> Tensor:
    """Denoise by the generalized Anscombe transform, CBM3D, and the exact inverse, with the true gain and floor.

    The inverse is that of the mean of the transform, by quadrature (Mäkitalo and Foi, 2013).
    """

    def f(y: np.ndarray) -> np.ndarray:
        return 2 / gain * np.sqrt(np.maximum(gain * y + 0.375 * gain**2 + FLOOR, 0))

    values, nodes = as_array(case), np.polynomial.hermite_e.hermegauss(QUADRATURE)
    x = np.linspace(0, 1, 1001)
    y = x[:, None] + np.sqrt(FLOOR + gain * x)[:, None] * nodes[0]
    y = np.clip(y, 0, 1) if values.min() >= 0 and values.max() <= 1 else y
    means = f(y) @ (nodes[1] / nodes[1].sum())
    top = f(np.array(1.0))
    with _bm3d() as denoise:
        return as_sampled(case, np.interp(top * denoise(f(values) / top, 1 / top), means, x))


@contextmanager
def _bm3d() -> Iterator[Callable[..., np.ndarray]]:
    """Yield CBM3D; its package calls a name that NumPy 2.4 removed where it is given a spectrum."""
    import bm3d  # pyright: ignore[reportMissingImports]

    name = "trapz"
    missing = not hasattr(np, name)
    if missing:
        setattr(np, name, np.trapezoid)
    try:
        yield bm3d.bm3d_rgb
    finally:
        if missing:
            delattr(np, name)
