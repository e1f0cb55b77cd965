"""Pictures with a palette: the colors of known pixels stay, and the others get near ones."""

import numpy as np
from PIL import Image
from scipy.spatial import KDTree

COLORS = 256  # colors in a palette


def indexed(pixels: np.ndarray, kept: np.ndarray, palette: np.ndarray | None) -> Image.Image:
    """Return a picture (height, width, 3) whose palette has the colors of the kept pixels (height, width).

    These are those of a ``palette`` (colors, 3), in its order, where one is given. Other pixels get the nearest of 256
    colors, those that are left being chosen for them.
    """
    others, colors = pixels[~kept], np.unique(pixels[kept], axis=0) if palette is None else palette
    if len(others) and len(colors) < COLORS:
        chosen = np.asarray(Image.fromarray(others[None]).quantize(COLORS - len(colors)).convert("RGB"))[0]
        colors = np.concatenate([colors, np.unique(chosen, axis=0)])
    distinct, first = np.unique(colors, axis=0, return_index=True)
    picture = Image.fromarray(first[KDTree(distinct).query(pixels)[1]].astype(np.uint8))
    picture.putpalette(colors.tobytes())
    return picture
