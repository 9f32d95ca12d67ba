"""What VP9 headers prove: which frames are shown, and which are key frames."""

import pytest

from tests.support.bitstreams import VP9_AGAIN, Proof, proof, proven, superframe, vp9

KEY, HIDDEN = vp9(key=True), vp9(shown=0)


@pytest.mark.parametrize("profile", range(4))
def test_decoding_begins_at_key_frames_that_are_shown(profile: int) -> None:
    key, inter = vp9(key=True, profile=profile), vp9(profile=profile)
    found = proven("vp9", key, inter, superframe(vp9(shown=0, profile=profile), inter), key)
    assert found == Proof([0, 1, 2, 3], [0, 3], [0] * 4)
    hidden = superframe(vp9(key=True, shown=0), vp9()), superframe(HIDDEN, KEY)
    assert proven("vp9", KEY, *hidden) == Proof([0, 1, 2], [0], [0] * 3)


def test_a_packet_may_show_nothing_or_a_frame_once_more() -> None:
    found = proof("vp9", KEY, HIDDEN, superframe(HIDDEN, vp9()), VP9_AGAIN)
    assert found.ordinals == [0, -1, 1, 2]


DOUBTS: dict[str, list[bytes]] = {
    "begins in the middle": [vp9(), KEY],
    "shows two": [KEY, superframe(vp9(), vp9())],
    "shows two, one of them again": [KEY, superframe(vp9(), VP9_AGAIN)],
    "another size": [vp9(key=True, width=66)],
    "no frame": [KEY, b"\x40" + vp9()],
    "a wrong index": [KEY, vp9() + b"\xc8\xff\xff\xc8"],
}


@pytest.mark.parametrize("why", DOUBTS)
def test_a_doubt_is_no_proof(why: str) -> None:
    assert not proven("vp9", *DOUBTS[why])
