"""One row or column of an image, as a signal along one axis."""

from dataclasses import replace

from coordnet.media.errors import MediaError
from coordnet.media.signal import Media


def select_line(media: Media, row: int | None, column: int | None) -> Media:
    """Return the row (width, channels) or the column (height, channels) of an image; neither returns it whole.

    Raises
    ------
    MediaError
        If both are asked for, or the image has no such row or column.
    """
    if row is None and column is None:
        return media
    if row is not None and column is not None:
        raise MediaError(f"{media.name}: expected a row or a column, found both")
    axis, index, word = (0, row, "row") if row is not None else (1, column, "column")
    length = media.signal.shape[axis]
    if index is None or not 0 <= index < length:
        raise MediaError(f"{media.name}: expected a {word} from 0 to {length - 1}, found {index}")
    line = media.signal.select(axis, index).contiguous()
    return replace(media, signal=line, kind="array", name=f"{media.name}-{word}{index}")
