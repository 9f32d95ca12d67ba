"""A journal tells what was written before a kill, and of what."""

from __future__ import annotations

from pathlib import Path

import pytest

from videoload.errors import VideoloadError
from videoload.journal import Journal

ONE = {"hop": "8", "seed": "1"}


def test_a_line_counts_if_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "new" / "journal"
    journal = Journal(file, ONE)
    journal.append({"video": 1})
    journal.append({"video": 2})
    journal.close()
    data = file.read_bytes()
    seen = set()
    for length in range(len(data) + 1):
        file.write_bytes(data[:length])
        again = Journal(file, ONE)
        again.append({"video": 9})
        again.close()
        told = [entry["video"] for entry in again.entries]
        seen.add(tuple(told))
        last = Journal(file, ONE)
        assert [entry["video"] for entry in last.entries] == [*told, 9]
        last.close()
    assert seen == {(), (1,), (1, 2)}


def test_it_says_what_it_is_of(tmp_path: Path) -> None:
    Journal(tmp_path / "journal", ONE).close()
    other = Journal(tmp_path / "journal", {"hop": "4"})
    assert other.head == ONE
    other.close()
    (tmp_path / "text").write_text("[1]\n")
    with pytest.raises(VideoloadError, match="not a journal"):
        Journal(tmp_path / "text", ONE)


def test_one_process_at_a_time_goes_on(tmp_path: Path) -> None:
    first = Journal(tmp_path / "journal", ONE)
    with pytest.raises(VideoloadError, match="another process writes there"):
        Journal(tmp_path / "journal", ONE)
    first.close()
    Journal(tmp_path / "journal", ONE).close()
