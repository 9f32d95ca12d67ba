"""The storage of a root is chosen by what the root is."""

from __future__ import annotations

from pathlib import Path

from videoload.storage.files import Folder
from videoload.storage.opening import open_storage
from videoload.storage.remote import RemoteStorage


def test_a_folder_has_a_storage_of_its_own(tmp_path: Path) -> None:
    assert isinstance(open_storage(tmp_path), Folder)


def test_a_url_has_a_storage_that_fetches(tmp_path: Path) -> None:
    storage = open_storage("s3://no-such-bucket-anywhere/x")
    assert isinstance(storage, RemoteStorage)
    assert (storage.root, storage.fetches) == ("s3://no-such-bucket-anywhere/x", True)
