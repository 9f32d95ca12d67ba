"""Which workers are admitted: children by token and pid, others if there is room, each once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from videoload import __version__
from videoload.engine.membership import (
    Admission,
    Admitted,
    ConnectedWorker,
    Refusal,
    workers_at_most,
)
from videoload.engine.stats import WorkerRecord
from videoload.engine.work import Work
from videoload.errors import WorkerError
from videoload.wire.messages import Hello
from videoload.worker.stall_clock import StallClock

TOKEN = "5e" * 32
CHILDREN = (11, 12)


def hello(worker: str = "a", host: str = "here", pid: int = 11, token: str = "") -> Hello:
    return Hello(worker, host, pid, "FFmpeg 8", token)


def admit(
    admission: Admission[int], peer: int, said: Hello, *, child: bool = False
) -> Admitted[int]:
    """Admit a worker, as the engine does."""
    decision = (
        admission.child(peer, said, CHILDREN, 0.0) if child else admission.remote(peer, said, 0.0)
    )
    assert isinstance(decision, Admitted)
    for other in decision.replaces:
        admission.workers.pop(other, None)
    admission.workers[peer] = decision.worker
    return decision


def refused(admission: Admission[int], peer: int, said: Hello, *words: str) -> None:
    """A worker is refused, the log says so once, and its user reads these words."""
    decision = admission.remote(peer, said, 0.0)
    assert isinstance(decision, Refusal)
    assert decision.warn
    assert all(word in decision.reason for word in words), decision


@pytest.fixture
def admission() -> Admission[int]:
    return Admission(TOKEN, max_remote=2)


# At the private address


def test_a_child_with_the_token_is_admitted(admission: Admission[int]) -> None:
    admitted = admit(admission, 1, hello(token=TOKEN), child=True)
    assert (admitted.worker.name, admitted.worker.local) == ("here:11", True)
    assert admitted.replaces == ()


@pytest.mark.parametrize("token", ["", TOKEN[:-1], TOKEN + "5", TOKEN.upper(), "0" * 64, "\u00e9"])
def test_a_child_without_the_token_is_refused(token: str, admission: Admission[int]) -> None:
    assert isinstance(admission.child(1, hello(token=token), CHILDREN, 0.0), Refusal)
    assert not admission.workers


@pytest.mark.parametrize("of_trainer", [None, "FFmpeg 8"])
def test_a_child_with_another_ffmpeg_ends_the_training(
    of_trainer: str | None, admission: Admission[int]
) -> None:
    admission.software = of_trainer
    admit(admission, 1, hello(token=TOKEN), child=True)
    other = replace(hello(token=TOKEN, pid=12), software="FFmpeg 9")
    with pytest.raises(WorkerError, match=r"FFmpeg 9.*FFmpeg 8"):
        admission.child(2, other, CHILDREN, 0.0)


def test_a_hello_of_a_child_that_was_reaped_is_refused(admission: Admission[int]) -> None:
    said = hello(pid=99, token=TOKEN)
    assert isinstance(admission.child(1, said, CHILDREN, 0.0), Refusal)


# At the addresses where workers dial in


def test_no_more_workers_than_max_remote_may_dial_in(admission: Admission[int]) -> None:
    admit(admission, 0, hello(token=TOKEN), child=True)  # children do not count
    admit(admission, 1, hello("a"))
    admit(admission, 2, hello("b"))
    refused(admission, 3, hello("c"), "2", "ulimit")
    admit(admission, 2, hello("b"))  # a known worker may say HELLO again
    admit(admission, 4, hello("b"))  # ... and come back as another peer
    refused(admission, 3, hello("c"))
    del admission.workers[1]
    admit(admission, 3, hello("c"))


@pytest.mark.parametrize("other", [hello("b"), hello(host="there"), hello(pid=12)])
def test_a_worker_is_known_by_its_id_host_and_pid_together(
    other: Hello, admission: Admission[int]
) -> None:
    admit(admission, 1, hello())
    assert admit(admission, 2, other).replaces == ()


def test_workers_of_one_host_name_and_pid_have_two_names(admission: Admission[int]) -> None:
    admit(admission, 1, hello(token=TOKEN), child=True)
    names = [admit(admission, peer, hello(f"{peer}")).worker.name for peer in (2, 3)]
    assert len({"here:11", *names}) == 3
    again = admit(admission, 4, hello("2"))
    assert (again.worker.name, again.replaces) == (names[0], (2,)), "it keeps its name"


PEERS = st.integers(0, 7)
WORKERS = st.sampled_from("abcd")


@given(st.lists(st.tuples(st.sampled_from(["remote", "child", "leaves"]), PEERS, WORKERS)))
def test_in_any_order_of_events_each_worker_is_connected_once_and_within_the_limit(
    events: list[tuple[str, int, str]],
) -> None:
    # A peer is one connection of one worker to one address. Its name tells which.
    admission: Admission[tuple[str, int, str]] = Admission(TOKEN, max_remote=2)
    for what, number, name in events:
        pid = "abcd".index(name) + 11
        if what == "leaves":
            admission.workers.pop(("remote", number, name), None)
            continue
        peer = (what, number, name)
        token = TOKEN if what == "child" else ""
        said = Hello(name, "here", pid, "FFmpeg 8", token)
        decision = (
            admission.child(peer, said, CHILDREN, 0.0)
            if what == "child"
            else admission.remote(peer, said, 0.0)
        )
        room = {w for kind, _, w in admission.workers if kind == "remote"}
        if isinstance(decision, Refusal):
            assert pid not in CHILDREN if what == "child" else len(room - {name}) == 2
            continue
        assert peer not in decision.replaces
        assert all(other[0] == what and other[2] == name for other in decision.replaces)
        for other in decision.replaces:
            admission.workers.pop(other, None)
        admission.workers[peer] = decision.worker
        here = [(kind, w) for kind, _, w in admission.workers]
        assert len(here) == len(set(here)), "each worker is connected once"
        assert sum(kind == "remote" for kind, _ in here) <= 2


# What else is known about a worker


def test_a_remote_worker_with_other_software_is_refused(
    admission: Admission[int],
) -> None:
    other = Hello("c", "there", 7, "FFmpeg 9", "")
    admit(admission, 1, other)
    admission.software = "FFmpeg 8"
    refused(admission, 2, other, "FFmpeg 9", "FFmpeg 8", "same version", "allow_version_mismatch=")
    admit(admission, 3, hello("b"))


CODE = "av 17.0.0, libavcodec 62.11.100, x86_64, pixels 1a, code 2b"


@pytest.mark.parametrize(
    ("software", "says", "not_that"),
    [
        (f"videoload 999.1: {CODE}3", f"videoload 999.1, this trainer {__version__}", "2b"),
        (f"videoload {__version__}: {CODE}3", f"{__version__} with other code", "2b"),
        (f"videoload {__version__}: {CODE}".replace("62.11", "61.1"), "62.11.100", "17"),
        (CODE.replace("pixels 1a", "pixels 9"), "pixels 9", "17"),
    ],
)
def test_a_refusal_names_only_what_differs(
    software: str, says: str, not_that: str, admission: Admission[int]
) -> None:
    admission.software = CODE
    decision = admission.remote(2, replace(hello("c"), software=software), 0.0)
    assert isinstance(decision, Refusal)
    assert says in decision.reason
    assert not_that not in decision.reason


def test_a_version_alone_refuses_nobody(admission: Admission[int]) -> None:
    admission.software = CODE
    said = replace(hello("c"), software=f"videoload 0.0.1: {CODE}")
    assert not isinstance(admission.remote(2, said, 0.0), Refusal)


def test_a_worker_is_idle_decoding_or_silent() -> None:
    worker = ConnectedWorker(1, 7, local=False, joined=40.0, host="there")
    assert worker.record(100.0) == WorkerRecord(
        "there:7", "there", 7, False, "idle", "", age_s=60.0
    )
    worker.timer.granted(100.0)
    worker.last_error, seconds = "is not a video", 100.0
    worker.silence_clock = StallClock(1.0, lambda: seconds)
    worker.silence_clock.look("a message")
    for seconds in (101.0, 102.0, 103.0):
        assert worker.record(seconds).state == "decoding"
        worker.silence_clock.look("a message")
    worker.is_refused = True
    assert worker.record(103.0)[4:6] == ("silent", "is not a video")


def test_a_worker_without_storage_cannot_read_and_one_that_has_only_failed_is_failing() -> None:
    worker = ConnectedWorker(1, 7, local=False, joined=40.0, host="there")
    worker.last_error = "is not a video"
    assert worker.record(100.0, is_away=True).state == "cannot read"
    record = worker.record(100.0)
    assert record.stats().state == "failing"
    assert record._replace(work=Work(clips=1)).stats().state == "idle"
    worker.timer.granted(100.0)
    assert worker.record(100.0).stats().state == "decoding"
    worker.is_refused = True
    assert worker.record(100.0).stats().state == "cannot read"


@pytest.mark.parametrize(
    ("descriptors", "used", "workers"),
    [(1 << 16, 100, 4096), (4096, 50, 3502), (1024, 50, 686), (256, 40, 120), (256, 250, 1)],
)
def test_the_number_of_workers_that_may_dial_in_follows_from_the_free_descriptors(
    descriptors: int, used: int, workers: int
) -> None:
    assert workers_at_most(descriptors, used) == workers
