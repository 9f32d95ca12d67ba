"""WebDataset's shards: archives whose members are samples, a file for each field.

The key of a sample is the path of its files up to the first dot of the base name, and the field is
what follows: ``videos/0001.mp4`` and ``videos/0001.json`` are the fields mp4 and json of
``videos/0001``. Only neighbours are one sample.
"""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from videoload.catalog.columns import Listed, PathLike, is_list, is_text_line
from videoload.catalog.fields import cells_in, fields_in, requested, roles_of
from videoload.catalog.folders import SUFFIXES, in_archives, open_root, refusing
from videoload.catalog.table_rows import Rows
from videoload.catalog.tables import PLACES, PartColumns, TargetColumns, read_table
from videoload.errors import CatalogError, some
from videoload.logs import Log
from videoload.storage.archives import Member, Read, member_at
from videoload.storage.files import Storage
from videoload.storage.roots import files_below, is_url
from videoload.storage.shards import PLACE, Contents, reading
from videoload.storage.video_file import VideoFile

_MAX_NAMES = 1_000_000  # that braces may stand for
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_SPECIAL = re.compile(r"[*?\[{]")
_KEY = "__key__"
_NO_CELLS: Mapping[str, Any] = {}
_FIELDS = dict[tuple[str, ...], tuple[str, ...]]()  # each once: most samples have the same
_UNKNOWN = bytes(PLACE.size)  # of a hard link: its own header has no bytes

_log = Log(__name__)


@dataclass(slots=True)
class _Sample:
    """A sample: the ``fields`` that may be its videos, the ``path`` of the first one, `PLACE` of
    each, and the requested cells. There may be a million of them."""

    fields: tuple[str, ...] = ()
    path: str = ""
    places: bytes = b""
    cells: Mapping[str, Any] = field(default_factory=lambda: _NO_CELLS)

    def add(self, name: str, path: str, place: bytes) -> None:
        """Add a video."""
        fields = (*self.fields, name)
        self.fields = _FIELDS.setdefault(fields, fields)
        self.path = self.path or path
        self.places += place

    def path_of(self, name: str) -> str:
        return self.path if name == self.fields[0] else f"{self.stem}.{name}"

    @property
    def stem(self) -> str:
        """The shard and the key."""
        return self.path.removesuffix(f".{self.fields[0]}")

    def place_of(self, names: Sequence[str]) -> bytes:
        each = [self.fields.index(name) * PLACE.size for name in names]
        return b"".join([self.places[at : at + PLACE.size] for at in each])


@dataclass
class _Wanted:
    """The request: the ``fields`` that are videos, [] for those named like videos, and the columns
    of ``cells``, some of which are read from files of these ``texts``."""

    fields: Sequence[str]
    cells: set[str]
    texts: set[str] = field(init=False)
    there: Counter[str] = field(default_factory=Counter)  # fields
    odd: tuple[str, str] | None = None  # a key, and a field that may be a part of it

    def __post_init__(self) -> None:
        self.texts = fields_in(self.cells)

    def is_video(self, key: str, name: str) -> bool:
        is_named_so = f".{name}".lower().endswith(SUFFIXES)
        if is_named_so and "." in name and name not in self.fields:
            self.odd = self.odd or (key, name)
        return name in self.fields if self.fields else is_named_so


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
    top, names = _found(shards, root)
    columns = requested(targets, label, *(where if isinstance(where, Mapping) else ()))
    of_parts = parts.values() if isinstance(parts, Mapping) else parts or ()
    fields = [video] if video is not None else list(of_parts)
    wanted = _Wanted(fields, columns)
    found = in_archives(top, names, partial(_samples_of, wanted))
    samples = list(itertools.chain.from_iterable(found))
    source = f"{top}/{names[0]}" + f" and {len(names) - 1} more" * (len(names) > 1)
    if not fields:
        parts, fields = _parts(samples, source)
    chosen = [each for each in samples if each.fields and {*fields} <= {*each.fields}]
    _log_left_out(samples, chosen, wanted, fields, source)
    cells: dict[str, list[Any]] = {
        name: [each.path_of(name) for each in chosen] for name in fields
    } or {"video": [each.path for each in chosen]}
    there = wanted.cells.intersection(itertools.chain.from_iterable(each.cells for each in chosen))
    cells |= {name: [each.cells.get(name) for each in chosen] for name in there}
    cells[PLACES] = [each.place_of(fields or each.fields[:1]) for each in chosen]
    rows = Rows(cells, source, lambda i: f"{top}/{chosen[i].stem}")
    roles = roles_of(path=video or "video", label=label, targets=targets, where=where, parts=parts)
    return read_table(rows, top, None, roles, look=False)


