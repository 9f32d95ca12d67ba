"""What a scan makes of its decoders' words; on real files it is tried in integration/."""

from __future__ import annotations

import threading
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.object_server import ObjectServer
from tests.support.waiting import SECOND
from videoload import StorageError
from videoload.commands import scan as scanning

pytest.importorskip("obstore", reason="needs videoload[remote]")


def test_a_storage_that_does_not_answer_is_no_damage_that_a_scan_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.storage.fetching.GIVE_UP_S", 0.2)
    with ObjectServer(tmp_path) as server:
        ours, theirs = Pipe()
        child = threading.Thread(target=scanning._serve, args=(theirs,))
        child.start()
        server.fault = 403
        try:
            for text in (server.url, "", "run/none.avi"):
                ours.send_bytes(text.encode())
            assert ours.poll(20 * SECOND)
            with pytest.raises(StorageError, match=r"does not answer for 0\.2 s: 403"):
                scanning._hear(SimpleNamespace(pipe=ours))  # type: ignore[arg-type]
        finally:
            ours.close()
            child.join()
            theirs.close()
