"""Targets out of text and JSON files beside the videos."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.support.catalogs import refused
from tests.unit.catalog.test_shards import shard
from videoload.catalog.catalog import Catalog

TOLD = {"caption": "json:caption", "text": "txt"}


def beside(root: Path, name: str, caption: Any, text: str | None = "t") -> None:
    """A file that is named like a video, and the files beside it."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / f"{name}.mp4").touch()
    (root / f"{name}.json").write_text(json.dumps({"caption": caption, "fps": 3}))
    if text is not None:
        (root / f"{name}.txt").write_text(text)


def test_text_and_json_beside_a_video_are_targets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    beside(tmp_path, "b.x", "a bé", "one\n")
    beside(tmp_path, "in/a", "snow")
    with caplog.at_level(logging.WARNING):
        catalog: Any = Catalog.from_folder(
            tmp_path, label=None, targets={**TOLD, "fps": "json:fps"}
        )
    assert not caplog.text, "these files are used"
    assert [video.path for video in catalog] == ["b.x.mp4", "in/a.mp4"]
    assert catalog.targets["caption"].tolist() == ["a bé", "snow"]
    assert catalog.targets["text"].tolist() == ["one\n", "t"]
    assert catalog.targets["fps"].tolist() == [3, 3]
    assert "label" not in catalog.targets
    only: Any = Catalog.from_folder(tmp_path, label=None, targets="json:caption")
    assert only.targets.tolist() == ["a bé", "snow"]
    by_name: Any = Catalog.from_folder(tmp_path, label=r"(\w)\.", targets=TOLD)
    assert by_name.targets["label"].tolist() == [1, 0]


def test_lists_of_texts_are_one_of_several_and_become_rows(tmp_path: Path) -> None:
    beside(tmp_path, "a", ["snow", "it snows"])
    beside(tmp_path, "b", "a cat")
    beside(tmp_path, "c", [])
    catalog = Catalog.from_folder(tmp_path, label=None, targets=TOLD)
    rows: Any = catalog.explode("caption")
    assert [video.path for video in rows] == ["a.mp4", "a.mp4", "b.mp4", "c.mp4"]
    assert rows.targets["caption"].tolist() == ["snow", "it snows", "a cat", ""]
    table = {"path": ["a.mp4", "b.mp4"], "caption": [["snow", "it snows"], "a cat"]}
    same: Any = Catalog.from_table(table, tmp_path, targets="caption").explode()
    assert same.targets.tolist() == ["snow", "it snows", "a cat"]
    with refused("caption", "row 1"):
        Catalog.from_table({**table, "caption": [["snow"], [1, "b"]]}, tmp_path, targets="caption")


def test_a_field_that_is_missing_is_named_and_one_that_all_lack_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    beside(tmp_path, "a", "snow")
    beside(tmp_path, "b", "a cat", None)
    with caplog.at_level(logging.WARNING):
        catalog: Any = Catalog.from_folder(tmp_path, label=None, targets=TOLD)
    assert catalog.targets["text"].tolist() == ["t", ""]
    assert "1 of 2 videos have no 'txt'" in caplog.text
    assert "b.mp4" in caplog.text
    with refused("'json:captoin'"):
        Catalog.from_folder(tmp_path, label=None, targets="json:captoin")
    with refused("chain"):
        Catalog.from_folder(tmp_path, label=None, targets=TOLD, chain=r"(.*)\.mp4")
    for text, word in (
        ("[1]", "not a JSON object"),
        ("{", "cannot be read"),
        (" " * 2**20 + "1", "bytes"),
    ):
        (tmp_path / "b.json").write_text(text)
        with refused("b.json", word):
            Catalog.from_folder(tmp_path, label=None, targets=TOLD)


@pytest.mark.parametrize("empty", ["null", "[]"])
def test_a_caption_that_is_empty_is_missing(
    empty: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    beside(tmp_path, "a", ["snow", "it snows"])
    beside(tmp_path, "b", "a cat")
    (tmp_path / "b.json").write_text(f'{{"caption": {empty}}}')
    with caplog.at_level(logging.WARNING):
        Catalog.from_folder(tmp_path, label=None, targets="json:caption")
    assert "1 of 2 videos have no 'json:caption'" in caplog.text


def test_fields_beside_a_member_of_an_archive_are_read_there(tmp_path: Path) -> None:
    shard(tmp_path / "t.tar", a__mp4="v", a__json='{"caption": "snow"}', a__txt="t")
    catalog: Any = Catalog.from_folder(tmp_path, label=None, targets=TOLD)
    assert catalog.paths == ("t.tar/a.mp4",)
    assert catalog.targets["caption"].tolist() == ["snow"]
