"""Messages of the private channel arrive equal to what was sent. Anything else is refused, also the
messages of those who dial in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.errors import ProtocolError
from videoload.transport.messages import (
    VERSION,
    encode,
    unpack_from_trainer,
    unpack_from_worker,
)
from videoload.transport.private_messages import (
    Private,
    Share,
    Unshare,
    WorkerSettings,
    unpack_private,
)

patient = settings(deadline=None, max_examples=either(40, 150))

NUMBERS = st.integers(0, 2**63 - 1)
WORDS = st.text(max_size=20)
PRIVATE: st.SearchStrategy[Private] = st.one_of(
    st.builds(
        WorkerSettings,
        trainers=st.lists(WORDS, min_size=1, max_size=3),
        root=st.none() | WORDS,
        token=WORDS,
        keys=st.none() | WORDS,
        insecure=st.booleans(),
        transforms=st.none() | st.lists(WORDS, max_size=3),
    ),
    st.builds(Share, arena=NUMBERS, root=st.binary()),
    st.builds(Unshare, arena=NUMBERS),
)


@patient
@given(PRIVATE)
def test_a_private_message_arrives_unchanged(message: Private) -> None:
    assert unpack_private(encode(message)) == message


@pytest.mark.parametrize(
    "message", [WorkerSettings(["tcp://h:1"], root="/"), Share(1, b"/"), Unshare(1)]
)
def test_nobody_who_dials_in_can_send_private_messages(message: Private) -> None:
    for unpack in (unpack_from_worker, unpack_from_trainer):
        with pytest.raises(ProtocolError):
            unpack([VERSION, encode(message)])


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "settings", "trainers": []},
        {"type": "share", "arena": -1, "root": "/"},
        {"type": "unshare", "arena": 1, "root": "/"},
    ],
)
def test_an_invalid_field_of_a_private_message_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        unpack_private(msgspec.msgpack.encode(fields))
