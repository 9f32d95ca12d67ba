"""Where indexes are kept: what the caller says, then the environment, then the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from videoload.index.cache_folder import cache_folder


def test_an_argument_wins_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder(False) is None
    monkeypatch.setenv("VIDEOLOAD_CACHE", "")
    assert cache_folder(None) is None
    assert cache_folder(tmp_path) == str(tmp_path)
    monkeypatch.setenv("VIDEOLOAD_CACHE", str(tmp_path / "told"))
    assert cache_folder(None) == str(tmp_path / "told")


def test_indexes_are_kept_in_the_users_cache_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIDEOLOAD_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder(None) == str(tmp_path / ".cache" / "videoload")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert cache_folder(None) == str(tmp_path / "elsewhere" / "videoload")


def test_a_folder_that_cannot_be_used_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    for _ in range(2):
        assert cache_folder(tmp_path / "file/cache") == str(tmp_path / "file/cache")
    [told] = caplog.messages
    assert told.startswith("what is found out of videos is not kept for later: ")
    assert "file/cache: Not a directory; let cache=" in told
    assert cache_folder(tmp_path / "new") == str(tmp_path / "new")
    assert len(caplog.messages) == 1
