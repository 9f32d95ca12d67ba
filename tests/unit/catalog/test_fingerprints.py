"""What a scan found of a file, in the rows of a catalog."""

from pathlib import Path

import pytest

from tests.support.catalogs import refused
from videoload.catalog.catalog import Catalog
from videoload.storage.content import fingerprint_in, fingerprint_text

PRINTS = [0x0123456789ABCDEF, 1, (1 << 63) - 1]


def scanned() -> Catalog:
    rows = [{"path": f"{n}.avi", "fingerprint": fingerprint_text(x)} for n, x in enumerate(PRINTS)]
    return Catalog.from_table(rows)


def test_a_fingerprint_is_read_as_it_was_written_and_nothing_else_is_one() -> None:
    assert [fingerprint_in(fingerprint_text(fingerprint)) for fingerprint in PRINTS] == PRINTS
    hexes = "0123456789abcdef", "xxh3-", "xxh3-0123456789abcde", "xxh3-0123456789ABCDE+"
    assert {fingerprint_in(cell) for cell in (None, "", 7, *hexes)} == {None}


def test_a_fingerprint_goes_with_its_video() -> None:
    catalog = scanned()
    assert [video.fingerprint for video in catalog] == PRINTS
    first, rest = catalog.subset([2, 0]), catalog[1:2]
    joined = Catalog.concat([first, rest, Catalog(["9.avi"])])
    wanted = [PRINTS[2], PRINTS[0], PRINTS[1], None]
    assert [video.fingerprint for video in joined] == wanted
    catalog = Catalog.side_by_side(rgb=scanned(), depth=scanned().subset([1, 2, 0]))
    assert {video.fingerprint for video in catalog} == {None}


def test_a_fingerprint_tells_no_two_rows_apart() -> None:
    rows = {"path": ["a.avi", "a.avi"], "fingerprint": list(map(fingerprint_text, PRINTS[:2]))}
    with refused("row 1"):
        Catalog.from_table(rows)


@pytest.mark.parametrize(
    ("cell", "found"), [("whorl", None), (fingerprint_text(PRINTS[0]), PRINTS[0])]
)
def test_another_column_of_that_name_is_not_used(
    cell: str, found: int | None, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "list.csv").write_text(f"path,fingerprint\na.avi,{cell}\n")
    caplog.set_level("INFO")
    catalog = Catalog.from_table(tmp_path / "list.csv")
    assert catalog[0].fingerprint == found
    assert ("fingerprint" in caplog.text) is (found is None)
