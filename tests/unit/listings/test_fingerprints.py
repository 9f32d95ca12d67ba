"""What a scan found of a file stays with its row, in any table and in any catalog."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from videoload import Catalog
from videoload.storage.content import fingerprint_in, fingerprint_text

PRINTS = [0x0123456789ABCDEF, 1, (1 << 63) - 1]


def scanned() -> Catalog:
    rows = [{"path": f"{n}.avi", "fingerprint": fingerprint_text(x)} for n, x in enumerate(PRINTS)]
    return Catalog.from_table(rows)


@pytest.mark.parametrize("fingerprint", PRINTS)
def test_a_fingerprint_is_read_as_it_was_written(fingerprint: int) -> None:
    assert fingerprint_in(fingerprint_text(fingerprint)) == fingerprint


@pytest.mark.parametrize(
    "cell",
    [None, "", 7, "0123456789abcdef", "xxh3-", "xxh3-0123456789abcde", "xxh3-0123456789ABCDE+"],
)
def test_anything_else_is_no_fingerprint(cell: object) -> None:
    assert fingerprint_in(cell) is None


def test_it_goes_with_its_video() -> None:
    catalog = scanned()
    assert [video.fingerprint for video in catalog] == PRINTS
    first, rest = catalog.subset([2, 0]), catalog[1:2]
    assert [video.fingerprint for video in Catalog.join([first, rest])] == [
        PRINTS[2],
        PRINTS[0],
        PRINTS[1],
    ]
    unknown = Catalog.join([catalog, Catalog(["9.avi"])])
    assert [video.fingerprint for video in unknown] == [*PRINTS, None]


def test_several_files_of_one_sample_have_none() -> None:
    catalog = Catalog.side_by_side(rgb=scanned(), depth=scanned().subset([1, 2, 0]))
    assert {video.fingerprint for video in catalog} == {None}


def test_it_tells_no_two_rows_apart() -> None:
    rows = {"path": ["a.avi", "a.avi"], "fingerprint": list(map(fingerprint_text, PRINTS[:2]))}
    with pytest.raises(ValueError, match="is the same segment as"):
        Catalog.from_table(rows)


def test_another_column_of_that_name_is_not_used(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "list.csv").write_text("path,fingerprint\na.avi,whorl\n")
    caplog.set_level("INFO")
    catalog = Catalog.from_table(tmp_path / "list.csv")
    assert catalog[0].fingerprint is None
    assert "columns that are not used: fingerprint" in caplog.text
    assert np.array_equal(catalog.labels, [-1])
