"""Workers are killed, stopped, or told to leave in mid-epoch: no byte changes, and nobody waits
long."""

from __future__ import annotations

import os
import platform
import signal
from pathlib import Path

import pytest

from tests.support.digests import digests
from tests.support.processes import children_of
from tests.support.programs import Program, Programs
from tests.support.videos import Videos, make_white_avi
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, Stream, decode_serially

pytestmark = pytest.mark.timeout(90 * SECOND)

CLIP = ClipSpec(
    frames=8, stride=2, resize=64, size=(64, 64), crop="random", flip=True,
    sampling="random", clips_per_video=24,
)  # fmt: skip
BATCH = 8
BATCHES = 24  # an epoch; about half a second's work for one worker
SOON_S = 30 * SECOND


@pytest.fixture(scope="module")
def serial(videos: Videos) -> list[str]:
    catalog = videos.catalog
    assert len(catalog) * CLIP.clips_per_video // BATCH == BATCHES
    return digests(decode_serially(catalog, CLIP, BATCH, shuffle=True, seed=8, epochs=2, info=True))


def make(client: Client, videos: Videos, slots: int | None = None) -> Stream:
    return client.stream(videos.catalog, CLIP, BATCH, shuffle=True, seed=8, slots=slots)


def dial_in(client: Client, programs: Programs, videos: Videos, count: int) -> list[Program]:
    """Start workers that dial in over tcp, and wait until they are connected."""
    started = [programs.worker(client.endpoints[0], videos.root) for _ in range(count)]
    client.wait_for_workers(count, timeout_s=SOON_S)
    return started


def clips_by_pid(client: Client) -> dict[int, int]:
    return {worker.pid: worker.clips for worker in client.workers}


# Local workers: shared memory, fenced by their death


@pytest.mark.slow
def test_a_video_that_kills_its_workers_is_named_and_replaced(
    videos: Videos, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Every worker that decodes the white video is killed. The expected batches are those of a
    # catalog where that file is not a video.
    poisoned, broken = Videos(tmp_path / "poisoned"), Videos(tmp_path / "broken")
    for home in (poisoned, broken):
        for number in range(5):
            home.add(f"a/{number}.avi", frames=30, seed=number)
    make_white_avi(poisoned.root / "a/white.avi")
    (broken.root / "a/white.avi").write_text("not a video")
    clip = ClipSpec(
        frames=4, resize=36, size=(32, 32), sampling="random",
        transform="tests.support.transforms:killed_on_white",
    )  # fmt: skip
    expected = digests(
        decode_serially(broken.catalog, clip, 3, shuffle=True, seed=1, epochs=2, info=True)
    )
    caplog.clear()
    with Client(workers=2) as client:
        stream = client.stream(poisoned.catalog, clip, 3, shuffle=True, seed=1)
        got = digests(stream.batches(epochs=2, info=True))
        ((path, reason),) = stream.quarantine
    assert got == expected
    assert path == "a/white.avi"
    assert "killed_on_white" in reason
    deaths = [message for message in caplog.messages if "(SIGKILL)" in message]
    # Each of its two clips costs three workers at most.
    assert 3 <= len(deaths) <= 6
    assert any(path in message and reason in message for message in caplog.messages)


# Workers that dial in: they send their pixels


SEVERAL = """
    import sys

    from videoload.worker.keep_running import keep_running
    from videoload.transport.private_messages import WorkerSettings

    settings = WorkerSettings([sys.argv[1]], root=sys.argv[2])
    sys.exit(keep_running(2, settings, stall_s=float(sys.argv[3])))
"""


@pytest.mark.slow
def test_a_hanging_worker_is_replaced_and_a_waiting_one_is_not(
    videos: Videos, programs: Programs
) -> None:
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        several = programs.script(SEVERAL, client.endpoints[0], str(videos.root), str(1.0 * SECOND))
        client.wait_for_workers(2, timeout_s=SOON_S)
        hanging, waiting = children_of(several.pid)
        os.kill(hanging, signal.SIGSTOP)
        several.wait_for(f" {hanging} ended (SIGKILL)", SOON_S)
        wait_until(
            lambda: len(clips_by_pid(client)) == 2 and hanging not in clips_by_pid(client),
            SOON_S, "it is replaced",
        )  # fmt: skip
        assert waiting in children_of(several.pid)
        assert several.err.count("hangs; killing it") == 1, several.err
        several.signal(signal.SIGTERM)
        assert several.wait(SOON_S) == 0


@pytest.mark.slow
def test_a_silent_dialled_in_worker_is_not_here_until_it_is_heard_again(
    videos: Videos,
    programs: Programs,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("videoload.engine.membership.GONE_S", 1.0 * SECOND)
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        silent, *_ = dial_in(client, programs, videos, 2)
        silent.signal(signal.SIGSTOP)
        wait_until(lambda: len(client.workers) == 1, SOON_S, "it is not counted")
        assert silent.pid not in clips_by_pid(client)
        wait_until(lambda: platform.node() in caplog.text, SOON_S, "its host is named")
        silent.signal(signal.SIGCONT)
        client.wait_for_workers(2, timeout_s=SOON_S)
