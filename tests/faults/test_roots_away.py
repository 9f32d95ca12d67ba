"""A root that is away stops its own streams, and these go on when it is back."""

import shutil
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.digests import digests
from tests.support.ports import free_port
from tests.support.programs import Programs
from tests.support.scrapes import get
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, Client, ClipSpec, StorageError, decode_serially

pytestmark = pytest.mark.xdist_group("roots away")

CLIP = ClipSpec(frames=4, resize=32, size=(32, 32), crop="center")
BATCH = 2


@contextmanager
def unmounted(root: Path) -> Iterator[None]:
    """Meanwhile, the folder is empty."""
    away = root.rename(root.with_suffix(".away"))
    root.mkdir()
    try:
        yield
    finally:
        root.rmdir()
        away.rename(root)


def test_a_root_that_is_away_stops_no_stream_of_another_one_and_goes_on_when_it_is_back(
    videos: Videos, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = shutil.copytree(videos.root, tmp_path / "root")
    catalog = Catalog.from_folder(root)
    expected = digests(decode_serially(catalog, CLIP, BATCH, epochs=40))
    sound = digests(decode_serially(videos.catalog, CLIP, BATCH))
    with ThreadPoolExecutor(1) as pool, Client(workers=1, cache=False) as client:
        away, other = (
            client.stream(catalog, CLIP, BATCH),
            client.stream(videos.catalog, CLIP, BATCH),
        )
        batches = away.batches(epochs=40)
        got = digests([next(batches)])
        with unmounted(root):
            rest = pool.submit(lambda: digests(batches))
            wait_until(lambda: f"has read {root} for" in caplog.text, 60 * SECOND)
            assert digests(other.batches(epochs=1)) == sound
            assert str(root) in away.stats().verdict
            assert str(root) not in other.stats().verdict
        assert got + rest.result(60 * SECOND) == expected
        wait_until(lambda: f"{root} is read again" in caplog.text, 60 * SECOND)
        assert caplog.text.count(f"has read {root} for") == 1
        assert "o worker could read" in away.stats().verdict, "most of the wait, or a part of it"


def test_the_reference_says_that_its_root_is_not_mounted(videos: Videos, tmp_path: Path) -> None:
    root = shutil.copytree(videos.root, tmp_path / "root")
    catalog = Catalog.from_folder(root)
    batches = decode_serially(catalog, CLIP, BATCH, epochs=2)
    next(batches)
    with unmounted(root):
        for each in (batches, decode_serially(catalog, CLIP, BATCH)):
            with pytest.raises(StorageError, match=str(root)):
                next(each)


def test_a_root_that_is_gone_before_a_worker_looks_is_waited_for(
    videos: Videos, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = shutil.copytree(videos.root, tmp_path / "root")
    catalog = Catalog.from_folder(root)
    expected = digests(decode_serially(catalog, CLIP, BATCH))
    away = root.rename(tmp_path / "away")
    with pytest.raises(StorageError, match=str(root)):
        next(decode_serially(catalog, CLIP, BATCH))
    with ThreadPoolExecutor(1) as pool, Client(workers=1, cache=False) as client:
        got = pool.submit(digests, client.stream(catalog, CLIP, BATCH))
        wait_until(lambda: "mount it again" in caplog.text, 60 * SECOND)
        away.rename(root)
        assert got.result(60 * SECOND) == expected


def test_a_worker_whose_root_is_not_mounted_is_not_ready(
    videos: Videos, tmp_path: Path, programs: Programs
) -> None:
    root, port = shutil.copytree(videos.root, tmp_path / "root"), free_port()

    def is_ready() -> bool:
        return get(port, "/readyz")[0] == 200 and "storage_refused 0.0" in get(port, "/metrics")[1]

    def waits_for_root() -> bool:
        says_so = "mounted" in get(port, "/readyz")[1]
        return says_so and "storage_refused 1.0" in get(port, "/metrics")[1]

    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        stream = client.stream(videos.catalog, CLIP, BATCH)
        with unmounted(root):  # when it begins
            worker = programs.worker(client.endpoints[0], root, "--metrics-port", str(port))
            wait_until(lambda: "metrics are served" in worker.err, 60 * SECOND)
            wait_until(waits_for_root, 60 * SECOND)
        wait_until(is_ready, 60 * SECOND)
        with unmounted(root):  # when it is idle
            wait_until(waits_for_root, 60 * SECOND)
        wait_until(is_ready, 60 * SECOND)
        batches = stream.batches(epochs=40)
        got = digests([next(batches)])
        with ThreadPoolExecutor(1) as pool, unmounted(root):  # at a lease
            rest = pool.submit(digests, batches)
            wait_until(lambda: worker.err.count("mount it again") == 3, 60 * SECOND)
            wait_until(waits_for_root, 60 * SECOND)
        expected = digests(decode_serially(videos.catalog, CLIP, BATCH, epochs=40))
        assert got + rest.result(60 * SECOND) == expected
        wait_until(is_ready, 60 * SECOND)


def test_a_root_that_was_away_for_a_moment_is_not_away_when_it_is_read_again(
    videos: Videos, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = shutil.copytree(videos.root, tmp_path / "root")
    limit_s = 0.5 * SECOND
    with Client(workers=1, storage_timeout_s=limit_s, cache=False) as client:
        stream = client.stream(Catalog.from_folder(root), CLIP, BATCH)

        def note_down() -> bool:
            return str(root) in stream.stats().verdict

        with ThreadPoolExecutor(1) as pool:
            batches = stream.batches(epochs=1000)
            next(batches)
            with unmounted(root):
                wait_until(note_down, 60 * SECOND)
                assert isinstance(batches, Generator)
                batches.close()
            wait_until(lambda: not note_down(), 60 * SECOND, "nobody reads it")
            assert len(list(stream.batches(epochs=1))) == len(stream)
            with unmounted(root):
                ended = pool.submit(list, stream.batches(epochs=1000))
                with pytest.raises(StorageError, match="mount it again"):
                    ended.result(60 * SECOND)
