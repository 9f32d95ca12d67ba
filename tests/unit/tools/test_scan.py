"""A scan's rows in tables: known again while their files are the same, never written over another
table."""

from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.scan_rows import row
from videoload import Catalog, VideoloadError
from videoload.tools.scan import ScanRow, ScanTable

OF_ROW = {"path", "label", "start", "end", "start_s", "end_s"}


def facts(**more: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(row("", **more)).items() if name not in OF_ROW}


def finish(table: Path, rows: list[ScanRow], catalog: Catalog) -> None:
    with closing(ScanTable(table)) as scanned:
        scanned.finish(rows, catalog)


def test_a_file_that_no_scan_wrote_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "train.csv"
    out.write_text("path,label\nx/a.avi,x\n")
    with pytest.raises(VideoloadError, match=r"train\.csv"):
        ScanTable(out)
    assert [*tmp_path.iterdir()] == [out]
    with pytest.raises(VideoloadError, match=tmp_path.name):
        ScanTable(tmp_path)


def test_a_row_is_known_until_its_file_or_the_software_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    labels = {"a.avi": "x", "b.avi": "x", "gone.avi": "x"}
    for name in ("a.avi", "b.avi"):
        (tmp_path / name).write_text(name)
    with closing(ScanTable(tmp_path / "t.csv")) as first:
        assert first.known(tmp_path, labels) == {}
        first.add("a.avi", facts())
        first.add("b.avi", facts(frames=0))
        first.add("gone.avi", facts(frames=0))
    with (tmp_path / "t.csv.progress").open("a") as file:
        file.write('{"row": "c.a')  # the scan was killed within this line

    def known() -> dict[str, Any]:
        with closing(ScanTable(tmp_path / "t.csv")) as again:
            return again.known(tmp_path, labels)

    assert known() == {"a.avi": facts(), "b.avi": facts(frames=0)}, "who knows, it may be back"
    (tmp_path / "a.avi").write_text("longer than it was")
    assert [*known()] == ["b.avi"]
    assert "a.avi" in caplog.text
    monkeypatch.setattr("videoload.tools.scan.code_digest", lambda: "other")
    assert known() == {}


def test_a_file_that_is_named_like_a_formula_is_read_back(tmp_path: Path) -> None:
    path = "=1+cmd|x!A0.avi"
    finish(tmp_path / "t.csv", [row(path)], Catalog([path], [0], ["x"]))
    assert (tmp_path / "t.csv").read_text().splitlines()[1].startswith("'=")
    assert Catalog.from_table(tmp_path / "t.csv", tmp_path).paths == (path,)


def test_rows_of_another_folder_are_named_and_stay(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}.avi").write_text(folder)
    with closing(ScanTable(tmp_path / "t.csv")) as table:
        table.known(tmp_path / "one", {"one.avi": "x"})
        table.add("one.avi", facts(frames=0))
        with pytest.raises(VideoloadError, match=r"t\.csv.*1 .*one\.avi"):
            table.known(tmp_path / "two", {"two.avi": "x"})


def test_a_table_without_rows_is_removed(tmp_path: Path) -> None:
    catalog = Catalog(["a.avi"], [0], ["run"])

    def there() -> set[str]:
        return {path.name for path in tmp_path.iterdir()} - {"t.csv.progress"}

    finish(tmp_path / "t.csv", [row("a.avi", "run")], catalog)
    assert there() == {"t.csv"}
    finish(tmp_path / "t.csv", [row("a.avi", "run", frames=0)], catalog)
    assert there() == {"t.bad.csv"}
    finish(tmp_path / "t.csv", [row("a.avi", "run")], catalog)
    assert there() == {"t.csv"}


def test_a_table_of_a_scan_finds_its_classes(tmp_path: Path) -> None:
    names = ["0", "1", "10", "2"]
    paths = [f"{name}/v.avi" for name in names]
    catalog = Catalog(paths, [0, 1, 2, 3], names, root=tmp_path)
    rows = [row(path, path[:-6]) for path in paths]
    finish(tmp_path / "t.csv", rows, catalog)
    found = Catalog.from_table(tmp_path / "t.csv", tmp_path)
    assert (found.classes, found.labels.tolist()) == (tuple(names), [0, 1, 2, 3])
    named = Catalog(paths, ["a", "b", "c", "d"], root=tmp_path)
    again = [replace(row, label=name) for row, name in zip(rows, named.classes, strict=True)]
    finish(tmp_path / "t.csv", again, named)
    assert Catalog.from_table(tmp_path / "t.csv", tmp_path).classes == named.classes
    assert not (tmp_path / "t.classes.txt").exists(), "those of another scan"
