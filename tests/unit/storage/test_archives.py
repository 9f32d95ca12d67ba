"""Members of tar and zip archives: where their bytes are, in every format, and never another's."""

import io
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from videoload.storage.archives import ArchiveError, Member, Read, member_at, members
from videoload.storage.shards import contents

DRAW = random.Random(0)
FILES = {
    "a.mp4": DRAW.randbytes(1000),
    f"folder/{'x' * 120}/b.avi": DRAW.randbytes(513),
    "é/cämera.txt": b"hi",
    f"{'n' * 99}.mp4": b"q" * 512,
    "empty.txt": b"",
    "key.with.dots.json": b"{}",
}


def reading(data: bytes) -> Read:
    return lambda at, length: data[at : at + length] if min(at, length) >= 0 else b""


def found_in(data: bytes) -> dict[str, Member]:
    return {member.name: member for member in members(reading(data), len(data))}


def tar(form: int, files: dict[str, bytes] = FILES) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


class Pipe(io.RawIOBase):
    """Cannot be sought, so a zip's sizes follow the bytes."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.data += bytes(data)  # type: ignore[call-overload]
        return len(data)  # type: ignore[arg-type]


def streamed_zip() -> bytes:
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w") as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    return pipe.data


def large_zip() -> bytes:
    """With the fields of files above 4 GB."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in FILES.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(data)
    return out.getvalue()


