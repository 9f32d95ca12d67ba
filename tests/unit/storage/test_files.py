"""Files by their paths: only inside the root, and another version is another file."""

import errno
import os
import socket
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.errors import FileReplacedError, StorageError, UnreadableError, VideoError
from videoload.storage.files import Folder, identity_of, retry_if_replaced


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with files in it, and other files around it."""
    for path in ("root/a.avi", "root/deep/er/b.avi", "outside/c.avi", "root-too/d.avi"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(path.encode())
    return tmp_path / "root"


@pytest.mark.parametrize(
    "path",
    [
        "../outside/c.avi", "deep/../../outside/c.avi", "{tmp}/outside/c.avi", "/etc/passwd", "..",
        "../root-too/d.avi", "deep/../..", "out/c.avi", "out.avi", "too/d.avi", "go\0od.avi",
        "\ud800.avi", "deep/\0", "", ".", "deep", "deep/er/", "a.avi/../deep", "pipe.avi",
        "socket.avi", "loop", "a" * 300, f"{300 * 'a'}/b.avi", f"deep/{300 * 'a'}/er/b.avi",
    ],
)  # fmt: skip
def test_a_path_that_leads_out_or_to_no_file_is_a_bad_video(path: str, root: Path) -> None:
    for name, target in (("out", "../outside"), ("out.avi", "../outside/c.avi"),
                         ("too", "../root-too"), ("loop", "loop")):  # fmt: skip
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe.avi")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket.avi"))
        with pytest.raises(VideoError) as caught:
            Folder(root).resolve(path.format(tmp=root.parent))
    assert not isinstance(caught.value, UnreadableError)


@settings(max_examples=either(80, 300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.lists(
        st.sampled_from(["a.avi", "deep", "er", "b.avi", "..", ".", "", "out", "in", "/"]),
        min_size=1, max_size=7,
    ).map("/".join)
)  # fmt: skip
@example(path="out/c.avi")
@example(path="a.avi/.")
@example(path="deep/er/b.avi//.")
def test_any_path_finds_only_files_inside_the_root(path: str, root: Path) -> None:
    for name, target in (("out", "../outside"), ("in", "deep")):
        if not (root / name).is_symlink():
            (root / name).symlink_to(target)
    meant = os.path.realpath(root / path)
    inside = (str(root / "a.avi"), str(root / "deep/er/b.avi"))
    if meant in inside and (root / path).is_file():
        assert Folder(root).resolve(path).path == meant
    elif meant not in inside:
        with pytest.raises(VideoError) as caught:
            Folder(root).resolve(path)
        assert caught.value.path == path


def test_a_folder_that_becomes_a_link_while_a_file_is_looked_for_leads_nowhere(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, outside = os.lstat, root.parent / "outside"
    (outside / "er").mkdir()
    (outside / "er/b.avi").write_bytes(b"secret")

    def exchanged(path: str) -> os.stat_result:
        status = real(path)
        if path == str(root / "deep"):
            (root / "deep").rename(root / "before")
            (root / "deep").symlink_to(outside)
        return status

    folder = Folder(root)
    monkeypatch.setattr(os, "lstat", exchanged)
    file = folder.resolve("deep/er/b.avi")
    with pytest.raises(FileReplacedError):
        file.open()


# Paths that lead to no file


@pytest.mark.parametrize("leaves_folder", [True, False])
def test_files_of_a_root_that_is_away_are_not_missing(root: Path, leaves_folder: bool) -> None:
    folder, moved = Folder(root), root.with_name("moved")
    root.rename(moved)
    if leaves_folder:
        root.mkdir()
    with pytest.raises(StorageError, match="root "):
        folder.resolve("a.avi")


def test_files_below_an_empty_folder_may_come_back(root: Path) -> None:
    (root / "deep/er/b.avi").unlink()
    for path in ("deep/er/b.avi", "deep/er/even/c.avi"):
        with pytest.raises(UnreadableError, match="root/deep/er "):
            Folder(root).resolve(path)


def test_a_process_that_begins_on_an_empty_root_waits_for_its_mount(root: Path) -> None:
    moved, empty = root.with_name("moved"), root
    root.rename(moved)
    empty.mkdir()
    folder = Folder(empty)
    for _ in range(2):
        with pytest.raises(StorageError, match="root "):
            folder.resolve("a.avi")
        assert str(empty) in folder.look()
        if empty.exists():
            empty.rmdir()  # it was there before
    moved.rename(root)
    assert folder.resolve("a.avi")
    assert folder.look() == ""


def test_files_of_a_root_that_was_never_there_are_missing(root: Path) -> None:
    """The trainer may have none: workers of other hosts have them."""
    for path in ("a.avi", "deep/none.avi"):
        with pytest.raises(VideoError) as caught:
            Folder(root / "none").resolve(path)
        assert not isinstance(caught.value, UnreadableError)
        with pytest.raises(StorageError, match="root/none "):
            Folder(root / "none", must_exist=True).resolve(path)  # as for a worker


def test_bytes_that_cannot_be_read_are_not_the_end_of_a_file(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, size = os.pread, (root / "a.avi").stat().st_size

    def broken(file: int, length: int, at: int) -> bytes:
        if at >= size // 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(file, min(length, size // 2 - at), at)

    folder = Folder(root)
    expected = folder.fingerprint("a.avi")
    monkeypatch.setattr(os, "pread", broken)
    other = Folder(root)
    with pytest.raises(UnreadableError, match="Input/output error"):
        other.fingerprint("a.avi")
    monkeypatch.setattr(os, "pread", read)
    assert other.fingerprint("a.avi") == expected


# Which version it is


def test_a_changed_or_replaced_file_has_another_identity(root: Path) -> None:
    storage = Folder(root)
    first = storage.resolve("a.avi").identity
    assert storage.resolve("./a.avi").identity == first
    (root / "a.avi").write_bytes(b"more than there was")
    changed = storage.resolve("a.avi").identity
    os.utime(root / "a.avi", (5, 5))
    touched = storage.resolve("a.avi").identity
    (root / "new.avi").write_bytes(b"more than there was")
    os.utime(root / "new.avi", (5, 5))
    (root / "new.avi").replace(root / "a.avi")
    replaced = storage.resolve("a.avi").identity
    with (root / "a.avi").open("r+b") as file:  # as `cp -p` of another file does it
        file.write(b"MORE than there was")
    os.utime(root / "a.avi", (5, 5))
    copied_onto = storage.resolve("a.avi").identity
    assert len({first, changed, touched, replaced, copied_onto}) == 5


def test_an_inode_counts_where_the_next_mount_gives_the_same() -> None:
    def known(device: int, inode: int) -> bytes:
        told = {"st_size": 5, "st_mtime_ns": 6, "st_ctime_ns": 7}
        status = SimpleNamespace(st_dev=device, st_ino=inode, **told)
        return identity_of(cast(os.stat_result, status))

    memory, made_up = Path("/dev/shm").stat().st_dev, Path("/proc").stat().st_dev
    assert known(memory, 1) != known(memory, 2)
    assert known(made_up, 1) == known(made_up, 2)


def test_a_file_that_was_replaced_since_it_was_resolved_is_not_opened(root: Path) -> None:
    """What reads it is done once more, with the file as it is now."""
    storage = Folder(root)
    file = storage.resolve("a.avi")
    file.check()

    def read(times: list[int]) -> bytes:
        """The file, which is replaced so often at each attempt."""
        with storage.reading("a.avi", lambda: None):
            file = storage.resolve("a.avi")
            for _ in range(times.pop(0)):
                replace(root / "a.avi")
            with closing(file.open()) as opened:
                return bytes(opened.pread(100, 0))

    def replace(path: Path) -> None:
        path.with_suffix(".new").write_bytes(path.read_bytes()[::-1])
        path.with_suffix(".new").replace(path)

    once, twice = [1, 0], [1, 1]
    assert read([0]) == b"root/a.avi"
    assert retry_if_replaced("a.avi", lambda: read(once)) == b"iva.a/toor"
    with pytest.raises(VideoError, match=r"a\.avi"):
        retry_if_replaced("a.avi", lambda: read(twice))
    with pytest.raises(FileReplacedError):
        file.check()


@given(data=st.binary(max_size=40_000), at=st.integers(0, 2**40))
@settings(max_examples=either(25, 50), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_copies_have_the_same_fingerprint(data: bytes, at: int, root: Path) -> None:
    (root / "one.avi").write_bytes(data)
    (root / "other.avi").write_bytes(data)
    os.utime(root / "other.avi", (at % 10**9, at % 10**9))
    storage = Folder(root)
    fingerprint = storage.fingerprint("one.avi")
    assert fingerprint == storage.fingerprint("other.avi") == Folder(root).fingerprint("one.avi")
    assert 0 < fingerprint < 2**63


@pytest.mark.parametrize("size", [1, 100, 5_000, 1_000_000])
def test_another_size_beginning_or_end_gives_another_fingerprint(size: int, root: Path) -> None:
    made = bytearray(number * number % 251 for number in range(size))
    kinds = [bytes(made), bytes(made) + b"\0", bytes(made[:-1])]
    for at in (0, size - 1):
        other = made.copy()
        other[at] ^= 1
        kinds.append(bytes(other))
    storage, found = Folder(root), []
    for number, data in enumerate(dict.fromkeys(kinds)):
        (root / f"{number}.avi").write_bytes(data)
        found.append(storage.fingerprint(f"{number}.avi"))
    assert len(set(found)) == len(found)
    (root / "0.avi").write_bytes(b"something else")
    assert storage.fingerprint("0.avi") not in found


def test_an_unreadable_file_is_named_by_the_path_that_was_asked_for(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(VideoError, match=r"deep/er/b\.avi") as caught:
        Folder(root).fingerprint("deep/er/b.avi")
    assert caught.value.path == "deep/er/b.avi"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("x/a", r"No such file or directory in .* \(a\.avi\?\)"),
        ("x/A.AVI", r"\(a\.avi\?\)"),
        ("x/a.mp4", r"\(a\.avi\?\)"),
        ("x/b.avi", r"No such file or directory in [^(]*$"),
        ("y/a.avi", r"No such file or directory in [^(]*$"),
    ],
)
def test_a_missing_file_is_told_with_the_root_and_with_what_may_be_meant(
    tmp_path: Path, path: str, told: str
) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x/a.avi").touch()
    with pytest.raises(VideoError, match=told) as caught:
        Folder(tmp_path).resolve(path)
    assert str(tmp_path) in caught.value.reason
