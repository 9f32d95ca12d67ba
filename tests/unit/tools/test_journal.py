"""A journal tells what was written before a kill, of what, and by which code."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.limits import limited_files
from tests.support.provenances import KNOWN, PROVENANCES
from videoload.errors import VideoloadError
from videoload.tools.journal import Journal, Provenance

JOB = {"hop": "8", "seed": "1"}


@contextmanager
def opened(file: Path, *tables: Path, job: dict[str, str] = JOB) -> Iterator[Journal]:
    with closing(Journal(file, job, tables=tables)) as journal:
        yield journal


def test_a_line_counts_if_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "new" / "journal"
    with opened(file) as journal:
        journal.add("1", KNOWN)
        journal.add("2", KNOWN)
    data = file.read_bytes()
    seen = set()
    for length in range(len(data) + 1):
        file.write_bytes(data[:length])
        with opened(file) as again:
            known = [*again.rows]
            again.add("9", KNOWN)
        seen.add(tuple(known))
        with opened(file) as last:
            assert [*last.rows] == [*known, "9"]
    assert seen == {(), ("1",), ("1", "2")}


@pytest.mark.parametrize("text", ["[1]\n", "my\nnotes\n", "notes", '{"a": 1}', "\n", "\0\0"])
def test_a_file_that_is_no_journal_is_refused_and_stays(tmp_path: Path, text: str) -> None:
    file = tmp_path / "notes"
    file.write_text(text)
    with pytest.raises(VideoloadError, match=str(file)), opened(file):
        pass
    assert file.read_text() == text


def test_one_process_at_a_time_writes_and_another_job_is_refused_by_what_differs(
    tmp_path: Path,
) -> None:
    file = tmp_path / "lines"
    with opened(file) as journal:
        journal.add("a", KNOWN)
        with pytest.raises(VideoloadError, match="lines"), opened(file):
            pass
    before = file.read_bytes()
    other = {"hop": "9", "seed": "1", "top": "2"}
    with (
        pytest.raises(VideoloadError, match=r"hop: 8 before, 9 now; top: none before, 2 now"),
        opened(file, job=other),
    ):
        pass
    assert file.read_bytes() == before
    with opened(file) as again:
        assert [*again.rows] == ["a"]


def test_a_disk_that_is_full_in_the_middle_of_a_line_takes_no_other_line_along(
    tmp_path: Path,
) -> None:
    file = tmp_path / "journal"
    with opened(file) as journal:
        journal.add("1", KNOWN)
        size = file.stat().st_size
        with limited_files(size + 5), pytest.raises(OSError, match="too large"):
            journal.add("2", KNOWN)
        assert file.stat().st_size == size + 5
        journal.add("3", KNOWN)
    with opened(file) as again:
        assert [*again.rows] == ["1", "3"]


@pytest.mark.parametrize(("provenance", "is_same"), PROVENANCES)
def test_a_row_counts_if_its_code_and_its_file_are_the_same(
    provenance: Provenance, is_same: bool, tmp_path: Path
) -> None:
    with opened(tmp_path / "journal") as journal:
        journal.add("a", KNOWN, found=[1])
    with opened(tmp_path / "journal") as again:
        assert again.keep({"a": provenance, "b": provenance}) == ([] if is_same else ["a"])
        assert ("a" in again.rows) is is_same


def test_a_table_is_replaced_only_if_the_journal_wrote_it_as_it_is(tmp_path: Path) -> None:
    file, table = tmp_path / "journal", tmp_path / "table"
    with opened(file, table) as journal:
        for text in ("one\n", "two\n", "one\n"):
            journal.write(table, text)
    assert table.read_text() == "one\n"
    with opened(file, table) as journal:
        journal.write(table, "")
    assert not table.exists()
    table.write_text("mine\n")
    with pytest.raises(VideoloadError, match="table was changed"), opened(file, table):
        pass
    file.unlink()
    with pytest.raises(VideoloadError, match=r"table exists, and journal does not"):
        Journal(file, JOB, tables=[table])
    assert [*tmp_path.iterdir()] == [table]
