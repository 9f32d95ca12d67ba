"""Every stream equals the serial one: whatever is asked for, wherever the files lie, whoever reads,
and whatever happens to the workers.

The promise of the whole product, tried in one place: catalogs, specs and options (`tests.support.
cases`) x where the bytes are (a folder, a server, kept files or frames) x who reads (a loop,
PyTorch, tf.data, Keras) x what happens (a worker is killed, stopped, leaves, has another copy; the
reader resumes, or reads a shard). All of it is drawn. The seeds of a run are in the names of its
tests, and begin at VIDEOLOAD_TEST_SEED where it is set: a name that failed is tried again with

    VIDEOLOAD_TEST_SEED=1234567 pytest 'tests/integration/test_matrix.py'
"""

import os
import random
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import videoload as vl
from tests.support import cases
from tests.support.digests import digests
from tests.support.programs import Program, Programs
from tests.support.servers import objects
from tests.support.thorough import either
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND
from videoload.tools.indexing import make_index

pytestmark = pytest.mark.slow

Served = tuple[str, str]
FIRST = int(os.environ["VIDEOLOAD_TEST_SEED"])  # tests/conftest.py draws it
EPOCHS = 2
SOURCES = ("a folder", "a folder", "a server", "an index", "kept files", "kept frames")
FAULTS = ("none", "kill", "stop", "leave", "another copy", "a shard")


