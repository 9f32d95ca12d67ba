"""The results of a scan for people: a table and a summary on a terminal, and a page with bars,
pictures of the classes and of what is wrong; and rows for programs."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from videoload import open as open_video
from videoload.catalog.tables import classes_file
from videoload.client.page import page, picture
from videoload.errors import VideoloadError, count, named, printable
from videoload.storage import new_files
from videoload.storage.new_files import new_file, writing
from videoload.tools import advice
from videoload.tools.advice import CLIP_FRAMES
from videoload.tools.scan import ScanRow, bad_file

_FEW = 40  # up to this many files are all listed
_COLUMNS = 48  # the width of the other columns, about
_BARS = 24
_KINDS = 8  # of sizes, rates, codecs: the others are one bar
_SIDE = 72  # of a picture, in pixels
_BYTES = 2_200_000  # of all pictures
_EACH = 6  # pictures of a class, and names of equal files
_CLASSES, _WRONG, _GROUPS = 400, 60, 20  # of each that is shown
_RARE = 1 / 3  # of the files of an average class


def print_scan(
    rows: Sequence[ScanRow], segments: Sequence[ScanRow], output: Path | None,
    root: Path | None, copies: Sequence[Sequence[ScanRow]] = (), *, every: bool,
) -> None:  # fmt: skip
    """Print the table and the summary. In a pipe, no line of the table is broken."""
    console = Console(emoji=False)
    if not console.is_terminal:
        texts = (
            text for row in rows for text in (named(row.path), *map(printable, advice.remarks(row)))
        )
        console.width = max(console.width, max(map(len, texts), default=0) + _COLUMNS)
    table = scan_table(rows, every=every)
    if table is not None:
        console.print(table)
    lines = scan_summary(rows, segments, output, root, copies)
    console.print(Text("\n".join(map(printable, lines))), highlight=False, soft_wrap=True)


def print_rows(rows: Sequence[ScanRow]) -> None:
    """Print all rows for another program, as a list in JSON."""
    print(json.dumps([asdict(row) for row in rows], indent=1))


def scan_table(rows: Sequence[ScanRow], *, every: bool) -> Table | None:
    """Return the files, or only those with remarks if there are many. None: there is nothing to
    list."""
    shown = [row for row in rows if every or len(rows) <= _FEW or advice.remarks(row)]
    if not shown:
        return None
    title = count(len(rows), "file") + ("" if len(shown) == len(rows) else f", {len(shown)} shown")
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("file", overflow="fold", ratio=1)
    table.add_column("codec, size, fps", no_wrap=True)
    for name in ("frames", "key every"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in shown:
        file = Text(named(row.path))
        for remark in advice.remarks(row):
            file.append(f"\n  {printable(remark)}", style="yellow" if row.good else "red")
        table.add_row(
            file,
            f"{row.codec} {row.width}x{row.height} {row.fps:.5g}" if row.good else "",
            str(row.frames),
            f"{row.mean_gop_frames:.0f}" if row.key_frames else "",
        )
    return table


def scan_summary(
    rows: Sequence[ScanRow], segments: Sequence[ScanRow], output: Path | None,
    root: Path | None, copies: Sequence[Sequence[ScanRow]] = (),
) -> list[str]:  # fmt: skip
    """Lines that a person can act on. ``copies``: what `advice.groups_of_copies` found."""
    good = [row for row in rows if row.good]
    bad = len(rows) - len(good)
    damaged = sum(bool(row.damage) for row in good)
    kinds = Counter(f"{row.codec} {row.width}x{row.height}" for row in good)
    lines = [
        f"{len(good)} of {len(rows)} files can be decoded, {sum(row.frames for row in good)} "
        f"frames, {advice.size(rows)}: "
        + ", ".join(f"{count} x {kind}" for kind, count in kinds.most_common(5))
        + (f", and {len(kinds) - 5} more kinds" if len(kinds) > 5 else "")
    ]
    if bad:
        listed = "" if output is None else f"; {bad_file(output)} lists them"
        lines.append(
            f"{bad} cannot be decoded: in training, other clips take their place. Remove them from "
            f"the catalog{listed}"
        )
    if damaged:
        lines.append(f"{damaged} damaged but usable: decoding skips or repairs what is broken")
    lines += [*advice.buckets(segments), *advice.sizes(segments)]
    lines.append(advice.store(rows))
    lines += [*advice.long_groups(rows, root), *advice.aligned(segments)]
    lines += [advice.balance(rows), advice.recordings(rows)]
    lines += advice.copies_lines(copies)
    if output is not None and output.exists():
        classes = classes_file(output)
        given = f", classes={str(classes)!r}" if classes.exists() else ""
        lines.append(f"written to {output}: Catalog.from_table({str(output)!r}, root=...{given})")
    elif output is not None:
        lines.append(f"{output} is not there: it would have no row")
    return [line for line in lines if line]


def write(
    file: Path, rows: Sequence[ScanRow], segments: Sequence[ScanRow], name: str, root: Path | None,
    copies: Sequence[Sequence[ScanRow]] = (), tick: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Write the page of a set. With ``root`` it has pictures; ``tick`` is called after each.
    ``copies``: what `advice.groups_of_copies` found.

    Raises VideoloadError if the file cannot be written.
    """
    text = page(
        "report",
        _content(rows, segments, name, copies, _Pictures(root, tick)),
        Path(__file__).parent,
    )
    with writing(file), new_file(file) as out:
        out.write(text.encode())


