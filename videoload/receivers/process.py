"""A receiver: ``python -m videoload.receivers.process``, a process on the trainer's host that reads
workers' pixels from their data connections straight into the slots (`receivers.connection`).

It decides nothing. The trainer says which connections it has, what comes next on each of them, and
where that goes. The receiver says when an answer is there, or why it will not come.

The fence: a receiver writes only where and while it was told to. The trainer gives a place to
nobody else before the answer has landed, its connection has ended or this process is dead.
"""

from __future__ import annotations

import select
import socket
import sys
import time

from videoload.errors import ProtocolError
from videoload.processes.child import inherited
from videoload.receivers.connection import PixelReader
from videoload.transport.private_channel import PrivateChannel
from videoload.transport.private_messages import (
    Abandon,
    Adopt,
    Alive,
    Ended,
    Land,
    Landed,
    Private,
    Share,
    Unshare,
)
from videoload.transport.slots import Window, spans

_BEAT_S = 0.5  # between two `Alive`
_SILENCE_S = 3.0  # an answer that is silent for this time will not come
_ANSWER_S = 10.0  # on a line that takes longer for an answer, ZeroMQ is as fast
_HUNG_UP = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


class _Connection:
    def __init__(self, number: int, reader: PixelReader) -> None:
        self.number = number
        self.reader = reader
        self.since = self.grew = 0.0  # the next answer was announced; its last bytes came

    def waits(self, now: float) -> None:
        """The next answer is expected from now on."""
        self.since = self.grew = now


class Receiver:
    """Reads the answers that its trainer announces."""

    def __init__(self, channel: PrivateChannel) -> None:
        self._channel = channel
        self._windows: dict[int, Window] = {}
        self._connections: dict[int, _Connection] = {}  # by number
        self._by_descriptor: dict[int, _Connection] = {}
        self._epoll = select.epoll()
        self._epoll.register(channel.socket, select.EPOLLIN)

    def run(self) -> None:
        """Read until the private channel ends."""
        beat = 0.0
        try:
            while True:
                ready = self._epoll.poll(_BEAT_S)
                now = time.monotonic()
                for descriptor, events in ready:
                    if descriptor == self._channel.socket.fileno():
                        for message, given in self._channel.receive_all():
                            self._obey(message, given, now)
                    elif (connection := self._by_descriptor.get(descriptor)) is not None:
                        self._read(connection, events, now)
                if now >= beat:
                    beat = now + _BEAT_S
                    self._channel.send(Alive())
                    self._end_late(now)
                self._channel.flush()
        except EOFError:
            pass

    def _obey(self, message: Private, descriptor: int | None, now: float) -> None:
        match message:
            case Share():
                assert descriptor is not None
                self._windows[message.arena] = Window(descriptor)
            case Unshare():
                self._windows.pop(message.arena, None)
            case Adopt():
                assert descriptor is not None
                self._adopt(message, socket.socket(fileno=descriptor))
            case Land() if (connection := self._connections.get(message.connection)) is not None:
                self._land(connection, message, now)
            case Abandon() if (connection := self._connections.get(message.connection)) is not None:
                self._end(connection, "its worker left")
            case _:
                pass  # about a connection that has ended; the trainer was told

    def _adopt(self, message: Adopt, end: socket.socket) -> None:
        try:
            reader = PixelReader(end, message.key)
        except OSError as error:
            end.close()
            self._channel.send(Ended(message.connection, str(error)))
            return
        connection = _Connection(message.connection, reader)
        self._connections[message.connection] = connection
        self._by_descriptor[end.fileno()] = connection
        self._epoll.register(end, select.EPOLLRDHUP)

    def _land(self, connection: _Connection, message: Land, now: float) -> None:
        into = None
        place = message.place
        # The stream of an arena that never came was dropped meanwhile.
        if place is not None and (window := self._windows.get(place.arena)) is not None:
            rows = place.rows or [0]
            row_bytes = message.size // len(rows)
            into = [
                window.view(place.offset + first * row_bytes, (count * row_bytes,)).data
                for first, count in spans(rows)
            ]
        if not connection.reader.is_told:
            connection.waits(now)
            self._epoll.modify(connection.reader.socket, select.EPOLLIN | select.EPOLLRDHUP)
        connection.reader.land(message.lease, into)

    def _read(self, connection: _Connection, events: int, now: float) -> None:
        reader = connection.reader
        try:
            came, landed = reader.read()
        except EOFError:
            self._end(connection, "its worker hung up")
            return
        except (OSError, ProtocolError) as error:
            self._end(connection, str(error))
            return
        if came:
            connection.grew = now
        if landed is not None:
            connection.waits(now)
            self._channel.send(Landed(connection.number, landed))
            if not reader.is_told:
                self._epoll.modify(reader.socket, select.EPOLLRDHUP)
        elif events & _HUNG_UP and not came:
            self._end(connection, "its worker hung up")

    def _end_late(self, now: float) -> None:
        for connection in list(self._connections.values()):
            if not connection.reader.is_told:
                continue
            if now - connection.grew > _SILENCE_S:
                self._end(connection, f"nothing came for {_SILENCE_S:g} s")
            elif now - connection.since > _ANSWER_S:
                self._end(connection, f"an answer took more than {_ANSWER_S:g} s")

    def _end(self, connection: _Connection, why: str) -> None:
        end = connection.reader.socket
        self._epoll.unregister(end)
        del self._connections[connection.number], self._by_descriptor[end.fileno()]
        end.close()
        self._channel.send(Ended(connection.number, why))


def main() -> None:
    [descriptor] = inherited()
    try:
        Receiver(PrivateChannel(socket.socket(fileno=descriptor))).run()
    except Exception as error:  # for example, no memory to map an arena
        sys.exit(f"videoload receiver: {error!r}")


if __name__ == "__main__":
    main()
