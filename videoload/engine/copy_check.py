"""Answers of remote workers wait here until it is decided which copy of each video is used
(`copy_votes`). Then they are accepted or refused. All of this belongs to the I/O thread."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.engine.admission import ConnectedWorker
from videoload.engine.copy_votes import MISSING
from videoload.engine.file_checker import FileChecker
from videoload.engine.open_streams import OpenStream
from videoload.engine.rate_limited_log import RateLimitedLog
from videoload.errors import printable
from videoload.leases.commands import Command
from videoload.leases.table import LeaseTable
from videoload.storage.files import Storage
from videoload.transport.messages import Compare, Compared, Result
from videoload.transport.sockets import Peer

_log = logging.getLogger(__name__)

NO_FRAMES = np.empty((0, 0), np.int64)


class _Answer(NamedTuple):
    """An answer whose pixels are in their place. Its clips are of ``videos`` of ``stream``."""

    peer: Peer
    result: Result
    frames: npt.NDArray[np.int64]
    stream: int
    videos: tuple[int, ...]


@dataclass(eq=False)
class CopyCheck:
    """The waiting answers of a client. ``log`` is for workers with other copies. The engine carries
    out what is added to ``commands``. ``post`` has a call made in the I/O thread."""

    table: LeaseTable
    streams: Mapping[int, OpenStream]
    workers: Mapping[Peer, ConnectedWorker]
    files: FileChecker
    log: RateLimitedLog
    commands: deque[Command]
    post: Callable[[Callable[[], None]], None]
    _waiting: list[_Answer] = field(default_factory=list)

    def add(self, peer: Peer, result: Result, frames: npt.NDArray[np.int64], stream: int) -> None:
        """An answer came, and its pixels are in their place."""
        videos = self.table.videos(peer, result.lease)
        self._decide([_Answer(peer, result, frames, stream, videos)])

    def compared(self, peer: Peer, told: Compared) -> None:
        """A worker answered which copies it has."""
        stream = self.streams.get(told.stream)
        if stream is not None:
            for video, file in told.files.items():
                stream.copies.vote(video, self.workers[peer].which_copy, file, ())
            self._decide_again(stream, told.files)

    def settle_void(self) -> None:
        """Release the waiting answers whose leases have become void."""
        place, waiting = self.table.place, self._waiting
        void = [a for a in waiting if place(a.peer, a.result.lease) is None]
        if void:
            self._waiting = [a for a in waiting if a not in void]
            self._decide(void)

    def left(self, worker: ConnectedWorker) -> None:
        if worker.which_copy not in {other.which_copy for other in self.workers.values()}:
            for stream in self.streams.values():
                stream.copies.left(worker.which_copy)
            waiting, self._waiting = self._waiting, []
            self._decide(waiting)

    def _decide_again(self, stream: OpenStream, videos: Collection[int]) -> None:
        about: list[_Answer] = []
        others: list[_Answer] = []
        for answer in self._waiting:
            is_about = answer.stream == stream.id and any(v in videos for v in answer.videos)
            (about if is_about else others).append(answer)
        self._waiting = others
        self._decide(about)

    def _decide(self, answers: Sequence[_Answer]) -> None:
        """Accept or refuse each of these answers, or let it wait."""
        for answer in answers:
            peer, result, frames, _, videos = answer
            place = self.table.place(peer, result.lease)
            if place is None:  # void
                self.commands.extend(self.table.result(peer, result.lease, NO_FRAMES))
                continue
            stream = self.streams[place[0]]
            verdicts = self._verdicts(stream, answer)
            if None in verdicts and False not in verdicts:
                self._ask(stream, peer, dict(zip(videos, result.files, strict=True)))
                verdicts = self._verdicts(stream, answer)
            wrong = [v for v, right in zip(videos, verdicts, strict=True) if right is False]
            if stream.storage is not None and (again := stream.copies.to_ask_again(wrong)):
                self._waiting.append(answer)
                self._ask_own(stream, stream.storage, again)
            elif wrong:
                at = verdicts.index(False)
                path = printable(stream.catalog[videos[at]].path)
                reason = f"its copy of {path} differs from the one that this training uses"
                self.log.add(f"worker {self.workers[peer].name}: {reason}", time.monotonic())
                self.commands.extend(self.table.refused(peer, result.lease, at, reason))
            elif None in verdicts:
                self._waiting.append(answer)
            else:
                self.commands.extend(self.table.result(peer, result.lease, frames, result.decode_s))

    @staticmethod
    def _verdicts(stream: OpenStream, answer: _Answer) -> list[bool | None]:
        judge = stream.copies.judge
        return [judge(v, file) for v, file in zip(answer.videos, answer.result.files, strict=True)]

    def _ask(self, stream: OpenStream, peer: Peer, files: Mapping[int, int]) -> None:
        """Find out which copy of these videos is used: ask the trainer's own copy, or vote."""
        if own := stream.copies.to_ask_own(files):
            if stream.storage is not None:
                self._ask_own(stream, stream.storage, own)
            for video in own if stream.storage is None else ():
                stream.copies.own(video, MISSING)
        here: dict[Hashable, Peer] = {
            worker.which_copy: other
            for other, worker in self.workers.items()
            if not worker.is_child
        }
        ask: dict[Peer, dict[int, str]] = {}
        for video, file in files.items():
            mine = self.workers[peer].which_copy
            for which in stream.copies.vote(video, mine, file, list(here)):
                ask.setdefault(here[which], {})[video] = stream.catalog[video].path
        for other, paths in ask.items():
            other.send(Compare(stream.id, paths))
        decided = any(stream.copies.judge(v, file) is not None for v, file in files.items())
        if decided and self._waiting:  # others may wait for the same
            self.post(lambda: self._decide_again(stream, files))

    def _ask_own(self, stream: OpenStream, storage: Storage, videos: Sequence[int]) -> None:
        def told(files: dict[int, int]) -> None:
            for video, file in files.items():
                if stream.copies.own(video, file):
                    _log.warning("%s has changed", printable(stream.catalog[video].path))
            self._decide_again(stream, files)

        paths = {video: stream.catalog[video].path for video in videos}
        self.files.fingerprint(storage, paths, lambda files: self.post(lambda: told(files)))
