"""Files of a folder that a web server serves, and its limits made small."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.object_server import ObjectServer
from tests.support.remote_files import make_files
from tests.support.videos import Videos
from videoload.storage import stores


@pytest.fixture(scope="session")
def remote_files(videos: Videos, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good videos, and bad ones. Do not change anything in this folder."""
    folder = tmp_path_factory.mktemp("remote_files") / "data"
    make_files(folder, videos)
    return folder


@pytest.fixture
def folder(remote_files: Path, tmp_path: Path) -> Path:
    """A test's own copy of them."""
    return Path(shutil.copytree(remote_files, tmp_path / "data"))


@pytest.fixture
def server(folder: Path) -> Iterator[ObjectServer]:
    """A web server for the test's copy."""
    with ObjectServer(folder) as serving:
        yield serving


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files count as large: they come in several parts."""
    for name in ("remote.FIRST_BYTES", "content.SMALL_BYTES", "files.SMALL_BYTES"):
        monkeypatch.setattr(f"videoload.storage.{name}", 9000)
    monkeypatch.setattr("videoload.reading.index.FIRST_BYTES", 9000)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker gives up soon."""
    monkeypatch.setattr(stores, "GIVE_UP_S", 0.1)
    monkeypatch.setattr(stores, "OBJECT_S", 0.03)
