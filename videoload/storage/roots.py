"""Roots: a folder of this host, or the URL of a bucket or a web server.

A URL stands in messages and travels to the workers, so it holds no credentials. Each process takes
them from its environment, or from the machine's role.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from videoload.activity import reading
from videoload.errors import SpecError, StorageError
from videoload.logs import Log
from videoload.storage.cache_directories import CacheDirectory
from videoload.storage.files import Folder, Storage, status_of
from videoload.storage.hub import Dataset, endpoint, is_dataset
from videoload.storage.paths import files_of
from videoload.storage.shards import split_path
from videoload.storage.stores import Store, UnavailableError, why

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

T = TypeVar("T")

_log = Log(__name__)

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCHEMES = ("s3", "gs", "az", "abfs", "abfss", "http", "https", "hf")
_REFUSAL = re.compile("^40[0134] |no such bucket|no credentials")
_MOST_LISTED = 20_000_000  # files below a URL, in 10 GB
_COMMITS: dict[tuple[str, str, str], str] = {}  # by hub, dataset and revision
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def is_url(root: str | os.PathLike[str]) -> bool:
    """Return whether a root is a URL, not a folder of this host."""
    return isinstance(root, str) and _SCHEME.match(root) is not None


def open_storage(
    root: str | os.PathLike[str],
    file_cache: CacheDirectory | None = None,
    *,
    must_exist: bool = False,
) -> Storage:
    """Return the storage of a folder or URL, without a request to its host. ``file_cache``: for
    files from a URL. ``must_exist``: see `Folder`. Raises StorageError if the extra for URLs is not
    installed."""
    if is_url(root):
        from videoload.storage.remote import RemoteStorage  # few processes need it

        return RemoteStorage(str(root), file_cache)
    return Folder(root, must_exist=must_exist)


def copy_name(root: str) -> str:
    """Return a name that is equal for all processes that read the same files: below one URL, or in
    one folder of one host, with any names of folder and host."""
    where = root
    if not is_url(root):
        try:
            with reading(root):
                status = os.stat(root)
            boot = Path(_BOOT_ID).read_text()
            where = f"{boot} {status.st_dev} {status.st_ino}"
        except OSError:  # it reads nothing there
            where = f"{uuid4()}"
    return blake2b(where.encode(errors="replace"), digest_size=16).hexdigest()


def normal_url(root: str) -> str:
    """Return the normal form of a URL, without a ``/`` at its end. Raises ValueError."""
    try:
        parts = urlsplit(root)
    except ValueError:
        raise ValueError("the root is not a readable URL") from None
    shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            f"the root {shown} may contain no user, key or query: everybody who sees a message "
            f"would see "
            "them; put credentials into the environment"
        )
    if parts.scheme not in _SCHEMES:
        raise ValueError(f"the root {shown} is not one of {', '.join(f'{s}://' for s in _SCHEMES)}")
    if not parts.netloc:
        raise ValueError(f"the root {shown} names no bucket or host")
    path = posixpath.normpath(parts.path).rstrip("/") if parts.path else ""
    if parts.path.rstrip("/") != path:
        raise ValueError(f"the root {shown} may contain no '.', '..' or '//'")
    if parts.scheme == "hf":  # raises ValueError
        Dataset.of(f"hf://{parts.netloc}{path}")
    return f"{parts.scheme}://{parts.netloc}{path}"


def pinned_url(root: str) -> str:
    """Return the normal form of a URL, as `normal_url`, with a hub's revision resolved to its
    commit at first use, so that this process lists and reads one commit. Raises ValueError,
    StorageError."""
    url = normal_url(root)
    if not is_dataset(url) or (dataset := Dataset.of(url)).is_pinned:
        return url
    at = endpoint(), dataset.name, dataset.revision
    if at not in _COMMITS:
        store = Store(url)

        def failed(error: Exception, _: float) -> None:
            if _REFUSAL.search(text := why(error)):
                raise StorageError(f"{url} cannot be read: {text}") from None

        try:
            _COMMITS[at] = store.ask(lambda: store.hub().commit(), failed=failed)
        finally:
            store.stop()
        pinned = dataset.at(_COMMITS[at])
        _log.warning("%s is read at its current commit: use %s to read the same later", url, pinned)
    return dataset.at(_COMMITS[at])


def index_of(
    requested: str | os.PathLike[str] | Literal[False] | None,
) -> str | bool | None:
    """Return a caller's argument ``index``, checked: a file or a URL; None: what lies in the root;
    False: none. Raises SpecError."""
    try:
        if not requested:
            return requested if requested is None else False
        if is_url(requested):
            folder, _, name = str(requested).rpartition("/")
            return f"{pinned_url(folder)}/{name}"
        if (file := Path(requested).absolute()).is_file():
            return str(file)
        raise ValueError("there is no such file; `videoload index` writes it")
    except (TypeError, ValueError) as error:
        raise SpecError(f"index={str(requested)!r}: {error}") from None


def files_below(url: str, folder: str) -> list[str]:
    """Return the paths, relative to the URL, of all files in a folder of it ("": the URL itself),
    sorted. Raises StorageError."""
    return sorted(meta["path"] for meta in _listed(url, folder))


def versions_of(url: str, paths: Iterable[str]) -> dict[str, bytes]:
    """Return the current versions (`VideoFile.version`) of files below the URL: by listing a
    bucket, or by a request per file to a web server. Raises StorageError."""
    from videoload.storage.stores import Fetcher, tag_of

    found: dict[str, bytes] = {}
    if not url.startswith("http"):
        for meta in _listed(url):
            tag = tag_of(meta)
            if tag == meta.get("e_tag") and tag[0] not in '"W':  # some list it without its quotes
                tag = f'"{tag}"'
            found[meta["path"]] = f"{meta['size']} {tag}".encode()
        return found
    fetcher = Fetcher(url)
    objects = dict.fromkeys(split_path(path)[0] for path in paths)
    requested = [(path, fetcher.start(partial(fetcher.look, path))) for path in objects]
    for path, coming in requested:
        with suppress(UnavailableError):
            size, tag = fetcher.wait(coming)
            found[path] = f"{size} {tag}".encode()
    fetcher.stop()
    return found


def identities_of(root: str | os.PathLike[str], paths: Iterable[str]) -> dict[str, str]:
    """Return the identity of the current files of each row, without reading them: size and time of
    change in a folder, and the versions below a URL. "": a file is missing, or has no identity.
    Raises StorageError."""
    if not is_url(root):
        found = {path: status_of(root, path) for path in paths}
        return {path: "" if each is None else "{} {}".format(*each) for path, each in found.items()}
    from videoload.storage.stores import has_versions

    objects = {path: [split_path(file)[0] for file in files_of(path)] for path in paths}
    versions = versions_of(str(root), [each for files in objects.values() for each in files])
    identities = {}
    for path, files in objects.items():
        texts = [versions.get(each, b"").decode() for each in files]
        known = all(has_versions(text.partition(" ")[2]) for text in texts)
        identities[path] = ", ".join(texts) if known else ""
    return identities


def put_file(url: str, name: str, file: Path) -> None:
    """Write an object below the URL. Raises StorageError."""
    import obstore

    def failed(error: Exception, _: float) -> None:
        if _REFUSAL.search(text := why(error)):
            raise StorageError(f"{url}/{name} cannot be written: {text}") from None

    store = Store(url)
    store.ask(lambda: obstore.put(store.open(), name, file), failed=failed)


def _listed(url: str, folder: str = "") -> list[ObjectMeta]:
    if is_dataset(url):
        return _in_dataset(url, folder, "recursive=true")[0]
    found: list[ObjectMeta] = []

    def ask(store: ObjectStore) -> None:
        import obstore

        # Bytes received before a fault are not requested again.
        behind = found[-1]["path"] if found else None
        for part in obstore.list(store, prefix=folder or None, offset=behind):
            found.extend(part)
            _check_count(url, len(found))

    _list(url, ask, lambda: len(found))
    return found


def folders_in(url: str) -> list[str]:
    """Return the names of the folders in a URL, sorted. Raises StorageError."""

    if is_dataset(url):
        return sorted(_in_dataset(url, "", "recursive=false")[1])

    def ask(store: ObjectStore) -> list[str]:
        import obstore

        return list(obstore.list_with_delimiter(store)["common_prefixes"])

    return sorted(name.rstrip("/").rpartition("/")[2] for name in _list(url, ask, lambda: 0))


def _list(url: str, ask: Callable[[ObjectStore], T], come: Callable[[], int]) -> T:
    store = Store(url)
    if type(store.open()).__name__ == "HTTPStore":
        raise StorageError(
            f"{url} cannot be listed: a web server cannot list files; name them "
            "(from_table, from_list with classes)"
        )

    def failed(error: Exception, _: float) -> None:
        if _REFUSAL.search(text := why(error)):  # who has just begun can mend it
            raise StorageError(f"{url} cannot be listed: {text}") from None

    return store.ask(lambda: ask(store.open()), come=come, failed=failed)


def _in_dataset(url: str, folder: str, query: str | None) -> tuple[list[ObjectMeta], list[str]]:
    """Return the files and folders in a folder of a dataset; none if there is no such folder.
    Raises StorageError."""
    files: list[ObjectMeta] = []
    folders: list[str] = []
    store = Store(url)

    def failed(error: Exception, _: float) -> None:
        if isinstance(error, FileNotFoundError) or _REFUSAL.search(why(error)):
            raise UnavailableError(why(error)) from None

    try:
        while query is not None:
            page = partial(store.hub().page, folder, query)
            more_files, more_folders, query = store.ask(page, failed=failed)
            files += more_files
            folders += more_folders
            _check_count(url, len(files))
    except UnavailableError as error:
        if not str(error).startswith("404"):
            raise StorageError(f"{url} cannot be listed: {error}") from None
    finally:
        store.stop()
    return files, folders


def _check_count(url: str, count: int) -> None:
    if count > _MOST_LISTED:
        raise StorageError(
            f"{url} lists more than {_MOST_LISTED:,} files: give a folder of it, or a table"
        )
