"""A dataset of a hub gives what its files in a folder give; its token goes nowhere else."""

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import videoload as vl
from tests.support.catalogs import refused
from tests.support.digests import digest
from tests.support.hub_server import NAME, TOKEN, HubServer
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, ClipSpec, decode_serially
from videoload.errors import CatalogError, StorageError, VideoError
from videoload.storage import hub, stores
from videoload.storage.roots import files_below, folders_in, normal_url, open_storage, versions_of
from videoload.storage.small_files import read_small

pytest.importorskip("obstore", reason="needs videoload[remote]")

ROOT = f"hf://datasets/{NAME}"
SPEC = ClipSpec(frames=6, stride=2, resize=40, size=(32, 32), sampling="random", short="hold")
LONG = "jump/long.avi"


@pytest.fixture
def folder(videos: Videos, tmp_path: Path) -> Path:
    made = Path(shutil.copytree(videos.root, tmp_path / "data"))
    (made / "small.txt").write_text("of Git")
    return made


@pytest.fixture
def server(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.setattr(hub, "_LATER_S", 0.0)
    with HubServer(folder) as made:
        made.use(monkeypatch, tmp_path)
        yield made
    assert not made.leaked, "the delivery network got the token"


def pinned(server: HubServer) -> str:
    return f"{ROOT}@{server.branches['main']}"


def read(root: str, path: str, begin: int = 0, length: int = 1 << 30) -> bytes:
    storage = open_storage(root)
    try:
        with storage.reading(path, lambda: None):
            data = bytes(storage.resolve(path).open().pread(length, begin))
            storage.resolve(path).check()
            return data
    finally:
        storage.close()


def test_a_dataset_gives_what_the_folder_gives(folder: Path, server: HubServer) -> None:
    here, there = Catalog.from_folder(folder), Catalog.from_folder(f"{ROOT}@main")
    assert there.root == pinned(server)
    assert there.paths == here.paths
    reference = digest(decode_serially(here, SPEC, 2, shuffle=True))
    assert digest(decode_serially(there, SPEC, 2, shuffle=True)) == reference


def test_parts_of_files_of_both_kinds_come(folder: Path, server: HubServer) -> None:
    data = (folder / LONG).read_bytes()
    assert read(pinned(server), LONG) == data
    assert read(f"{pinned(server)}/jump", "long.avi", 1000, 70_000) == data[1000:71_000]
    assert read(pinned(server), "small.txt", 3, 2) == b"Gi"
    assert read_small(pinned(server), "small.txt", 99) == b"of Git"
    (folder / "empty.avi").touch()
    server.commit(folder)
    assert read(pinned(server), "empty.avi") == b""


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        (f"{ROOT}/", ROOT),
        (f"{ROOT}@v1.0/a b/c@d/", f"{ROOT}@v1.0/a b/c@d"),
        (f"{ROOT}@refs/pr/7/train", f"{ROOT}@refs/pr/7/train"),
        (f"{ROOT}@dev%2Fnew", f"{ROOT}@dev%2Fnew"),
    ],
)
def test_a_dataset_may_have_a_revision_and_a_folder(url: str, normal: str) -> None:
    assert normal_url(url) == normal
    dataset = hub.Dataset.of(normal)
    assert dataset.name == NAME
    assert dataset.revision in ("", "v1.0", "refs/pr/7", "dev/new")
    assert dataset.folder in ("", "a b/c@d", "train")


@pytest.mark.parametrize(
    "url", ["hf://org/name", "hf://spaces/org/name", "hf://datasets/org", "hf://datasets/o/n@"]
)
def test_what_is_no_dataset_is_refused_with_the_form_of_one(url: str) -> None:
    with refused("hf://datasets/ORG/NAME"):
        Catalog(["a.avi"], [0], ["any"], url)


# Revisions


def test_a_branch_is_asked_for_once_and_its_commit_is_read_when_it_moves(
    folder: Path, server: HubServer, caplog: pytest.LogCaptureFixture
) -> None:
    root, before = pinned(server), (folder / LONG).read_bytes()
    first = Catalog.from_folder(ROOT)
    make_avi(folder / LONG, frames=40, seed=5)
    server.commit(folder)
    assert {Catalog.from_folder(ROOT).root, first.root} == {root}
    assert [line for line in caplog.messages if root in line], "it is said which one is read"
    assert sum("/tree/" not in path for path in server.asked) == 1
    assert read(str(first.root), LONG) == before
    assert read(pinned(server), LONG) != before


def test_a_commit_is_not_asked_for(server: HubServer) -> None:
    Catalog(["a.avi"], [0], ["any"], pinned(server))
    assert not server.asked


def test_a_revision_that_is_not_there_is_named(server: HubServer) -> None:
    with pytest.raises(CatalogError, match=r"@gone.* no such revision"):
        Catalog.from_folder(f"{ROOT}@gone")


def test_the_version_of_a_file_is_the_same_at_another_commit_and_from_all_who_deliver_it(
    folder: Path, server: HubServer
) -> None:
    first = pinned(server)
    (folder / "README.md").write_text("new")
    server.commit(folder)
    known = versions_of(first, [])
    assert known[LONG] == versions_of(pinned(server), [])[LONG]
    for root in (first, pinned(server)):
        for path in (LONG, "small.txt"):
            assert open_storage(root).resolve(path).version == known[path]
    make_avi(folder / LONG, frames=40, seed=5)
    server.commit(folder)
    assert known[LONG] != versions_of(pinned(server), [])[LONG]


# Listings


