"""The small videos, lists and tables that the pages of the documentation name."""

import importlib.util
import json
import tarfile
from pathlib import Path

from tests.support.layouts import films
from tests.support.videos import make_avi, make_lengths
from videoload.tools.demo import make_videos

ACTIONS = ("Archery", "Bowling", "Diving")


def make_page_files(folder: Path) -> None:
    """Make all of them, under their names."""
    make_actions(folder)
    make_videos(folder / "shapes", 2, 1, frames=40)
    make_avi(folder / "ntu/S001.avi", frames=30, size=(60, 80))
    (folder / "train.csv").write_text(
        "path,label,start,end\nS001.avi,sit,0,10\nS001.avi,wave,10,\n"
    )
    films(folder)
    for name, lengths in (("hello", range(9, 39)), ("thanks", range(20, 80, 2))):
        make_lengths(folder / "signs", lengths, f"{name}/")
    for number in range(3):
        make_avi(folder / f"miniscope/m1/{number}.avi", frames=12, size=(60, 80))
    make_captioned(folder / "web")
    make_shards(folder / "ego", folder / "ucf101")
    if importlib.util.find_spec("pyarrow") is not None:
        make_cells(folder / "cells/0.parquet", sorted(folder.glob("ucf101/*/*_g01_*.avi")))


def make_actions(folder: Path) -> None:
    """A set with the names and the lists of UCF-101."""
    lines = []
    for number, name in enumerate(ACTIONS):
        for group in range(1, 6):
            path = f"{name}/v_{name}_g{group:02d}_c01.avi"
            make_avi(folder / "ucf101" / path, frames=30, size=(60, 80), seed=number)
            lines.append(f"{path} {number + 1}\n")
    (folder / "trainlist01.txt").write_text("".join(lines))
    tested = [line.split()[0] + "\n" for line in lines if "_g05_" in line]
    (folder / "testlist01.txt").write_text("".join(tested))
    classes = "".join(f"{number} {name}\n" for number, name in enumerate(ACTIONS, 1))
    (folder / "classInd.txt").write_text(classes)


def make_captioned(folder: Path) -> None:
    """Videos of several sizes and lengths, with a caption or two beside each."""
    for number, name in enumerate(("surf", "dance", "snow", "cat", "market", "train")):
        size = ((54, 96), (96, 54), (64, 64))[number % 3]
        make_avi(folder / f"{name}.avi", frames=60 + 50 * number, size=size, seed=number)
        captions = ["A film.", "Pictures move."][: 1 + number % 2]
        (folder / f"{name}.json").write_text(json.dumps({"caption": captions}))


def make_shards(folder: Path, videos: Path) -> None:
    """Two tars of videos, with the number of each beside it."""
    folder.mkdir()
    for shard in range(2):
        with tarfile.open(folder / f"{shard:06}.tar", "w") as tar:
            for number, video in enumerate(sorted(videos.glob(f"*/*_g0{1 + shard}_*"))):
                (folder / "cls").write_text(str(number))
                tar.add(video, f"{shard}{number}.avi")
                tar.add(folder / "cls", f"{shard}{number}.cls")


def make_cells(table: Path, videos: list[Path]) -> None:
    """A table whose cells hold videos, as Hugging Face's `datasets` writes them."""
    from pyarrow import parquet
    from pyarrow import table as columns

    table.parent.mkdir()
    cells = [{"bytes": path.read_bytes(), "path": None} for path in videos]
    actions = [path.parent.name for path in videos]
    parquet.write_table(columns({"video": cells, "action": actions}), table, compression="none")
