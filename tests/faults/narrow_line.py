"""A line that carries so many bytes a second towards a trainer; the other way, it is quick."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

_BUFFER = 1 << 16


class NarrowLine:
    """Listens, and passes on what comes; for one connection."""

    def __init__(self, target: str, bytes_per_s: float) -> None:
        host, _, port = target.removeprefix("tcp://").rpartition(":")
        self._target = host, int(port)
        self._rate = bytes_per_s
        self._over = threading.Event()
        self._listening = socket.socket()
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen()
        self.endpoint = f"tcp://127.0.0.1:{self._listening.getsockname()[1]}"
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._serve)]

    def __enter__(self) -> NarrowLine:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        for end in (self._listening, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        with suppress(OSError):
            worker, _ = self._listening.accept()
            trainer = socket.create_connection(self._target)
            self._ends += [worker, trainer]
            back = threading.Thread(target=self._pass_on, args=(trainer, worker, None))
            self._threads.append(back)
            back.start()
            self._pass_on(worker, trainer, self._rate)

    def _pass_on(self, source: socket.socket, to: socket.socket, rate: float | None) -> None:
        with suppress(OSError):
            while data := source.recv(_BUFFER):
                to.sendall(data)
                if rate is not None and self._over.wait(len(data) / rate):
                    return
