"""The works of `python -m benchmarks`: files that are made once and kept in a folder, with what a
complete decode found.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import av
import msgspec
from msgspec.structs import replace

from benchmarks.files import choose, look_at
from benchmarks.videos import Recipe, make_video
from benchmarks.work import Clip, File, Work
from videoload.decoding.decoder import Decoder
from videoload.errors import CatalogError
from videoload.host import cores

FOLDER = Path.home() / ".cache" / "videoload-bench"  # where files are kept by default
_BATCH = 8
_LOOK_S = 15.0  # at the files of a user
_ALL = 1 << 40  # frames


class _Facts(msgspec.Struct):
    """What is kept about a work's files, and how they were made."""

    made_by: str
    files: tuple[File, ...]


class Kind(NamedTuple):
    """A work before its files are there."""

    clip: Clip
    recipe: Recipe | None  # None: files of the user
    files: int = 32
    batch: int = _BATCH
    # Names that each file has (hard links). With eight there are more than a loader keeps open
    # (videoload: 64), as in a large data set, whose files are not met again so soon.
    names: int = 1


_SMALL, _LARGE = Clip(16, 2, resize=128, crop=112), Clip(16, 4, resize=256, crop=224)
_HMDB = Recipe("mpeg4", frames=95, key_every=600, b_frames=1, packed=True)
WORKS = {
    "ucf": Kind(_SMALL, Recipe("mpeg4")),
    "hd": Kind(_LARGE, Recipe("mpeg4", 1280, 720, frames=150), files=6),
    "many": Kind(_SMALL, Recipe("mpeg4"), names=8),
    "set": Kind(_SMALL, Recipe("mpeg4"), names=63),
    "hmdb": Kind(_SMALL, _HMDB),
    "many-hmdb": Kind(_SMALL, _HMDB, names=8),
    "h264": Kind(_SMALL, Recipe("libx264", 340, 256, 250, key_every=250, b_frames=3)),
    "gop250": Kind(_SMALL, Recipe("libx264", 340, 256, 1500, 250, 3), files=4, names=8),
    "own": Kind(_SMALL, None),
    "tiny": Kind(Clip(8, 2, resize=64, crop=56), Recipe("mpeg4", 160, 120, 60), 8, 4),
}


def missing(name: str, videos: str = "") -> str:
    """Why a work cannot be made here; empty if it can."""
    recipe = WORKS[name].recipe
    if recipe is None:
        return "" if videos else "no folder of videos is given"
    return "" if recipe.codec in av.codecs_available else f"this FFmpeg has no {recipe.codec}"


def load(
    name: str, folder: Path, say: Callable[[str], None] = lambda line: None, *, videos: str = ""
) -> Work:
    """The work; its files are made if they are missing. ``videos`` is the folder of files that are
    there. Raises CatalogError if it cannot be made."""
    if why := missing(name, videos):
        raise CatalogError(f"the work {name} cannot be made here: {why}")
    kind, root, facts = WORKS[name], folder / name, folder / f"{name}.json"
    if kind.recipe is None:
        shutil.rmtree(root, ignore_errors=True)  # pictures of the files of another time
        root.mkdir(parents=True)
        return choose(name, Path(videos), kind.clip, _LOOK_S, root, cores(), say)
    made_by = f"{root} {kind.files} x {kind.names} {kind.recipe}"
    try:
        known = msgspec.json.decode(facts.read_bytes(), type=_Facts)
    except (FileNotFoundError, msgspec.ValidationError):
        known = _Facts("", ())
    if known.made_by != made_by:
        root.mkdir(parents=True, exist_ok=True)
        known = _Facts(made_by, tuple(_make(root, kind, kind.recipe, say)))
        facts.write_bytes(msgspec.json.encode(known))
    return Work(name, root, known.files, kind.clip, kind.batch)


def _make(root: Path, kind: Kind, recipe: Recipe, say: Callable[[str], None]) -> list[File]:
    files = []
    suffix = ".mp4" if recipe.codec == "libx264" else ".avi"  # as Kinetics
    for number in range(kind.files):
        path = f"{number:03d}{suffix}"
        say(f"making {path}")
        make_video(root / path, recipe, seed=number)
        files.append(look_at(root, path, most=_ALL))
        for name in range(1, kind.names):
            link = f"{number:03d}-{name:02d}{suffix}"
            (root / link).unlink(missing_ok=True)
            (root / link).hardlink_to(root / path)
            files.append(replace(files[-1], path=link))
    return files


def decoded_share(work: Work) -> float:
    """Return the share of the pictures, from a keyframe to the last one of a clip, that videoload
    decodes: without those that nobody refers to and no clip shows."""
    decoder, every, decoded = Decoder(work.root), 0, 0
    for item in work.distinct:
        order = decoder.videos.index(work.files[item.file].path).order
        for group, ordinals in groupby(work.clip.ordinals(item.start), order.group_of):
            wanted = set(ordinals)
            packets = range(order.start(group).packet, max(map(order.packet, wanted)) + 1)
            every += len(packets)
            decoded += sum(not order.left_out(packet, wanted) for packet in packets)
    return decoded / every
