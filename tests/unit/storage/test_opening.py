"""The storage of a root is chosen by what the root is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from videoload.errors import StorageError
from videoload.storage.files import Folder
from videoload.storage.opening import open_storage
from videoload.storage.remote import RemoteStorage


def test_a_folder_has_a_storage_of_its_own(tmp_path: Path) -> None:
    assert isinstance(open_storage(tmp_path), Folder)


def test_a_url_without_the_extra_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(StorageError, match=r"s3://b: pip install 'videoload\[remote\]' to read it"):
        open_storage("s3://b")


def test_a_url_has_a_storage_that_fetches(tmp_path: Path) -> None:
    storage = open_storage("s3://no-such-bucket-anywhere/x")
    assert isinstance(storage, RemoteStorage)
    assert (storage.root, storage.fetches) == ("s3://no-such-bucket-anywhere/x", True)
