"""A root that is away stops its own streams, and these go on when it is back."""

import shutil
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.digests import digests
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
            wait_until(lambda: "mount it again" in caplog.text, 60 * SECOND)
            assert digests(other.batches(epochs=1)) == sound
            assert str(root) in away.stats().verdict
            assert str(root) not in other.stats().verdict
        assert got + rest.result(60 * SECOND) == expected


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
