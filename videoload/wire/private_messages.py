"""Every message between a process and a worker that it started, over their private channel.

    process                             worker that it started
      WorkerSettings  first      ───>
      Share  (and a descriptor)  ───>
      Unshare                    ───>
                                 <───  Connects  before it connects to its trainer
      Connect                    ───>

Roots and memory are named here only: a remote worker has no private channel.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from videoload.logs import LogFormat
from videoload.storage.cache_directories import NO_DIRECTORIES, CacheDirectories
from videoload.wire.messages import Id, decode


class _Private(msgspec.Struct, forbid_unknown_fields=True, tag_field="type"):
    pass


class WorkerSettings(_Private, tag="settings"):
    """All that a worker process needs to know."""

    trainers: Annotated[list[str], msgspec.Meta(min_length=1)]  # the addresses to connect to
    root: str | None = None  # of a remote worker; a shared arena names its own root
    token: str = ""  # proves that this trainer started the worker
    keys: str | None = None
    insecure: bool = False
    transforms: list[str] | None = []  # modules whose functions a spec may name; None: any
    folders: CacheDirectories = NO_DIRECTORIES  # its caches
    log_format: LogFormat = ""


class Share(_Private, tag="share"):
    """A stream's arena, whose descriptor travels along. Its videos lie under ``root``, which the
    file system may not spell in UTF-8."""

    arena: Id
    root: bytes


class Unshare(_Private, tag="unshare"):
    """The arena is no longer used."""

    arena: Id


class Connects(_Private, tag="connects"):
    """The worker requests to connect: accepting it takes a descriptor."""


class Connect(_Private, tag="connect"):
    """It may connect now, once."""


Private = WorkerSettings | Share | Unshare | Connects | Connect

_decoder: msgspec.msgpack.Decoder[Private] = msgspec.msgpack.Decoder(Private)


def unpack_private(body: bytes) -> Private:
    """Return the message in ``body``. Raises ProtocolError."""
    return decode(_decoder, body)
