"""``videoload top`` and a real trainer: it shows what happens, changes nothing, and needs a key."""

from __future__ import annotations

import json
import time
from itertools import islice
from pathlib import Path

import pytest
import zmq

from tests.faults.raw_peers import dealer
from tests.support.digests import digests
from tests.support.programs import Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND
from videoload import Client, ClipSpec, TransportError, decode_serially
from videoload.commands import top
from videoload.stats.snapshots import record_in
from videoload.transport.keys import make_keys
from videoload.transport.messages import Snapshot, Watch, pack, unpack_from_trainer
from videoload.transport.watching import watch

pytestmark = pytest.mark.timeout(160 * SECOND)

CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=3)
BATCH = 3


def test_top_shows_what_happens_and_changes_nothing(
    videos: Videos, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(workers=1, listen="tcp://127.0.0.1:*", metrics_port=0) as client:
        client.wait_for_workers(1, 60 * SECOND)
        stream = client.stream(videos.catalog, CLIP, BATCH)
        reader = stream.batches(epochs=2, info=True)
        got = digests(islice(reader, len(stream) + 2))
        seen = record_in(watch(client.endpoints[0]))
        [line], [worker] = seen.streams, seen.workers
        assert (line.step, line.batches_per_epoch) == (len(stream) + 1, len(stream))
        assert (line.readers, line.slots > 2, line.bad) == (1, True, 0)
        assert (worker.name, worker.last_error) == (client.workers[0].name, "")
        assert worker.clips >= len(got) * BATCH
        assert line.stats.slowest_files[0].path in [video.path for video in videos.catalog]
        top.run(client.endpoints[0], keys=None, insecure=False, every_s=1, json=True)
        told = json.loads(capsys.readouterr().out)
        assert told["streams"][0]["step"] == len(stream) + 1
        top.run(client.endpoints[0], keys=None, insecure=False, every_s=1, json=False)
        assert f"epoch 2, batch 2 of {len(stream)}" in capsys.readouterr().out
        page = f"http://127.0.0.1:{client.metrics_port}/"
        top.run(page, keys=None, insecure=False, every_s=1, json=False)
        assert f"epoch 2, batch 2 of {len(stream)}" in capsys.readouterr().out
        assert len(client.workers) == 1, "a watcher is not a worker"
        got += digests(reader)
    serial = decode_serially(videos.catalog, CLIP, BATCH, epochs=2, info=True)
    assert got == digests(serial)
    with pytest.raises(TransportError, match="no trainer shows itself at http"):
        top.run(page, keys=None, insecure=False, every_s=1, json=False)


def test_a_trainer_with_keys_answers_nobody_without_one(videos: Videos, tmp_path: Path) -> None:
    keys, own = make_keys(tmp_path / "keys")
    _, others = make_keys(tmp_path / "others")
    with Client(workers=0, listen="tcp://127.0.0.1:*", keys=keys) as client:
        endpoint = client.endpoints[0]
        assert record_in(watch(endpoint, keys=own)).workers == ()
        for wrong in (None, others):
            with pytest.raises(TransportError, match=r"cannot be reached \(or"):
                watch(endpoint, keys=wrong, timeout_s=0.5 * SECOND)


def test_endless_questions_are_answered_at_a_limited_rate() -> None:
    with (
        Client(workers=0, listen="tcp://127.0.0.1:*") as client,
        dealer(client.endpoints[0], linger_ms=0) as asking,
    ):
        began, answers = time.monotonic(), 0
        while time.monotonic() - began < 0.5 * SECOND or not answers:
            asking.send_multipart(pack(Watch()))
            time.sleep(0.002)
            while asking.poll(0, zmq.POLLIN):
                answers += isinstance(unpack_from_trainer(asking.recv_multipart()), Snapshot)
        # Twenty a second, and this process may have slept since it looked at the clock.
        assert answers <= 2 + 20 * (time.monotonic() - began)
        assert record_in(watch(client.endpoints[0])).streams == (), "others are answered as well"


def test_if_nobody_listens_one_line_says_so(programs: Programs) -> None:
    with pytest.raises(TransportError, match=r"tcp://127\.0\.0\.1:1 cannot be reached"):
        watch("tcp://127.0.0.1:1", timeout_s=0.3 * SECOND)
    program = programs.videoload("top", "tcp://127.0.0.1:*", "--json")
    assert program.wait(60 * SECOND) == 1
    assert program.err == "videoload: cannot dial tcp://127.0.0.1:*: it names no port\n"