def stored_zip(method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    return out.getvalue()


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "gnu": lambda: tar(tarfile.GNU_FORMAT),
    "pax": lambda: tar(tarfile.PAX_FORMAT),
    "concatenated": lambda: tar(tarfile.GNU_FORMAT, {"z.mp4": b"z"}) + tar(tarfile.PAX_FORMAT),
    "zip": stored_zip,
    "streamed zip": streamed_zip,
    "large zip": large_zip,
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_each_member_is_found_and_its_place_is_proven(kind: str) -> None:
    data = ARCHIVES[kind]()
    found = found_in(data)
    for name, content in FILES.items():
        member, read, size = found[name], reading(data), len(data)
        proven = member_at(read, size, name, member.at, member.size)
        assert proven is not None
        assert data[proven.begin : proven.begin + proven.size] == content
        for wrong in (
            (f"{name}x", member.at, member.size),
            (name, member.at, member.size + 1),
            (name, member.at + 512, member.size),
            (name, -512, member.size),
            (name, size + 512, member.size),
        ):
            assert member_at(read, size, *wrong) is None


def test_ustar_names_have_a_prefix() -> None:
    name = f"{'p' * 90}/{'q' * 90}.avi"
    assert found_in(tar(tarfile.USTAR_FORMAT, {name: b"1"}))[name].size == 1


def test_a_hard_link_has_the_bytes_of_its_file_and_other_kinds_are_left_out() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind, link in (
            ("a.mp4", tarfile.REGTYPE, ""),
            ("again.mp4", tarfile.LNKTYPE, "a.mp4"),
            ("outside.mp4", tarfile.LNKTYPE, "/etc/passwd"),
            ("soft.mp4", tarfile.SYMTYPE, "a.mp4"),
            ("device", tarfile.CHRTYPE, ""),
            ("folder", tarfile.DIRTYPE, ""),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.size = kind, link, 3 * (kind == tarfile.REGTYPE)
            archive.addfile(entry, io.BytesIO(b"abc"))
    data = out.getvalue()
    found = contents(reading(data), len(data))
    assert [member.name for member in found] == ["a.mp4", "again.mp4"]
    again, file = found.find("again.mp4"), found.find("a.mp4")
    assert again is not None
    assert file is not None
    assert (again.at, again.size, again.link) == (file.at, file.size, "a.mp4")


def test_the_last_of_several_members_of_a_name_counts() -> None:
    data = tar(tarfile.GNU_FORMAT, {"a.mp4": b"old"})[:1024] + tar(
        tarfile.GNU_FORMAT, {"a.mp4": b"newer"}
    )
    member = found_in(data)["a.mp4"]
    assert data[member.begin : member.begin + member.size] == b"newer"


def test_a_member_that_is_compressed_says_how_to_write_it() -> None:
    found = found_in(stored_zip(zipfile.ZIP_DEFLATED))
    assert "zip -0" in found["a.mp4"].flaw
    assert not found["empty.txt"].flaw or "zip -0" in found["empty.txt"].flaw


@pytest.mark.parametrize(
    ("start", "word"),
    [
        (b"\x1f\x8b", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"BZh9", "bzip2"),
        (b"RIFF", "neither"),
    ],
)
def test_what_cannot_be_read_in_place_is_named(start: bytes, word: str) -> None:
    with pytest.raises(ArchiveError, match=word):
        found_in(start.ljust(2048, b"1"))


def test_an_archive_that_is_cut_is_no_archive_without_its_last_members() -> None:
    data = tar(tarfile.GNU_FORMAT, {"a.mp4": bytes(5000), "b.mp4": bytes(5000)})
    with pytest.raises(ArchiveError, match=r"b\.mp4"):
        found_in(data[:8000])
    with pytest.raises(ArchiveError, match="truncated"):
        found_in(stored_zip()[:-30])


def test_gnu_sizes_above_eight_gigabytes_are_read(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("large.mp4")
    entry.size = size = 9 << 30
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        path = tmp_path / "large.tar"
        with path.open("wb") as out:
            out.write(entry.tobuf(form))
            begin = out.tell()
            out.truncate(begin + size)
        with path.open("rb") as file:

            def read(at: int, length: int, file: io.BufferedReader = file) -> bytes:
                file.seek(at)
                return file.read(length)

            (member,) = members(read, begin + size)
        assert (member.name, member.begin, member.size) == ("large.mp4", begin, size)


@example(kind="zip", seed=8192)
@given(kind=st.sampled_from([*ARCHIVES]), seed=st.integers(0, 2**32))
def test_damage_ends_in_an_error_or_in_members_that_lie_within_the_file(
    kind: str, seed: int
) -> None:
    draw, data = random.Random(seed), bytearray(ARCHIVES[kind]())
    for _ in range(draw.choice((1, 2, 20))):
        data[draw.randrange(len(data))] = draw.randrange(256)
    if draw.random() < 0.3:
        del data[draw.randrange(len(data)) :]
    try:
        found = found_in(bytes(data))
    except ArchiveError:
        return
    for member in found.values():
        assert member.flaw or 0 <= member.begin <= member.begin + member.size <= len(data)


@pytest.mark.parametrize("kind", ["gnu", "pax", "zip", "streamed zip", "large zip"])
def test_a_member_of_which_bytes_are_missing_has_not_those_of_what_follows(kind: str) -> None:
    data = ARCHIVES[kind]()
    places = {name: (member.at, member.size) for name, member in found_in(data).items()}
    for name in ("a.mp4", f"{'n' * 99}.mp4"):
        at, length = places[name]
        member = member_at(reading(data), len(data), name, at, length)
        assert member is not None
        for gone in (1, 13, 511):
            cut = data[: member.begin] + data[member.begin + gone :]
            assert member_at(reading(cut), len(cut), name, at, length) is None


def test_the_last_member_of_a_tar_of_which_bytes_are_missing_has_not_the_zeros_at_its_end() -> None:
    for zeros in (b"", bytes(1024)):
        data = tar(tarfile.GNU_FORMAT, {"a.mp4": b"a" * 1000})[: 3 * 512] + zeros
        assert member_at(reading(data), len(data), "a.mp4", 0, 1000) is not None
        cut = data[:600] + data[620:]
        assert member_at(reading(cut), len(cut), "a.mp4", 0, 1000) is None


def test_a_sparse_member_is_none_at_its_place() -> None:
    entry = tarfile.TarInfo("a.mp4")
    entry.type, entry.size = tarfile.GNUTYPE_SPARSE, 512
    data = entry.tobuf(tarfile.GNU_FORMAT) + bytes(2048)
    assert found_in(data)["a.mp4"].flaw
    assert member_at(reading(data), len(data), "a.mp4", 0, 512) is None


def test_the_extra_field_of_a_zip_decides_only_if_it_is_whole() -> None:
    data = bytearray(large_zip())
    first = next(members(reading(bytes(data)), len(data)))
    data[first.at + 28] += 7  # the length of the extra field
    assert member_at(reading(bytes(data)), len(data), *first[:2], first.size) is None
