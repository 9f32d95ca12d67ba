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
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from videoload.catalog.columns import Listed, PathLike, is_list, is_text_line, some
from videoload.catalog.fields import cells_in, fields_in, requested, roles_of
from videoload.catalog.folders import SUFFIXES, open_root, refusing
from videoload.catalog.table_rows import Rows
from videoload.catalog.tables import PartColumns, TargetColumns, read_table
from videoload.errors import CatalogError, FileReplacedError, StorageError, VideoError
from videoload.logs import Log
from videoload.storage.archives import Member
from videoload.storage.files import Storage
from videoload.storage.roots import files_below, is_url, open_storage
from videoload.storage.shards import walk

_MAX_NAMES = 1_000_000  # that braces may stand for
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_SPECIAL = re.compile(r"[*?\[{]")
_KEY = "__key__"
_AT_ONCE = 16  # shards below a URL

_log = Log(__name__)


@dataclass
class _Sample:
    shard: str
    key: str
    members: dict[str, Member] = field(default_factory=dict)  # by field
    paths: dict[str, str] = field(default_factory=dict)
    cells: dict[str, Any] = field(default_factory=dict)

    @property
    def videos(self) -> list[str]:
        """The fields that are videos by their names."""
        return [name for name in self.members if f".{name}".lower().endswith(SUFFIXES)]


def read_shards(
    shards: str | Sequence[str],
    root: PathLike | None,
    video: str | None,
    label: str | None,
    targets: TargetColumns | None,
    parts: PartColumns | None,
    where: Mapping[str, Any] | None,
) -> Listed:
    """The samples in archives; see `Catalog.from_shards`."""
    top, names = _found(shards, root)
    columns = requested(targets, label, *(where if isinstance(where, Mapping) else ()))
    samples = list(itertools.chain.from_iterable(_samples(top, names, columns)))
    source = f"{top}/{names[0]}" + f" and {len(names) - 1} more" * (len(names) > 1)
    parts = _parts(samples, source) if parts is None and video is None else parts
    of_parts = parts.values() if isinstance(parts, Mapping) else parts or ()
    fields = [video] if video is not None else list(of_parts)
    chosen = [each for each in samples if _has(each, fields)]
    _tell_left_out(samples, chosen, fields, source)
    if not fields:
        for each in chosen:
            each.paths["video"] = each.paths[each.videos[0]]
    for each in chosen:
        _check(each, fields or each.videos[:1])
    every = dict.fromkeys(name for each in chosen for name in (*each.paths, *each.cells))
    rows = Rows(
        {name: [each.cells.get(name, each.paths.get(name)) for each in chosen] for name in every},
        source,
        lambda i: f"{top}/{chosen[i].shard}/{chosen[i].key}",
    )
    roles = roles_of(path=video or "video", label=label, targets=targets, where=where, parts=parts)
    return read_table(rows, top, None, roles, look=False)


def _has(sample: _Sample, fields: Sequence[str]) -> bool:
    return all(name in sample.paths for name in fields) if fields else bool(sample.videos)


def _check(sample: _Sample, fields: Sequence[str]) -> None:
    for name in fields:
        if flaw := sample.members[name].flaw:
            raise CatalogError(f"{sample.paths[name]} {flaw}")


def _parts(samples: Sequence[_Sample], source: str) -> PartColumns | None:
    """Several videos of a sample are its parts."""
    several = next((each.videos for each in samples if len(each.videos) > 1), [])
    named = {re.sub(r"\W", "_", name.rpartition(".")[0] or name): name for name in several}
    if len(named) < len(several):
        raise CatalogError(f"{source}: name the parts of a sample: parts= of {some(several)}")
    return named or None


