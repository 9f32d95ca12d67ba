"""Every message between a process and a worker or receiver that it started, over their private
channel.

    process                             worker that it started
      WorkerSettings  first      ───>
      Share  (and a descriptor)  ───>
      Unshare                    ───>

    process                             receiver
      Share, Unshare             ───>
      Adopt  (and a descriptor)  ───>
      Land, Abandon              ───>
                                 <───  Landed, Ended, Alive

Roots and memory are named here only: a worker that dials in has no private channel.
`receivers.connection` tells what a receiver does with its messages.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from videoload.logs import LogFormat
from videoload.storage.keep import NO_FOLDERS, Folders
from videoload.transport.messages import Id, Place, decode, encode
from videoload.user_code.sources import Source


class _Private(msgspec.Struct, forbid_unknown_fields=True, tag_field="type"):
    pass


class WorkerSettings(_Private, tag="settings"):
    """All that a worker process needs to know."""

    trainers: Annotated[list[str], msgspec.Meta(min_length=1)]  # the addresses to dial
    root: str | None = None  # of a worker that dials in; a shared arena names its own root
    token: str = ""  # proves that this trainer started the worker
    keys: str | None = None
    insecure: bool = False
    transforms: list[str] | None = []  # modules whose functions a spec may name; None: any
    folders: Folders = NO_FOLDERS  # where it keeps what serves it again
    log_format: LogFormat = ""

    def with_keys(self, folder: str | None) -> WorkerSettings:
        """The same settings with other keys."""
        return msgspec.structs.replace(self, keys=folder)


class Share(_Private, tag="share"):
    """A stream's arena. Its videos lie under ``root``. With ``memory``, the arena's descriptor
    travels along. Without, this host cannot share memory and pixels are sent. ``code``: the sources
    of the user's modules, by name, as they were when the stream was made."""

    arena: Id
    root: str
    memory: bool
    code: dict[str, Source] = {}


class Unshare(_Private, tag="unshare"):
    """The arena is no longer used."""

    arena: Id


class Adopt(_Private, tag="adopt"):
    """Take this data connection. Its descriptor travels along. ``key`` opens what comes by it; it
    is empty if nothing is sealed."""

    connection: Id
    key: bytes = b""


class Land(_Private, tag="land"):
    """The next answer on this connection is for ``lease``. Write its ``size`` bytes to ``place``.
    Without a place, drop the answer, whatever its size."""

    connection: Id
    lease: Id
    place: Place | None = None
    size: Id = 0


class Abandon(_Private, tag="abandon"):
    """Write nothing more that comes by this connection, close it, and send `Ended`."""

    connection: Id


class Landed(_Private, tag="landed"):
    """A receiver has written a whole answer."""

    connection: Id
    lease: Id


class Ended(_Private, tag="ended"):
    """A receiver has closed this connection and writes nothing more that came by it.
    ``of_receiver``: the connection ended because the receiver did."""

    connection: Id
    why: str
    of_receiver: bool = False


class Alive(_Private, tag="alive"):
    """A receiver has taken a turn."""


FromReceiver = Landed | Ended | Alive
Private = WorkerSettings | Share | Unshare | Adopt | Land | Abandon | FromReceiver

_decoder: msgspec.msgpack.Decoder[Private] = msgspec.msgpack.Decoder(Private)


def pack_private(message: Private) -> bytes:
    """The bytes of a message."""
    return encode(message)


def unpack_private(body: bytes) -> Private:
    """The message in ``body``. Raises ProtocolError."""
    return decode(_decoder, body)
