"""WebDataset's shards: archives whose members are samples, a file for each field.

The key of a sample is the path of its files up to the first dot of the base name, and the field is
what follows: ``videos/0001.mp4`` and ``videos/0001.json`` are the fields mp4 and json of
``videos/0001``. Only neighbours are one sample.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from videoload.catalog.columns import Listed, PathLike, is_text_line
from videoload.catalog.fields import cells_in, fields_in, requested, roles_of
from videoload.catalog.folders import SUFFIXES, in_archives
from videoload.catalog.shard_names import shard_names
from videoload.catalog.table_rows import Rows
from videoload.catalog.tables import PartColumns, TargetColumns, read_table
from videoload.errors import CatalogError, some
from videoload.logs import Log
from videoload.storage.archives import Member, Read, member_at
from videoload.storage.files import Storage
from videoload.storage.shards import PLACE, Contents, reading
from videoload.storage.video_file import VideoFile

_KEY = "__key__"
_VIDEO = "video"  # the column of videos whose field is not given
_UNKNOWN = bytes(PLACE.size)  # of a hard link: its own header has no bytes

_log = Log(__name__)


@dataclass(slots=True)
class _Sample:
    """A sample of one shard: the path of its files up to their fields, `PLACE` of its videos, by
    field, and its texts and cells."""

    stem: str
    videos: dict[str, bytes] = field(default_factory=dict)
    texts: dict[str, Member] = field(default_factory=dict)
    cells: dict[str, Any] = field(default_factory=dict)


class _Samples:
    """The samples of all shards, in columns: there may be a million of them.

    Attributes:
        count: Samples, also those without a video, which are in no column.
        fields: How many have each field.
        videos: The fields of each sample that are videos.
        paths: Of the first video of each.
        places: `PLACE` of all videos of all samples, one after the other.
        cells: The requested columns; None where a sample lacks it.
    """

    def __init__(self, columns: Iterable[str]) -> None:
        self.count = 0
        self.fields = Counter[str]()
        self.videos: list[tuple[str, ...]] = []
        self.paths: list[str] = []
        self.places = bytearray()
        self.cells: dict[str, list[Any]] = {name: [] for name in columns}
        self._same: dict[tuple[str, ...], tuple[str, ...]] = {}  # most have the same fields

    def add(self, samples: Sequence[_Sample], fields: Counter[str]) -> None:
        """Add the samples of a shard, and how many have each field."""
        self.count += len(samples)
        self.fields.update(fields)
        for sample in samples:
            if sample.videos:
                videos = (*sample.videos,)
                self.videos.append(self._same.setdefault(videos, videos))
                self.paths.append(f"{sample.stem}.{videos[0]}")
                self.places += b"".join(sample.videos.values())
                for name, cells in self.cells.items():
                    cells.append(sample.cells.get(name))

    def of(self, fields: Sequence[str]) -> tuple[dict[str, list[Any]], npt.NDArray[np.bytes_]]:
        """Return the rows that have all of these videos, as columns: paths by field, and cells; and
        `PLACE` of these videos in each row. Without fields, it is the first video of each."""
        columns: dict[str, list[Any]] = {name: [] for name in fields or [_VIDEO]}
        places, at, is_chosen = bytearray(), 0, list[bool]()
        for videos, path in zip(self.videos, self.paths, strict=True):
            is_chosen.append({*fields} <= {*videos})
            if is_chosen[-1]:
                stem = path.removesuffix(videos[0])
                for name, column in zip(fields or videos[:1], columns.values(), strict=True):
                    n = videos.index(name)
                    column.append(stem + name if n else path)
                    places += self.places[at + PLACE.size * n : at + PLACE.size * (n + 1)]
            at += PLACE.size * len(videos)
        for name, cells in self.cells.items():
            columns[name] = list(itertools.compress(cells, is_chosen))
        return columns, np.frombuffer(places, f"S{PLACE.size * max(1, len(fields))}")


def read_shards(
    shards: str | Sequence[str],
    root: PathLike | None,
    video: str | None,
    label: str | None,
    targets: TargetColumns | None,
    parts: PartColumns | None,
    where: Mapping[str, Any] | None,
) -> Listed:
    """Return the samples in archives; see `Catalog.from_shards`."""
    top, names = shard_names(shards, root)
    source = f"{top}/{names[0]}" + f" and {len(names) - 1} more" * (len(names) > 1)
    columns = requested(targets, label, *(where if isinstance(where, Mapping) else ()))
    of_parts = parts.values() if isinstance(parts, Mapping) else parts or ()
    videos = given = [video] if video is not None else [*of_parts]
    samples = _Samples(sorted(columns))
    for found_ in in_archives(top, names, partial(_read, given, columns)):
        samples.add(*found_)
    if not given:
        parts, videos = _parts(samples.videos, source)
    found, places = samples.of(videos)
    paths = found[videos[0] if videos else _VIDEO]
    _check_videos(samples, len(paths), given, videos, source)
    _check_columns(samples, {name: found[name] for name in columns}, paths, source)
    rows = Rows(found, source, lambda i: f"{top}/{paths[i]}", places)
    roles = roles_of(path=video or _VIDEO, label=label, targets=targets, where=where, parts=parts)
    return read_table(rows, top, None, roles, look=False)


def _parts(samples: Sequence[tuple[str, ...]], source: str) -> tuple[PartColumns | None, list[str]]:
    """Return several videos of a sample as its parts."""
    several = next((videos for videos in samples if len(videos) > 1), ())
    named = {re.sub(r"\W", "_", name.rpartition(".")[0] or name): name for name in several}
    if len(named) < len(several):
        raise CatalogError(f"{source}: name the parts of a sample: parts= of {some(several)}")
    return named or None, [*several]


def _check_videos(
    samples: _Samples, chosen: int, given: Sequence[str], videos: Sequence[str], source: str
) -> None:
    """Log how many samples are left out, and whose keys may be others than was meant. Raises
    CatalogError if none is left."""
    what = some(videos) if videos else "video"
    if not chosen:
        raise CatalogError(f"{source}: no sample has {what}: {_fields_of(samples)}")
    if chosen < samples.count:
        _log.warning(
            "%s: %d of %d samples have no %s, and are left out", source, samples.count - chosen,
            samples.count, what,
        )  # fmt: skip
    for name, count in samples.fields.items():
        if "." in name and name not in given and _is_named_like_a_video(name):
            _log.warning(
                "%s: %d samples have the field %s: the key ends at the first dot of a name",
                source, count, name,
            )  # fmt: skip
            break


def _check_columns(
    samples: _Samples, columns: Mapping[str, Sequence[Any]], paths: Sequence[str], source: str
) -> None:
    """Log how many rows lack a requested column. Raises CatalogError if all do."""
    for name, cells in columns.items():
        lacking = cells.count(None)
        if lacking == len(cells):
            raise CatalogError(f"{source}: no sample has {name!r}: {_fields_of(samples)}")
        if lacking:
            _log.warning(
                "%s: %d of %d samples have no %s: %s", source, lacking, len(cells), name,
                paths[cells.index(None)],
            )  # fmt: skip


def _fields_of(samples: _Samples) -> str:
    return f"their fields are {some([name for name, _ in samples.fields.most_common()]) or 'none'}"


def _read(
    videos: Sequence[str], columns: set[str], storage: Storage, shard: str
) -> tuple[list[_Sample], Counter[str]]:
    """Return the samples of a shard, and how many have each field. Raises CatalogError, VideoError,
    StorageError, OSError, FileReplacedError."""
    with storage.reading(shard, lambda: None):
        archive = storage.resolve(shard)
        found = storage.contents(shard, archive)
        if found.flaw:
            raise CatalogError(f"{storage.root}/{shard} {found.flaw}")
        if found.doubles:
            _log.warning("%s: %d members occur twice: the last ones are used", shard, found.doubles)
        samples, fields = _grouped(shard, found, videos, columns)
        with reading(shard, archive) as read:  # whether it is still this archive
            for sample in samples:
                for name, member in sample.texts.items() if sample.videos else ():
                    path = f"{shard}/{member.name}"
                    if member.flaw:
                        raise CatalogError(f"{path} {member.flaw}")
                    text = partial(_text, read, archive, member)
                    sample.cells |= cells_in(text, member.size, path, name, columns)
    return samples, fields


def _grouped(
    shard: str, found: Contents, videos: Sequence[str], columns: set[str]
) -> tuple[list[_Sample], Counter[str]]:
    """Return the samples of a shard without the cells of their texts, and how many have each field.
    ``videos``: the fields that are videos, [] for those named like videos. Raises CatalogError."""
    samples, fields, texts = dict[str, _Sample](), Counter[str](), fields_in(columns)
    is_video = dict[str, bool]()  # by field
    latest = ""
    for member in found:
        folder, slash, base = member.name.rpartition("/")
        stem, _, name = base.partition(".")
        if not stem or not name or not is_text_line(member.name):
            continue
        key = folder + slash + stem
        if key != latest:
            if key in samples:
                raise CatalogError(
                    f"{shard}: the files of {key!r} are not beside each other: {member.name} "
                    f"follows {latest!r}. Sort the members by their names"
                )
            sample = samples[key] = _Sample(f"{shard}/{key}")
            if _KEY in columns:
                sample.cells[_KEY] = key
            latest = key
        if name not in fields:
            is_video[name] = name in videos if videos else _is_named_like_a_video(name)
        fields[name] += 1
        if is_video[name]:
            if member.flaw and (videos or not sample.videos):
                raise CatalogError(f"{shard}/{member.name} {member.flaw}")
            place = _UNKNOWN if member.link else PLACE.pack(member.at, member.size)
            sample.videos[name] = place
        if name in texts:
            sample.texts[name] = member
    return [*samples.values()], fields


def _is_named_like_a_video(field: str) -> bool:
    return f".{field}".lower().endswith(SUFFIXES)


def _text(read: Read, archive: VideoFile, member: Member) -> bytes:
    found = member_at(read, archive.size, member.link or member.name, member.at, member.size)
    if found is None:
        raise ValueError("it is not where its archive says")
    return read(found.begin, found.size)
