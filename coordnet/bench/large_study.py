"""``coordnet bench large``: pictures and fields above a megapixel and a clip of 64 frames, beside peers in one run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.interpolate import make_interp_spline
from scipy.ndimage import map_coordinates, spline_filter
from torch import Tensor

from coordnet.bench import peers
from coordnet.bench.catalogue import LARGE
from coordnet.bench.degradations import DAMAGE
from coordnet.bench.experiment import Case, Experiment, Method, Task, baseline
from coordnet.bench.fields import FieldFinder
from coordnet.bench.noises import Cleaned
from coordnet.bench.quality import AUTO, GRIDDATA, interpolated
from coordnet.bench.quality_study import Quality, compared
from coordnet.bench.record_tables import Frame
from coordnet.bench.records import Cell, Options, Record
from coordnet.bench.signals import Signal
from coordnet.media import load

FRAMES = 64
WAVES = 4.0  # power of the frequency with which the power of the field's waves falls
LARGE_PREFACE = (
    "PSNR of what is unknown, and of all pixels with noise, on one signal each. The first row of a task is its peer."
)
UNTOLD = ["signals", "least", "below"]  # columns that say nothing of one signal


@lru_cache(maxsize=1)
def photographs(width: int) -> Float[Tensor, "height width 3"]:
    """Return the middle of five of scikit-image's photographs beside each other, half as high as wide."""
    pieces = (("hubble_deep_field", 800, 600), ("coffee", 400, 600), ("rocket", 400, 600))
    sky, coffee, rocket = (load(name)[:height, :length] for name, height, length in pieces)
    face, cat = load("astronaut")[:500, :400], load("chelsea")[:300, :400]
    whole = torch.cat([sky, torch.cat([coffee, rocket]), torch.cat([face, cat])], 1)
    top, left = (whole.shape[0] - width // 2) // 2, (whole.shape[1] - width) // 2
    return whole[top : top + width // 2, left : left + width].contiguous()


@lru_cache(maxsize=1)
def view(width: int) -> Float[Tensor, "frames height width 1"]:
    """Return frames of a camera that moves over the gray photographs by up to 3 pixels a frame, turns and zooms."""
    picture = spline_filter(photographs(1600).mean(-1).double().numpy())
    height = round(width * 9 / 11)
    y, x = np.mgrid[:height, :width] - np.array([height, width])[:, None, None] / 2
    frames = []
    for phase in 2 * np.pi * np.arange(FRAMES) / FRAMES:
        scale, angle = np.exp(0.1 * np.sin(1.5 * phase)), 0.05 * np.sin(phase)
        rows = 400 + 10 * np.sin(2 * phase) + scale * (np.cos(angle) * y - np.sin(angle) * x)
        columns = 700 + 30 * np.sin(phase) + scale * (np.sin(angle) * y + np.cos(angle) * x)
        frames.append(map_coordinates(picture, [rows, columns], prefilter=False))
    return torch.from_numpy(np.stack(frames)).float().clamp(0, 1).unsqueeze(-1)


@lru_cache(maxsize=1)
def waves(width: int) -> Float[Tensor, "width width 1"]:
    """Return a random field within [0, 1] whose power falls as a power of the frequency, a quarter of its period."""
    frequency = np.hypot(np.fft.fftfreq(2 * width)[:, None], np.fft.rfftfreq(2 * width))
    frequency[0, 0] = np.inf
    noise = np.random.default_rng(0).standard_normal((2 * width, 2 * width))
    field = np.fft.irfft2(np.fft.rfft2(noise) * frequency ** (-WAVES / 2))[:width, :width]
    return torch.from_numpy((field - field.min()) / np.ptp(field)).float().unsqueeze(-1)


SIGNALS: dict[str, Callable[[int], Tensor]] = {"photographs": photographs, "view": view, "waves": waves}


@dataclass(frozen=True)
class LargeSignal(Signal):
    """One of ``SIGNALS``, of a ``size`` along its last axis."""

    def load(self) -> Float[Tensor, "*grid channels"]:
        return SIGNALS[self.name](self.size).clone()


def every_second(grid: tuple[int, ...], seed: int) -> Bool[Tensor, "frames height width"]:
    """Mark every second frame as known, and the last one."""
    known = torch.zeros(grid, dtype=torch.bool)
    known[::2] = known[-1] = True
    return known


def in_time(case: Case, degree: int) -> Tensor:
    """Interpolate missing frames by SciPy's splines in time."""
    known = case.samples.geometry.known(1).flatten(1).all(1).numpy()
    spline = make_interp_spline(np.flatnonzero(known), case.samples.values[known].double().numpy(), k=degree)
    return torch.from_numpy(spline(np.arange(len(known)))).to(case.samples.values)


DAMAGED = baseline("biharmonic", peers.biharmonic), baseline("OpenCV, Telea", peers.telea, package="cv2"), AUTO
SCATTERED = GRIDDATA, interpolated("griddata cubic", "cubic"), AUTO
PICTURES: dict[Task, Sequence[Method]] = {
    Task("random tenth", "random:0.1"): SCATTERED,
    Task("mosaic RGGB", "bayer:RGGB"): (
        baseline("Malvar 5×5", peers.demosaiced, kind="malvar"),
        baseline("Menon 2007", peers.menon, package="colour_demosaicing"),
        AUTO,
    ),
    Task("full, σ = 0.06", "full", 0.06, "clean"): (
        baseline("non-local means", peers.non_local_means, blind=True),
        Method("denoise", Cleaned()),
    ),
    Task("holes", "holes", mask=DAMAGE["holes"]): DAMAGED,
    Task("scratches", "scratches", mask=DAMAGE["scratches"]): DAMAGED,
}
CLIP: dict[Task, Sequence[Method]] = {
    Task("every second frame", "frames", mask=every_second): (
        baseline("linear in time", in_time, degree=1),
        baseline("cubic in time", in_time, degree=3),
        AUTO,
    )
}
FIELD: dict[Task, Sequence[Method]] = {Task("random tenth", "random:0.1"): SCATTERED}
EXPERIMENTS = tuple(
    Experiment(
        part, LARGE[part], blocks, FieldFinder(("large signal",), names=(name,), sizes=(size,), made=LargeSignal)
    )
    for part, blocks, name, size in (
        ("large-pictures", PICTURES, "photographs", 1600),
        ("large-clips", CLIP, "view", 176),
        ("large-fields", FIELD, "waves", 1100),
    )
)


class Large(Quality):
    """The command ``coordnet bench large``."""

    name = "large"
    experiments = tuple(LARGE)
    parts = EXPERIMENTS
    head = ("# Large signals beside peers", LARGE_PREFACE)

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        yield from super().stages(replace(options, data=Path()), done)  # no folder is looked at

    def table(self, part: Experiment, frame: Frame) -> Frame:
        """Return the score of each method beside the first of its task, on one signal."""
        frame["dB"] = frame["scores.held_out"].fillna(frame["scores.clean"])
        return compared(frame, "dB", "dB").drop(columns=UNTOLD)
