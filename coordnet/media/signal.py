"""A signal and what is known of the file it came from."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

Kind = Literal["image", "video", "audio", "table", "array"]


@dataclass(frozen=True)
class Media:
    """A signal on a lattice, with what is needed to write it back as it came.

    Attributes
    ----------
    signal
        Shape `(*grid, channels)`, float32. Integer images, videos and arrays are scaled by the largest value
        of their type, so that images are in [0, 1]; sound is scaled to [-1, 1); floats are as the file has them.
    kind
        What the signal is: an image `(height, width, channels)`, a video `(frames, height, width, channels)`,
        audio `(samples, channels)`, a table `(rows, columns)` or any other array.
    name
        The file's stem, or the name of the built-in sample.
    depth
        The type to write back: a NumPy dtype's name, or "int24" for sound.
    rate
        Frames or samples a second; None where there is no time.
    suffix
        The file's suffix in lower case, with its dot.
    columns
        The names of a table's columns; empty where the file had none.
    channel_axis
        False where an array's file had no axis of channels and one of length 1 was added.
    """

    signal: Float[Tensor, "*grid channels"]
    kind: Kind
    name: str
    depth: str
    rate: float | int | None = None
    suffix: str = ""
    columns: tuple[str, ...] = ()
    channel_axis: bool = True

    @property
    def grid(self) -> tuple[int, ...]:
        """The lengths of the axes, without the channels."""
        return tuple(self.signal.shape[:-1])

    @property
    def alpha(self) -> bool:
        """Whether the last channel is opacity: images of 2 channels (grey) or 4 (RGB)."""
        return self.kind == "image" and self.signal.shape[-1] in (2, 4)

    @property
    def lossless_suffix(self) -> str:
        """The suffix of a format that holds this signal at its depth (for video: at high quality)."""
        if self.kind == "image":
            small = self.signal.shape[-1] <= 4 and self.depth in ("uint8", "uint16")
            return ".png" if small else ".tiff"
        return {"video": ".mp4", "audio": ".wav", "table": ".csv", "array": ".npy"}[self.kind]


def as_numpy(signal: Tensor) -> np.ndarray:
    """Return a tensor's values on the host as float32 or float64, detached from its graph."""
    wide = signal.detach().to(torch.float64 if signal.dtype == torch.float64 else torch.float32)
    return wide.cpu().numpy()
