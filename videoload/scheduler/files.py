"""Identify the file of each video of a stream before it is decoded. Pure: no files, no clock.

Two hosts may have different files under one path: one was cut short, is another take, or is not
there. So each lease of a worker that reads another copy than the trainer contains the
*fingerprints* of its files. The worker compares before it decodes, and its answer contains the
fingerprint that it found.

               the trainer has looked, and has the file
    UNKNOWN ─────────────────────────────────────────────> OWN
       │ ^                                                  │ a worker has another file:
       │ └──────────────────────────────────────────────────┘ the trainer's may be new
       │ the trainer has none            the first answer
       └──────────────────────> ABSENT ─────────────────────> PINNED

No lease is granted for a video that is UNKNOWN. A file that the trainer cannot read now is not
missing: its video stays UNKNOWN, and the trainer tries again. See `blame` for what follows if that
takes too long. While a video is ABSENT, any copy will do, and the first one that is decoded is the
stream's copy from then on. A catalog from a scan, or a resumed run, contains fingerprints: these
are PINNED where the trainer has no file.
"""

from __future__ import annotations

import base64
import zlib
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from videoload.stopwatch import seconds_since
from videoload.worker.stall_clock import SILENT_S

UNREAD_S = 60.0  # a file that cannot be read for so long is bad: a mount that failed over is back
_OUTAGES = 64  # of a root, that are remembered
_AGAIN_S, _MAX_AGAIN_S = 0.5, 8.0  # before a file that could not be read is tried again


