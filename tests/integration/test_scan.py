"""``videoload scan``: the content of a folder, resumable, and a CSV from which a catalog
is made."""

import csv
import json
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.support.object_server import ObjectServer
from tests.support.processes import children_of
from tests.support.programs import Programs
from tests.support.servers import objects
from tests.support.thorough import rest_nightly
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, ClipSpec, VideoloadError, decode_serially
from videoload.tools.scan import scan


@pytest.fixture
def folder(videos: Videos, tmp_path: Path) -> Path:
    """The good videos, a truncated one, and a file that is not a video."""
    copy = tmp_path / "videos"
    shutil.copytree(videos.root, copy)
    whole = (copy / "jump/long.avi").read_bytes()
    (copy / "jump/cut.avi").write_bytes(whole[: len(whole) // 2])
    (copy / "walk/text.avi").write_text("no pictures here")
    return copy


def read(file: Path) -> dict[str, dict[str, str]]:
    with file.open(newline="") as lines:
        return {row["path"]: row for row in csv.DictReader(lines)}


def test_without_a_good_file_no_table_is_written_or_claimed(
    programs: Programs, tmp_path: Path
) -> None:
    (tmp_path / "videos/walk").mkdir(parents=True)
    (tmp_path / "videos/walk/text.avi").write_text("no pictures here")
    make_avi(tmp_path / "good/a.avi", frames=10)
    (tmp_path / "outside.csv").write_text("path,label,start,end\na.avi,run,100,200\n")
    listed = str(tmp_path / "found.bad.csv")
    for source, path, said in (
        ((tmp_path / "videos",), "walk/text.avi", listed),
        ((tmp_path / "outside.csv", "--root", tmp_path / "good"), "a.avi", "segments"),
    ):
        out = tmp_path / "found.csv"
        program = programs.videoload("scan", *map(str, source), "--output", str(out))
        assert program.wait(60 * SECOND) == 0, program.err
        assert not out.exists()
        assert set(read(tmp_path / "found.bad.csv")) == {path}
        assert said in " ".join(program.out.split())
        assert "written" not in program.out
        assert str(out) in program.out
        for file in tmp_path.glob("found.*"):
            file.unlink()


@pytest.mark.slow
def test_its_csv_makes_a_catalog_that_knows_its_counts(
    folder: Path, videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    out = tmp_path / "found.csv"
    program = programs.videoload(
        "scan", str(folder), "--output", str(out), "--workers", "1", "--strict"
    )
    assert program.wait(60 * SECOND) == 1, "files are damaged"
    assert "9 of 10 files" in " ".join(program.out.split())
    catalog = Catalog.from_table(out, root=folder)
    assert catalog.classes == ("jump", "run", "walk")
    assert {v.path: v.frames for v in catalog if v.path in videos.frames} == videos.frames
    cut = read(out)["jump/cut.avi"]
    assert 0 < int(cut["frames"]) < int(cut["header_frames"])
    assert "walk/text.avi" not in {video.path for video in catalog}
    assert set(read(tmp_path / "found.bad.csv")) == {"walk/text.avi"}
    assert f"{tmp_path / 'found.bad.csv'} lists them" in program.out
    dense = ClipSpec(frames=8, resize=32, size=(32, 32), sampling="dense")
    assert len(list(decode_serially(catalog, dense, 1))) > len(catalog)


def make_long_avi(path: Path) -> None:
    """A file that takes twenty seconds to decode, and a quarter of one to make."""
    encoder = av.VideoCodecContext.create("ffv1", "w")
    encoder.width, encoder.height, encoder.pix_fmt = 3840, 2160, "yuv420p"
    encoder.time_base = Fraction(1, 25)
    frame = av.VideoFrame.from_ndarray(np.zeros((2160 * 3 // 2, 3840), np.uint8), "yuv420p")
    [packet] = [*encoder.encode(frame), *encoder.encode(None)]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 3840, 2160, "yuv420p"
        for number in range(1600):
            packet.stream, packet.pts, packet.dts = stream, number, number
            container.mux(packet)


@pytest.mark.slow
def test_a_stopped_scan_continues_where_it_was(programs: Programs, tmp_path: Path) -> None:
    first = make_avi(tmp_path / "videos/x/0.avi", frames=12)
    for i in range(1, 10):
        shutil.copy(first, first.with_name(f"{i}.avi"))
    long = first.with_name("4.avi")
    make_long_avi(long)
    out, journal = tmp_path / "found.csv", tmp_path / "found.csv.progress"
    arguments = ("scan", str(tmp_path / "videos"), "--output", str(out), "--workers", "1")
    stopped = programs.videoload(*arguments)
    wait_until(lambda: journal.exists() and journal.read_text().count("\n") == 5, 30 * SECOND)
    stopped.signal(signal.SIGINT)
    assert stopped.wait(60 * SECOND) == 130
    assert "Traceback" not in stopped.err
    assert "continues" in stopped.err
    assert not out.exists(), "half a table is none"
    marked = journal.read_text().replace("mpeg4", "known")  # a row that is kept shows it
    journal.write_text(marked)
    shutil.copy(first, long)
    assert programs.videoload(*arguments).wait(60 * SECOND) == 0
    codecs = {path: row["codec"] for path, row in read(out).items()}
    assert codecs == {f"x/{i}.avi": "known" if i < 4 else "mpeg4" for i in range(10)}


@pytest.mark.slow
def test_a_file_that_crashes_its_decoders_has_a_row_like_any_other(
    programs: Programs, tmp_path: Path
) -> None:
    make_avi(tmp_path / "videos/x/a.avi", frames=12)
    make_long_avi(tmp_path / "videos/x/b.avi")
    out, bad = tmp_path / "found.csv", tmp_path / "found.bad.csv"
    journal = tmp_path / "found.csv.progress"
    program = programs.videoload(
        "scan", str(tmp_path / "videos"), "--output", str(out), "--workers", "1"
    )

    def crash() -> bool:
        for pid in children_of(program.pid):
            with suppress(OSError):  # it has just ended
                files = [each.readlink().name for each in Path(f"/proc/{pid}/fd").iterdir()]
                if "b.avi" in files:
                    os.kill(pid, signal.SIGSEGV)
        return journal.exists() and '"x/b.avi"' in journal.read_text()

    wait_until(crash, 60 * SECOND)
    assert program.wait(60 * SECOND) == 0, program.err
    assert list(read(out)) == ["x/a.avi"]
    assert read(bad)["x/b.avi"]["damage"]


def test_every_segment_and_label_of_a_table_keeps_its_row(videos: Videos, tmp_path: Path) -> None:
    make_avi(tmp_path / "videos/a.avi", frames=30)
    make_avi(tmp_path / "videos/b.avi", frames=12)
    (tmp_path / "videos/c.avi").write_text("no pictures here")
    table = tmp_path / "segments.csv"
    table.write_text(
        "path,label,start,end\na.avi,run,0,10\na.avi,walk,10,20\nb.avi,run,,\na.avi,run,20,\n"
        "a.avi,walk,20,31\na.avi,walk,30,\nc.avi,run,0,4\nc.avi,walk,4,8\n"
    )
    out = tmp_path / "found.csv"
    for _ in range(2):  # the second time, nothing is decoded
        catalog = Catalog.from_table(table, tmp_path / "videos")
        rows = scan(catalog, processes=1, output=out)
        assert [(row.path, row.frames) for row in rows] == [
            ("a.avi", 30), ("b.avi", 12), ("c.avi", 0),
        ]  # fmt: skip
        assert re.search(r"\b2\b.* 30 frames", rows[0].damage)
        found = Catalog.from_table(out, tmp_path / "videos")
        assert [
            (video.path, found.classes[video.label], video.start, video.end, video.frames)
            for video in found
        ] == [
            ("a.avi", "run", 0, 10, 30), ("a.avi", "walk", 10, 20, 30),
            ("b.avi", "run", 0, None, 12), ("a.avi", "run", 20, None, 30),
            ("a.avi", "walk", 20, 30, 30),
        ]  # fmt: skip
        with (tmp_path / "found.bad.csv").open(newline="") as lines:
            bad = [(row["path"], row["start"], row["end"]) for row in csv.DictReader(lines)]
        assert bad == [("a.avi", "30", ""), ("c.avi", "", "4"), ("c.avi", "4", "8")]


@pytest.mark.parametrize(
    ("names", "bad"),
    rest_nightly([
        ("archery bowling diving", "archery"), ("0.5 1.5 2.5", "0.5"), ("1 2 10", ""),
        ("a;b c d", ""), ("0.5 1.5 run", ""),
    ], usual=2),
)  # fmt: skip
def test_its_csv_numbers_the_classes_as_the_folder_does(
    names: str, bad: str, tmp_path: Path
) -> None:
    for name in names.split():
        make_avi(tmp_path / f"videos/{name}/v.avi", frames=6)
        if name == bad:
            (tmp_path / f"videos/{name}/v.avi").write_text("no pictures here")
    catalog = Catalog.from_folder(tmp_path / "videos")
    scan(catalog, processes=1, output=tmp_path / "found.csv")
    found = Catalog.from_table(tmp_path / "found.csv", catalog.root)
    assert found.classes == catalog.classes
    assert found.targets is None
    kept = catalog.subset([video for video in range(3) if catalog.classes[video] != bad])
    assert (found.paths, found.labels.tolist()) == (kept.paths, kept.labels.tolist())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    folder = tmp_path_factory.mktemp("served")
    for name in ("a", "b"):
        make_avi(folder / f"x/{name}.avi", frames=12)
    with objects(folder, "x/a.avi") as made:
        yield made


def test_a_scan_below_a_url_decodes_what_changed_and_nothing_else(
    server: ObjectServer, tmp_path: Path
) -> None:
    out, journal = tmp_path / "found.csv", tmp_path / "found.csv.progress"
    catalog = Catalog(["x/a.avi", "x/b.avi", "x/gone.avi"], root=server.url)

    def decoded() -> Counter[str]:
        before = journal.read_text() if journal.exists() else ""
        scan(catalog, processes=1, output=out)
        lines = journal.read_text().removeprefix(before).splitlines()
        return Counter(row["row"] for row in map(json.loads, lines) if "row" in row)

    assert decoded() == {"x/a.avi": 1, "x/b.avi": 1, "x/gone.avi": 1}
    assert decoded() == {"x/gone.avi": 1}, "it may be back"
    make_avi(server.folder / "x/a.avi", frames=20)
    assert decoded() == {"x/a.avi": 1, "x/gone.avi": 1}
    assert {path: row["frames"] for path, row in read(out).items()} == {
        "x/a.avi": "20", "x/b.avi": "12",
    }  # fmt: skip


def test_the_rows_of_another_folder_are_not_replaced(tmp_path: Path) -> None:
    for name in ("one/x/a.avi", "one/x/b.avi", "one/x/c.avi", "two/x/a.avi"):
        make_avi(tmp_path / name, frames=12 if name.startswith("one") else 14)
    out = tmp_path / "found.csv"
    one = Catalog.from_folder(tmp_path / "one")
    scan(one, processes=1, output=out)
    before = out.read_text()
    with pytest.raises(VideoloadError, match=r"2 .* x/b\.avi"):
        scan(Catalog.from_folder(tmp_path / "two"), processes=1, output=out)
    assert out.read_text() == before
    scan(one.subset([2]), processes=1, output=out)
    assert list(read(out)) == ["x/c.avi"]
    (tmp_path / "one/x/c.avi").unlink()  # a file that is gone has no row any more
    lines = (tmp_path / "found.csv.progress").read_text().count('"row"')
    scan(Catalog.from_folder(tmp_path / "one"), processes=1, output=out)
    assert list(read(out)) == ["x/a.avi", "x/b.avi"]
    assert (tmp_path / "found.csv.progress").read_text().count('"row"') == lines, "all were known"
