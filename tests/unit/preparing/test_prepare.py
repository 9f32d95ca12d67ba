"""A set that is written again has the labels of the old one, and a run that was stopped goes on."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.support import sounds
from tests.support.run_here import RunHere
from tests.support.videos import make_avi
from videoload import Catalog, ClipSpec, decode_serially
from videoload.errors import VideoloadError
from videoload.preparing.encoding import Settings
from videoload.preparing.prepare import is_done, new_catalog, new_names, prepare

SMALL = Settings.of(32, 6, "mpeg4", None)


@pytest.fixture
def run(run_here: RunHere) -> RunHere:
    return partial(run_here, "prepare")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "videos"
    make_avi(root / "train/run/a.avi", frames=20)
    make_avi(root / "train/jump/b.mp4", frames=13, container_format="mp4")
    make_avi(root / "test/run/c.avi", frames=9)
    (root / "trainlist01.txt").write_text("run/a.avi 1\n")
    return root


def test_a_set_of_two_parts_is_written_with_its_labels_and_lists_and_a_second_time_not(
    source: Path, tmp_path: Path, run: RunHere
) -> None:
    out = tmp_path / "out"
    (source / "test/run/bad.avi").write_bytes(b"RIFF0000AVI ")
    status, told, errors = run(source, out, "--resize", 32, "--workers", 2)
    assert status == 1, errors
    assert f"{out}: 3 files, 42 frames, " in told
    assert "copied: trainlist01.txt" in told
    assert "train/jump/b.avi for train/jump/b.mp4" in told
    assert "test/run/bad.avi: " in errors
    catalog = Catalog.from_csv(out / "scan.csv", out)
    named = {video.path: (catalog.classes[video.label], video.frames) for video in catalog}
    assert named == {
        "train/run/a.avi": ("run", 20), "train/jump/b.avi": ("jump", 13), "test/run/c.avi":
        ("run", 9),
    }  # fmt: skip
    # As if killed after the first file, within a line of the journal, and with half of a file.
    kept = (out / "train/run/a.avi").stat().st_mtime_ns
    lines = (out / "prepare.jsonl").read_bytes().splitlines(keepends=True)
    (own,) = (line for line in lines if b"run/a.avi" in line)
    (out / "prepare.jsonl").write_bytes(lines[0] + own + lines[-1][:20])
    (out / "test/run/.c.avi.new").write_bytes(b"half")
    (out / "test/run/c.avi").unlink()
    assert run(source, out, "--resize", 32, "--workers", 1)[0] == 1
    assert (out / "train/run/a.avi").stat().st_mtime_ns == kept
    assert sorted(file.name for file in (out / "test/run").iterdir()) == ["c.avi"]
    # Another way of writing needs another folder.
    status, _, errors = run(source, out, "--resize", 48)
    assert status == 1
    assert "was prepared otherwise (resize 32, gop 12, codec mpeg4, quality 3)" in errors


def test_files_that_it_did_not_write_are_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "out/run/a.avi"
    mine.parent.mkdir(parents=True)
    mine.write_text("the only copy")
    (tmp_path / "videos").mkdir()
    catalog = Catalog(["run/a.mp4"], [0], ["run"], tmp_path / "videos")
    with pytest.raises(VideoloadError, match="exists, and was not written by this"):
        prepare(catalog, tmp_path / "out", SMALL, processes=1)
    assert mine.read_text() == "the only copy"
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["run"]


def test_lists_that_were_edited_stay_and_a_table_of_the_source_is_not_copied(
    source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (source / "scan.csv").write_text("of,the,source\n")
    catalog = Catalog(["test/run/c.avi"], [0], ["run"], source)
    assert prepare(catalog, out, SMALL, processes=1).lists == ["trainlist01.txt"]
    (out / "trainlist01.txt").write_text("edited")
    prepare(catalog, out, SMALL, processes=1)
    assert (out / "trainlist01.txt").read_text() == "edited"
    assert sorted(file.name for file in out.iterdir()) == [
        "prepare.jsonl", "test", "trainlist01.txt"
    ]  # fmt: skip


def test_hosts_that_share_the_folder_write_a_shard_each(
    source: Path, tmp_path: Path, run: RunHere
) -> None:
    out = tmp_path / "out"
    for shard in ("0/2", "1/2"):
        status, told, errors = run(source, out, "--resize", 32, "--shard", shard)
        assert status == 0, errors
        assert "the same command without --shard writes scan.csv" in told
    assert not (out / "scan.csv").exists()
    written = {file: file.stat().st_mtime_ns for file in out.rglob("*.avi")}
    assert len(written) == 3
    status, told, errors = run(source, out, "--resize", 32)
    assert status == 0, errors
    assert f"{out}: 3 files, 42 frames, " in told
    assert {file: file.stat().st_mtime_ns for file in out.rglob("*.avi")} == written
    assert len(Catalog.from_csv(out / "scan.csv", out)) == 3
    status, _, errors = run(source, out, "--shard", "2/2")
    assert status == 1
    assert "--shard must be I/N, with I from 0 to N - 1, got '2/2'" in errors


def test_segments_and_labels_are_those_of_the_source(source: Path, tmp_path: Path) -> None:
    paths = ["train/run/a.avi", "train/run/a.avi", "train/jump/b.mp4"]
    catalog = Catalog(paths, [0, 1, 1], ["x", "y"], source, starts=[0, 10, 0], ends=[10, 20, 13])
    done = prepare(catalog, tmp_path / "out", SMALL, processes=1)
    fresh = new_catalog(catalog, tmp_path / "out", done)
    assert fresh.classes == ("x", "y")
    assert [(video.path, video.label, video.start, video.end) for video in fresh] == [
        ("train/run/a.avi", 0, 0, 10), ("train/run/a.avi", 1, 10, 20),
        ("train/jump/b.avi", 1, 0, 13),
    ]  # fmt: skip


def test_the_source_is_never_written_to(source: Path) -> None:
    catalog = Catalog.from_folder(source / "train")
    for out in (source / "train", source / "train/new", source):
        with pytest.raises(VideoloadError, match="must lie outside"):
            prepare(catalog, out, SMALL, processes=1)


def test_each_file_has_a_name_of_its_own() -> None:
    paths = ["a.avi", "b.mp4", "b.mkv", "a.mov", "C.AVI"]
    assert new_names(paths) == {"b.mp4": "b.avi", "b.mkv": "b.mkv.avi", "a.mov": "a.mov.avi"}


def test_a_file_that_changed_or_is_gone_is_written_again(tmp_path: Path) -> None:
    new = tmp_path / "new.avi"
    new.write_bytes(b"1234")
    line = {"path": "a", "source": [1, 2], "bytes": 4}
    assert is_done(line, (1, 2), new)
    assert not is_done(line, (1, 3), new)
    assert not is_done(line, None, new)
    new.write_bytes(b"12")
    assert not is_done(line, (1, 2), new)
    assert is_done({**line, "damage": "nothing"}, (1, 2), new)


def test_segments_in_seconds_are_the_same_frames_of_the_new_files(
    tmp_path: Path, run: RunHere
) -> None:
    source, out = tmp_path / "videos", tmp_path / "out"
    times = [0.04 * n + 0.06 * (n // 5) for n in range(30)]
    make_avi(source / "v.mp4", container_format="mp4", times=times)
    make_avi(source / "even.avi", frames=40)
    rows = "v.mp4,go,0.3,0.9\nv.mp4,stop,0.9,\neven.avi,go,0.4,1.2\neven.avi,stop,9,10\n"
    (source / "rows.csv").write_text(f"path,label,start_s,end_s\n{rows}")
    status, told, errors = run(source / "rows.csv", out, "--root", source, "--resize", 32)
    assert status == 1
    assert "even.avi: a row is left out: segment starts at 9 s" in errors
    assert "v.mp4: its frames come at uneven distances, and are written at their mean" in told
    assert "times in seconds mean other frames in files that were uneven: use scan.csv" in told
    clip = ClipSpec(frames=4, size=(16, 16), crop="stretch", sampling="uniform", clips_per_video=3)
    shown = [
        [info.frames.tolist() for *_, info in decode_serially(catalog, clip, 1, info=True)]
        for catalog in (
            Catalog.from_csv(source / "rows.csv", source)[:3],
            Catalog.from_csv(out / "scan.csv", out),
        )
    ]  # fmt: skip
    assert shown[0] == shown[1]


def test_what_a_copy_lacks_is_said(tmp_path: Path, run: RunHere) -> None:
    source, out = tmp_path / "videos", tmp_path / "out"
    sounds.make(source / "a.avi", frames=20)
    (source / "rows.csv").write_text("path,label,at\na.avi,go,3\n")
    status, told, errors = run(source / "rows.csv", out, "--root", source, "--resize", 32)
    assert status == 0, errors
    assert "a.avi: its sound is left out" in told
    assert "no scan.csv, which has no moments" in told
