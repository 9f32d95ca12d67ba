"""What a training was fed, kept: a line for each batch, with its step and a digest of its bytes.

The stream is a pure function of its arguments, so a receipt need not hold a batch: its arguments,
which the file begins with, and the step make it again, and the digest tells whether it is the same.

    {"videoload": "0.1.0", "kind": "clip", "spec": ..., "options": ..., "videos": ..., ...}
    {"step": 0, "digest": "9c1f..."}

Targets that are no class labels are not in it: then a line has a digest of the clips as well, and
those alone can be made again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import mixture
from videoload.catalog.table import Part
from videoload.clips import call_text
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.item_spec import ItemSpec, Spec
from videoload.errors import VideoloadError
from videoload.plan.identity import Identity
from videoload.plan.options import StreamOptions
from videoload.plan.plan import BatchWithInfo


class Receipt(NamedTuple):
    """A file of receipts, read: what the stream was, and the digest of each step in it, of the
    clips alone if ``has_targets`` that are not in it."""

    catalog: Catalog
    spec: Spec
    options: StreamOptions
    digests: dict[int, str]
    has_targets: bool = False

    def digest(self, batch: BatchWithInfo) -> str:
        """What the digest of a batch that was made again is to be compared by."""
        return digests(*batch[:2])[not self.has_targets]


class Receipts:
    """Appends to a file of receipts until it is collected."""

    def __init__(
        self, path: str | Path, catalog: Catalog, spec: Spec, options: StreamOptions
    ) -> None:
        """Begin the file, or go on with it. Raises VideoloadError where it is another stream's, or
        cannot be written."""
        self._path = Path(path)
        self._has_targets = catalog.targets is not None
        self._cut = ""
        identity = Identity.of(catalog, spec, options)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists():
                if difference := identity.difference(_saved_identity(self._path)):
                    raise VideoloadError(
                        f"{path} has the receipts of another stream ({difference})"
                    )
                self._cut = "\n"  # A kill may have cut off the last line.
            else:
                head = _head(catalog, spec, options, identity)
                self._path.write_text(json.dumps(head) + "\n")
        except (OSError, UnicodeDecodeError) as error:
            raise VideoloadError(f"cannot write {path}: {error}") from None

    def add(self, step: int, clips: Any, labels: Any) -> None:
        """Note a batch, in a line that begins anew: the one before may have been cut off."""
        of_clips, of_all = digests(clips, labels)
        told = {"clips": of_clips} if self._has_targets else {}
        line = json.dumps({"step": step, "digest": of_all, **told})
        cut, self._cut = self._cut, ""
        with self._path.open("a") as out:
            out.write(f"{cut}{line}\n")


def digests(clips: Any, labels: Any) -> tuple[str, str]:
    """64 bits of SHA-256, in hex, over the clips, and over clips and labels: their names, types,
    shapes and bytes."""
    sha, found = hashlib.sha256(), []
    for part, value in (("clips", clips), ("labels", labels)):
        for name, array in _arrays(part, value):
            sha.update(f"{name}{array.dtype.str}{array.shape}".encode())
            told = str(array.tolist()).encode() if array.dtype.hasobject else None  # text
            sha.update(np.ascontiguousarray(array).data if told is None else told)
        found.append(sha.hexdigest()[:16])
    return found[0], found[1]


def with_digest(batch: BatchWithInfo) -> BatchWithInfo:
    """The batch, whose info has its digest."""
    clips, labels, info = batch
    return clips, labels, info._replace(digest=digests(clips, labels)[1])


def read(path: str | Path, root: str | Path | None, allow: Collection[str] = ()) -> Receipt:
    """A file of receipts, for videos under ``root``. Its functions are imported later, so their
    modules must be in ``allow``. Raises VideoloadError."""
    wrong = VideoloadError(f"{path} is not a file of receipts")
    try:
        with Path(path).open() as lines:
            head = json.loads(lines.readline())
            has_targets = "targets" in head["stream"]
            found = list(_entries(lines, "clips" if has_targets else "digest"))
    except OSError as error:
        raise VideoloadError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise wrong from None
    kinds: dict[str, type[ClipSpec] | type[ItemSpec]] = {"clips": ClipSpec, "items": ItemSpec}
    try:
        kind, options = kinds[head["stream"]["kind"]], head["options"]
        spec: Any = kind(**call_text.parse(head["spec"], _names(kind), str(path)))
        paths, labels, *segments = zip(*head["videos"], strict=True)
        catalog = Catalog(paths, labels, head["classes"], root, *segments, duplicates=True)
        if parts := head.get("parts"):
            catalog = mixture(catalog, [_part(path, *part) for part in parts])
        asked = StreamOptions(**call_text.parse(options, _names(StreamOptions), str(path)))
    except (KeyError, TypeError, AttributeError):
        raise wrong from None
    for each in (spec, *(part.clip for part in catalog.parts if part.clip)):
        function = each.load if isinstance(each, ItemSpec) else each.transform
        module = (function or "").partition(":")[0]
        if module and module not in allow:
            raise VideoloadError(
                f"{path} names the function {function}: add --allow {module} if you trust it"
            )
    return Receipt(catalog, spec, asked, dict(found), has_targets)


def _head(
    catalog: Catalog, spec: Spec, options: StreamOptions, identity: Identity
) -> dict[str, object]:
    head: dict[str, object] = {
        "videoload": version("videoload"),
        "stream": identity.settings,
        "spec": call_text.write(_fields(spec)),
        "options": call_text.write(_fields(options)),
        "classes": catalog.classes,
        "videos": [list(video) for video in catalog],
    }
    if catalog.parts:
        head["parts"] = [
            [*part[:4], part.clip and call_text.write(_fields(part.clip))] for part in catalog.parts
        ]
    return head


def _saved_identity(path: Path) -> dict[str, str]:
    with path.open() as lines, suppress(ValueError, KeyError, TypeError):
        return dict(json.loads(lines.readline())["stream"])
    raise VideoloadError(f"{path} is not a file of receipts")


def _part(
    path: str | Path, name: str, start: int, stop: int, share: float, clip: str | None
) -> Part:
    told: Any = None if clip is None else call_text.parse(clip, _names(ClipSpec), str(path))
    return Part(name, start, stop, share, None if told is None else ClipSpec(**told))


def _entries(lines: Any, which: str) -> Iterator[tuple[int, str]]:
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):  # one that was cut off by a kill
            entry = json.loads(line)
            yield int(entry["step"]), str(entry[which])


def _names(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _fields(value: Any) -> Mapping[str, object]:
    return {name: getattr(value, name) for name in _names(type(value))}


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _arrays(f"{name}.{key}", value[key])
    else:
        yield name, np.asarray(value)
