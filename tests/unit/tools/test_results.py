"""Whatever a kill, or a person, leaves behind, the next run makes the same results of it."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.support.limits import limited_files
from tests.support.provenances import KNOWN, PROVENANCES
from videoload.catalog.catalog import Catalog
from videoload.errors import SpecError, VideoloadError
from videoload.tools.journal import Provenance
from videoload.tools.predict_windows import FileScores
from videoload.tools.results import TABLE_HEAD, Results, WindowTable, row_names

HOW, TABLE = {"hop": "8"}, WindowTable(1, ("x", "y"))
NAMES = [f"{row}.avi" for row in range(4)]
PLACES = {"table": "all.csv", "tables": "each", "arrays": "npy"}


def scores(row: int) -> FileScores:
    times = np.arange(3.0) + row
    return FileScores(f"{row}.avi", np.eye(3, 2) * (row + 1), times, times + 0.5)


def run(
    folder: Path, rows: int = 4, places: str = "table arrays", names: list[str] = NAMES,
    provenance: Provenance = KNOWN, bad: str = "1.avi",
) -> list[int]:  # fmt: skip
    """Do what is missing of the first rows, of which one is bad. Returns what was done."""
    to_csv = next((folder / PLACES[p] for p in ("table", "tables") if p in places.split()), None)
    to_npy = folder / "npy" if "arrays" in places else None
    results = Results(to_csv, to_npy, HOW, TABLE, dict.fromkeys(names, provenance))
    try:
        lack = [row for row in range(len(names)) if results.lacks(row)]
        done = [row for row in lack[: rows + (bad in names)] if names[row] != bad]
        for row in lack[: rows + (bad in names)]:
            results.save(row, None if names[row] == bad else scores(int(names[row][0])))
        if rows == len(NAMES):
            results.finish()
        return done
    finally:
        results.close()


def found(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("places", ["table", "tables arrays", "table arrays"])
def test_results_are_the_same_wherever_a_run_was_killed(places: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    assert run(whole, places=places) == [0, 2, 3]
    expected = found(whole)
    for done in range(4):
        folder = tmp_path / str(done)
        run(folder, done, places)
        for journal in folder.rglob("*.progress") if done < 3 else ():  # cut off within a line
            with journal.open("ab") as raw:
                raw.write(b'{"row": "3.av')
        if "table" in places.split() and done < 3:
            (folder / ".all.csv.unfinished").write_bytes(b"half")
        if "arrays" in places and done < 3:
            (folder / "npy").mkdir(parents=True, exist_ok=True)
            (folder / "npy/.3.avi.npy.unfinished").write_bytes(b"half")
        run(folder, places=places)
        assert found(folder) == expected


def test_a_disk_that_is_full_is_reported_with_the_place(tmp_path: Path) -> None:
    place = str(tmp_path / "all.csv")
    with limited_files(400), pytest.raises(VideoloadError, match=place):
        run(tmp_path, places="table")


def test_what_was_deleted_or_is_asked_for_later_is_done_and_nothing_else(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    run(whole, places="tables arrays")
    expected = found(whole)
    folder = tmp_path / "other"
    assert run(folder, places="arrays") == [0, 2, 3]
    assert run(folder, places="tables arrays") == [0, 2, 3]
    assert found(folder) == expected
    for lost, row in (("npy/2.avi.times.npy", 2), ("each/3.avi.csv", 3)):
        (folder / lost).unlink()
        assert run(folder, places="tables arrays") == [row]
        assert found(folder) == expected
    run(folder, places="table")
    table = (folder / "all.csv").read_bytes()
    (folder / "all.csv").unlink()
    assert run(folder, places="table") == []
    assert (folder / "all.csv").read_bytes() == table


def test_a_table_has_the_rows_of_the_catalog_in_its_order(tmp_path: Path) -> None:
    run(tmp_path, names=["2.avi", "3.avi"])
    assert run(tmp_path, names=["0.avi", "3.avi", "2.avi"]) == [0]
    lines = (tmp_path / "all.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[1::3]] == ["0.avi", "3.avi", "2.avi"]
    assert run(tmp_path, names=["3.avi"]) == []
    assert (tmp_path / "all.csv").read_text() == TABLE_HEAD + TABLE.lines(scores(3))


def test_what_is_not_ours_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text("mine")
    with pytest.raises(VideoloadError, match=r"all\.csv .*all\.csv\.progress"):
        run(tmp_path)
    assert found(tmp_path) == {"all.csv": b"mine"}
    (tmp_path / "all.csv").unlink()
    run(tmp_path)
    (tmp_path / "all.csv").write_text("cut")
    with pytest.raises(VideoloadError, match=r"all\.csv"):
        run(tmp_path)
    shutil.rmtree(tmp_path / "npy")
    (tmp_path / "npy").mkdir()
    (tmp_path / "npy/2.avi.npy").write_text("mine")
    with pytest.raises(VideoloadError, match=r"2\.avi\.npy .*\.npy\.progress"):
        run(tmp_path, places="arrays")


def test_results_of_another_spec_are_refused_by_what_differs(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(VideoloadError, match="hop: 8 before, 9 now"):
        Results(None, tmp_path / "npy", {"hop": "9"}, TABLE, {})
    with pytest.raises(VideoloadError, match="top: 1 before, 2 now"):
        Results(tmp_path / "all.csv", None, HOW, WindowTable(2, TABLE.classes), {})
    (tmp_path / "file").write_text("")
    with pytest.raises(VideoloadError, match="file"):
        run(tmp_path / "file")


@pytest.mark.parametrize("places", ["table", "tables arrays"])
@pytest.mark.parametrize(("provenance", "is_same"), PROVENANCES)
def test_a_row_of_another_model_or_file_or_box_is_done_again(
    places: str, provenance: Provenance, is_same: bool, tmp_path: Path
) -> None:
    run(tmp_path, places=places)
    before = found(tmp_path)
    assert run(tmp_path, places=places, provenance=provenance) == ([] if is_same else [0, 2, 3])
    assert (found(tmp_path) == before) is is_same
    run(tmp_path, 0, places, provenance=Provenance("a third", 5), bad="0.avi")
    rows = {name for name in found(tmp_path) if name.endswith((".npy", ".avi.csv"))}
    assert not rows, "no result of another model stays, also where the run is stopped"


def test_every_row_has_a_name_of_its_own() -> None:
    times = [(12345.61, 12349.9), (12345.64, 12349.92), (10000.6, 10003.61), (10000.6, 10003.64)]
    starts, ends = (list(each) for each in zip(*times, (0.5, None), (0.5, None), strict=True))
    catalog = Catalog(
        ["long.avi"] * 6, [0] * 6, ["x"], "/", starts_s=starts, ends_s=ends, duplicates=True
    )
    assert row_names(catalog) == [
        "long.avi.12345.61-12349.9s", "long.avi.12345.64-12349.92s", "long.avi.10000.6-10003.61s",
        "long.avi.10000.6-10003.64s", "long.avi.0.5-s", "long.avi.0.5-s.2",
    ]  # fmt: skip
    frames = Catalog(["a.avi"] * 2, [0, 0], ["x"], "/", starts=[0, 40], ends=[40, -1])
    assert row_names(frames) == ["a.avi.0-40", "a.avi.40-"]


# The lines of a table

FILE = FileScores(
    'a "b",c.avi', np.array([[0.1, 0.7, 0.2], [1 / 3, 0.0, 1e-9]], np.float32),
    np.array([0, 1200 + 1 / 15]), np.array([0.5, np.nan]),
)  # fmt: skip


def test_a_window_has_a_line_for_each_of_its_best_classes() -> None:
    assert WindowTable(2, ("x", "y", "z")).lines(FILE).splitlines() == [
        '"a ""b"",c.avi",0,0.5,y,0.7',
        '"a ""b"",c.avi",0,0.5,z,0.2',
        '"a ""b"",c.avi",1200.066667,,x,0.3333333',
        '"a ""b"",c.avi",1200.066667,,z,1e-09',
    ]
    with pytest.raises(SpecError, match=r"classes=.*\b1\b.*\b3\b"):
        WindowTable(1, ("one",), are_given=True).lines(FILE)
    unnamed = WindowTable(1, ("one",)).lines(FILE).splitlines()
    assert [line.split(",")[-2] for line in unnamed] == ["1", "0"], "names do not fit: numbers"


def test_features_are_no_table() -> None:
    with pytest.raises(SpecError, match=r"\[4, 3\]: to_npy="):
        WindowTable(1, ()).lines(FILE._replace(scores=np.zeros((2, 4, 3))))


@pytest.mark.parametrize("name", ["=1+cmd|x!A0", "+1", "@x", "-2+3+cmd|' /C calc'!A0"])
def test_no_cell_is_a_formula(name: str, tmp_path: Path) -> None:
    with (tmp_path / "t.csv").open("wb") as out:
        WindowTable(1, (name, "z", name)).write(out, FILE._replace(path=f"{name}.avi"))
    _, *lines = csv.reader((tmp_path / "t.csv").read_text().splitlines())
    assert not [cell for line in lines for cell in line if cell.startswith(("=", "+", "@", "-"))]
    catalog = Catalog.from_table(tmp_path / "t.csv", label="class", classes=["z", name])
    assert catalog[0].path == f"{name}.avi"
    assert catalog.labels.tolist() == [0, 1], "read back, they are themselves"


def test_a_name_that_begins_with_a_hyphen_stays_as_it_is() -> None:
    lines = WindowTable(1, ("-1",)).lines(FILE._replace(path="-3B32lodo2M.mp4"))
    assert lines.startswith("-3B32lodo2M.mp4,")
