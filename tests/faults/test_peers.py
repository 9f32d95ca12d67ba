"""A message that cannot be handled costs its sender the connection, and affects nobody else."""

import re
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import videoload
from tests.faults.raw_peers import answer, dealer, hello, say
from tests.support.digests import digests
from tests.support.programs import Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND
from videoload import Client, ClipSpec, StorageError, decode_serially
from videoload.decoding.software import software_and_code
from videoload.engine.membership import Admission
from videoload.wire.messages import Bye, Hello, Lease, Refused, Welcome

pytestmark = pytest.mark.xdist_group("peers")

CLIP = ClipSpec(frames=4, stride=2, resize=32, size=(32, 32))
BATCH = 4


@pytest.fixture(scope="module")
def listening() -> Iterator[Client]:
    with Client(workers=1, listen="tcp://127.0.0.1:*") as client:
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        yield client


def test_a_message_that_meets_a_defect_affects_only_its_sender(
    listening: Client,
    videos: Videos,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    remote = Admission.remote

    def broken(admission: Admission[object], peer: object, hello: Hello, now: float) -> object:
        if hello.host == "poison":
            raise OverflowError("a defect")
        return remote(admission, peer, hello, now)

    monkeypatch.setattr(Admission, "remote", broken)
    expected = digests(decode_serially(videos.catalog, CLIP, BATCH, epochs=2))
    stream = listening.stream(videos.catalog, CLIP, BATCH)
    batches = stream.batches(epochs=2)
    got = [next(batches)]
    with dealer(listening.endpoints[0]) as made:
        say(made, Hello("w", "poison", 1, software_and_code()))
        refused = answer(made)
    got += batches
    assert digests(got) == expected
    assert isinstance(refused, Refused)
    assert len([record for record in caplog.records if record.exc_info]) == 1


def test_streams_end_if_no_worker_can_read_the_videos_for_as_long_as_was_said(
    videos: Videos, caplog: pytest.LogCaptureFixture
) -> None:
    why = "s3://b refuses all requests for 30 s: 403 Forbidden; renew the credentials"
    with (
        ThreadPoolExecutor(1) as pool,
        Client(workers=0, listen="tcp://127.0.0.1:*", storage_timeout_s=0.5) as client,
        dealer(client.endpoints[0]) as made,
    ):
        stream = client.stream(videos.catalog, CLIP, BATCH)
        first = pool.submit(next, iter(stream))
        say(made, hello())
        assert isinstance(answer(made), Welcome)
        assert isinstance(answer(made), Lease)
        began = time.monotonic()
        say(made, Bye(why, storage_unavailable=True))
        with pytest.raises(StorageError) as ended:
            first.result(30 * SECOND)
        assert why in str(ended.value)
        assert "0.5 s" in str(ended.value)
        assert time.monotonic() - began > 0.5
        assert stream.error is ended.value or str(stream.error) == str(ended.value)
    assert why in caplog.text


@pytest.mark.slow
def test_a_worker_of_other_code_is_refused_and_both_sides_say_why(
    videos: Videos, programs: Programs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    package = tmp_path / "videoload"
    shutil.copytree(Path(videoload.__file__).parent, package)
    draws = package / "clips/windows.py"
    draws.write_text(draws.read_text() + "# one more line\n")
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        flags = ("worker", "--connect", client.endpoints[0], "--root", str(videos.root))
        other = programs.python(
            "-P", "-m", "videoload", *flags, "--workers", "1", env={"PYTHONPATH": str(tmp_path)}
        )
        other.wait_for("refuses", 30 * SECOND)
        assert client.workers == ()
    why = re.findall(r"refuses [^:]*: (.+)", other.err)[0]
    assert any(why in line for line in caplog.messages)
