"""What MPEG-4 headers prove, on headers written bit by bit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bitstreams import PAYLOAD, BitWriter, packets, vol, vop
from videoload.bitstreams.pictures import Pictures
from videoload.bitstreams.proofs import prove

PACKED = b"\0\0\1\xb2DivX503b1393p"
PLACEHOLDER = vop("P", is_coded=False)
ONE_BYTE = b"\x7f"


def proven(*data: bytes, extradata: bytes = b"") -> Pictures | None:
    return prove(packets("mpeg4", data, extradata=extradata))


def timed(kinds: str) -> list[bytes]:
    """VOPs in the order of coding, with the times that their order of display gives them."""
    shown: list[int] = []
    references = [i for i, kind in enumerate(kinds) if kind != "B"]
    for begin, end in pairwise([*references, len(kinds)]):
        # B-VOPs are shown before the reference that they follow in the file.
        shown += [*range(begin + 1, end), begin]
    times = {coded: at for at, coded in enumerate(shown)}
    data, second, before = [], 0, 0  # `second` that of the last reference
    for i, kind in enumerate(kinds):
        at = times[i] + 1
        if kind == "B":
            data.append(vop("B", at % 25, seconds=at // 25 - before))
        else:
            data.append(vop(kind, at % 25, seconds=at // 25 - second))
            before, second = second, at // 25
    return data


def test_without_b_vops_each_packet_is_a_frame() -> None:
    head = vol()
    pictures = proven(head + vop("I"), vop("P", 1), vop("P", 2), head + vop("I", 3), vop("S", 4))
    assert pictures is not None
    assert (pictures.frames, pictures.starts.tolist()) == (5, [0, 3])
    assert pictures.ordinals is None


@given(
    st.lists(st.tuples(st.sampled_from("IPPP"), st.integers(0, 3)), min_size=1, max_size=40).map(
        lambda pairs: "IP" + "".join(kind + "B" * count for kind, count in pairs)
    )
)
def test_b_vops_are_shown_before_their_second_reference(kinds: str) -> None:
    first, *others = timed(kinds)
    pictures = proven(*[vol() + first, *others], extradata=vol())
    assert pictures is not None
    assert pictures.frames == len(kinds)
    assert pictures.starts.tolist() == [i for i, kind in enumerate(kinds) if kind == "I"]
    if "B" in kinds:
        assert pictures.ordinals is not None
        ordinals = pictures.ordinals.tolist()
        assert sorted(ordinals) == list(range(len(kinds)))
        for i, kind in enumerate(kinds):
            if kind == "B":
                reference = max(j for j in range(i) if kinds[j] != "B")
                assert ordinals[i] == ordinals[i - 1] + 1 or kinds[i - 1] != "B"
                assert ordinals[i] < ordinals[reference]


def unreferenced(pictures: Pictures) -> list[int]:
    return [] if pictures.unreferenced is None else pictures.unreferenced.nonzero()[0].tolist()


def test_nobody_refers_to_a_b_vop() -> None:
    first, *others = timed("IPBP")
    for kinds, rest in (("IPBP", others), ("IP", others[:1])):
        pictures = proven(vol() + first, *rest, extradata=vol())
        assert pictures is not None
        assert unreferenced(pictures) == [i for i, kind in enumerate(kinds) if kind == "B"]


def test_packed_b_vops_are_left_out_with_those_behind_them() -> None:
    """FFmpeg decodes each in the place of the next packet. If that brings another B-VOP, it would
    be lost with the packet."""
    i, p1, b1, p2, b2, b3 = timed("IPBPBB")
    head = vol(low_delay=None, layer_type=4) + PACKED
    pictures = proven(head + i, p1 + b1, PLACEHOLDER, p2 + b2, b3, PLACEHOLDER)
    assert pictures is not None
    assert pictures.ordinals is not None
    assert pictures.ordinals.tolist() == [0, 2, 1, 5, 3, 4]
    assert pictures.unreferenced is not None
    assert pictures.unreferenced.tolist() == [0, 0, 1, 0, 2, 1]
    ends = proven(head + i, p1 + b1, PLACEHOLDER, p2 + b2, b3)
    assert ends is not None
    assert ends.unreferenced is not None
    assert ends.unreferenced.tolist() == [0, 0, 1, 0, 0], "the last one waits for another packet"


def test_a_vop_that_is_not_coded_gives_no_frame() -> None:
    pictures = proven(vol() + vop("I"), vop("P", 1, is_coded=False), vop("P", 2))
    assert pictures is not None
    assert pictures.frames == 2


def test_a_vop_at_the_end_that_is_not_coded_proves_nothing() -> None:
    left_out = vop("P", 2, is_coded=False)
    assert proven(vol() + vop("I"), vop("P", 1), left_out) is None
    assert proven(vol() + vop("I"), vop("P", 1), left_out, left_out) is None
    pictures = proven(vol() + b"\0\0\1\xb2DivX503b1393" + vop("I"), vop("P", 1), ONE_BYTE)
    assert pictures is not None
    assert pictures.frames == 2


@pytest.mark.parametrize("even", [False, True])
def test_interlaced_files_are_proven_if_they_have_no_b_vops(even: bool) -> None:
    for kinds, is_proven in (("IPP", True), ("IPB", False)):
        first, *others = timed(kinds)
        for interlaced in (False, True):
            head = vol(interlaced=interlaced, even=even, resolution=25)
            assert (proven(head + first, *others) is not None) == (is_proven or not interlaced)


def test_packed_b_vops_are_decoded_with_the_placeholders_after_them() -> None:
    kinds = "IPBPBP"
    i, p1, b1, p2, b2, p3 = timed(kinds)
    head = vol(low_delay=None, layer_type=4) + PACKED
    packed = proven(head + i, p1 + b1, PLACEHOLDER, p2 + b2, PLACEHOLDER, p3)
    plain = proven(vol() + i, p1, b1, p2, b2, p3)
    assert packed is not None
    assert plain is not None
    assert packed.frames == plain.frames == 6
    assert packed.ordinals is not None
    assert plain.ordinals is not None
    assert packed.ordinals.tolist() == plain.ordinals.tolist()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param([vop("I")], id="no header of the layer"),
        pytest.param([vol() + vop("P"), vop("I")], id="does not begin with a key frame"),
        pytest.param([vol() + vop("I"), b"\0\0\1\xb3" + bytes(30)], id="a packet without a VOP"),
        pytest.param([vol() + vop("I"), ONE_BYTE], id="a byte, and no word of DivX"),
        pytest.param([vol() + vop("I"), vol(resolution=30) + vop("I")], id="settings change"),
        pytest.param(
            [vol(buffers=True, matrices=True) + vop("I"), vol(matrices=True) + vop("I")],
            id="settings change, and are not understood",
        ),
        pytest.param([vol() + vop("I"), vop("I", 1)], id="a key frame without settings"),
        pytest.param(
            [vol(low_delay=True) + vop("I"), vop("P", 2), vop("B", 1)], id="B-VOPs denied"
        ),
        pytest.param(
            [vol(low_delay=None) + vop("I"), vop("P", 2), vop("B", 1)], id="B-VOPs not told of"
        ),
        pytest.param(
            [vol() + vop("I"), vop("P", 2), vop("B", 3)], id="a B-VOP after its references"
        ),
        pytest.param(
            [vol() + vop("I"), vop("P", 2), vop("B", 1), vop("P", 3, is_coded=False)],
            id="B-VOPs, and some that are not coded",
        ),
    ],
)
def test_a_doubt_is_no_proof(data: list[bytes]) -> None:
    assert proven(*data) is None


@pytest.mark.parametrize("extradata", [b"", vol(buffers=True), vol()])
def test_only_the_first_header_may_tell_the_sizes_of_buffers(extradata: bytes) -> None:
    # As DivX's encoder writes them; FFmpeg skips the sizes.
    first = vol(buffers=True) + vop("I")
    pictures = proven(first, vop("P", 1), vol() + vop("I", 2), vop("P", 3), extradata=extradata)
    assert pictures is not None
    assert pictures.starts.tolist() == [0, 2]


def test_a_packet_of_one_byte_is_no_frame_in_a_file_of_divx() -> None:
    pictures = proven(vol() + b"\0\0\1\xb2DivX503b1393" + vop("I"), ONE_BYTE, vop("P", 1))
    assert pictures is not None
    assert pictures.frames == 2


@pytest.mark.parametrize("lost", [vop("P", 9), vop("P", 9) + vop("B", 8)])
def test_packed_pictures_prove_nothing_if_one_is_lost(lost: bytes) -> None:
    i, p1, b1 = timed("IPB")
    assert (
        proven(vol(low_delay=None, layer_type=4) + PACKED + i, p1 + b1, lost, PLACEHOLDER) is None
    )


@given(st.lists(st.binary(max_size=80), min_size=1, max_size=6), st.binary(max_size=40))
def test_garbage_raises_nothing(data: list[bytes], extradata: bytes) -> None:
    for head in (b"", vol() + vop("I"), vol(low_delay=None) + PACKED + vop("I")):
        proven(head + data[0] or b"\0", *(each or b"\0" for each in data), extradata=extradata)


@pytest.mark.parametrize("padding", [b"\x7f" * 40, bytes(60), b"\x55" * 500])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_vop_that_is_not_coded_gives_no_frame_however_long_its_packet_is(
    padding: bytes, at: int
) -> None:
    data = [vol() + vop("I"), vop("P", 1), vop("P", 2), vop("P", 3), vop("P", 4)]
    data[at] = vop("P", at, is_coded=False) + padding
    pictures = proven(*data)
    assert pictures is not None
    assert pictures.frames == 4
    assert pictures.ordinals is not None
    assert pictures.ordinals.tolist()[at] == -1
    assert proven(*data[: at + 1]) is None, "at the end, FFmpeg shows the last picture once more"


@pytest.mark.parametrize("seconds", [0, 1, 2, 5])
@pytest.mark.parametrize("resolution", [1, 25, 30000])
def test_coded_vops_are_found_at_every_resolution_of_time(seconds: int, resolution: int) -> None:
    bits = max(1, (resolution - 1).bit_length())
    head = vol(resolution=resolution)

    def picture(kind: int, *, is_coded: bool) -> bytes:
        made = BitWriter().put(kind, 2)
        for _ in range(seconds):
            made.put(1, 1)
        made.put(0, 1).put(1, 1).put(resolution - 1, bits).put(1, 1).put(is_coded, 1)
        return b"\0\0\1\xb6" + made.to_bytes() + PAYLOAD

    data = [head + picture(0, is_coded=True), *[picture(1, is_coded=True)] * 3]
    pictures = proven(*data)
    assert pictures is not None
    assert (pictures.frames, pictures.ordinals) == (4, None)
    data[2] = picture(1, is_coded=False)
    pictures = proven(*data)
    assert pictures is not None
    assert pictures.frames == 3