class UnreadableFiles:
    """The files of one stream that cannot be read now, by any worker or row: one record by path.
    Each is tried again, after pauses that grow with the time since its first failure. How long it
    cannot be read is counted while its root responds: a root that does not says nothing about its
    files. ``away_s`` is `Roots.away_s`."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[float, float]] = {}  # and `Roots.away_s` by then
        self._again: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._since)

    def failed(self, path: str, now: float, away_s: float) -> float:
        """Note that it could not be read; return for how long it cannot be read."""
        since, _ = self._since.setdefault(path, (now, away_s))
        self._again[path] = now + min(max(now - since, _AGAIN_S), _MAX_AGAIN_S)
        return self.lasts_s(path, now, away_s)

    def may_try(self, path: str, now: float) -> bool:
        """Return whether to try it now."""
        return now >= self._again.get(path, now)

    def lasts_s(self, path: str, now: float, away_s: float) -> float:
        """For how long it cannot be read; 0 if it can."""
        since, away_before_s = self._since.get(path, (now, away_s))
        return now - since - (away_s - away_before_s)

    def was_read(self, path: str) -> None:
        """Note that it was read."""
        self._since.pop(path, None)
        self._again.pop(path, None)


class Roots:
    """The roots that do not respond, to any worker: one record each, with time and error. Any
    successful read clears it. Each copy of a root is tried again after a pause."""

    def __init__(self) -> None:
        self._away: dict[str, tuple[float, str, Hashable]] = {}  # and the copy
        self._outages: dict[str, deque[tuple[float, float]]] = {}  # that are over
        self._reported: dict[str, float] = {}  # since when; see `news`
        self._again: dict[tuple[str, Hashable], float] = {}
        self._read: dict[str, float] = {}  # when a read succeeded, or there was no reader
        self._absent: dict[str, float] = {}  # since when, until any report about one of its files
        self._absent_s: dict[str, float] = {}  # before that, in all

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._away))

    def note_down(self, root: str, says: str, since: float, copy: Hashable) -> bool:
        """This copy of it does not respond; returns whether that is new."""
        is_new = root not in self._away
        self._away[root] = self._away.get(root, (since, ""))[0], says, copy
        self._absent.setdefault(root, since)
        return is_new

    def is_silent(self, root: str, what: str, since: float, now: float, copy: Hashable) -> None:
        """Note a reader that waits for this file since then: `note_down`, once that is too long for
        a slow read, and no other can read."""
        since = max(since, self._read.get(root, since))
        if now - since >= SILENT_S:
            self.note_down(root, f"{what} does not respond for {now - since:.0f} s", since, copy)

    def failed(self, root: str, says: str, now: float, copy: Hashable) -> bool:
        """Note a failed try of this copy, as `note_down`."""
        self._again[root, copy] = now + _AGAIN_S
        return self.note_down(root, says, now, copy)

    @property
    def copies_away(self) -> set[Hashable]:
        """The copies of which the last try has failed."""
        return {copy for _, copy in list(self._again)}

    @property
    def are_paused(self) -> bool:
        """Return whether some copy is paused."""
        return bool(self._again)

    def may_try(self, root: str, copy: Hashable, now: float) -> bool:
        """Return whether to try a copy of it now."""
        return not self._again or now >= self._again.get((root, copy), now)

    def responded(self, root: str, now: float) -> None:
        """It is there, whether or not a file of it can be read."""
        if (since := self._absent.pop(root, None)) is not None:
            self._absent_s[root] = self._absent_s.get(root, 0.0) + _absence_s(since, now)

    def away_s(self, root: str, now: float) -> float:
        """For how long it did not respond, in all."""
        return self._absent_s.get(root, 0.0) + _absence_s(self._absent.get(root, now), now)

    def was_read(self, root: str, copy: Hashable, now: float) -> None:
        """A read worked."""
        self.responded(root, now)
        self._read[root] = now
        if (ended := self._away.pop(root, None)) is not None:
            outages = self._outages.setdefault(root, deque(maxlen=_OUTAGES))
            outages.append((ended[0], now))
        self._again.pop((root, copy), None)

    def own_was_read(self, root: str, now: float) -> None:
        """Note that the trainer read its own copy. Reports about other copies remain."""
        if self._away.get(root, (0.0, "", None))[2] is None:
            self.was_read(root, None, now)

    def forget(self, root: str, now: float) -> None:
        """Delete a root without readers."""
        self.responded(root, now)
        self._read[root] = now
        self._away.pop(root, None)
        self._reported.pop(root, None)
        self._again = {at: until for at, until in self._again.items() if at[0] != root}

    def failure_of(self, root: str) -> tuple[float, str] | None:
        """Return since when it does not respond, and its error; None if it does."""
        return None if (found := self._away.get(root)) is None else found[:2]

    def unread_s(self, root: str, since: float, now: float) -> float:
        """Return for how long no worker could read it, since then."""
        spans = list(self._outages.get(root, ()))
        if (found := self._away.get(root)) is not None:
            spans.append((found[0], now))
        return seconds_since(spans, since)

    def news(self, now: float, who: Callable[[], str] = lambda: "") -> list[str]:
        """Return what people are to know: a root that does not respond for `SILENT_S`, once, and
        when it responds again. ``who`` returns how many workers cannot read."""
        lines = []
        for root, (since, says, _) in self._away.items():
            if now - since >= SILENT_S and root not in self._reported:
                self._reported[root] = since
                why = f"{who()}{says}; waiting for it"
                lines.append(f"no worker has read {root} for {now - since:.0f} s: {why}")
        back = sorted(self._reported.keys() - self._away.keys())
        return lines + [
            f"{root} is read again, after {now - self._reported.pop(root):.0f} s" for root in back
        ]


def _absence_s(since: float, now: float) -> float:
    """Return how long a root did not respond since then. A shorter time may be a pause of workers
    that can read it, while another one has lost its storage."""
    return max(0.0, now - since - _MAX_AGAIN_S)


class FileState(IntEnum):
    """As drawn above."""

    UNKNOWN = 0
    OWN = 1
    ABSENT = 2
    PINNED = 3


class Files:
    """The fingerprints of one stream's files, by the number of the video. 0: none.

    Attributes:
        salt: Decides which parts of long files are looked at.
    """

    def __init__(self, videos: int, *, has_own: bool, salt: int = 0) -> None:
        """``has_own``: whether the trainer may have the files itself."""
        self.salt = salt
        self._prints, self._given = np.zeros(videos, np.int64), np.zeros(videos, np.int64)
        first = FileState.UNKNOWN if has_own else FileState.ABSENT
        self._states = np.full(videos, first, np.uint8)
        self._asked: dict[int, float] = {}  # since when the trainer looks at its own copies
        self._unread: dict[int, None] = {}  # they could not be read, and are to be tried again

    def are_known(self, videos: Iterable[int]) -> bool:
        """Return whether clips of these videos may be granted."""
        return all(self._states[video] != FileState.UNKNOWN for video in videos)

    def is_own(self, video: int) -> bool:
        """Return whether the trainer has the file itself."""
        return bool(self._states[video] <= FileState.OWN and self._prints[video])

    def is_agreed(self, video: int) -> bool:
        """Return whether the right file was known before any clip: only that one can be bad."""
        return self.is_own(video) or bool(self._given[video] and self._prints[video])

    def expected(self, video: int) -> int:
        """Return the fingerprint that a copy must have; 0: any copy will do."""
        return int(self._prints[video])

    def to_ask(self, videos: Iterable[int], now: float) -> tuple[int, ...]:
        """Return the videos that were not requested yet, and mark them as requested."""
        requested = tuple(
            video
            for video in dict.fromkeys(videos)
            if self._states[video] == FileState.UNKNOWN
            if video not in self._asked
            if video not in self._unread
        )
        self._asked |= dict.fromkeys(requested, now)
        return requested

    def identified(self, video: int, fingerprint: int) -> bool:
        """Return the trainer's own copy was read; 0: it has none. Returns whether it is another
        file than before, or than a scan saw."""
        before = int(self._prints[video] or self._given[video])
        if fingerprint:
            self._states[video], self._prints[video] = FileState.OWN, fingerprint
            return before not in (0, fingerprint)
        self._prints[video] = before
        self._states[video] = FileState.PINNED if before else FileState.ABSENT
        return False

    def looked_at(self, video: int) -> bool:
        """Note that the trainer has identified its own copy. Return whether that was requested."""
        return self._asked.pop(video, None) is not None

    @property
    def longest_asked(self) -> tuple[int, float] | None:
        """Return the longest pending identification of the trainer, and since when; None if there
        is none."""
        return next(iter(self._asked.items()), None)

    def ask_later(self, video: int) -> None:
        """The trainer's own copy could not be read now."""
        self._unread[video] = None

    def to_ask_again(self, may_try: Callable[[int], bool], now: float) -> tuple[int, ...]:
        """Return the videos that could not be read, and are to be tried again now."""
        due = tuple(filter(may_try, self._unread))
        for video in due:
            del self._unread[video]
        self._asked |= dict.fromkeys(due, now)
        return due

    def first_other(self, videos: Iterable[int], files: Iterable[int]) -> int | None:
        """Return the place of the first clip that is not taken, None if all are: its file, which
        has this fingerprint, is another one than the stream's, or than that of a clip before it."""
        pinned: dict[int, int] = {}
        for at, (video, file) in enumerate(zip(videos, files, strict=True)):
            expected = self.expected(video)
            if self._states[video] == FileState.ABSENT:
                expected = pinned.setdefault(video, file)
            if not expected == file != 0:
                return at
        return None

    def pin_first(self, videos: Iterable[int], files: Iterable[int]) -> None:
        """Clips of these files are taken: each is the stream's copy from now on."""
        for video, file in zip(videos, files, strict=True):
            if self._states[video] == FileState.ABSENT:
                self._states[video], self._prints[video] = FileState.PINNED, file

    def ask_again(self, video: int) -> bool:
        """Note that a worker has another file than the trainer, whose own may have changed. Return
        whether to identify the trainer's again."""
        if self.is_own(video) and self._states[video] == FileState.OWN:
            self._states[video] = FileState.UNKNOWN
        return self.is_own(video)

    # From one training to the next

    def pinned(self) -> str:
        """Return the fingerprints of the files that the trainer does not have, as far as it has
        looked, as text for `pin`."""
        if not (prints := self._pins()).any():
            return ""
        packed = zlib.compress(prints.astype("<i8").tobytes(), 1)
        return f"{self.salt:x}:{base64.b85encode(packed).decode()}"

    def pin(self, text: str) -> None:
        """These fingerprints hold for files that the trainer does not have. Files that are known
        already stay as they are. Raises ValueError."""
        salt, _, packed = text.partition(":")
        try:
            prints = np.frombuffer(zlib.decompress(base64.b85decode(packed)), "<i8")
        except zlib.error as error:
            raise ValueError(str(error)) from None
        if len(prints) != len(self._prints):
            raise ValueError(f"{len(prints)} files, and the stream has {len(self._prints)}")
        self._give(prints, int(salt, 16))

    def pin_as(self, other: Files, at: npt.NDArray[np.int64]) -> None:
        """Pin, as `pin`, with another stream's fingerprints of the files ``at`` these places."""
        prints = np.zeros_like(self._prints)
        prints[at] = other._pins()
        self._give(prints, other.salt)

    def _pins(self) -> npt.NDArray[np.int64]:
        prints = np.where(self._states == FileState.PINNED, self._prints, 0)
        return np.where(self._states == FileState.UNKNOWN, self._given, prints)

    def _give(self, prints: npt.NDArray[np.int64], salt: int) -> None:
        if not (self._prints.any() or self._given.any()):
            self.salt = salt
        if self.salt == salt:
            self.give(prints)

    def give(self, prints: npt.NDArray[np.int64]) -> None:
        """These fingerprints, by this salt, hold for files that the trainer does not have, if none
        holds yet; 0: none."""
        self._given = np.where(self._given, self._given, prints)
        absent = (self._states == FileState.ABSENT) & (self._given != 0)
        self._prints[absent], self._states[absent] = self._given[absent], FileState.PINNED
