"""The sound of a clip: copied as it is, without decoding it, into a clip that was made of its pictures."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from coordnet.media import files


@dataclass(frozen=True)
class Track:
    """The sound in a part of a clip, from a time on, in seconds."""

    path: Path
    start: float = 0.0
    seconds: float = float("inf")


def find_track(path: Path, start: float, seconds: float) -> Track | None:
    """Return the sound in a part of a clip, None if it has none."""
    with av.open(str(path), options={"format_whitelist": files.DEMUXERS}) as clip:
        return Track(path, start, seconds) if clip.streams.audio else None


def add_sound(pictures: Path, track: Track, target: Path, options: dict[str, str]) -> str | None:
    """Write the pictures of a clip with some sound to a new file, whose suffix decides the format.

    Returned is the name of the sound's codec if the format does not hold it: the file is then without sound. Packets
    that begin in the part are copied.
    """
    read = {"format_whitelist": files.DEMUXERS}
    with (
        av.open(str(pictures)) as clip,
        av.open(str(track.path), options=read) as source,
        av.open(str(target), "w", options=options) as made,
    ):
        shown, heard = clip.streams.video[0], source.streams.audio[0]
        codec = heard.codec_context.name
        places: dict[Any, Any] = {shown: made.add_stream_from_template(shown)}
        holds = heard.codec_context.codec.canonical_name in made.supported_codecs
        if holds:
            places[heard] = made.add_stream_from_template(heard)
        sound = _within(source.demux(heard), track) if holds else iter(())
        for packet in heapq.merge(_timed(clip.demux(shown)), sound, key=lambda packet: packet.dts * packet.time_base):
            packet.stream = places[packet.stream]
            made.mux(packet)
    return None if holds else codec


def _timed(packets: Iterator[Any]) -> Iterator[Any]:
    """Yield the packets that have a time; the last one of a stream has none."""
    return (packet for packet in packets if packet.dts is not None)


def _within(packets: Iterator[Any], track: Track) -> Iterator[Any]:
    """Yield the packets of a part of the sound, with the times that they have in it.

    Those before the start of a whole clip, from which decoders get going, are in it.
    """
    for packet in _timed(packets):
        time = float(packet.pts * packet.time_base) - track.start
        if time >= track.seconds:
            return
        if time >= 0 or track.start == 0:
            moved = round(Fraction(track.start) / packet.time_base)
            packet.pts, packet.dts = packet.pts - moved, packet.dts - moved
            yield packet
