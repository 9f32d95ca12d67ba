"""What MPEG-4 headers prove: B-VOPs, VOPs that are not coded, two in a packet, times."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bitstreams import (
    GROUP_OF_VOPS,
    Proof,
    group_of_vops,
    packets,
    proof,
    proven,
    vol,
    vop,
)
from videoload.bitstreams.proofs import prove

DIVX = b"\0\0\1\xb2DivX503b1393"
PACKED = vol(low_delay=None, layer_type=4) + DIVX + b"p"
PLACEHOLDER = vop("P", is_coded=False)


def timed(kinds: str) -> list[bytes]:
    """VOPs in the order of coding, with the times that their order of display gives them."""
    shown: list[int] = []
    anchors = [i for i, kind in enumerate(kinds) if kind != "B"]
    for begin, end in pairwise([*anchors, len(kinds)]):
        # B-VOPs are shown before the reference that they follow in the file.
        shown += [*range(begin + 1, end), begin]
    times = {coded: at for at, coded in enumerate(shown)}
    data, second, before = [], 0, 0  # `second` that of the last reference
    for i, kind in enumerate(kinds):
        at = times[i] + 1
        data.append(vop(kind, at % 25, seconds=at // 25 - (before if kind == "B" else second)))
        if kind != "B":
            before, second = second, at // 25
    return data


def order(*data: bytes) -> list[int]:
    """The frame that each packet gives; -1: none."""
    return proof("mpeg4", *data).ordinals


@given(
    st.lists(st.tuples(st.sampled_from("IPPPS"), st.integers(0, 3)), max_size=40).map(
        lambda pairs: "IP" + "".join(kind + "B" * count for kind, count in pairs)
    )
)
def test_b_vops_are_shown_before_their_second_reference(kinds: str) -> None:
    first, *others = timed(kinds)
    found = proof("mpeg4", vol() + first, *others, extradata=vol())
    assert found.starts == [i for i, kind in enumerate(kinds) if kind == "I"]
    assert found.skips == [int(kind == "B") for kind in kinds]
    for i, kind in enumerate(kinds):
        if kind == "B":
            reference = max(j for j in range(i) if kinds[j] != "B")
            assert found.ordinals[i] == found.ordinals[i - 1] + 1 or kinds[i - 1] != "B"
            assert found.ordinals[i] < found.ordinals[reference]


@pytest.mark.parametrize("extradata", [b"", vol(buffers=True), vol()])
@pytest.mark.parametrize("buffers", [False, True])
def test_settings_may_stand_before_each_start_and_the_first_may_tell_the_sizes_of_buffers(
    extradata: bytes, buffers: bool
) -> None:
    """As DivX's encoder writes them. FFmpeg skips the sizes."""
    data = vol(buffers=buffers) + vop("I"), vop("P", 1), vol() + vop("I", 2), vop("S", 3)
    found = proven("mpeg4", *data, extradata=extradata)
    assert found == Proof([0, 1, 2, 3], [0, 2], [0] * 4)


@pytest.mark.parametrize(
    ("extradata", "before", "are_given"),
    [
        (vol(), vol(), True),
        (vol(), b"", True),
        (b"", vol(), False),
        (vol(resolution=30), vol(), False),
        (vol() + DIVX, vol(), False),
    ],
)
def test_only_what_the_container_gives_leaves_a_decoder_as_it_was(
    extradata: bytes, before: bytes, are_given: bool
) -> None:
    data = before + vop("I"), vop("P", 1), before + vop("I", 2)
    found = prove(packets("mpeg4", data, extradata=extradata))
    assert found is not None
    assert found.are_settings_given == are_given


def test_packed_b_vops_are_decoded_with_the_placeholders_behind_them() -> None:
    """FFmpeg decodes each in the place of the next packet."""
    i, p1, b1, p2, b2, b3 = timed("IPBPBB")
    found = proven("mpeg4", PACKED + i, p1 + b1, PLACEHOLDER, p2 + b2, b3, PLACEHOLDER)
    assert found == Proof([0, 2, 1, 5, 3, 4], [0], [0, 0, 1, 0, 2, 1])
    assert order(vol() + i, p1, b1, p2, b2, b3) == found.ordinals, "as if each had a packet"


def test_the_last_packed_b_vop_waits_for_another_packet() -> None:
    i, p1, b1, p2, b2, b3 = timed("IPBPBB")
    found = proof("mpeg4", PACKED + i, p1 + b1, PLACEHOLDER, p2 + b2, b3)
    assert found.skips == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("lost", [vop("P", 9), vop("P", 9) + vop("B", 8)])
