"""A scan's advice follows from its rows."""

import ast
from pathlib import Path

import numpy as np

from tests.support.scan_rows import row
from videoload.clips.clip_spec import ClipSpec, covering, nearest_aspect
from videoload.tools import advice
from videoload.tools.scan import ScanRow


def test_a_frame_store_of_all_frames_has_a_size() -> None:
    whole = row("a", frames=2_480_000, pixels="yuv420p")
    sizes = advice.store([whole, whole, row("b", frames=0)])
    assert all(word in sizes for word in ("80.9 GB", "resize=128", "326 GB", "resize=256"))
    rgb = advice.store([row("a", frames=10, pixels="bgr24")])
    assert "0.653 MB" in rgb
    assert "2.63 MB" in rgb
    assert advice.store([row("b", frames=0)]) == ""


def test_lengths_are_those_of_segments() -> None:
    whole, rest, head = row("a"), row("a", start=240), row("a", start_s=0.4, end_s=2.0)
    behind = row("a", end=999)
    assert [each.length for each in (whole, rest, head, behind)] == [250, 10, 40, 250]


def test_buckets_are_told_as_a_script_takes_them() -> None:
    lengths = np.random.default_rng(0).integers(20, 401, 200)
    first, last = advice.buckets([row(str(i), frames=n) for i, n in enumerate(lengths.tolist())])
    assert 'ClipSpec(frames="all", max_frames=399)' in first
    sizes = ast.literal_eval(last.removeprefix("  buckets=").split("  #")[0])
    assert sizes[-1] == 399, "one file of a hundred may be longer, and is shown in part"
    cut = np.minimum(lengths, 399)
    padding = np.array(sizes)[np.searchsorted(sizes, cut)].sum() / cut.sum() - 1
    assert last.endswith(f"# padding {padding:.0%}")
    assert padding <= 0.1
    assert advice.buckets([row("b", frames=0)]) == []
    many = [row(str(i), frames=n) for i, n in enumerate([50] * 200 + [90, 99])]
    assert "max_frames=50)" in advice.buckets(many)[0]


def test_sizes_are_told_as_a_script_takes_them() -> None:
    shapes = [(1920, 1080)] * 60 + [(1080, 1920)] * 25 + [(640, 480)] * 9
    rows = [row(str(i), width=w, height=h) for i, (w, h) in enumerate(shapes)]
    _, line = advice.sizes(rows)
    sizes = ast.literal_eval(line.removeprefix("  size=").split("  #")[0])
    made = ClipSpec(1, size=sizes)
    cut = 0.0
    for width, height in shapes:
        wide = [size[::-1] for size in sizes]
        near = wide[nearest_aspect((width, height), wide)]
        across, down = covering((width, height), near)
        cut += (1 - near[0] * near[1] / (across * down)) / len(shapes)
    assert abs(float(line.split("# ")[1].split("%")[0]) / 100 - cut) < 0.01
    assert cut <= 0.05
    assert made.shape[1] * made.shape[2] <= 1.05 * 480 * 832
    assert advice.sizes([*rows[:3], row("b", frames=0, width=4, height=9)]) == [], "of one shape"


def test_long_groups_come_with_the_command_that_corrects_the_worst() -> None:
    assert advice.long_groups([row("a", frames=250, key_frames=1)], None) == []
    rows = [
        row("a", frames=300, key_frames=1),
        row("some of them/b's.avi", frames=9000, key_frames=2, codec="h264"),
        row("c", frames=0),
    ]
    first, command = advice.long_groups(rows, Path("/data"))
    assert "2 files" in first
    assert command == (
        """  ffmpeg -i '/data/some of them/b'"'"'s.avi' -c:v libx264 -crf 18 -bf 0 -g 12 -an """
        """'b'"'"'s.avi'"""
    )
    (_, other) = advice.long_groups([row("d.mov", key_frames=0, frames=251)], None)
    assert other == "  ffmpeg -i d.mov -c:v mpeg4 -q:v 3 -g 12 -an d.avi"


def test_windows_at_key_frames_are_proposed_where_they_decode_less() -> None:
    assert advice.aligned([row("a", frames=250, key_frames=20)]) == [], "one every 12"
    assert advice.aligned([row("a", frames=40, key_frames=1)]) == [], "few windows fit"
    assert advice.aligned([row("b", frames=0)]) == []
    (line,) = advice.aligned([row("a", frames=10_000, key_frames=40)] * 3)
    assert "5.0 times" in line
    assert 'align="keyframe"' in line
    parts = [row("a", frames=10_000, key_frames=40, start=at, end=at + 40) for at in (90, 900)]
    assert advice.aligned(parts) == [], "most segments are far from any key frame"


def test_classes_out_of_balance_are_named() -> None:
    rows = [row(f"{i}", "run") for i in range(6)] + [row(f"w{i}", "walk") for i in range(2)]
    assert all(word in advice.balance(rows) for word in ("6 of run", "2 of walk", "75%"))
    assert advice.balance(rows[1:]) == ""
    assert advice.balance(rows[:6]) == "", "one class alone is not out of balance"


def test_files_that_are_the_same_are_named(tmp_path: Path) -> None:
    contents = {"a": b"1234", "b": b"1234", "c": b"4321", "d": b"12345"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    rows = [
        row(name, "run" if name == "a" else "walk", file_bytes=len(content))
        for name, content in contents.items()
    ]

    def told(rows: list[ScanRow]) -> list[str]:
        return advice.copies_lines(advice.groups_of_copies(rows, tmp_path))

    assert told(rows[1:]) == []
    assert told(rows)[1:] == ["  a = b, in 2 classes"]
    (tmp_path / "b").unlink()
    assert told(rows) == [], "one that is gone by now"
