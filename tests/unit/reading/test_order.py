"""Which frame a packet gives, which packet gives a frame, and where its group ends."""

import numpy as np
import pytest

from videoload.bitstreams.pictures import KeyFrame
from videoload.reading.order import FrameTable


def rows(*starts: tuple[int, int]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Starts with these ordinals and packets."""
    return np.array([(ordinal, packet, 0, 100 * packet) for ordinal, packet in starts])


def test_without_another_order_packet_i_gives_frame_i() -> None:
    order = FrameTable(6, rows((0, 0), (3, 3)))
    assert [order.ordinal(packet) for packet in range(8)] == [0, 1, 2, 3, 4, 5, -1, -1]
    assert [order.packet(ordinal) for ordinal in range(6)] == [*range(6)]
    assert [order.group_of(ordinal) for ordinal in range(6)] == [0, 0, 0, 1, 1, 1]
    assert [order.members(group) for group in range(2)] == [range(3), range(3, 6)]
    assert [order.last_packet(group) for group in range(2)] == [2, 5]


@pytest.fixture
def open_group() -> FrameTable:
    """I0 P2 B1, then I5 with two B-pictures that are shown before it, and a packet without one."""
    return FrameTable(6, rows((0, 0), (5, 3)), np.array([0, 2, 1, 5, 3, -1, 4]))


def test_a_group_needs_the_packets_of_its_last_frames_behind_the_next_key_frame(
    open_group: FrameTable,
) -> None:
    assert open_group.members(0) == range(5)
    assert open_group.last_packet(0) == 6
    assert open_group.last_packet(1) == 3


def test_each_frame_is_given_by_its_packet(open_group: FrameTable) -> None:
    assert [open_group.packet(ordinal) for ordinal in range(6)] == [0, 2, 1, 4, 6, 3]
    assert all(open_group.ordinal(open_group.packet(i)) == i for i in range(6))
    assert [open_group.ordinal(packet) for packet in (-1, 5, 7)] == [-1, -1, -1]


def test_what_comes_before_the_first_key_frame_is_reached_from_the_beginning() -> None:
    order = FrameTable(9, rows((4, 6)), sums=np.arange(9))
    assert order.group_of(3) == -1
    assert order.start(-1) == KeyFrame(0, 0, 0, -1)
    assert order.members(-1) == range(4)
    assert np.frombuffer(order.keys or b"", np.int64).tolist() == [0, 4]
