"""Write a signal to a file of any kind: the suffix decides the format."""

from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from coordnet.media.array_files import write_array
from coordnet.media.files import StrPath, mismatch
from coordnet.media.pictures import write_image
from coordnet.media.read import KIND_BY_SUFFIX
from coordnet.media.signal import Kind, Media
from coordnet.media.sound import write_audio
from coordnet.media.tables import write_table
from coordnet.media.video import write_video

_AXES: dict[Kind, int] = {"image": 2, "video": 3, "audio": 1, "table": 1}


def write_media(
    media: Media | Float[Tensor, "*grid channels"],
    path: StrPath,
    *,
    depth: str | None = None,
    rate: float | int | None = None,
) -> None:
    """Write a signal (*grid, channels) completely or not at all, in the format of the path's suffix.

    ``depth`` (the type of the numbers in the file) and ``rate`` (frames or samples per second) are by default those of
    ``media``. A tensor is written with 8 bits in pictures and videos (25 frames per second), with 16 bits in sound
    (44100 samples per second), and as float32 elsewhere. A file that exists, or a signal that the format cannot hold,
    raises a ``MediaError``. Numbers that ``media.known`` keeps are those of the file that ``media`` was read from.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in KIND_BY_SUFFIX or suffix in (".npz", ".zarr"):
        raise mismatch(path, "a suffix that can be written (.png, .mp4, .wav …)", repr(suffix))
    signal = media.signal if isinstance(media, Media) else media
    if suffix == ".gif" and signal.ndim == 3:
        signal = signal.unsqueeze(0)  # a picture is an animation of one frame
    target: Kind = "video" if suffix == ".gif" else KIND_BY_SUFFIX[suffix]
    source = media if isinstance(media, Media) else Media(media, target, "", "")
    axes = _AXES.get(target, signal.ndim - 1)
    if signal.ndim - 1 != axes:
        raise mismatch(path, f"{axes} axes and channels to write this {target}", f"shape {tuple(signal.shape)}")
    same_scale = (source.kind == "audio") == (target == "audio")  # sound scales integers differently
    exact = source.exact if depth in (None, source.depth) and (target == source.kind or suffix == ".gif") else None
    depth = depth or (source.depth if same_scale else "")
    rate = source.rate if rate is None else rate
    options: dict[str, Any] = {"depth": depth} if depth else {}
    pace: dict[str, Any] = {} if rate is None else {"rate": rate}
    if target == "image":
        write_image(signal, path, **options, alpha=source.alpha or source is not media, exact=exact)
    elif target == "video":
        write_video(signal, path, **pace, exact=exact)
    elif target == "audio":
        write_audio(signal, path, **pace, **options, exact=exact)
    elif target == "table":
        write_table(path, source.columns, signal, exact=exact)
    else:
        write_array(signal, path, **options, channel_axis=source.channel_axis, exact=exact)
