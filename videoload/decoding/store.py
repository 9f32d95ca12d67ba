"""Scaled frames in files that all processes of a host share: no frame is decoded twice.

    FOLDER/videoload-frames/5c1e.../              a set: one root, one way of scaling, one version
                                                  of the software and of our code
    FOLDER/videoload-frames/5c1e.../set.json      what the set is, for people
    FOLDER/videoload-frames/5c1e.../3f9a41...     one video (see `stored_video`)

Nothing rests on the store. Anybody may delete any of it at any time. A frame whose checksum does
not match is decoded again, and so is all that cannot be read or written.
"""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TypeVar

from videoload.decoding.store_pace import StorePace
from videoload.decoding.stored_video import Head, StoredVideo
from videoload.logs import Log
from videoload.storage.cache_directories import DiskQuota
from videoload.storage.files import Tick

T = TypeVar("T")

_log = Log(__name__)

_ABOUT = "set.json"
_ALL = ".all"  # the name of a set whose videos have room reserved for all frames
_PAUSE_S = 5.0  # after a failure, the disk is left alone for so long
_TRIES = 2  # to find room: once more after some was made
_DESCRIBE_S = 600.0  # a set that is used says so this often
TOLD_AFTER = 1000  # times that a slow disk was not used, until it is said
_MAKE_ROOM_S = 1.0  # the most that a clip waits for a deletion; deletions go on with other clips
_IN_USE_S = 3600.0  # a set that was used within this time makes room for no other


class Scaling(NamedTuple):
    """How the frames of a set are scaled. ``all_frames``: sooner or later all frames of a video are
    asked for, so room is reserved for all of them at once."""

    text: str
    all_frames: bool


