"""Workers whose folders are not the trainer's: nothing that one of them has, lacks or says changes
a byte, condemns a video or ends a training."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import SECOND, Programs, digests
from tests.videos import Videos, make_avi
from videoload import Catalog, Client, ClipSpec, decode_serially

pytestmark = pytest.mark.timeout(60 * SECOND)

CLIP = ClipSpec(frames=4, stride=2, resize=32, size=(32, 32), sampling="random", clips_per_video=4)
BATCH, EPOCHS = 4, 3


def empty(root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()


def half(root: Path) -> None:
    for file in sorted(root.rglob("*.avi"))[::2]:
        file.unlink()


def cut(root: Path) -> None:
    file = root / "jump/long.avi"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def zeros(root: Path) -> None:
    file = root / "jump/long.avi"
    data = file.read_bytes()
    file.write_bytes(data[: -len(data) // 3].ljust(len(data), b"\0"))


def other_take(root: Path) -> None:
    make_avi(root / "jump/long.avi", frames=110, seed=9)


def unreadable(root: Path) -> None:
    for file in root.rglob("*.avi"):
        file.write_bytes(b"not a video")


@pytest.fixture
def copy(videos: Videos, tmp_path: Path) -> Callable[[Callable[[Path], None]], Path]:
    def made(spoil: Callable[[Path], None]) -> Path:
        root = tmp_path / "copy"
        shutil.copytree(videos.root, root)
        spoil(root)
        return root

    return made


def catalog_of(videos: Videos, *, own: bool) -> Catalog:
    """With the trainer's own copy, or without."""
    if own:
        return videos.catalog
    known = videos.catalog
    return Catalog([v.path for v in known], known.labels, known.classes, None)


@pytest.mark.parametrize("spoil", [empty, half, cut, zeros, other_take, unreadable])
def test_a_worker_of_another_folder_changes_nothing_and_condemns_nothing(
    spoil: Callable[[Path], None],
    videos: Videos,
    copy: Callable[[Callable[[Path], None]], Path],
    programs: Programs,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    expected = digests(
        decode_serially(videos.catalog, CLIP, BATCH, epochs=EPOCHS, info=True, shuffle=True, seed=2)
    )
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        [endpoint] = client.endpoints
        programs.worker(endpoint, videos.root)
        bad = programs.worker(endpoint, copy(spoil))
        client.wait_for_workers(2, 20 * SECOND)
        stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True, seed=2)
        assert digests(stream.batches(epochs=EPOCHS, info=True)) == expected
        assert stream.quarantine == []
        who = {worker.pid: worker for worker in client.workers}
    if spoil in (cut, zeros, other_take):
        assert "copy of jump/long.avi is another one" in caplog.text
        assert f":{bad.pid}" in caplog.text
    if spoil is empty:
        assert bad.pid not in who or who[bad.pid].clips == 0


@pytest.mark.parametrize("spoil", [cut, zeros, other_take])
def test_without_an_own_copy_the_majority_counts(
    spoil: Callable[[Path], None],
    videos: Videos,
    copy: Callable[[Callable[[Path], None]], Path],
    programs: Programs,
    tmp_path: Path,
) -> None:
    shutil.copytree(videos.root, tmp_path / "third")
    expected = digests(
        decode_serially(videos.catalog, CLIP, BATCH, epochs=EPOCHS, info=True, shuffle=True)
    )
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        [endpoint] = client.endpoints
        for root in (copy(spoil), videos.root, tmp_path / "third"):
            programs.worker(endpoint, root)
        client.wait_for_workers(3, 20 * SECOND)
        stream = client.stream(catalog_of(videos, own=False), CLIP, BATCH, shuffle=True)
        assert digests(stream.batches(epochs=EPOCHS, info=True)) == expected
        assert stream.quarantine == []


def test_a_file_that_nobody_can_decode_is_bad_whoever_is_asked(
    videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    roots = [tmp_path / name for name in ("one", "two")]
    for root in roots:
        shutil.copytree(videos.root, root)
        (root / "jump/one_frame.avi").write_bytes(b"not a video")
    catalog = Catalog.from_folder(roots[0])
    reference = decode_serially(catalog, CLIP, BATCH, epochs=2, info=True, max_bad=0.5)
    expected = digests(reference)
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        for root in roots:
            programs.worker(client.endpoints[0], root)
        client.wait_for_workers(2, 20 * SECOND)
        stream = client.stream(catalog, CLIP, BATCH, max_bad=0.5)
        assert digests(stream.batches(epochs=2, info=True)) == expected
        assert [video.path for video in stream.quarantine] == ["jump/one_frame.avi"]


def test_a_file_that_changes_everywhere_during_a_training_is_taken_as_it_is_now(
    programs: Programs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    make_avi(tmp_path / "videos/class/a.avi", frames=30)
    catalog = Catalog.from_folder(tmp_path / "videos")
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        programs.worker(client.endpoints[0], tmp_path / "videos")
        stream = client.stream(catalog, CLIP, 1, slots=2)
        batches = stream.batches(epochs=20, info=True)
        next(batches)
        make_avi(tmp_path / "new.avi", frames=40, seed=3).replace(tmp_path / "videos/class/a.avi")
        rest = digests(batches)
        expected = digests(decode_serially(catalog, CLIP, 1, epochs=20, info=True))
        assert rest[-20:] == expected[-20:]
        assert stream.quarantine == []
    assert "class/a.avi has changed" in caplog.text
