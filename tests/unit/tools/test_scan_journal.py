"""A scan's rows in files: read again, added to, never written over another table."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.scan_rows import row
from videoload import Catalog, VideoloadError
from videoload.tools.scan_journal import ScanJournal, ScanRow


def written(folder: Path, *names: str, frames: int = 250) -> ScanRow:
    """A file, and the row that a scan would find."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    status = os.stat(folder / name)
    return row(name, frames=frames, file_bytes=status.st_size, modified_ns=status.st_mtime_ns)


def test_a_file_that_no_scan_wrote_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "train.csv"
    out.write_text("path,label\nx/a.avi,x\n")
    with pytest.raises(VideoloadError, match=r"train\.csv"):
        ScanJournal(out)
    with pytest.raises(VideoloadError, match=tmp_path.name):
        ScanJournal(tmp_path)


def test_a_row_is_known_until_its_file_changes(tmp_path: Path) -> None:
    good, bad = written(tmp_path, "a.avi"), written(tmp_path, "b.avi", frames=0)
    first = ScanJournal(tmp_path / "t.csv")
    first.add(good)
    first.add(bad)
    with (tmp_path / "t.csv").open("a") as file:
        file.write("c.avi,x,,")  # the scan was stopped within this line
    again = ScanJournal(tmp_path / "t.csv")
    assert again.find(tmp_path, "a.avi") == good
    assert again.find(tmp_path, "b.avi") == bad
    assert again.find(tmp_path, "c.avi") is None
    (tmp_path / "a.avi").write_text("longer than it was")
    assert again.find(tmp_path, "a.avi") is None


def test_a_file_that_is_named_like_a_formula_is_read_back(tmp_path: Path) -> None:
    formula = written(tmp_path, "=1+cmd|x!A0.avi")
    ScanJournal(tmp_path / "t.csv").add(formula)
    assert (tmp_path / "t.csv").read_text().splitlines()[1].startswith("'=")
    assert ScanJournal(tmp_path / "t.csv").find(tmp_path, formula.path) == formula
    assert Catalog.from_table(tmp_path / "t.csv", tmp_path).paths == (formula.path,)


def test_a_left_over_table_of_bad_files_is_named(tmp_path: Path) -> None:
    bad = written(tmp_path / "one", "a.avi", frames=0)
    ScanJournal(tmp_path / "t.csv").add(bad)
    assert not (tmp_path / "t.csv").exists()
    written(tmp_path / "two", "b.avi")
    journal = ScanJournal(tmp_path / "t.csv")
    with pytest.raises(VideoloadError, match=r"t\.bad\.csv.*a\.avi"):
        journal.check(tmp_path / "two", ["b.avi"])


def test_a_table_without_rows_is_removed(tmp_path: Path) -> None:
    catalog = Catalog(["a.avi"], [0], ["run"])
    journal = ScanJournal(tmp_path / "t.csv")
    journal.finish([row("a.avi", "run")], catalog)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    journal.finish([row("a.avi", "run", frames=0)], catalog)
    assert [path.name for path in tmp_path.iterdir()] == ["t.bad.csv"]
    journal.finish([row("a.avi", "run")], catalog)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_table_of_a_scan_finds_its_classes(tmp_path: Path) -> None:
    names = ["0", "1", "10", "2"]
    paths = [f"{name}/v.avi" for name in names]
    catalog = Catalog(paths, [0, 1, 2, 3], names, root=tmp_path)
    rows = [replace(written(tmp_path, path), label=path[:-6]) for path in paths]
    ScanJournal(tmp_path / "t.csv").finish(rows, catalog)
    found = Catalog.from_table(tmp_path / "t.csv", tmp_path)
    assert (found.classes, found.labels.tolist()) == (tuple(names), [0, 1, 2, 3])
    named = Catalog(paths, ["a", "b", "c", "d"], root=tmp_path)
    again = [replace(row, label=name) for row, name in zip(rows, named.classes, strict=True)]
    ScanJournal(tmp_path / "t.csv").finish(again, named)
    assert Catalog.from_table(tmp_path / "t.csv", tmp_path).classes == named.classes
    assert not (tmp_path / "t.classes.txt").exists(), "those of another scan"