def _tell_left_out(
    samples: Sequence[_Sample], chosen: Sequence[_Sample], fields: Sequence[str], source: str
) -> None:
    """Log how many samples have no such video, and whose keys may be others than was meant."""
    what = some(fields) if fields else "video"
    there = some([name for name, _ in Counter(f for s in samples for f in s.members).most_common()])
    if not chosen:
        raise CatalogError(f"{source}: no sample has a {what}: their fields are {there or 'none'}")
    if len(chosen) < len(samples):
        _log.warning(
            "%s: %d of %d samples have no %s, and are left out", source,
            len(samples) - len(chosen), len(samples), what,
        )  # fmt: skip
    for each in samples:
        other = next((name for name in each.videos if "." in name and name not in fields), None)
        if other is not None:
            _log.warning(
                "%s: %s.%s is the field %s of the key %s: the key ends at the first dot",
                source, each.key, other, other, each.key,
            )  # fmt: skip
            return


# Shards


def _found(shards: str | Sequence[str], root: PathLike | None) -> tuple[Path | str, list[str]]:
    """The root, and the paths of the shards from there. Raises CatalogError."""
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
            raise CatalogError(f"the shard {name!r} does not lie in the root {top}")
    return top, list(dict.fromkeys(found))


def _matches(path: str, pattern: str) -> bool:
    steps, wanted = path.split("/"), pattern.split("/")
    return len(steps) == len(wanted) and all(map(fnmatch.fnmatchcase, steps, wanted))


def _without_braces(name: str) -> list[str]:
    """The names that ``{000..099}`` and ``{a,b}`` stand for. Raises CatalogError."""
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
                raise CatalogError(f"{{{piece}}} in {name!r} stands for no or too many names")
            pieces.append([f"{number:0{width}}" for number in range(first, last + 1)])
    return ["".join(each) for each in itertools.product(*pieces)]


# Samples


def _samples(top: Path | str, names: Sequence[str], columns: set[str]) -> Iterator[list[_Sample]]:
    """The samples of each shard; below a URL, of several at a time. Raises CatalogError."""

    def of_shard(name: str) -> list[_Sample]:
        storage = open_storage(top)
        try:
            with storage.reading(name, lambda: None):
                return _samples_of(storage, name, columns)
        except (VideoError, StorageError, FileReplacedError, OSError) as error:
            raise CatalogError(f"{top}: {error or f'{name} changes while it is read'}") from None
        finally:
            storage.close()

    with ThreadPoolExecutor(_AT_ONCE if isinstance(top, str) else 1) as threads:
        yield from threads.map(of_shard, names)


def _samples_of(storage: Storage, shard: str, columns: set[str]) -> list[_Sample]:
    """The samples of a shard. Raises CatalogError, VideoError, StorageError, OSError."""
    archive = storage.resolve(shard)
    found = walk(shard, archive)
    if found.flaw:
        raise CatalogError(f"{storage.root}/{shard} {found.flaw}")
    if found.doubles:
        _log.warning("%s: %d members occur twice: the last ones are used", shard, found.doubles)
    samples: dict[str, _Sample] = {}
    latest = ""
    for path, member in found.members.items():
        folder, base = posixpath.split(path)
        stem, _, name = base.partition(".")
        key = posixpath.join(folder, stem)
        if not stem or not name or not is_text_line(path):
            continue
        if key not in samples:
            samples[key] = _Sample(shard, key, cells={_KEY: key})
        elif key != latest:
            raise CatalogError(
                f"{storage.root}/{shard}: the files of {key!r} are not beside each other: "
                f"{path} follows {latest!r}. Sort the members by their names"
            )
        latest = key
        samples[key].members[name] = member
        samples[key].paths[name] = f"{shard}/{path}"
    with closing(archive.open()) as opened:
        for sample in samples.values():
            for name in fields_in(columns) & sample.members.keys():
                member, path = sample.members[name], sample.paths[name]
                if member.flaw:
                    raise CatalogError(f"{path} {member.flaw}")
                sample.cells |= cells_in(opened, member.begin, member.size, path, name, columns)
    archive.check()
    return list(samples.values())
