"""Answers of workers that dialled in wait here until it is known of which copy of each video clips
are taken (`copies`), and are taken or refused then. All of it is the I/O thread's."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.trainer.admission import ConnectedWorker
from videoload.trainer.copies import MISSING
from videoload.trainer.lease_commands import Command
from videoload.trainer.leases import LeaseTable
from videoload.trainer.open_streams import OpenStream
from videoload.trainer.own_files import OwnFiles
from videoload.trainer.rate_limited_log import RateLimitedLog
from videoload.transport.messages import Compare, Compared, Result
from videoload.transport.sockets import Peer

_log = logging.getLogger(__name__)

_NO_FRAMES = np.empty((0, 0), np.int64)


class _Answer(NamedTuple):
    """The pixels are in their place by now; ``frames`` are their ordinals."""

    peer: Peer
    result: Result
    frames: npt.NDArray[np.int64]


class CopyCheck:
    """The answers of one client that wait."""

    def __init__(
        self,
        table: LeaseTable,
        streams: Mapping[int, OpenStream],
        workers: Mapping[Peer, ConnectedWorker],
        own_files: OwnFiles,
        log: RateLimitedLog,
        *,
        execute: Callable[[list[Command]], None],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        """``log`` is told of workers with other copies; ``execute`` carries commands of the table
        out, ``post`` has a call made in the I/O thread."""
        self._table = table
        self._streams = streams
        self._workers = workers
        self._own_files = own_files
        self._log = log
        self._execute = execute
        self._post = post
        self._waiting: list[_Answer] = []

    def add(self, peer: Peer, result: Result, frames: npt.NDArray[np.int64]) -> None:
        """An answer came, and its pixels are in their place."""
        self._waiting.append(_Answer(peer, result, frames))
        self._decide()

    def compared(self, peer: Peer, told: Compared) -> None:
        """A worker told which copies it has."""
        stream = self._streams.get(told.stream)
        if stream is not None:
            for video, file in told.files.items():
                stream.copies.vote(video, self._workers[peer].which_copy, file, ())
            self._decide()

    def left(self, worker: ConnectedWorker) -> None:
        """This worker is connected no more."""
        if worker.which_copy not in {other.which_copy for other in self._workers.values()}:
            for stream in self._streams.values():
                stream.copies.left(worker.which_copy)
            self._decide()

    def _decide(self) -> None:
        """Take or refuse the answers of which it is known by now what copies they are of."""
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            peer, result, frames = answer
            place = self._table.place(peer, result.lease)
            if place is None:  # void
                self._execute(self._table.result(peer, result.lease, _NO_FRAMES))
                continue
            stream = self._streams[place[0]]
            videos = self._table.videos(peer, result.lease)
            verdicts = [
                stream.copies.judge(video, file)
                for video, file in zip(videos, result.files, strict=True)
            ]
            doubted = [v for v, right in zip(videos, verdicts, strict=True) if right is False]
            if stream.storage is not None and (anew := stream.copies.to_ask_anew(doubted)):
                self._waiting.append(answer)
                self._ask_own(stream, anew)
            elif doubted:
                at = verdicts.index(False)
                path = stream.catalog[videos[at]].path
                reason = f"its copy of {path} is another one than that of this training"
                self._log.add(f"worker {self._workers[peer].name}: {reason}", time.monotonic())
                self._execute(self._table.refused(peer, result.lease, at, reason))  # it may end it
            elif None in verdicts:
                self._waiting.append(answer)
                self._ask(stream, peer, dict(zip(videos, result.files, strict=True)))
            else:
                stream.note_rates(videos, result.rates)
                self._execute(self._table.result(peer, result.lease, frames, result.decode_s))

    def _ask(self, stream: OpenStream, peer: Peer, files: Mapping[int, int]) -> None:
        """Find out which copy of these videos is taken: by the trainer's own, or by a vote."""
        if own := stream.copies.to_ask_own(files):
            self._ask_own(stream, own)
        here: dict[Hashable, Peer] = {
            worker.which_copy: other
            for other, worker in self._workers.items()
            if not worker.is_child
        }
        ask: dict[Peer, dict[int, str]] = {}
        for video, file in files.items():
            mine = self._workers[peer].which_copy
            for which in stream.copies.vote(video, mine, file, list(here)):
                ask.setdefault(here[which], {})[video] = stream.catalog[video].path
        for other, paths in ask.items():
            other.send(Compare(stream.id, paths))
        if any(stream.copies.judge(video, file) is not None for video, file in files.items()):
            self._post(self._decide)

    def _ask_own(self, stream: OpenStream, videos: Sequence[int]) -> None:
        def told(files: dict[int, int]) -> None:
            for video, file in files.items():
                if stream.copies.own(video, file):
                    _log.warning("%s has changed", stream.catalog[video].path)
            self._decide()

        if stream.storage is None:
            self._post(lambda: told(dict.fromkeys(videos, MISSING)))
        else:
            paths = {video: stream.catalog[video].path for video in videos}
            self._own_files.ask(
                stream.storage, paths, lambda files: self._post(lambda: told(files))
            )
