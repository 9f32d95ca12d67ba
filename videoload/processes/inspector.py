"""Child processes that look at video files, one file at a time.

A file may crash FFmpeg, or hang it. Then it takes an inspector along, and not the trainer or the
scan that wants to know the file.

    this process                    child
      [root, cache, complete] ───>
      a path                  ───>
                              <───  null, again and again: it makes progress
                              <───  the facts; or {"damage": ...} or {"storage": ...}
      the next path           ───>
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from videoload import native
from videoload.errors import StorageError, VideoError, WorkerError, errors_in
from videoload.processes.child import ChildProcess, end_all, inherited
from videoload.processes.still_time import StillTime
from videoload.storage.content import fingerprint_text
from videoload.storage.keep import Folders
from videoload.storage.paths import pieces_of

if TYPE_CHECKING:
    from videoload.decoding.decoder import Decoder
    from videoload.index.complete_decode import Report
    from videoload.index.index import VideoIndex

_MODULE = "videoload.processes.inspector"
_BEAT_S = 0.25
WAIT_S = 1.0
_START_S = 30.0  # for its imports


class Inspector:
    """One child process and the file that it looks at. Ends when it is closed."""

    def __init__(
        self, root: str, cache: str | None, *, is_complete: bool, silence_s: float
    ) -> None:
        """``cache`` is the folder of an `IndexCache`; ``is_complete``: each file is decoded to its
        end, for all facts, and not only as far as its size needs. A child without progress for
        ``silence_s`` hangs, and is killed. Raises WorkerError."""
        mine, theirs = socket.socketpair()
        self.pipe = Connection(mine.detach())
        self._child = ChildProcess(_MODULE, theirs)
        self._limit_s, self._silence_s = max(_START_S, silence_s), silence_s
        self._still, self._answers = StillTime(WAIT_S), 0
        self.hangs = False
        self._send([root, cache, is_complete])

    def ask(self, path: str) -> None:
        self.path = path
        self._answers += 1
        self._still.look(self._answers)
        self._send(path)

    def answer(self, timeout_s: float = 0.0) -> dict[str, Any] | None:
        """Facts of the file; only ``damage`` if it cannot be decoded; None if the child is still at
        work after ``timeout_s``, `WAIT_S` at most. Raises StorageError, and WorkerError if no child
        can run here."""
        try:
            if self.pipe.poll(timeout_s):
                answer: dict[str, Any] | None = json.loads(self.pipe.recv_bytes())
                self._answers += 1
                self._still.look(self._answers)
                self._limit_s = self._silence_s
                if answer is not None and "storage" in answer:  # the file is not at fault
                    raise StorageError(answer["storage"])
                return answer
        except (EOFError, ConnectionError):
            status = self._child.wait(self._limit_s)
            if status is None or status >= 0:  # no crash
                raise WorkerError(
                    f"the process that looks at video files gave up with exit status {status}; see "
                    "what it printed"
                ) from None
            return {"damage": f"its decoding ended the decoder ({self._child.how})"}
        if self._still.look(self._answers) < self._limit_s:
            return None
        self.hangs = True
        end_all([self._child])
        return {"damage": f"its decoding hangs: nothing came of it for {self._limit_s:g} s"}

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked for another file."""
        return self._child.status is None

    def close(self) -> None:
        """End the child, whatever it is doing."""
        end_all([self._child])
        self.pipe.close()

    def _send(self, what: object) -> None:
        with suppress(OSError):  # it has ended: `answer` finds that out
            self.pipe.send_bytes(json.dumps(what).encode())


def ask_all(
    paths: Iterable[str], processes: int, start: Callable[[], Inspector]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Ask so many inspectors about all paths. Yields each path with its answer, as they come."""
    waiting = iter(paths)
    inspectors: list[Inspector] = []

    def begin(path: str) -> None:
        inspectors.append(start())
        inspectors[-1].ask(path)

    try:
        for path in islice(waiting, processes):
            begin(path)
        while inspectors:
            wait([inspector.pipe for inspector in inspectors], timeout=WAIT_S)
            for inspector in list(inspectors):
                if (answer := inspector.answer()) is None:
                    continue
                yield inspector.path, answer
                following = next(waiting, None)
                if following is not None and inspector.is_alive:
                    inspector.ask(following)
                    continue
                inspectors.remove(inspector)
                inspector.close()
                if following is not None:
                    begin(following)
    finally:
        for inspector in inspectors:
            inspector.close()


def serve(pipe: Connection) -> None:
    """The child: answers until nobody asks any more."""
    from videoload.decoding.decoder import Decoder  # which a trainer does not load

    said = time.monotonic()

    def say(answer: dict[str, Any] | None) -> None:
        nonlocal said
        pipe.send_bytes(json.dumps(answer).encode())
        said = time.monotonic()

    def tick() -> None:
        if time.monotonic() - said > _BEAT_S:
            say(None)

    with suppress(EOFError, OSError):
        root, cache, is_complete = json.loads(pipe.recv_bytes())
        decoder = Decoder(root, folders=Folders(cache=cache))
        look = _facts if is_complete else _size
        while True:
            path = json.loads(pipe.recv_bytes())
            say(None)
            try:
                answer = look(decoder, path, tick)
            except VideoError as error:
                answer = {"damage": error.reason}
            except StorageError as error:
                answer = {"storage": str(error)}
            say(answer)


def _size(decoder: Decoder, path: str, tick: Callable[[], None]) -> dict[str, Any]:
    """What the size of a clip depends on."""
    info = decoder.info(path, tick)
    return {"width": info.width, "height": info.height, "turns": info.turns}


def _facts(decoder: Decoder, path: str, tick: Callable[[], None]) -> dict[str, Any]:
    files = pieces_of(path)
    found, damage = [], []
    for file in files:
        with errors_in(path, f"piece {file}") if len(files) > 1 else nullcontext():
            index, report = decoder.report(file, tick)
        found.append((index, report))
        if damaged := "; ".join(_damage(index, report)):
            damage.append(f"{file}: {damaged}" if len(files) > 1 else damaged)
    info = decoder.info(path, tick)
    return {
        "frames": info.frames, "width": info.width, "height": info.height,
        "fps": round(float(info.fps), 4), "container": report.container.split(",")[0],
        "codec": report.codec, "pixels": report.pixels,
        "header_frames": sum(report.header_frames for _, report in found),
        "packets": sum(report.packets for _, report in found),
        "key_frames": sum(len(index.order.starts) for index, _ in found),
        "sound": max(decoder.sound(file, tick) for file in files), "damage": "; ".join(damage),
        "fingerprint": fingerprint_text(decoder.fingerprint(path)),
    }  # fmt: skip


def _damage(index: VideoIndex, report: Report) -> Iterator[str]:
    """What is wrong with a file that can be decoded."""
    if report.refused:
        yield f"{report.refused} of {report.packets} packets cannot be decoded"
    if report.repaired:
        yield f"{report.repaired} frames were repaired"
    if index.info.frames != report.frames:
        yield f"{report.frames} of {index.info.frames} pictures come out"


if __name__ == "__main__":
    [descriptor] = inherited()
    native.limit_memory()
    serve(Connection(descriptor))
