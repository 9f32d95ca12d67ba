"""Storage that answers nobody for a while, hosts that stand still, and imports that take long are
not a video's fault; and a hanging worker is found nevertheless."""

import os
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.faults.stalling import ALWAYS, FIRST, build
from tests.support.digests import digests
from tests.support.processes import children_of
from tests.support.programs import Programs
from tests.support.thorough import THOROUGH, rest_nightly
from tests.support.videos import Videos, make_avi, make_levels, other_messages
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, Client, ClipSpec, Stream, TransformError, decode_serially

pytestmark = pytest.mark.slow

CLIP = ClipSpec(
    frames=16, stride=2, resize=64, size=(64, 64), crop="random", flip=True,
    sampling="random", clips_per_video=24,
)  # fmt: skip
BATCH = 8
NAMED = r"\b3 workers |\d s in "
START_S = 4 * SECOND  # for a worker process, on a busy machine
TRANSFORMED = ClipSpec(frames=4, stride=2, resize=36, size=(32, 32))


def make(client: Client, videos: Videos) -> Stream:
    return client.stream(videos.catalog, CLIP, BATCH, shuffle=True, seed=8)


@pytest.mark.parametrize(("workers", "seconds"), rest_nightly([(2, 5), (2, 9), (1, 5)]))
def test_storage_that_answers_nobody_for_a_while_changes_no_byte_and_condemns_no_file(
    workers: int,
    seconds: float,
    videos: Videos,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    library, away = build(tmp_path), tmp_path / "away"
    if library is None:
        pytest.skip("no C compiler here")
    serial = digests(decode_serially(videos.catalog, CLIP, BATCH, shuffle=True, seed=8, info=True))
    monkeypatch.setenv("LD_PRELOAD", str(library))  # for the workers
    monkeypatch.setenv("STALLS_WHILE", str(away))
    with Client(workers=workers, stall_s=2 * SECOND) as client:
        client.wait_for_workers(workers, 60 * SECOND)
        before = children_of(os.getpid())
        outage = threading.Timer(seconds * SECOND, away.unlink)
        got: list[str] = []
        longest = asked = 0.0
        for batch in make(client, videos).batches(epochs=1, info=True):
            longest = max(longest, time.monotonic() - asked) if got else 0.0
            got += digests([batch])
            if len(got) == 8:
                away.touch()
                outage.start()
            asked = time.monotonic()
        outage.join()
        assert got == serial
        assert children_of(os.getpid()) == before, "nobody was killed for it"
    print(f"longest pause, {seconds} s without storage: {longest:.2f} s")
    assert longest > seconds * SECOND / 2, "it was tried"
    assert not other_messages(caplog.messages)


@pytest.mark.parametrize("how", rest_nightly(["hang_on_white", "burn_on_white"]))
def test_a_hanging_video_is_found_even_with_only_one_worker(how: str, tmp_path: Path) -> None:
    catalog = make_levels(tmp_path, {**numbers(3), "white.avi": 255})
    spec = replace(LEVEL, transform=f"tests.support.transforms:{how}")
    with Client(workers=1, stall_s=2 * SECOND) as client:
        stream = client.stream(catalog, spec, 4)
        [(_, _, info)] = stream.batches(epochs=1, info=True)
        assert [video.path for video in stream.quarantine] == ["white.avi"]
        assert re.search(NAMED, stream.quarantine[0].reason)
    assert 3 not in info.video


@pytest.mark.parametrize("workers", rest_nightly([1, 2, 3], 2))
def test_a_file_whose_read_never_returns_is_named_and_the_epoch_goes_on(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = build(tmp_path)
    if library is None:
        pytest.skip("no C compiler here")
    monkeypatch.setenv("LD_PRELOAD", str(library))  # for the workers
    for i in range(8):
        make_avi(tmp_path / f"x/{i}.avi", frames=12, seed=i)
    (tmp_path / f"x/2.avi{FIRST}").touch()
    (tmp_path / f"x/5.avi{ALWAYS}").touch()
    catalog = Catalog([f"x/{i}.avi" for i in range(8)], [0] * 8, ["x"], root=tmp_path)
    with Client(workers=workers, stall_s=1 * SECOND, cache=False) as client:
        stream = client.stream(catalog, TRANSFORMED, 4, on_error="skip", max_bad=1.0)
        seen = [
            int(video) for _, _, info in stream.batches(epochs=1, info=True) for video in info.video
        ]
        assert [video.path for video in stream.quarantine] == ["x/5.avi"]
    assert seen == [i for i in range(8) if i != 5]
    assert not (tmp_path / f"x/2.avi{FIRST}").exists(), "a read of it did not return"


def test_a_worker_that_is_stopped_while_it_reads_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = build(tmp_path)
    if library is None:
        pytest.skip("no C compiler here")
    monkeypatch.setenv("LD_PRELOAD", str(library))  # for the workers
    make_avi(tmp_path / "x/0.avi", frames=12)
    (is_not_read := tmp_path / f"x/0.avi{FIRST}").touch()
    catalog = Catalog(["x/0.avi"], root=tmp_path)
    with ThreadPoolExecutor() as pool, Client(workers=1, stall_s=1 * SECOND, cache=False) as client:
        stream = client.stream(catalog, TRANSFORMED, 1)
        batches = pool.submit(lambda: list(stream.batches(epochs=1)))
        wait_until(lambda: not is_not_read.exists(), 60 * SECOND)
        os.kill(client.workers[0].pid, signal.SIGSTOP)
        assert len(batches.result(60 * SECOND)) == 1


@pytest.mark.parametrize("workers", rest_nightly([1, 2]))
def test_a_transform_may_take_longer_to_import_than_a_decoder_may_be_silent(
    workers: int,
    videos: Videos,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = (
        "import time\n"
        f"began = time.process_time()\n"
        f"while time.process_time() - began < {0.4 * SECOND}: pass\n"
        f"time.sleep({2.6 * SECOND})\n"
        "def invert(clip, rng): return 255 - clip\n"
    )
    (tmp_path / "slow_to_import.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = replace(TRANSFORMED, transform="slow_to_import:invert")
    plain = replace(TRANSFORMED, transform="tests.support.transforms:invert")
    with Client(workers=workers, stall_s=2 * SECOND) as client:
        client.wait_for_workers(workers, 60 * SECOND)
        before = children_of(os.getpid())
        stream = client.stream(videos.catalog, spec, 4, shuffle=True, seed=3)
        got = digests(stream.batches(epochs=1, info=True))
        assert children_of(os.getpid()) == before, "nobody was killed for it"
    assert got == digests(
        decode_serially(videos.catalog, plain, 4, shuffle=True, seed=3, info=True)
    )
    assert not [record for record in caplog.records if "worker" in record.getMessage()]


LEVEL = ClipSpec(1, size=(2, 2), pixels="gray")
SLOW = replace(LEVEL, transform="tests.support.transforms:takes_long")  # 2.5 seconds a clip


@pytest.mark.parametrize("workers", rest_nightly([2, 1]))
def test_a_function_that_takes_longer_than_stall_s_ends_the_stream_and_condemns_no_file(
    workers: int, tmp_path: Path
) -> None:
    with Client(workers=workers, stall_s=1 * SECOND) as client:
        stream = client.stream(make_levels(tmp_path, numbers(4)), SLOW, 1, max_bad=1.0)
        with pytest.raises(TransformError, match="transforms:takes_long"):
            next(iter(stream))
        assert not stream.quarantine


def test_dialled_in_workers_do_nothing_twice_that_takes_longer_than_they_may_be_silent(
    tmp_path: Path, programs: Programs
) -> None:
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        env = {"VIDEOLOAD_TEST_CALLS": str(tmp_path)}
        programs.script(SEVERAL, client.endpoints[0], str(tmp_path), "3", "30", env=env)
        client.wait_for_workers(3, 60 * SECOND)
        # One worker of three is idle meanwhile.
        stream = client.stream(make_levels(tmp_path, numbers(2)), SLOW, 1)
        assert len(list(stream.batches(epochs=1))) == 2
    assert [file.read_text() for file in tmp_path.glob("*.calls")] == ["x"] * 2


SEVERAL = """
    import sys

    from videoload.worker.keep_running import keep_running
    from videoload.wire.private_messages import WorkerSettings

    _, endpoint, root, workers, stall_s = sys.argv
    settings = WorkerSettings([endpoint], root=root, transforms=["tests.support.transforms"])
    sys.exit(keep_running(int(workers), settings, stall_s=float(stall_s)))
"""


def test_a_hanging_worker_is_replaced_and_a_waiting_one_is_not(
    videos: Videos, programs: Programs
) -> None:
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        words = (client.endpoints[0], str(videos.root), "2", str(1.0 * SECOND))
        several = programs.script(SEVERAL, *words)
        client.wait_for_workers(2, 60 * SECOND)
        hanging, waiting = children_of(several.pid)
        os.kill(hanging, signal.SIGSTOP)
        several.wait_for(f" {hanging} ended (SIGKILL)", 60 * SECOND)
        wait_until(
            lambda: len({waiting, *(each.pid for each in client.workers)} - {hanging}) == 2,
            60 * SECOND, "it is replaced",
        )  # fmt: skip
        assert waiting in children_of(several.pid)
        assert several.err.count("hangs") == 1, several.err
        several.signal(signal.SIGTERM)
        assert several.wait(60 * SECOND) == 0


def test_a_video_that_kills_its_workers_is_named_and_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a run in which it is no video."""
    catalog = make_levels(tmp_path, {**numbers(5), "white.avi": 255})
    spec = replace(LEVEL, transform="tests.support.transforms:killed_on_white")
    how: dict[str, Any] = {"batch_size": 3, "shuffle": True, "seed": 1, "max_bad": 1.0}
    with Client(workers=2) as client:
        stream = client.stream(catalog, spec, **how)
        got = digests(stream.batches(epochs=2, info=True))
        [(path, reason)] = stream.quarantine
    assert path == "white.avi"
    assert "killed_on_white" in reason
    # Each of its two clips costs three workers at most.
    assert 3 <= sum("(SIGKILL)" in message for message in caplog.messages) <= 6
    assert any(path in message and reason in message for message in caplog.messages)
    (tmp_path / path).write_text("not a video")
    assert got == digests(decode_serially(catalog, spec, **how, epochs=2, info=True))


def numbers(count: int) -> dict[str, int]:
    """Files whose pixels have the level of their number."""
    return {f"{number}.avi": number for number in range(count)}


@pytest.mark.parametrize(
    ("how", "hosts", "workers"),
    rest_nightly(
        [
            ("hang_on_white", 1, 2),
            ("crash_on_white", 2, 2),
            ("hang_on_white", 2, 2),
            ("hang_on_white", 1, 5),
            ("crash_on_white", 1, 2),
            ("crash_on_white", 1, 5),
        ],
        2,
    ),
)
def test_a_clip_that_kills_dialled_in_workers_is_named_and_the_others_come_once(
    how: str,
    hosts: int,
    workers: int,
    tmp_path: Path,
    programs: Programs,
) -> None:
    stall_s = (2 if how.startswith("hang") else 10) * SECOND
    catalog = make_levels(tmp_path, {**numbers(40), "17.avi": 255})
    spec = replace(LEVEL, transform=f"tests.support.transforms:{how}")
    with Client(workers=0, listen="tcp://127.0.0.1:*", stall_s=stall_s) as client:
        for _ in range(hosts):
            programs.script(SEVERAL, client.endpoints[0], str(tmp_path), str(workers), str(stall_s))
        client.wait_for_workers(hosts * workers, 60 * SECOND)
        stream = client.stream(catalog, spec, 4, on_error="skip")
        began = time.monotonic()
        got = [int(clip.flat[0]) for clips, _ in stream for clip in clips]
        took_s = time.monotonic() - began
        assert [bad.path for bad in stream.quarantine] == ["17.avi"]
        assert re.search(NAMED, stream.quarantine[0].reason)
        client.wait_for_workers(hosts * workers, 60 * SECOND)  # none is just starting at the end
    assert got == [number for number in range(40) if number != 17]
    print(f"an epoch of 40 clips, one of which {how}, {hosts} x {workers} workers: {took_s:.1f} s")
    if THOROUGH:  # the next worker may meet it only when the one before is replaced
        assert took_s < 4 * stall_s + 2 + 3 * START_S
