"""The decoders of a worker, one for each root, and the shared memory that clips are written to.

A remote worker has one root. A worker that a trainer started gets roots and shared memory
(arenas) over its private channel.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from videoload.decoding.decoder import Decoder
from videoload.errors import ProtocolError
from videoload.storage.roots import is_url
from videoload.wire.messages import Lease
from videoload.wire.private_channel import PrivateChannel
from videoload.wire.private_messages import Connect, Connects, Share, Unshare, WorkerSettings
from videoload.wire.slots import Window

CHANNEL_S = 5.0  # a message that is due on the private channel arrives within this time


class Orphaned(BaseException):
    """The process that started this worker has ended."""


class Decoders:
    """What a worker decodes with, and where to."""

    def __init__(
        self,
        settings: WorkerSettings,
        channel: PrivateChannel | None,
        on_call: Callable[[], None],
    ) -> None:
        """``channel`` leads to the process that started this one. ``on_call`` is called before a
        function of the user's that may take long."""
        self._settings = settings
        self._on_call = on_call
        self._channel = channel
        # the trainer that started this worker has allowed it
        self._asked = self.may_connect = False
        self.fetches = False  # some files are on other hosts
        self._shares: dict[int, tuple[Window, str]] = {}  # an arena, and its root
        self._unshared: set[int] = set()  # a lease of a dropped stream may arrive after its end
        self._by_root: dict[str, Decoder] = {}  # independent of arenas
        self._note(settings.root)

    def begin(self) -> None:
        """A trainer is served from now on. It may find other files than the one before."""
        if (root := self._settings.root) is not None:
            self._open(root).begin()

    def close_files(self) -> None:
        """Close the files that decoders hold open."""
        for decoder in self._by_root.values():
            decoder.rest()

    def look(self) -> str:
        """Return why a remote worker could read nothing now; "" if no reason is found quickly."""
        return "" if (root := self._settings.root) is None else self._open(root).storage.look()

    def storage_error(self) -> str:
        """The error of a storage while a reader waits for bytes; "" if there is none."""
        decoders = self._by_root.values() if self.fetches else ()
        return next(filter(None, (decoder.storage.failure_reason for decoder in decoders)), "")

    def of(self, lease: Lease) -> Decoder | None:
        """Return the decoder for a lease, if it is known by now."""
        root = self._settings.root
        if lease.place is not None:
            _, root = self._shares.get(lease.place.arena, (None, None))
        return None if root is None else self._by_root.get(root)

    def place(self, lease: Lease) -> tuple[Decoder, npt.NDArray[np.uint8], bool]:
        """Return the decoder and the array for a lease's rows, and whether the trainer shares the
        array. Raises ProtocolError: no clip is to blame."""
        rows = [] if lease.place is None else lease.place.rows
        shape = (max(rows, default=len(lease.clips) - 1) + 1, lease.task.clip_bytes)
        if lease.place is None:
            if (root := self._settings.root) is None:
                raise ProtocolError("the lease names no shared memory, and this worker has no root")
            return self._open(root), np.empty(shape, np.uint8), False
        arena = lease.place.arena
        if arena not in self._shares and arena not in self._unshared:
            # The arena was sent before the lease, but on the private channel.
            self.read_channel(wait_for=arena)
        if arena not in self._shares:
            raise ProtocolError(f"arena {arena} is not shared with this worker")
        window, root = self._shares[arena]
        return self._open(root), window.view(lease.place.offset, shape), True

    def is_over(self, lease: Lease) -> bool:
        """Return whether the stream of a lease has ended."""
        return lease.place is not None and lease.place.arena in self._unshared

    def read_channel(self, wait_for: int | None = None) -> None:
        """Read the private channel, until the arena ``wait_for`` has arrived. Raises Orphaned if
        its other end is closed."""
        if self._channel is None:
            return
        try:
            self._channel.flush()
            while got := self._channel.receive(CHANNEL_S if wait_for is not None else 0):
                message, descriptor = got
                if isinstance(message, Share):
                    assert descriptor is not None
                    self._shares[message.arena] = Window(descriptor), os.fsdecode(message.root)
                    self._note(os.fsdecode(message.root))
                    if message.arena == wait_for:
                        # continue: a poll does not see messages that were read already
                        wait_for = None
                elif isinstance(message, Unshare):
                    self._shares.pop(message.arena, None)
                    self._unshared.add(message.arena)
                elif isinstance(message, Connect):
                    self.may_connect = True
        except EOFError:
            raise Orphaned from None

    def ask(self) -> bool:
        """Return whether this worker may connect to the trainer that started it, once. If not,
        request it; the trainer answers on the channel."""
        may, self.may_connect = self.may_connect, False
        if not may and not self._asked and self._channel is not None:
            self._channel.send(Connects())
        self._asked = not may
        return may

    def _note(self, root: str | None) -> None:
        """Note a root of possible leases. A folder is read at the first one: if it does not
        respond, it must not block this worker's connection, or other roots."""
        if root is not None and is_url(root):
            self._open(root)

    def _open(self, root: str) -> Decoder:
        if (known := self._by_root.get(root)) is not None:
            return known
        settings = self._settings
        made = Decoder(
            root, transforms=settings.transforms, folders=settings.folders, on_call=self._on_call
        )
        self._by_root[root] = made
        self.fetches |= made.storage.fetches
        return made
