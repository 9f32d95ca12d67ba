"""The native size is looked up in a process of its own, so that no file can crash the trainer."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.processes import children_of
from tests.support.videos import make_avi
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec, VideoError
from videoload.clips.clip_spec import at_native_size

pytestmark = pytest.mark.timeout(180 * SECOND)

NATIVE = ClipSpec(frames=4)
SHOWN = replace(NATIVE, sampling="center")  # as in a stream that is not shuffled


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    make_avi(tmp_path / "x/a.avi", frames=12, size=(70, 90))
    make_avi(tmp_path / "x/b.avi", frames=12, size=(80, 100))
    return Catalog.from_folder(tmp_path)


@contextmanager
def held(path: Path, opened: Callable[[], None]) -> Iterator[None]:
    """A process that opens the file waits for it, as for storage that does not answer. ``opened``
    is called in the main thread when that happens."""
    before = signal.signal(signal.SIGIO, lambda *_: opened())
    file = os.open(path, os.O_RDWR)
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield
    finally:
        os.close(file)
        signal.signal(signal.SIGIO, before)


@pytest.mark.slow
def test_a_file_that_crashes_its_decoder_is_skipped_for_the_next(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(catalog.root, Path)
    with Client(workers=1) as client:
        client.wait_for_workers(1, timeout_s=60 * SECOND)
        workers = children_of(os.getpid())

        def crash() -> None:
            others = {*children_of(os.getpid())} - {*workers}
            assert len(others) == 1, "another process has the file open"
            os.kill(others.pop(), signal.SIGSEGV)

        with held(catalog.root / "x/a.avi", crash):
            stream = client.stream(catalog, NATIVE, 1)
    assert stream.clip == at_native_size(SHOWN, 100, 80)
    assert caplog.messages == ["x/a.avi: its decoding ended the decoder (SIGSEGV)"]


@pytest.mark.slow
def test_a_file_that_gives_no_answer_is_named_and_no_other_size_is_used(
    catalog: Catalog,
) -> None:
    assert isinstance(catalog.root, Path)
    with Client(workers=1, stall_s=1 * SECOND) as client:
        with (
            held(catalog.root / "x/a.avi", lambda: None),
            pytest.raises(VideoError, match=r"a.avi: its decoding hangs: .* s; give size="),
        ):
            client.stream(catalog, NATIVE, 1)
        assert client.stream(catalog, NATIVE, 1).clip == at_native_size(SHOWN, 90, 70), (
            "once it answers again"
        )


def test_the_first_file_that_can_be_decoded_decides(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "x/0.avi").write_text("not a video\n" * 100)
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        broken = Catalog.from_folder(tmp_path)
        assert broken[0].path == "x/0.avi"
        assert client.stream(broken, NATIVE, 1).clip == at_native_size(SHOWN, 90, 70)
        only = Catalog(["x/0.avi"], [0], ["x"], root=tmp_path)
        with pytest.raises(VideoError, match=r"x/0.avi: is not a video"):
            client.stream(only, NATIVE, 1)
