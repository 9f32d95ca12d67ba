"""Create a dataset index: several processes index its files once for all hosts, and write one file
(see `storage.dataset_index`). Each result is cached on this host at once, so an interrupted run
resumes from there. Files with known rows, from an earlier index or from parts of other hosts, are
not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from videoload import Catalog, Client, ClipSpec, Count
from videoload.errors import BadVideo, FileReplacedError, VideoError, VideoloadError
from videoload.reading.index import VideoIndex
from videoload.storage.cache_directories import cache_folder
from videoload.storage.dataset_index import NAME, DatasetIndex
from videoload.storage.files import Storage
from videoload.storage.index_table import (
    NoIndexError,
    OtherSoftwareError,
    Row,
    SetTable,
    pack,
    unpack,
    write_table,
)
from videoload.storage.kept_rows import KeptRows
from videoload.storage.paths import files_of
from videoload.storage.roots import is_url, open_storage, put_file, versions_of
from videoload.tools.scan import AWAY_S, STALL_S
from videoload.versions import index_software


class Made(NamedTuple):
    """An index that was written: where, the files that it covers, how many of them were read for
    it, and those that cannot be read."""

    where: str
    files: int
    read: int
    bad: Sequence[BadVideo]


def make_index(
    catalog: Catalog,
    out: str | None = None,
    *,
    processes: int,
    cache: str | Path | Literal[False] | None = False,
    others: Sequence[str] = (),
    part: tuple[int, int] = (0, 1),
    begin: Callable[[int], Callable[[], None]] = lambda files: lambda: None,
) -> Made:
    """Write the index of all files of ``catalog``.

    Args:
        catalog: It needs its root.
        out: A file; None: beside the videos.
        processes: How many read.
        cache: Where a stopped call resumes from, as in `Client`. Default False: from nowhere.
        others: More indexes whose rows are used.
        part: (k, n): only every n-th file, from the k-th on.
        begin: Called with the number of files that have to be read. What it returns is called after
            each of them.

    Raises:
        VideoloadError: The index cannot be written there, or the storage does not respond.
    """
    if (root := catalog.root) is None:
        raise VideoloadError("an index needs the videos: give their root")
    _check_place(str(root), out)
    for other in others:
        if not _is_there(other):
            raise VideoloadError(f"--add {other}: there is no such file")
        if not is_url(other):
            _check_index("--add", other)
    every = dict.fromkeys(file for path in catalog.paths for file in files_of(path))
    paths = list(every)[part[0] :: part[1]]
    if (kept := cache_folder(cache)) is not None:
        Path(kept).mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="videoload-", dir=kept) as room:
        folder = kept or room
        find = partial(_row, *_sources(root, paths, folder, [out, *others]))
        left = [path for path in paths if find(path) is None]
        bad = _read(Catalog(left, root=root), processes, folder, begin(len(left))) if left else []
        # Other processes have written the rows, of files that may have changed meanwhile.
        paths = list(dict.fromkeys([*paths, *_indexed(root, out)]))
        find = partial(_row, *_sources(root, paths, folder, [out, *others]))
        rows = (row for path in paths if (row := find(path)) is not None)
        held = _held(find.args[0], paths)
        if out is not None or not is_url(root):
            file = Path(root, NAME) if out is None else Path(out)
            count = write_table(file, chain(held, rows), index_software(), room) - len(held)
            return Made(str(file), count, len(left), bad)
        made = Path(room, "whole")
        count = write_table(made, chain(held, rows), index_software(), room) - len(held)
        put_file(str(root), NAME, made)
    return Made(f"{root}/{NAME}", count, len(left), bad)


def _indexed(root: Path | str, out: str | None) -> list[str]:
    """Return the files that the index has rows of that this one takes the place of: they may be
    another list's of the same root. Raises StorageError."""
    if not _is_there(out):
        return []
    storage = open_storage(root)
    return DatasetIndex(out, storage, None, index_software()).paths()


def _check_place(root: str, out: str | None) -> None:
    """Raise VideoloadError."""
    place = Path(root) if out is None else Path(out).absolute().parent
    if out is None and root.startswith(("http", "hf")):
        raise VideoloadError(f"{root}: nothing can be written there: give --out FILE")
    if not (out is None and is_url(root)) and not _can_write(place):
        raise VideoloadError(f"{place} cannot be written to: give --out FILE in another folder")
    if out is not None and Path(out).exists():
        _check_index("--out", out)


def _check_index(option: str, file: str) -> None:
    """Raise VideoloadError if the file is no index: a wrong name must not cost another file."""
    try:
        if not Path(file).is_file():
            raise NoIndexError("it is not a file")
        if option != "--out" or Path(file).stat().st_size:
            SetTable(file, index_software()).close()
    except OtherSoftwareError:
        pass
    except NoIndexError as error:
        raise VideoloadError(f"{option} {file} is no index: {error}") from None


def _can_write(place: Path) -> bool:
    with suppress(OSError), TemporaryDirectory(dir=place, prefix=f"{NAME}-"):
        return True
    return False


def _sources(
    root: Path | str, paths: Sequence[str], folder: str, requested: Sequence[str | None]
) -> tuple[Storage, list[KeptRows | DatasetIndex]]:
    """Return the files as they are now, and what is known of them: the cache, and all indexes."""
    storage, software = open_storage(root), index_software()
    rows = KeptRows(folder, storage.root, software)
    storage.keep(rows)
    if is_url(root):
        found = versions_of(str(root), paths)
        storage.last_version = lambda path, wait: found.get(path)
    there = filter(_is_there, requested)
    return storage, [rows, *(DatasetIndex(each, storage, folder, software) for each in there)]


def _is_there(index: str | None) -> bool:
    return index is None or is_url(index) or Path(index).exists()


def _row(storage: Storage, known: Sequence[KeptRows | DatasetIndex], path: str) -> Row | None:
    """Return the row of a file, if one is known and whole. Raises StorageError."""
    with suppress(VideoError):
        file = storage.resolve(path)
        for _, _, packed in chain.from_iterable(each.rows(path) for each in known):
            with suppress(ValueError):  # it is of another file
                VideoIndex.from_bytes(unpack(path, file.version, packed)).check(file.size)
                return path.encode(errors="surrogateescape"), file.version, packed
    return None


def _held(storage: Storage, paths: Iterable[str]) -> list[Row]:
    """Return the rows of the files that hold these files. Raises StorageError."""
    found: dict[str, Row] = {}
    for path in paths:
        with suppress(VideoError, FileReplacedError):
            name, file = storage.held_in(path) or ("", None)
            if file is not None and name not in found and file.has_version:
                packed = pack(name, file.version, storage.contents(name, file).to_bytes())
                found[name] = name.encode(errors="surrogateescape"), file.version, packed
    return list(found.values())


def _read(
    files: Catalog, processes: int, folder: str, advance: Callable[[], None]
) -> list[BadVideo]:
    """Let workers find out what is not known. Returns the files that cannot be read."""
    bad = []
    with Client(
        min(processes, len(files)), cache=folder, index=False, stall_s=STALL_S,
        storage_timeout_s=AWAY_S,
    ) as client:  # fmt: skip
        for _, found in client.run(Count(ClipSpec(1)), files):
            advance()
            if isinstance(found, VideoError):
                bad.append(BadVideo(found.path, found.reason))
    return bad
