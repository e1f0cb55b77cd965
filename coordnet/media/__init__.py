"""Files in and out: pictures, videos, sound, tables, arrays and masks."""

from coordnet.media.arrays import read_array, write_array
from coordnet.media.files import MediaError, atomic_path
from coordnet.media.masks import read_mask
from coordnet.media.pictures import read_image, write_image
from coordnet.media.read import load, read_media
from coordnet.media.samples import SAMPLES
from coordnet.media.signal import Media
from coordnet.media.sound import read_audio, write_audio
from coordnet.media.tables import read_table, write_table
from coordnet.media.video import read_video, write_video
from coordnet.media.write import write_media

__all__ = [
    "SAMPLES",
    "Media",
    "MediaError",
    "atomic_path",
    "load",
    "read_array",
    "read_audio",
    "read_image",
    "read_mask",
    "read_media",
    "read_table",
    "read_video",
    "write_array",
    "write_audio",
    "write_image",
    "write_media",
    "write_table",
    "write_video",
]
