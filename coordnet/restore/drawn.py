"""Pictures that were drawn, such as screenshots and text: nothing in them shows noise."""

from jaxtyping import Float
from torch import Tensor

from coordnet.restore.wiener import side_by_side

DRAWN_SIDE = 8  # side in pixels of the parts of a picture by which a drawing in two colors is known
PLAIN = (
    0.25  # least share of parts that are constant between the ends of the range: photographs have 0, screenshots 0.5
)
CONSTANT, INSIDE = 0.05, 0.1  # least share of them that is constant, and largest share at the ends of one between them


def is_drawn(picture: Float[Tensor, "height width channels"]) -> bool:
    """Return whether a picture is drawn, like a screenshot or a text in two colors: nothing in it shows noise.

    Many of its parts are constant, between the ends of the range, where nothing clips noise. Or some are constant, all
    others have values at the ends, and most of them at both ends. Noise that was clipped leaves values between the ends
    wherever the signal is; counts of few photons seldom reach the largest one.
    """
    side, grid = DRAWN_SIDE, picture.shape[:2]
    if min(grid) < side:
        return False
    tiles = side_by_side(picture.movedim(-1, 0).unsqueeze(0), (side, side), (0, 0)).flatten(0, 1).flatten(2)
    ends = (tiles == picture.min()) | (tiles == picture.max())
    plain = (tiles.amin(2) == tiles.amax(2)).all(1) & ~ends.flatten(1).any(1)
    if float(plain.double().mean()) >= PLAIN:
        return True
    tiles = tiles.flatten(1)
    low, high = tiles == picture.min(), tiles == picture.max()
    is_constant = tiles.amin(1) == tiles.amax(1)
    inside = (low | high).double().mean(1) <= INSIDE
    spans = (low.any(1) & high.any(1))[~is_constant]
    is_plain = float(is_constant.double().mean()) >= CONSTANT and not bool((~is_constant & inside).any())
    return is_plain and 2 * int(spans.sum()) >= len(spans)
