"""The steps to which JPEG rounded the coefficients of a picture, as the decoded picture shows them without its file."""

import numpy as np
import torch
from jaxtyping import Float
from scipy.fft import dctn
from torch import Tensor

from coordnet.sampling.jpeg import LEVEL, PEAK, SIDE, TO_BRIGHTNESS

LOOKED_AT = 256  # pixels along an axis of the picture's middle, in which steps are looked for
SHIFTED = 128  # pixels along an axis of the middle in which the blocks of all 64 shifts are compared
ZEROED = 0.5  # largest size of a coefficient, in 8-bit values, that was 0 before the picture was rounded to 8 bits
LARGEST_STEP = 63  # largest step that is looked for, in 8-bit values
LEAST_COSINE = 0.6  # mean cosine of the phases of coefficients relative to a step, which is 1 at its multiples
LEAST_ERRORS = 4.5  # the same mean in standard errors of random phases
FEWEST_SHOWN = 16  # frequencies of the 64 that show a step in a compressed picture; in others none does


def shown_steps(picture: Float[Tensor, "height width channels"]) -> Float[np.ndarray, "8 8"] | None:
    """Return the steps of brightness's coefficients in 8-bit values, None for a picture that does not show them.

    The picture has values in [0, 1], and may be cut out of a larger one: its blocks begin where most coefficients
    are 0. A step is shown where coefficients, but those that were rounded to 0, are near multiples of it. Where none is
    shown, the step is about the largest at lower frequencies, or 1.
    """
    if min(picture.shape[:2]) < 3 * SIDE:
        return None
    shifts = [picture[i:, j:] for i in range(SIDE) for j in range(SIDE)]
    zeros = [(np.abs(_coefficients(part, SHIFTED)) < ZEROED).mean() for part in shifts]
    found = _coefficients(shifts[int(np.argmax(zeros))], LOOKED_AT)
    steps, best = np.ones(found.shape[1]), np.zeros(found.shape[1])
    for step in range(2, LARGEST_STEP + 1):
        counted = np.abs(found) > step / 2
        number = counted.sum(0)
        cosine = (np.cos(2 * np.pi * found / step) * counted).sum(0) / np.maximum(number, 1)
        shows = (cosine > LEAST_COSINE) & (cosine * np.sqrt(2 * number) > LEAST_ERRORS) & (cosine > best)
        steps, best = np.where(shows, step, steps), np.where(shows, cosine, best)
    if int((best > 0).sum()) < FEWEST_SHOWN:
        return None
    steps, is_shown = steps.reshape(SIDE, SIDE), best.reshape(SIDE, SIDE) > 0
    return np.where(is_shown, steps, np.maximum.accumulate(np.maximum.accumulate(steps, 0), 1))


def brightness(picture: Float[Tensor, "height width channels"]) -> Float[Tensor, "height width"]:
    """Return the brightness of red, green and blue as JPEG has it, else the mean of the channels."""
    if picture.shape[2] != 3:
        return picture.double().mean(2)
    return picture.double() @ torch.tensor(TO_BRIGHTNESS[0], dtype=torch.float64, device=picture.device)


def _coefficients(picture: Float[Tensor, "height width channels"], side: int) -> Float[np.ndarray, "blocks 64"]:
    """Return the cosine transform of brightness in blocks of a picture's middle of some side, in 8-bit values."""
    counts = [min(n, side) // SIDE for n in picture.shape[:2]]
    starts = [(n // SIDE - count) // 2 * SIDE for n, count in zip(picture.shape[:2], counts, strict=True)]
    rows, columns = (slice(start, start + SIDE * count) for start, count in zip(starts, counts, strict=True))
    plane = PEAK * brightness(picture[rows, columns]).cpu().numpy() - LEVEL
    blocks = plane.reshape(counts[0], SIDE, counts[1], SIDE).swapaxes(1, 2).reshape(-1, SIDE, SIDE)
    return np.asarray(dctn(blocks, axes=(1, 2), norm="ortho")).reshape(len(blocks), -1)