class FrameStore:
    """The kept frames of the videos under one root. Nothing here raises for what the disk does:
    a store that cannot be used keeps nothing, and says so once. One on a slow disk keeps what the
    disk takes in a part of the ``pace``.

    Room is taken for what is written, before it is written, from what all sets and processes share.
    """

    def __init__(self, folder: Path, max_bytes: int, root: str, software: str) -> None:
        """``folder``: it has nothing else. ``max_bytes``: for all sets and processes together.
        ``software``: whatever decides the pixels."""
        self._folder = folder
        self._root, self._software = root, software
        self._room = DiskQuota(self._folder, max_bytes, self._measure)
        self._sets: dict[Scaling, Path] = {}
        self._describe_at: dict[Scaling, float] = {}
        self._read_again_at = self._write_again_at = 0.0  # after a failure
        self._full_until = 0.0
        self._logged: set[str] = set()
        self._skipped = 0
        self.pace = StorePace()
        self.decode_s = math.inf  # that the last frames took to be decoded and scaled
        # Called after each video that is counted: for a large store on a slow disk, that may take
        # longer than a worker may be silent. It may raise.
        self.tick: Tick = lambda: None

    def open(self, path: str, identity: bytes, scaling: Scaling) -> StoredVideo | None:
        """The file of a video, if there is one of the video file that has this identity."""
        if time.monotonic() < self._read_again_at or not self.has_time:
            return None
        try:
            return StoredVideo.open(self._path(path, scaling), identity)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.failed_to_read(error)
            return None

    def create(
        self, path: str, scaling: Scaling, head: Head, ordinals: Sequence[int]
    ) -> StoredVideo | None:
        """A new file for a video, if there is room for the frames that are to be written."""
        parts = [range(head.file_bytes)] if scaling.all_frames else head.parts(ordinals, new=True)

        def create() -> StoredVideo | None:
            if not (self._set(scaling) / _ABOUT).exists():  # somebody deleted it
                self._describe(self._set(scaling), scaling)
            video = StoredVideo.create(self._path(path, scaling), head)
            if video is not None and not scaling.all_frames:
                video.allocate(parts)
            return video

        return self._if_there_is_room(parts, scaling, create)

    def takes(self, video: StoredVideo, scaling: Scaling, ordinals: Sequence[int]) -> bool:
        """Whether there is room for these frames in the file of a video, which is then taken."""
        if not video.is_writable:
            self.failed_to_write(OSError(errno.EROFS, ""))
        if time.monotonic() < self._write_again_at:
            return False
        if scaling.all_frames:  # room was taken when the file was made
            try:
                return not self._room.is_over
            except OSError:
                return False
        parts = video.head.parts(ordinals)
        return bool(self._if_there_is_room(parts, scaling, lambda: video.allocate(parts)))

    def _if_there_is_room(
        self, parts: Sequence[range], scaling: Scaling, use: Callable[[], T]
    ) -> T | None:
        """What ``use`` returns, which takes these parts of the disk; None if they are too many."""
        size = sum(map(len, parts))
        try:
            for _ in range(_TRIES):
                if not self.has_room:
                    break
                try:
                    with self._room.take(size) as has_room:
                        if has_room:
                            return use()
                except FileNotFoundError:  # the store was deleted
                    self._describe(self._set(scaling), scaling)
                    continue
                if not self._make_room(self._set(scaling)):
                    self._full_until = time.monotonic() + self._room.pause_s
                    self.tell("is full; videos that are not in it are decoded each time")
        except TimeoutError as error:
            self.tell(f"keeps no new frames for now: {error.strerror}")
        except OSError as error:
            self.failed_to_write(error)
        return None  # if something was deleted, more is deleted for the next videos

    @property
    def has_room(self) -> bool:
        """Whether more frames may be kept, as far as this process knows."""
        free = time.monotonic() >= max(self._full_until, self._write_again_at)
        return free and self.has_time

    @property
    def is_full(self) -> bool:
        """Whether it has just had no room for a video."""
        return time.monotonic() < self._full_until

    @property
    def has_time(self) -> bool:
        """Whether the disk may be used now, by its pace."""
        if self.pace.has_time:
            return True
        self._skipped += 1
        if self._skipped == TOLD_AFTER:
            self.tell(f"is on a slow disk: {TOLD_AFTER} times, frames were decoded meanwhile")
        return False

    def failed_to_read(self, error: OSError) -> None:
        """Reading raised this: nothing is read or written for a while."""
        self._read_again_at = time.monotonic() + _PAUSE_S
        self.failed_to_write(error)

    def failed_to_write(self, error: OSError) -> None:
        """Writing raised this: nothing is written for a while."""
        self._write_again_at = time.monotonic() + _PAUSE_S
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            self.tell("has no room on its disk; frames are decoded")
        elif error.errno == errno.EROFS:
            self.tell("can only be read; frames that are not in it are decoded")
        else:
            self.tell(f"cannot be used: {error.strerror or error}; frames are decoded")

    def tell(self, what: str) -> None:
        """Log it, once."""
        if what not in self._logged:
            self._logged.add(what)
            _log.warning("the frame store %s %s", self._folder, what)

    def _path(self, path: str, scaling: Scaling) -> Path:
        number = blake2b(path.encode(errors="surrogateescape"), digest_size=16).hexdigest()
        return self._set(scaling) / number

    def _set(self, scaling: Scaling) -> Path:
        known = self._sets.get(scaling)
        if known is None:
            text = f"{self._root}\n{scaling.text}\n{self._software}"
            number = blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()
            name = number + (_ALL if scaling.all_frames else "")
            known = self._sets[scaling] = self._folder / name
        if time.monotonic() >= self._describe_at.get(scaling, -math.inf):
            self._describe_at[scaling] = time.monotonic() + _DESCRIBE_S
            with suppress(OSError):
                self._describe(known, scaling)
        return known

    def _describe(self, folder: Path, scaling: Scaling) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = {"root": self._root, "scaling": scaling.text, "software": self._software}
        (folder / _ABOUT).write_text(json.dumps(about))  # its time of change: when it was used last

    def _make_room(self, but: Path) -> bool:
        """Delete of the set that was used longest ago, if nobody uses it. False: there is none that
        can be deleted."""
        until = time.monotonic() + _MAKE_ROOM_S
        for _, left in sorted(self._left_behind(but)):
            with suppress(OSError):
                if _delete(left, until):
                    self._room.deleted()
                    return True
        return False

    def _left_behind(self, but: Path) -> Iterable[tuple[float, Path]]:
        for about in self._folder.glob(f"*/{_ABOUT}"):
            with suppress(OSError):
                used = about.stat().st_mtime
                if about.parent != but and time.time() - used > _IN_USE_S:
                    yield used, about.parent

    def _measure(self) -> int:
        """The bytes that all videos in the store have reserved."""
        total = 0
        for about in self._folder.glob(f"*/{_ABOUT}"):
            is_all = about.parent.name.endswith(_ALL)
            for file in _videos_in(about.parent):
                with suppress(FileNotFoundError):  # it has just been deleted
                    found = file.stat(follow_symlinks=False)
                    total += found.st_size if is_all else 512 * found.st_blocks
                self.tick()
        return total


def _videos_in(one: Path) -> Iterator[os.DirEntry[str]]:
    """The files of a set's videos."""
    with suppress(OSError), os.scandir(one) as files:
        yield from (file for file in files if file.name != _ABOUT)


def _delete(one: Path, until: float) -> bool:
    """Delete a set, or as much of it as can be deleted until this time of the monotonic clock: a
    disk may take minutes for it. A set whose deletion was stopped still has its description.
    Returns whether something was deleted. Raises OSError."""
    deleted = False
    for file in _videos_in(one):
        if time.monotonic() >= until:
            return deleted
        Path(file).unlink(missing_ok=True)
        deleted = True
    shutil.rmtree(one)
    return True