def _parts(samples: Sequence[_Sample], source: str) -> tuple[PartColumns | None, list[str]]:
    """Return several videos of a sample as its parts."""
    several = next((each.fields for each in samples if len(each.fields) > 1), ())
    named = {re.sub(r"\W", "_", name.rpartition(".")[0] or name): name for name in several}
    if len(named) < len(several):
        raise CatalogError(f"{source}: name the parts of a sample: parts= of {some(several)}")
    return named or None, list(several)


def _log_left_out(
    samples: Sequence[_Sample], chosen: Sequence[_Sample], wanted: _Wanted,
    fields: Sequence[str], source: str,
) -> None:  # fmt: skip
    """Log how many samples have no such video, and whose keys may be others than was meant."""
    what = some(fields) if fields else "video"
    if not chosen:
        there = some([name for name, _ in wanted.there.most_common()])
        raise CatalogError(f"{source}: no sample has a {what}: their fields are {there or 'none'}")
    if len(chosen) < len(samples):
        _log.warning(
            "%s: %d of %d samples have no %s, and are left out", source,
            len(samples) - len(chosen), len(samples), what,
        )  # fmt: skip
    if wanted.odd is not None:
        key, name = wanted.odd
        _log.warning(
            "%s: %s.%s is the field %s of the key %s: the key ends at the first dot",
            source, key, name, name, key,
        )  # fmt: skip


# Shards


def _found(shards: str | Sequence[str], root: PathLike | None) -> tuple[Path | str, list[str]]:
    """Return the root, and the paths of the shards from there. Raises CatalogError."""
    given = [shards] if isinstance(shards, str | os.PathLike) else shards
    if not is_list(given) or not given:
        raise CatalogError(f"shards are names, a pattern or a list of these, not {shards!r:.80}")
    names = [str(each) for each in given]
    if root is None:
        folders = [_SPECIAL.split(name)[0].rpartition("/")[0] for name in names]
        if any(map(is_url, names)):
            root = min(folders, key=len)
            names = [name.removeprefix(f"{root}/") for name in names]
        else:
            root = os.path.commonpath([os.path.abspath(folder) for folder in folders])  # noqa: PTH100
            names = [os.path.relpath(name, root) for name in names]
    top = open_root(root)
    listed: list[str] | None = None
    found: list[str] = []
    for name in itertools.chain.from_iterable(map(_without_braces, names)):
        if not re.search(r"[*?\[]", name):
            found.append(name)
            continue
        if isinstance(top, Path):
            matches = sorted(glob.glob(name, root_dir=top))
        else:
            if listed is None:
                with refusing():
                    listed = files_below(top, _SPECIAL.split(name)[0].rpartition("/")[0])
            matches = [path for path in listed if _matches(path, name)]
        if not matches:
            raise CatalogError(f"{top}: no file is named like {name!r}")
        found += matches
    for name in found:
        if name.startswith(("/", "../")) or is_url(name):
            raise CatalogError(f"the shard {name!r} is not in the root {top}")
    return top, list(dict.fromkeys(found))


