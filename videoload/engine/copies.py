"""Which copy of each video a stream takes its clips from. Pure: no files, no sockets, no clock.

Two hosts may have copies of a file that differ: one was cut short, or is of another take. Workers
tell with each clip which file it came of (a *fingerprint*), and a stream takes clips of one copy
only, never a mixture. Which one is decided before its first clip is taken:

  * where the trainer has a copy of its own, it is that one;
  * else the majority's, of up to three copies that are there; where they are even, that of the
    worker that was first.

What is decided costs 8 bytes a video.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np

_VOTES = 3
MISSING = 0  # the fingerprint of a file that is not there


@dataclass(slots=True)
class _Election:
    votes: dict[Hashable, int] = field(default_factory=dict)  # of a copy, its fingerprint
    asked: set[Hashable] = field(default_factory=set)  # copies that have not answered yet


class Copies:
    """The fingerprints that a stream has decided on, by the index of the video."""

    def __init__(self, videos: int) -> None:
        self._agreed = np.zeros(videos, np.int64)
        self._own: set[int] = set()  # asked of the trainer's own copy
        self._asked_anew: set[int] = set()
        self._elections: dict[int, _Election] = {}

    def judge(self, video: int, fingerprint: int) -> bool | None:
        """Whether a clip of a copy with this fingerprint is taken; None: not decided yet."""
        agreed = int(self._agreed[video])
        return None if agreed == MISSING else agreed == fingerprint

    def to_ask_own(self, videos: Iterable[int]) -> list[int]:
        """Of these videos, those of which the trainer's own copy was not asked for yet."""
        unknown = [
            video
            for video in dict.fromkeys(videos)
            if not (self._agreed[video] or video in self._own or video in self._elections)
        ]
        self._own.update(unknown)
        return unknown

    def to_ask_anew(self, videos: Iterable[int]) -> list[int]:
        """Of these videos, of which a worker has another copy, those whose file may have changed
        since it was asked for: each is asked once more."""
        anew = [video for video in dict.fromkeys(videos) if video not in self._asked_anew]
        self._asked_anew.update(anew)
        return anew

    def own(self, video: int, fingerprint: int) -> bool:
        """The trainer's own copy; `MISSING` if it has none. Whether it has changed since."""
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
        """A copy's fingerprint, where the trainer has none of its own; ``others``: the copies that
        may be asked. Returns those to ask."""
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
        """No worker of this copy is there any more: its answers are not waited for."""
        for video, election in list(self._elections.items()):
            if copy in election.asked:
                election.asked.discard(copy)
                self._count(video, election)

    def _count(self, video: int, election: _Election) -> None:
        if not election.asked and election.votes:
            votes = list(election.votes.values())
            self._decide(video, max(votes, key=votes.count))  # of those that are even, the first

    def _decide(self, video: int, fingerprint: int) -> None:
        self._agreed[video] = fingerprint
        self._elections.pop(video, None)
