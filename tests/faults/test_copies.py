"""Workers whose folders are not the trainer's. Nothing that one of them has, lacks or says changes
a byte, condemns a video or ends a training."""

import logging
import shutil
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.faults.liars import Liar
from tests.support.digests import digests
from tests.support.programs import Programs
from tests.support.thorough import rest_nightly
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND, in_background, wait_until
from videoload import Catalog, Client, ClipSpec, decode_serially
from videoload.tools.scan import scan

CLIP = ClipSpec(frames=4, stride=2, resize=32, size=(32, 32), sampling="random", clips_per_video=4)
BATCH, EPOCHS = 4, 2
ORDER: dict[str, Any] = {"shuffle": True, "seed": 2}
LONG = "jump/long.avi"


def eight_other_bytes(root: Path) -> None:
    data = bytearray((root / LONG).read_bytes())
    for at in range(len(data) // 3, len(data) // 3 + 8):
        data[at] ^= 255
    (root / LONG).write_bytes(data)


@pytest.fixture(scope="module")
def expected(videos: Videos) -> list[str]:
    """The digests of the batches of the good videos."""
    batches = decode_serially(videos.catalog, CLIP, BATCH, epochs=EPOCHS, info=True, **ORDER)
    return digests(batches)


@pytest.fixture
def copies(videos: Videos, tmp_path: Path) -> list[Path]:
    """Two folders with a copy of all videos."""
    return [Path(shutil.copytree(videos.root, tmp_path / name)) for name in ("one", "other")]


def catalog_of(videos: Videos, *, own: bool) -> Catalog:
    """A catalog with or without the trainer's own copy."""
    if own:
        return videos.catalog
    known = videos.catalog
    return Catalog([v.path for v in known], known.labels, known.classes, None)


def test_what_a_scan_found_tells_which_copy_is_right(
    videos: Videos,
    expected: list[str],
    copies: list[Path],
    programs: Programs,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    root, table = copies[0], tmp_path / "scan.csv"
    eight_other_bytes(root)
    scan(videos.catalog, processes=1, output=table)
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client, ThreadPoolExecutor() as pool:
        programs.worker(client.endpoints[0], root)  # the first: its copy would be pinned
        stream = client.stream(Catalog.from_table(table), CLIP, BATCH, **ORDER)
        reading = pool.submit(digests, stream.batches(epochs=EPOCHS, info=True))
        wait_until(lambda: LONG in caplog.text and str(root) in caplog.text, 30 * SECOND)
        programs.worker(client.endpoints[0], videos.root)
        assert reading.result() == expected
        assert stream.quarantine == []
    assert LONG in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("who", ["local", "of the same folder", "of another folder"])
def test_a_file_that_changes_everywhere_during_a_training_is_taken_as_it_is_now(
    who: str, programs: Programs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    own, others = tmp_path / "videos", tmp_path / "others"
    make_avi(own / "class/a.avi", frames=30)
    shutil.copytree(own, others)
    catalog = Catalog.from_folder(own)
    with Client(workers=int(who == "local"), listen="tcp://127.0.0.1:*") as client:
        if who != "local":
            root = own if who == "of the same folder" else others
            programs.worker(client.endpoints[0], root)
        stream = client.stream(catalog, CLIP, 1, slots=2)
        batches = stream.batches(epochs=12, info=True)
        next(batches)
        new = make_avi(tmp_path / "new.avi", frames=40, seed=3)
        for root in (own, others):
            shutil.copy(new, tmp_path / "copy.avi")
            (tmp_path / "copy.avi").replace(root / "class/a.avi")
        rest = digests(batches)
        expected = digests(decode_serially(catalog, CLIP, 1, epochs=12, info=True))
        assert rest[-8:] == expected[-8:]
        assert stream.quarantine == []
        assert stream.changed == ["class/a.avi"]
    assert "class/a.avi" in caplog.text


LIES: dict[str, tuple[str, dict[str, Any]]] = {
    "fewer frames": ("failed", {"reason": "segment starts at frame 0, the video has 0", "file": 0}),
    "short": ("failed", {"reason": "has 2 frames, a clip spans 7", "fault": "short", "file": 0}),
    "fatal": ("failed", {"reason": "cannot be imported", "fault": "function", "at": 0, "file": 0}),
    "another file": ("result", {}),
    "the told file": ("result", {"files": None}),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lie", "own", "liars"),
    rest_nightly(
        [
            *[("the told file", True, 1), ("fewer frames", False, 3), ("short", True, 3)],
            *[("fatal", False, 1), ("another file", True, 1), ("fewer frames", True, 3)],
            *[("short", False, 1), ("fatal", True, 2), ("fatal", False, 3)],
        ],
        usual=4,
    ),
)
def test_workers_that_lie_about_files_change_no_byte_and_condemn_none(
    lie: str, own: bool, liars: int, videos: Videos, expected: list[str], programs: Programs,
    tmp_path: Path,
) -> None:  # fmt: skip
    kind, fields = LIES[lie]
    answers: Counter[str] = Counter()
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client, ExitStack() as stack:
        programs.worker(client.endpoints[0], videos.root)
        if not own:
            shutil.copytree(videos.root, tmp_path / "other")
            programs.worker(client.endpoints[0], tmp_path / "other")
        client.wait_for_workers(1 if own else 2, 30 * SECOND)

        def answer(name: str, over: threading.Event) -> None:
            with Liar(client.endpoints[0], name) as liar:
                while not over.is_set():
                    liar.hear(20)
                    liar.say("heartbeat")
                    for lease in list(liar.leases.values()):
                        of_lease: dict[str, Any] = {"files": lease.files, "at": len(lease.clips)}
                        liar.say(kind, **{f: of_lease.get(f, told) for f, told in fields.items()})
                        answers[name] += 1

        for number in range(liars):
            stack.enter_context(in_background(partial(answer, f"liar{number}")))
        client.wait_for_workers(liars + (1 if own else 2), 30 * SECOND)
        stream = client.stream(catalog_of(videos, own=own), CLIP, BATCH, **ORDER)
        assert digests(stream.batches(epochs=EPOCHS, info=True)) == expected
        assert stream.quarantine == []
    assert len(answers) == liars, "they got leases"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "part"),
    rest_nightly(
        product(("local", "of another folder", "of the same folder"), (".", "jump")), usual=2
    ),
)
def test_a_folder_that_is_away_for_a_while_is_waited_for(
    who: str,
    part: str,
    videos: Videos,
    expected: list[str],
    copies: list[Path],
    programs: Programs,
    caplog: pytest.LogCaptureFixture,
) -> None:
    own, other = copies
    with Client(workers=2 * (who == "local"), listen="tcp://127.0.0.1:*") as client:
        if who != "local":
            programs.worker(client.endpoints[0], other if who == "of another folder" else own)
        client.wait_for_workers(1, 30 * SECOND)
        root = other if who == "of another folder" else own
        stream = client.stream(Catalog.from_folder(own), CLIP, BATCH, slots=2, **ORDER)
        batches = stream.batches(epochs=EPOCHS, info=True)
        got = digests([next(batches)])
        folder = root / part  # is emptied, as one that is unmounted
        away = folder.rename(root.with_name("away"))
        folder.mkdir()
        with ThreadPoolExecutor() as pool:
            rest = pool.submit(digests, batches)
            try:
                wait_until(lambda: str(folder) in caplog.text, 30 * SECOND)
            finally:
                away.rename(folder)
            assert got + rest.result() == expected
        assert stream.quarantine == []