def _matches(path: str, pattern: str) -> bool:
    steps, wanted = path.split("/"), pattern.split("/")
    return len(steps) == len(wanted) and all(map(fnmatch.fnmatchcase, steps, wanted))


def _without_braces(name: str) -> list[str]:
    """Return the names that ``{000..099}`` and ``{a,b}`` stand for. Raises CatalogError."""
    pieces: list[list[str]] = []
    for n, piece in enumerate(_BRACES.split(name)):
        numbers = _RANGE.fullmatch(piece)
        if n % 2 == 0:
            pieces.append([piece])
        elif numbers is None:
            pieces.append(piece.split(","))
        else:
            first, last, width = int(numbers[1]), int(numbers[2]), len(numbers[1])
            if not 0 <= last - first < _MAX_NAMES:
                raise CatalogError(f"{{{piece}}} in {name!r} expands to no or too many names")
            pieces.append([f"{number:0{width}}" for number in range(first, last + 1)])
    return ["".join(each) for each in itertools.product(*pieces)]


# Samples


def _samples_of(wanted: _Wanted, storage: Storage, shard: str) -> list[_Sample]:
    """Return the samples of a shard. Raises CatalogError, VideoError, StorageError, OSError,
    FileReplacedError."""
    with storage.reading(shard, lambda: None):
        archive = storage.resolve(shard)
        found = storage.contents(shard, archive)
        if found.flaw:
            raise CatalogError(f"{storage.root}/{shard} {found.flaw}")
        if found.doubles:
            _log.warning("%s: %d members occur twice: the last ones are used", shard, found.doubles)
        samples, texts = _grouped(shard, found, wanted, f"{storage.root}/{shard}")
        with reading(shard, archive) as read:  # whether it is still this archive
            for sample, name, member in texts:
                path = f"{shard}/{member.name}"
                if member.flaw:
                    raise CatalogError(f"{path} {member.flaw}")
                text = partial(_text, read, archive, member)
                found_ = cells_in(text, member.size, path, name, wanted.cells)
                sample.cells = {**sample.cells, **found_}
    return samples


def _grouped(
    shard: str, found: Contents, wanted: _Wanted, source: str
) -> tuple[list[_Sample], list[tuple[_Sample, str, Member]]]:
    """Return the samples of a shard, and the members that are texts. Raises CatalogError."""
    samples, texts, latest = dict[str, _Sample](), list[tuple[_Sample, str, Member]](), ""
    roles = dict[str, tuple[bool, bool]]()  # whether a field is a video, and a text
    counts = Counter[str]()
    for member in found:
        folder, slash, base = member.name.rpartition("/")
        stem, _, name = base.partition(".")
        if not stem or not name or not is_text_line(member.name):
            continue
        key = folder + slash + stem
        if key != latest:
            if key in samples:
                raise CatalogError(
                    f"{source}: the files of {key!r} are not beside each other: {member.name} "
                    f"follows {latest!r}. Sort the members by their names"
                )
            sample = samples[key] = _Sample(
                cells={_KEY: key} if _KEY in wanted.cells else _NO_CELLS
            )
            latest = key
        counts[name] += 1
        if (role := roles.get(name)) is None:
            role = roles[name] = wanted.is_video(key, name), name in wanted.texts
        if role[0]:
            if member.flaw and (wanted.fields or not sample.fields):
                raise CatalogError(f"{shard}/{member.name} {member.flaw}")
            place = _UNKNOWN if member.link else PLACE.pack(member.at, member.size)
            sample.add(name, f"{shard}/{member.name}", place)
        if role[1]:
            texts.append((sample, name, member))
    wanted.there.update(counts)
    return list(samples.values()), texts


def _text(read: Read, archive: VideoFile, member: Member) -> bytes:
    found = member_at(read, archive.size, member.link or member.name, member.at, member.size)
    if found is None:
        raise ValueError("it is not where its archive says")
    return read(found.begin, found.size)
