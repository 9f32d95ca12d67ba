"""Whatever a server does: it is asked again, waited for and named, and no good video is bad."""

import os
import random
from itertools import product

import pytest

from tests.support.object_server import ObjectServer
from tests.support.remote_files import LONG, OTHER, SPEC, clip_of, read_bytes
from tests.support.servers import asked
from tests.support.thorough import rest_nightly
from tests.support.waiting import SECOND, wait_until
from videoload.clips.rows import Clip
from videoload.clips.sample_spec import one_clip
from videoload.decoding.decoder import Decoder
from videoload.errors import StorageError, VideoError
from videoload.storage import stores
from videoload.storage.roots import open_storage
from videoload.storage.small_files import read_small

pytest.importorskip("obstore", reason="needs videoload[remote]")


@pytest.mark.parametrize("fault", [503, 403, "cut"])
def test_a_request_is_made_again_until_the_fault_has_passed(
    fault: int | str, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it passes right after the first request."""
    storage, server.fault, answer = open_storage(server.url), fault, server.answer

    def passing(head: bytes) -> bytes | None:
        if server.requests:
            server.fault = None
        return answer(head)

    monkeypatch.setattr(server, "answer", passing)
    size, drawn = (server.folder / LONG).stat().st_size, random.getstate()
    with storage.reading(LONG, lambda: None):
        assert storage.resolve(LONG).size == size
    assert random.getstate() == drawn, "a training's own numbers"


@pytest.mark.parametrize("fault", [503, 403, 401, "cut", "silence"])
@pytest.mark.parametrize("path", [LONG, "bad/palette.avi"])
def test_a_server_that_does_not_answer_makes_no_bad_video_and_is_named(
    fault: int | str, path: str, server: ObjectServer, in_parts: None,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(stores, "SILENCE_S", 0.2)
    decoder = Decoder(server.url)
    decoder.prefetch(path, one_clip(SPEC), [Clip(0)])
    with pytest.raises(VideoError):
        decoder.videos.index("gone.avi")  # by then, the first part is here
    server.fault = fault
    with monkeypatch.context() as patch:
        patch.setattr(stores, "GIVE_UP_S", 0.3)
        patch.setattr(stores, "TELL_S", 0.05)
        with pytest.raises(StorageError) as told:
            clip_of(decoder, path)
    assert server.url in str(told.value)
    assert isinstance(fault, str) or str(fault) in str(told.value)
    assert decoder.storage.failure_reason.startswith(server.url)
    assert sum(server.url in message for message in caplog.messages) == 1
    server.fault = None
    assert clip_of(decoder, path) == clip_of(Decoder(server.folder), path)


ANSWERS = [
    503, 404, b"what?\r\n\r\n", 403, 401, 500, 410, 307, b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-99/1152921504606846976\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize(
    ("is_known", "answer"),
    [*product([True], ANSWERS), *rest_nightly(product([False], ANSWERS), 3)],
)
def test_a_file_that_alone_cannot_be_read_is_a_bad_video(
    is_known: bool, answer: int | bytes, server: ObjectServer, impatient: None, in_parts: None
) -> None:
    """Also if its first part was given."""
    decoder = Decoder(server.url)
    decoder.videos.fingerprint(OTHER)
    if is_known:
        decoder.videos.version(LONG)
    server.statuses[LONG] = answer
    for _ in range(2):
        told = clip_of(decoder, LONG)
        assert isinstance(told, str)
        assert LONG in told
    server.fault = 403
    with pytest.raises(StorageError, match="403"):
        clip_of(decoder, LONG)


def test_a_server_that_sends_whole_files_is_refused_at_once(server: ObjectServer) -> None:
    """That is no flaw of its files, and no fault that passes."""
    server.parts = False
    decoder = Decoder(server.url)
    for _ in range(2):
        with pytest.raises(StorageError, match=rf"{server.url}.*Range"):
            clip_of(decoder, LONG)
    assert len(asked(server)) == 2
    with pytest.raises(StorageError, match="Range"):
        read_small(server.url, LONG, 1 << 20)


# Silence


def test_an_answer_may_take_any_time_as_long_as_bytes_come(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also longer than a server may be silent: it is not asked again meanwhile."""
    monkeypatch.setattr(stores, "SILENCE_S", SECOND)
    data = os.urandom(1 << 20)
    (server.folder / "b.avi").write_bytes(data)
    server.line_rate = len(data) / (2.2 * SECOND)
    assert read_bytes(open_storage(server.url), "b.avi", len(data)) == data
    assert len(asked(server)) < 3  # a busy machine may be silent once itself


def test_after_a_silence_only_the_rest_is_requested(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "SILENCE_S", 0.5 * SECOND)
    data = os.urandom(500_000)
    (server.folder / "b.avi").write_bytes(data)
    server.line_rate, server.silent_after = 3e6, 200_000
    assert read_bytes(open_storage(server.url), "b.avi", len(data)) == data
    first, *_, last = asked(server)
    assert first == ("b.avi", len(data))
    assert last[1] <= len(data) - 100_000


def test_a_wait_for_a_silent_server_has_a_reason_and_can_be_ended(
    server: ObjectServer, impatient: None
) -> None:
    class Ended(BaseException):
        pass

    def end() -> None:
        if server.url in storage.failure_reason:
            raise Ended

    server.fault, storage = "silence", open_storage(server.url)
    with pytest.raises(Ended), storage.reading(LONG, end):
        storage.resolve(LONG)
    assert storage.failure_reason == ""


def test_no_more_is_prefetched_than_memory_allows(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "SILENCE_S", 0.5 * SECOND)
    server.fault, storage = "silence", open_storage(server.url)
    for number in range(200):
        storage.prefetch_header(f"{number}.avi")
    wait_until(lambda: len(set(server.requests)) == 16, 30 * SECOND)
    server.fault = 404
    with pytest.raises(VideoError):
        storage.resolve("150.avi")
    wait_until(lambda: len(set(server.requests)) >= 64, 30 * SECOND)
    assert len(set(server.requests)) <= 66
