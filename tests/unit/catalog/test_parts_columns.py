"""Tables with a column a part are catalogs of samples; what is missing is named with its line."""

from pathlib import Path

import pytest

from tests.support.catalogs import refused, text
from videoload.catalog.catalog import Catalog
from videoload.storage.paths import files_of, offsets_of

TABLE = """rgb,depth,skeleton,label,start_s,end_s,depth_offset_s
r/1.avi,d/1,s/1.npy,run,,,0.2
r/2.avi,./d/2,s/2.npy,jump,1.5,4,0

r/3.avi,d/3,s/3.npy,run,,,-1e-1
"""
PARTS = ("rgb", "depth", "skeleton")


def test_each_row_of_a_table_is_a_sample(tmp_path: Path) -> None:
    table = text(tmp_path, TABLE)
    catalog = Catalog.from_table(table, tmp_path, parts=PARTS)
    assert [files_of(video.path) for video in catalog] == [
        [f"r/{i}.avi", f"d/{i}", f"s/{i}.npy"] for i in (1, 2, 3)
    ]
    assert [offsets_of(video.path) for video in catalog] == [[0, 0.2, 0], [0, 0, 0], [0, -0.1, 0]]
    assert [catalog.classes[video.label] for video in catalog] == ["run", "jump", "run"]
    assert (catalog[1].start_s, catalog[1].end_s) == (1.5, 4)
    two = Catalog.from_table(table, tmp_path, parts=["depth", "rgb"])
    assert files_of(two[0].path) == ["d/1", "r/1.avi"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("rgb,depth,label\na,b,0\nc,,0\n", ["line 3", "'depth'"]),
        ("rgb,depth,label\n,b,0\n", ["line 2", "'rgb'"]),
        ("rgb,depth,label\na,../b,0\n", ["line 2", "'../b'"]),
        ("rgb,label\na,0\n", ["'depth'", "parts="]),
        ("rgb,depth,depth_offset_s,label\na,b,late,0\n", ["line 2", "depth_offset_s"]),
        ("rgb,depth,depth_offset_s,label\na,b,nan,0\n", ["line 2", "depth_offset_s"]),
        ("rgb,depth,depth_offset_s,label\na,b,1,0\nc,d,,0\n", ["line 3", "depth_offset_s"]),
        ("rgb,depth,depht_offset_s,label\na,b,1,0\n", ["'depht_offset_s'"]),
        ("rgb,depth,depth_offset,label\na,b,1,0\n", ["'depth_offset'"]),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, table: str, words: list[str]) -> None:
    with refused(*words):
        Catalog.from_table(text(tmp_path, table), tmp_path, parts=("rgb", "depth"))


def test_parts_are_two_columns_at_least_and_offsets_are_seconds(tmp_path: Path) -> None:
    table = text(tmp_path, TABLE)
    for parts in (("rgb",), "rgb", ("rgb", "rgb")):
        with refused("parts"):
            Catalog.from_table(table, tmp_path, parts=parts)
    with refused('by="frames"'):
        Catalog.from_table(table, tmp_path, parts=PARTS, by="frames")
