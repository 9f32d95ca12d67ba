"""The coded packets of a file, as the package reads them."""

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from videoload.bitstreams.pictures import KeyFrame
from videoload.reading.containers import OpenedVideo
from videoload.reading.index import KnownHeaders, VideoIndex, find_index, open_video
from videoload.reading.packets import PacketTable, read_packets
from videoload.storage.content import Content
from videoload.storage.files import LocalFile


def local(path: Path) -> LocalFile:
    return LocalFile(str(path), path.stat())


@contextmanager
def opened(path: Path) -> Iterator[OpenedVideo]:
    """A file as FFmpeg opens it."""
    with closing(OpenedVideo(local(path))) as video:
        yield video


def table_of(path: Path) -> tuple[PacketTable | None, bool]:
    """What the packets of a file prove, and whether its container's index tells them, so that
    nobody has to read them all."""
    with opened(path) as video, closing(Content(local(path))) as content:
        table = read_packets(video, content, lambda: None)
        return table, table is not None and video.number >= 0


def frames_of(path: Path) -> tuple[int, bool]:
    """How many frames the packets prove, and whether the container's index tells them."""
    table, is_by_index = table_of(path)
    assert table is not None
    return table.pictures.frames, is_by_index


def prove_the_same(one: PacketTable | None, other: PacketTable | None) -> bool:
    if one is None or other is None:
        return one is other
    a, b = one.pictures, other.pictures
    return (
        a.frames == b.frames
        and np.array_equal(a.starts, b.starts)
        and (a.ordinals is None) == (b.ordinals is None)
        and (a.ordinals is None or b.ordinals is None or np.array_equal(a.ordinals, b.ordinals))
    )


def known(path: Path, headers: KnownHeaders | None = None) -> tuple[VideoIndex, bool]:
    """The index of a file whose headers prove one, and whether FFmpeg had to open the file."""
    index, video = find_index(local(path), lambda: None, headers=headers)
    assert index is not None
    if video is not None:
        video.close()
    return index, video is not None


def data_of(packets: Iterable[Any]) -> list[bytes]:
    """Their bytes, without the empty ones."""
    return [bytes(packet) for packet in packets if packet.size]


def packets_from(
    path: Path, index: VideoIndex, start: KeyFrame, *, strict: bool = True
) -> list[bytes]:
    """The packets of a file from a key frame on, after a seek."""
    with closing(open_video(local(path), index, strict=strict)) as video:
        first = video.seek_to_keyframe(start)
        assert first is not None
        return data_of(chain((first,), video.packets))


def starts_of(index: VideoIndex) -> list[KeyFrame]:
    return [KeyFrame(*row) for row in index.order.starts.tolist()]
