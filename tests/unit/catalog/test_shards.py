"""Catalogs from shards: which members are a sample, and what is said of those that are none."""

import io
import logging
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.catalogs import pairs, refused
from videoload.catalog.catalog import Catalog


def shard(path: Path, **members: str | bytes) -> Path:
    """A tar of these members, whose names have __ for a dot and ___ for a slash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, given in members.items():
            data = given.encode() if isinstance(given, str) else given
            entry = tarfile.TarInfo(name.replace("___", "/").replace("__", "."))
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def paths(catalog: Catalog) -> list[str]:
    return [video.path for video in catalog]


def test_a_sample_is_a_row_with_its_fields(tmp_path: Path) -> None:
    for n in range(3):
        shard(
            tmp_path / f"t-{n:02}.tar", in___b__mp4="v", in___b__txt=f"é {n}\n", in___b__cls="run",
            in___b__json='{"start": 7, "label": "no", "w": 3}', a__json="{}", c__cls="run",
        )  # fmt: skip
    catalog = Catalog.from_shards(
        "t-{00..01}.tar", tmp_path, label="cls",
        targets={"text": "txt", "w": "json:w", "key": "__key__"},
    )  # fmt: skip
    assert pairs(catalog) == [("t-00.tar/in/b.mp4", "run"), ("t-01.tar/in/b.mp4", "run")]
    assert catalog[0].start == 0
    targets: Any = catalog.targets
    assert targets["text"].tolist() == ["é 0\n", "é 1\n"]
    assert targets["w"].tolist() == [3, 3]
    assert targets["key"].tolist() == ["in/b", "in/b"]


@pytest.mark.parametrize(
    "given", ["t-*.tar", "t-?.tar", "t-{0,1}.tar", "t-[01].tar", ["t-0.tar", "t-1.tar"]]
)
def test_shards_are_named_in_several_ways(tmp_path: Path, given: Any, monkeypatch: Any) -> None:
    for name in ("t-0", "t-1", "v-0"):
        shard(tmp_path / "d" / f"{name}.tar", a__mp4="1")
    expected = ["t-0.tar/a.mp4", "t-1.tar/a.mp4"]
    assert paths(Catalog.from_shards(given, tmp_path / "d")) == expected
    monkeypatch.chdir(tmp_path)
    below = [f"d/{each}" for each in ([given] if isinstance(given, str) else given)]
    for top in ("", f"{tmp_path}/"):
        catalog = Catalog.from_shards([top + each for each in below])
        assert catalog.root == tmp_path / "d"
        assert paths(catalog) == expected


def test_several_videos_are_parts(tmp_path: Path) -> None:
    shard(tmp_path / "x.tar", a__left__mp4="1", a__right__mp4="2", b__left__mp4="3")
    for catalog in (
        Catalog.from_shards("x.tar", tmp_path),
        Catalog.from_shards("x.tar", tmp_path, parts={"left": "left.mp4", "right": "right.mp4"}),
    ):
        assert paths(catalog) == ["x.tar/a.left.mp4\nx.tar/a.right.mp4"]
    one = Catalog.from_shards("x.tar", tmp_path, video="left.mp4")
    assert paths(one) == ["x.tar/a.left.mp4", "x.tar/b.left.mp4"]


def test_rows_are_chosen_by_fields(tmp_path: Path) -> None:
    shard(tmp_path / "x.tar", a__mp4="1", a__json='{"w": 1}', b__mp4="2", b__json='{"w": 2}')
    catalog = Catalog.from_shards("x.tar", tmp_path, where={"json:w": 2})
    assert paths(catalog) == ["x.tar/b.mp4"]


def test_what_is_left_out_is_counted_and_a_dot_in_a_key_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shard(tmp_path / "x.tar", a__mp4="1", b__txt="2", v1__5_c__mp4="3")
    with caplog.at_level(logging.WARNING):
        Catalog.from_shards("x.tar", tmp_path, video="mp4")
    assert "2 of 3" in caplog.text
    assert "first dot" in caplog.text


def test_samples_without_a_requested_field_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shard(tmp_path / "x.tar", a__mp4="1", a__txt="two", b__mp4="3", c__txt="no video", d__mp4="4")
    with caplog.at_level(logging.WARNING):
        catalog = Catalog.from_shards("x.tar", tmp_path, targets={"caption": "txt"})
    assert "2 of 3 samples have no txt: x.tar/b.mp4" in caplog.text
    targets: Any = catalog.targets
    assert targets["caption"].tolist() == ["two", "", ""]


@pytest.mark.parametrize(
    ("members", "asked", "words"),
    [
        ({"a__mp4": "1", "b__mp4": "2", "a__txt": "3"}, {}, ["x.tar", "'a'", "beside"]),
        ({"a__txt": "1"}, {}, ["txt"]),
        ({"a__mp4": "1", "a__txt": ""}, {"label": "cls"}, ["'cls'", "fields are mp4, txt"]),
        ({"a__mp4": "1", "a__json": '{"w": 1}'}, {"label": "json:v"}, ["json:v", "mp4, json"]),
        ({"a__mp4": "1"}, {"video": "avi"}, ["avi", "mp4"]),
        ({"a__mp4": "1", "a__json": "{"}, {"label": "json:w"}, ["x.tar/a.json"]),
        ({"a__mp4": "1", "a__json": "[]"}, {"label": "json:w"}, ["x.tar/a.json"]),
        ({"a__mp4": "1", "a__txt": b"\xff"}, {"targets": "txt"}, ["x.tar/a.txt"]),
    ],
)
def test_what_cannot_be_a_row_is_refused_by_its_name(
    tmp_path: Path, members: dict[str, Any], asked: dict[str, Any], words: list[str]
) -> None:
    shard(tmp_path / "x.tar", **members)
    with refused(*words):
        Catalog.from_shards("x.tar", tmp_path, **asked)


def test_a_shard_may_be_named_below_its_root(tmp_path: Path) -> None:
    shard(tmp_path / "d" / "x.tar", a__mp4="1")
    for root in (tmp_path, f"{tmp_path}/"):
        assert paths(Catalog.from_shards(f"{tmp_path}/d/*.tar", root)) == ["d/x.tar/a.mp4"]


def test_a_folder_is_no_shard_and_an_archive_no_video(tmp_path: Path) -> None:
    shard(tmp_path / "d" / "x.tar", a__mp4="1")
    with refused("d/*.tar"):
        Catalog.from_shards("d", tmp_path)
    with refused("d/x.tar", "from_shards"):
        Catalog(["d/x.tar"], root=tmp_path)
    with refused("d/x.tar", "from_shards"):
        Catalog.from_table([{"path": "d/x.tar"}], tmp_path)


def test_shards_that_are_missing_damaged_or_elsewhere_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.tar").write_bytes(b"no" * 999)
    (tmp_path / "gz.tar").write_bytes(b"\x1f\x8b" * 999)
    for name, words in {
        "no-*.tar": ["no-*.tar"], "no.tar": ["no.tar"], "bad.tar": ["bad.tar"],
        "../x.tar": ["../x"], "gz.tar": ["gz.tar", "gzip"], "{9..0}.tar": ["9..0"],
    }.items():  # fmt: skip
        with refused(*words):
            Catalog.from_shards(name, tmp_path)


def test_tables_may_name_members(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shard(tmp_path / "x.tar", a__mp4="1", in___b__mp4="2")
    rows = [{"path": f"x.tar/{name}.mp4"} for name in ("a", "in/b", "c")]
    catalog = Catalog.from_table(rows, tmp_path)
    assert len(catalog) == 3
    assert "1 of 3" in caplog.text
    assert "x.tar/c.mp4" in caplog.text
