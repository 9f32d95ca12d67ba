"""What a user's function is in a process that imports it now: workers run that, and the trainer's
own may be another one. An import may do anything, so that process is a child, which ends."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import msgspec

from videoload import native
from videoload.decoding import objects
from videoload.decoding.code_sources import digest, file_of, own_modules
from videoload.errors import TransformError, VideoloadError
from videoload.logs import Log
from videoload.worker.child import ChildProcess, end_all, inherited
from videoload.worker.stall_clock import IMPORT_S

_log = Log(__name__)

_MODULE = "videoload.client.fresh_import"


class Fresh(NamedTuple):
    """A function: its `objects.texts`, and the user's modules behind it: the file and its digest,
    by name."""

    texts: dict[str, str]
    files: dict[str, tuple[str, str]]


_known: dict[tuple[str, ...], Fresh] = {}


def checked_code(transforms: Iterable[str], *, listens: bool, stall_s: float) -> dict[str, str]:
    """Digests of the user's modules behind ``transforms``. ``listens``: workers of other hosts may
    import them. ``stall_s``: how long a decoder may be silent. Raises TransformError: what is here,
    and `decode_serially` runs, is not what an import gives, or the import does not end;
    WorkerError."""
    code: dict[str, str] = {}
    for name in transforms:
        module = name.partition(":")[0]
        if (fresh := _fresh(name, stall_s + IMPORT_S)) is not None:
            here = objects.texts(name) if module in sys.modules else fresh.texts
            if change := objects.difference(here, fresh.texts):
                raise TransformError(f"transform {name}: {change}")
            code |= {each: text for each, (_, text) in fresh.files.items()}
        elif listens:
            _log.warning(
                "%s cannot be imported here, so the code of remote workers is not compared; "
                "add its folder to PYTHONPATH", module,
            )  # fmt: skip
    return code


def _fresh(name: str, timeout_s: float) -> Fresh | None:
    """Import it, unless that was done and the files have not changed. None: the import fails, and
    workers report why. Raises TransformError after ``timeout_s``."""
    key = (name, *sys.path)
    known = _known.get(key)
    if known and all(digest(Path(file)) == text for file, text in known.files.values()):
        return known
    mine, theirs = socket.socketpair()
    with Connection(mine.detach()) as pipe:
        child = ChildProcess(_MODULE, theirs)
        try:
            pipe.send_bytes(name.encode())
            if not pipe.poll(timeout_s):
                raise TransformError(
                    f"transform {name}: importing its module takes longer than {timeout_s:g} s, or "
                    "hangs; stall_s= of the client allows more"
                )
            _known[key] = msgspec.json.decode(pipe.recv_bytes(), type=Fresh)
        except (EOFError, OSError):
            return None
        finally:
            end_all([child])
    return _known[key]


def main() -> None:
    """The child."""
    from videoload.decoding.functions import Functions  # which a trainer does not load

    native.is_worker = True
    [descriptor] = inherited()
    with Path(os.devnull).open("wb") as nowhere:  # workers show what an import prints
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    with Connection(descriptor) as pipe, suppress(VideoloadError):
        name = pipe.recv_bytes().decode()
        Functions(None).find(name)
        files = {each: file_of(each) for each in own_modules(name.partition(":")[0])}
        change = {each: (str(file), digest(file)) for each, file in files.items() if file}
        pipe.send_bytes(msgspec.json.encode(Fresh(objects.texts(name), change)))


if __name__ == "__main__":
    main()
