"""A JPEG file and its rounding: each coefficient lies within an interval, whose length the picture may show."""

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.fft import dctn, idctn
from torch import Tensor

from coordnet import _checks
from coordnet.linalg.orientations import as_stored, exchanges_axes, upright

ORIENTATION = 274  # its code among EXIF data
SIDE = 8  # pixels along each side of a block
PEAK, LEVEL = 255.0, 128.0  # largest value of 8 bits, and what brightness is lowered by before its transform
# RGB to brightness and two differences of color (ITU-T T.871, section 7).
TO_BRIGHTNESS = ((0.299, 0.587, 0.114), (-0.168735892, -0.331264108, 0.5), (0.5, -0.418687589, -0.081312411))
# Middle share of each interval that estimates are moved into: what 8 bits round then stays in the interval, and
# photographs of quality 10 and 40 lose at most 0.01 dB by it.
INNER = 0.8
# Factors on the standard deviation that is published, and on that of the errors. More than the first blurs smooth
# photographs of quality 10; the second adds 0.05, 0.07 and 0.15 dB on four others at 10, 20 and 40.
EXCESS, DETAILS = 1.75, 1.5
RARE = 1e-3  # least share of a frequency's coefficients that were rounded to 0, and of others, that tells their scale
EDGES = 20  # alternations between the intervals and the repeated last pixels, where blocks go beyond the picture
FARTHEST = 0.05  # largest mean difference of a picture from what its file holds, for values in [0, 1]
MIDDLE_SIDE = 256  # pixels along an axis of the picture's middle, in which steps are looked for
SHIFTED = 128  # pixels along an axis of the middle in which the blocks of all 64 shifts are compared
ZEROED = 0.5  # largest size of a coefficient, in 8-bit values, that was 0 before the picture was rounded to 8 bits
LARGEST_STEP = 63  # largest step that is looked for, in 8-bit values
LEAST_COSINE = 0.6  # mean cosine of the phases of coefficients relative to a step, which is 1 at its multiples
LEAST_ERRORS = 4.5  # the same mean in standard errors of random phases
FEWEST_SHOWN = 16  # frequencies of the 64 that show a step in a compressed picture; in others none does

Picture = Float[Tensor, "height width channels"]


@dataclass(frozen=True, eq=False)
class Component:
    """One component of a JPEG file: multiples of its quantization table, and the pixels that one sample stands for."""

    counts: np.ndarray  # (rows, columns, 8, 8): the coefficients in units of the table
    table: np.ndarray  # (8, 8)
    cell: tuple[int, int]

    @property
    def error(self) -> np.ndarray:
        """The mean squared error of the coefficients by the rounding, (8, 8).

        Coefficients of a frequency have a Laplacian distribution (Lam and Goodman, "A mathematical analysis of the DCT
        coefficient distributions for images", 2000), whose scale follows from the share of those that were rounded to
        0. The errors of these are bounded by half a step q; all others have the mean square q^2 / 12. The
        error of a frequency counts as 0 if all of its coefficients were rounded to 0: there is hardly any.
        """
        zero = (self.counts == 0).mean((0, 1)).clip(RARE, 1 - RARE)
        t = -np.log1p(-zero)  # half a step over the scale
        of_zeros = (2 / t**2 - (1 - zero) * (1 + 2 / t + 2 / t**2)) / 4
        return self.table**2 * (of_zeros + (1 - zero) / 12) * (self.counts != 0).any((0, 1))

    def coefficients(self, plane: np.ndarray) -> np.ndarray:
        """Return the cosine transform of the blocks of a plane, of means over cells."""
        (rows, columns), (high, wide) = self.counts.shape[:2], self.cell
        plane = plane[: rows * SIDE * high, : columns * SIDE * wide]
        means = plane.reshape(rows * SIDE, high, columns * SIDE, wide).mean((1, 3))
        blocks: Any = means.reshape(rows, SIDE, columns, SIDE).swapaxes(1, 2)
        return np.asarray(dctn(blocks, axes=(2, 3), norm="ortho"))

    def moved(self, plane: np.ndarray) -> np.ndarray:
        """Return the nearest plane whose coefficients are in the middle of their intervals."""
        (rows, columns), coefficients = self.counts.shape[:2], self.coefficients(plane)
        low, high = ((self.counts + side * INNER / 2) * self.table for side in (-1, 1))
        step: Any = np.clip(coefficients, low, high) - coefficients
        step = np.asarray(idctn(step, axes=(2, 3), norm="ortho")).swapaxes(1, 2)
        step = step.reshape(rows * SIDE, columns * SIDE).repeat(self.cell[0], 0).repeat(self.cell[1], 1)
        plane = plane.copy()
        plane[: len(step), : step.shape[1]] += step
        return plane


