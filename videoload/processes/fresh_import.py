"""What a user's function is in a process that imports it now. An import may do anything, so that is
a child, which ends."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import msgspec

from videoload import native
from videoload.errors import VideoloadError
from videoload.processes.child import ChildProcess, end_all, inherited
from videoload.user_code import objects
from videoload.user_code.sources import digest, file_of, own_modules

_MODULE = "videoload.processes.fresh_import"


class Fresh(NamedTuple):
    """A function: its `objects.texts`, and the digests of the user's modules behind it, and their
    files, by name."""

    texts: dict[str, str]
    code: dict[str, str]
    files: dict[str, str]


_known: dict[tuple[str, ...], Fresh] = {}


def fresh_import(name: str) -> Fresh | None:
    """Import ``"module:function"``, unless that was done and its files are as they were. None: it
    cannot be imported, and workers say why. Raises WorkerError."""
    key = (name, *sys.path)
    known = _known.get(key)
    if known and all(digest(Path(known.files[each])) == text for each, text in known.code.items()):
        return known
    mine, theirs = socket.socketpair()
    with Connection(mine.detach()) as pipe:
        child = ChildProcess(_MODULE, theirs)
        try:
            pipe.send_bytes(name.encode())
            _known[key] = msgspec.json.decode(pipe.recv_bytes(), type=Fresh)
        except (EOFError, OSError):
            return None
        finally:
            end_all([child])
    return _known[key]


def main() -> None:
    """The child."""
    from videoload.user_code.functions import Functions  # which a trainer does not load

    native.is_worker = True
    [descriptor] = inherited()
    with Path(os.devnull).open("wb") as nowhere:  # workers show what an import prints
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    with Connection(descriptor) as pipe, suppress(VideoloadError):
        name = pipe.recv_bytes().decode()
        Functions(None).find(name)
        modules = own_modules(name.partition(":")[0])
        files = {each: file for each in modules if (file := file_of(each)) is not None}
        code = {each: digest(file) for each, file in files.items()}
        told = Fresh(objects.texts(name), code, {each: str(files[each]) for each in files})
        pipe.send_bytes(msgspec.json.encode(told))


if __name__ == "__main__":
    main()