def test_a_listing_is_read_page_by_page_from_the_hub_itself(
    folder: Path, server: HubServer
) -> None:
    server.page = 3
    server.token = TOKEN
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_TOKEN", TOKEN)
        found = files_below(pinned(server), "")
    there = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert found == there
    entries = len(there) + sum(path.is_dir() for path in folder.rglob("*"))
    assert len(server.asked) == -(-entries // 3)


def test_a_folder_is_listed_alone(folder: Path, server: HubServer) -> None:
    assert folders_in(pinned(server)) == sorted(p.name for p in folder.iterdir() if p.is_dir())
    assert files_below(f"{pinned(server)}/jump", "") == sorted(
        path.name for path in (folder / "jump").iterdir()
    )
    assert set(files_below(pinned(server), "jump")) == {
        f"jump/{path.name}" for path in (folder / "jump").iterdir()
    }
    assert files_below(pinned(server), "none") == []


# Tokens


@pytest.mark.parametrize("where", ["HF_TOKEN", "HF_TOKEN_PATH", "HF_HOME"])
def test_a_token_is_sent_to_the_hub_alone(
    where: str, server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    server.token = TOKEN
    if where == "HF_TOKEN":
        monkeypatch.setenv(where, TOKEN)
    else:
        file = tmp_path / ("hf/token" if where == "HF_HOME" else "mine")
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{TOKEN}\n")
        if where == "HF_TOKEN_PATH":
            monkeypatch.setenv(where, str(file))
    catalog = Catalog.from_folder(ROOT)
    assert read(str(catalog.root), LONG)
    assert server.fetched
    with pytest.raises(VideoError) as missing:
        read(str(catalog.root), "gone.avi")
    said = f"{caplog.text} {catalog!r} {catalog.root} {missing.value}"
    assert TOKEN not in said
    assert "signature" not in said


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("key", ["", "hf_another"])
def test_a_dataset_that_is_not_for_this_user_is_refused_at_once(
    gated: bool, key: str, server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.token, server.gated = TOKEN, gated
    monkeypatch.setenv("HF_TOKEN", key)
    of_what = f"{NAME}.*{'gated' if gated else 'private'}.*token"
    with pytest.raises(CatalogError, match=of_what):
        Catalog.from_folder(ROOT)
    with pytest.raises(StorageError, match=of_what) as told:
        read(pinned(server), LONG)
    assert "hf_another" not in str(told.value)
    assert len(server.asked) == 2


def test_no_token_goes_over_a_line_that_others_can_read(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.token = TOKEN
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(hub, "_LOOPBACK", ())
    with pytest.raises(CatalogError, match="token"):
        Catalog.from_folder(ROOT)


@pytest.mark.parametrize(
    "elsewhere",
    ["http://example.org/a?signature=x", "ftp://127.0.0.1/a", "https://user@example.org/a",
     "file:///etc/passwd", "http://169.254.169.254/latest/meta-data"],
)  # fmt: skip
def test_a_redirect_to_another_host_without_https_is_refused(
    elsewhere: str, server: HubServer
) -> None:
    server.elsewhere = elsewhere
    with pytest.raises(StorageError, match="redirect") as told:
        read(pinned(server), LONG)
    assert "signature" not in str(told.value)


# What a hub may do


@pytest.mark.parametrize("header", [{"Retry-After": "1"}, {"RateLimit": '"api";r=0;t=1'}])
def test_a_hub_that_says_when_to_come_again_is_not_asked_before(
    header: dict[str, str], server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it says: that is no fault, and no bad video."""
    monkeypatch.setattr(stores, "GIVE_UP_S", 0.3)
    monkeypatch.setattr(stores, "OBJECT_S", 0.1)
    server.busy = [header]
    storage = open_storage(pinned(server))
    storage.prefetch_header(LONG)
    wait_until(lambda: "429" in storage.failure_reason, 30 * SECOND)  # the answer is read
    for path in ("small.txt", "run/h264.avi"):
        storage.prefetch_header(path)
    with storage.reading(LONG, lambda: None):
        storage.resolve(LONG)
    assert server.asked_at[1] - server.asked_at[0] >= 1
    storage.close()


def test_a_signed_address_is_used_for_all_parts_and_renewed_when_it_has_expired(
    folder: Path, server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.storage.remote.FIRST_BYTES", 9000)
    data = os.urandom(4 << 20)
    (folder / "b.avi").write_bytes(data)
    server.commit(folder)
    storage = open_storage(pinned(server))
    with storage.reading("b.avi", lambda: None):
        file = storage.resolve("b.avi")
        assert bytes(file.open().pread(9000, 1 << 20)) == data[1 << 20 :][:9000]
        assert len(server.fetched) > 1
        assert len(server.asked) == 1
        server.signed = "second"
        assert bytes(file.open().pread(9000, 3 << 20)) == data[3 << 20 :][:9000]
        assert len(server.asked) == 2
    storage.close()


def test_connections_are_used_again(server: HubServer) -> None:
    storage = open_storage(pinned(server))
    with storage.reading(LONG, lambda: None):
        for path in (LONG, "run/h264.avi", "small.txt", "walk/gop12.avi"):
            storage.resolve(path)
    assert server.connections <= 4
    storage.close()


def test_bytes_of_another_size_than_the_hub_says_are_refused(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "GIVE_UP_S", 0.1)
    monkeypatch.setattr(stores, "OBJECT_S", 0.03)
    server.lies = True
    with pytest.raises((StorageError, VideoError), match=LONG):
        read(pinned(server), LONG)


def test_a_video_of_a_dataset_is_opened_by_its_url(folder: Path, server: HubServer) -> None:
    with vl.open(f"{ROOT}/{LONG}") as there, vl.open(folder / LONG) as here:
        assert len(there) == len(here)
        assert (there[7] == here[7]).all()