@pytest.fixture(scope="module")
def served(videos: Videos, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server, and the index of its files."""
    folder = tmp_path_factory.mktemp("index")
    with objects(videos.root, "walk/gop12.avi") as server:
        catalog = vl.Catalog(list(videos.frames), root=server.url)
        made = make_index(catalog, str(folder / "index"), processes=1, cache=str(folder))
        yield server.url, made.where


@pytest.fixture(scope="module")
def other_copies(videos: Videos, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one video is another take, one is cut, and one is missing."""
    root = tmp_path_factory.mktemp("other") / "videos"
    shutil.copytree(videos.root, root)
    make_avi(root / "jump/long.avi", frames=110, seed=9)
    whole = (root / "walk/gop12.avi").read_bytes()
    (root / "walk/gop12.avi").write_bytes(whole[: len(whole) // 2])
    (root / "run/mjpeg.avi").unlink()
    return root


class Happening:
    """What happens to the workers while a stream is read, once, after a drawn number of batches."""

    def __init__(self, what: str, client: vl.Client, leaving: Program | None, after: int) -> None:
        self._what, self._client, self._leaving, self._after = what, client, leaving, after

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches, and between two of them what happens."""
        for number, batch in enumerate(batches):
            if number == self._after:
                self._happen()
            yield batch
            del batch  # it would keep its slot

    def _happen(self) -> None:
        if self._what == "leave" and self._leaving is not None:
            self._leaving.signal(signal.SIGTERM)
        elif self._what in ("kill", "stop"):
            pid = self._client.workers[0].pid
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if self._what == "kill" else signal.SIGSTOP)
            if self._what == "stop":
                threading.Timer(0.3 * SECOND, _go_on, [pid]).start()


def _go_on(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


Drawn = tuple[vl.Client, cases.Case, cases.Case, Happening]
SetUp = Callable[[int], AbstractContextManager[Drawn]]


@pytest.fixture
def set_up(
    videos: Videos, served: Served, other_copies: Path, programs: Programs, tmp_path: Path
) -> SetUp:
    """Sets up a case by its seed."""
    return lambda seed: _set_up(seed, videos, served, other_copies, programs, tmp_path)


@contextmanager
def _set_up(
    seed: int,
    videos: Videos,
    served: Served,
    other_copies: Path,
    programs: Programs,
    tmp_path: Path,
) -> Iterator[Drawn]:
    """A client with workers, the case as the reference and as the stream reads it, and what
    happens."""
    r = random.Random(seed)
    source, fault = r.choice(SOURCES), r.choice(FAULTS)
    url, index = served
    root: Path | str = url if source in ("a server", "an index", "kept files") else videos.root
    here, there = (cases.draw(seed, cases.Files(at, videos.frames)) for at in (videos.root, root))
    if fault == "a shard":
        world = r.randint(2, 3)
        for case in (here, there):
            case.options["shard"] = (world - 1, world)
    kept: dict[str, dict[str, Any]] = {
        "kept frames": {"frame_store": tmp_path / "kept", "frame_store_gb": 0.02},
        "kept files": {
            "file_cache": Path(index).parent / "kept",
            "file_cache_gb": 0.002,
        },  # of all tests
    }
    print(f"{source}, {fault}: {there}")  # pytest shows it if the test fails
    with vl.Client(
        workers=2,
        listen="tcp://127.0.0.1:*",
        index=index if source == "an index" else None,
        **kept.get(source, {}),
    ) as client:
        leaving = None
        if fault in ("leave", "another copy"):
            copy = other_copies if fault == "another copy" else root
            words = ("--allow", "tests.support.transforms")
            leaving = programs.worker(client.endpoints[0], copy, *words)
        client.wait_for_workers(3 if leaving else 2, timeout_s=60 * SECOND)
        yield client, here, there, Happening(fault, client, leaving, r.randrange(4))
        assert not client.closed


def serial(case: cases.Case) -> list[Any]:
    return list(
        vl.decode_serially(case.catalog, case.clip, epochs=EPOCHS, info=True, **case.options)
    )


@pytest.mark.parametrize("seed", range(FIRST, FIRST + either(16, 200)))
def test_every_stream_equals_the_serial_one(seed: int, set_up: SetUp) -> None:
    r = random.Random(-seed)
    with set_up(seed) as (client, here, there, h):
        try:
            batches = serial(here)
        except vl.VideoloadError as error:
            with pytest.raises(type(error)):
                list(client.stream(there.catalog, there.clip, **there.options))
            return
        ordered = r.random() < 0.8
        stream = client.stream(there.catalog, there.clip, ordered=ordered, **there.options)
        begin = r.randrange(EPOCHS * len(stream) + 1) if ordered and r.random() < 0.5 else 0
        expected = digests(batch for batch in batches if batch[2].step >= begin)
        got = digests(h(stream.batches(begin, epochs=EPOCHS, info=True)))
        if ordered:
            assert got == expected
        else:
            assert sorted(got) == sorted(expected)
        parts = there.clip.values() if isinstance(there.clip, dict) else [there.clip]
        planes = any(part.pixels == "yuv420p" for part in parts)  # they become RGB
        if find_spec("torch") and ordered and not planes:
            import torch

            passes = [vl.torch.batches(stream, dtype=torch.uint8, layout="BTHWC") for _ in "01"]
            assert_same((batch for each in passes for batch in h(each)), batches)


@pytest.mark.parametrize("seed", range(-FIRST - either(6, 60), -FIRST))
def test_every_dataset_and_sequence_equals_the_serial_stream(
    seed: int, tf: Any, set_up: SetUp
) -> None:
    with set_up(seed) as (client, here, there, h):
        try:
            expected = serial(here)
        except vl.VideoloadError:
            return  # the test above compares what is said
        stream = client.stream(there.catalog, there.clip, **there.options)
        begin = random.Random(-seed).randrange(EPOCHS * len(stream) + 1)
        dataset = stream.dataset(begin, epochs=EPOCHS)
        rest = [batch for batch in expected if batch[2].step >= begin]
        assert_same(h(dataset.as_numpy_iterator()), rest)
        shapes = {str(shapes_of(clips)) for clips, *_ in expected}
        if len(shapes) == 1 and "on_error" not in there.options:
            sequence = stream.sequence()
            assert_same((sequence[at] for at in range(len(sequence))), expected[: len(sequence)])


def shapes_of(clips: Any) -> list[tuple[int, ...]]:
    """The shapes of the clips of a batch."""
    parts = clips.values() if isinstance(clips, dict) else [clips]
    return [part.shape[1:] for part in parts]


def assert_same(batches: Iterable[Any], expected: list[Any]) -> None:
    """Clips and labels are those of the reference, bit by bit."""
    count = 0
    for (clips, labels), (pixels, numbers, *_) in zip(batches, expected, strict=True):
        for got, wanted in ((clips, pixels), (labels, numbers)):
            assert isinstance(got, dict) == isinstance(wanted, dict)
            names = wanted if isinstance(wanted, dict) else [""]
            for name in names:
                one, other = (each[name] if name else each for each in (got, wanted))
                one = np.asarray(one)
                if one.dtype == object:  # TensorFlow's text is bytes
                    one = np.array(
                        [each if isinstance(each, str) else each.decode() for each in one.flat]
                    ).reshape(one.shape)
                np.testing.assert_array_equal(one, other)
        count += 1
        del clips, labels
    assert count == len(expected)