def test_a_packed_b_vop_without_a_placeholder_proves_nothing(lost: bytes) -> None:
    """If the next packet brings another picture, the B-VOP would be lost with it."""
    i, p1, b1 = timed("IPB")
    assert not proven("mpeg4", PACKED + i, p1 + b1, lost, PLACEHOLDER)


@pytest.mark.parametrize("padding", [b"", b"\x7f" * 40, bytes(60), b"\x55" * 500])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_vop_that_is_not_coded_gives_no_frame_however_long_its_packet_is(
    padding: bytes, at: int
) -> None:
    data = [vol() + vop("I"), *(vop("P", number) for number in range(1, 5))]
    data[at] = vop("P", at, is_coded=False) + padding
    assert order(*data) == [*range(at), -1, *range(at, 4)]
    for count in (1, 2):  # at the end, FFmpeg shows the last picture once more
        assert not proven("mpeg4", *data[:at], *data[at : at + 1] * count)


@pytest.mark.parametrize("after", [(), (vop("P", 2),)])
def test_a_packet_of_one_byte_is_no_frame_in_a_file_of_divx(after: tuple[bytes, ...]) -> None:
    found = order(vol() + DIVX + vop("I"), vop("P", 1), b"\x7f", *after)
    assert found == [0, 1, -1, 2][: 3 + len(after)]


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("kinds", ["IPP", "IPB"])
@pytest.mark.parametrize("interlaced", [0, 1])
def test_interlaced_files_are_proven_if_they_have_no_b_vops(
    even: bool, kinds: str, interlaced: int
) -> None:
    first, *others = timed(kinds)
    found = proven("mpeg4", vol(interlaced=interlaced, even=even) + first, *others)
    assert (found is None) is (bool(interlaced) and kinds == "IPB")


@pytest.mark.parametrize(
    ("one", "other"), [((0, 0, 31), (0, 0, 32)), ((0, 0, 59), (0, 1, 0)), ((0, 59, 59), (1, 0, 0))]
)
def test_a_time_code_sets_the_seconds(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    before, after = (vol() + group_of_vops(*code) for code in (one, other))
    p, i, b = vop("P", 20), vop("I", 20), vop("B", 10)
    assert order(before + vop("I"), p, after + i, b) == [0, 1, 3, 2]
    assert not proven("mpeg4", after + vop("I"), p, before + i, b), "it is not between them"


@pytest.mark.parametrize("seconds", [0, 1, 2, 5])
@pytest.mark.parametrize("resolution", [1, 25, 30000])
def test_coded_vops_are_found_at_every_resolution_of_time(seconds: int, resolution: int) -> None:
    time: Any = {"seconds": seconds, "size": max(1, (resolution - 1).bit_length())}
    i, p = (vop(kind, resolution - 1, **time) for kind in "IP")
    head = vol(resolution=resolution) + i
    assert order(head, p, p, p) == [0, 1, 2, 3]
    skipped = vop("P", resolution - 1, is_coded=False, **time)
    assert order(head, p, skipped, p) == [0, 1, -1, 2]


DOUBTS: dict[str, list[bytes]] = {
    "an empty video": [],
    "no header of the layer": [vop("I")],
    "does not begin with a key frame": [vol() + vop("P"), vop("I")],
    "a packet without a VOP": [vol() + vop("I"), GROUP_OF_VOPS + bytes(30)],
    "a byte, and no word of DivX": [vol() + vop("I"), b"\x7f"],
    "settings change": [vol() + vop("I"), vol(resolution=30) + vop("I")],
    "settings change, and are not understood": [
        vol(buffers=True, matrices=1) + vop("I"),
        vol(matrices=1) + vop("I"),
    ],
    "a key frame without settings": [vol() + vop("I"), vop("I", 1)],
    "B-VOPs denied": [vol(low_delay=1) + vop("I"), vop("P", 2), vop("B", 1)],
    "B-VOPs not told of": [vol(low_delay=None) + vop("I"), vop("P", 2), vop("B", 1)],
    "a B-VOP after its references": [vol() + vop("I"), vop("P", 2), vop("B", 3)],
    "B-VOPs, and some that are not coded": [
        vol() + vop("I"),
        vop("P", 2),
        vop("B", 1),
        vop("P", 3, is_coded=False),
    ],
    "not coded, at the end": [vol() + vop("I"), vop("P", 1), vop("P", 2, is_coded=False)],
}


@pytest.mark.parametrize("why", DOUBTS)
def test_a_doubt_is_no_proof(why: str) -> None:
    assert not proven("mpeg4", *DOUBTS[why])
