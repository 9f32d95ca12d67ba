"""A journal tells what was written before a kill, and of what."""

from pathlib import Path

import pytest

from tests.support.limits import limited_files
from videoload.errors import VideoloadError
from videoload.tools.predict_journal import PredictionJournal

ONE = {"hop": "8", "seed": "1"}


def test_a_line_counts_if_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "new" / "journal"
    journal = PredictionJournal(file, ONE)
    journal.append({"video": 1})
    journal.append({"video": 2})
    journal.close()
    data = file.read_bytes()
    seen = set()
    for length in range(len(data) + 1):
        file.write_bytes(data[:length])
        again = PredictionJournal(file, ONE)
        again.append({"video": 9})
        again.close()
        told = [entry["video"] for entry in again.entries]
        seen.add(tuple(told))
        last = PredictionJournal(file, ONE)
        assert [entry["video"] for entry in last.entries] == [*told, 9]
        last.close()
    assert seen == {(), (1,), (1, 2)}
    other = PredictionJournal(file, {"hop": "4"})
    assert other.head == ONE, "it says what it is of"
    other.close()


@pytest.mark.parametrize("text", ["[1]\n", "my\nnotes\n", "notes", '{"a": 1}', "\n", "\0\0"])
def test_a_file_that_is_no_journal_is_refused_and_stays(tmp_path: Path, text: str) -> None:
    file = tmp_path / "notes"
    file.write_text(text)
    with pytest.raises(VideoloadError, match=str(file)):
        PredictionJournal(file, ONE)
    assert file.read_text() == text


def test_a_journal_of_another_job_stays_as_it_is_and_one_process_at_a_time_goes_on(
    tmp_path: Path,
) -> None:
    file = tmp_path / "lines"
    file.write_text('{"a": 1}\n{"b": 2}')
    journal = PredictionJournal(file, ONE)
    with pytest.raises(VideoloadError, match="lines"):
        PredictionJournal(file, ONE)
    journal.close()
    assert file.read_text() == '{"a": 1}\n{"b": 2}'
    PredictionJournal(file, ONE).close()


def test_a_disk_that_is_full_in_the_middle_of_a_line_takes_no_other_line_along(
    tmp_path: Path,
) -> None:
    file = tmp_path / "journal"
    journal = PredictionJournal(file, ONE)
    journal.append({"video": 1})
    size = file.stat().st_size
    with limited_files(size + 5), pytest.raises(OSError, match="too large"):
        journal.append({"video": 2})
    assert file.stat().st_size == size + 5
    journal.append({"video": 3})
    journal.close()
    again = PredictionJournal(file, ONE)
    again.close()
    assert [entry["video"] for entry in again.entries] == [1, 3]
