"""Frames by their numbers: nothing is taken for right of which a packet before it is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.videos import make_avi
from videoload.reading.frames import read_frames
from videoload.reading.index import find_index, open_video
from videoload.storage.files import Folder

VOP, IS_CODED = b"\0\0\1\xb6", 0x20  # in the sixth byte, where a second has less than 32 frames


@pytest.mark.parametrize("lost", [3, 4, None])
def test_a_packet_that_gives_no_frame_is_noticed_although_no_decoder_complains(
    lost: int | None, tmp_path: Path
) -> None:
    path, folder, shown = make_avi(tmp_path / "a.avi", frames=12), Folder(tmp_path), list[int]()
    index, _ = find_index(folder.resolve(path.name), lambda: None)
    assert index is not None
    if lost is not None:
        head, *pictures = path.read_bytes().split(VOP)
        picture = bytearray(pictures[lost])
        picture[1] &= ~IS_CODED
        pictures[lost] = bytes(picture)
        path.write_bytes(VOP.join([head, *pictures]))
    opened = open_video(folder.resolve(path.name), index)
    is_right = read_frames(opened, index.order, [8], lambda at, _: shown.append(at), lambda: None)
    opened.close()
    assert is_right == (lost is None)
    assert shown[-1] == 8
