"""Members of archives as files of a folder: the same bytes, and never those of another member."""

import io
import os
import random
import tarfile
import zipfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from videoload.errors import FileReplacedError, StorageError, VideoError
from videoload.storage.files import Folder, LocalFile, VideoFile, status_of

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


def test_mutated_archives_give_the_bytes_of_the_member_or_an_error(tmp_path: Path) -> None:
    for n in range(60):
        path = tmp_path / f"{n}"
        (write_zip if n % 2 else write_tar)(path, FILES)
        data = bytearray(path.read_bytes())
        for _ in range(DRAW.randint(1, 4)):
            data[DRAW.randrange(len(data))] ^= 1 << DRAW.randrange(8)
        path.write_bytes(data[: DRAW.choice([len(data), DRAW.randrange(len(data))])])
        storage = Folder(tmp_path)
        for name, whole in FILES.items():
            try:
                found = all_of(storage.resolve(f"{n}/{os.path.normpath(name)}"))
            except VideoError:
                continue
            assert len(found) == len(whole)
            assert sum(a != b for a, b in zip(found, whole, strict=True)) <= 4
