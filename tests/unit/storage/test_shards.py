"""Members of archives as files of a folder: the same bytes, and never those of another member."""

import io
import os
import random
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoload.errors import FileReplacedError, RewrittenError, StorageError, VideoError
from videoload.storage.archives import Read
from videoload.storage.files import Folder, LocalFile, status_of
from videoload.storage.kept_rows import KeptRows
from videoload.storage.shards import PLACE, Contents, contents
from videoload.storage.video_file import VideoFile

DRAW = random.Random(0)
FILES = {"a.mp4": DRAW.randbytes(5000), "in/b.mp4": DRAW.randbytes(700), "./c.mp4": b"c" * 512}


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def write_zip(path: Path, files: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def all_of(file: VideoFile) -> bytes:
    """As FFmpeg reads it, and as we do."""
    with closing(file.open()) as opened:
        data = bytes(opened.pread(file.size + 100, 0))
        assert bytes(opened.pread(10, file.size - 3)) == data[-3:]
    assert isinstance(file, LocalFile)
    with closing(file.ffmpeg_source()) as source:
        assert source.seek(-4, 2) == file.size - 4
        assert source.read(100) == data[-4:]
    file.check()
    return data


@pytest.mark.parametrize("name", ["x.tar", "x.zip", "x", "deep/er/x.TAR", "at@0.tar"])
def test_a_path_goes_on_through_an_archive(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (write_zip if name == "x.zip" else write_tar)(tmp_path / name, FILES)
    storage = Folder(tmp_path)
    seen = set()
    for inner, data in FILES.items():
        path = f"{name}/{os.path.normpath(inner)}"
        file = storage.resolve(path)
        assert all_of(file) == data
        assert file.path.endswith(".mp4")
        assert storage.fingerprint(path)
        assert status_of(tmp_path, path) is not None
        seen |= {file.identity, file.version, file.key}
    whole = storage.resolve(name)
    assert len({*seen, whole.identity, whole.version}) == 2 * len(FILES) + 2


def test_a_link_may_lead_to_an_archive_in_the_root(tmp_path: Path) -> None:
    write_tar(tmp_path / "x.tar", FILES)
    (tmp_path / "linked").symlink_to("x.tar")
    assert all_of(Folder(tmp_path).resolve("linked/in/b.mp4")) == FILES["in/b.mp4"]
    inner = tmp_path / "root"
    inner.mkdir()
    (inner / "out").symlink_to("../x.tar")
    with pytest.raises(VideoError):
        Folder(inner).resolve("out/a.mp4")


@pytest.mark.parametrize(
    "path", ["x.tar/../y", "x.tar/..", "x.tar//a.mp4", "x.tar/no", "x.tar/in", "x.tar/a.mp4/a.mp4",
             "x.tar/../../y", "x.tar/up", "x.tar/../up", "x.tar/abs", "x.tar//abs", "x.tar/\0"],
)  # fmt: skip
def test_a_path_can_name_nothing_but_a_member(tmp_path: Path, path: str) -> None:
    (tmp_path / "y").write_bytes(b"y")
    write_tar(tmp_path / "x.tar", {**FILES, "../up": b"1", "/abs": b"2"})
    with pytest.raises(VideoError):
        Folder(tmp_path).resolve(path)


def test_what_is_wrong_with_a_member_or_its_archive_is_said_of_that_video(tmp_path: Path) -> None:
    write_zip(tmp_path / "x.zip", {"a.mp4": b"a" * 999}, zipfile.ZIP_DEFLATED)
    with pytest.raises(VideoError, match="zip -0"):
        Folder(tmp_path).resolve("x.zip/a.mp4")
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(VideoError, match="neither a tar nor a zip"):
        Folder(tmp_path).resolve("text/a.mp4")
    write_tar(tmp_path / "cut.tar", FILES)
    os.truncate(tmp_path / "cut.tar", 6700)
    storage = Folder(tmp_path)
    assert all_of(storage.resolve("cut.tar/a.mp4")) == FILES["a.mp4"]
    with pytest.raises(VideoError, match="cut"):
        storage.resolve("cut.tar/c.mp4")


def places_in(path: Path) -> dict[str, bytes]:
    data = path.read_bytes()
    found = contents(lambda at, length: data[at : at + length], len(data))
    return {each.name: PLACE.pack(each.at, each.size) for each in found}


@pytest.mark.parametrize("name", ["x.tar", "x.zip"])
def test_a_place_that_was_told_needs_no_walk(tmp_path: Path, name: str) -> None:
    """What would be walked is damaged."""
    shard = (write_zip if name == "x.zip" else write_tar)(tmp_path / name, {"0": b"", **FILES})
    places = places_in(shard)
    with shard.open("r+b") as written:
        written.write(b"damaged!")
        if name == "x.zip":
            written.truncate(written.seek(-1, 2))
    storage = Folder(tmp_path)
    for inner, data in FILES.items():
        path = os.path.normpath(inner)
        storage.expect(f"{name}/{path}", places[path].rstrip(b"\0"))
        assert all_of(storage.resolve(f"{name}/{path}")) == data
    with pytest.raises(VideoError):
        storage.resolve(f"{name}/0")


@pytest.mark.parametrize("name", ["x.tar", "x.zip"])
def test_a_place_that_does_not_hold_is_looked_up(tmp_path: Path, name: str) -> None:
    """Forged ones lead to no other member, and to nothing outside."""
    shard = (write_zip if name == "x.zip" else write_tar)(tmp_path / name, FILES)
    places, size = [*places_in(shard).values()], shard.stat().st_size
    storage = Folder(tmp_path)
    for n, forged in enumerate([
        *places, PLACE.pack(size, 5), PLACE.pack(2**64 - 1, 2**64 - 1), PLACE.pack(0, size),
        PLACE.pack(512, 5000), PLACE.pack(0, 0), b"", b"\xff", b"\0" * 99,
    ]):  # fmt: skip
        for inner, data in FILES.items():
            path = f"{name}/{os.path.normpath(inner)}"
            shard.touch()  # nothing is known of it
            os.utime(shard, ns=(n, n))
            storage.expect(path, forged)
            assert all_of(storage.resolve(path)) == data


def test_a_place_that_was_told_gives_no_bytes_behind_those_that_are_missing(
    tmp_path: Path,
) -> None:
    shard = write_tar(tmp_path / "x.tar", FILES)
    place, data = places_in(shard)["a.mp4"], shard.read_bytes()
    shard.write_bytes(data[:1000] + data[1300:])
    storage = Folder(tmp_path)
    storage.expect("x.tar/a.mp4", place)
    with pytest.raises(VideoError):
        storage.resolve("x.tar/a.mp4")


def test_a_listed_member_that_is_gone_is_an_error_of_its_archive(tmp_path: Path) -> None:
    shard = write_tar(tmp_path / "x.tar", FILES)
    places = places_in(shard)
    for rewritten in ({"b.mp4": b"b" * 5000}, None):
        shard.unlink()
        if rewritten is None:
            shard.write_text("no archive")
        else:
            write_tar(shard, rewritten)
        storage = Folder(tmp_path)
        storage.expect("x.tar/a.mp4", places["a.mp4"])
        with pytest.raises(RewrittenError, match=r"x\.tar"):
            storage.resolve("x.tar/a.mp4")
        with pytest.raises(VideoError):
            storage.resolve("x.tar/never.mp4")


def test_an_archive_is_walked_once_for_all_processes_of_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    shard = write_tar(root / "x.tar", FILES)

    def opened(software: str = "") -> Folder:
        storage = Folder(root)
        storage.keep(KeptRows(str(tmp_path / "cache"), storage.root, software))
        return storage

    walks: list[int] = []

    def walked(read: Read, size: int) -> Contents:
        walks.append(size)
        return contents(read, size)

    monkeypatch.setattr("videoload.storage.shards.contents", walked)
    for _ in range(2):
        assert all_of(opened().resolve("x.tar/a.mp4")) == FILES["a.mp4"]
    assert len(walks) == 1
    with pytest.raises(VideoError):  # only a walk tells that there is none
        opened().resolve("x.tar/no.mp4")
    assert len(walks) == 2
    write_tar(shard, {"new.mp4": b"n", **FILES})
    assert all_of(opened().resolve("x.tar/a.mp4")) == FILES["a.mp4"]
    assert len(walks) == 3


def test_a_row_whose_version_is_damaged_tells_of_no_version(tmp_path: Path) -> None:
    path = str(write_tar(tmp_path / "x.tar", FILES))
    file = Folder(tmp_path).resolve("x.tar")
    file.key = file.version  # as below a URL
    rows = KeptRows(str(tmp_path / "cache"), str(tmp_path), "")
    rows.put(path, file, Contents(b"\0", b"").to_bytes())
    rows.close()
    assert rows.versions(path, wait=True) == [file.version]
    (cache,) = (tmp_path / "cache").glob("*.sqlite")
    with sqlite3.connect(cache) as written:
        written.execute("UPDATE indexes SET identity = ?", [file.key[:-1] + b"x"])
    written.close()
    assert not KeptRows(str(tmp_path / "cache"), str(tmp_path), "").versions(path, wait=True)


@given(st.binary(max_size=100), st.integers(0, 2**32))
def test_what_others_say_of_an_archive_is_read_or_refused(noise: bytes, seed: int) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    data = out.getvalue()
    found = contents(lambda at, length: data[at : at + length], len(data))
    packed = found.to_bytes()
    assert Contents.from_bytes(packed) == found
    changed = bytearray(packed)
    changed[seed % len(packed)] ^= 1 + seed % 255
    for wrong in (bytes(changed), noise):
        with suppress(ValueError):
            assert len(Contents.from_bytes(wrong).places) % PLACE.size == 0


def test_an_archive_that_is_rewritten_gives_its_new_members_and_misses_none_in_silence(
    tmp_path: Path,
) -> None:
    shard = write_tar(tmp_path / "x.tar", FILES)
    storage = Folder(tmp_path)
    file = storage.resolve("x.tar/a.mp4")
    opened = file.open()
    shard.unlink()
    write_tar(shard, {"caption.txt": b"longer" * 99, "a.mp4": FILES["a.mp4"]})
    assert bytes(opened.pread(9999, 0)) == FILES["a.mp4"]  # the old one is open
    opened.close()
    with pytest.raises(FileReplacedError):
        file.check()
    with pytest.raises(FileReplacedError):
        file.open()
    assert all_of(storage.resolve("x.tar/a.mp4")) == FILES["a.mp4"]
    for _ in range(2):
        with pytest.raises(StorageError, match=r"x\.tar"):
            storage.resolve("x.tar/in/b.mp4")
    with pytest.raises(VideoError):
        storage.resolve("x.tar/never.mp4")


def test_an_archive_that_is_overwritten_in_its_place_is_another_one(tmp_path: Path) -> None:
    shard = write_tar(tmp_path / "x.tar", FILES)
    storage = Folder(tmp_path)
    file = storage.resolve("x.tar/a.mp4")
    with closing(file.open()), shard.open("r+b") as written:
        written.write(bytes(600))
        written.flush()
        with pytest.raises(FileReplacedError):
            file.check()


@pytest.mark.parametrize("writer", [write_tar, write_zip])
@pytest.mark.parametrize("is_told", [False, True])
def test_mutated_archives_give_the_bytes_of_the_member_or_an_error(
    tmp_path: Path, writer: Callable[..., Path], is_told: bool
) -> None:
    for n in range(60):
        path = writer(tmp_path / f"{n}", FILES)
        places, data = places_in(path), bytearray(path.read_bytes())
        for _ in range(DRAW.randint(0, 4)):
            data[DRAW.randrange(len(data))] ^= 1 << DRAW.randrange(8)
        at = DRAW.randrange(len(data))
        match DRAW.choice(["", "cut", "gone", "more"]):
            case "cut":
                del data[at:]
            case "gone":
                del data[at : at + DRAW.choice([1, 13, 511, 700])]
            case "more":
                data[at:at] = DRAW.randbytes(DRAW.choice([1, 512, 700]))
        path.write_bytes(data)
        storage = Folder(tmp_path)
        for name, whole in FILES.items():
            member = os.path.normpath(name)
            if is_told:
                storage.expect(f"{n}/{member}", places[member])
            try:
                found = all_of(storage.resolve(f"{n}/{member}"))
            except (VideoError, RewrittenError):
                continue
            assert len(found) == len(whole)
            assert sum(a != b for a, b in zip(found, whole, strict=True)) <= 4
