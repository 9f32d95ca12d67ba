"""Which copy of each video a stream uses. Pure: no files, no sockets, no clock.

Two hosts may have different copies of a file: one was cut short, or is another take. With each
clip, workers send a *fingerprint* of its file. A stream uses clips of one copy only. Which copy is
decided before its first clip is used:

  * If the trainer has a copy of its own, that copy is used.
  * Otherwise up to three copies vote with their fingerprints. The majority wins, and the worker
    that came first if there is no majority.

A decision takes 8 bytes per video.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np

_VOTES = 3
MISSING = 0  # the fingerprint of a file that does not exist


@dataclass(slots=True)
class _Election:
    votes: dict[Hashable, int] = field(default_factory=dict)  # the fingerprint of each copy
    asked: set[Hashable] = field(default_factory=set)  # copies that have not answered yet


class CopyVotes:
    """The votes and decisions of one stream. Videos are given by their index."""

    def __init__(self, videos: int) -> None:
        self._agreed = np.zeros(videos, np.int64)
        self._own: set[int] = set()  # the trainer's own copy was asked
        self._asked_again: set[int] = set()
        self._elections: dict[int, _Election] = {}

    def judge(self, video: int, fingerprint: int) -> bool | None:
        """Whether clips of the copy with this fingerprint are used; None: not decided yet."""
        agreed = int(self._agreed[video])
        return None if agreed == MISSING else agreed == fingerprint

    def to_ask_own(self, videos: Iterable[int]) -> list[int]:
        """The ones of these videos for which the trainer's own copy must be asked now."""
        unknown = [
            video
            for video in dict.fromkeys(videos)
            if not (self._agreed[video] or video in self._own or video in self._elections)
        ]
        self._own.update(unknown)
        return unknown

    def to_ask_again(self, videos: Iterable[int]) -> list[int]:
        """A worker has another copy of these videos. Returns the ones whose own file may have
        changed; each video is returned once."""
        again = [video for video in dict.fromkeys(videos) if video not in self._asked_again]
        self._asked_again.update(again)
        return again

    def own(self, video: int, fingerprint: int) -> bool:
        """The trainer's own copy was read; `MISSING` if it has none. Returns whether the file has
        changed."""
        self._own.discard(video)
        before = int(self._agreed[video])
        if fingerprint != MISSING:
            self._decide(video, fingerprint)
        elif before == MISSING:
            self._elections.setdefault(video, _Election())
        return before != MISSING and fingerprint not in (MISSING, before)

    def vote(
        self, video: int, copy: Hashable, fingerprint: int, others: Collection[Hashable]
    ) -> list[Hashable]:
        """A copy votes, if the trainer has no copy of its own. Returns those of the ``others`` that
        must be asked as well."""
        election = self._elections.get(video)
        if election is None:
            return []
        election.asked.discard(copy)
        if fingerprint != MISSING:
            election.votes[copy] = fingerprint
        known = {*election.votes, *election.asked, copy}
        ask = [other for other in others if other not in known][: max(0, _VOTES - len(known))]
        election.asked.update(ask)
        self._count(video, election)
        return ask

    def left(self, copy: Hashable) -> None:
        """No worker with this copy is connected any more, so its votes will not come."""
        for video, election in list(self._elections.items()):
            if copy in election.asked:
                election.asked.discard(copy)
                self._count(video, election)

    def _count(self, video: int, election: _Election) -> None:
        if not election.asked and election.votes:
            votes = list(election.votes.values())
            self._decide(video, max(votes, key=votes.count))  # the first of equal ones

    def _decide(self, video: int, fingerprint: int) -> None:
        self._agreed[video] = fingerprint
        self._elections.pop(video, None)
