"""The eight orientations in which files hold pictures, as TIFF 6.0 (page 36) and EXIF number them from 1."""

import numpy as np

_FLIPPED = {2: (1,), 3: (0, 1), 4: (0,), 6: (0,), 7: (0, 1), 8: (1,)}  # axes of the stored picture


def exchanges_axes(orientation: int) -> bool:
    """Return whether the rows of a stored picture are the columns of the upright one."""
    return orientation in (5, 6, 7, 8)


def upright(stored: np.ndarray, orientation: int) -> np.ndarray:
    """Return a stored picture, (height, width, …), turned upright; it stays as it is with an unknown orientation."""
    turned = np.flip(stored, _FLIPPED.get(orientation, ()))
    return turned.swapaxes(0, 1) if exchanges_axes(orientation) else turned


def as_stored(picture: np.ndarray, orientation: int) -> np.ndarray:
    """Invert ``upright``."""
    turned = picture.swapaxes(0, 1) if exchanges_axes(orientation) else picture
    return np.flip(turned, _FLIPPED.get(orientation, ()))
