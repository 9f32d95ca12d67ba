"""Receipts: a line for each batch that a training got, with its step and a digest of its bytes.

The stream is a pure function of its arguments. So the file begins with them, each batch can be made
again from its step, and the digest tells whether it is the same.

    {"videoload": "0.1.0", "stream": {"kind": "ClipSpec", "frames": "16", ...}, "videos": ..., ...}
    {"step": 0, "digest": "9c1f..."}

The file does not hold targets that are no class labels. A line then also has a digest of the clips
alone, which can be made again.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from xxhash import xxh3_64

from videoload.catalog.catalog import Catalog
from videoload.catalog.table import Part, Video
from videoload.clips.sample_spec import SampleSpec, Sides, Spec, functions_of
from videoload.errors import VideoloadError
from videoload.listings.columns import Listed
from videoload.listings.folders import open_root
from videoload.plan.identity import Identity, made_of, spec_of
from videoload.plan.options import StreamOptions
from videoload.plan.plan import BatchWithInfo
from videoload.storage.paths import parts_of


class Receipt(NamedTuple):
    """What a file of receipts says: the stream, and the digest of each step. If ``has_targets``,
    the digests are those of the clips alone."""

    catalog: Catalog
    spec: Spec
    options: StreamOptions
    digests: dict[int, str]
    has_targets: bool = False

    def digest(self, batch: BatchWithInfo) -> str:
        """The digest of a batch that was made again, to compare with the receipt."""
        return digests(*batch[:2])[not self.has_targets]


class Receipts:
    """Appends to a file of receipts."""

    def __init__(self, path: str | Path, catalog: Catalog, identity: Identity) -> None:
        """Begin the file, or continue it. Raises VideoloadError if it is another stream's, or
        cannot be written."""
        self._path = Path(path)
        self._has_targets = catalog.targets is not None
        self._cut = ""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists():
                with self._path.open() as lines:
                    if found := identity.difference(_head(path, lines)["stream"]):
                        raise VideoloadError(f"{path} has the receipts of another stream ({found})")
                self._cut = "\n"  # A kill may have cut off the last line.
            else:
                head: dict[str, object] = {
                    "videoload": _version(),
                    "stream": identity.settings,
                    "classes": catalog.classes,
                    "videos": [list(video) for video in catalog],
                    "parts": catalog.parts,
                }
                self._path.write_text(json.dumps(head) + "\n")
        except (OSError, UnicodeDecodeError) as error:
            raise VideoloadError(f"cannot write {path}: {error}") from None

    def add(self, step: int, clips: Any, labels: Any) -> None:
        """Note a batch."""
        of_clips, of_all = digests(clips, labels)
        extra = {"clips": of_clips} if self._has_targets else {}
        line = json.dumps({"step": step, "digest": of_all, **extra})
        cut, self._cut = self._cut, ""
        with self._path.open("a") as out:
            out.write(f"{cut}{line}\n")


def digests(clips: Any, labels: Any) -> tuple[str, str]:
    """Two digests, 64 bits of XXH3 in hex each: of the clips, and of clips and labels. They are
    over names, types, shapes and bytes. SHA-256 took ten times as long, 55 ms for 77 MB."""
    of_clips, of_all = _digests(_arrays("clips", clips), _arrays("labels", labels))
    return of_clips, of_all


def _digests(*parts: Iterable[tuple[str, Any]]) -> list[str]:
    digest, found = xxh3_64(), []
    for part in parts:
        for name, array in part:
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
            text = str(array.tolist()).encode() if array.dtype.hasobject else None
            digest.update(np.ascontiguousarray(array).data if text is None else text)
        found.append(digest.hexdigest())
    return found


def with_digest(batch: BatchWithInfo) -> BatchWithInfo:
    """The batch, with an info that can make its digest. It does not keep the clips, and so their
    slot."""
    clips, labels, info = batch
    held = [(name, weakref.ref(array)) for name, array in _arrays("clips", clips)]

    def digest() -> str:
        arrays = [(name, array()) for name, array in held]
        if any(array is None for _, array in arrays):
            raise VideoloadError(
                f"the clips of batch {info.step} are gone: ask for info.digest while you have them"
            )
        return _digests(arrays, _arrays("labels", labels))[-1]

    return clips, labels, info._replace(digest_of=digest)


def read(path: str | Path, root: str | Path | None, allow: Collection[str] = ()) -> Receipt:
    """A file of receipts, for videos under ``root``. Its functions are imported later, so their
    modules must be in ``allow``. Raises VideoloadError."""
    root = None if root is None else open_root(root)
    try:
        with Path(path).open() as lines:
            head = _head(path, lines)
            settings = head["stream"]
            has_targets = "targets" in settings
            found = dict(_entries(lines, "clips" if has_targets else "digest"))
        spec = spec_of(settings)
        options = made_of(StreamOptions, settings)
        videos = dict(zip(Video._fields, zip(*head["videos"], strict=True), strict=True))
        paths = videos.pop("path")
        first = [parts_of(path)[0] for path in paths]
        listed = Listed(first, videos, tuple(head["classes"]), root)
        catalog = Catalog._of(listed, duplicates=True)
        if isinstance(spec, SampleSpec):
            sides = Sides(spec.names, spec.by, spec.offsets_s or {})
            catalog = catalog._replaced(table=catalog._table.replaced(paths), sides=sides)
        if head["parts"]:
            catalog = catalog._replaced(parts=tuple(Part(*part) for part in head["parts"]))
    except OSError as error:
        raise VideoloadError(f"cannot read {path}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError, SyntaxError):
        raise _damaged(path) from None
    for _, function in functions_of(spec):
        module = function.partition(":")[0]
        if module not in allow:
            raise VideoloadError(
                f"{path} names the function {function}: add --allow {module} if you trust it"
            )
    return Receipt(catalog, spec, options, found, has_targets)


def _version() -> str:
    with suppress(PackageNotFoundError):  # its files are used without an installation
        return version("videoload")
    return ""


def _head(path: str | Path, lines: Iterator[str]) -> dict[str, Any]:
    with suppress(ValueError):
        head = json.loads(next(lines, ""))
        if isinstance(head, dict) and isinstance(head.get("stream"), dict):
            return head
    raise _damaged(path)


def _damaged(path: str | Path) -> VideoloadError:
    return VideoloadError(f"{path} is not a file of receipts")


def _entries(lines: Iterator[str], which: str) -> Iterator[tuple[int, str]]:
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):  # A kill may have cut off a line.
            entry = json.loads(line)
            yield int(entry["step"]), str(entry[which])


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _arrays(f"{name}.{key}", value[key])
    else:
        yield name, np.asarray(value)
