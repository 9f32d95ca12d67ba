"""Files are looked at by threads of their own, which end with the client and blame no file."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import SECOND, wait_until
from videoload.engine.file_checker import FileChecker
from videoload.errors import StorageError
from videoload.storage import stores
from videoload.storage.files import Folder
from videoload.storage.roots import open_storage

THREADS = ("videoload-files", "videoload-fetch")


def test_no_thread_waits_for_storage_after_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("obstore", reason="needs videoload[remote]")
    monkeypatch.setattr(stores, "TELL_S", 0.0)
    before = {*threading.enumerate()}  # other tests may have left some
    checker, found, url = FileChecker(), list[Any](), "http://127.0.0.1:1/videos"
    paths = {number: f"{number}.avi" for number in range(100)}  # more than are requested at once
    checker.identify(open_storage(url), paths, 0, lambda *reply: found.append(reply))
    wait_until(lambda: url in caplog.text, 30 * SECOND, "the log says that nobody answers")
    checker.close()
    caplog.clear()

    def have_ended() -> bool:
        return not any(thread.name in THREADS for thread in {*threading.enumerate()} - before)

    wait_until(have_ended, 30 * SECOND)
    assert not caplog.messages
    assert all(isinstance(error, StorageError) for _, error in found)


def test_where_no_thread_can_be_started_no_file_is_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    checker, found = FileChecker(), list[Any]()
    monkeypatch.setattr(threading.Thread, "start", start)
    checker.identify(Folder(tmp_path), {7: "a.avi"}, 0, lambda *reply: found.append(reply))
    checker.close()
    [(number, error)] = found
    assert number == 7
    assert isinstance(error, StorageError)