def check_place(file: Path) -> None:
    """Raise VideoloadError if a page cannot be written there: a scan may take hours."""
    with writing(file):
        new_files.check_place(file)


class _Pictures:
    """Frames of files, as long as there is room for them in the page."""

    def __init__(self, root: Path | None, tick: Callable[[], None]) -> None:
        self.root, self.left, self._tick = root, _BYTES, tick

    def of(self, row: ScanRow) -> str:
        """Return the frame in the middle; "" if there is none, or no room."""
        found = ""
        if self.root is not None and row.frames and self.left > 0:
            with (
                suppress(VideoloadError),
                open_video(f"{self.root}/{row.path}", resize=_SIDE) as of,
            ):
                found = picture(of[len(of) // 2])
        self.left -= len(found)
        self._tick()
        return found


def _content(
    rows: Sequence[ScanRow], segments: Sequence[ScanRow], name: str,
    copies: Sequence[Sequence[ScanRow]], pictures: _Pictures,
) -> dict[str, Any]:  # fmt: skip
    good = [row for row in rows if row.good]
    wrong = {row.path: (row, found) for row in rows if (found := advice.remarks(row))}
    listed = sorted(wrong.values(), key=lambda each: each[0].good)[:_WRONG]
    shown = [
        {
            "path": named(row.path),
            "is_bad": not row.good,
            "remarks": found,
            "picture": pictures.of(row),
        }
        for row, found in listed
    ]
    return {
        "name": name,
        "what": f"{count(len(rows), 'file')}, each decoded once",
        "tiles": _tiles(rows, good),
        "charts": [chart for chart in _charts(good, segments, pictures.root) if chart["counts"]],
        "wrong": shown,
        "wrong_note": f"{count(len(wrong), 'file')}" + _cut(len(shown), len(wrong)),
        "copies": [_copies(group, pictures) for group in copies[:_GROUPS]],
        "copies_advice": [line.rstrip(":") for line in advice.copies_lines(copies)[:1]],
        **_classes(good, pictures),
    }


def _copies(group: Sequence[ScanRow], pictures: _Pictures) -> list[tuple[str, str]]:
    """Return one picture of equal files, and their names."""
    names = [named(row.path) for row in group[:_EACH]]
    if len(group) > _EACH:
        names.append(f"and {len(group) - _EACH} more")
    return [(pictures.of(group[0]), names[0]), *(("", name) for name in names[1:])]


def _tiles(rows: Sequence[ScanRow], good: Sequence[ScanRow]) -> list[tuple[str, str]]:
    size = sum(row.file_bytes for row in rows)
    sound = sum(bool(row.sound) for row in good)
    frames, classes = sum(row.frames for row in good), len({row.label for row in rows})
    files = "file good" if len(rows) == 1 else "files good"
    tiles = [
        (f"{len(good)} of {len(rows)}" if len(good) < len(rows) else f"{len(rows)}", files),
        (advice.size(rows).removesuffix(" of video"), "of video"),
        (f"{frames:,}", count(frames, "frame").split()[1]),
        (str(classes), count(classes, "class", "es").split()[1]),
        (advice.bytes_text(size), "on the disk"),
        (f"{sound} of {len(good)}", "have audio"),
    ]
    return [tile for tile in tiles if tile[0] != "0 MB"]


def _charts(
    good: Sequence[ScanRow], segments: Sequence[ScanRow], root: Path | None
) -> list[dict[str, Any]]:
    distances = [row.mean_gop_frames or row.frames for row in good]
    store = advice.store(good)
    aspects = [row.width / row.height for row in good if row.height]
    sizes = advice.sizes(segments)
    apart = [*advice.long_groups(good, root), *advice.aligned(segments)]
    fit = [*_of_lengths(good), "\n".join(advice.buckets(segments))]
    return [
        _histogram("frames in a file", [row.frames for row in good], fit),
        _histogram("seconds", [row.frames / row.fps for row in good if row.fps > 0], []),
        _kinds("frames per second", (f"{row.fps:.5g}" for row in good), _of_rates(good)),
        _kinds("width x height", (f"{row.width}x{row.height}" for row in good), [store]),
        _histogram("width / height", aspects, ["\n".join(sizes)][: len(sizes)]),
        _kinds("codec", (f"{row.codec} in {row.container or '?'}" for row in good), []),
        _histogram(
            "frames from a keyframe to the next", distances,
            ["\n".join(apart)] if apart else [],
        ),
        _histogram("MB of a file", [row.file_bytes / 1e6 for row in good], []),
    ]  # fmt: skip


def _histogram(title: str, values: Sequence[float], advised: Sequence[str]) -> dict[str, Any]:
    """Equal steps up to what 99 of 100 have. The last bar has what is beyond. Of one value, a bar
    that bears it."""
    if not values:
        return {"counts": []}
    if min(values) == max(values):
        return _kinds(title, (f"{value:.3g}" for value in values), advised)
    numbers = np.asarray(values, float)
    least, most = float(numbers.min()), float(np.percentile(numbers, 99))
    whole = all(isinstance(value, int) for value in values)
    steps = min(_BARS, max(1, int(most - least))) if whole else _BARS
    edges = np.linspace(least, most, steps + 1) if most > least else np.array([least, max(values)])
    counts, _ = np.histogram(np.minimum(numbers, edges[-1]), edges)
    texts = [f"{edge:.3g}" if edge < 100 else f"{edge:.0f}" for edge in edges]
    if numbers.max() > edges[-1]:
        texts[-1] = f"{numbers.max():.4g}"
    return {"title": title, "counts": counts.tolist(), "edges": texts, "advice": list(advised)}


def _kinds(title: str, found: Iterable[str], advised: Sequence[str]) -> dict[str, Any]:
    """Return a bar for each of the most frequent kinds."""
    kinds = Counter(found).most_common()
    bars = [(kind, number, None, False) for kind, number in kinds[:_KINDS]]
    if others := kinds[_KINDS:]:
        bars.append((f"{len(others)} others", sum(number for _, number in others), None, False))
    counts = [number for _, number in kinds]
    return {"title": title, "counts": counts, "bars": bars, "advice": [a for a in advised if a]}


def _of_lengths(good: Sequence[ScanRow]) -> list[str]:
    """Return the clips that fit into nearly all files."""
    if not good:
        return []
    lengths = np.array([row.frames for row in good])
    most = int(np.percentile(lengths, 10))
    stride = max(1, (most - 1) // (CLIP_FRAMES - 1))
    short = int((lengths < CLIP_FRAMES).sum())
    fits = (
        f"frames={CLIP_FRAMES}, stride={stride}"
        if most >= CLIP_FRAMES
        else f"frames={max(1, most)}"
    )
    fits = f"9 in 10 files have {count(most, 'frame')} or more: {fits} fits"
    return [fits] + [
        f"fewer than {CLIP_FRAMES} frames: {count(short, 'file')}; short= determines what to do "
        f"with "
        "clips that are longer than their file"
    ] * (short > 0)


def _of_rates(good: Sequence[ScanRow]) -> list[str]:
    rates = {round(row.fps, 1) for row in good if row.fps > 0}
    if len(rates) < 2 or max(rates) < 1.1 * min(rates):
        return []
    return [
        f"from {min(rates):g} to {max(rates):g}: with fps= in the place of stride=, clips of all "
        "files last equally long"
    ]


def _classes(good: Sequence[ScanRow], pictures: _Pictures) -> dict[str, Any]:
    by_class: dict[str, list[ScanRow]] = defaultdict(list)
    for row in good:
        by_class[row.label].append(row)
    names = sorted(by_class, key=lambda name: -len(by_class[name]))
    rare = _RARE * len(good) / max(1, len(names))
    shown: dict[str, list[tuple[str, str]]] = {name: [] for name in names[:_CLASSES]}
    # One of each class, then a second one: where room ends, no class has all of them.
    chosen = [[(name, row) for row in _spread(by_class[name])] for name in shown]
    for name, row in filter(None, (each for turn in zip_longest(*chosen) for each in turn)):
        if found := pictures.of(row):
            shown[name].append((found, named(row.path)))
    bare = sum(not found for found in shown.values())
    note = count(len(names), "class", "es") + _cut(len(shown), len(names))
    if bare:
        note += f"; {bare} without a picture" + ", for lack of room" * (pictures.left <= 0)
    return {
        "classes": [
            {"name": name, "files": len(by_class[name]), "pictures": shown[name],
             "is_rare": len(by_class[name]) < rare}
            for name in shown
        ] if len(names) > 1 or pictures.root else [],
        "classes_note": note,
        "balance": list(filter(None, (advice.balance(good), advice.recordings(good)))),
    }  # fmt: skip


def _spread(rows: Sequence[ScanRow]) -> list[ScanRow]:
    """Return some files of a class, evenly spread."""
    whole = [row for row in rows if not row.damage]
    return whole[:: max(1, len(whole) // _EACH)][:_EACH]


def _cut(shown: int, of: int) -> str:
    return f", {shown} of them shown" if shown < of else ""