@dataclass(frozen=True, eq=False)
class JpegIntervals:
    """The intervals in which the coefficients of a JPEG file's picture were before they were rounded.

    Attributes
    ----------
    components : list of Component
        Brightness, and two differences of color where the picture is not gray.
    grid : (int, int)
        The height and the width of the picture in the file.
    orientation : int
        That of the file, by its EXIF data, where pictures are turned upright; 1 where they are as the file has them.
    """

    components: list[Component]
    grid: tuple[int, int]
    orientation: int = 1

    @classmethod
    def read(cls, path: str | PathLike[str], *, turned: bool = False) -> "JpegIntervals":
        """Read the coefficients of a JPEG file by jpeglib: ``pip install coordnet[jpeg]``.

        With ``turned`` they are those of the picture upright, as the file says and ``cn.load`` turns it.

        A ``ValueError`` is raised if the package is missing, or the file is no JPEG file of one or three components.
        """
        try:
            import jpeglib  # pyright: ignore[reportMissingImports]
        except ImportError:
            expected = "the package jpeglib for jpeg (pip install coordnet[jpeg])"
            raise _checks.wrong("noise", expected, "none") from None
        try:
            stored: Any = jpeglib.read_dct(str(path)) if is_jpeg(path) else None
        except (OSError, ValueError, RuntimeError) as error:
            raise _checks.wrong("noise", "a JPEG file for jpeg", f"{path} ({error})") from None
        if stored is None or stored.num_components not in (1, 3):
            found = str(path) if stored is None else f"{stored.num_components} components in {path}"
            raise _checks.wrong("noise", "a JPEG file of gray or three colors for jpeg", found)
        planes = (stored.Y, stored.Cb, stored.Cr)[: stored.num_components]
        samples = np.asarray(stored.samp_factor)
        components = [
            Component(
                counts.astype(np.float64),
                stored.qt[stored.quant_tbl_no[k]].astype(np.float64),
                (int(samples[:, 0].max() // samples[k, 0]), int(samples[:, 1].max() // samples[k, 1])),
            )
            for k, counts in enumerate(planes)
        ]
        from PIL import Image

        with Image.open(path) as image:
            orientation = image.getexif().get(ORIENTATION, 1) if turned else 1
        return cls(components, (stored.height, stored.width), orientation)

    @property
    def sigma(self) -> float:
        """The standard deviation of the white noise that the rounding is treated as, for values in [0, 1].

        Its variance is the sum of that of Foi, Katkovnik and Egiazarian, "Pointwise shape-adaptive DCT for high-quality
        denoising and deblocking of grayscale and color images" (2007), by the table's nine lowest frequencies, and of
        the errors in brightness (see ``Component.error``), with the factors ``EXCESS`` and ``DETAILS``.
        """
        brightness = self.components[0]
        published = 0.69 * brightness.table[:3, :3].mean() ** 1.3
        return float(np.sqrt(EXCESS**2 * published + DETAILS**2 * brightness.error.mean())) / PEAK

    def nearest(self, picture: Picture) -> Picture:
        """Return a picture near another one, for values in [0, 1], whose coefficients are in their intervals.

        It is the nearest one, but where blocks go beyond the picture: its last pixels are repeated there.
        """
        planes = [self._beyond(plane) for plane in self._planes(picture)]
        height, width = self.grid
        for _ in range(EDGES if planes[0].shape != self.grid else 1):
            moved = [c.moved(plane) for c, plane in zip(self.components, planes, strict=True)]
            planes = [self._beyond(plane[:height, :width]) for plane in moved]
        components = np.stack([plane[:height, :width] for plane in planes], -1)
        components[..., 0] += LEVEL
        made = components @ np.linalg.inv(self._matrix).T / PEAK
        return torch.from_numpy(upright(made, self.orientation).copy()).to(picture)

    def counts(self, picture: Picture) -> list[np.ndarray]:
        """Return the coefficients of a picture in units of the tables, rounded as a file holds them."""
        pairs = zip(self.components, self._planes(picture), strict=True)
        return [np.rint(c.coefficients(self._beyond(plane)) / c.table) for c, plane in pairs]

    def check(self, picture: Picture) -> None:
        """Refuse a picture that is not the file's, as it was decoded, with a ``ValueError``."""
        height, width = self.grid[::-1] if exchanges_axes(self.orientation) else self.grid
        turned = "turned upright" if self.orientation > 1 else "not turned"
        expected = f"the picture of the JPEG file, {height} by {width} pixels and {turned}"
        if tuple(picture.shape) != (height, width, len(self.components)):
            raise _checks.wrong("signal", expected, f"shape {tuple(picture.shape)}")
        far = float((self.nearest(picture) - picture).abs().mean())
        if far > FARTHEST:
            raise _checks.wrong("signal", expected, f"another one, different by {far:.2g} in the mean")

    @property
    def _matrix(self) -> np.ndarray:
        return np.array(TO_BRIGHTNESS) if len(self.components) == 3 else np.eye(1)

    def _planes(self, picture: Picture) -> list[np.ndarray]:
        stored = as_stored(picture.detach().double().cpu().numpy(), self.orientation)
        planes = PEAK * stored @ self._matrix.T
        planes[..., 0] -= LEVEL
        return list(np.moveaxis(planes, -1, 0))

    def _beyond(self, plane: np.ndarray) -> np.ndarray:
        """Return a plane with its last pixels repeated to the end of the blocks of all components."""
        sizes = [[n * SIDE * m for n, m in zip(c.counts.shape[:2], c.cell, strict=True)] for c in self.components]
        more = [max(along) - n for along, n in zip(zip(*sizes, strict=True), plane.shape, strict=True)]
        return np.pad(plane, [(0, n) for n in more], mode="edge")


def is_jpeg(path: str | PathLike[str]) -> bool:
    """Return whether a file begins as those of JPEG do, whatever its name."""
    with open(path, "rb") as file:
        return file.read(2) == b"\xff\xd8"


def shown_steps(picture: Picture) -> Float[np.ndarray, "8 8"] | None:
    """Return the steps of brightness's coefficients in 8-bit values, None for a picture that does not show them.

    The picture has values in [0, 1], and may be cut out of a larger one: its blocks begin where most coefficients
    are 0. A step is shown where coefficients, but those that were rounded to 0, are near multiples of it. Where none is
    shown, the step is about the largest at lower frequencies, or 1.
    """
    if min(picture.shape[:2]) < 3 * SIDE:
        return None
    shifts = [picture[i:, j:] for i in range(SIDE) for j in range(SIDE)]
    zeros = [(np.abs(_coefficients(part, SHIFTED)) < ZEROED).mean() for part in shifts]
    coefficients = _coefficients(shifts[int(np.argmax(zeros))], MIDDLE_SIDE)
    steps, best = np.ones(coefficients.shape[1]), np.zeros(coefficients.shape[1])
    for step in range(2, LARGEST_STEP + 1):
        counted = np.abs(coefficients) > step / 2
        number = counted.sum(0)
        cosine = (np.cos(2 * np.pi * coefficients / step) * counted).sum(0) / np.maximum(number, 1)
        shows = (cosine > LEAST_COSINE) & (cosine * np.sqrt(2 * number) > LEAST_ERRORS) & (cosine > best)
        steps, best = np.where(shows, step, steps), np.where(shows, cosine, best)
    if int((best > 0).sum()) < FEWEST_SHOWN:
        return None
    steps, is_shown = steps.reshape(SIDE, SIDE), best.reshape(SIDE, SIDE) > 0
    return np.where(is_shown, steps, np.maximum.accumulate(np.maximum.accumulate(steps, 0), 1))


def brightness(picture: Picture) -> Float[Tensor, "height width"]:
    """Return the brightness of red, green and blue as JPEG has it, else the mean of the channels."""
    if picture.shape[2] != 3:
        return picture.double().mean(2)
    return picture.double() @ torch.tensor(TO_BRIGHTNESS[0], dtype=torch.float64, device=picture.device)


def _coefficients(picture: Picture, side: int) -> Float[np.ndarray, "blocks 64"]:
    """Return the cosine transform of brightness in blocks of a picture's middle of some side, in 8-bit values."""
    counts = [min(n, side) // SIDE for n in picture.shape[:2]]
    starts = [(n // SIDE - count) // 2 * SIDE for n, count in zip(picture.shape[:2], counts, strict=True)]
    rows, columns = (slice(start, start + SIDE * count) for start, count in zip(starts, counts, strict=True))
    plane = PEAK * brightness(picture[rows, columns]).cpu().numpy() - LEVEL
    blocks = plane.reshape(counts[0], SIDE, counts[1], SIDE).swapaxes(1, 2).reshape(-1, SIDE, SIDE)
    return np.asarray(dctn(blocks, axes=(1, 2), norm="ortho")).reshape(len(blocks), -1)
