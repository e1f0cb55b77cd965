"""How a camera was held: the orientation tag of EXIF and TIFF."""

import numpy as np

# TIFF 6.0, page 36: where the first row and the first column of the file belong, as (transpose, flip the
# rows, flip the columns), flips first. 5 to 8 exchange height and width.
_STEPS: dict[int, tuple[bool, bool, bool]] = {
    1: (False, False, False),
    2: (False, False, True),
    3: (False, True, True),
    4: (False, True, False),
    5: (True, False, False),
    6: (True, True, False),
    7: (True, True, True),
    8: (True, False, True),
}


def upright(image: np.ndarray, orientation: object) -> np.ndarray:
    """Return an image of shape (height, width, …) as it is meant to be seen; unknown tags change nothing."""
    steps = _STEPS.get(orientation) if isinstance(orientation, int) else None
    transpose, flip_rows, flip_columns = steps or _STEPS[1]
    image = image[:: -1 if flip_rows else 1, :: -1 if flip_columns else 1]
    return np.swapaxes(image, 0, 1) if transpose else image
