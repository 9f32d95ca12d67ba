"""Streams of files below a URL: the same bytes, whichever worker decodes and whatever fails."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.digests import digest
from tests.support.object_server import ObjectServer
from tests.support.programs import Programs
from tests.support.servers import objects
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, Client, ClipSpec, decode_serially

pytest.importorskip("obstore", reason="needs videoload[remote]")

SPEC = ClipSpec(frames=6, stride=2, resize=40, size=(32, 32), sampling="random", short="hold")


@pytest.fixture(scope="module")
def server(videos: Videos) -> Iterator[ObjectServer]:
    with objects(videos.root, "walk/b_frames.avi", 0.01) as made:
        yield made


def at(videos: Videos, root: str | Path) -> Catalog:
    catalog = videos.catalog
    paths = [video.path for video in catalog]
    return Catalog(paths, catalog.labels, catalog.classes, root)


@pytest.mark.parametrize("status", [503, 403])
def test_local_workers_read_from_a_server_and_a_fault_is_a_stall_that_the_verdict_names(
    videos: Videos, server: ObjectServer, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr("videoload.engine.verdict.STALLED_S", 0.2)
    reference = digest(decode_serially(videos.catalog, SPEC, 2, shuffle=True, epochs=2, info=True))
    with Client(workers=1) as client:
        stream = client.stream(at(videos, server.url), SPEC, 2, shuffle=True)
        server.fault = status

        def repair() -> None:
            try:
                wait_until(lambda: f"{server.url}: {status}" in stream.stats().verdict, 30 * SECOND)
            finally:
                server.fault = None

        healing = threading.Thread(target=repair)
        healing.start()
        try:
            assert digest(stream.batches(epochs=2, info=True)) == reference
        finally:
            healing.join()
        assert stream.quarantine == []


@pytest.mark.slow
def test_a_file_that_changes_in_a_bucket_is_named(
    videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    shutil.copytree(videos.root, tmp_path / "bucket")
    with (
        ObjectServer(tmp_path / "bucket", 0.0) as server,
        Client(workers=0, listen="tcp://127.0.0.1:*") as client,
    ):
        worker = programs.worker(client.endpoints[0], server.url)
        stream = client.stream(at(videos, server.url), SPEC, 2, slots=2)  # not much is read ahead
        list(stream)
        assert stream.changed == []
        worker.end()
        file = tmp_path / "bucket/walk/gop12.avi"
        shutil.copy(file.with_name("b_frames.avi"), file)
        programs.worker(client.endpoints[0], server.url)
        list(stream)
        assert stream.changed == ["walk/gop12.avi"]
        assert stream.quarantine == []


@pytest.mark.slow
def test_a_worker_whose_server_does_not_answer_leaves_its_clips_to_others(
    videos: Videos, server: ObjectServer, programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    reference = digest(decode_serially(videos.catalog, SPEC, 2, shuffle=True))
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        server.fault = 503
        try:
            away = programs.impatient_worker(client.endpoints[0], server.url)
            client.wait_for_workers(1, timeout_s=60 * SECOND)
            stream = client.stream(videos.catalog, SPEC, 2, shuffle=True)
            batches = iter(stream)
            got: list[object] = []
            reader = threading.Thread(target=lambda: got.append(digest(batches)))
            reader.start()
            away.wait_for("waiting for the videos", 60 * SECOND)
            programs.worker(client.endpoints[0], videos.root)
            reader.join(30 * SECOND)
            said = away.err
        finally:
            server.fault = None
        away.wait_for("can be read again", 60 * SECOND)
        assert got == [reference]
        assert "cannot be reached" not in said, "the trainer could be reached all the time"
        told = [line for line in caplog.messages if "503" in line]
        assert told
        assert all(server.url in line for line in told)
        assert stream.quarantine == []


def test_a_root_that_cannot_be_listed_or_holds_a_secret_is_refused_in_one_line(
    programs: Programs, server: ObjectServer
) -> None:
    done = programs.videoload("scan", server.url)
    assert done.wait(60 * SECOND) == 1
    assert f"videoload: {server.url} " in done.err
    done = programs.worker("tcp://127.0.0.1:5555", "s3://me:hunter2@bucket/x")
    assert done.wait(60 * SECOND) == 1
    assert "environment" in done.err
    assert "hunter2" not in done.err
